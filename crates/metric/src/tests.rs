//! Tests of the table, and of the formulas of requests.

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_name_and_column_is_there_once_and_is_found_again() {
    let texts: BTreeSet<&str> = MetricName::all().map(|name| name.text).collect();
    let columns: BTreeSet<&str> = MetricName::all().map(|name| name.column).collect();
    let all = MetricName::all().count();
    assert_eq!((texts.len(), columns.len()), (all, all));
    for name in MetricName::all() {
        assert_eq!((MetricName::find(name.text), MetricName::find_column(name.column)), (Some(name), Some(name)));
    }
    assert_eq!((MetricName::find("ttft"), MetricName::find("ttft_ms_p12")), (None, None));
    for metric in Metric::ALL {
        assert_eq!(Metric::find(metric.definition().key), Some(*metric));
    }
}

#[test]
fn names_begin_with_the_key_and_say_the_unit() {
    for name in MetricName::all() {
        let row = name.definition();
        assert!(name.text.starts_with(row.key), "{}", name.text);
        assert_eq!(name.text.contains("_ms"), row.unit == Unit::Milliseconds, "{}", name.text);
        let ending = format!("_per_s{}", name.statistic.suffix());
        assert_eq!(name.text.ends_with(&ending), row.unit.as_str().ends_with("/s"), "{}", name.text);
    }
}

/// A distribution has statistics of its samples, and everything else one value.
#[test]
fn statistics_fit_the_formula() {
    for metric in Metric::ALL {
        let row = metric.definition();
        let has_value = row.names.iter().any(|name| name.statistic == Statistic::Value);
        match row.formula {
            Formula::Span { .. } | Formula::Quotient(_) | Formula::Gaps => assert!(!has_value, "{metric:?}"),
            Formula::TokenEvents => {}
            Formula::Trial(_) => assert!(has_value, "{metric:?}"),
        }
        assert!(!has_value || row.names.len() == 1, "{metric:?}");
        assert!(metric.is_per_request() || !row.names.iter().any(|name| name.statistic.counts_failures()), "{metric:?}");
    }
}

/// A limit of an SLO is in nanoseconds, and each request is within it or not.
#[test]
fn slos_limit_latencies_of_requests() {
    let limited: Vec<Metric> = Metric::ALL.iter().copied().filter(|metric| metric.definition().slo.is_some()).collect();
    assert_eq!(SloMetric::ALL.iter().map(|slo| slo.metric()).collect::<Vec<_>>(), limited);
    for slo in SloMetric::ALL {
        let row = slo.metric().definition();
        assert_eq!((row.slo, row.key, row.unit), (Some(*slo), slo.as_str(), Unit::Milliseconds));
        assert!(slo.metric().is_per_request() && row.better == Some(Direction::Lower), "{slo}");
        assert_eq!(serde_json::to_value(slo).expect("JSON"), slo.as_str());
    }
    assert_eq!(
        SloMetric::ALL.iter().map(|slo| slo.column()).collect::<Vec<_>>(),
        ["slo_ttft_ns", "slo_ttfo_ns", "slo_tpot_ns", "slo_e2e_ns"]
    );
}

#[test]
fn texts_are_there_and_fit_a_cell() {
    for metric in Metric::ALL {
        let row = metric.definition();
        for text in [row.title, row.meaning, row.formula_text, row.source] {
            assert!(!text.is_empty() && !text.ends_with('.') && !text.contains('\n'), "{metric:?}: {text}");
        }
    }
}

