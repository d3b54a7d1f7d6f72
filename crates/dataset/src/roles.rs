//! The messages of prompts that consist of blocks: where in a prompt each author's message begins.
//!
//! A trace records which blocks a prompt has, how long the system prompt is, and how long each response was. From these follow the messages:
//! a prompt that continues the one before it in its stream has that prompt's messages as far as the blocks of both are the same, then the response
//! before, rounded up to whole blocks, and then what the user added. AIPerf attributes the blocks of Weka's traces in this way
//! (`dataset/loader/weka_synth_buf.py` of ai-dynamo/aiperf at 1848624113dc8b624bd3f408648664d46fee9073).

use assay_manifest::MessageRole;
use serde::{Deserialize, Serialize};

use crate::TokenBlocks;

/// A message: its author, and the number of its blocks. The last message of a prompt has what follows the blocks, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockMessage(pub MessageRole, pub u32);

/// The messages of the prompts of one stream, as they are read one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamMessages {
    /// The tokens of the system prompt.
    system_tokens: u64,
    before: Option<PromptBefore>,
}

/// The prompt before, and the response to it.
#[derive(Clone, Debug)]
struct PromptBefore {
    ids: Vec<u64>,
    /// The blocks that are whole.
    whole: usize,
    messages: Vec<BlockMessage>,
    output_tokens: u32,
}

impl StreamMessages {
    /// Creates those of a stream whose prompts begin with a system prompt of this many tokens.
    pub(crate) fn new(system_tokens: u64) -> Self {
        Self { system_tokens, before: None }
    }

    /// Gives the next prompt its messages. Returns true if it does not begin with all whole blocks of the prompt before.
    pub(crate) fn assign(&mut self, blocks: &mut TokenBlocks, output_tokens: u32) -> bool {
        let count = blocks.ids.len() as u32;
        let system = blocks_of(self.system_tokens, blocks.size).min(count);
        let common = self.before.as_ref().map_or(0, |before| common_prefix(&before.ids, &blocks.ids));
        let is_cut = self.before.as_ref().is_some_and(|before| common < before.whole);
        let mut messages = Vec::new();
        match &self.before {
            Some(before) if common as u32 > system => {
                push_first(&mut messages, &before.messages, common as u32);
                let new = count - common as u32;
                let response = blocks_of(u64::from(before.output_tokens), blocks.size).min(new);
                push(&mut messages, MessageRole::Assistant, response);
                push(&mut messages, MessageRole::User, new - response);
            }
            // Nothing that was said before is left: a conversation begins with its user.
            Some(_) | None => {
                push(&mut messages, MessageRole::System, system);
                push(&mut messages, MessageRole::User, count - system);
            }
        }
        end_with_user(&mut messages, blocks.rest() > 0);
        let whole = (blocks.tokens / blocks.size.max(1)).min(count) as usize;
        self.before = Some(PromptBefore { ids: blocks.ids.clone(), whole, messages: messages.clone(), output_tokens });
        blocks.messages = messages;
        is_cut
    }
}

/// Returns the number of blocks that tokens take, the last of them in part.
fn blocks_of(tokens: u64, size: u32) -> u32 {
    u32::try_from(tokens.div_ceil(u64::from(size.max(1)))).unwrap_or(u32::MAX)
}

