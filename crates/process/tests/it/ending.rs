//! Tests of how children end, and that none of their processes is left.

use std::time::Duration;

use assay_process::{Child, Command, END_SIGNALS, Signal, Status, cancel_on_signals, kill_descendants};

use crate::support::{
    count_others, never_cancelled, read_rest, run, run_alone, run_alone_without_reaper, sh, spawner, start_until_ready,
};

/// Ignores SIGTERM, as do all processes that it starts.
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 1000; done";
/// Prints `ready` from a session of its own, whose starter still runs.
const DETACHED: &str = "setsid sh -c 'echo ready; exec sleep 1000'";
/// Prints `ready` from a session of its own, whose starter has gone.
const DAEMON: &str = "setsid sh -c 'echo ready; exec sleep 1000' & exit 0";
/// Uses about a tenth of a second of CPU time.
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
/// Far below the usage of `BURN`, and far above that of a script that only starts and waits.
const BURNT_NS: u64 = 30_000_000;

fn brief(script: &str) -> Command {
    Command { grace: Duration::from_millis(50), ..sh(script) }
}

#[test]
fn a_time_limit_ends_the_child() {
    run_alone("ending::a_time_limit_ends_the_child", || {
        let child = spawner().spawn(sh("sleep 1000")).expect("it starts");
        let ended = child.wait(Some(Duration::from_millis(50)), &never_cancelled()).expect("it ends");
        assert_eq!(ended.status, Status::Signaled(15));
        assert!(ended.timed_out && !ended.cancelled);
        assert!(ended.wall_ns >= 50_000_000);
    });
}

#[test]
fn a_polite_child_ends_as_it_likes_when_cancelled() {
    run_alone("ending::a_polite_child_ends_as_it_likes_when_cancelled", || {
        let (child, _output) = start_until_ready(sh("trap 'exit 7' TERM; echo ready; sleep 1000 & wait"));
        let cancel = never_cancelled();
        let canceller = std::thread::spawn({
            let cancel = cancel.clone();
            move || cancel.cancel("enough")
        });
        let ended = child.wait(None, &cancel).expect("it ends");
        canceller.join().expect("the canceller ends");
        assert_eq!(ended.status, Status::Exited(7));
        assert!(ended.cancelled && !ended.timed_out);
    });
}

#[test]
fn a_stubborn_child_is_killed_after_the_grace() {
    run_alone("ending::a_stubborn_child_is_killed_after_the_grace", || {
        let (child, output) = start_until_ready(brief(STUBBORN));
        let cancel = never_cancelled();
        cancel.cancel("before the wait");
        let ended = child.wait(None, &cancel).expect("it ends");
        assert_eq!(ended.status, Status::Signaled(9));
        assert!(ended.cancelled);
        assert_eq!(read_rest(output), "");
        assert_eq!(count_others(), 0);
    });
}

#[test]
fn a_child_that_ended_by_itself_was_not_cancelled() {
    run_alone("ending::a_child_that_ended_by_itself_was_not_cancelled", || {
        let (child, output) = start_until_ready(sh("echo ready; exit 4"));
        read_rest(output);
        // The kernel reports that it has ended: the zombie exists.
        while !child.has_ended() {
            std::thread::yield_now();
        }
        let cancel = never_cancelled();
        cancel.cancel("too late");
        let ended = child.wait(Some(Duration::ZERO), &cancel).expect("it ends");
        assert_eq!(ended.status, Status::Exited(4));
        assert!(!ended.cancelled && !ended.timed_out);
    });
}

#[test]
fn a_child_is_stopped_on_request() {
    run_alone("ending::a_child_is_stopped_on_request", || {
        let (child, _output) = start_until_ready(sh("trap 'exit 5' TERM; echo ready; sleep 1000 & wait"));
        assert_eq!(child.stop().expect("it ends").status, Status::Exited(5));
    });
}

#[test]
fn a_dropped_child_is_killed() {
    run_alone_without_reaper("ending::a_dropped_child_is_killed", || {
        let (child, output) = start_until_ready(sh(STUBBORN));
        drop(child);
        assert_eq!(read_rest(output), "", "the pipe ends when the last holder is gone");
    });
}

#[test]
fn background_processes_end_with_their_group() {
    run_alone_without_reaper("ending::background_processes_end_with_their_group", || {
        let (child, output) = start_until_ready(sh("sleep 1000 & sleep 1000 & echo ready; exit 6"));
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Exited(6));
        assert_eq!(read_rest(output), "");
    });
}

#[test]
fn a_daemon_comes_back_to_the_reaper_and_ends() {
    run_alone("ending::a_daemon_comes_back_to_the_reaper_and_ends", || {
        let (child, _output) = start_until_ready(sh(DAEMON));
        assert_eq!(child.wait(None, &never_cancelled()).expect("it ends").status, Status::Exited(0));
        assert_eq!(count_others(), 0);
    });
}

