//! Arguments, logging, wiring, exit code.
fn main() {}
