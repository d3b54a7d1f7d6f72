//! Amun: the documents of an inspection for each point of an indicator, as its service stored them.

use assay_manifest::{Fact, HostFacts, Instant, ResourceUsage};
use serde_json::{Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, empty, same};
use crate::names::{hex_id, origin_members};
use crate::output::Output;
use crate::run::{ExportedExecution, ExportedLoad, ExportedRun, ExportedScript, ExportedTrial};

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "amun",
    tool: "Amun",
    version: "the documents of its service, 2020 to 2022",
    files: "`ID/build/{Dockerfile,log,specification}` for each point, and `ID/results/N/{hwinfo,log,result}` for each trial that counts",
    loads: LOADS,
    needs: Needs::Outputs,
    fields: FIELDS,
    write,
};

const LOADS: &str = "indicators with a script";
const NO_IMAGE: &str = "null: the image was built before the run";
const UNKNOWN: &str = "null: Assay does not record it";

const FIELDS: &[ExportField] = &[
    differs(
        "build/Dockerfile",
        "the file `Containerfile` of the workload, or `FROM` and its image",
        "it has neither the script nor the entrypoint; empty if the workload has no image",
    ),
    empty("build/log", "empty", "the image was built before the run"),
    same("specification.@created", "the start of the run"),
    same("specification.identifier", "the name of the workload"),
    differs(
        "specification.base",
        "the image of the workload",
        "by its digest, after all steps; null if the workload has no image",
    ),
    same("specification.batch_size", "the planned trials of the point"),
    differs(
        "specification.environment[]",
        "the parameters of the workload, with those of the point",
        "variables of the target and of the variant are left out, and so are credentials",
    ),
    same("specification.files[].path", "the files beside the script"),
    differs("specification.files[].content", "their bytes", "bytes that are no UTF-8 are replaced"),
    differs("specification.script", "the bytes of the script", "bytes that are no UTF-8 are replaced"),
    empty("specification.build", "null", NO_IMAGE),
    empty("specification.package_manager", "null", NO_IMAGE),
    empty("specification.packages", "null", NO_IMAGE),
    empty("specification.python", "null", NO_IMAGE),
    empty("specification.python_packages", "null", NO_IMAGE),
    empty("specification.update", "null", NO_IMAGE),
    empty("specification.upgrade_pip", "null", NO_IMAGE),
    empty("specification.run", "null", "the requests of a pipeline are those of its stage"),
    differs(
        "result.stdout",
        "the document of stdout, or its text; `{}` if it is empty or a false value of Python",
        "a document with NaN stays a text, and a secret that was printed is masked",
    ),
    differs("result.stderr", "the text of stderr", "a secret that was printed is masked"),
    same("result.exit_code", "the exit code of the script"),
    same("result.script_sha256", "the digest of the bytes that ran, in hexadecimal digits"),
    same("result.start_datetime", "the start of the attempt that counts, in UTC"),
    same("result.end_datetime", "the end of the attempt that counts, in UTC"),
    differs("result.hostname", "the name of the pod", "null on one machine, whose name is not recorded"),
    differs(
        "result.usage.ru_utime",
        "user CPU time in seconds",
        "of the processes of the script alone; the tool counts its own children",
    ),
    differs(
        "result.usage.ru_stime",
        "system CPU time in seconds",
        "of the processes of the script alone; the tool counts its own children",
    ),
    same("result.usage.ru_{}", "resource usage of the processes of the script; `ru_maxrss` in KiB"),
    same("result.hwinfo", "as the file `hwinfo`"),
    differs("result.os_release.pretty_name", "name and version of the system", "the only key that Assay records"),
    empty("result.runtime_environment.cuda_version", "null", "the tool writes null, too"),
    same("result.runtime_environment.hardware.cpu_family", "the number of the CPU family"),
    same("result.runtime_environment.hardware.cpu_model", "the number of the CPU model"),
    differs("result.runtime_environment.operating_system.name", "name and version of the system", "in one text"),
    empty("result.runtime_environment.operating_system.version", "null", "it is a part of the name"),
    empty(
        "result.runtime_environment.python_version",
        "null",
        "the tool writes that of its entrypoint, which Assay does not have",
    ),
    same(
        "result.assay.{}",
        "the run, the digest of its result, the version of Assay, the case, the point, the trial and the workload's digest; no field of the tool",
    ),
    empty("results/log", "empty", "the tool writes the log of the pod, which is empty, too"),
    empty("hwinfo.cpu_type", "null", UNKNOWN),
    empty("hwinfo.cpu_info.arch", "null", UNKNOWN),
    same("hwinfo.cpu_info.arch_string_raw", "the architecture"),
    empty("hwinfo.cpu_info.bits", "null", UNKNOWN),
    same("hwinfo.cpu_info.brand_raw", "the name of the CPU"),
    same("hwinfo.cpu_info.count", "the CPUs that the kernel schedules on"),
    same("hwinfo.cpu_info.family", "the number of the CPU family"),
    same("hwinfo.cpu_info.model", "the number of the CPU model"),
    same("hwinfo.cpu_info.stepping", "the stepping of the CPU"),
    same("hwinfo.cpu_info.vendor_id_raw", "the vendor of the CPU"),
    empty("hwinfo.cpu_info.hz_actual_friendly", "null", UNKNOWN),
    empty("hwinfo.cpu_info.hz_advertised_friendly", "null", UNKNOWN),
    empty("hwinfo.cpu_info.l2_cache_size", "null", UNKNOWN),
    empty("hwinfo.cpu_info.cpuinfo_version", "null", UNKNOWN),
    same("hwinfo.cpu_features.flags[]", "the flags of the CPU"),
    empty("hwinfo.cpu_features.hz_actual", "null", UNKNOWN),
    empty("hwinfo.cpu_features.hz_advertised", "null", UNKNOWN),
    same("hwinfo.platform.machine", "the architecture"),
    empty("hwinfo.platform.architecture", "null", UNKNOWN),
    empty("hwinfo.platform.node", "null", "the name of a machine"),
    empty("hwinfo.platform.platform", "null", UNKNOWN),
    empty("hwinfo.platform.processor", "null", UNKNOWN),
    same("hwinfo.platform.release", "the release of the kernel"),
    same("hwinfo.platform.version", "the version of the kernel"),
];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    let with_script = |load: &'_ ExportedLoad| load.script.is_some();
    if !run.loads.iter().any(with_script) {
        return Err(ExportError::NoLoad { format: FORMAT.name, holds: LOADS });
    }
    let with_trials: Vec<_> =
        run.loads.iter().filter_map(|load| Some((load, load.script.as_ref()?, load.trials.first()?))).collect();
    if with_trials.is_empty() {
        return Err(ExportError::NoTrial);
    }
    for (load, script, first) in with_trials {
        inspection(run, load, script, first, out)?;
    }
    let others = run.loads.iter().filter(|load| !with_script(load));
    out.remarks.extend(others.map(|load| format!("`{}` is not in the files: it runs no script", load.case_id)));
    Ok(())
}

