//! Tests of properties that all renderings of a verdict share.

use assay_manifest::{Acknowledgement, Difference, EarlierEnd, EndState, MetricVerdict, Outcome, Reason, Role};
use proptest::prelude::*;

use super::fixture::{self, Model};
use super::inputs::EarlierVerdict;
use super::model::row::MetricOutcome;
use crate::render::check::{check_balance, ids, outside_code};
use crate::render::text::columns;

/// GitHub's limit of a comment's length.
const LIMIT: usize = 65_535;

#[test]
fn a_terminal_says_it_all() {
    insta::assert_snapshot!(fixture::model().report().terminal(120, false), @r"
    Regressed, and it blocks: `ttft_ms_p99` of chat at c64 changed by +12.1 % [+9.0, +15.5], beyond the budget of 5 %; 1
    regression passed as acknowledged; 13 to 14 pairs; the smallest change for the worse that every metric would have shown
    is 17 %.

    ! Expired       acknowledgement `pipelines/acks/old.yaml` expired on 2026-11-01T00:00:00Z: remove or renew it
      Compared      vllm.patched against vllm.main
                    what differs on purpose: runtime version
      Signed        by ci, trusted by `trust/main.yaml`
                    key SHA256:7Qm2
    ! Pairs         13 to 14 of each metric, 1 missing
                    the unit of inference is the adjacent pair of trials · both sides were up together · a pair is missing
                    where a side has no valid trial, or no value
      Look          2 of 3
                    of pr-17; it may spend 30 % of q = 5 %: 1.5 % · 1 verdict of this sequence came before it
      Differences   none besides the variable under test
      Confounding   no change is explained by placement
      Checks        the only check held
      Runs          1 run judged
                    pull-17-b, commit 4f1c2d9e8b7a, signed by ci
      Rules         budget 5 %, q 5 %, inconclusive does not block
                    `pipelines/pull-request.yaml` at commit 0a1b2c3d4e5f ·
                    sha256:823412d1eacb67956220e532959f0104603057c88704863ca38e7cd188fda812 · SLOs have to be met · at most
                    1 % of requests may fail
      Rule changes  the candidate brings no other gates, and whatever else it brings was not read

    Primary metrics
      metric               verdict        change           of the  baseline  candidate     pairs  would  adjusted    floor
      workload at point    size           interval        medians    median     median             find         p     from
      ttft_ms_p99          regressed      +12.1 %         +12.1 %       412        462        14  7.2 %  0.000366    1.2 %
      chat at c64          2-4 × budget   [+9.0, +15.5]                  ms         ms                             history
      itl_ms_p99           inconclusive   +4 %               +4 %      31.7       33.0  13 of 14   17 %  1.00        1.2 %
      chat at c64          within budget  [-11, +21]                     ms         ms                             history
      e2e_ms_p99           acknowledged   +8.9 %           +8.9 %      1.84       2.00        14  6.0 %  0.000366    1.2 %
      chat at c8           1-2 × budget   [+7.5, +10.4]                   s          s                             history
      output_tokens_per_s  improved       +12.4 %         +12.4 %      2410       2710        14  6.2 %  0.000366    1.2 %
      chat at c64          2-4 × budget   [+10.7, +14.3]              tok/s      tok/s                             history
      ttft_ms_p99          unchanged      +0.4 %           +0.4 %      84.5       84.8        14  6.6 %  1.00        1.2 %
      chat at c8           within budget  [-1.6, +2.6]                   ms         ms                             history
      · `itl_ms_p99` of chat at c64: the smallest change that would have been found is 17.0 %; a verdict needs 10.0 %; 18
        more pairs would decide
      · `e2e_ms_p99` of chat at c8: passes: `pipelines/acks/longer-responses.yaml` accepts it: responses are longer by
        design

    Other metrics, reported only
      metric             verdict            change       of the  baseline  candidate  pairs  would  adjusted    floor
      workload at point  size               interval    medians    median     median          find         p     from
      queue_ms_p50       regressed          +40 %         +40 %      3.20       4.48     14  9.0 %  0.000366    1.2 %
      chat at c64        beyond 4 × budget  [+33, +48]                 ms         ms                          history

    Acknowledgements
      `pipelines/acks/old.yaml` accepts 2 % of `itl_ms_p99`; expired: nothing regressed that it was about
        chat.vllm.patched at every point; pull request 17; responses are longer by design (approved by perf-owners, until
        2026-11-01T00:00:00Z)
      `pipelines/acks/longer-responses.yaml` accepts 10 % of `e2e_ms_p99`; used: `e2e_ms_p99` of chat at c8 (8.9 %)
        chat.vllm.patched at c8; pull request 17; responses are longer by design (approved by perf-owners, until
        2027-01-01T00:00:00Z)
      `pipelines/acks/slower-decoding.yaml` accepts 8 % of `tpot_ms_p50`; unused: nothing regressed that it is about
        chat.vllm.patched at every point; pull request 17; responses are longer by design (approved by perf-owners, until
        2027-01-01T00:00:00Z)

    Earlier verdicts of this pull request
      1. pull-request inconclusive, look 1, commit 000000000000, 2026-11-19T09:30:00Z

    How to check
      assay gate --replay sha256:11e221bd1b7fc99544f3f765b0c39dd2786e636c3422d6bec026d1ed03884cac --store s3://results
      assay verify pull-17-b --store s3://results
      assay trace pull-17-b/outcome_fact/1dd14edfefea/value --store s3://results

    Method: Wilcoxon's signed ranks, one-sided, on the log-ratios of adjacent pairs; Benjamini and Hochberg over the family
    of 5 primary metrics at q = 1.5 %. Method `assay-gate/11`.
    False alarms: Among the alarms of this look at most 1.5 % are false in expectation: of 1000 comparisons like it in which
    none of the 5 metrics changed, at most 15 would alarm. Budget and floor make it fewer. Over all 3 looks of a sequence it
    is 5 % at most. It holds where metrics are independent or depend positively.
    Floor: What the design cannot average away, and the interval's end has to clear: from what earlier runs teach of how
    launches differ. Learned from `sha256:d78e3c38d98d17d7355ec4a989e477bace56a6fa2508121a520146cd0a23ec80`.
    Interval: At 95 %. It inverts the test: what it holds, the signed ranks would not reject.
    Outcomes: Regressed: adjusted p at most q, and the change beyond the budget of 5 %, and the interval clear of the floor.
    Improved mirrors it. Inconclusive: not regressed, and a change of 10 % would not have been found, or the floor was not
    cleared, or something else than the variable under test differs. Unchanged is what is left.
    Unpaired p: Rank sums of Mann and Whitney, two-sided, as if nothing were paired and unadjusted: 0.0100 for `ttft_ms_p99`
    of chat at c64, 0.0100 for `itl_ms_p99` of chat at c64, 0.0100 for `e2e_ms_p99` of chat at c8, 0.0100 for
    `output_tokens_per_s` of chat at c64, 0.0100 for `ttft_ms_p99` of chat at c8. It decides nothing.
    ");
}

#[test]
fn a_comment_says_what_changed_and_where_the_evidence_is() {
    insta::assert_snapshot!(fixture::model().report().markdown(LIMIT), @r"
    **Regressed, and it blocks**: `ttft_ms_p99` of chat at c64 changed by +12.1 % \[+9.0, +15.5\], beyond the budget of 5 %; 1 regression passed as acknowledged; 13 to 14 pairs; the smallest change for the worse that every metric would have shown is 17 %.

    ⚠ acknowledgement `pipelines/acks/old.yaml` expired on 2026-11-01T00:00:00Z: remove or renew it

    ### What changed

    | verdict | metric | at | baseline | candidate | change, interval | size | adjusted p | floor | would find | pairs | why |
    | --- | --- | --- | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |
    | **regressed** | `ttft_ms_p99` | chat at c64 | 412 ms | 462 ms | +12.1 % \[+9.0, +15.5\] | 2-4 × budget | 0.000366 | 1.2 % | 7.2 % | 14 |  |
    | **inconclusive** | `itl_ms_p99` | chat at c64 | 31.7 ms | 33.0 ms | +4 % \[-11, +21\] | within budget | 1.00 | 1.2 % | 17 % | 13 of 14 | the smallest change that would have been found is 17.0 %; a verdict needs 10.0 %; 18 more pairs would decide |
    | acknowledged | `e2e_ms_p99` | chat at c8 | 1.84 s | 2.00 s | +8.9 % \[+7.5, +10.4\] | 1-2 × budget | 0.000366 | 1.2 % | 6.0 % | 14 | passes: `pipelines/acks/longer-responses.yaml` accepts it: responses are longer by design |
    | improved | `output_tokens_per_s` | chat at c64 | 2410 tok/s | 2710 tok/s | +12.4 % \[+10.7, +14.3\] | 2-4 × budget | 0.000366 | 1.2 % | 6.2 % | 14 |  |

    ### How far to believe it

    | | | |
    | --- | --- | --- |
    | Compared | vllm.patched against vllm.main | what differs on purpose: runtime version |
    | Signed | by ci, trusted by `trust/main.yaml` | key SHA256:7Qm2 |
    | Pairs | ⚠ 13 to 14 of each metric, 1 missing | the unit of inference is the adjacent pair of trials<br>both sides were up together<br>a pair is missing where a side has no valid trial, or no value |
    | Look | 2 of 3 | of pr-17; it may spend 30 % of q = 5 %: 1.5 %<br>1 verdict of this sequence came before it |
    | Differences | none besides the variable under test |  |
    | Confounding | no change is explained by placement |  |
    | Checks | the only check held |  |
    | Runs | 1 run judged | pull-17-b, commit 4f1c2d9e8b7a, signed by ci |
    | Rules | budget 5 %, q 5 %, inconclusive does not block | `pipelines/pull-request.yaml` at commit 0a1b2c3d4e5f<br>sha256:823412d1eacb67956220e532959f0104603057c88704863ca38e7cd188fda812<br>SLOs have to be met<br>at most 1 % of requests may fail |
    | Rule changes | the candidate brings no other gates, and whatever else it brings was not read |  |

    ### Where the evidence is

    The verdict of gate `pull-request` is `sha256:11e221bd1b7fc99544f3f765b0c39dd2786e636c3422d6bec026d1ed03884cac`.
    Run `pull-17-b` was judged by its Summary `sha256:761b7ad8ad439b2855fcbb611331c646ef0870b0631247bba3f3025cb6df5a53`.

    ```sh
    assay gate --replay sha256:11e221bd1b7fc99544f3f765b0c39dd2786e636c3422d6bec026d1ed03884cac --store s3://results
    assay verify pull-17-b --store s3://results
    assay trace pull-17-b/outcome_fact/1dd14edfefea/value --store s3://results
    ```

    <details><summary>Unchanged (1)</summary>

    | verdict | metric | at | baseline | candidate | change, interval | size | adjusted p | floor | would find | pairs | why |
    | --- | --- | --- | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |
    | unchanged | `ttft_ms_p99` | chat at c8 | 84.5 ms | 84.8 ms | +0.4 % \[-1.6, +2.6\] | within budget | 1.00 | 1.2 % | 6.6 % | 14 |  |

    </details>

    <details><summary>Other metrics, reported only (1)</summary>

    | verdict | metric | at | baseline | candidate | change, interval | size | adjusted p | floor | would find | pairs | why |
    | --- | --- | --- | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |
    | regressed | `queue_ms_p50` | chat at c64 | 3.20 ms | 4.48 ms | +40 % \[+33, +48\] | beyond 4 × budget | 0.000366 | 1.2 % | 9.0 % | 14 |  |

    </details>

    <details><summary>Acknowledgements (3)</summary>

    | | metric | at | accepts | what it did | of | why | approved by | until | file |
    | --- | --- | --- | ---: | --- | --- | --- | --- | --- | --- |
    | expired | `itl_ms_p99` | chat.vllm.patched at every point | 2 % | nothing regressed that it was about | pull request 17 | responses are longer by design | perf-owners | 2026-11-01T00:00:00Z | `pipelines/acks/old.yaml` |
    | used | `e2e_ms_p99` | chat.vllm.patched at c8 | 10 % | `e2e_ms_p99` of chat at c8 (8.9 %) | pull request 17 | responses are longer by design | perf-owners | 2027-01-01T00:00:00Z | `pipelines/acks/longer-responses.yaml` |
    | unused | `tpot_ms_p50` | chat.vllm.patched at every point | 8 % | nothing regressed that it is about | pull request 17 | responses are longer by design | perf-owners | 2027-01-01T00:00:00Z | `pipelines/acks/slower-decoding.yaml` |

    </details>

    <details><summary>Earlier verdicts of this pull request, newest first (1)</summary>

    | | outcome | gate | look | commit | verdict |
    | ---: | --- | --- | ---: | --- | --- |
    | 1 | inconclusive | pull-request | 1 | `000000000000` | `67abdd721024` |

    </details>

    <details><summary>Where the values come from (6)</summary>

    `assay trace` walks an address back to the raw bytes. These are the runs' own medians, over all counted trials; the page has the address of every trial.

    | metric | at | side | median | address |
    | --- | --- | --- | ---: | --- |
    | `ttft_ms_p99` | chat at c64 | baseline | 412 ms | `pull-17-b/outcome_fact/625c6bc5bca4/value` |
    | `ttft_ms_p99` | chat at c64 | candidate | 462 ms | `pull-17-b/outcome_fact/1dd14edfefea/value` |
    | `itl_ms_p99` | chat at c64 | baseline | 31.7 ms | `pull-17-b/outcome_fact/6276f2407aa3/value` |
    | `itl_ms_p99` | chat at c64 | candidate | 33.0 ms | `pull-17-b/outcome_fact/3c7903511f66/value` |
    | `e2e_ms_p99` | chat at c8 | baseline | 1.84 s | `pull-17-b/outcome_fact/fd5601de644a/value` |
    | `e2e_ms_p99` | chat at c8 | candidate | 2.00 s | `pull-17-b/outcome_fact/522bfd3152cc/value` |
    | `output_tokens_per_s` | chat at c64 | baseline | 2410 tok/s | `pull-17-b/outcome_fact/225a773648f2/value` |
    | `output_tokens_per_s` | chat at c64 | candidate | 2710 tok/s | `pull-17-b/outcome_fact/039ec4cf3cb1/value` |
    | `ttft_ms_p99` | chat at c8 | baseline | 84.5 ms | `pull-17-b/outcome_fact/40ec5e18df4b/value` |
    | `ttft_ms_p99` | chat at c8 | candidate | 84.8 ms | `pull-17-b/outcome_fact/3dd5f7275c78/value` |
    | `queue_ms_p50` | chat at c64 | baseline | 3.20 ms | `pull-17-b/outcome_fact/86606cc2eaf1/value` |
    | `queue_ms_p50` | chat at c64 | candidate | 4.48 ms | `pull-17-b/outcome_fact/aec5e937d232/value` |

    </details>

    <details><summary>Fine print (14)</summary>

    - **Method**: Wilcoxon's signed ranks, one-sided, on the log-ratios of adjacent pairs; Benjamini and Hochberg over the family of 5 primary metrics at q = 1.5 %. Method `assay-gate/11`.
    - **False alarms**: Among the alarms of this look at most 1.5 % are false in expectation: of 1000 comparisons like it in which none of the 5 metrics changed, at most 15 would alarm. Budget and floor make it fewer. Over all 3 looks of a sequence it is 5 % at most. It holds where metrics are independent or depend positively.
    - **Floor**: What the design cannot average away, and the interval's end has to clear: from what earlier runs teach of how launches differ. Learned from `sha256:d78e3c38d98d17d7355ec4a989e477bace56a6fa2508121a520146cd0a23ec80`.
    - **Change**: The ratio of Hodges and Lehmann, candidate over baseline, less one: the median of the averages of all pairs of log-ratios. It is not the ratio of the two medians beside it, which ignores that trials are paired.
    - **Interval**: At 95 %. It inverts the test: what it holds, the signed ranks would not reject.
    - **Outcomes**: Regressed: adjusted p at most q, and the change beyond the budget of 5 %, and the interval clear of the floor. Improved mirrors it. Inconclusive: not regressed, and a change of 10 % would not have been found, or the floor was not cleared, or something else than the variable under test differs. Unchanged is what is left.
    - **Size**: The change in multiples of the budget, on logarithms, whatever its interval: within budget, 1-2, 2-4, beyond 4.
    - **Would have been found**: The smallest change for the worse that this design finds with a probability of 0.8 by the whole rule, at the noise that was met. Smaller ones may pass.
    - **Adjusted p**: The smaller of the two one-sided probabilities of signed ranks so far from no change, exact up to 200 pairs, adjusted for the family and for both directions.
    - **Unpaired p**: Rank sums of Mann and Whitney, two-sided, as if nothing were paired and unadjusted: 0.0100 for `ttft_ms_p99` of chat at c64, 0.0100 for `itl_ms_p99` of chat at c64, 0.0100 for `e2e_ms_p99` of chat at c8, 0.0100 for `output_tokens_per_s` of chat at c64, 0.0100 for `ttft_ms_p99` of chat at c8. It decides nothing.
    - **Medians**: The median of all trials of a side that are part of a pair, to three significant digits.
    - **Acknowledged**: It regressed, and a reviewed file of the target branch had accepted a change of that size: it is reported, and passes.
    - **Other metrics**: Reported, adjusted as a family of their own, and without a say in the outcome.
    - **What it represents**: The two sides as they were measured, on these machines at that time, and nothing more. Times are asserted by the signers; no independent clock has stamped them.

    </details>
    ");
}

#[test]
fn junit_has_a_test_case_for_each_metric() {
    insta::assert_snapshot!(fixture::model().report().junit(), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="assay gate pull-request" tests="8" failures="1" errors="0" skipped="2">
    <testsuite name="chat" tests="6" failures="1" errors="0" skipped="2" timestamp="2026-11-20T12:00:00"><properties><property name="gate" value="pull-request"/><property name="outcome" value="regressed"/><property name="verdict" value="sha256:11e221bd1b7fc99544f3f765b0c39dd2786e636c3422d6bec026d1ed03884cac"/></properties>
    <testcase classname="chat.c64" name="ttft_ms_p99"><properties><property name="outcome" value="regressed"/><property name="primary" value="true"/><property name="ratio" value="1.121"/><property name="ci_low" value="1.0901725"/><property name="ci_high" value="1.1549102500000001"/><property name="p" value="0.00012207"/><property name="p_adjusted" value="0.00036621"/><property name="p_unpaired" value="0.01"/><property name="q" value="0.015"/><property name="n" value="14"/></properties><failure type="regression" message="regressed: +12.1 % [+9.0, +15.5]; 2-4 × budget">regressed: +12.1 % [+9.0, +15.5]; 2-4 × budget</failure></testcase>
    <testcase classname="chat.c64" name="itl_ms_p99"><properties><property name="outcome" value="inconclusive"/><property name="primary" value="true"/><property name="ratio" value="1.042"/><property name="ci_low" value="0.8857"/><property name="ci_high" value="1.2139300000000002"/><property name="p" value="0.4079"/><property name="p_adjusted" value="1"/><property name="p_unpaired" value="0.01"/><property name="q" value="0.015"/><property name="n" value="13"/><property name="more_pairs" value="18"/></properties><skipped message="inconclusive: +4 % [-11, +21]; within budget; the smallest change that would have been found is 17.0 %; a verdict needs 10.0 %; 18 more pairs would decide"/></testcase>
    <testcase classname="chat.c8" name="e2e_ms_p99"><properties><property name="outcome" value="acknowledged"/><property name="primary" value="true"/><property name="ratio" value="1.089"/><property name="ci_low" value="1.0753875"/><property name="ci_high" value="1.10397375"/><property name="p" value="0.00012207"/><property name="p_adjusted" value="0.00036621"/><property name="p_unpaired" value="0.01"/><property name="q" value="0.015"/><property name="n" value="14"/><property name="acknowledged" value="passes: `pipelines/acks/longer-responses.yaml` accepts it: responses are longer by design"/></properties></testcase>
    <testcase classname="chat.c64" name="output_tokens_per_s"><properties><property name="outcome" value="improved"/><property name="primary" value="true"/><property name="ratio" value="1.124"/><property name="ci_low" value="1.10714"/><property name="ci_high" value="1.142546"/><property name="p" value="1"/><property name="p_adjusted" value="1"/><property name="p_unpaired" value="0.01"/><property name="q" value="0.015"/><property name="n" value="14"/></properties></testcase>
    <testcase classname="chat.c8" name="ttft_ms_p99"><properties><property name="outcome" value="unchanged"/><property name="primary" value="true"/><property name="ratio" value="1.004"/><property name="ci_low" value="0.98392"/><property name="ci_high" value="1.0260880000000001"/><property name="p" value="0.4079"/><property name="p_adjusted" value="1"/><property name="p_unpaired" value="0.01"/><property name="q" value="0.015"/><property name="n" value="14"/></properties></testcase>
    <testcase classname="chat.c64" name="queue_ms_p50"><properties><property name="outcome" value="regressed"/><property name="primary" value="false"/><property name="ratio" value="1.4"/><property name="ci_low" value="1.3299999999999998"/><property name="ci_high" value="1.4769999999999999"/><property name="p" value="0.00012207"/><property name="p_adjusted" value="0.00036621"/><property name="p_unpaired" value="0.01"/><property name="q" value="0.015"/><property name="n" value="14"/></properties><skipped message="reported only, regressed: +40 % [+33, +48]; beyond 4 × budget"/></testcase>
    </testsuite>
    <testsuite name="of the gate" tests="2" failures="0" errors="0" skipped="0" timestamp="2026-11-20T12:00:00"><properties><property name="gate" value="pull-request"/><property name="outcome" value="regressed"/><property name="verdict" value="sha256:11e221bd1b7fc99544f3f765b0c39dd2786e636c3422d6bec026d1ed03884cac"/></properties>
    <testcase classname="check.validity" name="run pull-17-b"></testcase>
    <testcase classname="gate" name="something was judged"></testcase>
    </testsuite></testsuites>
    "#);
}

#[test]
fn worst_comes_first_and_the_plans_order_is_kept_within() {
    let mut model = fixture::model();
    let second = MetricVerdict { metric: "ttfo_ms_p99".to_owned(), ..model.metric("ttft_ms_p99").clone() };
    model.verdict.metrics.push(second);
    let report = model.report();
    let rows: Vec<_> = report.primary.iter().map(|row| (row.outcome, row.metric.as_str())).collect();
    assert_eq!(
        rows,
        [
            (MetricOutcome::Regressed, "ttft_ms_p99"),
            (MetricOutcome::Inconclusive, "itl_ms_p99"),
            (MetricOutcome::Acknowledged, "e2e_ms_p99"),
            (MetricOutcome::Improved, "output_tokens_per_s"),
            (MetricOutcome::Unchanged, "ttft_ms_p99"),
            (MetricOutcome::Unchanged, "ttfo_ms_p99"),
        ]
    );
    assert_eq!(report.others.len(), 1);
}

#[test]
fn what_explains_a_regression_stands_under_its_sentence() {
    let mut model = fixture::model();
    let headline = "Requests waited in the server's queue";
    for output in [model.report().markdown(60_000), model.report().terminal(100, false), model.report().html()] {
        assert!(!output.contains(headline), "nothing was explained");
    }
    let details = vec!["seen: the queue | 1 -> 40 ms".to_owned(), "`assay explain one` shows what was checked".to_owned()];
    model.why = Some(crate::gate::Why { headline: headline.to_owned(), details });
    let comment = model.report().markdown(60_000);
    let (before, after) = comment.split_once(&format!("\n**Why**: {headline}\n\n- seen: the queue ")).expect("it is there");
    assert!(!before.contains("### What changed") && after.contains("### What changed"), "{comment}");
    assert_eq!(comment.matches(headline).count(), 1);
    assert!(model.report().terminal(100, false).contains(headline) && model.report().html().contains("server&#39;s queue"));
}

#[test]
fn each_outcome_has_its_sentence() {
    use Outcome::{Improved, Inconclusive, Regressed, Unchanged};
    let sentence = |outcome, kept: &[Outcome]| {
        let mut model = fixture::model();
        model.set_outcome(outcome, kept);
        model.report().sentence().to_owned()
    };
    insta::assert_snapshot!(sentence(Unchanged, &[Unchanged]), @"Unchanged: no change beyond the budget of 5 % was found in 1 primary metric; 14 pairs; the smallest change for the worse that every metric would have shown is 6.6 %.");
    insta::assert_snapshot!(sentence(Improved, &[Improved, Unchanged]), @"Improved: `output_tokens_per_s` of chat at c64 changed by +12.4 % [+10.7, +14.3], and none got worse; 14 pairs; the smallest change for the worse that every metric would have shown is 6.6 %.");
    insta::assert_snapshot!(sentence(Inconclusive, &[Inconclusive, Unchanged]), @"Inconclusive, which does not block: `itl_ms_p99` of chat at c64 cannot be told (the smallest change that would have been found is 17.0 %; a verdict needs 10.0 %; 18 more pairs would decide); 13 to 14 pairs; the smallest change for the worse that every metric would have shown is 17 %.");
    insta::assert_snapshot!(sentence(Regressed, &[Regressed, Unchanged]), @"Regressed, and it blocks: `ttft_ms_p99` of chat at c64 changed by +12.1 % [+9.0, +15.5], beyond the budget of 5 %; 1 regression passed as acknowledged; 14 pairs; the smallest change for the worse that every metric would have shown is 7.2 %.");
}

#[test]
fn what_one_metric_alone_could_not_have_shown_is_not_said_beside_a_regression() {
    use Outcome::{Inconclusive, Regressed, Unchanged};
    let sentence = |outcome, kept: &[Outcome], is_blind: &dyn Fn(Outcome) -> bool| {
        let mut model = fixture::model();
        model.set_outcome(outcome, kept);
        for metric in model.verdict.metrics.iter_mut().filter(|metric| is_blind(metric.outcome)) {
            metric.detectable = None;
        }
        model.report().sentence().to_owned()
    };
    let alone = "a change for the worse of one metric alone would not have been found, of any size";
    let blind = sentence(Inconclusive, &[Inconclusive], &|_| true);
    assert!(blind.ends_with(&format!("; {alone}.")), "{blind}");
    for kept in [&[Regressed][..], &[Regressed, Inconclusive]] {
        let found = sentence(Regressed, kept, &|_| true);
        assert!(!found.contains("of any size") && found.ends_with(" pairs."), "{found}");
    }
    // A metric that regressed says nothing about what another one would have shown alone.
    let found = sentence(Regressed, &[Regressed, Unchanged], &|outcome| outcome == Regressed);
    assert!(found.contains("the smallest change for the worse of one metric alone that would have been found is "), "{found}");
    assert!(!found.contains("of any size") && !found.contains("every metric"), "{found}");
    let some = sentence(Inconclusive, &[Inconclusive, Unchanged], &|outcome| outcome == Inconclusive);
    assert!(some.ends_with(", and none of any size in 1 metric."), "{some}");
}

#[test]
fn a_verdict_on_nothing_says_so_everywhere() {
    let mut model = fixture::model();
    model.set_outcome(Outcome::Inconclusive, &[]);
    model.verdict.reasons = vec![Reason::new("nothing_judged", "no compared point reports a primary metric")];
    let report = model.report();
    insta::assert_snapshot!(report.sentence(), @"Inconclusive, which does not block: no compared point reports a primary metric.");
    assert!(report.junit().contains("<skipped message=\"Inconclusive"));
    assert!(report.html().contains("No primary metric was judged."));
    assert_eq!(report.check_run()["conclusion"], "neutral");
}

#[test]
fn a_failed_check_is_the_reason_where_no_metric_is() {
    let mut model = fixture::model();
    model.set_outcome(Outcome::Inconclusive, &[Outcome::Unchanged]);
    model.verdict.checks[0].passed = false;
    model.verdict.reasons = vec![Reason::new("validity", "run pull-17-b: some planned trials have no valid attempt")];
    let report = model.report();
    insta::assert_snapshot!(report.sentence(), @"Inconclusive, which does not block: run pull-17-b: some planned trials have no valid attempt; 14 pairs; the smallest change for the worse that every metric would have shown is 6.6 %.");
    assert!(report.junit().contains("<testcase classname=\"check.validity\" name=\"run pull-17-b\"><skipped"));
    assert!(report.terminal(100, false).contains("! Checks        1 of 1 check failed"));
}

#[test]
fn a_check_that_blocks_by_itself_fails() {
    let mut model = fixture::model();
    model.set_outcome(Outcome::Regressed, &[Outcome::Unchanged]);
    let check = &mut model.verdict.checks[0];
    (check.passed, check.blocks, check.detail) = (false, true, "2.1 % of requests failed; 1 % may".to_owned());
    model.verdict.reasons = vec![Reason::new("error_rate", "chat at c64: 2.1 % of requests failed; 1 % may")];
    let report = model.report();
    insta::assert_snapshot!(report.sentence(), @"Regressed, and it blocks: chat at c64: 2.1 % of requests failed; 1 % may; 14 pairs; the smallest change for the worse that every metric would have shown is 6.6 %.");
    assert!(report.junit().contains("<failure type=\"check\""));
    let check = report.check_run();
    assert_eq!(check["conclusion"], "failure");
    assert_eq!(check["output"]["title"], "Regressed, and it blocks: 1 check failed");
}

#[test]
fn an_inconclusive_verdict_names_the_pairs_that_it_takes_everywhere() {
    let mut model = fixture::model();
    model.set_outcome(Outcome::Inconclusive, &[Outcome::Inconclusive]);
    let report = model.report();
    for text in [report.terminal(100, false), report.markdown(LIMIT), report.junit(), report.html()] {
        assert!(text.contains("18 more pairs"), "{text}");
    }
    assert!(report.junit().contains("<skipped message=\"inconclusive: "));
    assert_eq!(report.check_run()["conclusion"], "neutral");
    model.verdict.blocks = true;
    model.verdict.policy.block_on_inconclusive = true;
    let report = model.report();
    assert!(report.junit().contains("<failure type=\"inconclusive\""));
    assert_eq!(report.check_run()["conclusion"], "action_required");
}

#[test]
fn an_acknowledged_regression_passes_and_is_told() {
    let mut model = fixture::model();
    model.verdict.metrics.retain(|metric| metric.acknowledged.is_some());
    model.set_outcome(Outcome::Unchanged, &[Outcome::Regressed]);
    let report = model.report();
    insta::assert_snapshot!(report.sentence(), @"Accepted: 1 regression passed as acknowledged; nothing else was judged; 14 pairs; the smallest change for the worse that every metric would have shown is 6.0 %.");
    assert_eq!(report.check_run()["conclusion"], "success");
    let xml = report.junit();
    assert!(xml.contains("failures=\"0\"") && !xml.contains("<failure") && !xml.contains("<skipped"), "{xml}");
    assert!(xml.contains("<property name=\"acknowledged\" value=\"passes: `pipelines/acks/longer-responses.yaml` accepts it"));
    for text in [report.terminal(100, false), report.markdown(LIMIT), report.html()] {
        assert!(text.contains("passes: "), "{text}");
    }
}

#[test]
fn a_metric_s_reason_is_a_row_below_it_so_that_no_column_is_beyond_the_edge() {
    let html = fixture::model().report().html();
    let (_, below) = html.split_once("13 of 14</td></tr>").expect("the metric with a missing pair");
    assert!(below.starts_with("<tr class=\"why\"><td colspan=\"14\">the smallest change that would have been found"), "{below}");
    assert_eq!(html.matches("<th scope=\"col\" class=\"\">why</th>").count(), 1, "of the acknowledgements alone");
}

#[test]
fn an_acknowledgement_that_did_not_suffice_says_why() {
    let mut model = fixture::model();
    model.metric("e2e_ms_p99").acknowledged = None;
    let like = |model: &Model| model.verdict.acknowledgements[0].clone();
    model.verdict.acknowledgements[0].accepts = 0.05;
    let expired = Acknowledgement { expires: model.verdict.judged_on, accepts: 0.5, ..like(&model) };
    let elsewhere = Acknowledgement { applies: false, ..like(&model) };
    model.verdict.acknowledgements.extend([expired, elsewhere]);
    let report = model.report();
    let effects: Vec<_> = report.accepted.iter().map(|one| format!("{}: {}", one.kind.as_str(), one.effect)).collect();
    insta::assert_snapshot!(effects.join("\n"), @r"
    beyond: `e2e_ms_p99` of chat at c8 (8.9 %)
    expired: nothing regressed that it was about
    expired: `e2e_ms_p99` of chat at c8 (8.9 %)
    unused: nothing regressed that it is about
    of another change: it is for pull request 17, and this verdict is about pr-17
    ");
}

#[test]
fn the_strip_stops_a_careful_reader_where_it_should() {
    let mut model = fixture::model();
    let cautions = |model: &Model| -> Vec<&'static str> {
        model.report().strip.iter().filter(|item| item.caution).map(|item| item.label).collect()
    };
    assert_eq!(cautions(&model), ["Expired", "Pairs"]);
    let cancelled = EarlierEnd { state: EndState::Cancelled, stage: Role::Execute, code: "cancelled".to_owned() };
    model.verdict.runs[0].earlier_ends = vec![cancelled; 5];
    assert_eq!(cautions(&model), ["Expired", "Pairs", "Runs"]);
    let strip = model.report().strip;
    let runs = strip.iter().find(|item| item.label == "Runs").expect("an item");
    assert_eq!((runs.headline.as_str(), runs.details.len()), ("1 run judged, 1 begun more than once", 5));
    assert_eq!(runs.details[1], "pull-17-b: an earlier attempt was cancelled in execute (`cancelled`)");
    assert_eq!(runs.details[4], "pull-17-b: 2 more earlier attempts");
    model.signature = None;
    model.unestablished = vec![model.verdict.runs[0].run_id.clone()];
    model.verdict.policy.commit = None;
    let fact = |text: &str| text.to_owned();
    model.verdict.differences = vec![Difference { what: fact("driver"), baseline: fact("570"), candidate: fact("575") }];
    model.verdict.policy_changes = vec![Difference { what: fact("budget"), baseline: fact("5 %"), candidate: fact("50 %") }];
    model.metric("itl_ms_p99").reason = Some(Reason::new("confounded_with_placement", "the sides ran on different hosts"));
    assert_eq!(cautions(&model), ["Expired", "Signed", "Pairs", "Differences", "Confounding", "Runs", "Rules", "Rule changes"]);
}

#[test]
fn what_bounds_nothing_has_no_interval_and_no_third_digit() {
    let mut model = fixture::model();
    let change = model.metric("itl_ms_p99").change.as_mut().expect("a change");
    (change.ratio, change.low, change.high) = (1.123_4, None, None);
    let change = model.metric("e2e_ms_p99").change.as_mut().expect("a change");
    change.high = None;
    model.metric("output_tokens_per_s").change = None;
    let report = model.report();
    let changes: Vec<String> = report.primary.iter().map(super::model::row::Row::change_text).collect();
    insta::assert_snapshot!(changes.join("\n"), @r"
    +12.1 % [+9.0, +15.5]
    +12 %, no interval
    +8.9 % [+7.5, ∞]
    not comparable
    +0.4 % [-1.6, +2.6]
    ");
    check_balance(&report.html()).expect("well formed");
}

#[test]
fn lines_keep_within_the_width() {
    // Identifiers and commands do not break; all other text does.
    let unbreakable = |line: &str| line.split_whitespace().any(|word| columns(word) > 40) || line.contains("assay ");
    for width in [80, 100, 140] {
        for line in fixture::model().report().terminal(width, false).lines().filter(|line| !unbreakable(line)) {
            assert!(columns(line) <= width, "{width}: {line}");
        }
    }
    let report = fixture::model().report();
    let left_out = |width| report.terminal(width, false).lines().any(|line| line.contains("too narrow for the columns"));
    assert!(left_out(80) && !left_out(160), "a column that gave way is named");
    assert!(!report.terminal(100, false).contains('\u{1b}'));
    assert!(report.terminal(100, true).contains('\u{1b}'));
}

#[test]
fn the_page_is_well_formed_asks_for_nothing_and_runs_nothing() {
    let html = fixture::model().report().html();
    check_balance(&html).expect("well formed");
    let targets = ids(&html, " id=\"");
    let unique: std::collections::BTreeSet<_> = targets.iter().collect();
    assert_eq!(unique.len(), targets.len(), "an id stands twice");
    let links = ids(&html, "href=\"#");
    let of = |begin: &str| links.iter().filter(|link| link.starts_with(begin)).count();
    assert_eq!(of("m-"), 6, "every metric has its pictures");
    assert_eq!(of("from-"), 24, "change and medians open where they come from, in the picture's caption and in the table");
    assert!(links.iter().all(|link| targets.contains(link)));
    for forbidden in ["<script", "<link", "<img", "<iframe", " src=", "url(", "@import", " onload", "href=\"http", "NaN"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    let mut before = 0;
    for level in html.split("<h").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10)) {
        assert!(level <= before + 1, "h{level} after h{before}");
        before = level;
    }
}

#[test]
fn both_sides_are_told_by_shape_and_every_picture_says_what_it_shows() {
    let html = fixture::model().report().html();
    let picture = html.split_once("id=\"m-0\"").and_then(|(_, rest)| rest.split_once("</figure>")).expect("the first").0;
    assert_eq!(picture.matches("class=\"trial-of-baseline\"").count(), 14);
    assert_eq!(picture.matches("class=\"trial-of-candidate\"").count(), 14);
    assert_eq!(picture.matches("class=\"path\"").count(), 14, "a line for each pair");
    assert_eq!(picture.matches("class=\"floor\"").count(), 2);
    for drawing in html.split("<svg role=\"img\"").skip(1) {
        let title = drawing.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).expect("a title").0;
        assert!(title.len() > 20, "{title}");
    }
}

/// Returns the texts of all commands on a page.
fn commands(html: &str) -> Vec<&str> {
    let code = "<pre class=\"command\" tabindex=\"0\"><code>";
    html.split(code).skip(1).filter_map(|rest| rest.split("</code>").next()).collect()
}

#[test]
fn every_judged_number_walks_back() {
    let model = fixture::model();
    let html = model.report().html();
    let walks: Vec<&str> = commands(&html).into_iter().filter(|command| command.starts_with("assay trace ")).collect();
    assert_eq!(walks.len(), 2 * 6 + 1, "both sides of every metric, and the number that decided");
    for command in walks {
        let address = command.split(' ').nth(2).expect("an address");
        assert!(address.parse::<assay_manifest::Address>().is_ok() && command.ends_with(" --store s3://results"), "{command}");
    }
    let summary = model.verdict.runs[0].summary.manifest.to_string();
    assert_eq!(html.matches(&summary).count(), 6 + 2, "each metric's, and the run's with its bundle");
    let trials = model.summaries.values().flat_map(|summary| &summary.points).flat_map(|point| &point.metrics);
    for trial in trials.flat_map(|metric| &metric.trials) {
        assert!(html.contains(&format!("<code>{}</code>", trial.row_id.short())), "{}", trial.trial_id);
    }
}

#[test]
fn a_pair_walks_back_to_the_run_that_it_is_of() {
    let mut model = fixture::model();
    let mut second = model.verdict.runs[0].clone();
    second.run_id = "pull-17-c".parse().expect("a run");
    model.verdict.runs.push(second);
    for pair in model.metric("itl_ms_p99").pairs.iter_mut().skip(7) {
        pair.run = 1;
    }
    let report = model.report();
    let row = report.primary.iter().find(|row| row.metric == "itl_ms_p99").expect("the metric");
    let trials: Vec<_> = row.origins.iter().map(|origin| (origin.run_id.as_str(), origin.candidate.trials.len())).collect();
    assert_eq!(trials, [("pull-17-b", 7), ("pull-17-c", 6)]);
    let runs = row.origins[1].candidate.trials.values().map(assay_manifest::Address::run_id);
    assert!(runs.map(assay_manifest::RunId::as_str).all(|run| run == "pull-17-c"));
}

#[test]
fn without_summaries_the_page_says_where_to_look() {
    let mut model = fixture::model();
    model.summaries.clear();
    let report = model.report();
    let html = report.html();
    check_balance(&html).expect("well formed");
    assert!(commands(&html).iter().all(|command| !command.starts_with("assay trace ")));
    assert_eq!(html.matches("The Summary was not at hand when this page was made").count(), 6);
    assert!(!report.markdown(LIMIT).contains("Where the values come from"));
}

#[test]
fn a_pair_without_a_ratio_is_shown_without_one() {
    let mut model = fixture::model();
    let metric = model.metric("itl_ms_p99");
    metric.change = None;
    metric.floor = None;
    for pair in &mut metric.pairs {
        (pair.baseline, pair.candidate) = (0.0, 0.0);
    }
    let html = model.report().html();
    check_balance(&html).expect("well formed");
    assert!(html.contains("There is no ratio to hold against the budget."));
    assert!(!html.contains("NaN") && !html.contains("inf<"));
    model.metric("itl_ms_p99").pairs.clear();
    assert!(model.report().html().contains("No pair has a value on both sides, so there is nothing to draw."));
}

#[test]
fn many_pairs_are_thinned_and_not_joined() {
    let mut model = fixture::model();
    let pairs = &mut model.metric("itl_ms_p99").pairs;
    *pairs = pairs.iter().copied().cycle().take(1_000).collect();
    model.set_outcome(Outcome::Inconclusive, &[Outcome::Inconclusive]);
    let html = model.report().html();
    assert_eq!(html.matches("class=\"trial-of-candidate\"").count(), 120);
    assert_eq!(html.matches("class=\"path\"").count(), 0);
    assert!(html.contains("120 of 1000 pairs evenly chosen"));
}

#[test]
fn a_thousand_metrics_keep_every_size() {
    let report = fixture::many(1_000).report();
    let comment = report.markdown(LIMIT);
    assert!(comment.len() <= LIMIT && comment.len() > LIMIT / 2, "{}", comment.len());
    assert_eq!(comment.matches("| **regressed** |").count(), 10, "what regressed is never left out for what did not change");
    assert!(comment.contains("Left out to keep this small: "));
    assert_eq!(comment.matches("<details>").count(), comment.matches("</details>").count());
    let html = report.html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    assert!(html.contains("pictures left out to keep this page small"));
    check_balance(&html).expect("well formed");
    let output = &report.check_run()["output"];
    for field in ["summary", "text"] {
        assert!(output[field].as_str().is_some_and(|text| text.chars().count() <= LIMIT), "{field}");
    }
    assert!(report.terminal(100, false).lines().count() < 200);
    assert!(report.terminal(100, false).contains("and 950 more metrics, in the page"));
    assert_eq!(report.junit().matches("<testcase ").count(), 1_002);
}

/// Returns a verdict of a thousand metrics after `verdicts` earlier ones on the same pull request.
fn verdict_after(verdicts: u32) -> Model {
    let mut model = fixture::many(1_000);
    let like = model.earlier[0].clone();
    model.earlier = (1..=verdicts)
        .map(|number| EarlierVerdict { number, look: 1 + number % 3, commit: Some(format!("{number:040x}")), ..like.clone() })
        .collect();
    model
}

#[test]
fn a_comment_lists_every_earlier_verdict_whatever_else_gives_way() {
    let listed = |comment: &str| comment.lines().filter(|line| line.contains("| inconclusive | pull-request |")).count();
    let report = verdict_after(300).report();
    let comment = report.markdown(LIMIT);
    assert!(listed(&comment) == 300 && comment.matches("| **regressed** |").count() == 10, "{comment}");
    assert!(comment.contains("| 17 | inconclusive | pull-request | 3 | `000000000000` | `67abdd721024` |"), "{comment}");
    let short = report.markdown(24_000);
    assert_eq!((listed(&short), short.matches("| unchanged |").count()), (300, 0));
    let page = report.html();
    assert!(page.contains("<th scope=\"row\">1</th>") && page.contains("<th scope=\"row\">300</th>"));
    assert!(report.terminal(100, false).contains("288 verdicts before these, in the page"));
}

#[test]
fn of_more_verdicts_than_fit_the_newest_are_listed_and_the_rest_counted() {
    let report = verdict_after(2_000).report();
    let comment = report.markdown(LIMIT);
    assert!(comment.len() <= LIMIT && comment.starts_with("**Regressed, and it blocks**"), "{}", comment.len());
    let numbers: Vec<u32> = comment.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect();
    assert!(numbers.len() > 700 && numbers.iter().rev().is_sorted() && numbers[0] == 2_000, "{}", numbers.len());
    assert!(comment.contains(&format!(" {} earlier verdicts,", 2_000 - numbers.len())), "{comment}");
    let page = report.html();
    assert!(page.contains("1000 verdicts before these; the store has all of them.") && page.len() < 2_000_000);
}

#[test]
fn an_acknowledgement_that_has_expired_is_told_first() {
    let mut model = fixture::model();
    let first = "acknowledgement `pipelines/acks/old.yaml` expired on 2026-11-01T00:00:00Z: remove or renew it";
    let told = |report: &super::Report| {
        [report.terminal(140, false), report.markdown(LIMIT), report.html().replace("<code>", "`").replace("</code>", "`")]
            .map(|text| text.find(first))
    };
    let report = model.report();
    assert_eq!(report.strip[0].headline, first);
    let [terminal, comment, page] = told(&report);
    assert!(terminal < report.terminal(140, false).find("Compared") && terminal.is_some());
    assert!(comment < report.markdown(LIMIT).find("### What changed") && comment.is_some());
    assert!(page < report.html().find("Compared") && page.is_some());
    assert_eq!(report.markdown(LIMIT).matches(first).count(), 1);
    assert!(report.check_run()["output"]["summary"].as_str().is_some_and(|text| text.contains(first)));
    let another = Acknowledgement { path: "pipelines/acks/older.yaml".to_owned(), ..model.verdict.acknowledgements[2].clone() };
    model.verdict.acknowledgements.push(another);
    assert!(model.report().markdown(LIMIT).contains("\n⚠ acknowledgement `pipelines/acks/older.yaml` expired on "));
    // The acknowledgements of another pull request are for its authors to remove.
    for expired in model.verdict.acknowledgements.iter_mut().skip(2) {
        expired.applies = false;
    }
    assert_eq!(told(&model.report()), [None; 3]);
}

#[test]
fn the_ratio_of_medians_and_the_unpaired_test_stand_beside_what_decides() {
    let mut model = fixture::model();
    let change = model.metric("itl_ms_p99").change.as_mut().expect("a change");
    (change.baseline_median, change.candidate_median, change.p_unpaired) = (30.0, 33.0, Some(0.023_4));
    let change = model.metric("e2e_ms_p99").change.as_mut().expect("a change");
    (change.baseline_median, change.p_unpaired) = (0.0, None);
    let report = model.report();
    let (html, xml) = (report.html(), report.junit());
    assert!(html.contains("<td class=\"n\">1.04<small>[0.89, 1.21]</small></td><td class=\"n\">1.10</td>"), "{html}");
    assert!(html.contains("<td class=\"n\">1.00</td><td class=\"n\">0.0234</td>"), "beside the adjusted one: {html}");
    assert!(html.contains("<small>[1.075, 1.104]</small></td><td class=\"n\">—</td>") && !html.contains("NaN"), "{html}");
    assert!(report.terminal(120, false).contains("+4 %              +10 %"), "{}", report.terminal(120, false));
    assert_eq!((xml.matches("\"p_unpaired\"").count(), xml.matches("\"p_unpaired\" value=\"0.0234\"").count()), (5, 1));
    assert!(report.markdown(LIMIT).contains("0.0234 for `itl_ms_p99` of chat at c64, 0.0100 for `output_tokens_per_s`"));
    let many = fixture::many(1_000).report();
    assert!(many.markdown(1_000_000).contains(", and 995 more metrics in the page. It decides nothing."));
}

#[test]
fn texts_of_any_length_keep_every_size() {
    let mut model = fixture::many(1_000);
    for metric in &mut model.verdict.metrics {
        metric.metric = "'".repeat(10_000);
        metric.reason = Some(Reason::new("underpowered", "@'".repeat(10_000)));
    }
    let report = model.report();
    assert!(report.html().len() < 2_000_000, "{}", report.html().len());
    let comment = report.markdown(LIMIT);
    assert!(comment.len() <= LIMIT && comment.contains("assay gate --replay"), "{}", comment.len());
    assert!(report.terminal(100, false).len() < 300_000, "{}", report.terminal(100, false).len());
}

#[test]
fn a_limit_too_small_for_the_sentence_still_says_the_outcome() {
    let report = fixture::model().report();
    assert_eq!(report.markdown(9), "Regressed");
    assert_eq!(report.markdown(0), "");
    assert!(report.markdown(1_500).starts_with("**Regressed, and it blocks**: "));
}

/// Returns a verdict in which every free text is `text`.
fn with_hostile_text(text: &str) -> Model {
    let mut model = fixture::model();
    let own = || text.to_owned();
    let verdict = &mut model.verdict;
    verdict.contract = own();
    verdict.reasons = vec![Reason { code: own(), detail: own() }];
    verdict.policy.path = own();
    verdict.policy.commit = Some(own());
    verdict.comparison.variable_under_test = own();
    verdict.comparison.other = Some(own());
    for run in &mut verdict.runs {
        run.commit = Some(own());
        run.tree = own();
        run.signers = vec![own()];
    }
    verdict.differences = vec![Difference { what: own(), baseline: own(), candidate: own() }];
    verdict.policy_changes = verdict.differences.clone();
    for accepted in &mut verdict.acknowledgements {
        (accepted.path, accepted.metric, accepted.of) = (own(), own(), own());
        (accepted.reason, accepted.approver) = (own(), own());
    }
    for check in &mut verdict.checks {
        (check.name, check.scope, check.detail, check.passed) = (own(), own(), own(), false);
    }
    for metric in &mut verdict.metrics {
        (metric.metric, metric.unit) = (own(), own());
        metric.reason = Some(Reason { code: "acknowledged".to_owned(), detail: own() });
        metric.acknowledged = metric.acknowledged.as_ref().map(|_| own());
    }
    if let Some(signature) = &mut model.signature {
        (signature.signer, signature.key_fingerprint) = (own(), own());
    }
    model.trust_policy = model.trust_policy.map(|(_, digest)| (own(), digest));
    for earlier in &mut model.earlier {
        earlier.commit = Some(own());
    }
    model
}

/// Asserts that XML has no character that version 1.0 forbids, and that every element is closed in order.
fn check_xml(xml: &str) {
    let forbidden = |character: char| {
        (character < ' ' && !matches!(character, '\t' | '\n' | '\r')) || matches!(character, '\u{fffe}' | '\u{ffff}')
    };
    assert!(!xml.contains(forbidden), "a character that XML has no place for");
    let body = xml.split_once("?>").expect("a declaration").1;
    check_balance(&format!("<style></style>{body}")).expect("well formed");
    let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
    for at in body.match_indices('&').map(|(at, _)| at) {
        let rest = body.get(at..).unwrap_or_default();
        assert!(entities.iter().any(|entity| rest.starts_with(entity)), "{}", rest.chars().take(10).collect::<String>());
    }
}

/// Asserts that `text` stays text in every rendering: no markup, no link, no mention.
fn check_hostile(text: &str) {
    let report = with_hostile_text(text).report();
    let (html, xml, comment) = (report.html(), report.junit(), report.markdown(LIMIT));
    check_balance(&html).expect("well formed");
    check_xml(&xml);
    let output = &report.check_run()["output"];
    let field = |name: &str| output[name].as_str().expect("a text").to_owned();
    for markdown in [comment, field("summary"), field("text")] {
        assert!(markdown.len() <= LIMIT);
        let outside = outside_code(&markdown);
        // The page's own markup: `<details>`, `<summary>`, `<br>`, and the bars of its tables.
        let ours = ["<details>", "</details>", "<summary>", "</summary>", "<br>"];
        let outside = ours.iter().fold(outside, |text, tag| text.replace(tag, ""));
        for mark in ["<", "@", "](", "[", "://", "www.", "![", "$"] {
            assert!(!outside.contains(mark), "{mark} from {text:?} in {outside}");
        }
        let columns = |line: &&str| line.matches('|').count();
        for table in outside.split("\n\n").filter(|block| block.starts_with('|')) {
            let counts: std::collections::BTreeSet<usize> =
                table.lines().take_while(|line| line.starts_with('|')).map(|line| columns(&line)).collect();
            assert_eq!(counts.len(), 1, "{text:?} broke a table:\n{table}");
        }
    }
    assert!(!html.contains("<script") && !xml.contains("<script"));
    for rendering in [html, xml, report.terminal(100, false)] {
        assert!(!rendering.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
    assert_eq!(report.check_run()["output"]["title"], "Regressed, and it blocks: 1 of 5 metrics");
}

#[test]
fn hostile_texts_stay_text() {
    for text in [
        "</code><script>alert(1)</script>\"' onload=x \u{1b}]0;owned\u{7}",
        "@everyone please see #1 and GH-1 and https://evil.example www.evil.example",
        "[click](javascript:alert(1)) ![x](http://evil.example/x.png) <img src=x>",
        "a | b | c\n| d |\n\n# heading\n- [ ] item",
        "`@owner` ``x`` ``` \u{202e}txt.exe]]>&amp;\u{fffe}\u{0}",
        "\\`@owner\\` $`x`$ \\",
        "`|`@owner|",
        "//:`-",
        "",
    ] {
        check_hostile(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_is_markup(text in "[<>&\"'`@#|a-z/= \\-!\\[\\]()\\\\$:.\\n\u{0}-\u{1f}\u{202e}\u{fffe}]{0,24}") {
        check_hostile(&text);
    }

    #[test]
    fn every_limit_holds(limit in 0..20_000usize, count in 1..60usize) {
        let text = fixture::many(count).report().markdown(limit);
        prop_assert!(text.len() <= limit, "{} of {limit}", text.len());
        prop_assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
    }
}
