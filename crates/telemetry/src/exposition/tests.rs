use proptest::prelude::*;

use super::*;

fn read(text: &str) -> String {
    let line = |sample: Result<Sample<'_>, Malformed>| match sample {
        Ok(Sample { name, labels, value }) => {
            let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            format!("{name} [{}] {value:?}", labels.join(" "))
        }
        Err(malformed) => malformed.to_string(),
    };
    samples(text).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_response_of_vllm_is_read() {
    let text = "\
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 41.0
vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"m\"} 1.0

# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{le=\"0.3\",model_name=\"m\"} 3.0
vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 4.0
vllm:e2e_request_latency_seconds_count{model_name=\"m\"} 4.0
vllm:e2e_request_latency_seconds_sum{model_name=\"m\"} 1.7560473e+07
";
    insta::assert_snapshot!(read(text), @r#"
    vllm:request_success_total [engine="0" finished_reason="stop" model_name="m"] 41.0
    vllm:request_success_total [engine="0" finished_reason="length" model_name="m"] 1.0
    vllm:e2e_request_latency_seconds_bucket [le="0.3" model_name="m"] 3.0
    vllm:e2e_request_latency_seconds_bucket [le="+Inf" model_name="m"] 4.0
    vllm:e2e_request_latency_seconds_count [model_name="m"] 4.0
    vllm:e2e_request_latency_seconds_sum [model_name="m"] 17560473.0
    "#);
}

#[test]
fn the_corners_of_the_format_are_read() {
    let text = concat!(
        "plain 1\n",
        "stamped{a=\"b\"} 2 1395066363000\n",
        "before_the_epoch 3 -3982045\n",
        "escaped{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n",
        "brace{a=\"}\",b=\"{,\\\\\"} 4\n",
        "spaced \t { a = \"1\" , b = \"2\" , } \t 5 \t 6\n",
        "empty{} 7\r\n",
        "umlaut{name=\"größe\"} 8\n",
        "odd NaN\nup +Inf\ndown -Inf\nsmall 1e-9\n",
        "exemplar_bucket{le=\"1\"} 9 # {trace_id=\"a b\"} 0.67 1520879607.789\n",
        "exemplar_stamped 10 1520879607.789 # {} 1\n",
        "{\"a.name.in.quotes\",label=\"x\"} 11\n",
        "{\"alone\"} 12\n",
        "dotted{\"a.label\"=\"x\"} 13\n",
        "no_line_end 14",
    );
    insta::assert_snapshot!(read(text), @r#"
    plain [] 1.0
    stamped [a="b"] 2.0
    before_the_epoch [] 3.0
    escaped [path="C:\\DIR\\FILE.TXT" error="Cannot find:\n\"FILE.TXT\""] 1458255915.0
    brace [a="}" b="{,\\"] 4.0
    spaced [a="1" b="2"] 5.0
    empty [] 7.0
    umlaut [name="größe"] 8.0
    odd [] NaN
    up [] inf
    down [] -inf
    small [] 1e-9
    exemplar_bucket [le="1"] 9.0
    exemplar_stamped [] 10.0
    a.name.in.quotes [label="x"] 11.0
    alone [] 12.0
    dotted [a.label="x"] 13.0
    no_line_end [] 14.0
    "#);
}

#[test]
fn an_odd_line_hides_no_other() {
    let text = concat!(
        "first 1\n",
        "1name 2\n",
        "name\n",
        "name x\n",
        "name 1 x\n",
        "name 1 2 3\n",
        "name{a=\"b\" 1\n",
        "name{a=b} 1\n",
        "name{a=\"b} 1\n",
        "name{a} 1\n",
        "name{=\"b\"} 1\n",
        "name{a=\"\\x\"} 1\n",
        "name{a=\"b\"c=\"d\"} 1\n",
        "{} 1\n",
        "{a=\"b\"} 1\n",
        "name{\"other\"} 1\n",
        "<html>\n",
        "na-me 1\n",
        "last 3\n",
    );
    insta::assert_snapshot!(read(text), @r#"
    first [] 1.0
    line 2 is no sample: a name begins with a digit
    line 3 is no sample: its value is no number
    line 4 is no sample: its value is no number
    line 5 is no sample: its timestamp is no number
    line 6 is no sample: something follows its timestamp
    line 7 is no sample: labels are not parted by commas
    line 8 is no sample: a label's value has no quotes
    line 9 is no sample: a quote is not closed
    line 10 is no sample: a label has no value
    line 11 is no sample: the braces are not closed, or a label has no name
    line 12 is no sample: an escape is none of \\, \" and \n
    line 13 is no sample: labels are not parted by commas
    line 14 is no sample: it has no name
    line 15 is no sample: it has no name
    line 16 is no sample: it has two names
    line 17 is no sample: it has no name
    line 18 is no sample: its value is no number
    last [] 3.0
    "#);
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

proptest! {
    #[test]
    fn whatever_is_scraped_is_read_or_refused(text in "[a-z0-9_:{}=\",# \\\\\\n\\t.+-]{0,200}|\\PC{0,100}") {
        let lines = text.lines().count();
        prop_assert!(samples(&text).count() <= lines);
    }

    #[test]
    fn what_is_written_is_read_back(
        name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
        labels in prop::collection::vec(("[a-zA-Z_][a-zA-Z0-9_]{0,10}", "[^\r]{0,20}"), 0..5),
        value in any::<f64>(),
        stamp in prop::option::of(any::<i64>()),
    ) {
        // A line ends at a line feed, alone or after a carriage return, so a trailing carriage return of a value cannot be
        // distinguished from its absence.
        let written: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let stamp = stamp.map_or_else(String::new, |stamp| format!(" {stamp}"));
        let text = format!("# a comment\n{name}{{{}}} {value}{stamp}\n", written.join(","));
        let read: Vec<_> = samples(&text).collect();
        let Ok([Ok(sample)]) = <[_; 1]>::try_from(read) else { panic!("one sample of {text}") };
        prop_assert_eq!(sample.name.as_ref(), name);
        let found: Vec<_> = sample.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        prop_assert_eq!(found, labels);
        prop_assert!(sample.value.total_cmp(&value).is_eq() || (sample.value.is_nan() && value.is_nan()));
    }
}
