//! Prints what is known of the bottlenecks of this host, or of one interface, as JSON:
//! `cargo run --example model -- eth0`.

use std::process::ExitCode;

use weir_kernel::model::Model;

fn main() -> ExitCode {
    let device = std::env::args().nth(1);
    match Model::read(device.as_deref()) {
        Ok(model) => match serde_json::to_string_pretty(&model) {
            Ok(json) => {
                println!("{json}");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        },
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("model: {error}");
    ExitCode::FAILURE
}
