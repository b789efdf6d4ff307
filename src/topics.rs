//! topics
