//! Standard input and output as a surface: one JSON line per message, and a program per message.
//!
//! A controller's messages are written as lines, or given to a program; what is in a line is the same either
//! way. It does not know Kafka: handlers are called by `owner`.

mod command;
mod line;
mod lines;
mod writer;

pub use command::CommandHandler;
pub use lines::LinesHandler;
pub use writer::{Closed, Lines, Writer};
