//! From the times at which messages were posted to the columns of the table.
//!
//! The definitions are ib_send_lat's, so that the two programs' rows can be
//! compared:
//!
//! * a sample is the time between two successive sends of one side, one whole
//!   round trip; `n` messages give `n - 1` samples, the first included;
//! * every value is half of that, in microseconds;
//! * the two slowest samples are taken for interruptions of the machine: they
//!   do not enter the average, the deviation, the median or the percentiles'
//!   ranks, and `t_max` is the slower of the two that is left when the slowest
//!   of all is dropped. `-U` shows every sample.
//!
//! One thing differs: ib_send_lat cuts each deviation to whole microseconds
//! before it squares it, here `t_stdev` is the plain standard deviation.
//!
//! `t_min`, `t_max`, `t_typical`, `t_avg` and `t_stdev` are exact to the
//! clock's nanosecond. The percentiles come from an HDR histogram with four
//! significant digits: they are at most 0.01 % above the sample they stand for,
//! and never above `t_max`.

use hdrhistogram::Histogram;

/// The slowest samples, which are left out as in ib_send_lat.
pub const TAIL: usize = 2;

/// The fewest messages that leave something to report on.
pub const MIN_ITERATIONS: usize = TAIL + 3;

/// Significant decimal digits that the histogram keeps.
const DIGITS: u8 = 4;

/// Whole round trips of one side for one message size, in the order in which
/// they happened, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Samples {
    size: usize,
    iterations: usize,
    round_trips: Vec<u64>,
}

/// One row of the table; times in microseconds, half a round trip each.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub size: usize,
    pub iterations: usize,
    pub t_min: f64,
    pub t_max: f64,
    pub t_typical: f64,
    pub t_avg: f64,
    pub t_stdev: f64,
    pub percentile_99: f64,
    pub percentile_99_9: f64,
}

/// Half of a round trip in microseconds.
fn half_in_usec(round_trip: u64) -> f64 {
    round_trip as f64 / 2000.0
}

impl Samples {
    /// `posted`: when each message of `size` bytes was posted, in nanoseconds
    /// since any fixed moment, in order. `None` for fewer than
    /// [`MIN_ITERATIONS`] messages: nothing can be said of them.
    pub fn from_posting_times(size: usize, posted: &[u64]) -> Option<Samples> {
        (posted.len() >= MIN_ITERATIONS).then(|| Samples {
            size,
            iterations: posted.len(),
            round_trips: posted.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect(),
        })
    }

    /// Every sample in the order in which it happened (`-U`).
    pub fn unsorted(&self) -> impl Iterator<Item = f64> + '_ {
        self.round_trips.iter().copied().map(half_in_usec)
    }

    /// Sort once, for the summary and for `-H`.
    pub fn sort(&self) -> Sorted {
        let mut round_trips = self.round_trips.clone();
        round_trips.sort_unstable();
        Sorted { size: self.size, iterations: self.iterations, round_trips }
    }
}

/// The same samples, the fastest first.
#[derive(Debug, Clone)]
pub struct Sorted {
    size: usize,
    iterations: usize,
    round_trips: Vec<u64>,
}

impl Sorted {
    /// How many samples count: all but the tail.
    fn counted(&self) -> usize {
        self.round_trips.len() - TAIL
    }

    /// The samples that count, the fastest first (`-H`).
    pub fn sorted(&self) -> impl Iterator<Item = f64> + '_ {
        self.round_trips[..self.counted()].iter().copied().map(half_in_usec)
    }

    /// The row of the table.
    pub fn summary(&self) -> Summary {
        let counted = &self.round_trips[..self.counted()];
        let t_avg = mean(self.sorted());
        let t_max = half_in_usec(self.round_trips[self.counted()]);
        let histogram = histogram(&self.round_trips);
        let percentile = |fraction: f64| {
            // ib_send_lat takes the sample with this index among all of them.
            let index = (counted.len() as f64 * fraction).ceil();
            // Half a rank below the next whole number, so that rounding can't
            // name a neighbour.
            let quantile = (index + 0.5) / self.round_trips.len() as f64;
            half_in_usec(histogram.value_at_quantile(quantile)).min(t_max)
        };
        Summary {
            size: self.size,
            iterations: self.iterations,
            t_min: half_in_usec(counted[0]),
            t_max,
            t_typical: median(counted),
            t_avg,
            t_stdev: mean(self.sorted().map(|value| (value - t_avg).powi(2))).sqrt(),
            percentile_99: percentile(0.99),
            percentile_99_9: percentile(0.999),
        }
    }
}

/// Mean of at least one value.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    sum / count as f64
}