#[test]
fn an_orphan_stays_while_another_child_may_be_its_own() {
    run_alone("ending::an_orphan_stays_while_another_child_may_be_its_own", || {
        let (bystander, _output) = start_until_ready(sh("echo ready; exec sleep 1000"));
        let (child, _daemon) = start_until_ready(sh(DAEMON));
        child.wait(None, &never_cancelled()).expect("it ends");
        assert_eq!(count_others(), 2, "the bystander and the daemon");
        bystander.stop().expect("it ends");
        assert_eq!(count_others(), 0);
    });
}

#[test]
fn a_process_that_left_the_session_is_found_below_its_starter() {
    run_alone_without_reaper("ending::a_process_that_left_the_session_is_found_below_its_starter", || {
        // The process is no reaper, so only the walk down the tree can find it; and the starter ignores SIGTERM, so it still
        // runs.
        let (child, output) = start_until_ready(brief(&format!("trap '' TERM; {DETACHED}")));
        assert_eq!(stopped_by_limit(child), Status::Signaled(9));
        assert_eq!(read_rest(output), "");
    });
}

fn stopped_by_limit(child: Child) -> Status {
    let ended = child.wait(Some(Duration::ZERO), &never_cancelled()).expect("it ends");
    assert!(ended.timed_out);
    ended.status
}

#[test]
fn usage_counts_a_grandchild() {
    run_alone("ending::usage_counts_a_grandchild", || {
        let usage = run(sh(&format!("sh -c '{BURN}'; exit 0"))).1.usage;
        assert!(usage.ru_utime_ns + usage.ru_stime_ns > BURNT_NS, "{usage:?}");
        assert!(usage.ru_maxrss_kib > 0 && usage.ru_minflt > 0, "{usage:?}");
        let idle = run(sh("sh -c 'exit 0'; exit 0")).1.usage;
        assert!(idle.ru_utime_ns + idle.ru_stime_ns < BURNT_NS, "{idle:?}");
    });
}

#[test]
fn usage_counts_an_orphan_in_a_reaper() {
    run_alone("ending::usage_counts_an_orphan_in_a_reaper", || {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo").display().to_string();
        let script = format!("mkfifo {fifo}; setsid sh -c '{BURN}; echo > {fifo}; exec sleep 1000' & read line < {fifo}; exit 0");
        let (child, _output) = start_until_ready(sh(&format!("echo ready; {script}")));
        let usage = child.wait(None, &never_cancelled()).expect("it ends").usage;
        assert!(usage.ru_utime_ns + usage.ru_stime_ns > BURNT_NS, "{usage:?}");
    });
}

#[test]
fn killing_all_descendants_counts_them_and_leaves_their_waits_alone() {
    run_alone("ending::killing_all_descendants_counts_them_and_leaves_their_waits_alone", || {
        let (held, _output) = start_until_ready(sh("echo ready; exec sleep 1000"));
        let (starter, _daemon) = start_until_ready(sh(DAEMON));
        starter.wait(None, &never_cancelled()).expect("it ends");
        let swept = kill_descendants().expect("a sweep");
        assert_eq!((swept.killed, swept.left), (2, 0));
        assert_eq!(count_others(), 0);
        assert_eq!(held.wait(None, &never_cancelled()).expect("it ends").status, Status::Signaled(9));
        assert_eq!(kill_descendants().expect("a sweep").killed, 0, "a second sweep finds nothing");
    });
}

#[test]
fn a_chain_of_forks_does_not_outrun_the_sweep() {
    run_alone("ending::a_chain_of_forks_does_not_outrun_the_sweep", || {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link").display().to_string();
        // Each link starts the next in a new session, and exits.
        std::fs::write(&link, "setsid sh \"$0\" & exit 0").expect("written");
        let (child, _output) = start_until_ready(sh(&format!("for n in 1 2 3; do sh {link} & done; echo ready; exit 0")));
        child.wait(None, &never_cancelled()).expect("it ends");
        assert_eq!(kill_descendants().expect("a sweep").left, 0);
        assert_eq!(count_others(), 0);
    });
}

#[test]
fn a_signal_raises_the_flag_once() {
    run_alone("ending::a_signal_raises_the_flag_once", || {
        let cancel = cancel_on_signals(&END_SIGNALS).expect("handlers");
        let raise = |signal| rustix::process::kill_process(rustix::process::getpid(), signal).expect("sent");
        raise(Signal::INT);
        assert!(cancel.wait_timeout(Duration::MAX));
        assert_eq!(cancel.reason(), Some("SIGINT"));
        raise(Signal::INT);
        raise(Signal::TERM);
        assert_eq!(cancel.reason(), Some("SIGINT"));
    });
}

#[test]
fn a_closed_terminal_raises_the_flag() {
    run_alone("ending::a_closed_terminal_raises_the_flag", || {
        let cancel = cancel_on_signals(&END_SIGNALS).expect("handlers");
        rustix::process::kill_process(rustix::process::getpid(), Signal::HUP).expect("sent");
        assert!(cancel.wait_timeout(Duration::MAX));
        assert_eq!(cancel.reason(), Some("SIGHUP"));
    });
}
