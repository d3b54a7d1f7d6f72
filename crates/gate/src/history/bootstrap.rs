//! The rate of false alarms in a run in which nothing changed, for noise of the shape that this history has.
//!
//! A residual bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 9.4): earlier runs are resampled
//! with replacement and whole, so that an effect of one bad night on many metrics is kept for all of them; each metric counts by
//! its distance from its own mean. The first resampled run is judged by those after it. Runs are taken as independent, and noise
//! that no earlier run has shown is not represented.
//!
//! With few runs the share comes out too high if there are many metrics, because runs are drawn repeatedly. For normal noise with
//! a true rate of 5 % it is on average (of 40 histories) 4.5, 11 and 17 % for 1, 10 and 50 metrics of 5 runs, 4.3, 5.3 and 8.0 %
//! of 12 runs, 4.3, 4.2 and 5.1 % of 20 runs.

use std::collections::BTreeSet;

use assay_manifest::Digest;
use assay_stats::bootstrap::Draws;
use assay_stats::{benjamini_hochberg, student};

use super::{FEWEST_RUNS, MetricHistory, logs, probability};

/// The number of draws: a share of 5 % is then known to half a percent.
const DRAWS: usize = 2_000;

/// The fewest draws, even for a large history.
const FEWEST_DRAWS: usize = 200;

/// The most values that are drawn, over all metrics and draws: about half a second's work. For a larger history fewer draws are
/// made.
const MAX_VALUES: usize = 200_000_000;

/// The most runs that are drawn for each existing run, until every metric has as many values as before. More than one is needed
/// if metrics come from different runs.
const MAX_TURNS: usize = 50;

/// The rate at which some metric of a family would be called worse although nothing changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FalseAlarms {
    /// The share of draws with such a metric.
    pub share: f64,
    /// The number of draws.
    pub draws: usize,
    /// The number of earlier runs that were drawn from.
    pub runs: usize,
}

impl FalseAlarms {
    /// A description of the method.
    pub const METHOD: &str = "earlier runs redrawn whole, each metric as far from its mean as it was";
}

/// Returns the rate for a family that is judged at rate `q`, beyond a `budget` as a share; `None` if nothing is predicted for any
/// metric.
pub(super) fn false_alarms(family: &[MetricHistory], q: f64, budget: f64) -> Option<FalseAlarms> {
    let history = ResidualHistory::new(family, q)?;
    let draws = draws(history.metrics.iter().map(|metric| metric.runs + 1).sum());
    let runs = history.rows.len();
    let mut indices = Draws::new(*seed(family).as_bytes(), 0, runs);
    let limit = libm::log(1.0 + budget);
    let told = (0..draws).filter(|_| raises_alarm(&history.draw_runs(&mut indices), family.len(), q, limit)).count();
    Some(FalseAlarms { share: told as f64 / draws as f64, draws, runs })
}

/// Returns the number of draws for this number of values.
fn draws(values: usize) -> usize {
    (MAX_VALUES / values.max(1)).clamp(FEWEST_DRAWS, DRAWS)
}

