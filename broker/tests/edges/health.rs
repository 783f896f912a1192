//! health
