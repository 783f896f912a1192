//! What `tasuki launch` goes by: which programs it can start and how each is told its role, what
//! is configured, and what is done when a session ends. Pure.
//!
//! Not here: starting anything, and asking node or broker (`cli::launch`).

pub mod program;
pub mod quota;
pub mod session;
pub mod settings;
