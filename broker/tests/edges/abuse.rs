//! abuse
