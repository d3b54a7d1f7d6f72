//! An endpoint at a Unix socket, over the real binaries.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use assay_record::Outcome;

use crate::pipeline::list;
use crate::serving;
use crate::support::{Fixture, binary};
use crate::traces::records;

#[test]
fn one_line_benchmarks_a_server_at_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("unix:{}", folder.path().join("server.sock").display());
    let mut process = Command::new(binary("assay-simulator"))
        .args(["--listen", &url, "--profile", "fast", "--model", serving::MODEL, "--until-stdin-closes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a simulator");
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().expect("its output")).read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), format!("listening on {url}"));

    let fixture = Fixture::bare();
    let bench = ["bench", "--url", &url, "--model", serving::MODEL, "--concurrency", "2", "--requests", "20"];
    let more = ["--output-tokens", "8", "--warmup", "0s", "--trials", "1", "--run-id", "unix"];
    fixture.assay(&[&bench[..], &more[..]].concat()).success();
    fixture.verify_recomputed("unix");
    let all = records(&fixture, "unix").pop().expect("an attempt");
    assert!(all.len() == 20 && all.iter().all(|record| record.outcome == Outcome::Ok));
    // The recorder reads the counters over the socket, too.
    let collection = fixture.manifest("unix", "collect");
    let checks = list(&collection["body"]["cross_checks"]);
    assert!(checks.iter().any(|check| check["what"] == "requests" && check["outcome"] == "agrees"), "{checks:#?}");
    drop(process.stdin.take());
    process.wait().expect("it ends");

    let refused = fixture.assay(&["bench", "--url", "unix:server.sock", "--model", "m", "--concurrency", "1"]).exits(2);
    assert!(refused.stderr.contains("`--url`") && refused.stderr.contains("the absolute path of a socket"), "{}", refused.stderr);
}
