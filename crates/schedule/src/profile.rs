//! Rates that change during a trial: the due time of an arrival by the number of arrivals that are expected before it.
//!
//! The expected number of arrivals up to a time is the integral of the rate. A process of rate 1 whose event comes at `n` becomes one of
//! the profile's rate if the event comes at the time up to which `n` arrivals are expected (time rescaling; Cinlar, "Introduction to
//! Stochastic Processes", 1975, 4.7). So equal gaps, exponential and gamma gaps keep their meaning: gaps are counted in arrivals.
//!
//! Times are computed in doubles and rounded to the nearest nanosecond. For trials of less than a week they are within a nanosecond.

use assay_manifest::{Count, RateProfile, RateSegment};

use crate::arrivals::{MAX_RATE_PER_S, MIN_RATE_PER_S};

/// The most constant rates of a profile.
pub(crate) const MAX_SEGMENTS: usize = 1_000;

const NS_PER_S: f64 = 1e9;

/// The course of a rate over a phase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile(Vec<Piece>);

/// A part of a profile in which the rate follows one formula.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    begins_ns: u64,
    /// The arrivals that are expected before it.
    before: f64,
    length_ns: u64,
    course: Course,
}

/// The rate within a piece, in arrivals per second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course {
    Constant { per_s: f64 },
    Linear { from: f64, to: f64 },
    Exponential { from: f64, to: f64 },
}

impl Profile {
    /// Creates the course of a phase of this duration. The first rate holds for `lead_ns` before.
    pub(crate) fn new(profile: &RateProfile, lead_ns: u64, duration_ns: u64) -> Self {
        let mut pieces = Self(Vec::new());
        if lead_ns > 0 {
            pieces.push(lead_ns, Course::Constant { per_s: profile.first_per_s() });
        }
        match profile {
            RateProfile::Linear { from_per_s, to_per_s } => {
                pieces.push(duration_ns, Course::Linear { from: *from_per_s, to: *to_per_s });
            }
            RateProfile::Exponential { from_per_s, to_per_s } => {
                pieces.push(duration_ns, Course::exponential(*from_per_s, *to_per_s));
            }
            RateProfile::Steps { from_per_s, to_per_s, steps } => {
                let end_ns = |step: u32| u128::from(duration_ns) * u128::from(step) / u128::from(*steps);
                for step in 0..*steps {
                    let length_ns = u64::try_from(end_ns(step + 1) - end_ns(step)).unwrap_or(u64::MAX);
                    let share = f64::from(step) / f64::from((steps - 1).max(1));
                    pieces.push(length_ns, Course::Constant { per_s: from_per_s + (to_per_s - from_per_s) * share });
                }
            }
            RateProfile::Series { segments } => {
                for RateSegment { duration_ns: Count(length_ns), per_s } in segments {
                    pieces.push(*length_ns, Course::Constant { per_s: *per_s });
                }
            }
        }
        pieces
    }

    fn push(&mut self, length_ns: u64, course: Course) {
        let (begins_ns, before) = (self.length_ns(), self.expected());
        self.0.push(Piece { begins_ns, before, length_ns, course });
    }

    fn length_ns(&self) -> u64 {
        self.0.last().map_or(0, |last| last.begins_ns.saturating_add(last.length_ns))
    }

    /// Returns the number of arrivals that are expected in the whole phase.
    pub(crate) fn expected(&self) -> f64 {
        self.0.last().map_or(0.0, |last| last.before + last.course.expected(last.length_ns as f64 / NS_PER_S))
    }

    /// Returns the time up to which this many arrivals are expected, in nanoseconds since the beginning; the largest number if they are
    /// not expected before the end.
    pub(crate) fn offset_ns(&self, arrivals: f64) -> u64 {
        if arrivals >= self.expected() {
            return u64::MAX;
        }
        let after = self.0.partition_point(|piece| piece.before <= arrivals);
        let Some(piece) = after.checked_sub(1).and_then(|place| self.0.get(place)) else { return 0 };
        let ns = piece.course.after_s(arrivals - piece.before, piece.length_ns as f64 / NS_PER_S) * NS_PER_S;
        piece.begins_ns.saturating_add((ns.round() as u64).min(piece.length_ns))
    }
}