#[test]
fn gates_judge_these_names() {
    let names: Vec<&str> = MetricName::judged().map(|name| name.text).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    ttft_ms_mean
    ttft_ms_p50
    ttft_ms_p90
    ttft_ms_p95
    ttft_ms_p99
    ttft_ms_p50_with_failures
    ttft_ms_p95_with_failures
    ttft_ms_p99_with_failures
    ttft_sent_ms_p50
    ttft_sent_ms_p99
    ttst_ms_mean
    ttst_ms_p50
    ttst_ms_p99
    ttfo_ms_p50
    ttfo_ms_p99
    tpot_ms_mean
    tpot_ms_p50
    tpot_ms_p90
    tpot_ms_p95
    tpot_ms_p99
    itl_ms_mean
    itl_ms_p50
    itl_ms_p99
    icl_ms_mean
    icl_ms_p50
    icl_ms_p99
    e2e_ms_mean
    e2e_ms_p50
    e2e_ms_p90
    e2e_ms_p95
    e2e_ms_p99
    e2e_ms_p50_with_failures
    e2e_ms_p95_with_failures
    e2e_ms_p99_with_failures
    e2e_sent_ms_p50
    e2e_sent_ms_p99
    e2e_per_output_token_ms_p50
    e2e_per_output_token_ms_p90
    e2e_per_output_token_ms_p99
    connect_ms_p50
    connect_ms_p99
    ttft_input_1k_ms_p50
    ttft_input_1k_ms_p99
    ttft_input_4k_ms_p50
    ttft_input_4k_ms_p99
    ttft_input_16k_ms_p50
    ttft_input_16k_ms_p99
    ttft_input_64k_ms_p50
    ttft_input_64k_ms_p99
    ttft_input_longer_ms_p50
    ttft_input_longer_ms_p99
    ttft_first_turn_ms_p50
    ttft_first_turn_ms_p99
    ttft_later_turns_ms_p50
    ttft_later_turns_ms_p99
    session_ms_p50
    session_ms_p99
    session_active_ms_p50
    session_active_ms_p99
    back_pressure_ms_p50
    back_pressure_ms_p99
    session_stretch_p50
    session_stretch_p99
    send_lateness_ms_p50
    send_lateness_ms_p99
    queue_wait_ms_p50
    queue_wait_ms_p99
    queued_share
    jitter_ms
    output_tokens_per_user_per_s_mean
    output_tokens_per_user_per_s_p10
    output_tokens_per_user_per_s_p50
    prefill_tokens_per_s_p50
    request_throughput_per_s
    request_throughput_steady_per_s
    output_tokens_per_s
    output_tokens_per_gpu_per_s
    total_tokens_per_gpu_per_s
    input_tokens_per_prefill_gpu_per_s
    output_tokens_per_decode_gpu_per_s
    output_tokens_steady_per_s
    input_tokens_per_s
    total_tokens_per_s
    documents_per_s
    goodput_requests_per_s
    goodput_tokens_per_s
    good_fraction
    error_rate
    osl_mismatch_rate
    reuse_efficiency
    cost_per_request
    cost_per_session
    cost_per_million_output_tokens
    ");
    let primary = |has_slos| MetricName::default_primary(has_slos).map(|name| name.text).collect::<Vec<_>>().join(" ");
    let always = "ttft_ms_p50 ttft_ms_p99 tpot_ms_p50 e2e_ms_p99 request_throughput_per_s output_tokens_per_s";
    assert_eq!(primary(false), always);
    assert_eq!(primary(true), format!("{always} goodput_requests_per_s"));
}

/// Reports lead with these, and draw no others: the first of each that a case has.
#[test]
fn reports_lead_with_primary_names_of_the_highest_rank() {
    let leading =
        |section, statistic| MetricName::leading(section, statistic).iter().map(|name| name.text).collect::<Vec<_>>().join(" ");
    assert_eq!(leading(Section::Latency, Statistic::P99), "ttft_ms_p99 e2e_ms_p99");
    assert_eq!(leading(Section::Latency, Statistic::P50), "tpot_ms_p50 ttft_ms_p50");
    assert_eq!(leading(Section::Throughput, Statistic::Value), "output_tokens_per_s request_throughput_per_s");
}

#[test]
fn a_fallback_has_a_column_as_the_name_that_it_stands_for_has_one() {
    let fallbacks = MetricName::all().filter_map(|name| Some((name, Metric::find(name.fallback_for?))));
    let described: Vec<String> = fallbacks
        .map(|(name, other)| {
            let other = other.and_then(|metric| metric.name(name.statistic)).expect("a metric with the same statistic");
            assert!(name.rank.is_some() && other.rank.is_some(), "{}", name.text);
            format!("{} for {}", name.text, other.text)
        })
        .collect();
    assert_eq!(described, ["icl_ms_p99 for itl_ms_p99", "e2e_ms_p50 for ttft_ms_p50"]);
}

#[test]
fn titles_are_those_that_people_use() {
    let title = |text: &str| MetricName::find(text).map(MetricName::title);
    let cases = [
        ("ttft_ms_p99", "TTFT p99"),
        ("ttft_ms_mean", "TTFT mean"),
        ("e2e_ms_p99_with_failures", "E2E p99 with failures"),
        ("output_tokens_per_s", "tokens/s"),
        ("jitter_ms", "jitter"),
    ];
    for (text, expected) in cases {
        assert_eq!(title(text).as_deref(), Some(expected));
    }
}

#[test]
fn columns_hold_nanoseconds_and_the_price_of_one() {
    let column = |text: &str, value: f64| MetricName::find(text).map(|name| name.to_column(value));
    assert_eq!(column("ttft_ms_p50", 1.000_000_6), Some(ColumnValue::Int(1_000_001)));
    assert_eq!(column("cached_tokens", 5.5), Some(ColumnValue::Int(6)));
    assert_eq!(column("osl_tokens_mean", 5.5), Some(ColumnValue::Float(5.5)));
    assert_eq!(column("cost_per_million_output_tokens", 3e6), Some(ColumnValue::Float(3.0)));
}

