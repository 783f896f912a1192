//! Callers that mean harm, or know no better.
