//! A published folder on the machine of a reader who received it: without a store, keys or trust. The commands that its report prints are
//! run there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{CommandResult, Fixture, copy_folder, measured_fixture};

/// Creates a machine with only a received folder, which is called `received`.
fn receiver_fixture() -> (Fixture, std::path::PathBuf) {
    let stranger = Fixture::without_keys();
    let folder = stranger.home().join("received");
    copy_folder(&measured_fixture().published("one"), &folder);
    (stranger, folder)
}

/// Returns the Assay commands of a report.
fn commands(report: &str) -> Vec<String> {
    let plain = report.replace("&#39;", "'").replace("&quot;", "\"").replace("&amp;", "&");
    let pieces = plain.split(['\n', '>', '<', '`']).map(str::trim).filter(|piece| piece.starts_with("assay "));
    let mut commands: Vec<_> = pieces.map(str::to_owned).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// Runs a command line as a shell would; those of a report contain no quotes.
fn shell(stranger: &Fixture, folder: &Path, command: &str) -> CommandResult {
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    stranger.assay_in(folder, &arguments)
}

#[test]
fn every_command_of_a_report_works_in_the_folder_that_it_came_in() {
    let (stranger, folder) = receiver_fixture();
    for name in ["report.html", "report.md"] {
        let report = fs::read_to_string(folder.join(name)).expect("a report");
        assert!(report.contains("level 2 is the highest level that it reaches"), "{name} says what a folder cannot prove");
        let commands: Vec<_> = commands(&report).into_iter().filter(|command| command.split(' ').count() > 2).collect();
        assert!(commands.contains(&"assay verify .".to_owned()), "{name}: {commands:?}");
        assert!(commands.iter().any(|command| command.starts_with("assay trace one/")), "{name}: {commands:?}");
        for command in commands {
            let ran = shell(&stranger, &folder, &command).exits(21);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("internally consistent; signer not established"), "{command}: {said}");
            assert!(ran.stderr.contains("hint: name whom you trust with `--trust POLICY`"), "{command}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_file_that_is_named_like_a_pinned_fingerprint_is_not_taken_for_it() {
    let (stranger, folder) = receiver_fixture();
    let other = format!("sha256:{}", "0".repeat(64));
    fs::copy(folder.join("trust.yaml"), folder.join(&other)).expect("a policy of somebody");
    let refused = stranger.assay_in(&folder, &["verify", ".", "--trust", &other]).exits(20);
    assert!(refused.stderr.contains("nothing with the pinned fingerprint"), "{}", refused.stderr);
    // Above the folder it does not count as a stranger either.
    fs::rename(folder.join(&other), stranger.home().join(&other)).expect("moved");
    stranger.assay_in(&stranger.home(), &["verify", "./received", "--strict", "--trust", &other]).exits(20);
}

#[test]
fn a_received_folder_reaches_level_2_and_says_why_no_more() {
    let (stranger, folder) = receiver_fixture();
    for path in [".", "../received", folder.to_str().expect("UTF-8")] {
        let said = stranger.assay_in(&folder, &["verify", path]).exits(21).stdout;
        assert!(said.contains("level 2 (rows and queries) of 4 reached"), "{said}");
        assert!(said.contains("a published folder holds no raw bytes: level 2 is the highest level"), "{said}");
        assert!(said.contains("warehouse not checked"), "{said}");
    }
    // The bare name is read as a run's, and a hint names the folder.
    let refused = stranger.assay_in(&stranger.home(), &["verify", "received"]).exits(2);
    assert!(refused.stderr.contains("`assay verify ./received`"), "{}", refused.stderr);
    // The output of `assay show` names the folder, so that its commands run where they were printed.
    let shown = stranger.assay_in(&stranger.home(), &["show", "./received", "--markdown"]).exits(21).stdout;
    for command in commands(&shown).into_iter().filter(|command| command.split(' ').count() > 2) {
        shell(&stranger, &stranger.home(), &command).exits(21);
    }
}

#[test]
fn a_trace_in_a_folder_is_of_that_folder_s_run() {
    let (mut stranger, folder) = receiver_fixture();
    let numbers: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("numbers.json")).expect("numbers")).expect("JSON");
    let address = numbers["numbers"][0]["address"].as_str().expect("an address").to_owned();
    stranger.assay_in(&folder, &["trace", &address]).exits(21);
    stranger.set("ASSAY_STORE", "/nowhere");
    stranger.assay_in(&folder, &["trace", &address]).exits(21);
    stranger.assay_in(&folder, &["trace", &address, "--store", "/elsewhere"]).refuses(2, "store_uri");
    stranger.assay_in(&folder, &["trace", &address.replacen("one/", "other/", 1)]).refuses(2, "store_uri");
    stranger.set("ASSAY_STORE", "");
    stranger.assay_in(&folder, &["trace", &address]).exits(21);
    let elsewhere = stranger.assay_in(&stranger.home(), &["runs"]);
    let unset = "there is no store at `";
    assert!(elsewhere.stderr.contains(unset), "an empty variable is as if it were unset: {}", elsewhere.stderr);
    stranger.assay_in(&folder, &["runs", "--store", ""]).refuses(2, "store_uri");
    stranger.unset("ASSAY_STORE");
    stranger.assay_in(&stranger.home(), &["trace", &address, "--from", "received"]).exits(21);
}

#[test]
fn what_a_run_prints_at_its_end_works() {
    let fixture = Fixture::new();
    let ran = fixture.run("one").success();
    let printed = |label: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}: {}", ran.stdout));
        line.split_once(' ').expect("a command").1.trim().to_owned()
    };
    for (label, level) in [("verify", "level 3 ("), ("folder", "level 2 ("), ("prove", "signed by")] {
        let command = printed(label);
        assert!(shell(&fixture, &fixture.repo(), &command).success().stdout.contains(level), "{command}");
    }
    // The folder whose report is named is the one that is verified.
    let report = printed("report");
    let folder = Path::new(&report).parent().expect("a folder").display().to_string();
    assert_eq!(printed("folder"), format!("assay verify {folder}"));
    let whole = fs::read(&report).expect("the report");
    fs::write(Path::new(&report), "another report").expect("written");
    shell(&fixture, &fixture.repo(), &printed("folder")).refuses(20, "artifact_corrupt");
    fs::write(&report, whole).expect("written");
    // A file of the Source is read before the others, and one that changed is not a missing one.
    let mut file = Path::new(&folder).join("source");
    while file.is_dir() {
        file = fs::read_dir(&file).expect("a folder").next().expect("an entry").expect("an entry").path();
    }
    fs::write(&file, "another file").expect("written");
    shell(&fixture, &fixture.repo(), &printed("folder")).refuses(20, "artifact_corrupt");
}

#[test]
fn a_folder_above_is_no_publication_and_is_not_read() {
    let (stranger, folder) = receiver_fixture();
    // This file is unreadable, so hashing the folder would fail with another error.
    let secret = stranger.home().join("secret");
    fs::create_dir(&secret).expect("a folder");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("closed");
    let refused = stranger.assay_in(&folder, &["verify", ".."]).refuses(20, "not_a_publication");
    assert!(refused.stderr.contains("`..` is not the folder of a published run"), "{}", refused.stderr);
    stranger.assay_in(&folder.join("chain"), &["verify", ".."]).exits(21);
}
