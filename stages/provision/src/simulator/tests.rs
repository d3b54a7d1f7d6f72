use assay_stage::Exit;
use serde_json::json;

use super::*;

fn target(url: Option<&str>, config: &[(&str, &str)]) -> Target {
    let config: std::collections::BTreeMap<_, _> = config.iter().copied().collect();
    let mut target = json!({
        "name": "sim", "kind": "simulator", "command": [], "env": [], "config": config, "ready_timeout_ns": "1", "hardware": {},
    });
    if let Some(url) = url {
        target["url"] = json!(url);
    }
    serde_json::from_value(target).expect("a target")
}

fn line(target: &Target, asked: &[&str]) -> Result<String, Failure> {
    line_with(target, asked, &[])
}

fn line_with(target: &Target, models: &[&str], adapters: &[&str]) -> Result<String, Failure> {
    let listen = listen_at(target)?;
    let (program, file) = (Path::new("/bin/assay-simulator"), Path::new("/scratch/port"));
    let asked = RequestedNames { models: models.iter().copied().collect(), adapters: adapters.iter().copied().collect() };
    command(program, target, &asked, listen, file).map(|command| command.join(" "))
}

#[test]
fn a_simulator_is_started_with_its_settings_and_the_model_that_is_asked_for() {
    let settings = [("profile", "h100-8b"), ("seed", "7"), ("ttft_ms", "-1")];
    insta::assert_snapshot!(line(&target(None, &settings), &["llama"]).expect("a command"), @"/bin/assay-simulator --listen 127.0.0.1:0 --port-file /scratch/port --model=llama --profile=h100-8b --seed=7 --ttft-ms=-1");
    insta::assert_snapshot!(line(&target(None, &[("model", "other")]), &["llama", "qwen"]).expect("a command"), @"/bin/assay-simulator --listen 127.0.0.1:0 --port-file /scratch/port --model=other");
    insta::assert_snapshot!(line(&target(Some("http://localhost:8000/"), &[]), &[]).expect("a command"), @"/bin/assay-simulator --listen 127.0.0.1:8000 --port-file /scratch/port");
    insta::assert_snapshot!(line(&target(Some("http://[::1]"), &[]), &[]).expect("a command"), @"/bin/assay-simulator --listen [::1]:80 --port-file /scratch/port");
}

#[test]
fn a_simulator_serves_the_adapters_that_are_asked_for() {
    let with = |config: &[(&str, &str)]| line_with(&target(None, config), &["llama"], &["chat", "sql"]).expect("a command");
    insta::assert_snapshot!(with(&[]), @"/bin/assay-simulator --listen 127.0.0.1:0 --port-file /scratch/port --model=llama --adapters=chat,sql");
    insta::assert_snapshot!(with(&[("adapters", "sql")]), @"/bin/assay-simulator --listen 127.0.0.1:0 --port-file /scratch/port --model=llama --adapters=sql");
}

#[test]
fn the_profiles_that_a_definition_may_name_are_the_simulator_s() {
    assert_eq!(assay_simulator::Profile::NAMES.map(|(name, _)| name), assay_spec::SIMULATOR_PROFILES);
    let options = assay_simulator::Settings::options().into_iter().filter(|option| !OWN_OPTIONS.contains(&option.as_str()));
    let settings: Vec<String> = options.map(|option| option.replace('-', "_")).collect();
    assert_eq!(settings, assay_spec::SIMULATOR_SETTINGS);
}

#[test]
fn what_a_simulator_cannot_be_is_a_mistake_of_the_definition() {
    let refused = |target: Target, asked: &[&str]| {
        let failure = line(&target, asked).expect_err("refused");
        assert_eq!(failure.exit, Exit::Definition);
        format!("{}: {}", failure.code, failure.message)
    };
    insta::assert_snapshot!(refused(target(None, &[]), &["llama", "qwen"]), @"target_models: the simulator `sim` is asked for the models `llama` and `qwen`, and serves one");
    for key in ["listen", "port_file", "port-file", "until-stdin-closes", "config"] {
        assert_eq!(
            refused(target(None, &[(key, "x")]), &[]),
            format!("target_config: `config` of target `sim` may not set `{key}`")
        );
    }
    insta::assert_snapshot!(refused(target(Some("https://127.0.0.1:1"), &[]), &[]), @"target_url: the simulator `sim` cannot listen at `https://127.0.0.1:1`: it speaks no TLS");
    insta::assert_snapshot!(refused(target(Some("http://example.org"), &[]), &[]), @"target_url: the simulator `sim` cannot listen at `http://example.org`: its host is neither `localhost` nor an IP address");
    insta::assert_snapshot!(refused(target(Some("nowhere"), &[]), &[]), @"target_url: the simulator `sim` cannot listen at `nowhere`: that is not an address");
}

fn port_from(file: &Path) -> Result<u16, Failure> {
    wait_for_port(Clock, &Cancel::new().expect("an eventfd"), &target(None, &[]), file, Duration::ZERO, &still_running())
}

/// Returns the end of a simulator that has not ended.
fn still_running() -> TargetEnd {
    TargetEnd::from_file("sim", Path::new("/nonexistent/end-of-sim"))
}

#[test]
fn the_port_is_what_the_simulator_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("port");
    insta::assert_snapshot!(port_from(&file).expect_err("not there"), @r"
    error[simulator_not_started]: the simulator `sim` did not listen within 0ns

    hint: its log beside the stage's, `target-sim.log`, says why
    ");
    std::fs::write(&file, "40123\n").expect("written");
    assert_eq!(port_from(&file), Ok(40123));
    for odd in ["", "0\n", "65536\n", "port", "\u{7f}"] {
        std::fs::write(&file, odd).expect("written");
        assert_eq!(port_from(&file).expect_err(odd).code.as_str(), "internal");
    }
    assert_eq!(port_from(folder.path()).expect_err("a folder").code.as_str(), "scratch");
}

#[test]
fn a_port_that_comes_later_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("port");
    // As the simulator writes it: the file appears whole.
    let (part, there) = (folder.path().join("port.part"), file.clone());
    let writer = std::thread::spawn(move || std::fs::write(&part, "40123\n").and_then(|()| std::fs::rename(part, there)));
    let limit = Duration::from_mins(10);
    let port = wait_for_port(Clock, &Cancel::new().expect("an eventfd"), &target(None, &[]), &file, limit, &still_running());
    writer.join().expect("no panic").expect("written");
    assert_eq!(port, Ok(40123));
}

#[test]
fn whoever_stops_the_run_stops_the_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let cancel = Cancel::new().expect("an eventfd");
    cancel.cancel("SIGINT");
    let limit = Duration::from_mins(10);
    let port = folder.path().join("port");
    let failure = wait_for_port(Clock, &cancel, &target(None, &[]), &port, limit, &still_running()).expect_err("stopped");
    assert_eq!((failure.exit, failure.message.as_str()), (Exit::Cancelled, "SIGINT"));
}

#[test]
fn a_simulator_that_ends_is_waited_for_no_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = TargetEnd::from_file("sim", &folder.path().join("end"));
    std::fs::write(folder.path().join("end"), "exit code 2").expect("written");
    let (cancel, port) = (Cancel::new().expect("an eventfd"), folder.path().join("port"));
    let limit = Duration::from_mins(10);
    let failure = wait_for_port(Clock, &cancel, &target(None, &[]), &port, limit, &end).expect_err("it ended");
    assert_eq!(failure.message, "target `sim` ended before it was ready: exit code 2");
}
