//! Starts, stops, and what holds between them.
