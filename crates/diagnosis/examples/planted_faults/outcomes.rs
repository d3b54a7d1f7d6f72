//! The outcomes of a trial from its records, by the formulas of the table of metrics.

use std::collections::BTreeMap;

use assay_diagnosis::{Better, Outcome};
use assay_metric::{
    Direction, Estimator, Formula, MeasuredValue, Metric, MetricName, SHARE_BITS, Totals, TrialTotals, share_within, since_ns,
};
use assay_record::Record;
use assay_stats::quantile;

use crate::trial::{Arrivals, DURATION_NS};

/// Returns the value of every metric that the trial has, by name.
pub(crate) fn outcomes(records: &[Record], arrivals: Arrivals) -> BTreeMap<String, Outcome> {
    let ok: Vec<&Record> = records.iter().filter(|record| record.outcome.is_ok()).collect();
    let totals = totals(records, arrivals);
    let trial = TrialTotals {
        requests: records.len() as u64,
        ok: ok.len() as u64,
        cancelled: None,
        totals: &totals,
        window_ns: u64::try_from(DURATION_NS).ok(),
        steady_ns: Err("it is not computed here".to_owned()),
        is_open_loop: matches!(arrivals, Arrivals::Open(_)),
        has_cap: false,
        has_sessions: false,
        has_slos: false,
        no_output: None,
        documents: None,
        repeated: Err("it is not computed here".to_owned()),
        gpus: Err("their number is not stated".to_owned()),
        price_per_s: Err("there is no price".to_owned()),
    };
    let mut found = BTreeMap::new();
    for metric in Metric::ALL {
        let row = metric.definition();
        let values: Vec<(&MetricName, f64)> = match row.formula {
            Formula::Trial(formula) => {
                let value: MeasuredValue = formula(&trial);
                row.names.iter().filter_map(|name| Some((name, value.as_ref().ok()?.0))).collect()
            }
            _ => statistics(*metric, &ok, records.len()),
        };
        for (name, value) in values {
            let better = row.better.map(|better| if better == Direction::Higher { Better::Higher } else { Better::Lower });
            let primary = MetricName::default_primary(false).any(|primary| primary == name);
            let outcome = Outcome { value, unit: row.unit.as_str().to_owned(), better, primary };
            found.insert(name.text.to_owned(), outcome);
        }
    }
    found
}

/// Returns the statistics of the samples of a metric.
fn statistics(metric: Metric, ok: &[&Record], requests: usize) -> Vec<(&'static MetricName, f64)> {
    let mut samples: Vec<f64> = ok.iter().flat_map(|record| samples(metric, record)).collect();
    samples.sort_unstable_by(f64::total_cmp);
    let row = metric.definition();
    let statistic = |name: &MetricName| match name.statistic.estimator() {
        Estimator::Value | Estimator::Mean if samples.is_empty() => None,
        Estimator::Value | Estimator::Mean => Some(samples.iter().sum::<f64>() / samples.len() as f64),
        Estimator::Quantile(q) => quantile(&samples, q),
        Estimator::WithFailures(q) => {
            // A request without a sample is slower than all others, so that a quantile that reaches it has no value.
            let reached = libm::ceil((requests.max(1) - 1) as f64 * q) as usize;
            let mut all = samples.clone();
            all.resize(requests.max(all.len()), f64::MAX);
            (reached < samples.len()).then(|| quantile(&all, q)).flatten()
        }
    };
    row.names.iter().filter_map(|name| Some((name, row.unit.from_sample(statistic(name)?)))).collect()
}

/// Returns the samples of one request.
fn samples(metric: Metric, record: &Record) -> Vec<f64> {
    match metric.definition().formula {
        Formula::Span { from, to } => {
            let fields = record.fields();
            since_ns(fields.get(from), fields.get(to)).map(|ns| ns as f64).into_iter().collect()
        }
        Formula::Quotient(quotient) => (quotient.sample)(&record.fields()).into_iter().collect(),
        Formula::Gaps if metric == Metric::Itl => {
            let of_gap = |(itl_ns, count): (f64, u32)| std::iter::repeat_n(itl_ns, count as usize);
            record.gaps().into_iter().flat_map(|gap| of_gap(gap.itl_ns())).collect()
        }
        Formula::Gaps => record.gaps().iter().map(|gap| gap.gap_ns as f64).collect(),
        Formula::TokenEvents if metric == Metric::Jitter => record.jitter_ns().into_iter().collect(),
        Formula::TokenEvents => record.gaps().first().map(|gap| gap.gap_ns as f64).into_iter().collect(),
        Formula::Trial(_) => Vec::new(),
    }
}

fn totals(records: &[Record], arrivals: Arrivals) -> Totals {
    let mut totals = Totals::default();
    for record in records {
        if let Some(sent_ns) = record.sent_ns {
            totals.add_sent(sent_ns);
        }
        if !record.outcome.is_ok() {
            continue;
        }
        let output = record.output_tokens.map(i64::from);
        totals.isl.add(record.input_tokens.into());
        if let Some(counted) = record.input_tokens_endpoint {
            totals.isl_endpoint.add(counted.into());
            totals.isl_compared.add(record.input_tokens.into());
        }
        totals.osl.add(output.unwrap_or(0));
        if let Some(cached) = record.cached_tokens {
            totals.cached.add(cached.into());
            totals.cached_of.add(record.input_tokens_endpoint.unwrap_or(record.input_tokens).into());
        }
        let (Some(sent_ns), Some(end_ns)) = (record.sent_ns, record.end_ns) else { continue };
        // As reduce counts them: by the share of their time in a closed loop, whole where they end in an open one.
        let share = match arrivals {
            Arrivals::Closed(_) => share_within(sent_ns, end_ns, &(0..DURATION_NS)),
            Arrivals::Open(_) => u64::from(end_ns < DURATION_NS) << SHARE_BITS,
        };
        totals.completed.add(share, Some(record.input_tokens.into()), output);
    }
    totals
}
