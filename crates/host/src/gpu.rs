//! GPUs, as the vendor's tool reports them.

use assay_manifest::{Count, Gpu};

use crate::program::NoOutput;
use crate::root::clip;
use crate::{Root, program};

/// The arguments that make `nvidia-smi` report the fields of [`assay_manifest::Gpu`]. Only fields that every driver since 450
/// has: with one unknown field the tool reports nothing at all.
pub const GPU_QUERY: [&str; 2] = [
    "--query-gpu=uuid,name,memory.total,driver_version,pci.bus_id,clocks.applications.graphics,\
     clocks.default_applications.graphics,clocks.max.graphics,clocks.current.graphics",
    "--format=csv,noheader,nounits",
];
/// The most GPUs that one report may hold.
const MAX_GPUS: usize = 1024;

/// Returns the report of `nvidia-smi` for [`GPU_QUERY`], or why there is none. It is kept as a raw reading.
pub fn gpu_report(root: &Root) -> Result<String, String> {
    program::program_output(root, "nvidia-smi", &GPU_QUERY)
}

/// Runs `nvidia-smi` with these arguments and returns its stdout.
///
/// # Errors
/// If there is no such program in PATH, if it fails, and if it takes longer than ten seconds.
pub fn nvidia_smi(arguments: &[String]) -> Result<String, NoOutput> {
    program::run("nvidia-smi", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Parses the report; one malformed line makes the whole report unknown.
pub(crate) fn parse(report: &str) -> Result<Vec<Gpu>, String> {
    let lines = report.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("No devices"));
    lines.take(MAX_GPUS).map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<Gpu, String> {
    let odd = || format!("`nvidia-smi` reports `{}`, which is not understood", clip(line));
    let fields: Vec<_> = line.split(',').map(str::trim).collect();
    let [uuid, model, memory, driver, bus, application, default, max, now] = fields[..] else { return Err(odd()) };
    // The tool counts memory in MiB.
    let memory = memory.parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20)).ok_or_else(odd)?;
    if !uuid.starts_with("GPU-") && !uuid.starts_with("MIG-") {
        return Err(odd());
    }
    Ok(Gpu {
        uuid: uuid.to_owned(),
        model: model.to_owned(),
        memory_bytes: Count(memory),
        driver_version: driver.to_owned(),
        pci_bus_id: bus.to_owned(),
        clocks: clocks(application, default, max, now),
    })
}

/// The word that [`clocks`] begins with if the application clocks were set.
const PINNED: &str = "pinned";

/// Describes the clocks in words. Application clocks are pinned if they differ from the default; a driver that no longer has them
/// reports `[N/A]`, and then nothing is claimed.
fn clocks(application: &str, default: &str, max: &str, now: &str) -> String {
    let mhz = |text: &str| text.parse::<u32>().map_or_else(|_| "unknown".to_owned(), |mhz| format!("{mhz} MHz"));
    let numbers = (application.parse::<u32>(), default.parse::<u32>());
    let verdict = match numbers {
        (Ok(application), Ok(default)) if application != default => PINNED,
        (Ok(_), Ok(_)) => "not pinned",
        _ => "not reported",
    };
    format!("{verdict}: application {}, default {}, maximum {}, now {}", mhz(application), mhz(default), mhz(max), mhz(now))
}

/// Returns true if the GPU really runs at application clocks that were set explicitly.
pub(crate) fn runs_pinned(gpu: &Gpu) -> bool {
    let value = |name: &str| gpu.clocks.split([':', ',']).find_map(|part| part.trim().strip_prefix(name));
    let at = value("application ").filter(|mhz| *mhz != "unknown");
    gpu.clocks.starts_with(PINNED) && at.is_some() && at == value("now ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "GPU-6c0b8a2e-6f2f-0f6c-9a53-1f2c3d4e5f60, NVIDIA H200, 143771, 570.86.15, 00000000:19:00.0, 1980, 1980, 1980, 345\n\
        GPU-7d1b8a2e-6f2f-0f6c-9a53-1f2c3d4e5f61, NVIDIA A100-SXM4-80GB, 81920, 535.183.01, 00000000:3B:00.0, 1095, 1275, 1410, 1095\n";

    #[test]
    fn a_report_is_read() {
        let gpus = parse(TWO).expect("understood");
        let shown: Vec<_> =
            gpus.iter().map(|gpu| format!("{} {} {} | {}", gpu.model, gpu.memory_bytes, gpu.pci_bus_id, gpu.clocks)).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        NVIDIA H200 150754820096 00000000:19:00.0 | not pinned: application 1980 MHz, default 1980 MHz, maximum 1980 MHz, now 345 MHz
        NVIDIA A100-SXM4-80GB 85899345920 00000000:3B:00.0 | pinned: application 1095 MHz, default 1275 MHz, maximum 1410 MHz, now 1095 MHz
        ");
        assert_eq!(gpus.iter().map(runs_pinned).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn what_a_driver_does_not_say_is_not_claimed() {
        let line = "GPU-1, NVIDIA GB200, 189471, 580.1, 0000:01:00.0, [N/A], [Not Supported], 2062, 120";
        let gpus = parse(line).expect("understood");
        insta::assert_snapshot!(gpus[0].clocks, @"not reported: application unknown, default unknown, maximum 2062 MHz, now 120 MHz");
        assert!(!runs_pinned(&gpus[0]));
    }

    #[test]
    fn odd_reports_are_unknown() {
        assert_eq!(parse(""), Ok(Vec::new()));
        assert_eq!(parse("No devices were found\n"), Ok(Vec::new()));
        for odd in [
            "NVIDIA-SMI has failed because it couldn't communicate",
            "GPU-1, x, [N/A], d, b, 1, 1, 1, 1",
            "x, x, 1, d, b, 1, 1, 1, 1",
        ] {
            assert!(parse(odd).is_err(), "{odd}");
        }
        insta::assert_snapshot!(parse("Unable to determine").expect_err("odd"), @"`nvidia-smi` reports `Unable to determine`, which is not understood");
    }
}
