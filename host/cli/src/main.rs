//! Placeholder until the commands exist.
fn main() {}
