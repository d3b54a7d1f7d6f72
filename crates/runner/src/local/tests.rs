use std::io::Cursor;

use assay_manifest::{Kind, RunId, Shard};
use assay_stage::parameters::StageParameters;
use proptest::prelude::*;

use super::*;
use crate::StagePolicy;

fn call(stage: StageName) -> StageCall {
    let digest = |text: &str| Digest::compute(text.as_bytes());
    StageCall {
        stage,
        run_id: "nightly".parse::<RunId>().expect("a run id"),
        inputs: vec![InputRef { kind: Kind::Plan, manifest: digest("m"), bundle: digest("b") }],
        parameters: StageParameters::default_for(stage),
        shard: Shard { index: 1, count: 2 },
        policy: StagePolicy { timeout: None, retries: 0 },
        label: String::new(),
    }
}

fn line(stage: StageName, scratch: Option<&Path>) -> String {
    let words = stage_arguments(&call(stage), "/store", Digest::compute(b"t"), scratch).expect("arguments");
    let text = words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    [("m", "<manifest>"), ("b", "<bundle>"), ("t", "<trust>")]
        .iter()
        .fold(text, |text, (of, name)| text.replace(&Digest::compute(of.as_bytes()).to_string(), name))
}

#[test]
fn a_stage_is_told_everything_on_its_command_line() {
    insta::assert_snapshot!(line(StageName::Execute, None), @r#"--store /store --run nightly --trust <trust> --key-fd 3 --parameters {"block":0,"close":false,"except":[],"incarnation":0} --shard 1/2 --input <manifest>,<bundle>"#);
    insta::assert_snapshot!(line(StageName::Record, Some(Path::new("/scratch"))), @r#"record --store /store --run nightly --trust <trust> --key-fd 3 --parameters {"block":0,"incarnation":0,"sequence":0} --shard 1/2 --scratch /scratch --input <manifest>,<bundle>"#);
}

#[test]
fn no_secret_stands_on_a_command_line() {
    assert!(line(StageName::Execute, None).contains("--key-fd 3"), "the key comes on a descriptor");
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let mut reader = Cursor::new(bytes);
    std::iter::from_fn(|| next_line(&mut reader)).map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

#[test]
fn output_is_read_line_by_line() {
    assert_eq!(lines(b""), Vec::<String>::new());
    assert_eq!(lines(b"one\ntwo"), ["one", "two"]);
    assert_eq!(lines(b"one\n\n\ntwo\n"), ["one", "", "", "two"]);
}

#[test]
fn an_endless_line_is_cut_and_the_next_one_read() {
    let limit = usize::try_from(MAX_EVENT_BYTES).expect("it fits");
    let long = "x".repeat(limit);
    assert_eq!(lines(format!("{long}\nnext\n").as_bytes()), [long.clone(), "next".to_owned()]);
    assert_eq!(lines(format!("{long}yyy\nnext\n").as_bytes()), [long.clone(), "next".to_owned()]);
    assert_eq!(lines(format!("{long}yyy").as_bytes()), [long]);
}

proptest! {
    #[test]
    fn lines_are_what_was_printed(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200)) {
        let mut reader = Cursor::new(bytes.as_slice());
        let read: Vec<_> = std::iter::from_fn(|| next_line(&mut reader)).collect();
        let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        // Bytes after the last line end are a line only if there are any.
        expected.pop_if(|last| last.is_empty());
        prop_assert_eq!(read, expected);
    }
}

fn ended(status: Status) -> ChildExit {
    let usage = assay_process::Usage::default();
    ChildExit { status, timed_out: false, cancelled: false, leftovers: 0, usage, wall_ns: 0 }
}

fn silent(ended: &ChildExit, cancelled: Option<&str>) -> String {
    let cancel = Cancel::new().expect("an eventfd");
    if let Some(reason) = cancelled {
        cancel.cancel(reason);
    }
    let failure = Failure::from(unreported_end(ended, &cancel, None));
    format!("{} {failure}", failure.exit.code())
}

#[test]
fn a_stage_that_says_nothing_is_judged_by_how_it_ended() {
    let exited = |code| ended(Status::Exited(code));
    let late = ChildExit { timed_out: true, cancelled: true, ..exited(143) };
    insta::assert_snapshot!(silent(&late, None), @"30 error[stage_timeout]: the stage ran into its time limit and was stopped");
    insta::assert_snapshot!(silent(&exited(143), Some("SIGINT")), @"50 error[cancelled]: SIGINT");
    insta::assert_snapshot!(silent(&exited(137), None), @"30 error[stage_killed]: the stage was ended by signal 9");
    insta::assert_snapshot!(silent(&ended(Status::Signaled(9)), None), @"30 error[stage_killed]: the stage's supervisor was ended by signal 9");
    insta::assert_snapshot!(silent(&exited(20), None), @"20 error[stage_failed]: the stage ended with exit code 20 and no result");
    insta::assert_snapshot!(silent(&exited(101), None), @"1 error[stage_failed]: the stage ended with exit code 101 and no result");
    insta::assert_snapshot!(silent(&exited(0), None), @"1 error[stage_failed]: the stage succeeded, but gave no result");
}

#[test]
fn the_end_of_its_log_is_the_hint() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let cancel = Cancel::new().expect("an eventfd");
    let hint = || Failure::from(unreported_end(&ended(Status::Exited(1)), &cancel, Some(log.path()))).hint.expect("a hint");
    assert_eq!(hint(), format!("its log, `{}`, is empty", log.path().display()));
    std::fs::write(log.path(), "thread 'main' panicked\n").expect("written");
    assert_eq!(hint(), format!("the end of its log, `{}`:\nthread 'main' panicked", log.path().display()));
}

fn request(env_from: &[(&str, &str)], env_files: &[(&str, &str)]) -> HoldRequest {
    let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, from)| ((*name).to_owned(), (*from).to_owned())).collect();
    let env = map(&[("PLAIN", "value"), ("LANG", "C")]);
    HoldRequest {
        target: "vllm".to_owned(),
        command: vec!["serve".to_owned()],
        env,
        env_from: map(env_from),
        env_files: map(env_files),
        end_file: String::new(),
        pid_file: String::new(),
        address: None,
        cpus: None,
    }
}