/// Median of at least one sorted round trip, halved, in microseconds.
fn median(sorted: &[u64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        half_in_usec(sorted[middle])
    } else {
        (half_in_usec(sorted[middle - 1]) + half_in_usec(sorted[middle])) / 2.0
    }
}

/// A histogram wide enough for the slowest of `sorted`.
fn histogram(sorted: &[u64]) -> Histogram<u32> {
    let highest = sorted.last().copied().unwrap_or(0).max(2);
    let mut histogram = Histogram::new_with_max(highest, DIGITS)
        .expect("a maximum of 2 or more and four digits are valid bounds");
    for &value in sorted {
        histogram.saturating_record(value);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posting times whose gaps are `gaps`.
    fn samples(gaps: &[u64]) -> Samples {
        let mut posted = vec![1_000_000];
        for gap in gaps {
            posted.push(posted[posted.len() - 1] + gap);
        }
        Samples::from_posting_times(64, &posted).expect("enough messages")
    }

    /// The percentile that ib_send_lat would print, straight from the sorted
    /// samples.
    fn by_index(sorted: &[u64], fraction: f64) -> f64 {
        half_in_usec(sorted[((sorted.len() - TAIL) as f64 * fraction).ceil() as usize])
    }

    #[test]
    fn too_few_messages_give_nothing() {
        assert!(Samples::from_posting_times(2, &[]).is_none());
        assert!(Samples::from_posting_times(2, &[1, 2, 3, 4]).is_none());
        assert!(Samples::from_posting_times(2, &[1, 2, 3, 4, 5]).is_some());
    }

    #[test]
    fn a_run_of_ib_send_lat_gives_its_row() {
        // `ib_send_lat -U -n 5` printed 135.435, 2082.67, 555.819, 32.7916 and
        // then 32.79, 555.82, 84.11, 84.11 and 555.82 twice.
        let summary = samples(&[270_870, 4_165_340, 1_111_638, 65_583]).sort().summary();
        assert_eq!(summary.iterations, 5);
        assert_eq!(summary.size, 64);
        assert_eq!(format!("{:.2}", summary.t_min), "32.79");
        assert_eq!(format!("{:.2}", summary.t_max), "555.82");
        assert_eq!(format!("{:.2}", summary.t_typical), "84.11");
        assert_eq!(format!("{:.2}", summary.t_avg), "84.11");
        assert_eq!(format!("{:.2}", summary.percentile_99), "555.82");
        assert_eq!(format!("{:.2}", summary.percentile_99_9), "555.82");
    }

    #[test]
    fn the_deviation_is_the_plain_one() {
        // Halves: 1, 3 and 5 microseconds, then the tail.
        let summary = samples(&[2_000, 10_000, 6_000, 90_000, 80_000]).sort().summary();
        assert_eq!(summary.t_avg, 3.0);
        assert!((summary.t_stdev - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{}", summary.t_stdev);
        assert_eq!(summary.t_typical, 3.0);
        assert_eq!(summary.t_max, 40.0);
    }

    #[test]
    fn unsorted_keeps_order_and_everything_sorted_drops_the_tail() {
        let samples = samples(&[6_000, 2_000, 90_000, 4_000]);
        assert_eq!(samples.unsorted().collect::<Vec<_>>(), [3.0, 1.0, 45.0, 2.0]);
        assert_eq!(samples.sort().sorted().collect::<Vec<_>>(), [1.0, 2.0]);
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_samples_within_the_resolution() {
        for count in [4, 5, 99, 100, 101, 999, 1_000, 4_999] {
            // Spread over five decades and out of order.
            let gaps: Vec<u64> = (0..count).map(|i| 700 + (i * 7_919 % 104_729) * 611).collect();
            let sorted = samples(&gaps).sort();
            let summary = sorted.summary();
            for (got, fraction) in [(summary.percentile_99, 0.99), (summary.percentile_99_9, 0.999)] {
                let exact = by_index(&sorted.round_trips, fraction);
                assert!(
                    got >= exact && got <= exact * 1.0001 + 0.001,
                    "{count} samples, {fraction}: {got} for {exact}"
                );
            }
            assert!(summary.t_min <= summary.t_typical);
            assert!(summary.t_typical <= summary.percentile_99);
            assert!(summary.percentile_99 <= summary.percentile_99_9);
            assert!(summary.percentile_99_9 <= summary.t_max);
        }
    }

    #[test]
    fn a_clock_that_stands_still_is_no_trouble() {
        let summary = samples(&[0, 0, 0, 0, 0]).sort().summary();
        assert_eq!(summary.t_max, 0.0);
        assert_eq!(summary.t_stdev, 0.0);
        assert_eq!(summary.percentile_99_9, 0.0);
    }
}
