//! The labels of a case and of a point: from the curated rows of the run, and from the load of the point.

use std::collections::BTreeMap;

use assay_manifest::{Instant, Point, PointKind};
use assay_spec::HotLabel;
use assay_warehouse::{BENCHMARK_RUN_FACT, CLUSTER_REGION_DIM, HARDWARE_TOPOLOGY_DIM, ROW_ID, Row, Value};

use crate::error::{Error, Result};

/// The longest value of a label, in bytes.
const MAX_LABEL_BYTES: usize = 256;

/// The smallest and the largest bucket, as exponents of 2.
const BUCKETS: std::ops::RangeInclusive<i32> = -10..=30;

/// The place of a case, from the dimensions of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CasePlace {
    /// The labels that are known, besides run, case and load.
    pub labels: BTreeMap<HotLabel, String>,
    /// The end of the last attempt; `None` if there was none.
    pub ended: Option<Instant>,
}

/// Returns the place of each case, from the rows of `benchmark_run_fact`, `cluster_region_dim` and `hardware_topology_dim`.
pub fn case_places(tables: &BTreeMap<&'static str, Vec<Row>>) -> Result<BTreeMap<String, CasePlace>> {
    let rows = |table: &str| tables.get(table).map_or(&[][..], Vec::as_slice);
    let find = |table: &str, id: Option<&str>| rows(table).iter().find(|row| id.is_some() && row.text(ROW_ID) == id);
    let mut places = BTreeMap::new();
    for row in rows(BENCHMARK_RUN_FACT.name) {
        let region = find(CLUSTER_REGION_DIM.name, row.text("cluster_region_key"));
        let hardware = find(HARDWARE_TOPOLOGY_DIM.name, row.text("hardware_topology_key"));
        let region = |column: &str| region.and_then(|row| row.text(column));
        let known = [
            (HotLabel::Cluster, region("cluster")),
            (HotLabel::Region, region("region")),
            (HotLabel::NodePool, region("node_pool")),
            (HotLabel::SchedulerPath, region("scheduler_path")),
            (HotLabel::GpuModel, hardware.and_then(|row| row.text("gpu_model"))),
        ];
        let mut place = CasePlace::default();
        for (label, value) in known {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                place.labels.insert(label, checked(label, value)?);
            }
        }
        place.ended = match row.get("finished_unix_ns") {
            Some(Value::Instant(ended)) => Some(*ended),
            _ => None,
        };
        places.insert(row.text("benchmark_case_id").unwrap_or_default().to_owned(), place);
    }
    Ok(places)
}

/// Returns the value of a label, or refuses one that is too long or holds control characters.
fn checked(label: HotLabel, value: &str) -> Result<String> {
    if value.len() <= MAX_LABEL_BYTES && !value.chars().any(char::is_control) {
        return Ok(value.to_owned());
    }
    Err(Error::Label { label, value: value.escape_debug().take(80).collect() })
}

/// Returns the load of a point; `None` if it is no number, such as a set of parameters.
pub(crate) fn load(point: &Point) -> Option<f64> {
    let key = match point.kind {
        PointKind::Parameters => return None,
        kind => kind.as_str(),
    };
    point.value.get(key)?.parse().ok().filter(|load: &f64| load.is_finite() && *load > 0.0)
}

/// Returns the bucket of a point: the smallest power of two that is not below its load. Loads that are no concurrency have their kind before
/// it, such as `rate-16` for 10 requests per second. `None` without a load.
pub(crate) fn concurrency_bucket(point: &Point) -> Option<String> {
    let load = load(point)?;
    let exponent = BUCKETS.clone().find(|exponent| 2f64.powi(*exponent) >= load).unwrap_or(*BUCKETS.end());
    let bucket = 2f64.powi(exponent);
    Some(match point.kind {
        PointKind::Concurrency => bucket.to_string(),
        kind => format!("{kind}-{bucket}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(kind: PointKind, load: &str) -> Option<String> {
        let value = [(kind.as_str().to_owned(), load.to_owned())].into();
        concurrency_bucket(&Point { point_id: "p".parse().expect("an id"), kind, value, load_recipe_digest: None })
    }

    #[test]
    fn a_bucket_is_the_next_power_of_two() {
        let of = |load: &str| bucket(PointKind::Concurrency, load).expect("a load");
        assert_eq!(["1", "2", "3", "8", "9", "1000"].map(of), ["1", "2", "4", "8", "16", "1024"]);
        assert_eq!(bucket(PointKind::Rate, "10").as_deref(), Some("rate-16"));
        assert_eq!(bucket(PointKind::Rate, "0.3").as_deref(), Some("rate-0.5"));
        assert_eq!(bucket(PointKind::Users, "5").as_deref(), Some("users-8"));
        assert_eq!(bucket(PointKind::Rate, "1e300").as_deref(), Some("rate-1073741824"), "the largest bucket holds the rest");
        assert_eq!(bucket(PointKind::Rate, "1e-300").as_deref(), Some("rate-0.0009765625"));
        assert_eq!(bucket(PointKind::Parameters, "10"), None);
        for none in ["0", "-1", "NaN", "inf", "ramp 1..10"] {
            assert_eq!(bucket(PointKind::Rate, none), None, "{none}");
        }
    }

    #[test]
    fn a_label_that_no_series_may_have_is_named() {
        let refused = |value: &str| checked(HotLabel::Region, value).expect_err("refused").to_string();
        insta::assert_snapshot!(refused("eu\nwest"), @r"the label `region` would have the value `eu\nwest`, which is longer than 256 bytes or has control characters");
        assert!(refused(&"x".repeat(257)).contains("`region`"));
        assert_eq!(checked(HotLabel::GpuModel, "NVIDIA H200 + L4").expect("accepted"), "NVIDIA H200 + L4");
    }
}
