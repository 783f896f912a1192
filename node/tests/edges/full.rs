//! A node whose disk is full.