impl Course {
    /// Returns the course of a rate that changes by the same factor in equal times. One that changes by less than a millionth of a thousandth is
    /// constant: its logarithm may be 0.
    fn exponential(from: f64, to: f64) -> Self {
        if libm::log(to / from).abs() < 1e-9 { Self::Constant { per_s: from } } else { Self::Exponential { from, to } }
    }

    /// Returns the arrivals that are expected in all of a piece of this length.
    fn expected(self, length_s: f64) -> f64 {
        match self {
            Self::Constant { per_s } => per_s * length_s,
            Self::Linear { from, to } => f64::midpoint(from, to) * length_s,
            Self::Exponential { from, to } => (to - from) * length_s / libm::log(to / from),
        }
    }

    /// Returns the time up to which `n` arrivals are expected, in seconds since the beginning of a piece of this length.
    ///
    /// With the slope `s = (to - from) / length` a linear rate expects `from t + s t^2 / 2` up to `t`; this is its positive root in the
    /// form that subtracts no numbers of equal size. With `k = ln(to / from) / length` an exponential one expects
    /// `from (e^(k t) - 1) / k`.
    fn after_s(self, n: f64, length_s: f64) -> f64 {
        match self {
            Self::Constant { per_s } => n / per_s,
            Self::Linear { from, to } => {
                let slope = (to - from) / length_s;
                2.0 * n / (from + (from * from + 2.0 * slope * n).max(0.0).sqrt())
            }
            Self::Exponential { from, to } => {
                let k = libm::log(to / from) / length_s;
                libm::log1p(n * k / from) / k
            }
        }
    }
}

