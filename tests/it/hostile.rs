//! Attacks by a hostile script, folder or repository, and their results.

use std::fs;

use crate::support::{Fixture, PIPELINE, files_under, indicator_output, measured_fixture, pipeline, script};

/// Returns the reasons of the first attempt of the only trial.
fn reasons(fixture: &Fixture, run_id: &str) -> Vec<String> {
    let part = fixture.manifest(run_id, "execute");
    let reasons = part["body"]["attempts"][0]["validity"]["reasons"].as_array().expect("a list").clone();
    reasons.iter().map(|reason| reason["code"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn a_script_cannot_put_another_file_in_the_place_of_its_output() {
    // The files beside the script's folder are never read back.
    let body = format!(
        "rm -f ../stdout ../stderr\nln -s /etc/passwd ../stdout\nmkfifo ../stderr\necho '{}'",
        indicator_output("only", "1")
    );
    let fixture = Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 1, ""));
    fixture.run("one").success();
    assert_eq!(reasons(&fixture, "one"), Vec::<String>::new());
    let passwd = fs::read("/etc/passwd").expect("every machine has one");
    for path in files_under(&fixture.store().join("blobs")) {
        assert_ne!(fs::read(&path).expect("a blob"), passwd, "{}", path.display());
    }
}

#[test]
fn a_script_that_prints_without_end_is_stopped_at_the_limit() {
    for output in ["stdout", "stderr"] {
        let fixture = Fixture::bare();
        let after = fixture.root().join("after");
        let body = format!("head -c 1500000000 /dev/zero >/dev/{output}\ntouch '{}'", after.display());
        fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, ""));
        fixture.indicator("only", &script(&body), "");
        fixture.commit("a script that prints without end");
        let ran = fixture.run("one").refuses(30, "no_valid_trial");
        assert!(ran.stderr.contains("64 MiB"), "{}", ran.stderr);
        assert_eq!(reasons(&fixture, "one"), ["output_limit"]);
        assert!(!after.exists(), "the script went on");
        let part = fixture.manifest("one", "execute");
        let evidence = part["body"]["attempts"][0]["evidence"].as_array().expect("a list").clone();
        let sizes =
            evidence.iter().map(|artifact| artifact["size"].to_string().trim_matches('"').parse::<u64>().expect("a size"));
        assert!(sizes.max() <= Some(64 << 20), "{evidence:?}");
    }
}

#[test]
fn a_secret_that_a_script_prints_is_masked_and_its_attempt_does_not_count() {
    let mut fixture = Fixture::with_script("");
    fixture.set("TOKEN_OF_ALL", "hunter2-hunter2");
    let body = format!("echo \"the token is $TOKEN\" >&2\necho '{}'", indicator_output("only", "1"));
    fixture.indicator("only", &script(&body), "");
    let target = "{name: local, kind: host, env: {TOKEN: {from_env: TOKEN_OF_ALL}}}";
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, "").replace("{name: local, kind: host}", target));
    fixture.commit("a script that talks");
    fixture.run("one").exits(30);
    assert_eq!(reasons(&fixture, "one"), ["secret_in_output"]);
    for path in files_under(&fixture.store()) {
        let bytes = fs::read(&path).expect("a file of the store");
        assert!(!bytes.windows(15).any(|window| window == b"hunter2-hunter2"), "{}", path.display());
    }
}

#[test]
fn a_folder_that_has_a_run_s_name_does_not_stand_in_for_it() {
    let fixture = measured_fixture();
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("one")).expect("an empty folder of the run's name");
    let store = fixture.store();
    let ran = fixture.assay_in(folder.path(), &["verify", "one", "--store", store.to_str().expect("UTF-8")]);
    assert!(ran.success().stdout.contains("run one"));
    fixture.assay_in(folder.path(), &["verify", "./one"]).refuses(20, "not_a_publication");
}

#[test]
fn what_lies_in_a_published_folder_and_is_not_of_the_run_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    crate::support::copy_folder(&measured_fixture().published("one"), &folder.path().join("one"));
    fs::write(folder.path().join("one/numbers-final.json"), "{}").expect("a stranger");
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("one/link")).expect("a link");
    fs::write(folder.path().join("one/e\u{1b}[2J\n  ok  all good"), "").expect("a stranger with a bad name");
    let said = measured_fixture().assay(&["verify", folder.path().join("one").to_str().expect("UTF-8")]).success().stdout;
    for stranger in ["numbers-final.json", "link", r"e\u{1b}[2J\n  ok  all good"] {
        assert!(said.contains(&format!("`{stranger}` lies in the folder and is not of the run")), "{said}");
    }
    assert!(!said.contains('\u{1b}'));
}

#[test]
fn a_definition_that_is_a_link_is_not_followed() {
    let fixture = Fixture::new();
    std::os::unix::fs::symlink("/etc/passwd", fixture.repo().join("pipelines/other.yaml")).expect("a link");
    let ran = fixture.assay(&["validate"]).refuses(2, "unreadable");
    assert!(!ran.stdout.contains("root:") && !ran.stderr.contains("root:"));
}
