//! The `control-bus` program.

fn main() {}
