//! `dead-letters list` and `dead-letters replay`.

mod draft;
mod letter;
mod list;
mod newest;
mod replay;
mod selection;

pub use letter::Letter;
pub use list::list;
pub use replay::{Answer, Append, Outcome, replay};
pub(super) use selection::bucket_of;
pub use selection::{ReplayArgs, Selection};
