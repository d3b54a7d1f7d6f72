use insta::assert_snapshot;

use super::{TABLE, split_choice};
use crate::command::Treatment;
use crate::{Import, ImportError, ImportOptions, Outcome, Row, Source, import, recognise};

const RULES: &str = include_str!("../examples/mlperf.conf");
const CANARY: &str = "canary-4f2b9c7d1e";

fn options(only: &str) -> ImportOptions {
    ImportOptions {
        model: Some("m".to_owned()),
        url: Some("http://h:1".to_owned()),
        lengths: Some("D(9,9)".to_owned()),
        only: (!only.is_empty()).then(|| only.to_owned()),
        ..ImportOptions::default()
    }
}

fn imported(text: &str, only: &str) -> Import {
    import(&Source::File { name: "mlperf.conf", bytes: text.as_bytes() }, &options(only)).expect("a format")
}

fn rows(import: &Import, outcome: Outcome) -> String {
    let line = |row: &Row| {
        [Some(&row.field), row.to.as_ref(), row.note.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(" | ")
    };
    import.rows.iter().filter(|row| row.outcome == outcome).map(line).collect::<Vec<_>>().join("\n")
}

fn refused(text: &str, only: &str) -> String {
    rows(&imported(text, only), Outcome::Refused)
}

fn files(import: &Import) -> String {
    import.files.iter().map(|file| format!("== {}\n{}", file.path, file.text)).collect::<Vec<_>>().concat()
}

#[test]
fn the_rules_of_a_benchmark_become_a_workload_for_each_scenario() {
    let options = super::FORMAT.examples[0].import_options();
    let imported = import(&Source::File { name: "mlperf.conf", bytes: RULES.as_bytes() }, &options).expect("a format");
    assert_snapshot!(files(&imported));
    assert_snapshot!(
        imported
            .rows
            .iter()
            .map(|row| format!("{:50} {:14} {}", row.field, row.outcome, row.to.as_deref().unwrap_or_default())
                .trim_end()
                .to_owned()
                + "\n")
            .collect::<String>()
    );
}

/// Each key has its outcome in a scenario that reads it.
#[test]
fn each_key_has_its_outcome() {
    for flag in TABLE {
        let (of, key) = flag.names[0].split_once('.').expect("a scenario");
        let scenario = if of == "*" { "Server" } else { of };
        let limits = match key {
            "ttft_latency" | "tpot_latency" => "*.*.use_token_latencies = 1\n",
            "use_token_latencies" => "*.Server.ttft_latency = 9\n",
            _ => "",
        };
        // A maximum counts beside the least end of the other kind.
        let end = match key {
            "max_duration" | "min_query_count" => "*.*.min_duration = 0\n",
            "max_query_count" | "min_duration" => "*.*.min_query_count = 0\n",
            _ => "",
        };
        let text = format!("*.Server.target_latency = 50\n{limits}{end}*.{scenario}.{key} = {}\n", flag.example);
        let imported = imported(&text, scenario);
        let field = format!("*.{scenario}.{key}");
        let found: Vec<Outcome> = imported.rows.iter().filter(|row| row.field == field).map(|row| row.outcome).collect();
        // The row of a setting that is given twice is that of the last line.
        let expected = |outcome: &Outcome| match flag.treatment {
            Treatment::Carried(_) => [Outcome::Mapped, Outcome::Approximated].contains(outcome),
            Treatment::Ignored(_) => *outcome == Outcome::Ignored,
            Treatment::Refused(_) | Treatment::Unless { .. } => *outcome == Outcome::Refused,
        };
        assert!(found.last().is_some_and(expected), "{text}: {:#?}", imported.rows);
        if let Treatment::Unless { value, .. } = flag.treatment {
            let harmless =
                self::imported(&text.replace(&format!("{key} = {}", flag.example), &format!("{key} = {value}")), scenario);
            assert!(rows(&harmless, Outcome::Ignored).contains(&format!("{field} | with this value it changes nothing")));
        }
    }
}

#[test]
fn a_trial_ends_at_the_later_end() {
    let server = |text: &str| files(&imported(&format!("*.Server.target_qps = 2\n{text}"), "Server"));
    let by_time = server("*.Server.min_duration = 60000\n*.Server.min_query_count = 100\n");
    assert!(by_time.contains("duration: 60000ms") && !by_time.contains("requests:"), "{by_time}");
    let by_count = server("*.Server.min_duration = 60000\n*.Server.min_query_count = 121\n");
    assert!(by_count.contains("requests: 121") && !by_count.contains("duration:"), "{by_count}");
    let capped = server("*.Server.min_duration = 60000\n*.Server.max_query_count = 150\n*.Server.min_query_count = 1\n");
    assert!(capped.contains("duration: 60000ms") && capped.contains("requests: 150"), "{capped}");
    let absent = server("");
    assert!(absent.contains("duration: 600000ms"), "{absent}");
    let stream = files(&imported(
        "*.SingleStream.target_latency = 10\n*.SingleStream.min_duration = 1000\n*.SingleStream.min_query_count = 101\n",
        "",
    ));
    assert!(stream.contains("concurrency: [1]") && stream.contains("requests: 101"), "{stream}");
}

#[test]
fn an_offline_query_has_the_samples_of_loadgen() {
    let offline = |text: &str| files(&imported(text, "Offline"));
    let by_time = offline("*.Offline.target_qps = 10\n*.Offline.min_duration = 60000\n*.Offline.min_query_count = 100\n");
    assert!(by_time.contains("concurrency: [660]") && by_time.contains("requests: 660"), "{by_time}");
    let by_count = offline("*.Offline.target_qps = 1\n*.Offline.min_duration = 60000\n*.Offline.min_query_count = 100\n");
    assert!(by_count.contains("concurrency: [100]") && by_count.contains("requests: 100"), "{by_count}");
}

#[test]
fn limits_are_those_that_loadgen_judges() {
    let server =
        |text: &str| imported(&format!("m.Server.target_latency = 500\nm.Server.ttft_latency = 200\n{text}"), "m.Server");
    let whole = server("");
    assert!(files(&whole).contains("slos: {e2e: 500ms}"), "{}", files(&whole));
    assert!(
        rows(&whole, Outcome::Ignored).contains("m.Server.ttft_latency | LoadGen reads it with `use_token_latencies = 1` only")
    );
    let of_tokens = server("m.Server.use_token_latencies = 1\nm.Server.target_latency_percentile = 97\n");
    assert!(files(&of_tokens).contains("slos: {ttft: 200ms}"), "{}", files(&of_tokens));
    assert!(
        rows(&of_tokens, Outcome::Approximated).contains("97 % of the queries meet each limit")
            && files(&of_tokens).contains("0.97")
    );
    let none = imported("*.Server.target_qps = 1\n", "");
    assert!(rows(&none, Outcome::Ignored).contains("Server.limits(absent)") && !files(&none).contains("slos:"));
    assert!(!rows(&whole, Outcome::Ignored).contains("Server.limits(absent)"));
}

#[test]
fn the_commonest_mistakes_have_a_remedy() {
    let mistakes = [
        refused(RULES, ""),
        refused(RULES, "llama2-70"),
        refused("*.Server.target_qps=1\n", "Server").replace('\n', " "),
        refused("*.Server.target_qps = 0\n", ""),
        refused(
            "*.Server.target_qps = 1 # ours\n*.Sever.target_qps = 2\n*.Server.min_duration = one\n*.Server.min_query_count = 5\n",
            "",
        ),
        refused("*.MultiStream.samples_per_query = 8\n", ""),
        refused("m.*.mode = 1\nm.*.min_duration = 0600\n", "m.Server"),
        refused("m.*.mode = 2\n", "m"),
        rows(&imported("*.Server.target_qsp = 1\n", ""), Outcome::Ignored),
    ];
    assert_snapshot!(mistakes.join("\n\n"));
    let bare =
        import(&Source::File { name: "a", bytes: b"*.Server.target_qps = 1\n" }, &ImportOptions::default()).expect("a format");
    assert_snapshot!(rows(&bare, Outcome::Refused));
}

#[test]
fn a_part_is_chosen_by_its_name() {
    assert_eq!(split_choice("llama2-70b.Server"), (Some("llama2-70b"), Some("Server")));
    assert_eq!((split_choice("Server"), split_choice("m")), ((None, Some("Server")), (Some("m"), None)));
    assert_eq!(split_choice("MyServer"), (Some("MyServer"), None));
    let one = imported(RULES, "llama3_1-8b.Offline");
    let paths: Vec<&str> = one.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["workloads/llama3-1-8b-offline/workload.yaml", "pipelines/llama3-1-8b.yaml"]);
    assert!(
        rows(&one, Outcome::Ignored).contains("(others) | 18 settings of models and scenarios"),
        "{}",
        rows(&one, Outcome::Ignored)
    );
    let all = imported("*.Server.target_qps = 1\n", "");
    assert!(!rows(&all, Outcome::Ignored).contains("(others)"));
}