/// Writes the files of one point.
fn inspection(
    run: &ExportedRun,
    load: &ExportedLoad,
    script: &ExportedScript,
    first: &ExportedTrial,
    out: &mut Output<'_>,
) -> Result<(), ExportError> {
    let id = inspection_id(run, load, first);
    out.text(&format!("{id}/build/Dockerfile"), dockerfile(script))?;
    out.text(&format!("{id}/build/log"), "")?;
    out.json(&format!("{id}/build/specification"), &specification(run, load, script))?;
    for trial in &load.trials {
        let Some(execution) = &trial.execution else { continue };
        let folder = format!("{id}/results/{}", trial.index);
        out.json(&format!("{folder}/hwinfo"), &hwinfo(execution.host.as_ref()))?;
        out.text(&format!("{folder}/log"), "")?;
        out.json(&format!("{folder}/result"), &result(run, load, trial, execution))?;
    }
    Ok(())
}

/// Returns the id, as later versions of the service made them: the identifier, the time, and 16 hexadecimal digits.
fn inspection_id(run: &ExportedRun, load: &ExportedLoad, first: &ExportedTrial) -> String {
    let time = Instant::from_unix_ns(first.start_ns).to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).skip(2).take(12).collect();
    let hex: String = hex_id(&["amun", &run.run_id, &load.case_id, &load.point_id]).chars().take(16).collect();
    format!("inspection-{}-{digits}-{hex}", load.workload)
}

fn dockerfile(script: &ExportedScript) -> Vec<u8> {
    let recipe = script.files.iter().find(|(path, _)| path == "Containerfile").map(|(_, bytes)| bytes.clone());
    recipe.or_else(|| script.image.as_ref().map(|image| format!("FROM {image}\n").into_bytes())).unwrap_or_default()
}

fn specification(run: &ExportedRun, load: &ExportedLoad, script: &ExportedScript) -> Value {
    let variable = |(name, value): (&String, &String)| json!({"name": name, "value": value});
    let file = |(path, bytes): &(String, Vec<u8>)| json!({"path": path, "content": String::from_utf8_lossy(bytes)});
    json!({
        "@created": datetime(run.start_ns),
        "identifier": load.workload,
        "base": script.image,
        "batch_size": load.trials_planned,
        "environment": script.environment.iter().map(variable).collect::<Vec<_>>(),
        "files": script.files.iter().map(file).collect::<Vec<_>>(),
        "script": String::from_utf8_lossy(&script.bytes),
        "build": null, "package_manager": null, "packages": null, "python": null, "python_packages": null, "update": null,
        "upgrade_pip": null, "run": null,
    })
}

fn result(run: &ExportedRun, load: &ExportedLoad, trial: &ExportedTrial, execution: &ExportedExecution) -> Value {
    let host = execution.host.as_ref();
    let [family, model, _] = signature(host);
    let system = host.and_then(|host| host.operating_system.value.as_deref());
    json!({
        "stdout": stdout(&execution.stdout),
        "stderr": String::from_utf8_lossy(&execution.stderr),
        "exit_code": execution.exit_code,
        "script_sha256": execution.script_sha256.map(|digest| digest.hex()),
        "start_datetime": datetime(trial.start_ns),
        "end_datetime": datetime(trial.end_ns),
        "hostname": execution.pod,
        "usage": usage(&execution.usage),
        "hwinfo": hwinfo(host),
        "os_release": {"pretty_name": system},
        "runtime_environment": {
            "cuda_version": null, "hardware": {"cpu_family": family, "cpu_model": model},
            "operating_system": {"name": system, "version": null}, "python_version": null,
        },
        "assay": origin_members(run, load, trial),
    })
}

