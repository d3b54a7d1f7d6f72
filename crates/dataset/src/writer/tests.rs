use std::cell::RefCell;
use std::io::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{Index, LeftOutReason, RowReader, RowTime, TokenBlocks};

/// A token is a word.
struct Words;

impl TextTokens for Words {
    fn count(&self, text: &str) -> Result<u64, String> {
        Ok(text.split_whitespace().count() as u64)
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        let mut ends = text.char_indices().filter(|(at, _)| {
            let rest = &text[*at..];
            rest.starts_with(char::is_whitespace) && !text[..*at].ends_with(char::is_whitespace)
        });
        Ok(ends.nth(tokens as usize - 1).map_or(text, |(at, _)| &text[..at]))
    }
}

fn rules(max_input: Option<u32>, over: OverLongPrompt) -> ImportRules {
    ImportRules { max_input, over, ..ImportRules::UNLIMITED }
}

#[expect(clippy::unnecessary_wraps, reason = "the form in which importers pass rows")]
fn prompt(text: &str, output: Option<&str>) -> Result<Row, LeftOut> {
    Ok(Row { output: output.map(str::to_owned), ..Row::new(RowContent::Prompt(text.to_owned())) })
}

fn write(rules: ImportRules, rows: Vec<Result<Row, LeftOut>>) -> Result<(Vec<u8>, Index, ImportSummary), String> {
    write_rows(rules, rows.into_iter().map(|row| row.map(FileRow::Request)))
}

fn write_rows(
    rules: ImportRules,
    rows: impl IntoIterator<Item = Result<FileRow, LeftOut>>,
) -> Result<(Vec<u8>, Index, ImportSummary), String> {
    let mut writer = RowWriter::new(rules, &Words, Vec::new(), Vec::new()).expect("a writer");
    (1..).zip(rows).try_for_each(|(number, row)| writer.write(number, row)).map_err(|error| error.to_string())?;
    let (rows, index, summary) = writer.finish().map_err(|error| error.to_string())?;
    Ok((rows, Index::parse(&index).expect("an index"), summary))
}

#[test]
fn a_small_file_does_not_fill_a_disk() {
    let writer = || RowWriter::new(rules(None, OverLongPrompt::Refuse), &Words, Vec::new(), Vec::new()).expect("a writer");
    assert_eq!([178, 1 << 30].map(|bytes| writer().of_file(bytes).max_bytes), [4 << 30, 100 << 30]);
    // Each row is `{"prompt":"a b"}` and the end of its line.
    let mut writer = RowWriter { max_bytes: 2 * 17, ..writer() };
    let mut write = |number| writer.write(number, prompt("a b", None).map(FileRow::Request)).map_err(|error| error.to_string());
    assert_eq!([write(1), write(2)], [Ok(()), Ok(())]);
    let refused = "with row 3, the imported rows have more than 0 MiB, the most for a file of its size: use a part of it, or a file that is not compressed";
    assert_eq!(write(3), Err(refused.to_owned()));
}

#[test]
fn rows_are_read_back_by_their_index() {
    let messages = RowContent::Messages(vec![json!({"role": "user", "content": "c d e"})]);
    let second = Row { output_tokens: Some(9), ..Row::new(messages.clone()) };
    let rows = vec![prompt("a\nb", Some("x y z")), Err(LeftOut::NO_PROMPT), Ok(second)];
    let (bytes, index, summary) = write(rules(None, OverLongPrompt::Refuse), rows).expect("written");
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&bytes).expect("written");
    let reader = RowReader::new(Arc::new(index.clone()), file);
    let read: Vec<_> = (0..index.len()).map(|row| reader.read(row).expect("a row")).collect();
    assert_eq!(read, [RowContent::Prompt("a\nb".to_owned()), messages]);
    let counts: Vec<_> = index.rows().map(|row| (row.input_tokens, row.output_tokens)).collect();
    assert_eq!(counts, [(2, Some(3)), (3, Some(9))]);
    let expected = ImportSummary {
        read: Count(3),
        rows: Count(2),
        without_prompt: Count(1),
        too_long: Count(0),
        truncated: Count(0),
        input_tokens: TokenRange { least: 2, most: 3, sum: Count(5) },
        recorded_outputs: Count(2),
        output_tokens: Some(TokenRange { least: 3, most: 9, sum: Count(12) }),
        ..ImportSummary::default()
    };
    assert_eq!(summary, expected);
    assert_eq!(reader.read(2).expect_err("two rows").to_string(), "the dataset has no row 2");
}

