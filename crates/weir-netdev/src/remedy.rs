//! What mends a program that could not be started, by what the kernel said of it.

use std::io;

/// The end of a message about `ip` or `tc`: a remedy after a semicolon, or nothing where none is known.
pub fn to_start(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        _ if error.kind() == io::ErrorKind::NotFound => "; install iproute2",
        Some(libc::EMFILE) => "; this process may open too few files: raise its limit with `ulimit -n 65536`",
        Some(libc::ENFILE) => {
            "; the system has too many open files: raise its limit with `sysctl fs.file-max`"
        }
        Some(libc::EAGAIN) => "; there are too many processes: raise the limit with `ulimit -u`",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::process::Command;

    use super::to_start;

    #[test]
    fn only_what_is_missing_is_to_be_installed() {
        let missing = Command::new("/no/such/program").spawn().unwrap_err();
        assert_eq!(to_start(&missing), "; install iproute2");
        for number in [libc::EMFILE, libc::ENFILE, libc::EACCES, libc::ENOMEM, libc::EAGAIN] {
            let said = to_start(&io::Error::from_raw_os_error(number));
            assert!(!said.contains("install"), "{number}: {said}");
        }
        assert!(to_start(&io::Error::from_raw_os_error(libc::EMFILE)).contains("ulimit -n"));
    }
}