/// Returns an instant as Python prints it with `%Y-%m-%dT%H:%M:%S.%f`, without a zone.
fn datetime(unix_ns: i64) -> String {
    Instant::from_unix_ns(unix_ns).to_string().chars().take("2026-01-01T00:00:00.000000".len()).collect()
}

/// Returns the document that a script printed, or its text. The tool writes `{}` in the place of what is false in Python.
fn stdout(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str(&text) {
        Ok(value) if is_false(&value) => json!({}),
        Ok(value) => value,
        Err(_) if text.is_empty() => json!({}),
        Err(_) => Value::from(text),
    }
}

fn is_false(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn usage(usage: &ResourceUsage) -> Value {
    let seconds = |us: u64| us as f64 / 1e6;
    json!({
        "ru_utime": seconds(usage.utime_us.0), "ru_stime": seconds(usage.stime_us.0), "ru_maxrss": usage.maxrss_kib.0,
        "ru_ixrss": usage.ixrss.0, "ru_idrss": usage.idrss.0, "ru_isrss": usage.isrss.0, "ru_minflt": usage.minflt.0,
        "ru_majflt": usage.majflt.0, "ru_nswap": usage.nswap.0, "ru_inblock": usage.inblock.0, "ru_oublock": usage.oublock.0,
        "ru_msgsnd": usage.msgsnd.0, "ru_msgrcv": usage.msgrcv.0, "ru_nsignals": usage.nsignals.0, "ru_nvcsw": usage.nvcsw.0,
        "ru_nivcsw": usage.nivcsw.0,
    })
}

/// Returns the numbers of the CPU's family, model and stepping.
fn signature(host: Option<&HostFacts>) -> [Option<u32>; 3] {
    let text = host.and_then(|host| host.cpu_signature.value.as_deref()).unwrap_or_default();
    let mut numbers = text.split('/').map(|number| number.parse().ok());
    [(); 3].map(|()| numbers.next().flatten())
}

fn hwinfo(host: Option<&HostFacts>) -> Value {
    let text = |of: fn(&HostFacts) -> &Fact<String>| host.and_then(|host| of(host).value.clone());
    let (architecture, kernel) = (text(|host| &host.architecture), text(|host| &host.kernel).unwrap_or_default());
    let (release, version) =
        kernel.split_once(' ').map_or((kernel.as_str(), None), |(release, version)| (release, Some(version)));
    let [family, model, stepping] = signature(host);
    json!({
        "cpu_type": null,
        "cpu_info": {
            "arch": null, "arch_string_raw": architecture, "bits": null, "brand_raw": text(|host| &host.cpu_model),
            "count": host.and_then(|host| host.logical_cpus.value), "family": family, "model": model, "stepping": stepping,
            "vendor_id_raw": text(|host| &host.cpu_vendor), "hz_actual_friendly": null, "hz_advertised_friendly": null,
            "l2_cache_size": null, "cpuinfo_version": null,
        },
        "cpu_features": {
            "flags": host.and_then(|host| host.cpu_flags.value.clone()).unwrap_or_default(), "hz_actual": null, "hz_advertised": null,
        },
        "platform": {
            "architecture": null, "machine": architecture, "node": null, "platform": null, "processor": null, "release": release,
            "version": version,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdout_is_a_document_a_text_or_empty() {
        for (bytes, expected) in [
            (&b"{\"a\": 1}\n"[..], json!({"a": 1})),
            (b"", json!({})),
            (b"null", json!({})),
            (b"0", json!({})),
            (b"[]", json!({})),
            (b"false", json!({})),
            (b"\"\"", json!({})),
            (b"7", json!(7)),
            (b"text\n", json!("text\n")),
            (b"{\"a\": NaN}", json!("{\"a\": NaN}")),
        ] {
            assert_eq!(stdout(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_time_has_microseconds_and_no_zone() {
        assert_eq!(datetime(1_795_942_800_123_456_789), "2026-11-29T09:00:00.123456");
    }

    #[test]
    fn the_recipe_of_the_workload_comes_before_its_image() {
        let of = |files: &[&str], image: Option<&str>| {
            let files = files.iter().map(|path| ((*path).to_owned(), b"FROM base\nRUN step\n".to_vec())).collect();
            let script = ExportedScript { bytes: Vec::new(), files, environment: [].into(), image: image.map(str::to_owned) };
            String::from_utf8(dockerfile(&script)).expect("text")
        };
        assert_eq!(of(&["Containerfile"], Some("image")), "FROM base\nRUN step\n");
        assert_eq!((of(&["other"], Some("image")), of(&[], None)), ("FROM image\n".to_owned(), String::new()));
    }
}