#[test]
fn long_prompts_are_refused_skipped_or_cut_as_the_rules_say() {
    let rows = || vec![prompt("a b c", None), prompt("a  b c d e", None)];
    let refused = write(rules(Some(3), OverLongPrompt::Refuse), rows()).expect_err("too long");
    insta::assert_snapshot!(refused, @"the prompt of row 2 has 5 tokens, more than `max_input`, which is 3");
    let (_, index, summary) = write(rules(Some(3), OverLongPrompt::Skip), rows()).expect("skipped");
    assert_eq!((index.len(), summary.too_long), (1, Count(1)));
    let (bytes, index, summary) = write(rules(Some(3), OverLongPrompt::Truncate), rows()).expect("cut");
    assert_eq!((index.len(), summary.truncated, summary.input_tokens.most), (2, Count(1), 3));
    assert!(String::from_utf8_lossy(&bytes).ends_with("{\"prompt\":\"a  b c\"}\n"));
    let skipped = write(rules(Some(2), OverLongPrompt::Skip), rows()).expect_err("none left");
    insta::assert_snapshot!(skipped, @"the dataset has no prompt: of 2 rows, 0 have no prompt and 2 are too long");
}

#[test]
fn only_the_last_message_of_a_conversation_is_cut() {
    let row = |last: &str| {
        let messages = vec![json!({"role": "system", "content": "a b"}), json!({"role": "user", "content": last})];
        vec![Ok(Row::new(RowContent::Messages(messages)))]
    };
    let (bytes, ..) = write(rules(Some(4), OverLongPrompt::Truncate), row("c d e f")).expect("cut");
    assert!(String::from_utf8_lossy(&bytes).contains(r#""content":"c d""#), "{}", String::from_utf8_lossy(&bytes));
    let refused = write(rules(Some(2), OverLongPrompt::Truncate), row("c")).expect_err("nothing would be left");
    insta::assert_snapshot!(refused, @"row 1 has a prompt of 3 tokens, and its last message alone cannot be cut to the 2 tokens of `max_input`");
}

/// A chat template that puts a word around each message, and notes the prompts for which it is rendered.
#[derive(Default)]
struct Rendered(RefCell<Vec<String>>);

impl TextTokens for Rendered {
    fn count(&self, text: &str) -> Result<u64, String> {
        Words.count(text)
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        Words.truncate(text, tokens)
    }

    fn in_template(&self, _before: Option<MessageRole>, messages: &[(MessageRole, &str)]) -> Option<Result<String, String>> {
        Some(Ok(messages.iter().fold(String::new(), |all, (role, text)| format!("{all}<{role}> {text}\n"))))
    }

    fn first_other_in_template(&self, prompts: Vec<Vec<(MessageRole, String)>>) -> Result<Option<usize>, String> {
        let texts = prompts.iter().map(|prompt| prompt.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("|"));
        self.0.borrow_mut().extend(texts);
        Ok(prompts.iter().position(|prompt| prompt.iter().any(|(_, text)| text.contains("odd"))))
    }
}

#[test]
fn a_template_is_rendered_once_for_each_prompt_that_is_written() {
    let rendered = |max_input, over, rows: Vec<Result<FileRow, LeftOut>>| {
        let tokens = Rendered::default();
        let template = Some(TemplateUse::Count);
        let sessions = rows.iter().any(|row| matches!(row, Ok(FileRow::Conversation(_))));
        let rules = ImportRules { sessions, template, ..rules(max_input, over) };
        let mut writer = RowWriter::new(rules, &tokens, Vec::new(), Vec::new()).expect("a writer");
        let written = (1..).zip(rows).try_for_each(|(number, row)| writer.write(number, row));
        let ended = written.and_then(|()| writer.finish().map(drop)).map_err(|error| error.to_string());
        ended.map(|()| tokens.0.into_inner())
    };
    let prompts = |texts: &[&str]| texts.iter().map(|text| prompt(text, None).map(FileRow::Request)).collect::<Vec<_>>();
    let three = || prompts(&["a b", "c d e odd", "f"]);
    let other = "row 2 has a prompt of which the chat template makes another text than of others: it looks at what messages say, or how many there are";
    assert_eq!(rendered(None, OverLongPrompt::Refuse, three()), Err(other.to_owned()));
    // Of the second row nothing is written, or not the word that makes it another.
    assert_eq!(rendered(Some(3), OverLongPrompt::Skip, three()), Ok(vec!["a b".to_owned(), "f".to_owned()]));
    assert_eq!(rendered(Some(3), OverLongPrompt::Truncate, three()), Ok(["a b", "c d", "f"].map(str::to_owned).to_vec()));
    let turns = || vec![conversation(&["a", "b", "c", "d", "odd"])];
    assert_eq!(rendered(None, OverLongPrompt::Truncate, turns()), Err(other.replace("row 2", "row 1")));
    assert_eq!(rendered(Some(6), OverLongPrompt::Truncate, turns()), Ok(vec!["a".to_owned(), "a|b|c".to_owned()]));
}

/// Returns a conversation of these texts, in which each second one is the assistant's.
fn conversation(texts: &[&str]) -> Result<FileRow, LeftOut> {
    let roles = ["user", "assistant"].iter().cycle();
    let messages = roles.zip(texts).map(|(role, text)| json!({"role": role, "content": text})).collect();
    Conversation::divide(messages).map(FileRow::Conversation)
}

fn write_conversations(rules: ImportRules, conversations: &[&[&str]]) -> Result<(Vec<u8>, Index, ImportSummary), String> {
    write_rows(ImportRules { sessions: true, ..rules }, conversations.iter().map(|texts| conversation(texts)))
}

/// Returns the turns of an index as `+` for one that continues a session, its tokens, those that were said before, and the recorded ones.
fn listed(index: &Index) -> Vec<String> {
    let output = |tokens: Option<u32>| tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
    let mark = |continues| if continues { "+" } else { "" };
    let rows = index.rows();
    rows.map(|row| format!("{}{} {} {}", mark(row.continues), row.input_tokens, row.reused_tokens, output(row.output_tokens)))
        .collect()
}

#[test]
fn each_turn_of_a_conversation_is_a_row_with_all_that_was_said_before() {
    let conversations: [&[&str]; 4] = [&["a b", "c d e", "f", "", "g"], &[], &["h", "i"], &["j", "k l", "m"]];
    let (bytes, index, summary) = write_conversations(rules(None, OverLongPrompt::Refuse), &conversations).expect("written");
    assert_eq!(listed(&index), ["2 0 3", "+6 5 -", "+7 6 -", "1 0 1", "1 0 2", "+4 3 -"]);
    let sessions: Vec<_> = index.sessions().map(|session| (session.first_row, session.turns)).collect();
    assert_eq!(sessions, [(0, 3), (3, 1), (4, 2)]);
    let first_lines: Vec<_> = std::str::from_utf8(&bytes).expect("UTF-8").lines().take(3).collect();
    insta::assert_snapshot!(first_lines.join("\n"), @r#"
    {"turn":{"messages":[{"content":"a b","role":"user"}],"response":{"content":"c d e","role":"assistant"}}}
    {"turn":{"messages":[{"content":"f","role":"user"}],"response":{"content":"","role":"assistant"}}}
    {"turn":{"messages":[{"content":"g","role":"user"}]}}
    "#);
    let expected = ImportSummary {
        read: Count(4),
        rows: Count(6),
        sessions: Some(Count(3)),
        without_prompt: Count(1),
        input_tokens: TokenRange { least: 1, most: 7, sum: Count(21) },
        recorded_outputs: Count(3),
        output_tokens: Some(TokenRange { least: 1, most: 3, sum: Count(6) }),
        ..ImportSummary::default()
    };
    assert_eq!(summary, expected);
}

#[test]
fn a_conversation_with_a_turn_that_is_too_long_is_refused_left_out_or_ended() {
    // Prompts of 1 and 4 tokens, of 3 and 5, and of 1.
    let conversations: [&[&str]; 3] = [&["a", "b c", "d"], &["e f g", "h", "i"], &["j", "k"]];
    let written = |max, over| write_conversations(rules(Some(max), over), &conversations);
    let refused = written(4, OverLongPrompt::Refuse).expect_err("too long");
    insta::assert_snapshot!(refused, @"turn 2 of row 2 has a prompt of 5 tokens with all that was said before, more than `max_input`, which is 4");
    let kept = |max, over| {
        let (_, index, summary) = written(max, over).expect("written");
        (listed(&index), summary.sessions.map_or(0, |kept| kept.0), summary.too_long.0, summary.truncated.0)
    };
    let of = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
    assert_eq!(kept(4, OverLongPrompt::Skip), (of(&["1 0 2", "+4 3 -", "1 0 1"]), 2, 1, 0));
    assert_eq!(kept(4, OverLongPrompt::Truncate), (of(&["1 0 2", "+4 3 -", "3 0 1", "1 0 1"]), 3, 0, 1));
    // The second conversation begins with a turn that is too long.
    assert_eq!(kept(2, OverLongPrompt::Skip), (of(&["1 0 1"]), 1, 2, 0));
    assert_eq!(kept(2, OverLongPrompt::Truncate), (of(&["1 0 2", "1 0 1"]), 2, 1, 1));
    let none = write_conversations(rules(Some(2), OverLongPrompt::Truncate), &conversations[1..2]).expect_err("none left");
    insta::assert_snapshot!(none, @"the dataset has no prompt: of 1 rows, 0 have no prompt and 1 are too long");
}

#[test]
fn recorded_lengths_of_turns_follow_the_rules_and_their_responses_are_said_before_in_any_case() {
    let output = |output| {
        let rules = ImportRules { output, ..rules(None, OverLongPrompt::Refuse) };
        listed(&write_conversations(rules, &[&["a", "b c d", "e", "f"]]).expect("written").1)
    };
    assert_eq!(output(RecordedOutput::Used { at_most: Some(2) }), ["1 0 2", "+5 4 1"]);
    assert_eq!(output(RecordedOutput::Unused), ["1 0 -", "+5 4 -"]);
    let Ok(FileRow::Conversation(recorded)) = conversation(&["a", "b", "c d"]) else { panic!("a conversation") };
    let recorded = FileRow::Conversation(recorded.with_last_response(None, Some(9)));
    let (_, index, _) = write_rows(rules(None, OverLongPrompt::Refuse), [Ok(recorded.clone())]).expect("written");
    assert_eq!(listed(&index), ["1 0 1", "+4 2 9"]);
    // The recorded number is that of the last turn of the file, which is left out here.
    let (_, index, _) = write_rows(rules(Some(3), OverLongPrompt::Truncate), [Ok(recorded)]).expect("written");
    assert_eq!(listed(&index), ["1 0 1"]);
}

#[test]
fn each_text_of_a_conversation_is_counted_once() {
    /// Counts its calls.
    #[derive(Default)]
    struct Calls(std::cell::Cell<u64>);
    impl TextTokens for Calls {
        fn count(&self, text: &str) -> Result<u64, String> {
            self.0.set(self.0.get() + 1);
            Words.count(text)
        }
        fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
            Words.truncate(text, tokens)
        }
    }
    let calls = Calls::default();
    let mut writer = RowWriter::new(rules(None, OverLongPrompt::Refuse), &calls, Vec::new(), Vec::new()).expect("a writer");
    writer.write(1, conversation(&["a"; 401])).expect("written");
    assert_eq!(calls.0.get(), 401);
}

#[test]
fn a_prompt_of_more_tokens_than_the_index_has_bits_for_is_refused() {
    /// Each text has 2^31 tokens.
    struct Many;
    impl TextTokens for Many {
        fn count(&self, _: &str) -> Result<u64, String> {
            Ok(1 << 31)
        }
        fn truncate<'a>(&self, text: &'a str, _: u32) -> Result<&'a str, String> {
            Ok(text)
        }
    }
    let mut writer = RowWriter::new(rules(None, OverLongPrompt::Refuse), &Many, Vec::new(), Vec::new()).expect("a writer");
    writer.write(1, conversation(&["a", "b"])).expect("2^31 tokens");
    assert!(matches!(writer.write(2, conversation(&["a", "b", "c"])), Err(DatasetError::RowTooLarge(2))));
}

