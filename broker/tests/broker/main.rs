//! The broker as its callers meet it, and the rules as a model.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod api;
mod architecture;
mod defects;
mod guard;
mod layers;
mod mail;
mod model;
mod pages;
mod private;
mod races;
mod support;
mod tidy;
