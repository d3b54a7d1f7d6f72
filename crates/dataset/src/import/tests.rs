use assay_manifest::OverLongPrompt;
use serde_json::{Value, json};

use super::*;
use crate::RowContent;

mod conversations;

/// The rows that an importer passed on, with their numbers.
type Numbered<T> = Vec<(u64, Result<T, LeftOut>)>;

type Rows = Numbered<Row>;

fn rules(sessions: bool) -> ImportRules {
    ImportRules { sessions, ..ImportRules::UNLIMITED }
}

/// Imports a text, and returns its rows or the error.
pub(super) fn read(format: DatasetFormat, fields: &Fields, text: &str) -> Result<Rows, String> {
    let request = |row| match row {
        FileRow::Request(row) => row,
        FileRow::Conversation(_) | FileRow::Session(_) => panic!("a conversation"),
    };
    read_with(&rules(false), format, fields, text, request)
}

fn read_with<T>(
    rules: &ImportRules,
    format: DatasetFormat,
    fields: &Fields,
    text: &str,
    select: impl Fn(FileRow) -> T,
) -> Result<Numbered<T>, String> {
    let mut rows = Vec::new();
    let take = &mut |number, row: Result<FileRow, LeftOut>| {
        rows.push((number, row.map(&select)));
        Ok(())
    };
    import(format, fields, rules, text.as_bytes(), take).map(|()| rows).map_err(|error| error.to_string())
}

fn refusal(format: DatasetFormat, text: &str) -> String {
    read(format, &Fields::default(), text).expect_err("refused")
}

#[expect(clippy::unnecessary_wraps, reason = "the form in which importers pass rows")]
fn prompt(text: &str, output_tokens: Option<u32>) -> Result<Row, LeftOut> {
    Ok(Row { output_tokens, ..Row::new(RowContent::Prompt(text.to_owned())) })
}

fn named(prompt: &str) -> Fields {
    Fields { prompt: Some(prompt.to_owned()), ..Fields::default() }
}

#[test]
fn json_lines_hold_objects_or_texts() {
    let text = "{\"prompt\":\"a b\",\"output_tokens\":7}\n\n\"c\"\n{\"prompt\":\"d\",\"output\":\"e f\",\"id\":1}";
    let rows = read(DatasetFormat::Jsonl, &Fields::default(), text).expect("rows");
    let recorded = Row { output: Some("e f".to_owned()), ..prompt("d", None).expect("a row") };
    assert_eq!(rows, [(1, prompt("a b", Some(7))), (3, prompt("c", None)), (4, Ok(recorded))]);
}

#[test]
fn an_array_is_read_as_lines_are() {
    let rows = read(DatasetFormat::Jsonl, &Fields::default(), "\n [{\"prompt\":\"a\"}, \"b\"]\n").expect("rows");
    assert_eq!(rows, [(1, prompt("a", None)), (2, prompt("b", None))]);
    assert_eq!(read(DatasetFormat::Jsonl, &Fields::default(), ""), Ok(Vec::new()));
}

#[test]
fn fields_name_members_also_within_others() {
    let fields = Fields { output_tokens: Some("usage.completion_tokens".to_owned()), ..named("request.text") };
    let text = r#"{"request":{"text":"a"},"usage":{"completion_tokens":"12"},"messages":[]}"#;
    assert_eq!(read(DatasetFormat::Jsonl, &fields, text), Ok(vec![(1, prompt("a", Some(12)))]));
}

#[test]
fn a_last_message_of_the_assistant_is_the_recorded_response() {
    let text = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b c"}],"system":"s"}"#;
    let rows = read(DatasetFormat::Jsonl, &Fields::default(), text).expect("rows");
    let content = RowContent::Messages(vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "a"})]);
    assert_eq!(rows, [(1, Ok(Row { output: Some("b c".to_owned()), ..Row::new(content) }))]);
}

