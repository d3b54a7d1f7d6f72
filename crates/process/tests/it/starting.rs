//! Tests of the environment and descriptors that a child sees.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use assay_process::{Command, Error, FdThree, Input, Output, Status, pipe_with_bytes};

use crate::support::{contents, never_cancelled, open_descriptors, run, run_alone, sh, spawner};

#[test]
fn the_exit_code_is_reported() {
    run_alone("starting::the_exit_code_is_reported", || {
        let (output, ended) = run(sh("echo out; exit 3"));
        assert_eq!(output, "out\n");
        assert_eq!(ended.status, Status::Exited(3));
        assert!(!ended.timed_out && !ended.cancelled);
        assert!(ended.wall_ns > 0);
    });
}

#[test]
fn the_signal_is_reported() {
    run_alone("starting::the_signal_is_reported", || {
        assert_eq!(run(sh("kill -SEGV $$")).1.status, Status::Signaled(11));
    });
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    run_alone("starting::the_environment_is_exactly_what_was_given", || {
        let command = Command { stdout: Output::Pipe, ..Command::new("/usr/bin/env").env("A", "1").env("B", "two words") };
        assert_eq!(run(command).0, "A=1\nB=two words\n");
    });
}

#[test]
fn a_program_is_looked_up_in_the_given_path() {
    run_alone("starting::a_program_is_looked_up_in_the_given_path", || {
        let found = Command::new("true").env("PATH", "/usr/bin:/bin");
        assert_eq!(run(found).1.status, Status::Exited(0));
        let absent = spawner().spawn(Command::new("true").env("PATH", "/nowhere"));
        assert!(matches!(absent, Err(Error::Start { program, .. }) if program == "true"));
    });
}

#[test]
fn a_child_leads_its_own_group_in_its_folder() {
    run_alone("starting::a_child_leads_its_own_group_in_its_folder", || {
        let script = "cut -d' ' -f5 /proc/self/stat; echo $$; pwd";
        let (output, _) = run(Command { cwd: Some(PathBuf::from("/proc")), ..sh(script) });
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(lines[0], lines[1], "the group is the child's own number");
        assert_eq!(lines[2], "/proc");
    });
}

#[test]
fn input_comes_from_bytes_a_file_or_nowhere() {
    run_alone("starting::input_comes_from_bytes_a_file_or_nowhere", || {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("in");
        std::fs::write(&file, "from a file").expect("written");
        let much = "x".repeat(1 << 20);
        let given = |stdin| run(Command { stdin, ..sh("cat") }).0;
        assert_eq!(given(Input::File(file)), "from a file");
        assert_eq!(given(Input::Bytes(much.clone().into_bytes())), much);
        assert_eq!(given(Input::Null), "");
    });
}

#[test]
fn much_output_goes_into_a_file_that_is_emptied_first() {
    run_alone("starting::much_output_goes_into_a_file_that_is_emptied_first", || {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out");
        std::fs::write(&file, "old").expect("written");
        let stdout = Output::File(file.clone());
        run(Command { stdout, ..sh("head -c 3000000 /dev/zero | tr '\\0' x") });
        assert_eq!(contents(&file), "x".repeat(3_000_000));
    });
}

#[test]
fn both_outputs_may_share_a_file() {
    run_alone("starting::both_outputs_may_share_a_file", || {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("both");
        let output = || Output::File(file.clone());
        run(Command { stdout: output(), stderr: output(), ..sh("echo one; echo two >&2; echo three") });
        assert_eq!(contents(&file), "one\ntwo\nthree\n");
    });
}

#[test]
fn a_child_inherits_nothing_but_what_it_is_passed() {
    run_alone("starting::a_child_inherits_nothing_but_what_it_is_passed", || {
        // A descriptor without close-on-exec, as careless libraries leave it.
        let null = std::fs::File::open("/dev/null").expect("it opens");
        let stray = rustix::io::dup(&null).expect("a descriptor");
        let list = "ls /proc/$$/fd";
        assert_eq!(run(sh(list)).0, "0\n1\n2\n");
        assert_eq!(run(Command { fd_three: FdThree::Passed(stray), ..sh(list) }).0, "0\n1\n2\n3\n");
    });
}

