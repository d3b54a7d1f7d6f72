use std::io::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{Index, RowReader};

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
    ImportRules { api: ServingApi::Chat, max_input, over, output: RecordedOutput::Used { at_most: None } }
}

#[expect(clippy::unnecessary_wraps, reason = "the form in which importers pass rows")]
fn prompt(text: &str, output: Option<&str>) -> Option<Row> {
    Some(Row { content: RowContent::Prompt(text.to_owned()), output: output.map(str::to_owned), output_tokens: None })
}

fn write(rules: ImportRules, rows: Vec<Option<Row>>) -> Result<(Vec<u8>, Index, ImportSummary), String> {
    let mut writer = RowWriter::new(rules, &Words, Vec::new(), Vec::new()).expect("a writer");
    (1..).zip(rows).try_for_each(|(number, row)| writer.write(number, row)).map_err(|error| error.to_string())?;
    let (rows, index, summary) = writer.finish().map_err(|error| error.to_string())?;
    Ok((rows, Index::parse(&index).expect("an index"), summary))
}

#[test]
fn rows_are_read_back_by_their_index() {
    let messages = RowContent::Messages(vec![json!({"role": "user", "content": "c d e"})]);
    let second = Row { content: messages.clone(), output: None, output_tokens: Some(9) };
    let rows = vec![prompt("a\nb", Some("x y z")), None, Some(second)];
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
        vec![Some(Row { content: RowContent::Messages(messages), output: None, output_tokens: None })]
    };
    let (bytes, ..) = write(rules(Some(4), OverLongPrompt::Truncate), row("c d e f")).expect("cut");
    assert!(String::from_utf8_lossy(&bytes).contains(r#""content":"c d""#), "{}", String::from_utf8_lossy(&bytes));
    let refused = write(rules(Some(2), OverLongPrompt::Truncate), row("c")).expect_err("nothing would be left");
    insta::assert_snapshot!(refused, @"row 1 has a prompt of 3 tokens, and its last message alone cannot be cut to the 2 tokens of `max_input`");
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
    let refused = write(rules, vec![Some(Row { content: messages, output: None, output_tokens: None })]).expect_err("no chat");
    insta::assert_snapshot!(refused, @"row 1 has messages, which `api: completions` cannot take");
}
