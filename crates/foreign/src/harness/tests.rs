//! Real outputs of harnesses, each file named by the version that wrote it; that of cargo-criterion is its documented example, shortened.

use assay_manifest::HarnessFormat;
use proptest::prelude::*;

use super::*;

const GO: &str = include_str!("fixtures/go-1.26.txt");
const GOOGLE: &str = include_str!("fixtures/google-benchmark-1.9.5.json");
const FAILED_GOOGLE: &str = include_str!("fixtures/google-benchmark-1.9.5-failed.json");
const PYTEST: &str = include_str!("fixtures/pytest-benchmark-5.3.1.json");
const HYPERFINE: &str = include_str!("fixtures/hyperfine-1.15.0.json");
const CRITERION: &str = include_str!("fixtures/cargo-criterion-documented.jsonl");
const JMH: &str = include_str!("fixtures/jmh-1.37.json");

const ALL: [(HarnessFormat, &str); 6] = [
    (HarnessFormat::GoBench, GO),
    (HarnessFormat::GoogleBenchmark, GOOGLE),
    (HarnessFormat::PytestBenchmark, PYTEST),
    (HarnessFormat::Hyperfine, HYPERFINE),
    (HarnessFormat::Criterion, CRITERION),
    (HarnessFormat::Jmh, JMH),
];

