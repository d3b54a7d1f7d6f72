//! Hot metrics: their receivers, their labels, and what is refused.

use super::{COMPARING, pipeline, problems, replace_part};
use crate::{HotLabel, HotMetrics, ReceiverProtocol};

fn with(hot: &str) -> String {
    let publish = format!("folder: release, hot_metrics: {hot}}}");
    replace_part(COMPARING, "folder: release}", &publish)
}

fn read(hot: &str) -> HotMetrics {
    pipeline(&with(hot)).spec.publish.hot_metrics.expect("hot metrics")
}

#[track_caller]
fn refused(hot: &str, parts: &[&str]) {
    let found = problems(&with(hot));
    for part in parts {
        assert!(found.contains(part), "{part}: {found}");
    }
}

#[test]
fn a_receiver_has_one_protocol_and_references_to_its_credentials() {
    let hot = read(
        "{receivers: [\
            {name: a, remote_write: 'https://p.example.org/api/v1/write', query: 'https://p.example.org/api/v1/query', \
             headers: {Authorization: {from_env: TOKEN, scheme: Bearer}, X-Scope-OrgID: {value: team}}}, \
            {name: b, pushgateway: 'http://g:9091'}, {name: c, otlp: 'http://c:4318/v1/metrics'}]}",
    );
    let protocols: Vec<_> = hot.receivers.iter().map(|receiver| receiver.protocol).collect();
    assert_eq!(protocols, ReceiverProtocol::ALL);
    let header = hot.receivers[0].headers.iter().find(|header| header.name == "authorization").expect("a header");
    assert_eq!((header.from_env.as_deref(), header.scheme.as_deref(), &header.value), (Some("TOKEN"), Some("Bearer"), &None));
    assert_eq!((hot.labels.as_slice(), hot.max_active_series, hot.exploratory), (&HotLabel::ALL[..], 2_000_000, false));
    assert_eq!(pipeline(COMPARING).spec.publish.hot_metrics, None);

    refused("{receivers: []}", &["spec.publish.hot_metrics.receivers"]);
    refused("{receivers: [{name: a}]}", &["remote_write", "pushgateway", "otlp"]);
    refused("{receivers: [{name: a, otlp: 'http://c/v1/metrics', pushgateway: 'http://g'}]}", &["otlp", "pushgateway"]);
    refused("{receivers: [{name: a, otlp: 'http://c/'}, {name: a, otlp: 'http://d/'}]}", &["`a` is listed twice"]);
}

#[test]
fn no_receiver_carries_credentials() {
    refused("{receivers: [{name: a, otlp: 'http://u:hunter22@c/v1/metrics'}]}", &["carries a user or password"]);
    refused(
        "{receivers: [{name: a, otlp: 'http://c/v1/metrics?api_key=hunter22hunter22'}]}",
        &["carries a key or token", "headers"],
    );
    refused(
        "{receivers: [{name: a, otlp: 'http://c/v1/metrics', query: 'http://u:hunter22@c/'}]}",
        &["carries a user or password"],
    );
    let header = "{receivers: [{name: a, otlp: 'http://c/', headers: {Authorization: {value: Bearer hunter22hunter22}}}]}";
    refused(header, &["looks like a secret; a definition holds references to secrets only"]);
    for secret in [header, "{receivers: [{name: a, otlp: 'http://u:hunter22@c/v1/metrics'}]}"] {
        assert!(!problems(&with(secret)).contains("hunter22"), "{}", problems(&with(secret)));
    }
}

#[test]
fn no_label_but_the_allowed_ones_is_read() {
    const RECEIVERS: &str = "receivers: [{name: a, otlp: 'http://c/'}]";
    let some = read(&format!("{{{RECEIVERS}, labels: [benchmark_case_id, cluster]}}"));
    assert_eq!(some.labels, [HotLabel::BenchmarkCaseId, HotLabel::Cluster]);
    for bad in ["request_id", "trace_id", "prompt_hash", "team", "pod_uid"] {
        let labels = format!("{{{RECEIVERS}, labels: [benchmark_case_id, {bad}]}}");
        refused(&labels, &["`spec.publish.hot_metrics.labels[1]` must be one of `run_id`", &format!("not `{bad}`")]);
    }
    refused(&format!("{{{RECEIVERS}, labels: [run_id]}}"), &["`spec.publish.hot_metrics.labels` lacks `benchmark_case_id`"]);
    let counted = "receivers: [{name: a, otlp: 'http://c/', query: 'http://p/api/v1/query'}]";
    refused(
        &format!("{{{counted}, labels: [benchmark_case_id]}}"),
        &["`spec.publish.hot_metrics.labels` lacks `run_id`, and a receiver has a `query`"],
    );
    assert_eq!(read(&format!("{{{counted}, labels: [benchmark_case_id, run_id]}}")).labels.len(), 2);
    refused(&format!("{{{RECEIVERS}, labels: {{team: a}}}}"), &["spec.publish.hot_metrics.labels"]);
    refused(&format!("{{{RECEIVERS}, max_active_series: 2000001}}"), &["spec.publish.hot_metrics.max_active_series"]);
    refused(&format!("{{{RECEIVERS}, max_active_series: 0}}"), &["spec.publish.hot_metrics.max_active_series"]);
}