#[test]
fn an_api_that_cannot_take_a_conversation_is_named() {
    let rules = ImportRules { api: ServingApi::Completions, ..rules(None, OverLongPrompt::Refuse) };
    let refused = write_conversations(rules, &[&["a", "b"]]).expect_err("no chat");
    insta::assert_snapshot!(refused, @"row 1 has a conversation, which `api: completions` cannot take");
}

#[test]
fn recorded_lengths_are_limited_or_left_out() {
    let rows = || vec![prompt("a", Some("x y z")), prompt("b", Some(""))];
    let output = |output| {
        let (_, index, _) = write(ImportRules { output, ..rules(None, OverLongPrompt::Refuse) }, rows()).expect("written");
        index.rows().map(|row| row.output_tokens).collect::<Vec<_>>()
    };
    assert_eq!(output(RecordedOutput::Used { at_most: Some(2) }), [Some(2), None]);
    assert_eq!(output(RecordedOutput::Unused), [None, None]);
}

#[test]
fn an_api_that_cannot_take_a_row_is_named() {
    let rules = ImportRules { api: ServingApi::Completions, ..rules(None, OverLongPrompt::Refuse) };
    let messages = RowContent::Messages(vec![json!({"role": "user", "content": "c"})]);
    let refused = write(rules, vec![Ok(Row::new(messages))]).expect_err("no chat");
    insta::assert_snapshot!(refused, @"row 1 has messages, which `api: completions` cannot take");
}