/// Returns a line for each measurement: its path, the harness's unit, the number of samples and the first of them.
fn shown(format: HarnessFormat, text: &str) -> String {
    let line = |measurement: &Measurement| {
        let (unit, samples) = (&measurement.unit, &measurement.samples);
        format!("{} [{unit}] {} x {}", measurement.path(), samples.len(), samples[0])
    };
    match read(format, text.as_bytes()) {
        Ok(measurements) => measurements.iter().map(line).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn go() {
    insta::assert_snapshot!(shown(HarnessFormat::GoBench, GO), @r"
    BenchmarkFields-2.time_nanoseconds [ns/op] 3 x 93344
    BenchmarkFields-2.MB_per_s [MB/s] 3 x 203.55
    BenchmarkFields-2.allocated_bytes [B/op] 3 x 65536
    BenchmarkFields-2.allocs [allocs/op] 3 x 1
    BenchmarkCount/word_some-2.time_nanoseconds [ns/op] 3 x 40419
    BenchmarkCount/word_some-2.words [words/op] 3 x 1000
    BenchmarkCount/word_of-2.time_nanoseconds [ns/op] 3 x 31837
    BenchmarkCount/word_of-2.words [words/op] 3 x 1000
    ");
    let two = format!("{GO}pkg: example.org/other\nBenchmarkFields-2\t100\t5 ns/op\nok  \texample.org/other\t0.1s\n");
    let names = shown(HarnessFormat::GoBench, &two);
    assert!(
        names.contains("example.org/words.BenchmarkFields-2.time_nanoseconds") && names.contains("example.org/other.Bench"),
        "{names}"
    );
    let log = "BenchmarkLog-2\nBenchmarks are fun\nBenchmarkLog-2 \t 10\t 2.5 ns/op\nPASS\n";
    assert_eq!(shown(HarnessFormat::GoBench, log), "BenchmarkLog-2.time_nanoseconds [ns/op] 1 x 2.5");
}

#[test]
fn google_benchmark() {
    insta::assert_snapshot!(shown(HarnessFormat::GoogleBenchmark, GOOGLE), @r"
    split.real_time_nanoseconds [ns] 3 x 73902.03299345793
    split.cpu_time_nanoseconds [ns] 3 x 66260.63888888889
    split.words [] 3 x 4000
    ");
    let aggregates = GOOGLE.replace("\"iteration\"", "\"aggregate\"");
    insta::assert_snapshot!(shown(HarnessFormat::GoogleBenchmark, &aggregates), @"error: the benchmark `split` has aggregates only, and no samples: let the harness report its repetitions too");
}

#[test]
fn pytest_benchmark() {
    insta::assert_snapshot!(shown(HarnessFormat::PytestBenchmark, PYTEST), @r"
    test_words.py::test_split.time_seconds [s] 5 x 0.00006550699981744401
    test_words.py::test_count.time_seconds [s] 4 x 0.00001648860015848186
    ");
    let without_rounds = PYTEST.replace("\"data\"", "\"other\"");
    assert!(shown(HarnessFormat::PytestBenchmark, &without_rounds).contains(" 1 x "), "the median alone");
}

#[test]
fn hyperfine() {
    insta::assert_snapshot!(shown(HarnessFormat::Hyperfine, HYPERFINE), @r"
    sh_w.sh.time_seconds [s] 4 x 0
    sh_w.sh.user_time_seconds [s] 1 x 0.0007277999999999998
    sh_w.sh.system_time_seconds [s] 1 x 0
    sleep_0.01.time_seconds [s] 4 x 0.007897805939999999
    sleep_0.01.user_time_seconds [s] 1 x 0.0009290499999999998
    sleep_0.01.system_time_seconds [s] 1 x 0.000266175
    ");
}

#[test]
fn criterion() {
    insta::assert_snapshot!(shown(HarnessFormat::Criterion, CRITERION), @"norm/16.time_nanoseconds [ns] 3 x 4140");
    let uneven = CRITERION.replace("[30,60,90]", "[30,60]");
    insta::assert_snapshot!(shown(HarnessFormat::Criterion, &uneven), @"error: the benchmark `norm/16` failed: its measured values have not one number of iterations each");
    let none = CRITERION.replace("[30,60,90]", "[30,0,90]");
    assert!(shown(HarnessFormat::Criterion, &none).starts_with("error: "), "nothing is divided by zero");
}

#[test]
fn jmh() {
    insta::assert_snapshot!(shown(HarnessFormat::Jmh, JMH), @r"
    example.Words.length_size_10_.throughput_ops_per_us [ops/us] 6 x 51.86361904192109
    example.Words.length_size_100_.throughput_ops_per_us [ops/us] 6 x 39.42651208204373
    example.Words.split_size_10_.time_microseconds [us/op] 6 x 1.65489461311459
    example.Words.split_size_100_.time_microseconds [us/op] 6 x 37.64887308429119
    ");
    let histograms = JMH.replace("\"rawData\"", "\"rawDataHistogram\"");
    assert!(shown(HarnessFormat::Jmh, &histograms).contains(" 1 x "), "the score alone");
}

#[test]
fn what_failed_is_no_number() {
    insta::assert_snapshot!(shown(HarnessFormat::GoogleBenchmark, FAILED_GOOGLE), @"error: the benchmark `fail` failed: no data");
    let skipped = FAILED_GOOGLE.replace("error_occurred", "skipped").replace("error_message", "skip_message");
    insta::assert_snapshot!(shown(HarnessFormat::GoogleBenchmark, &skipped), @"error: the benchmark `fail` failed: no data");
    let go = format!("{GO}--- FAIL: BenchmarkX (0.00s)\n");
    insta::assert_snapshot!(shown(HarnessFormat::GoBench, &go), @"error: the benchmark `BenchmarkX` failed: `go test` reports it as FAIL");
    insta::assert_snapshot!(shown(HarnessFormat::GoBench, &format!("{GO}FAIL\texample.org/words\t0.1s\n")), @"error: the benchmark `example.org/words` failed: `go test` reports its package as FAIL");
    let hyperfine = HYPERFINE.replacen("    0,", "    3,", 1);
    assert_ne!(hyperfine, HYPERFINE);
    insta::assert_snapshot!(shown(HarnessFormat::Hyperfine, &hyperfine), @"error: the benchmark `sh w.sh` failed: a run ended with exit code 3");
}

#[test]
fn what_is_no_such_output_is_named() {
    for (format, _) in ALL {
        assert!(read(format, b"").is_err() && read(format, b"\xff").is_err(), "{format}");
        assert_eq!(read(format, b" \n"), Err(HarnessError::Nothing));
        for (other, text) in ALL.into_iter().filter(|(other, _)| *other != format) {
            assert_eq!(read(format, text.as_bytes()), Err(HarnessError::OtherFormat(other)), "{format}");
        }
    }
    for (format, text) in ALL {
        let cut = text.trim_end().len() / 2;
        let error = read(format, &text.as_bytes()[..cut]).expect_err("half of an output").to_string();
        assert!(error.starts_with("the output is cut: "), "{format}: {error}");
    }
    insta::assert_snapshot!(shown(HarnessFormat::Hyperfine, "{}"), @"error: the output has no `results` that is a list, in the document");
    insta::assert_snapshot!(shown(HarnessFormat::Hyperfine, "Benchmark 1: sh"), @"error: the output is not JSON: expected value at line 1 column 1; it begins with `Benchmark 1: sh`");
    insta::assert_snapshot!(shown(HarnessFormat::GoBench, "PASS\n"), @"error: the output has no benchmark with a number");
    insta::assert_snapshot!(shown(HarnessFormat::GoBench, "BenchmarkX 1 2 ns/op 3\n"), @"error: the benchmark `BenchmarkX` failed: its line has no pairs of a value and a unit: BenchmarkX 1 2 ns/op 3");
    assert_eq!(
        shown(HarnessFormat::GoBench, "BenchmarkX 1 NaN ns/op\nPASS\n"),
        "error: the benchmark `BenchmarkX` has a sample that is no finite number"
    );
}

#[test]
fn names_are_paths_that_a_workload_can_declare() {
    let path = |benchmark: &str| {
        Measurement { benchmark: benchmark.to_owned(), quantity: "t".to_owned(), unit: String::new(), samples: vec![1.0] }.path()
    };
    assert_eq!(path("a/b=c d..e."), "a/b_c_d._.e._.t");
    assert_eq!(path("t.py::test[é]"), "t.py::test___.t");
    let same = "BenchmarkX/a=b 1 2 ns/op\nBenchmarkX/a_b 1 2 ns/op\nPASS\n";
    assert_eq!(
        shown(HarnessFormat::GoBench, same),
        "error: two benchmarks, or two units of one, would be the metric `BenchmarkX/a_b.time_nanoseconds`: rename one of them"
    );
}

#[test]
fn limits_hold() {
    let large = vec![b' '; MAX_BYTES + 1];
    assert_eq!(read(HarnessFormat::Jmh, &large), Err(HarnessError::TooLarge(MAX_BYTES)));
    let lines: String =
        (0..=MAX_MEASUREMENTS).fold(String::new(), |text, number| text + &format!("Benchmark{number} 1 2 ns/op\n"));
    let lines = lines + "PASS\n";
    assert_eq!(read(HarnessFormat::GoBench, lines.as_bytes()), Err(HarnessError::TooMany(MAX_MEASUREMENTS)));
    let samples = "BenchmarkX 1 2 ns/op\n".repeat(MAX_SAMPLES + 1) + "PASS\n";
    assert_eq!(read(HarnessFormat::GoBench, samples.as_bytes()), Err(HarnessError::TooManySamples(MAX_SAMPLES)));
}

#[test]
fn an_output_is_the_result_of_an_indicator() {
    let output = parse(Some(HarnessFormat::GoBench), "words", &[], GO.as_bytes()).expect("a result");
    assert_eq!((output.name.as_str(), output.component.as_deref()), ("words", Some("go-bench")));
    let found = output.result.iter().find(|(path, _)| path == "BenchmarkFields-2.time_nanoseconds").map(|(_, value)| value);
    assert!(matches!(found, Some(assay_indicator::Value::Samples(samples)) if samples.len() == 3), "{found:?}");
    let refused = parse(Some(HarnessFormat::Jmh), "words", &[], b"{}").expect_err("no list");
    assert_eq!(refused.code(), "harness");
    assert!(refused.to_string().starts_with("the output cannot be read as one of jmh: "), "{refused}");
    let own = br#"{"name": "n", "@parameters": {}, "@result": {}}"#;
    assert_eq!(parse(None, "words", &[], own), assay_indicator::parse(own));
}

/// Returns the code and the message of what is wrong with an output of which a workload declares one metric.
fn declared(format: HarnessFormat, text: &str, path: &str, unit: &str) -> Result<(), (&'static str, String)> {
    let better = assay_manifest::BetterDirection::Lower;
    let metric = Metric { path: path.to_owned(), unit: unit.to_owned(), better, primary: true };
    parse(Some(format), "words", &[metric], text.as_bytes()).map(|_| ()).map_err(|error| (error.code(), error.to_string()))
}

#[test]
fn a_declared_unit_is_that_of_the_harness() {
    let (time, go) = ("sh_w.sh.time_seconds", "BenchmarkFields-2.time_nanoseconds");
    let (code, why) = declared(HarnessFormat::Hyperfine, HYPERFINE, time, "ms").expect_err("off by 1000");
    assert_eq!((code, why.as_str()), ("unit", "the metric `sh_w.sh.time_seconds` is in s, and the workload says ms"));
    let (code, why) = declared(HarnessFormat::GoBench, GO, go, "s").expect_err("off by 1e9");
    assert_eq!(
        (code, why.as_str()),
        ("unit", "the metric `BenchmarkFields-2.time_nanoseconds` is in ns/op, and the workload says s")
    );
    for (format, text, path, unit) in [
        (HarnessFormat::Hyperfine, HYPERFINE, time, "s"),
        (HarnessFormat::GoBench, GO, go, "ns"),
        (HarnessFormat::GoBench, GO, go, "ns/op"),
        (HarnessFormat::GoBench, GO, "BenchmarkFields-2.allocated_bytes", "B"),
        (HarnessFormat::GoBench, GO, "BenchmarkFields-2.MB_per_s", "MB/s"),
        (HarnessFormat::Jmh, JMH, "example.Words.split_size_10_.time_microseconds", "µs"),
        (HarnessFormat::GoogleBenchmark, GOOGLE, "split.words", "words"),
        (HarnessFormat::GoBench, GO, "absent", "s"),
    ] {
        assert_eq!(declared(format, text, path, unit), Ok(()), "{path} in {unit}");
    }
}

#[test]
fn no_time_size_or_count_is_below_zero() {
    let go = |value: &str| shown(HarnessFormat::GoBench, &format!("BenchmarkX 1 {value}\nPASS\n"));
    assert_eq!(go("-50 ns/op"), "error: the benchmark `BenchmarkX` has `time_nanoseconds` below zero");
    assert_eq!(go("5 ns/op -1 allocs/op"), "error: the benchmark `BenchmarkX` has `allocs` below zero");
    assert_eq!(go("-1 ms/op"), "error: the benchmark `BenchmarkX` has `milliseconds` below zero");
    assert_eq!(go("-1 drift"), "BenchmarkX.drift [drift] 1 x -1", "a metric of the benchmark's own");
    let hyperfine = r#"{"results": [{"command": "sh", "times": [0.09, -0.1]}]}"#;
    assert_eq!(shown(HarnessFormat::Hyperfine, hyperfine), "error: the benchmark `sh` has `time_seconds` below zero");
    let infinite = hyperfine.replace("-0.1", "1e999");
    assert!(shown(HarnessFormat::Hyperfine, &infinite).starts_with("error: the output is not JSON"), "{infinite}");
    assert!(go("+Inf ns/op").starts_with("error: "));
    let text = JMH.replacen("\"rawData\": [", "\"rawData\": [[\"NaN\"],", 1);
    assert_ne!(text, JMH);
    assert!(shown(HarnessFormat::Jmh, &text).contains("no `rawData` that is lists of numbers"), "no iteration is left out");
}

#[test]
fn an_output_of_go_that_failed_or_is_cut_is_no_number() {
    let go = |text: &str| shown(HarnessFormat::GoBench, text);
    let line = "BenchmarkX 1 5 ns/op\n";
    assert_eq!(go(&format!("{line}PASS\n")), "BenchmarkX.time_nanoseconds [ns/op] 1 x 5");
    assert_eq!(go(line), "error: the output is cut: no line `ok` or `PASS` follows `BenchmarkX`");
    assert_eq!(go(&format!("{line}PASS\npkg: b\n")), "error: the output is cut: no line `ok` or `PASS` follows `b`");
    assert_eq!(
        go(&format!("pkg: a\n{line}pkg: b\n{line}ok b\n")),
        "error: the output is cut: no line `ok` or `PASS` follows `BenchmarkX`"
    );
    for end in [
        "panic: oh\n",
        "FAIL\n",
        "FAIL    example.org/words [build failed]\n",
        "FAIL: it\n",
        "--- FAIL: BenchmarkY\n",
        "fatal error: x\n",
    ] {
        assert!(go(&format!("{line}PASS\n{end}")).contains(" failed: "), "{end}");
    }
    assert_eq!(
        go("BenchmarkX 1 5 ns/op 6 ns/op\nPASS\n"),
        "error: the benchmark `BenchmarkX` has two values in `ns/op` on one line"
    );
}

#[test]
fn a_key_that_is_twice_in_one_object_is_refused() {
    let twice = r#"{"results": [{"command": "sh", "times": [9], "times": [1]}]}"#;
    assert_eq!(shown(HarnessFormat::Hyperfine, twice), "error: the key `times` is there twice in one object");
}

proptest! {
    #[test]
    fn no_output_causes_a_panic(cut in 0_usize..4000, other in ".{0,40}", index in 0_usize..6) {
        let (format, text) = ALL[index];
        let before: String = text.chars().take(cut).collect();
        let after: String = text.chars().skip(cut + 1).collect();
        let _ = read(format, format!("{before}{other}{after}").as_bytes());
        let _ = read(format, before.as_bytes());
    }
}
