use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn at(second: i64) -> Instant {
    Instant::from_unix_ns(second * 1_000_000_000)
}

#[test]
fn a_run_id_says_what_and_when() {
    let id = new_run_id(&name("quickstart"), at(1_795_000_000)).to_string();
    assert_eq!(&id[..27], "quickstart-20261118-110640-");
    assert_eq!(id.len(), 31, "{id}");
}

#[test]
fn a_long_name_is_cut_where_it_stays_a_name() {
    let id = new_run_id(&name("abcdefghijklmnopqr-stuvw"), at(0)).to_string();
    assert!(id.starts_with("abcdefghijklmnopqr-19700101-000000-"), "{id}");
    assert_eq!(new_run_id(&name(&"x".repeat(MAX_NAME)), at(0)).as_str().len(), MAX_NAME);
}

#[test]
fn two_runs_of_one_second_have_two_ids() {
    let now = at(1_795_000_000).unix_ns();
    let ids = [now, now + 1, now + 2].map(|ns| new_run_id(&name("p"), Instant::from_unix_ns(ns)));
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

proptest! {
    #[test]
    fn a_run_id_is_always_one_and_sorted_by_time(
        pipeline in "[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?",
        ns in any::<i64>(),
        later in 1_000_000_000_i64..1_000_000_000_000_000,
    ) {
        let id = |ns| new_run_id(&name(&pipeline), Instant::from_unix_ns(ns));
        let first = id(ns);
        prop_assert!(first.as_str().len() <= MAX_NAME);
        prop_assert_eq!(first.as_str().parse::<RunId>(), Ok(first.clone()));
        if let Some(after) = ns.checked_add(later) {
            prop_assert!(first < id(after), "{} {}", first, id(after));
        }
    }
}

#[test]
fn a_store_and_a_home_are_found_for_every_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    std::fs::create_dir(root.join(".git")).expect("a repository");
    let home = root.join(".assay");
    assert_eq!(find_store_and_home(None, Some(&root)).expect("found"), (home.display().to_string(), home.clone()));
    assert_eq!(std::fs::read_to_string(home.join(".gitignore")).expect("it hides itself"), "*\n");
    for uri in ["/elsewhere", "s3://bucket/prefix", "file:///elsewhere"] {
        assert_eq!(find_store_and_home(Some(uri), Some(&root)).expect("found"), (uri.to_owned(), home.clone()), "{uri}");
    }
    let beside = root.join("store");
    let found = find_store_and_home(Some(&beside.display().to_string()), None).expect("found");
    assert_eq!(found, (beside.display().to_string(), beside), "without a repository, all is beside the store");
    let file = root.join("file");
    std::fs::write(&file, "").expect("a file");
    let refused = find_store_and_home(Some(&file.display().to_string()), None).expect_err("a file");
    insta::assert_snapshot!(Failure::from(refused).to_string().replace(&root.display().to_string(), ""), @r"
    error[store_uri]: `/file` is not a folder
      because: not a directory

    hint: name a folder, which is made if it does not exist, or a bucket (`s3://bucket/prefix`)
    ");
    let (relative, _) = find_store_and_home(Some("there"), Some(&root)).expect("a folder");
    assert_eq!(Path::new(&relative), std::path::absolute("there").expect("a path"));
}

#[test]
fn links_in_the_folder_of_a_repository_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let (repository, victim) = (root.join("repository"), root.join("victim"));
    std::fs::create_dir_all(repository.join(".git")).expect("a repository");
    for made in ["nightly", "published/nightly"] {
        std::fs::create_dir_all(victim.join(made)).expect("created");
        std::fs::write(victim.join(made).join("precious"), "").expect("written");
    }
    let home = repository.join(".assay");
    std::fs::create_dir(&home).expect("created");
    for name in ["scratch", "staging", "published", "locks", "logs", "runs", "blobs", "cases", "warehouse"] {
        std::os::unix::fs::symlink(&victim, home.join(name)).expect("a link");
        for store in [None, Some("s3://bucket/prefix")] {
            let failure = Failure::from(find_store_and_home(store, Some(&repository)).expect_err(name));
            assert_eq!(failure.code.as_str(), "not_plain", "{failure}");
            assert!(failure.message.contains(&format!("`{}`", home.join(name).display())), "{failure}");
        }
        std::fs::remove_file(home.join(name)).expect("removed");
    }
    std::fs::remove_file(home.join(".gitignore")).expect("written before");
    std::os::unix::fs::symlink(victim.join("new"), home.join(".gitignore")).expect("a link");
    find_store_and_home(None, Some(&repository)).expect("whatever is there stays");
    assert!(!victim.join("new").exists());

    let nightly: RunId = "nightly".parse().expect("a run id");
    std::os::unix::fs::symlink(&victim, home.join("scratch")).expect("a link");
    fresh_folder(&home.join("scratch"), &nightly).expect_err("a link");
    std::fs::remove_file(home.join("scratch")).expect("removed");
    std::fs::create_dir(home.join("scratch")).expect("created");
    std::os::unix::fs::symlink(victim.join("nightly"), home.join("scratch/nightly")).expect("a link");
    fresh_folder(&home.join("scratch"), &nightly).expect_err("a link");
    assert!(victim.join("nightly/precious").exists() && victim.join("published/nightly/precious").exists());
    std::fs::remove_file(home.join("scratch/nightly")).expect("removed");
    for _ in 0..2 {
        let made = fresh_folder(&home.join("scratch"), &nightly).expect("made");
        assert_eq!(std::fs::read_dir(&made).expect("a folder").count(), 0);
        std::fs::write(made.join("left"), "").expect("written");
    }
}

