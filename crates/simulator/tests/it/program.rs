//! Tests the binary: how it reports its address, and how it ends.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::client::Client;

fn start(arguments: &[&str]) -> (Child, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay-simulator"));
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.trim_end().strip_prefix("listening on http://").expect(&line).parse().expect("an address");
    (child, address)
}

#[test]
fn it_says_where_it_listens_and_ends_with_its_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let [port, file] = ["port", "config.json"].map(|name| folder.path().join(name));
    std::fs::write(&file, r#"{"model": "from-file", "profile": "fast"}"#).expect("written");
    let [port, file] = [&port, &file].map(|path| path.to_str().expect("text"));
    let (mut child, address) = start(&["--until-stdin-closes", "--port-file", port, "--config", file]);
    assert_eq!(std::fs::read_to_string(port).expect("the port").trim(), address.port().to_string());
    assert_eq!(Client::new(address).get("/v1/models").json()["data"][0]["id"], "from-file");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn it_ends_at_a_signal_and_a_flag_wins_over_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.json");
    std::fs::write(&file, r#"{"model": "from-file"}"#).expect("written");
    let (mut child, address) = start(&["--config", file.to_str().expect("text"), "--model", "from-flag"]);
    assert_eq!(Client::new(address).get("/v1/models").json()["data"][0]["id"], "from-flag");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn it_says_what_is_wrong_and_with_which_code() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_assay-simulator")).args(arguments).stdin(Stdio::null()).output();
        let output = output.expect("the binary");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, text) = run(&["--profile", "h200"]);
    assert!(code == Some(2) && text.starts_with("error: `h200` is no profile; one of "), "{text}");
    assert_eq!(run(&["--unknown"]).0, Some(2));
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = held.local_addr().expect("an address").to_string();
    let (code, text) = run(&["--listen", &taken]);
    assert!(code == Some(30) && text.starts_with(&format!("error: cannot listen on `{taken}`: ")), "{text}");
}
