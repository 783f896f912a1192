//! Chance that can be had again.

/// Numbers that a seed decides.
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn new(salt: u64) -> Self {
        let fresh = || getrandom::u64().unwrap() >> 32;
        let seed = std::env::var("TASUKI_SEED").map_or_else(|_| fresh(), |it| it.parse().unwrap());
        anstream::println!("TASUKI_SEED={seed}");
        Self(seed.wrapping_add(salt << 32))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