#[expect(clippy::unnecessary_wraps, reason = "the form in which importers pass rows")]
fn length(tokens: u32, ids: &[u64], at_ns: i64) -> Result<Row, LeftOut> {
    let content = RowContent::Blocks(TokenBlocks { tokens, size: 10, ids: ids.to_vec(), scope: None, messages: Vec::new() });
    let time = Some(RowTime { at_ns, session: None });
    Ok(Row { output_tokens: Some(3), time, ..Row::new(content) })
}

fn failed(at_ns: i64) -> Result<Row, LeftOut> {
    Err(LeftOut { reason: LeftOutReason::NoResponse, time: Some(RowTime { at_ns, session: None }) })
}

#[test]
fn a_failed_row_is_the_first_of_its_trace_and_keeps_the_order_of_times() {
    let trace =
        ImportRules { times: Some(TimeRules { from_ns: 60, ..TimeRules::default() }), ..rules(None, OverLongPrompt::Refuse) };
    let rows = vec![failed(5), length(9, &[], 65), length(9, &[], 70)];
    let (_, index, summary) = write(trace, rows).expect("written");
    assert_eq!(index.rows().map(|row| row.at_ns).collect::<Vec<_>>(), [0, 5]);
    let times = summary.times.expect("times");
    assert_eq!((times.outside_window, summary.without_response), (Count(1), None), "the failed one is outside of the window");
    let refused = write(trace, vec![length(9, &[], 65), failed(5)]).expect_err("unsorted");
    assert_eq!(refused, "row 2 is earlier than the row before it: sort the file by time");
}

