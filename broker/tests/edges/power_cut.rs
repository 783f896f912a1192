//! power_cut
