//! Environment controls that the facts prove.

use assay_manifest::{Control, ControlFact, ControlState, HostFacts};

use crate::gpu;

/// Returns the controls that facts alone can prove: only locked clocks. Dedicated nodes, a fixed topology and a stable background
/// are not written in any file of the machine, so a person has to declare them, and the caller adds them.
///
/// Clocks are proved to be locked if every CPU has the `performance` governor with boost off, and every GPU runs at application
/// clocks that were set explicitly.
pub fn controls(facts: &HostFacts) -> Vec<ControlFact> {
    let checks = [cpu_clocks(facts), gpu_clocks(facts)];
    let state = if checks.iter().all(Result::is_ok) { ControlState::Proved } else { ControlState::Absent };
    let evidence = checks.map(|check| check.unwrap_or_else(|seen| seen)).join("; ");
    vec![ControlFact { control: Control::LockedClocks, state, evidence }]
}

/// Returns the observed clocks: `Err` if they do not prove locked clocks.
fn cpu_clocks(facts: &HostFacts) -> Result<String, String> {
    let governor = facts.governor.value.as_ref().map_or_else(|| "unknown".to_owned(), |governors| governors.join(", "));
    let boost = match facts.boost.value {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let seen = format!("CPU governor {governor}, boost {boost}");
    if governor == "performance" && boost == "off" { Ok(seen) } else { Err(seen) }
}

fn gpu_clocks(facts: &HostFacts) -> Result<String, String> {
    let Some(gpus) = &facts.gpus.value else { return no_report(facts) };
    match gpus.iter().find(|gpu| !gpu::runs_pinned(gpu)) {
        Some(gpu) => Err(format!("GPU {} {}", gpu.uuid, gpu.clocks)),
        None => Ok(format!("{} GPUs at pinned clocks", gpus.len())),
    }
}

/// Returns the evidence if there is no GPU report. If the vendor's tool is not installed, no workload could use a GPU through it;
/// any other missing report proves nothing.
fn no_report(facts: &HostFacts) -> Result<String, String> {
    let seen = format!("GPUs unknown: {}", facts.gpus.how);
    if facts.gpus.how.contains("No such file or directory") { Ok("no GPU tool installed".to_owned()) } else { Err(seen) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;
    use crate::tree::Tree;
    use assay_manifest::Fact;

    fn check(governors: &[&str], boost: Option<bool>, gpus: Fact<Vec<assay_manifest::Gpu>>) -> String {
        let mut facts = facts(&Tree::new(&[]).root());
        facts.governor = Fact::observed(governors.iter().map(|&governor| governor.to_owned()).collect(), "test");
        facts.boost = boost.map_or_else(|| Fact::unknown("test"), |boost| Fact::observed(boost, "test"));
        facts.gpus = gpus;
        let [control] = &controls(&facts)[..] else { panic!("one control") };
        format!("{} {}: {}", control.control, control.state, control.evidence)
    }

    fn gpus(report: &str) -> Fact<Vec<assay_manifest::Gpu>> {
        Fact::observed(gpu::parse(report).expect("understood"), "test")
    }

    const PINNED: &str = "GPU-1, NVIDIA A100, 81920, 535.1, 0:3B:0, 1095, 1275, 1410, 1095\n";
    const IDLE: &str = "GPU-2, NVIDIA A100, 81920, 535.1, 0:3C:0, 1095, 1275, 1410, 210\n";

    #[test]
    fn locked_clocks_are_proved_only_by_all_of_it() {
        insta::assert_snapshot!(check(&["performance"], Some(false), gpus(PINNED)), @"locked_clocks proved: CPU governor performance, boost off; 1 GPUs at pinned clocks");
        insta::assert_snapshot!(check(&["performance"], Some(false), gpus("")), @"locked_clocks proved: CPU governor performance, boost off; 0 GPUs at pinned clocks");
    }

    #[test]
    fn anything_less_is_absent_and_says_what_was_seen() {
        insta::assert_snapshot!(check(&["performance"], Some(true), gpus("")), @"locked_clocks absent: CPU governor performance, boost on; 0 GPUs at pinned clocks");
        insta::assert_snapshot!(check(&["performance", "powersave"], Some(false), gpus("")), @"locked_clocks absent: CPU governor performance, powersave, boost off; 0 GPUs at pinned clocks");
        insta::assert_snapshot!(check(&["performance"], None, gpus("")), @"locked_clocks absent: CPU governor performance, boost unknown; 0 GPUs at pinned clocks");
        insta::assert_snapshot!(check(&["performance"], Some(false), gpus(&format!("{PINNED}{IDLE}"))), @"locked_clocks absent: CPU governor performance, boost off; GPU GPU-2 pinned: application 1095 MHz, default 1275 MHz, maximum 1410 MHz, now 210 MHz");
        insta::assert_snapshot!(check(&["performance"], Some(false), Fact::unknown("the tool hung")), @"locked_clocks absent: CPU governor performance, boost off; GPUs unknown: the tool hung");
    }
}
