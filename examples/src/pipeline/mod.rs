//! What the example of a pipeline calls: what a VB6 module depends on, whether Java can be parsed,
//! and a server of MCP that offers such a function as a tool.
//!
//! Not here: the programs (`examples/pipeline`).

pub mod java;
pub mod tool_server;
pub mod vb6;