#[test]
fn an_address_is_taken_while_something_listens_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    assert!(is_taken(&address));
    drop(listener);
    assert!(!is_taken(&address));
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket").display().to_string();
    assert!(!is_taken(&socket));
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    assert!(is_taken(&socket));
    drop(listener);
    assert!(!is_taken(&socket), "a file without a listener");
    for unknown in ["", "no address", "host.invalid:80"] {
        assert!(!is_taken(unknown), "{unknown}");
    }
}

#[test]
fn a_target_sees_what_its_definition_names_and_little_else() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret\n").expect("written");
    let path = file.path().display().to_string();
    let env = held_environment(&request(&[("COPY", "PATH")], &[("TOKEN", &path)])).expect("all of it is there");
    let text = |name: &str| env.get(name).map(|value| value.to_string_lossy().into_owned());
    assert_eq!(text("PLAIN").as_deref(), Some("value"));
    assert_eq!(text("LANG").as_deref(), Some("C"), "the definition wins over what is passed on");
    assert_eq!(text("TOKEN").as_deref(), Some("secret"));
    assert_eq!(text("COPY"), text("PATH"));
    assert!(!env.contains_key("CARGO_MANIFEST_DIR"), "this test's own environment stays here");
}

#[test]
fn a_secret_that_is_not_there_is_named_and_not_shown() {
    let refused =
        |from: &[_], files: &[_]| Failure::from(held_environment(&request(from, files)).expect_err("absent")).to_string();
    insta::assert_snapshot!(refused(&[("TOKEN", "ASSAY_TEST_NO_SUCH_VARIABLE")], &[]), @"error[secret_absent]: `TOKEN` of target `vllm` comes from the environment variable `ASSAY_TEST_NO_SUCH_VARIABLE`, which is not set");
    insta::assert_snapshot!(refused(&[], &[("TOKEN", "/nonexistent/token")]), @r"
    error[secret_absent]: `TOKEN` of target `vllm` comes from the file `/nonexistent/token`, which cannot be read
      because: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(refused(&[], &[("TOKEN", "/dev/zero")]), @r"
    error[secret_absent]: `TOKEN` of target `vllm` comes from the file `/dev/zero`, which cannot be read
      because: it is larger than the limit of 131072 bytes
    ");
}

#[test]
fn the_end_of_a_target_shows_no_part_of_its_secrets() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(log.path(), format!("key: hunter22hunter22 {}", "x".repeat((16 << 10) - 9))).expect("written");
    let secrets = Secrets::new(["hunter22hunter22"]);
    let described = describe_end(&ended(Status::Exited(1)), log.path(), &secrets);
    assert!(
        described.starts_with("exit code 1; the end of its log:\n[secret] xxx"),
        "{}",
        described.get(..60).unwrap_or(&described)
    );
}

#[test]
fn logs_are_written_through_no_link() {
    let (home, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let logs = home.path().join("logs");
    let refused = |run: &str| {
        let error = make_logs_folder(&logs.join(run)).expect_err("a link below the home folder");
        Failure::from(error).to_string().replace(&home.path().display().to_string(), "HOME")
    };
    std::os::unix::fs::symlink(elsewhere.path(), &logs).expect("a link");
    insta::assert_snapshot!(refused("run"), @r"
    error[logs]: cannot make `HOME/logs`
      because: it is a link; remove it

    hint: check that you may write to the folder, and that its disk has free space
    ");
    assert_eq!(std::fs::read_dir(elsewhere.path()).expect("readable").count(), 0, "nothing was created there");
    std::fs::remove_file(&logs).expect("removed");
    std::os::unix::fs::symlink(elsewhere.path().join("absent"), &logs).expect("a link to nothing");
    assert!(refused("run").contains("it is a link; remove it"));
    std::fs::remove_file(&logs).expect("removed");
    std::fs::create_dir(&logs).expect("a folder");
    std::os::unix::fs::symlink(elsewhere.path(), logs.join("run")).expect("a link");
    assert!(refused("run").contains("`HOME/logs/run`"), "{}", refused("run"));
    make_logs_folder(&logs.join("other")).expect("made");
    make_logs_folder(&logs.join("other")).expect("there already");
    assert!(logs.join("other").is_dir());
}