#[test]
fn descriptor_three_carries_a_key() {
    run_alone("starting::descriptor_three_carries_a_key", || {
        let passed = || FdThree::Passed(pipe_with_bytes(b"a key").expect("it fits"));
        let read = |fd_three| run(Command { fd_three, ..sh("cat <&3") }).0;
        assert_eq!(read(passed()), "a key");
        // The passed descriptor may have any number in this process, including 3.
        let held: Vec<OwnedFd> = (0..4).map(|_| pipe_with_bytes(b"another").expect("it fits")).collect();
        for fd in held {
            assert_eq!(read(FdThree::Passed(fd)), "another");
        }
    });
}

#[test]
fn a_failed_exec_is_reported_with_descriptor_three_passed() {
    run_alone("starting::a_failed_exec_is_reported_with_descriptor_three_passed", || {
        let fd_three = FdThree::Passed(pipe_with_bytes(b"a key").expect("it fits"));
        let refused = spawner().spawn(Command { fd_three, ..Command::new("/nowhere/program") }).expect_err("it is absent");
        assert_eq!(refused.to_string(), "failed to start `/nowhere/program`");
        let source = std::error::Error::source(&refused).expect("a cause").to_string();
        assert_eq!(source, "No such file or directory (os error 2)");
    });
}

#[test]
fn what_cannot_be_opened_is_named() {
    run_alone("starting::what_cannot_be_opened_is_named", || {
        let refuse = |command| spawner().spawn(command).expect_err("refused").to_string();
        let absent = || PathBuf::from("/nowhere/file");
        assert_eq!(
            refuse(Command { stdin: Input::File(absent()), ..sh("") }),
            "failed to open `/nowhere/file` for a child process"
        );
        assert_eq!(
            refuse(Command { stderr: Output::File(absent()), ..sh("") }),
            "failed to open `/nowhere/file` for a child process"
        );
        assert_eq!(refuse(Command { cwd: Some(absent()), ..sh("") }), "failed to start `/bin/sh`");
    });
}

/// Other writers of the folder of a log may have put something in its place: a link to another file, or a pipe that blocks.
#[test]
fn a_log_is_a_plain_file_and_no_link() {
    run_alone("starting::a_log_is_a_plain_file_and_no_link", || {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("log"), "of an earlier process\n").expect("written");
        std::fs::write(at("precious"), "precious").expect("written");
        std::os::unix::fs::symlink(at("precious"), at("link")).expect("linked");
        std::os::unix::fs::symlink(at("new"), at("dangling")).expect("linked");
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo").success());
        run(Command { stdout: Output::Log(at("log")), stderr: Output::Log(at("log")), ..sh("echo out; echo err >&2") });
        assert_eq!(std::fs::read_to_string(at("log")).expect("a log"), "out\nerr\n");
        for name in ["link", "dangling", "fifo"] {
            let refused = spawner().spawn(Command { stdout: Output::Log(at(name)), ..sh("echo out") }).expect_err(name);
            let cause = std::error::Error::source(&refused).map(ToString::to_string);
            assert_eq!(cause.as_deref(), Some("it is a link or no plain file; remove it"), "{name}");
        }
        assert_eq!(std::fs::read_to_string(at("precious")).expect("it is there"), "precious");
        assert!(!at("new").exists());
    });
}

#[test]
fn nothing_leaks_a_descriptor() {
    run_alone("starting::nothing_leaks_a_descriptor", || {
        let before = open_descriptors();
        for _ in 0..20 {
            let fd_three = FdThree::Passed(pipe_with_bytes(b"a key").expect("it fits"));
            run(Command { fd_three, stdin: Input::Bytes(vec![1]), stderr: Output::Pipe, ..sh("echo out") });
            let _ = spawner().spawn(Command::new("/nowhere/program")).expect_err("it is absent");
            never_cancelled().cancel("done");
        }
        assert_eq!(open_descriptors(), before);
    });
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    run_alone("starting::a_child_outlives_the_thread_that_asked_for_it", || {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        let script = format!("mkfifo {0}; echo ready; read line < {0}; echo $line", fifo.display());
        // The spawner's own handle is gone as well; the child keeps its thread.
        let worker = std::thread::spawn(move || crate::support::start_until_ready(sh(&script)));
        let (child, output) = worker.join().expect("the worker ends");
        std::fs::write(&fifo, "still here\n").expect("the child reads");
        assert_eq!(crate::support::read_rest(output), "still here\n");
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Exited(0));
    });
}