#[test]
fn a_trace_has_times_and_reused_tokens_of_kept_rows_only() {
    let trace =
        ImportRules { times: Some(TimeRules { from_ns: 10, ..TimeRules::default() }), ..rules(Some(30), OverLongPrompt::Skip) };
    let rows = vec![
        length(25, &[1, 2, 3], 100),
        length(25, &[1, 2, 4], 110),
        length(31, &[1, 2, 4, 5], 111),
        failed(112),
        length(25, &[1, 2, 4], 115),
    ];
    let (_, index, summary) = write(trace, rows).expect("written");
    let read: Vec<_> = index.rows().map(|row| (row.at_ns, row.input_tokens, row.reused_tokens)).collect();
    // The first row is before the window, so that nothing of it is in a cache; the third is too long.
    assert_eq!(read, [(0, 25, 0), (5, 25, 25)]);
    assert_eq!((summary.read, summary.too_long, summary.without_response), (Count(5), Count(1), Some(Count(1))));
    let times = summary.times.expect("times");
    assert_eq!((times.span_ns, times.outside_window, times.busiest_second), (Count(5), Count(1), Count(2)));
    assert_eq!(summary.blocks.map(|blocks| (blocks.distinct, blocks.reused_tokens)), Some((Count(3), Count(25))));
}