#[test]
fn sharegpt_gives_the_first_turn_and_the_length_of_its_response() {
    let text = r#"[
        {"id": "1", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b c"}, {"from": "human", "value": "d"}]},
        {"id": "2", "conversations": [{"from": "gpt", "value": "b"}, {"from": "human", "value": "d"}]},
        {"id": "3", "conversations": []},
        {"id": "4", "conversations": [{"from": "system", "value": "s"}, {"from": "user", "value": "a"}]}
    ]"#;
    let rows = read(DatasetFormat::Sharegpt, &Fields::default(), text).expect("rows");
    let first = Row { output: Some("b c".to_owned()), ..prompt("a", None).expect("a row") };
    let content = RowContent::Messages(vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "a"})]);
    let last = Row::new(content);
    assert_eq!(rows, [(1, Ok(first)), (2, Err(LeftOut::NO_PROMPT)), (3, Err(LeftOut::NO_PROMPT)), (4, Ok(last))]);
}

#[test]
fn a_batch_keeps_its_bodies() {
    let line = json!({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5}});
    let rows = read(DatasetFormat::OpenaiBatch, &Fields::default(), &line.to_string()).expect("rows");
    let RowContent::Body(body) = &rows[0].1.as_ref().expect("a row").content else { panic!("a body") };
    assert_eq!(body["max_tokens"], 5);
    let other = line.to_string().replace("chat/completions", "embeddings");
    insta::assert_snapshot!(refusal(DatasetFormat::OpenaiBatch, &other), @"row 1 is for `/v1/embeddings`, and `api: chat` calls `/v1/chat/completions`: write `api: embeddings`");
    insta::assert_snapshot!(refusal(DatasetFormat::OpenaiBatch, "{\"url\":\"/v1/chat/completions\"}"), @"row 1 has no object `body`");
    insta::assert_snapshot!(refusal(DatasetFormat::OpenaiBatch, "{\"url\":\"/v1/chat/completions\",\"body\":{}}"), @"row 1 has a body without a text in `messages`, `input` or `prompt`");
}

#[test]
fn csv_has_names_quotes_and_empty_cells() {
    let text = "question,tokens\n\"a, \"\"b\"\"\n c\",3\nd,\n";
    let fields = Fields { output_tokens: Some("tokens".to_owned()), ..named("question") };
    insta::assert_snapshot!(
        read(DatasetFormat::Csv, &fields, text).expect_err("an empty cell"),
        @"row 2 lacks `tokens`, which `fields` names; it has `question`"
    );
    let text = "prompt,output_tokens\n\"a, \"\"b\"\"\n c\",3\nd,\n";
    let rows = read(DatasetFormat::Csv, &Fields::default(), text).expect("rows");
    assert_eq!(rows, [(1, prompt("a, \"b\"\n c", Some(3))), (2, prompt("d", None))]);
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, "prompt,b\n1,2,3\n"), @"row 1 has 3 cells, and the line of column names has 2");
    insta::assert_snapshot!(read(DatasetFormat::Csv, &Fields::default(), "p,q\n1,2\n").expect_err("no prompt"), @"row 1 has neither `prompt` nor `messages`; it has `p`, `q`: name the one with the prompt: `fields: {prompt: NAME}`");
}

#[test]
fn a_line_of_a_batch_is_told_its_format() {
    let line = "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{}}";
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, line), @"row 1 has neither `prompt` nor `messages`; it has `body`, `custom_id`, `method`, `url`: a line of an OpenAI batch is read with `format: openai_batch`");
}

