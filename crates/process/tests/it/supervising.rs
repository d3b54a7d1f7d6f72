//! Tests of the wrapper between a runner and a program. This test program itself plays runner and wrapper.

use std::time::Duration;

use assay_process::{Child, Command, FdThree, Orphans, Output, Signal, Status, pipe_with_bytes, supervise};

use crate::support::{count_others, never_cancelled, read_rest, run_alone, sh, spawner, start_until_ready, this_test};

/// The variable that passes the supervised script to a role.
const SCRIPT: &str = "ASSAY_TEST_SCRIPT";
/// The variable that passes the process id of its parent to the wrapper.
const PARENT: &str = "ASSAY_TEST_PARENT";

/// Plays the wrapper, if the variable is set.
#[test]
#[expect(clippy::exit, reason = "a wrapper ends with its program's code")]
fn wrapper_role() {
    let (Ok(script), Ok(parent)) = (std::env::var(SCRIPT), std::env::var(PARENT)) else { return };
    let parent = parent.parse().expect("a number");
    let code = match supervise(parent, sh(&script), Duration::from_millis(50)) {
        Ok(status) => status.exit_code(),
        Err(error) => {
            println!("\nrefused: {error}");
            99
        }
    };
    std::process::exit(code.into());
}

/// Plays a runner that starts a wrapper, if the variable is set.
#[test]
fn runner_role() {
    let (Ok(script), Err(_)) = (std::env::var(SCRIPT), std::env::var(PARENT)) else { return };
    let wrapper = Command { stdout: Output::Inherit, ..wrapper(&script, std::process::id()) };
    let _ = spawner().spawn(wrapper).expect("it starts").wait(None, &never_cancelled());
}

fn wrapper(script: &str, parent: u32) -> Command {
    let command = this_test("supervising::wrapper_role").env(SCRIPT, script).env(PARENT, parent.to_string());
    // The wrapper has to clean up when its parent is gone, so it gets SIGTERM and not SIGKILL.
    Command { stdout: Output::Pipe, death_signal: Signal::TERM, ..command }
}

fn supervised(script: &str) -> Command {
    wrapper(script, std::process::id())
}

fn signal(child: &Child, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(child.pid()).expect("a number");
    rustix::process::kill_process(pid, signal).expect("sent");
}

/// Returns the status of a wrapper that gets a signal once its program is ready.
fn status_after(sent: Signal, script: &str) -> Status {
    let (child, output) = start_until_ready(supervised(script));
    signal(&child, sent);
    read_rest(output);
    child.wait(None, &never_cancelled()).expect("it ends").status
}

#[test]
fn the_wrapper_exits_as_its_program_did() {
    run_alone("supervising::the_wrapper_exits_as_its_program_did", || {
        let status = |script: &str| crate::support::run(supervised(script)).1.status;
        assert_eq!(status("exit 0"), Status::Exited(0));
        assert_eq!(status("exit 30"), Status::Exited(30));
        assert_eq!(status("kill -KILL $$"), Status::Exited(137));
    });
}

#[test]
fn signals_are_passed_on() {
    run_alone("supervising::signals_are_passed_on", || {
        let script = "trap 'exit 8' INT; trap 'exit 9' TERM; echo ready; sleep 1000 & wait";
        assert_eq!(status_after(Signal::INT, script), Status::Exited(8));
        assert_eq!(status_after(Signal::TERM, script), Status::Exited(9));
    });
}

#[test]
fn a_program_that_ignores_signals_is_killed() {
    run_alone("supervising::a_program_that_ignores_signals_is_killed", || {
        let script = "trap '' TERM INT; echo ready; while :; do sleep 1000; done";
        assert_eq!(status_after(Signal::TERM, script), Status::Exited(137));
    });
}

#[test]
fn daemons_end_with_the_wrapper() {
    run_alone("supervising::daemons_end_with_the_wrapper", || {
        let (child, output) =
            start_until_ready(supervised("setsid sh -c 'setsid sleep 1000 & exec sleep 1000' & echo ready; exit 5"));
        read_rest(output);
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Exited(5));
        assert_eq!(count_others(), 0);
    });
}

#[test]
fn descriptor_three_passes_through() {
    run_alone("supervising::descriptor_three_passes_through", || {
        let fd_three = FdThree::Passed(pipe_with_bytes(b"a key\n").expect("it fits"));
        let (output, _) = crate::support::run(Command { fd_three, ..supervised("echo; cat <&3; ls /proc/$$/fd") });
        assert!(output.ends_with("\na key\n0\n1\n2\n3\n"), "{output}");
    });
}

#[test]
fn nothing_is_left_when_the_runner_is_killed() {
    run_alone("supervising::nothing_is_left_when_the_runner_is_killed", || {
        let script = "trap '' TERM; setsid sh -c 'echo ready; exec sleep 1000' & while :; do sleep 1000; done";
        let runner = Command { stdout: Output::Pipe, ..this_test("supervising::runner_role").env(SCRIPT, script) };
        let (child, output) = start_until_ready(runner);
        signal(&child, Signal::KILL);
        // The pipe ends when runner, wrapper, program and daemon are all gone. Only the runner is killed here.
        read_rest(output);
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Signaled(9));
        assert_eq!(count_others(), 0);
    });
}

#[test]
fn a_program_ends_with_a_killed_wrapper() {
    run_alone("supervising::a_program_ends_with_a_killed_wrapper", || {
        let (child, output) = start_until_ready(supervised("trap '' TERM; echo ready; exec sleep 1000"));
        signal(&child, Signal::KILL);
        read_rest(output);
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Signaled(9));
    });
}

#[test]
fn a_wrapper_whose_parent_is_another_refuses() {
    run_alone("supervising::a_wrapper_whose_parent_is_another_refuses", || {
        let (output, ended) = crate::support::run(wrapper("echo started", 1));
        assert_eq!(ended.status, Status::Exited(99));
        assert!(output.contains("refused: the parent process 1 is gone"), "{output}");
        assert!(!output.contains("started"), "{output}");
    });
}

#[test]
fn what_a_killed_wrapper_leaves_behind_is_ended_beside_another_wrapper() {
    run_alone("supervising::what_a_killed_wrapper_leaves_behind_is_ended_beside_another_wrapper", || {
        let reaper = |script| Command { orphans: Orphans::AdoptedByChild, ..supervised(script) };
        let (other, _output) = start_until_ready(reaper("echo ready; exec sleep 1000"));
        // A process has no readable environment while it is being replaced by `exec`.
        while count_others() != 2 {
            std::thread::yield_now();
        }
        let (child, _output) =
            start_until_ready(reaper("sleep 1000 & setsid sh -c 'setsid sh -c \"echo ready; exec sleep 1000\" & wait' & wait"));
        signal(&child, Signal::KILL);
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Signaled(9));
        assert_eq!(count_others(), 2, "the other wrapper, its program, and nothing else");
        other.stop().expect("it ends");
        assert_eq!(count_others(), 0);
    });
}