#[test]
fn the_folder_of_a_repository_may_be_a_link_that_its_user_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let (repository, disk) = (root.join("repository"), root.join("disk"));
    std::fs::create_dir(&repository).expect("created");
    std::fs::create_dir(&disk).expect("created");
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
        let ran =
            std::process::Command::new("git").current_dir(&repository).args(identity).args(arguments).output().expect("git");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "--quiet"]);
    std::os::unix::fs::symlink(&disk, repository.join(".assay")).expect("a link");
    find_store_and_home(None, Some(&repository)).expect("there is no commit");
    git(&["commit", "--quiet", "--allow-empty", "--message", "empty"]);
    find_store_and_home(None, Some(&repository)).expect("the commit does not hold it");
    git(&["add", "--force", ".assay"]);
    git(&["commit", "--quiet", "--message", "a link"]);
    let failure = Failure::from(find_store_and_home(None, Some(&repository)).expect_err("a link of the repository"));
    assert!(failure.to_string().contains("it is a link that the repository holds; remove it"), "{failure}");
}

#[test]
fn a_run_is_resumed_from_the_source_that_it_began_with() {
    let store = Store::open("memory:").expect("a store");
    let run_id: RunId = "nightly".parse().expect("a run id");
    let source = |pipeline: &str| -> Source {
        let body = json!({
            "kind": "adhoc", "dirty": true, "objects": [], "pipeline": pipeline, "files": [],
            "files_digest": Digest::compute(b""),
        });
        serde_json::from_value(body).expect("a source")
    };
    check_same_source(&store, &run_id, &source("a.yaml")).expect("it has not begun");

    let manifest = assay_manifest::Manifest::new(run_id.clone(), Vec::new(), source("a.yaml"));
    let manifest = store.put(&manifest.to_bytes().expect("bytes")).expect("put");
    let pointer = AcceptedResult { manifest, bundle: Digest::compute(b"bundle") }.to_bytes().expect("bytes");
    store.create(&Layout::for_run(&run_id).source(), &pointer).expect("created");
    check_same_source(&store, &run_id, &source("a.yaml")).expect("the same source");
    let other = Failure::from(check_same_source(&store, &run_id, &source("b.yaml")).expect_err("another pipeline"));
    insta::assert_snapshot!(other, @r"
    error[other_source]: the run `nightly` was started from another source

    hint: a run is resumed from the same commit and files, and `assay bench` with the same options; to start a new run, write `--run-id nightly-2`, or leave `--run-id` out
    ");
    assert_eq!(other.exit, Exit::Usage);
}

#[test]
fn a_failure_of_a_stage_that_was_told_to_end_is_not_hidden() {
    let own = Failure::new(ErrorCode::RowDiffers, "a row differs").because(&std::io::Error::other("the file was written to"));
    insta::assert_snapshot!(cancelled("SIGINT", &own), @r"
    error[cancelled]: the run was stopped (SIGINT)
      because: error[row_differs]: a row differs
      because: the file was written to

    hint: repeat the command that began the run, with its `--run-id`: what is finished is kept
    ");
    let alone = cancelled("SIGINT", &Failure::cancelled("SIGINT"));
    for code in [ErrorCode::ToldToEnd, ErrorCode::StageKilled] {
        assert_eq!(cancelled("SIGINT", &Failure::new(code, "the end")), alone);
    }
    assert_eq!((alone.exit, alone.causes.len()), (Exit::Cancelled, 0));
}
