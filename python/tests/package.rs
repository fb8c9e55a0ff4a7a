//! Nothing: it is there so that `cargo test --features weirnet-python/tested` builds the module with all tests
//! (tools/python.sh). The tests are in Python, beside this file.
