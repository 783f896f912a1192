//! The machine that a program runs on: its files, its user's settings, its logs.
//!
//! Shared by broker and node. Nothing here knows the API, roles or workspaces.

pub mod admin;
pub mod checked;
pub mod config;
pub mod dashboard;
pub mod files;
pub mod location;
pub mod logs;
pub mod port_owner;
pub mod progress;
pub mod trust;
pub mod unwritable;
