//! JSON lines on standard input and output: how programs in any language use the bus until there is HTTP.
//!
//! Nothing here opens a file or ends the process: each role's `run` works on what it is given.

pub mod data_plane;