/// Reads the rows of a Parquet file, as they would be in JSON Lines.
fn parquet_rows(fields: &Fields, sessions: bool, rows: &[Value]) -> Result<Vec<Result<FileRow, LeftOut>>, String> {
    let object = |row: &Value| row.as_object().expect("an object").clone();
    let read = (1..).zip(rows).map(|(number, row)| import_parquet_row(fields, &rules(sessions), number, object(row)));
    read.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

#[test]
fn rows_of_parquet_are_those_of_json_lines_or_of_sharegpt() {
    let plain = Fields::default();
    let request = |prompt: &str, tokens| Ok(FileRow::Request(self::prompt(prompt, tokens).expect("a row")));
    let rows = [json!({"prompt": "a", "output_tokens": 3, "id": null}), json!({"prompt": "b"})];
    assert_eq!(parquet_rows(&plain, false, &rows), Ok(vec![request("a", Some(3)), request("b", None)]));
    assert_eq!(parquet_rows(&named("question"), false, &[json!({"question": "a"})]), Ok(vec![request("a", None)]));
    let shared = json!({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]});
    let turn = json!({"conversation": [{"role": "assistant", "content": "b"}], "prompt": null});
    let read = parquet_rows(&plain, false, &[shared.clone(), turn]).expect("rows");
    let first = Row { output: Some("b".to_owned()), ..self::prompt("a", None).expect("a row") };
    assert_eq!(read, [Ok(FileRow::Request(first)), Err(LeftOut::NO_PROMPT)]);
    let Ok(FileRow::Conversation(talk)) = &parquet_rows(&plain, true, &[shared]).expect("rows")[0] else {
        panic!("a conversation")
    };
    assert_eq!(talk.turns().len(), 1);
    let messages = json!({"messages": [{"role": "user", "content": "a"}]});
    assert!(matches!(&parquet_rows(&plain, true, &[messages]).expect("rows")[0], Ok(FileRow::Conversation(_))));
    insta::assert_snapshot!(parquet_rows(&plain, false, &[json!({"text": null, "id": null})]).expect_err("no prompt"), @"row 1 has neither `prompt` nor `messages`; it has `id`, `text`: name the one with the prompt: `fields: {prompt: NAME}`");
    let fields = Fields { output_tokens: Some("usage.completion.tokens".to_owned()), ..named("question") };
    let columns = parquet_columns(&fields);
    assert!(["question", "usage", "conversations", "system"].iter().all(|name| columns.contains(name)), "{columns:?}");
}

#[test]
fn a_parquet_file_is_no_text() {
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "PAR1..."), @"the file is Parquet, and its format is stated as `jsonl`, which is text");
}

#[test]
fn lines_of_text_are_prompts() {
    let rows = read(DatasetFormat::Text, &Fields::default(), " a b \n\nc").expect("rows");
    assert_eq!(rows, [(1, prompt("a b", None)), (2, Err(LeftOut::NO_PROMPT)), (3, prompt("c", None))]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_row() {
    let first = |format, text: &str| read(format, &Fields::default(), &format!("\u{feff}{text}")).expect("rows").remove(0).1;
    assert_eq!(first(DatasetFormat::Text, "one\n"), prompt("one", None));
    assert_eq!(first(DatasetFormat::Jsonl, "\"one\"\n"), prompt("one", None));
    assert_eq!(first(DatasetFormat::Csv, "prompt\none\n"), prompt("one", None));
    let lengths = [
        (DatasetFormat::Mooncake, "{\"timestamp\":0,\"input_length\":3,\"output_length\":4}"),
        (DatasetFormat::Bailian, "{\"chat_id\":1,\"parent_chat_id\":-1,\"timestamp\":0,\"input_length\":3,\"output_length\":4}"),
        (DatasetFormat::Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,3,4\n"),
        (DatasetFormat::Burstgpt, "Timestamp,Request tokens,Response tokens\n0,3,4\n"),
    ];
    for (format, text) in lengths {
        assert_eq!(first(format, text).map(|row| row.output_tokens), Ok(Some(4)), "{format}");
    }
}

#[test]
fn what_is_there_twice_is_refused() {
    let text = "{\"prompt\":\"a\"}\n{\"prompt\":\"b\",\"meta\":{\"x\":1,\"x\":1}}\n";
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, text), @"row 2 is not JSON: a member of an object is there twice at column 34");
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, "prompt,tokens,prompt\na,1,b\n"), @"row 1 cannot be read: column 3 is named like an earlier one");
}