#[test]
fn tpot_takes_off_the_tokens_of_the_first_event() {
    let tpot = |output, first| tpot_ns(Some(1_600), Some(2_600), output, first);
    assert_eq!(tpot(Some(6), Some(2)), Some((250.0, TpotDivisor::FirstEventKnown)));
    assert_eq!(tpot(Some(6), None), Some((200.0, TpotDivisor::FirstEventAssumedOne)));
    assert_eq!(tpot(Some(4), Some(1)).map(|(ns, _)| ns), Some(1_000.0 / 3.0));
    // All tokens in the first event, or more: a divisor below 1.
    assert_eq!(
        (tpot(Some(6), Some(6)), tpot(Some(6), Some(7)), tpot(Some(1), None), tpot(Some(0), None)),
        (None, None, None, None)
    );
    assert_eq!(tpot(None, Some(2)), None);
    assert_eq!(tpot(Some(2), Some(1)), Some((1_000.0, TpotDivisor::FirstEventKnown)), "a divisor of 1 is one");
    assert_eq!((tpot_ns(None, Some(2), Some(5), None), tpot_ns(Some(1), None, Some(5), None)), (None, None));
}

#[test]
fn the_rate_of_a_user_is_the_inverse_of_tpot() {
    let rate = |times: [i64; 2], output, first| {
        let mut request = RequestFields::default();
        let [first_ns, last_ns] = times;
        for (field, value) in [
            (Field::FirstToken, Some(first_ns)),
            (Field::LastToken, Some(last_ns)),
            (Field::OutputTokens, output),
            (Field::FirstEventTokens, first),
        ] {
            request.set(field, value);
        }
        (request::USER_THROUGHPUT.sample)(&request)
    };
    // 8 tokens after the first, in 400 ms: 50 ms each.
    assert_eq!(rate([100_000_000, 500_000_000], Some(9), None), Some(20.0));
    assert_eq!(rate([100_000_000, 500_000_000], Some(9), Some(5)), Some(10.0));
    assert_eq!(rate([100_000_000, 100_000_000], Some(9), None), None, "all tokens came at one instant");
    assert_eq!((rate([0, 1], Some(1), None), rate([0, 1], None, None)), (None, None));
}

#[test]
fn curves_and_limits_are_latencies() {
    for metric in Metric::ALL.iter().filter(|metric| metric.has_use(Use::Curve)) {
        assert_eq!(metric.definition().unit, Unit::Milliseconds, "{metric:?}");
    }
    assert_eq!((Unit::Milliseconds.from_sample(2_500_000.0), Unit::TokensPerSecond.from_sample(2.5)), (2.5, 2.5));
}

#[test]
fn a_length_is_missed_by_five_percent_or_fifty_tokens() {
    let cases =
        [(100, 100, false), (100, 95, false), (100, 94, true), (100, 106, true), (10_000, 9_950, false), (10_000, 9_949, true)];
    for (asked, got, mismatch) in cases {
        assert_eq!(is_length_mismatch(asked, got), mismatch, "{asked} {got}");
    }
    assert!(is_length_mismatch(10, 9) && !is_length_mismatch(0, 0) && is_length_mismatch(0, 1));
}

#[test]
fn stretch_compares_the_time_of_responses_with_the_recorded_one() {
    let Formula::Quotient(stretch) = Metric::SessionStretch.definition().formula else { panic!("a quotient") };
    let mut turn = RequestFields::default();
    // The last of three turns. Pauses of 30; the responses before it took 70 live, and 50 in the trace.
    let facts = [
        (Field::SessionStart, 1_000),
        (Field::Intended, 1_100),
        (Field::Planned, 1_080),
        (Field::SessionDone, 3),
        (Field::SessionTurns, 3),
        (Field::SessionPauses, 30),
    ];
    for (field, value) in facts {
        turn.set(field, Some(value));
    }
    assert_eq!((stretch.sample)(&turn), Some(1.4));
    let with = |field, value| {
        let mut other = turn;
        other.set(field, value);
        (stretch.sample)(&other)
    };
    assert_eq!(with(Field::SessionDone, Some(2)), None, "not the last turn");
    assert_eq!(with(Field::Planned, Some(1_030)), None, "the trace spent no time in responses");
    assert_eq!(with(Field::Planned, None), None);
}