#[test]
fn a_trace_without_a_row_says_where_its_rows_went() {
    let trace =
        ImportRules { times: Some(TimeRules { from_ns: 10, ..TimeRules::default() }), ..rules(None, OverLongPrompt::Refuse) };
    let refused = write(trace, vec![length(25, &[], 100), failed(110)]).expect_err("none left");
    insta::assert_snapshot!(refused, @"the trace has no request to replay: of 2 rows, 0 have no prompt and 0 are too long, 1 record no response, 1 lie outside of the window and 0 are not in the sample");
}

#[test]
fn the_least_length_is_that_of_the_shortest_row() {
    let (_, _, summary) =
        write(rules(None, OverLongPrompt::Refuse), vec![prompt("a b", None), prompt("a", None)]).expect("written");
    assert_eq!((summary.input_tokens.least, summary.input_tokens.most), (1, 2));
    // A text without a token of this tokenizer is a row all the same.
    let (_, _, summary) =
        write(rules(None, OverLongPrompt::Refuse), vec![prompt(" ", None), prompt("a b", None)]).expect("written");
    assert_eq!((summary.input_tokens.least, summary.input_tokens.most), (0, 2));
}

/// A turn of a session of a trace with blocks of 10 tokens, in nanoseconds.
#[expect(clippy::unnecessary_wraps, reason = "the form in which importers pass rows")]
fn turn(session: u64, at_ns: i64, tokens: u32, ids: &[u64]) -> Result<Row, LeftOut> {
    let row = length(tokens, ids, at_ns).expect("a row");
    let course = crate::TurnCourse { service_ns: Some(2), ..crate::TurnCourse::default() };
    Ok(Row { time: Some(RowTime { at_ns, session: Some(session) }), course, ..row })
}

fn session_rules(over: OverLongPrompt, times: TimeRules) -> ImportRules {
    ImportRules { times: Some(times), sessions: true, ..rules(Some(40), over) }
}

/// Session 9 begins before session 4, whose turns the file has first.
fn two_sessions() -> Vec<Result<Row, LeftOut>> {
    vec![
        turn(4, 50, 20, &[1, 2]),
        turn(9, 10, 20, &[1, 3]),
        turn(4, 60, 30, &[1, 2, 4]),
        turn(9, 70, 40, &[1, 2, 4, 5]),
        turn(4, 90, 10, &[1]),
    ]
}

