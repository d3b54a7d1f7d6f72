use std::fmt::Write as _;

use assay_manifest::DatasetFormat;

use super::*;

type Rows = Vec<Result<Row, LeftOut>>;

/// Imports a text, and returns its rows or the error.
fn read(format: DatasetFormat, text: &str) -> Result<Rows, String> {
    read_with(format, &Fields::default(), text)
}

fn read_with(format: DatasetFormat, fields: &Fields, text: &str) -> Result<Rows, String> {
    let rows = crate::import::tests::read(format, fields, text)?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn refusal(format: DatasetFormat, text: &str) -> String {
    read(format, text).expect_err("refused")
}

/// Writes rows as `time, tokens in, tokens out, blocks`.
fn listed(rows: &Rows) -> String {
    let mut text = String::new();
    for row in rows {
        let row = match row {
            Ok(row) => row,
            Err(reason) => {
                writeln!(text, "{:?}", reason.reason).expect("written");
                continue;
            }
        };
        let RowContent::Blocks(blocks) = &row.content else { panic!("a length: {row:?}") };
        let at_ns = row.time.expect("a time").at_ns;
        writeln!(text, "{at_ns} {} {:?} {:?} of {}", blocks.tokens, row.output_tokens, blocks.ids, blocks.size).expect("written");
    }
    text
}

#[test]
fn mooncake_has_milliseconds_and_blocks_of_512() {
    let text = "{\"timestamp\":0,\"input_length\":700,\"output_length\":9,\"hash_ids\":[4,7]}\n\
                {\"timestamp\": 3000.5, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [4, 8]}\n\
                {\"timestamp\":3001,\"input_length\":600,\"output_length\":2,\"hash_ids\":[4]}\n\
                {\"timestamp\":3001,\"input_length\":5,\"output_length\":2}\n\
                {\"timestamp\":3001,\"input_length\":0,\"output_length\":2,\"hash_ids\":[]}\n\
                {\"timestamp\":3001,\"input_length\":5,\"output_length\":0}\n";
    insta::assert_snapshot!(listed(&read(DatasetFormat::Mooncake, text).expect("rows")), @r"
    0 700 Some(9) [4, 7] of 512
    3000500000 1024 Some(1) [4, 8] of 512
    3001000000 600 Some(2) [4] of 512
    3001000000 5 Some(2) [] of 512
    NoPrompt
    NoResponse
    ");
}

#[test]
fn members_that_a_format_does_not_have_are_noted() {
    let unread = |format, text: &str| {
        let rows = read(format, text).expect("rows");
        rows.into_iter().map(|row| row.expect("a request").unread).collect::<Vec<_>>()
    };
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let text = "{\"timestamp\":0,\"input_length\":700,\"output_length\":9,\"hash_ids\":[4,7],\"session_id\":\"a\"}\n\
                {\"timestamp\":1,\"input_length\":700,\"output_length\":9,\"hash_id\":[4,7],\"Hello, how are you today?\":1}\n\
                {\"timestamp\":1,\"input_length\":700,\"output_length\":9,\"Hello, how are you today?\":1}\n";
    assert_eq!(unread(DatasetFormat::Mooncake, text), [None, names(&["hash_id"]), names(&[])]);
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens,Model\n2023-11-16 18:15:46.68,374,44,a\n2023-11-16 18:15:47,374,44,\n";
    assert_eq!(unread(DatasetFormat::Azure, text), [names(&["Model"]), None]);
    let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n";
    assert_eq!(unread(DatasetFormat::Burstgpt, text), [None], "columns of the format that are not read");
    let body = r#""body":{"messages":[{"role":"user","content":"c"}],"x":1}"#;
    let text = format!(
        "{{\"at_ms\":1,\"prompt\":\"a\",\"output\":\"b\",\"system\":\"c\",\"session_id\":\"s\",\"service_ms\":1}}\n\
         {{\"at_ms\":1,\"prompt\":\"a\",\"output_token\":5}}\n{{\"at_ms\":1,{body},\"output_tokens\":5}}\n{{\"at_ms\":1,{body},\"output\":\"b\"}}\n"
    );
    assert_eq!(unread(DatasetFormat::TimedJsonl, &text), [None, names(&["output_token"]), None, names(&["output"])]);
}

#[test]
fn members_of_timed_rows_are_noted_by_the_named_fields() {
    let unread = |fields: &Fields, text: &str| {
        let rows = read_with(DatasetFormat::TimedJsonl, fields, text).expect("rows");
        rows[0].as_ref().expect("a request").unread.clone()
    };
    let text = r#"{"at_ms":1,"ask":{"text":"a"},"usage":{"out":3},"prompt":"b","messages":[],"output_tokens":4}"#;
    let named = |name: &str| Some(name.to_owned());
    let fields = Fields { prompt: named("ask.text"), output_tokens: named("usage.out"), ..Fields::default() };
    let expected = ["messages", "output_tokens", "prompt"].map(str::to_owned).to_vec();
    assert_eq!(unread(&fields, text), Some(expected));
    let text = r#"{"at_ms":1,"chat":[{"role":"user","content":"a"}],"prompt":"b"}"#;
    assert_eq!(unread(&Fields { messages: named("chat"), ..Fields::default() }, text), Some(vec!["prompt".to_owned()]));
}

#[test]
fn a_row_that_cannot_be_mooncakes_says_why() {
    let refused = |text: &str| refusal(DatasetFormat::Mooncake, text);
    insta::assert_snapshot!(
        refused(r#"{"timestamp":0,"input_length":1200,"output_length":9,"hash_ids":[4]}"#),
        @"row 1 has 1 blocks, and 1200 tokens in blocks of 512 are 2 or 3"
    );
    insta::assert_snapshot!(
        refused(r#"{"timestamp":0,"input_length":1200,"output_length":9,"hash_ids":[1,2,-3]}"#),
        @"row 1 has `hash_ids` that are not whole numbers of at most 64 bits"
    );
    insta::assert_snapshot!(
        refused(r#"{"timestamp":"soon","input_length":1,"output_length":9}"#),
        @"row 1 has a `timestamp` that is no time: a number from 0 on"
    );
    insta::assert_snapshot!(
        refused(r#"{"timestamp":1e13,"input_length":1,"output_length":9}"#),
        @"row 1 has a `timestamp` beyond the limit of 4611686018427"
    );
    insta::assert_snapshot!(
        refused(r#"{"timestamp":-1,"input_length":1,"output_length":9}"#),
        @"row 1 has a `timestamp` that is no time: a number from 0 on"
    );
    insta::assert_snapshot!(refused(r#"{"input_length":1,"output_length":9}"#), @"row 1 lacks `timestamp`: a trace has times");
    assert!(refused(r#"{"timestamp":1,"output_length":9}"#).starts_with("row 1 lacks `input_length`; it has `"));
    insta::assert_snapshot!(
        refused(r#"{"session_id":"a","delay":5,"input_length":1,"output_length":9}"#),
        @"row 1 has a `delay` and no `timestamp`: a request that waits for another one is a turn of a session, which has a `session_id` and is played with `sessions`"
    );
    insta::assert_snapshot!(
        refused(r#"{"timestamp":1,"text_input":"a secret","output_length":9}"#),
        @"row 1 has `text_input`: a trace with its texts is of format `timed_jsonl`, with `at_ms`"
    );
}

#[test]
fn turns_of_a_chat_of_bailian_are_one_session() {
    let row = |id: i64, parent: i64, at: f64| {
        format!(
            "{{\"chat_id\":{id},\"parent_chat_id\":{parent},\"timestamp\":{at},\"input_length\":20,\"output_length\":5,\"type\":\"text\",\
             \"turn\":1,\"hash_ids\":[1,2]}}\n"
        )
    };
    let text = [row(8, -1, 2.5), row(9, -1, 2.75), row(10, 8, 3.0), row(11, 10, 4.0), row(12, 77, 5.0)].concat();
    let rows = read(DatasetFormat::Bailian, &text).expect("rows");
    let sessions: Vec<_> = rows.iter().flatten().map(|row| row.time.and_then(|time| time.session)).collect();
    assert_eq!(sessions, [8, 9, 8, 8, 77].map(Some));
    assert!(listed(&rows).starts_with("2500000000 20 Some(5) [1, 2] of 16\n2750000000 "), "{}", listed(&rows));
    let lacking = refusal(DatasetFormat::Bailian, r#"{"timestamp":1,"input_length":20,"output_length":5}"#);
    assert_eq!(lacking, "row 1 has no whole number `chat_id`");
}

#[test]
fn a_later_turn_of_mooncake_may_have_a_delay_instead_of_a_time() {
    let mut delayed = DelayedTurns::default();
    let mut read = |row, text: &str| {
        let value = serde_json::from_str(text).expect("JSON");
        let read = mooncake(row, &value, Some(&mut delayed)).map_err(|error| error.to_string())?.expect("a request");
        Ok::<_, String>((read.time.expect("a time").at_ns, read.course.pause_ns))
    };
    let first = read(1, r#"{"session_id":"a","timestamp":30,"input_length":1,"output_length":9}"#);
    let second = read(2, r#"{"session_id":"a","delay":5,"input_length":1,"output_length":9}"#);
    let third = read(3, r#"{"session_id":"a","delay":0.5,"input_length":1,"output_length":9}"#);
    let expected = [(30_000_000, None), (35_000_000, Some(5_000_000)), (35_500_000, Some(500_000))];
    assert_eq!([first, second, third], expected.map(Ok));
    insta::assert_snapshot!(
        read(4, r#"{"session_id":"b","delay":5,"input_length":1,"output_length":9}"#).expect_err("no first turn"),
        @"row 4 has a `delay` and no `timestamp`, and is the first of its session: a first turn has a time"
    );
}

#[test]
fn chats_of_bailian_that_cannot_be_are_refused() {
    let row = |id: i64, parent: i64| {
        let row =
            serde_json::json!({"chat_id": id, "parent_chat_id": parent, "timestamp": 1, "input_length": 20, "output_length": 5});
        format!("{row}\n")
    };
    let refused = |rows: &[(i64, i64)]| {
        refusal(DatasetFormat::Bailian, &rows.iter().map(|(id, parent)| row(*id, *parent)).collect::<String>())
    };
    insta::assert_snapshot!(refused(&[(8, 8)]), @"row 1 is its own parent: `chat_id` and `parent_chat_id` are equal");
    insta::assert_snapshot!(refused(&[(8, -1), (8, -1)]), @"row 2 has the `chat_id` of row 1: each request has its own");
    insta::assert_snapshot!(refused(&[(1, 2), (2, 1)]), @"row 2 is named as parent by row 1 before it: the parents form a circle, or the file is not sorted");
    let rows = [row(8, -1), row(9, 8), row(10, 8), row(11, 10)].concat();
    let read = read(DatasetFormat::Bailian, &rows).expect("rows");
    let branches: Vec<bool> = read.iter().flatten().map(|row| row.course.is_branch).collect();
    assert_eq!(branches, [false, false, true, false], "the third continues the first, and not the second");
}

#[test]
fn azure_has_wall_clock_times() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                2023-11-16 18:15:46.6805900,374,44\n\
                2023-11-16 18:15:50.9951690,396,109\n\
                2024-05-10 00:00:00.009930+00:00,2162,5\n";
    insta::assert_snapshot!(listed(&read(DatasetFormat::Azure, text).expect("rows")), @r"
    1700158546680590000 374 Some(44) [] of 1
    1700158550995169000 396 Some(109) [] of 1
    1715299200009930000 2162 Some(5) [] of 1
    ");
    let wrong = refusal(DatasetFormat::Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n12,374,44\n");
    assert_eq!(wrong, "row 1 has a `TIMESTAMP` that is no time such as `2024-05-10 00:00:00.009930`");
    let other = refusal(DatasetFormat::Azure, "Timestamp,Request tokens\n12,374\n");
    assert_eq!(other, "row 1 lacks `TIMESTAMP`: a trace of Azure has TIMESTAMP, ContextTokens and GeneratedTokens");
}

#[test]
fn burstgpt_has_seconds_and_failed_requests() {
    let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                5,ChatGPT,472,18,490,Conversation log\n\
                45.5,GPT-4,1087,0,1087,API log\n";
    insta::assert_snapshot!(listed(&read(DatasetFormat::Burstgpt, text).expect("rows")), @r"
    5000000000 472 Some(18) [] of 1
    NoResponse
    ");
}

#[test]
fn timed_rows_have_a_body_or_what_a_dataset_has() {
    let text = "{\"at_ms\":1.5,\"prompt\":\"a b\",\"output_tokens\":7,\"session_id\":\"s\",\"service_ms\":2.5}\n\
                {\"at_ms\":2,\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}],\"temperature\":0},\"output_tokens\":3}\n";
    let rows: Vec<Row> = read(DatasetFormat::TimedJsonl, text).expect("rows").into_iter().flatten().collect();
    assert_eq!(rows[0].content, RowContent::Prompt("a b".to_owned()));
    assert_eq!((rows[0].output_tokens, rows[0].time.map(|time| time.at_ns)), (Some(7), Some(1_500_000)));
    assert_eq!((rows[0].course.service_ns, rows[1].course.service_ns), (Some(2_500_000), None));
    assert_eq!((rows[1].content.kind(), rows[1].output_tokens), ("a body", Some(3)));
    let untimed = refusal(DatasetFormat::TimedJsonl, "{\"prompt\":\"a\"}");
    assert_eq!(untimed, "row 1 lacks `at_ms`: a trace has times");
    let body = r#"{"at_ms":1,"body":{"prompt":"b"}}"#;
    assert_eq!(refusal(DatasetFormat::TimedJsonl, body), "row 1 has a `body` without `messages`, which `api: chat` needs");
    let fields = Fields { output_tokens: Some("usage.n".to_owned()), ..Fields::default() };
    let named = "{\"at_ms\":1,\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]},\"usage\":{\"n\":4}}";
    let rows = read_with(DatasetFormat::TimedJsonl, &fields, named).expect("rows");
    assert_eq!(rows[0].as_ref().expect("a row").output_tokens, Some(4));
    let both = refusal(DatasetFormat::TimedJsonl, "{\"at_ms\":1,\"prompt\":\"a\",\"body\":{\"prompt\":\"b\"}}");
    assert_eq!(both, "row 1 has a `body` that is no object, or that stands beside a prompt");
}