/// The sums of a trial of an open loop of one nanosecond whose requests all succeeded, without anything that only some trials have.
fn of_requests(requests: u64, totals: &Totals) -> TrialTotals<'_> {
    TrialTotals {
        requests,
        ok: requests,
        cancelled: None,
        totals,
        window_ns: Some(1),
        steady_ns: Err(String::new()),
        is_open_loop: true,
        has_cap: false,
        has_sessions: false,
        has_slos: false,
        no_output: None,
        documents: None,
        repeated: Err(String::new()),
        gpus: Err(String::new()),
        price_per_s: Err(String::new()),
    }
}

#[test]
fn input_throughput_is_of_the_work_within_the_window() {
    let mut totals = Totals::default();
    totals.completed.add(1 << SHARE_BITS, Some(12), Some(5));
    totals.completed.add(1 << (SHARE_BITS - 1), Some(9), None);
    let trial = |window_ns| TrialTotals { window_ns, ..of_requests(2, &totals) };
    let Formula::Trial(formula) = Metric::InputThroughput.definition().formula else { panic!("a value of a trial") };
    // 12 tokens and half of 9 in two seconds; whether output tokens were counted does not matter.
    assert_eq!(formula(&trial(Some(2_000_000_000))), Ok((8.25, 2)));
    assert_eq!(formula(&trial(None)), Err("the measured phase has no length".to_owned()));
}

#[test]
fn only_an_open_loop_offers_a_rate() {
    let mut totals = Totals::default();
    for sent_ns in [0, 500_000_000, 1_000_000_000] {
        totals.add_sent(sent_ns);
    }
    let trial = |is_open_loop| TrialTotals { is_open_loop, ..of_requests(3, &totals) };
    let Formula::Trial(formula) = Metric::OfferedRate.definition().formula else { panic!("a value of a trial") };
    assert_eq!(formula(&trial(true)), Ok((2.0, 3)));
    assert_eq!(formula(&trial(false)), Err("a closed loop offers a concurrency, not a rate".to_owned()));
}

#[test]
fn responses_without_output_tokens_have_no_output_length() {
    let mut totals = Totals { with_both_lengths: 1, ..Totals::default() };
    totals.osl.add(500);
    let trial = |no_output: Option<&str>| TrialTotals {
        no_output: no_output.map(str::to_owned),
        documents: Some(1),
        ..of_requests(1, &totals)
    };
    for (metric, value) in [(Metric::Osl, 500.0), (Metric::OslMismatch, 0.0)] {
        let Formula::Trial(formula) = metric.definition().formula else { panic!("a value of a trial") };
        assert_eq!(formula(&trial(None)), Ok((value, 1)), "{metric:?}");
        assert_eq!(formula(&trial(Some("scores have no output tokens"))), Err("scores have no output tokens".to_owned()));
    }
}

#[test]
fn a_rate_per_gpu_is_of_all_gpus_or_of_those_of_a_role() {
    let mut totals = Totals::default();
    totals.completed.add(1 << SHARE_BITS, Some(120), Some(48));
    let trial = |gpus: Result<GpuCounts, String>| TrialTotals { window_ns: Some(2_000_000_000), gpus, ..of_requests(1, &totals) };
    let values = |gpus: &Result<GpuCounts, String>| {
        let of = |metric: Metric| {
            let Formula::Trial(formula) = metric.definition().formula else { panic!("a value of a trial") };
            formula(&trial(gpus.clone())).map(|(value, _)| value)
        };
        [Metric::OutputThroughputPerGpu, Metric::InputThroughputPerPrefillGpu, Metric::OutputThroughputPerDecodeGpu].map(of)
    };
    // 120 tokens in and 48 out in two seconds: 24 for 6 GPUs, 60 for 2, 24 for 4.
    let roles = Ok(RoleGpus { prefill: 2, decode: 4 });
    assert_eq!(values(&Ok(GpuCounts { all: 6, by_role: roles })), [Ok(4.0), Ok(30.0), Ok(6.0)]);
    let why = || Err("no label says".to_owned());
    assert_eq!(values(&Ok(GpuCounts { all: 6, by_role: Err("no label says".to_owned()) })), [Ok(4.0), why(), why()]);
    let none = || Err("the target has no GPU".to_owned());
    assert_eq!(values(&Ok(GpuCounts { all: 0, by_role: Ok(RoleGpus { prefill: 0, decode: 0 }) })), [none(), none(), none()]);
    assert_eq!(values(&Err("no label says".to_owned())), [why(), why(), why()]);
}

#[test]
fn one_is_no_plural() {
    assert_eq!([0_u64, 1, 2].map(|count| quantity(count, "response")), ["0 responses", "1 response", "2 responses"]);
}
