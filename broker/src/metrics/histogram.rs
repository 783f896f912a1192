//! How often a value was in which range.

use std::fmt;

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

use super::Counter;

/// Ranges of a histogram, the last of which has no end.
const BUCKETS: usize = 16;

/// Where ranges end, each value included, and how many of what is observed make one of what is
/// told.
#[derive(Debug)]
pub struct Scale {
    ends: [u64; BUCKETS - 1],
    per_unit: f64,
}

/// Microseconds, told in seconds: from what a call takes in memory to what a sick disk takes.
pub static TIMES: Scale = Scale {
    ends: [
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 10_000_000,
    ],
    per_unit: 1e6,
};

/// Milliseconds, told in seconds: from an agent that waits to one that comes back next week.
pub static LAGS: Scale = Scale {
    ends: [
        5,
        10,
        25,
        50,
        100,
        500,
        1_000,
        5_000,
        15_000,
        60_000,
        300_000,
        900_000,
        3_600_000,
        86_400_000,
        604_800_000,
    ],
    per_unit: 1e3,
};

/// Numbers of things.
pub static SIZES: Scale = Scale {
    ends: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384],
    per_unit: 1.0,
};

/// Counts values by range.
#[derive(Debug)]
pub struct Histogram {
    scale: &'static Scale,
    counts: [Counter; BUCKETS],
    sum: Counter,
}

impl Histogram {
    pub fn new(scale: &'static Scale) -> Self {
        Self { scale, counts: Default::default(), sum: Counter::default() }
    }

    pub fn observe(&self, value: u64) {
        let range = self.scale.ends.partition_point(|end| *end < value);
        self.counts[range].add(1);
        self.sum.add(value);
    }

    /// Whether nothing was observed.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.get() == 0)
    }

    /// How many values there were, and their sum.
    pub fn total(&self) -> (u64, u64) {
        (self.counts.iter().map(Counter::get).sum(), self.sum.get())
    }

    pub(super) fn encode(&self, mut to: MetricEncoder<'_>) -> fmt::Result {
        let Scale { ends, per_unit } = self.scale;
        let ends = ends.iter().map(|end| *end as f64 / per_unit).chain([f64::INFINITY]);
        let buckets: Vec<_> = ends.zip(self.counts.iter().map(Counter::get)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.sum.get() as f64 / per_unit;
        to.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_range_that_it_fits() {
        for scale in [&TIMES, &LAGS, &SIZES] {
            assert!(scale.ends.is_sorted_by(|one, other| one < other), "{scale:?}");
        }
        let histogram = Histogram::new(&SIZES);
        assert!(histogram.is_empty());
        for value in [0, 1, 2, 3, 16_384, 16_385, u64::MAX / 2] {
            histogram.observe(value);
        }
        let counts: Vec<u64> = histogram.counts.iter().map(Counter::get).collect();
        assert_eq!(counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(histogram.total(), (7, 1 + 2 + 3 + 16_384 + 16_385 + u64::MAX / 2));
    }
}