/// Returns the reason why a profile cannot be offered in a phase of this duration.
pub(crate) fn refusal(profile: &RateProfile, duration_ns: Option<u64>) -> Option<String> {
    let Some(duration_ns) = duration_ns else {
        return Some("a rate that changes needs a `duration`, over which it does".to_owned());
    };
    let rates = profile.rates_per_s();
    if rates.is_empty() || !rates.iter().all(|rate| (MIN_RATE_PER_S..=MAX_RATE_PER_S).contains(rate)) {
        return Some(format!("its rates have to be between {MIN_RATE_PER_S} and {MAX_RATE_PER_S} per second"));
    }
    match profile {
        RateProfile::Linear { .. } | RateProfile::Exponential { .. } => None,
        RateProfile::Steps { steps, .. } => {
            let accepted = (2..=MAX_SEGMENTS).contains(&(*steps as usize));
            (!accepted).then(|| format!("it has {steps} steps, and may have 2 to {MAX_SEGMENTS}"))
        }
        RateProfile::Series { segments } => {
            let total = segments.iter().try_fold(0_u64, |sum, segment| sum.checked_add(segment.duration_ns.0));
            if segments.len() > MAX_SEGMENTS {
                return Some(format!("it has {} segments, and may have {MAX_SEGMENTS}", segments.len()));
            }
            let has_empty = segments.iter().any(|segment| segment.duration_ns.0 == 0);
            let accepted = !has_empty && total == Some(duration_ns);
            (!accepted)
                .then(|| "its segments have to be as long as the measured phase together, and none may be empty".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn offsets(profile: &RateProfile, duration_ns: u64, arrivals: &[f64]) -> Vec<u64> {
        let profile = Profile::new(profile, 0, duration_ns);
        arrivals.iter().map(|arrivals| profile.offset_ns(*arrivals)).collect()
    }

    #[test]
    fn a_series_is_one_constant_rate_after_the_other() {
        let segment = |seconds, per_s| RateSegment { duration_ns: Count(seconds * S), per_s };
        let series = RateProfile::Series { segments: vec![segment(10, 5.0), segment(4, 0.5), segment(1, 20.0)] };
        // 50 arrivals in 10 s, 2 in 4 s, 20 in 1 s. The 50th comes at 10 s: the first of the second segment.
        assert!((Profile::new(&series, 0, 15 * S).expected() - 72.0).abs() < 1e-9);
        assert_eq!(
            offsets(&series, 15 * S, &[0.0, 1.0, 49.0, 50.0, 51.0, 52.0, 53.0, 71.0, 71.5, 72.0]),
            [0, S / 5, 9_800_000_000, 10 * S, 12 * S, 14 * S, 14_050_000_000, 14_950_000_000, 14_975_000_000, u64::MAX]
        );
    }

    #[test]
    fn steps_are_of_equal_length_and_differ_by_the_same_amount() {
        let steps = RateProfile::Steps { from_per_s: 1.0, to_per_s: 3.0, steps: 3 };
        // 1, 2 and 3 arrivals per second for 2 s each: 2, 4 and 6 arrivals.
        let all = offsets(&steps, 6 * S, &(0..13).map(f64::from).collect::<Vec<_>>());
        let half = S / 2;
        let third = |thirds: u64| 4 * S + (thirds * S + 1) / 3;
        assert_eq!(
            all,
            [0, S, 2 * S, 2 * S + half, 3 * S, 3 * S + half, 4 * S, third(1), third(2), 5 * S, third(4), third(5), u64::MAX]
        );
        // A third of a nanosecond more or less in a step is no arrival more or less.
        let odd = Profile::new(&RateProfile::Steps { from_per_s: 3.0, to_per_s: 3.0, steps: 3 }, 0, 10 * S);
        assert_eq!((odd.length_ns(), odd.offset_ns(29.0)), (10 * S, 9_666_666_667));
    }

    #[test]
    fn a_line_expects_the_area_below_it() {
        let rising = RateProfile::Linear { from_per_s: 1.0, to_per_s: 3.0 };
        // t + t^2 / 2 over 2 s: 4 arrivals; 1.5 at 1 s, and 2 at sqrt(5) - 1 s.
        assert_eq!(offsets(&rising, 2 * S, &[0.0, 1.5, 2.0, 4.0]), [0, S, 1_236_067_977, u64::MAX]);
        let falling = RateProfile::Linear { from_per_s: 3.0, to_per_s: 1.0 };
        // 3 t - t^2 / 2 over 2 s: 2.5 at 1 s, and 3 at 3 - sqrt(3) s.
        assert_eq!(offsets(&falling, 2 * S, &[0.0, 2.5, 3.0, 4.0]), [0, S, 1_267_949_192, u64::MAX]);
        let flat = RateProfile::Linear { from_per_s: 4.0, to_per_s: 4.0 };
        assert_eq!(offsets(&flat, 2 * S, &[0.0, 1.0, 7.0, 8.0]), [0, S / 4, 1_750_000_000, u64::MAX]);
    }

    #[test]
    fn an_exponential_rate_grows_by_the_same_factor_in_equal_times() {
        let doubling = RateProfile::Exponential { from_per_s: 1.0, to_per_s: 8.0 };
        // 2^t over 3 s: (2^t - 1) / ln 2, so 1 / ln 2 arrivals in the first second, twice as many in the second, and twice again.
        let first = 1.0 / std::f64::consts::LN_2;
        assert_eq!(offsets(&doubling, 3 * S, &[0.0, first, 3.0 * first, 7.0 * first + 1e-9]), [0, S, 2 * S, u64::MAX]);
        // The first arrival after the start: log2(1 + ln 2) s.
        assert_eq!(offsets(&doubling, 3 * S, &[1.0]), [759_707_388]);
        let flat = RateProfile::Exponential { from_per_s: 4.0, to_per_s: 4.0 };
        assert_eq!(offsets(&flat, 2 * S, &[1.0, 7.0, 8.0]), [S / 4, 1_750_000_000, u64::MAX]);
    }

    #[test]
    fn before_the_profile_its_first_rate_holds() {
        let profile = Profile::new(&RateProfile::Linear { from_per_s: 1.0, to_per_s: 3.0 }, 5 * S, 2 * S);
        assert_eq!([0.0, 4.0, 5.0, 6.5].map(|n| profile.offset_ns(n)), [0, 4 * S, 5 * S, 6 * S]);
    }

    #[test]
    fn a_profile_that_fits_no_trial_is_refused() {
        let said = |profile: RateProfile, duration: Option<u64>| refusal(&profile, duration).unwrap_or_default();
        let linear = |from_per_s, to_per_s| RateProfile::Linear { from_per_s, to_per_s };
        assert_eq!(said(linear(1.0, 2.0), Some(S)), "");
        assert!(said(linear(1.0, 2.0), None).contains("needs a `duration`"));
        for (from, to) in [(0.0, 1.0), (1.0, 1e8), (f64::NAN, 1.0)] {
            assert!(said(linear(from, to), Some(S)).contains("have to be between"), "{from} to {to}");
        }
        let steps = |steps| RateProfile::Steps { from_per_s: 1.0, to_per_s: 2.0, steps };
        assert!(said(steps(1), Some(S)).contains("1 steps") && said(steps(2), Some(S)).is_empty());
        let series = |lengths: &[u64]| RateProfile::Series {
            segments: lengths.iter().map(|length| RateSegment { duration_ns: Count(*length), per_s: 1.0 }).collect(),
        };
        assert_eq!(said(series(&[S, 2 * S]), Some(3 * S)), "");
        for wrong in [series(&[S, S]), series(&[0, 3 * S]), series(&[u64::MAX, 4 * S])] {
            assert!(said(wrong, Some(3 * S)).contains("as long as the measured phase"));
        }
        assert!(said(series(&[]), Some(S)).contains("have to be between"));
    }

    fn profiles() -> impl Strategy<Value = RateProfile> {
        let rate = || 0.01_f64..1e5;
        prop_oneof![
            (rate(), rate()).prop_map(|(from_per_s, to_per_s)| RateProfile::Linear { from_per_s, to_per_s }),
            (rate(), rate()).prop_map(|(from_per_s, to_per_s)| RateProfile::Exponential { from_per_s, to_per_s }),
            (rate(), rate(), 2_u32..20).prop_map(|(from_per_s, to_per_s, steps)| RateProfile::Steps {
                from_per_s,
                to_per_s,
                steps
            }),
        ]
    }

    proptest! {
        #[test]
        fn more_arrivals_come_later(profile in profiles(), seconds in 1_u64..100_000, parts in prop::collection::vec(0.0_f64..0.999, 2..50)) {
            let profile = Profile::new(&profile, 0, seconds * S);
            let mut parts = parts;
            parts.sort_by(f64::total_cmp);
            let offsets: Vec<u64> = parts.iter().map(|part| profile.offset_ns(part * profile.expected())).collect();
            // Rounding may turn two that are nearly equal round, by a nanosecond.
            prop_assert!(offsets.windows(2).all(|pair| pair[0] <= pair[1] + 1), "{offsets:?}");
            prop_assert!(offsets.iter().all(|offset| *offset <= seconds * S));
            prop_assert_eq!((profile.offset_ns(0.0), profile.offset_ns(profile.expected())), (0, u64::MAX));
        }

        #[test]
        fn a_time_expects_the_arrivals_that_it_is_the_time_of(from in 0.01_f64..1e4, to in 0.01_f64..1e4, part in 0.0_f64..1.0, is_exponential: bool) {
            let profile = if is_exponential {
                RateProfile::Exponential { from_per_s: from, to_per_s: to }
            } else {
                RateProfile::Linear { from_per_s: from, to_per_s: to }
            };
            let profile = Profile::new(&profile, 0, 100 * S);
            let n = part * profile.expected();
            let t = profile.offset_ns(n) as f64 / 1e9;
            // Integrated by the trapezoid rule, independent of the inverse.
            let rate = |at: f64| if is_exponential { from * (to / from).powf(at / 100.0) } else { from + (to - from) * at / 100.0 };
            let width = t / 10_000.0;
            let sum: f64 = (0..10_000).map(|step| f64::midpoint(rate(f64::from(step) * width), rate(f64::from(step + 1) * width)) * width).sum();
            prop_assert!((sum - n).abs() <= 1e-5 * n + 1e-5, "{sum} for {n}");
        }
    }
}