#[test]
fn an_error_names_the_row_and_quotes_no_text() {
    let secret = "sk-hunter22";
    for (format, text) in [
        (DatasetFormat::Jsonl, format!("{{\"prompt\":\"a\"}}\n{{\"prompt\":\"{secret}\"")),
        (DatasetFormat::Jsonl, format!("[\"a\",\n\"{secret}\" \"b\"]")),
        (DatasetFormat::Jsonl, format!("{{\"prompt\":[\"{secret}\"]}}")),
        (DatasetFormat::Jsonl, format!("{{\"prompt\":\"a\",\"output_tokens\":\"{secret}\"}}")),
        (DatasetFormat::Jsonl, format!("{{\"messages\":\"{secret}\"}}")),
        (DatasetFormat::Jsonl, format!("{{\"messages\":[{{\"content\":\"{secret}\"}}]}}")),
        (DatasetFormat::Sharegpt, format!("{{\"conversations\":\"{secret}\"}}")),
        (DatasetFormat::OpenaiBatch, format!("[\"{secret}\"]")),
        (DatasetFormat::Csv, format!("prompt\n{secret},{secret}\n")),
    ] {
        let refusal = refusal(format, &text);
        assert!(!refusal.contains(secret), "{refusal}");
        assert!(refusal.contains("row ") || refusal.contains("item "), "{refusal}");
    }
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "\"a\"\n{\"prompt\":"), @"row 2 is not JSON: EOF while parsing a value at column 10");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "[\"a\", 1"), @"the file is not a JSON array: after its item 1: the array has no end");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "{\"prompt\":\"a\",\"messages\":[{\"role\":\"user\"}]}"), @"row 1 has a prompt and messages: name one of them in `fields`");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "{\"prompt\":\"\"}"), @"row 1 has an empty prompt");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "{\"prompt\":\"a\",\"output_tokens\":0}"), @"row 1 has output tokens that are not a whole number from 1 to 16000000");
}

#[test]
fn a_quote_that_is_never_closed_is_no_end_of_a_row() {
    let text = "prompt,n\n\"a\",1\n\"b\n,2\nc,3\n";
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, text), @"row 2 has a quote that is never closed, so that the rest of the file is a part of it: close it, or double a quote that is a part of a quoted text; it opens in line 3");
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, "prompt\na\n\"b"), @"row 2 has a quote that is never closed, so that the rest of the file is a part of it: close it, or double a quote that is a part of a quoted text; it opens in line 3");
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, "prompt,\"n\na,1\n"), @"row 1 has a quote that is never closed, so that the rest of the file is a part of it: close it, or double a quote that is a part of a quoted text; it opens in line 1");
    insta::assert_snapshot!(refusal(DatasetFormat::Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n\"2024-01-01 00:00:00,3,4\n"), @"row 1 has a quote that is never closed, so that the rest of the file is a part of it: close it, or double a quote that is a part of a quoted text; it opens in line 2");
    // The first problem of a file is the one that is stated.
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, "prompt\na,b\n\"c"), @"row 1 has 2 cells, and the line of column names has 1");
    assert_eq!(read(DatasetFormat::Csv, &Fields::default(), "prompt\n\"a\"").expect("closed").len(), 1);
}

#[test]
fn a_row_that_never_ends_is_refused_before_it_is_in_memory() {
    /// Endless bytes after a beginning.
    struct Endless(&'static [u8]);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                buffer.fill(b'a');
                return Ok(buffer.len());
            }
            self.0.read(buffer)
        }
    }
    for (format, beginning) in [
        (DatasetFormat::Jsonl, b"{\"prompt\":\"a\"}\n\"".as_slice()),
        (DatasetFormat::Jsonl, b"[\"a\",\"".as_slice()),
        (DatasetFormat::Sharegpt, b"".as_slice()),
        (DatasetFormat::Csv, b"prompt\nb\n\"".as_slice()),
        (DatasetFormat::Text, b"a\n".as_slice()),
    ] {
        let source = std::io::BufReader::new(Endless(beginning));
        let error = import(format, &Fields::default(), &rules(false), source, &mut |_, _| Ok(())).expect_err("endless");
        assert!(matches!(error, DatasetError::RowTooLarge(1 | 2)), "{format}: {error}");
    }
}

