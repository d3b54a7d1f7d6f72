//! The times of a run, stage by stage, as text for people and as JSON for machines.

use assay_manifest::RunId;
use assay_runner::{DriverTimes, StageTimes};
use assay_store::Store;
use serde_json::{Value, json};

/// The note above the table.
const NOTE: &str = "Where the time went, as the run's driver saw it by its own clock. It is not signed, and no evidence.";

/// Returns the times of a run's drivers; none if they were not kept or cannot be read, because nothing rests on them.
pub(crate) fn read(store: &Store, run_id: &RunId) -> Vec<DriverTimes> {
    DriverTimes::read_all(store, run_id).unwrap_or_else(|error| {
        tracing::debug!(failure = %assay_stage::Failure::from(error), "where the time went is not known");
        Vec::new()
    })
}

/// Returns one line: the whole time and its parts.
pub(crate) fn summary(drivers: &[DriverTimes]) -> String {
    let sum =
        |part: fn(&StageTimes) -> u64| drivers.iter().flat_map(|driver| &driver.stages).map(part).fold(0, u64::saturating_add);
    let parts = [
        ("waiting", sum(|stage| stage.waiting_ns.unwrap_or(0))),
        ("pulling", sum(|stage| stage.pulling_ns.unwrap_or(0))),
        ("starting", sum(|stage| stage.starting_ns)),
        ("working", sum(|stage| stage.working_ns)),
        ("ending", sum(|stage| stage.ending_ns)),
        ("between stages", drivers.iter().map(DriverTimes::between_ns).fold(0, u64::saturating_add)),
    ];
    let shown: Vec<_> =
        parts.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", assay_report::duration(*ns))).collect();
    let total = drivers.iter().map(|driver| driver.total_ns).fold(0, u64::saturating_add);
    format!("took {}: {}", assay_report::duration(total), shown.join(", "))
}

/// Returns the table of all stages, a line each; empty if no times were kept.
pub(crate) fn table(drivers: &[DriverTimes]) -> Vec<String> {
    if drivers.is_empty() {
        return Vec::new();
    }
    let cells = |name: &str, parts: [String; 6]| {
        let parts: Vec<_> = parts.iter().map(|part| format!("{part:>12}")).collect();
        format!("  {name:<22}{}", parts.concat())
    };
    let head = ["waiting", "pulling", "starting", "working", "ending", "all"].map(str::to_owned);
    let mut lines = vec![NOTE.to_owned(), String::new(), cells("stage", head)];
    let known = |ns: Option<u64>| match ns {
        None => "-".to_owned(),
        Some(0) => "0".to_owned(),
        Some(ns) => assay_report::duration(ns),
    };
    for driver in drivers {
        for stage in &driver.stages {
            let shards = if stage.shards > 1 { format!(" x{}", stage.shards) } else { String::new() };
            let parts = [
                stage.waiting_ns,
                stage.pulling_ns,
                Some(stage.starting_ns),
                Some(stage.working_ns),
                Some(stage.ending_ns),
                Some(stage.total_ns()),
            ];
            lines.push(cells(format!("{} {}{shards}", stage.stage, stage.label).trim_end(), parts.map(known)));
        }
        let none = || "-".to_owned();
        lines
            .push(cells("between stages", [none(), none(), none(), none(), none(), assay_report::duration(driver.between_ns())]));
    }
    lines.push(String::new());
    lines.push(format!("  {}", summary(drivers)));
    lines
}

/// Returns the times of all drivers, in nanoseconds.
pub(crate) fn json(drivers: &[DriverTimes]) -> Value {
    json!({"signed": false, "drivers": drivers})
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_stage::StageName;

    fn stage(stage: StageName, label: &str, shards: u32, in_cluster: bool, ms: [u64; 5]) -> StageTimes {
        let [waiting, pulling, starting, working, ending] = ms.map(|ms| ms * 1_000_000);
        let of_cluster = |ns: u64| in_cluster.then_some(ns);
        StageTimes {
            stage,
            label: label.to_owned(),
            shards,
            waiting_ns: of_cluster(waiting),
            pulling_ns: of_cluster(pulling),
            starting_ns: starting,
            working_ns: working,
            ending_ns: ending,
        }
    }

    /// Returns lines without their alignment.
    fn words(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn the_table_of_a_run_in_a_cluster() {
        let stages = vec![
            stage(StageName::Plan, "", 1, true, [40, 812, 1400, 90, 60]),
            stage(StageName::Execute, "0-0", 30, true, [1900, 0, 2500, 65_000, 300]),
        ];
        let shown = words(&table(&[DriverTimes { stages, total_ns: 75_000_000_000 }]));
        let expected = [
            NOTE,
            "",
            "stage waiting pulling starting working ending all",
            "plan 40.0 ms 812 ms 1.40 s 90.0 ms 60.0 ms 2.40 s",
            "execute 0-0 x30 1.90 s 0 2.50 s 65.0 s 300 ms 69.7 s",
            "between stages - - - - - 2.90 s",
            "",
            "took 75.0 s: waiting 1.94 s, pulling 812 ms, starting 3.90 s, working 65.1 s, ending 360 ms, between stages 2.90 s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_table_of_a_run_on_one_machine_that_was_resumed() {
        let driver = |ms| DriverTimes { stages: vec![stage(StageName::Plan, "", 1, false, ms)], total_ns: 400_000_000 };
        let shown = words(&table(&[driver([0, 0, 20, 30, 2]), driver([0, 0, 1, 0, 0])]));
        let expected = [
            "plan - - 20.0 ms 30.0 ms 2.00 ms 52.0 ms",
            "between stages - - - - - 348 ms",
            "plan - - 1.00 ms 0 0 1.00 ms",
            "between stages - - - - - 399 ms",
            "",
            "took 800 ms: starting 21.0 ms, working 30.0 ms, ending 2.00 ms, between stages 747 ms",
        ];
        assert_eq!(shown.get(3..), Some(&expected.map(str::to_owned)[..]));
        assert_eq!(table(&[]), [""; 0], "times that were not kept are no zeros");
    }

    #[test]
    fn machines_read_numbers_with_their_unit() {
        let stages = vec![stage(StageName::Plan, "", 1, true, [1, 2, 3, 4, 5])];
        let expected = json!({"signed": false, "drivers": [{"total_ns": 20_000_000, "stages": [{
            "stage": "plan", "label": "", "shards": 1, "waiting_ns": 1_000_000, "pulling_ns": 2_000_000, "starting_ns": 3_000_000,
            "working_ns": 4_000_000, "ending_ns": 5_000_000,
        }]}]});
        assert_eq!(json(&[DriverTimes { stages, total_ns: 20_000_000 }]), expected);
    }
}
