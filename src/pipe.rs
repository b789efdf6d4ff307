//! pipe