/// Recognised by its content, whatever the file is called; a definition in YAML is none.
#[test]
fn the_format_is_recognised_by_its_first_setting() {
    let name = |text: &str| recognise(&Source::File { name: "a.yaml", bytes: text.as_bytes() }).map(|format| format.name);
    for text in ["*.*.mode = 2\n", "# a\n\nm.Server.x = 1\nkind: Pipeline\n", "a.b.Offline.target_qps = 1", "m.Server.x=1"] {
        assert_eq!(name(text), Some("mlperf-conf"), "{text}");
    }
    for text in ["", "# a\n", "a.b.c = 1\n", "m.Server.x: 1\n", "kind: Pipeline\nm.Server.x = 1\n", "[a]\nm.Server.x = 1\n"] {
        assert_eq!(name(text), None, "{text}");
    }
}

#[test]
fn the_size_and_the_lines_of_a_file_are_limited() {
    let source =
        |text: &str| import(&Source::File { name: "a", bytes: text.as_bytes() }, &options("")).map(|import| import.rows.len());
    let line = "*.Server.target_qps = 1\n";
    assert!(matches!(source(&line.repeat(5_001)), Err(ImportError::TooLarge(what)) if what == "5000 lines"));
    assert!(source(&line.repeat(5_000)).is_ok_and(|rows| rows <= 1_001));
    assert!(matches!(source(&format!("{line}#{}", "x".repeat(300_000))), Err(ImportError::Syntax(_))));
}

/// A credential in a name, a value or a comment is in no output, and is found before a run publishes the file.
#[test]
fn no_credential_survives() {
    let secret = format!("sk-{CANARY}sk-{CANARY}");
    for line in [
        format!("{secret}.Server.target_qps = 1"),
        format!("m.Server.target_qps = {secret}"),
        format!("m.Server.{CANARY} = 1"),
        format!("m.{CANARY}.target_qps = 1"),
        format!("m.Server.target_qps = 1 {CANARY}"),
        format!("# {secret}"),
    ] {
        let imported = imported(&format!("m.Server.target_qps = 1\n{line}\n"), "");
        assert!(!format!("{imported:?}").contains(CANARY), "{line}: {imported:#?}");
        assert_eq!(imported.credentials.is_empty(), !line.contains(&secret), "{line}: {:?}", imported.credentials);
    }
}
