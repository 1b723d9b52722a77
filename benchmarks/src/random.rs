//! Numbers that look random and are the same in every process.

use arrow_buffer::{ArrowNativeType, ScalarBuffer};

/// SplitMix64: fast, good enough to defeat compression and prediction, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so that nothing has to be unwrapped"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// So many values, each made of one number.
    pub fn values<T: ArrowNativeType>(
        &mut self,
        rows: usize,
        value: impl Fn(u64) -> T,
    ) -> ScalarBuffer<T> {
        (0..rows).map(|_| value(self.next())).collect()
    }
}
