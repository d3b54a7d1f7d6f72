use super::*;

fn measurement() -> Measurement {
    Measurement {
        concurrency: 900,
        requests_per_s: 4_000,
        events_per_s: 45_000,
        measured_at: Instant::from_unix_ns(0),
        program: Digest::compute(b"program"),
        cpu_millis: Some(Count(2_000)),
    }
}

#[test]
fn what_is_kept_is_read_again_and_nothing_else_is() {
    let bytes = canonical_json(&measurement()).expect("JSON");
    insta::assert_snapshot!(String::from_utf8_lossy(&bytes), @r#"{"concurrency":900,"cpu_millis":"2000","events_per_s":45000,"measured_at":"1970-01-01T00:00:00.000000000Z","program":"sha256:1310ca2c8932dbd118668bd97442558a3e1f546b5e15c69699dfbd6024f548d8","requests_per_s":4000}"#);
    assert_eq!(Measurement::parse(&bytes), Some(measurement()));
    let text = String::from_utf8(bytes).expect("UTF-8");
    for bad in ["", "{}", &text.replace("900", "0"), &text.replace("concurrency", "streams"), &text.replace("4000", "-1")] {
        assert_eq!(Measurement::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn a_fingerprint_is_of_machine_program_and_limit_and_of_no_boot() {
    let facts = || HostFacts {
        cpu_model: Fact::observed("EPYC".to_owned(), "a test"),
        cgroup_cpu_millis: Fact::observed(Count(2_000), "a test"),
        ..HostFacts::unknown("a test")
    };
    let of = |facts: &HostFacts, program: &[u8]| fingerprint(facts, &Digest::compute(program)).expect("a fingerprint");
    let one = of(&facts(), b"program");
    let rebooted = HostFacts { boot_id: Fact::observed("another".to_owned(), "a test"), ..facts() };
    assert_eq!(of(&rebooted, b"program"), one);
    let unlimited = HostFacts { cgroup_cpu_millis: Fact::unknown("no limit"), ..facts() };
    let other_kernel = HostFacts { kernel: Fact::observed("7.0".to_owned(), "a test"), ..facts() };
    let others = [of(&facts(), b"another"), of(&unlimited, b"program"), of(&other_kernel, b"program")];
    assert!(others.iter().all(|other| *other != one));
}

#[test]
fn the_environment_says_whether_a_measurement_is_of_this_run() {
    let told = |cached| {
        let fact = measurement().as_fact(Digest::compute(b"f"), cached, "node-1");
        let ceiling = fact.value.expect("a ceiling");
        format!("{} {} {} {}", ceiling.node, ceiling.concurrency, ceiling.cached, fact.how)
    };
    assert_eq!(told(true), "node-1 900 true measured on such a machine before");
    assert_eq!(told(false), "node-1 900 false measured against a simulator beside the load generator");
}