#[test]
fn the_sessions_of_a_trace_follow_one_another_and_reuse_what_came_before_in_time() {
    let (_, index, summary) =
        write(session_rules(OverLongPrompt::Refuse, TimeRules::default()), two_sessions()).expect("written");
    assert!(index.has_recorded_pauses());
    let turns: Vec<_> = index.sessions().map(|session| session.turns).collect();
    assert_eq!(turns, [2, 3]);
    let rows: Vec<_> = index.rows().map(|row| (row.at_ns, row.input_tokens, row.reused_tokens, row.continues)).collect();
    // By time: 0, 40, 50, 60 and 80 since the first. At 60, all three blocks of the prompt at 50 are known.
    assert_eq!(rows, [(0, 20, 0, false), (60, 40, 30, true), (40, 20, 10, false), (50, 30, 20, true), (80, 10, 10, true)]);
    let pauses: Vec<u64> = (0..5).map(|row| index.recorded_pause(row).expect("a trace").ns).collect();
    // From the end of the response before, 2 ns after its request.
    assert_eq!(pauses, [0, 58, 0, 8, 28]);
    assert_eq!((summary.read, summary.rows, summary.sessions), (Count(5), Count(5), Some(Count(2))));
    let times = summary.times.expect("times");
    assert_eq!((times.span_ns, times.busiest_second), (Count(80), Count(5)));
    let turns = times.turns.expect("turns");
    assert_eq!((turns.think_time.turns, turns.think_time.sum_ns, turns.whole_blocks), (Count(3), Count(94), Count(5)));
    assert_eq!(summary.blocks.map(|blocks| blocks.reused_tokens), Some(Count(70)));
}

#[test]
fn a_window_and_a_limit_keep_or_leave_whole_sessions() {
    let from = |from_ns, to_ns| TimeRules { from_ns, to_ns, ..TimeRules::default() };
    let (_, index, summary) = write(session_rules(OverLongPrompt::Refuse, from(20, None)), two_sessions()).expect("written");
    // Session 4 begins 40 ns after session 9, which is 20 ns after the start of the window.
    assert_eq!(index.rows().map(|row| row.at_ns).collect::<Vec<_>>(), [20, 30, 60]);
    assert_eq!(summary.times.map(|times| times.outside_window), Some(Count(2)));
    let (_, index, _) = write(session_rules(OverLongPrompt::Refuse, from(0, Some(20))), two_sessions()).expect("written");
    assert_eq!(index.len(), 2, "its later turn is after the window, and its session is within it");
    let long = |over| {
        let rules = ImportRules { max_input: Some(25), ..session_rules(over, TimeRules::default()) };
        let (_, index, summary) = write(rules, two_sessions())?;
        let turns: Vec<u32> = index.sessions().map(|session| session.turns).collect();
        Ok::<_, String>((turns, summary.too_long, summary.truncated))
    };
    assert_eq!(long(OverLongPrompt::Truncate), Ok((vec![1, 1], Count(0), Count(2))));
    insta::assert_snapshot!(long(OverLongPrompt::Refuse).expect_err("refused"), @"the prompt of row 4 has 40 tokens, more than `max_input`, which is 25");
    assert!(long(OverLongPrompt::Skip).expect_err("none left").starts_with("the trace has no request to replay"));
}

#[test]
fn a_block_of_two_sizes_in_a_session_is_refused_and_scopes_keep_blocks_apart() {
    let scoped = |session: u64, scope, tokens, ids: &[u64]| {
        let row = turn(session, session.cast_signed(), tokens, ids).expect("a row");
        let RowContent::Blocks(blocks) = row.content.clone() else { panic!("blocks") };
        Ok(Row { content: RowContent::Blocks(TokenBlocks { scope, ..blocks }), ..row })
    };
    let rules = session_rules(OverLongPrompt::Refuse, TimeRules::default());
    let refused = write(rules, vec![scoped(1, Some(1), 15, &[1, 2]), scoped(2, Some(1), 20, &[1, 2])]).expect_err("damaged");
    assert!(refused.starts_with("row 2 has block 2 with 10 tokens, and an earlier request has it with 5"), "{refused}");
    let (_, index, summary) =
        write(rules, vec![scoped(1, Some(1), 15, &[1, 2]), scoped(2, Some(2), 20, &[1, 2])]).expect("written");
    assert!(index.rows().all(|row| row.reused_tokens == 0));
    assert_eq!(summary.blocks.map(|blocks| blocks.distinct), Some(Count(4)));
}