#[test]
fn a_row_of_too_many_values_is_refused_in_lines_and_in_arrays() {
    let many = format!("{{\"prompt\":\"a\",\"x\":[{}0]}}", "0,".repeat(200_000));
    let refused = "row 2 has more than 200000 values";
    assert_eq!(refusal(DatasetFormat::Jsonl, &format!("{{\"prompt\":\"a\"}}\n{many}")), refused);
    assert_eq!(refusal(DatasetFormat::Jsonl, &format!("[{{\"prompt\":\"a\"}},{many}]")), refused);
    // Commas of a text are no values.
    let long = json!({"prompt": ",{[".repeat(100_000)}).to_string();
    assert_eq!(read(DatasetFormat::Jsonl, &Fields::default(), &long).expect("one row").len(), 1);
}

#[test]
fn an_array_is_read_whatever_its_texts_hold() {
    let texts = ["a],[\"b", "\\", "{", "\u{e9}\n"];
    let array = serde_json::to_string_pretty(&texts).expect("JSON");
    let rows = read(DatasetFormat::Jsonl, &Fields::default(), &format!(" {array} \n")).expect("rows");
    let expected: Vec<_> = (1..).zip(texts.map(|text| prompt(text, None))).collect();
    assert_eq!(rows, expected);
    assert_eq!(read(DatasetFormat::Jsonl, &Fields::default(), "[ ]"), Ok(Vec::new()));
    for (text, reason) in [
        ("[\"a\"", "the file is not a JSON array: after its item 0: the array has no end"),
        ("[\"a\"] x", "the file is not a JSON array: after its item 1: more follows the end of the array"),
        ("[\"a\",]", "row 2 is not JSON: EOF while parsing a value at column 0"),
        ("[}]", "the file is not a JSON array: after its item 0: the array has no end"),
    ] {
        assert_eq!(refusal(DatasetFormat::Jsonl, text), reason, "{text}");
    }
}

#[test]
fn a_blank_prompt_is_no_prompt() {
    for text in ["{\"prompt\": \" \\t\"}", "{\"messages\":[{\"role\":\"user\",\"content\":\"\\n\"}]}"] {
        assert_eq!(refusal(DatasetFormat::Jsonl, text), "row 1 has an empty prompt");
    }
    let number = r#"{"messages":[{"role":"user","content":7}]}"#;
    assert_eq!(
        refusal(DatasetFormat::Jsonl, number),
        "row 1 has a message whose `content` is neither a text nor a list of parts: its message 1"
    );
}

#[test]
fn names_that_may_be_texts_are_not_shown() {
    let refused = refusal(DatasetFormat::Csv, "Write a poem about my customer Alice,5\nb,6\n");
    assert!(!refused.contains("Alice") && refused.contains("a CSV file begins with a line of column names"), "{refused}");
    let refused = refusal(DatasetFormat::Jsonl, r#"{"sk-1234567890": "a"}"#);
    assert!(!refused.contains("1234"), "{refused}");
    assert!(refusal(DatasetFormat::Csv, "Log Type,text_2\na,b\n").contains("it has `Log Type`, `text_2`"));
}

#[test]
fn formats_of_sessions_need_them_and_are_read_with_them() {
    let refused = [DatasetFormat::Weka, DatasetFormat::Tracelab].map(|format| refusal(format, "{}"));
    insta::assert_snapshot!(refused.join("\n"), @r"
    the format `weka` has sessions, which are played as such: add `sessions: {}`
    the format `tracelab` has sessions, which are played as such: add `sessions: {}`
    ");
    let played = ImportRules { times: Some(crate::TimeRules::default()), ..rules(true) };
    let read =
        |format, text: &str| read_with(&played, format, &Fields::default(), text, |row| matches!(row, FileRow::Session(_)));
    let session = r#"{"id":"s","block_size":64,"hash_id_scope":"local","requests":[{"t":0,"type":"n","in":5,"out":1}]}"#;
    assert_eq!(read(DatasetFormat::Weka, session), Ok(vec![(1, Ok(true))]));
    insta::assert_snapshot!(read(DatasetFormat::Weka, &session[..60]).expect_err("truncated"), @"row 1 is not JSON: EOF while parsing an object at column 60");
    insta::assert_snapshot!(read(DatasetFormat::Tracelab, r#"{"session_id":"a","round_index":0,"#).expect_err("truncated"), @"row 1 is not JSON: EOF while parsing a value at column 34");
}