fn common_prefix(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Adds blocks to the last message if it has the same author, or as a message of their own. A template may refuse two messages of one author.
fn push(messages: &mut Vec<BlockMessage>, role: MessageRole, blocks: u32) {
    match messages.last_mut() {
        _ if blocks == 0 => {}
        Some(BlockMessage(last, of_last)) if *last == role => *of_last += blocks,
        _ => messages.push(BlockMessage(role, blocks)),
    }
}

/// Adds the first blocks of a prompt with their messages.
fn push_first(messages: &mut Vec<BlockMessage>, of: &[BlockMessage], blocks: u32) {
    let mut left = blocks;
    for BlockMessage(role, of_message) in of {
        let taken = left.min(*of_message);
        push(messages, *role, taken);
        left -= taken;
    }
}

/// Makes the last message one of the user, to whom the model responds: what follows the blocks, or else at least the last block.
fn end_with_user(messages: &mut Vec<BlockMessage>, has_rest: bool) {
    match messages.last_mut() {
        Some(BlockMessage(MessageRole::User, _)) => {}
        Some(BlockMessage(_, blocks)) if !has_rest => {
            *blocks -= 1;
            messages.retain(|BlockMessage(_, blocks)| *blocks > 0);
            push(messages, MessageRole::User, 1);
        }
        _ => messages.push(BlockMessage(MessageRole::User, 0)),
    }
}

impl TokenBlocks {
    /// Returns the messages with the blocks of each and their numbers of tokens, in order; the last one has all that are left. Empty if the trace
    /// has no messages.
    pub fn messages(&self) -> Vec<(MessageRole, Vec<(u64, u32)>)> {
        let mut blocks = self.blocks();
        let of = |BlockMessage(role, count): &BlockMessage| (*role, blocks.by_ref().take(*count as usize).collect::<Vec<_>>());
        let mut messages: Vec<_> = self.messages.iter().map(of).collect();
        if let Some((_, last)) = messages.last_mut() {
            last.extend(blocks);
        }
        messages
    }

    /// Cuts the messages to the blocks that are left.
    pub(crate) fn cut_messages(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let mut messages = Vec::new();
        push_first(&mut messages, &self.messages, self.ids.len() as u32);
        end_with_user(&mut messages, self.rest() > 0);
        self.messages = messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(tokens: u32, ids: &[u64]) -> TokenBlocks {
        TokenBlocks { tokens, size: 10, ids: ids.to_vec(), scope: None, messages: Vec::new() }
    }

    /// Returns the messages of the prompts of a stream with blocks of 10 tokens: `s2 u3` is a system message of two blocks before one of the user
    /// of three. `!` marks prompts that are cut.
    fn messages(system_tokens: u64, prompts: &[(u32, &[u64], u32)]) -> Vec<String> {
        let mut stream = StreamMessages::new(system_tokens);
        let text = |(tokens, ids, output): &(u32, &[u64], u32)| {
            let mut blocks = blocks(*tokens, ids);
            let cut = if stream.assign(&mut blocks, *output) { "!" } else { "" };
            let texts = blocks.messages.iter().map(|BlockMessage(role, count)| format!("{}{count}", &role.as_str()[..1]));
            let counted: u32 = blocks.messages.iter().map(|BlockMessage(_, count)| count).sum();
            assert_eq!(counted as usize, ids.len());
            format!("{cut}{}", texts.collect::<Vec<_>>().join(" "))
        };
        prompts.iter().map(text).collect()
    }

    #[test]
    fn a_prompt_has_the_messages_before_it_the_response_in_whole_blocks_and_what_the_user_added() {
        // 15 tokens of the system are two blocks, and a response of 11 tokens is two.
        let found = messages(
            15,
            &[
                (45, &[0, 1, 2, 3], 11),
                (85, &[0, 1, 2, 3, 4, 5, 6, 7], 30),
                (130, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 1),
            ],
        );
        assert_eq!(found, ["s2 u2", "s2 u2 a2 u2", "s2 u2 a2 u2 a3 u2"]);
    }

    #[test]
    fn what_a_cut_drops_is_in_no_later_message() {
        // The second prompt replaces blocks 3 to 5, of the user and the assistant, and the third pulls back to blocks 0 to 2.
        let first: &[u64] = &[0, 1, 2, 3];
        let second: &[u64] = &[0, 1, 2, 3, 4, 5, 6];
        let replaced: &[u64] = &[0, 1, 2, 3, 4, 20, 21, 22];
        let found = messages(10, &[(40, first, 15), (70, second, 10), (80, replaced, 5), (30, &[0, 1, 2], 5)]);
        assert_eq!(found, ["s1 u3", "s1 u3 a2 u1", "!s1 u3 a2 u2", "!s1 u2"]);
    }

    #[test]
    fn a_partial_block_that_grows_is_no_cut() {
        // Of 25 tokens in three blocks, the last is partial: its id is another one once it is whole.
        assert_eq!(messages(0, &[(25, &[0, 1, 2], 10), (45, &[0, 1, 7, 8, 9], 1)]), ["u3", "u2 a1 u2"]);
    }

    #[test]
    fn a_prompt_that_keeps_the_system_message_alone_begins_a_conversation() {
        let prompts: [(u32, &[u64], u32); 4] =
            [(30, &[0, 1, 2], 20), (30, &[0, 8, 9], 20), (30, &[5, 6, 7], 20), (50, &[5, 6, 7, 8, 9], 1)];
        assert_eq!(messages(10, &prompts), ["s1 u2", "!s1 u2", "!s1 u2", "s1 u2 a1 u1"]);
    }

    #[test]
    fn the_last_message_is_the_users() {
        // A response that is longer than what is new, without and with tokens after the blocks.
        assert_eq!(messages(0, &[(20, &[0, 1], 50), (40, &[0, 1, 2, 3], 9)]), ["u2", "u2 a1 u1"]);
        assert_eq!(
            messages(0, &[(20, &[0, 1], 50), (43, &[0, 1, 2, 3], 9), (60, &[0, 1, 2, 3, 4, 5], 1)]),
            ["u2", "u2 a2 u0", "u2 a3 u1"]
        );
        // A prompt that was sent before as a part of a longer one, and prompts with hardly a block.
        assert_eq!(messages(0, &[(20, &[0, 1], 10), (40, &[0, 1, 2, 3], 9), (30, &[0, 1, 2], 1)]), ["u2", "u2 a1 u1", "!u3"]);
        assert_eq!(messages(500, &[(20, &[0, 1], 1)]), ["s1 u1"]);
        assert_eq!(messages(500, &[(10, &[0], 1)]), ["u1"]);
        assert_eq!(messages(500, &[(7, &[], 1), (27, &[3, 4], 1)]), ["u0", "s2 u0"]);
    }

    #[test]
    fn messages_have_the_blocks_of_the_prompt_in_their_order() {
        let mut prompt = blocks(47, &[4, 5, 6, 7]);
        assert!(prompt.messages().is_empty());
        StreamMessages::new(12).assign(&mut prompt, 1);
        assert_eq!(
            prompt.messages(),
            [(MessageRole::System, vec![(4, 10), (5, 10)]), (MessageRole::User, vec![(6, 10), (7, 10)])]
        );
        // Blocks beyond the stated messages, as of a file that was made by hand, are the last one's.
        prompt.messages = vec![BlockMessage(MessageRole::User, 1)];
        assert_eq!(prompt.messages(), [(MessageRole::User, vec![(4, 10), (5, 10), (6, 10), (7, 10)])]);
        StreamMessages::new(12).assign(&mut prompt, 1);
        prompt.truncate(19);
        assert_eq!(
            (prompt.ids.as_slice(), prompt.messages.as_slice()),
            (&[4][..], &[BlockMessage(MessageRole::System, 1), BlockMessage(MessageRole::User, 0)][..])
        );
    }

    #[test]
    fn the_form_of_messages_in_a_row_is_short() {
        let mut prompt = blocks(35, &[4, 5, 6]);
        StreamMessages::new(12).assign(&mut prompt, 1);
        let line = serde_json::to_string(&prompt).expect("JSON");
        insta::assert_snapshot!(line, @r#"{"tokens":35,"size":10,"ids":[4,5,6],"messages":[["system",2],["user",1]]}"#);
        assert_eq!(serde_json::from_str::<TokenBlocks>(&line).expect("a row"), prompt);
    }
}