#[test]
fn a_whole_session_of_a_row_counts_from_its_own_start() {
    let session = |session: u64, at_ns: [i64; 2]| {
        let turns = at_ns.map(|at_ns| turn(session, at_ns, 20, &[1, 2]).expect("a row")).to_vec();
        let streams = vec![crate::TraceStream { turns, ..crate::TraceStream::default() }];
        let left_out = vec![LeftOutReason::NoResponse];
        let unread = (session == 2).then(|| vec!["misspelt".to_owned()]);
        let (duplicates, duplicate_requests) = (1, 3);
        let of_row = crate::TraceSession { session, streams, left_out, duplicates, duplicate_requests, unread, times: None };
        Ok(FileRow::Session(of_row))
    };
    let rules = session_rules(OverLongPrompt::Refuse, TimeRules { max_gap_ns: Some(5), ..TimeRules::default() });
    let (_, index, summary) = write_rows(rules, [session(1, [7, 10]), session(2, [100, 200])]).expect("written");
    let unread = summary.unread.expect("members that are not read");
    assert_eq!((unread.rows, unread.names), (Count(1), vec!["misspelt".to_owned()]));
    // The pauses are 1 ns, and 98 ns of which 93 are cut.
    assert_eq!(index.rows().map(|row| row.at_ns).collect::<Vec<_>>(), [0, 3, 0, 7]);
    let times = summary.times.expect("times");
    let turns = times.turns.expect("turns");
    assert_eq!((turns.subagents, turns.subagent_requests, turns.think_time.cut_ns), (Count(2), Count(6), Count(93)));
    assert_eq!(turns.forks.map(|forks| (forks.subagents, forks.duplicates)), Some((Count(0), Count(2))));
    assert_eq!((times.span_ns, summary.without_response), (Count(7), Some(Count(2))));
}

#[test]
fn a_row_without_a_session_is_refused_where_sessions_are_played() {
    let refused = write(session_rules(OverLongPrompt::Refuse, TimeRules::default()), vec![length(9, &[], 5)]).expect_err("none");
    insta::assert_snapshot!(refused, @"row 1 names no session: with `sessions`, each request of a trace belongs to one");
}

#[test]
fn messages_are_kept_and_counted_for_apis_that_have_messages() {
    let session = || {
        let mut stream = crate::roles::StreamMessages::new(10);
        let prompts: [(i64, u32, &[u64]); 3] = [(7, 25, &[1, 2]), (20, 45, &[1, 2, 3, 4]), (30, 20, &[1, 9])];
        let make = |(at_ns, tokens, ids): (i64, u32, &[u64])| {
            let mut row = turn(1, at_ns, tokens, ids).expect("a row");
            let RowContent::Blocks(blocks) = &mut row.content else { panic!("blocks") };
            row.course.is_cut = stream.assign(blocks, 3);
            row
        };
        let streams = vec![crate::TraceStream { turns: prompts.map(make).to_vec(), ..crate::TraceStream::default() }];
        Ok(FileRow::Session(crate::TraceSession { session: 1, streams, ..crate::TraceSession::default() }))
    };
    let rules = |api| ImportRules { api, max_input: None, ..session_rules(OverLongPrompt::Refuse, TimeRules::default()) };
    let write = |api| write_rows(rules(api), [session()]).expect("written");
    let (rows, _, summary) = write(ServingApi::Chat);
    let lines: Vec<Value> =
        String::from_utf8(rows).expect("text").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let messages: Vec<Value> = lines.iter().map(|line| line["blocks"]["messages"].clone()).collect();
    assert_eq!(
        messages,
        [
            json!([["system", 1], ["user", 1]]),
            json!([["system", 1], ["user", 1], ["assistant", 1], ["user", 1]]),
            json!([["system", 1], ["user", 1]])
        ]
    );
    let roles = summary.times.and_then(|times| times.turns).and_then(|turns| turns.roles).expect("roles");
    // Of the user: 10 + 5, 10 + 10 + 5, and 10.
    let tokens = [roles.system_tokens, roles.user_tokens, roles.assistant_tokens].map(|tokens| tokens.0);
    assert_eq!((roles.messages.0, tokens, roles.cut.0), (8, [30, 50, 10], 1));
    let (rows, _, summary) = write(ServingApi::Completions);
    assert!(!String::from_utf8(rows).expect("text").contains("messages"));
    assert_eq!(summary.times.and_then(|times| times.turns).and_then(|turns| turns.roles), None);
}