/// Returns the seed, which makes draws from the same history repeatable.
fn seed(family: &[MetricHistory]) -> Digest {
    let mut bytes = Vec::new();
    for past in family {
        for (run, value) in &past.earlier {
            bytes.extend_from_slice(run.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        bytes.push(0);
    }
    Digest::compute(&bytes)
}

/// The earlier runs of the metrics that have a prediction.
struct ResidualHistory {
    /// One row for each run: its distance from each metric's mean, as a logarithm and above zero for worse; NaN if the run lacks
    /// the metric.
    rows: Vec<Vec<f64>>,
    metrics: Vec<Metric>,
}

struct Metric {
    /// The number of runs that have it.
    runs: usize,
    /// The t value that is exceeded with probability `q`. A metric below it raises no alarm in any family, however large.
    passed: f64,
}

/// One metric in a draw.
#[derive(Clone, Copy, Default)]
struct MetricDraw {
    /// Its value in the run that is judged.
    new: f64,
    /// The number of values that were drawn, including `new`.
    values: usize,
    /// The sum of the other values.
    sum: f64,
    squares: f64,
}

impl ResidualHistory {
    fn new(family: &[MetricHistory], q: f64) -> Option<Self> {
        let known: Vec<(&MetricHistory, Vec<f64>)> = family.iter().filter_map(|past| Some((past, logs(past)?))).collect();
        let runs: BTreeSet<&String> = known.iter().flat_map(|(past, _)| past.earlier.keys()).collect();
        let mut rows = vec![vec![f64::NAN; known.len()]; runs.len()];
        for (place, (past, logs)) in known.iter().enumerate() {
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let mut of_run = past.earlier.keys().zip(logs).peekable();
            for (run, row) in runs.iter().zip(&mut rows) {
                if let (Some((_, log)), Some(cell)) = (of_run.next_if(|(name, _)| name == run), row.get_mut(place)) {
                    // Centred, so that the squares do not cancel.
                    *cell = log - mean;
                }
            }
        }
        let metric = |logs: &Vec<f64>| Metric { runs: logs.len(), passed: student::quantile(1.0 - q, logs.len() as f64 - 1.0) };
        let metrics: Vec<Metric> = known.iter().map(|(_, logs)| metric(logs)).collect();
        (!metrics.is_empty()).then_some(Self { rows, metrics })
    }

    /// Draws a run and as many earlier runs as there were, for each metric: the first drawn runs that have it.
    fn draw_runs(&self, indices: &mut Draws) -> Vec<(f64, f64)> {
        let mut drawn = vec![MetricDraw::default(); self.metrics.len()];
        let mut open = self.metrics.len();
        for _ in 0..MAX_TURNS * (self.rows.len() + 1) {
            let row = self.rows.get(indices.index() as usize).map_or(&[][..], Vec::as_slice);
            for ((drawn, metric), value) in drawn.iter_mut().zip(&self.metrics).zip(row) {
                if !value.is_nan() && drawn.values <= metric.runs {
                    drawn.add(*value);
                    open -= usize::from(drawn.values > metric.runs);
                }
            }
            if open == 0 {
                break;
            }
        }
        drawn.iter().zip(&self.metrics).map(|(drawn, metric)| drawn.test(metric.passed)).collect()
    }
}

impl MetricDraw {
    fn add(&mut self, value: f64) {
        if self.values == 0 {
            self.new = value;
        } else {
            self.sum += value;
            self.squares += value * value;
        }
        self.values += 1;
    }

    /// Returns how much worse the new run is, and the probability of that; 1 if it is above `q`.
    fn test(&self, passed: f64) -> (f64, f64) {
        let runs = self.values.saturating_sub(1);
        if runs < FEWEST_RUNS {
            return (0.0, 1.0);
        }
        let n = runs as f64;
        let mean = self.sum / n;
        let sd = ((self.squares - n * mean * mean) / (n - 1.0)).max(0.0).sqrt();
        let worse = self.new - mean;
        // One run drawn repeatedly has no spread, unlike any real history with some spread.
        let passes = sd > 0.0 && worse > passed * sd * (1.0 + 1.0 / n).sqrt();
        (worse, if passes { probability(worse, sd, runs) } else { 1.0 })
    }
}

/// Returns true if any metric of a family of `size` is called worse at rate `q`, beyond a `limit`. Metrics without a prediction
/// belong to the family too.
fn raises_alarm(tested: &[(f64, f64)], size: usize, q: f64, limit: f64) -> bool {
    if tested.iter().all(|(_, p)| *p >= 1.0) {
        return false;
    }
    let mut probabilities: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    probabilities.resize(size, 1.0);
    let adjusted = benjamini_hochberg(&probabilities);
    tested.iter().zip(adjusted).any(|((worse, _), adjusted)| adjusted <= q && *worse > limit)
}

#[cfg(test)]
mod tests {
    use assay_manifest::BetterDirection;
    use assay_stats::normal;

    use super::*;

    /// Returns a history of one value for each night.
    fn past(values: &[f64]) -> MetricHistory {
        let nights = (0..).map(|night: u32| format!("night-{night:03}"));
        MetricHistory { better: BetterDirection::Lower, value: 100.0, earlier: nights.zip(values.iter().copied()).collect() }
    }

    /// Returns normal noise of 3 %, different for each metric.
    fn calm(nights: u32, metric: &str) -> Vec<f64> {
        let uniform = |night: u32| {
            let digest = Digest::compute(format!("{metric} {night}").as_bytes());
            let word = u32::from_le_bytes([0, 1, 2, 3].map(|place| digest.as_bytes()[place]));
            (f64::from(word) + 0.5) / 4_294_967_296.0
        };
        (0..nights).map(|night| 100.0 * libm::exp(0.03 * normal::quantile(uniform(night)))).collect()
    }

    fn share(family: &[MetricHistory], budget: f64) -> f64 {
        false_alarms(family, 0.05, budget).expect("drawn").share
    }

    #[test]
    fn normal_noise_is_told_at_the_rate_of_the_family() {
        let family: Vec<MetricHistory> = (0..20).map(|metric| past(&calm(60, &metric.to_string()))).collect();
        let (alone, all) = (share(&family[..1], 1e-9), share(&family, 1e-9));
        // A share of 5 % is known to half a percent from 2,000 draws, and sixty nights know their own noise to a tenth.
        assert!((0.03..0.07).contains(&alone) && (0.03..0.075).contains(&all), "{alone} {all}");
    }

    #[test]
    fn a_budget_makes_false_alarms_fewer() {
        let family = [past(&calm(60, "one"))];
        let shares = [1e-9, 0.06, 0.09].map(|budget| share(&family, budget));
        assert!(shares[0] > shares[1] && shares[1] > shares[2], "{shares:?}");
        assert!(share(&family, 0.5) <= 0.0);
    }

    /// Returns ten metrics, each with one wild night in twelve.
    fn wild(of: impl Fn(usize) -> usize) -> Vec<MetricHistory> {
        let metric = |metric: usize| {
            let mut values = calm(12, &metric.to_string());
            values[of(metric)] = 160.0;
            past(&values)
        };
        (0..10).map(metric).collect()
    }

    #[test]
    fn what_one_night_did_to_all_metrics_it_does_to_all_of_them_again() {
        let (together, apart) = (share(&wild(|_| 3), 0.05), share(&wild(|metric| metric), 0.05));
        // Ten metrics together raise an alarm as soon as each passes q: if the wild night is drawn first and at most twice after,
        // with a probability of 1/12 times 0.93. A metric by itself has to pass a tenth of q: if its wild night is drawn first
        // and not after, 10/12 times 0.35.
        assert!((0.07..0.12).contains(&together), "{together}");
        assert!((0.25..0.4).contains(&apart), "{apart}");
    }

    #[test]
    fn metrics_of_which_nothing_is_predicted_are_of_the_family() {
        let family: Vec<MetricHistory> =
            [calm(60, "one"), vec![100.0; 4], vec![0.0; 60], vec![100.0; 4]].iter().map(|values| past(values)).collect();
        let (alone, among) = (share(&family[..1], 1e-9), share(&family, 1e-9));
        assert!(among < 0.6 * alone, "a quarter of q is left to it: {among} {alone}");
    }

    #[test]
    fn a_metric_of_fewer_runs_keeps_its_number_of_them() {
        let mut young = past(&calm(12, "young"));
        let nights: Vec<String> = young.earlier.keys().cloned().collect();
        young.earlier = nights.iter().skip(6).map(|night| (night.clone(), young.earlier[night])).collect();
        let alone = share(std::slice::from_ref(&young), 1e-9);
        let history = ResidualHistory::new(&[past(&calm(12, "old")), young.clone()], 0.05).expect("a history");
        assert_eq!((history.rows.len(), history.metrics.iter().map(|metric| metric.runs).collect::<Vec<_>>()), (12, vec![12, 6]));
        assert!(history.rows[..6].iter().all(|row| row[1].is_nan()) && history.rows[6..].iter().all(|row| !row[1].is_nan()));
        let beside = share(&[past(&[100.0; 12]), young], 1e-9);
        // In a family of two it has to pass half of q.
        assert!(alone > 0.03 && (0.3 * alone..alone).contains(&beside), "{alone} {beside}");
    }

    #[test]
    fn the_same_history_is_drawn_in_the_same_way_whatever_the_new_value() {
        let family = [past(&calm(20, "one")), past(&calm(20, "two"))];
        let drawn = false_alarms(&family, 0.05, 0.01).expect("drawn");
        assert_eq!((drawn.draws, drawn.runs), (2_000, 20));
        let later = family.clone().map(|past| MetricHistory { value: 500.0, ..past });
        assert_eq!(false_alarms(&later, 0.05, 0.01), Some(drawn));
        let mut other = family;
        other[1].earlier.insert("night-000".to_owned(), 104.0);
        assert!(false_alarms(&other, 0.05, 0.01) != Some(drawn));
    }

    #[test]
    fn better_is_turned() {
        let mut skewed = calm(30, "one");
        skewed[4] = 160.0;
        let [worse, better] = [BetterDirection::Lower, BetterDirection::Higher]
            .map(|better| share(&[MetricHistory { better, ..past(&skewed) }], 0.2));
        assert!(worse > 0.005 && better < 0.001, "{worse} {better}");
    }

    #[test]
    fn a_history_that_predicts_nothing_alarms_nobody() {
        assert_eq!(false_alarms(&[past(&[100.0; 4]), past(&[0.0; 9])], 0.05, 0.05), None);
        assert!(share(&[past(&[100.0; 9])], 0.05) <= 0.0);
    }

    #[test]
    fn a_large_history_is_drawn_less_often() {
        assert_eq!([61, 100_000, 800_000, usize::MAX].map(draws), [2_000, 2_000, 250, 200]);
    }
}
