//! JSON lines on standard input and output, and a program per message: how programs in any language use the
//! bus until there is HTTP.
//!
//! A controller's messages are written as lines, or given to a program; what is in a line is the same either
//! way. A data-plane process's input lines are published and answered. Nothing here opens a file or ends the
//! process, and nothing knows Kafka.

mod command;
pub mod data_plane;
mod line;
mod lines;
mod writer;

pub use command::CommandHandler;
pub(crate) use line::json_data;
pub use lines::LinesHandler;
pub use writer::{Closed, Lines, Writer};
