//! The truth about every request: its planned and its sent chunks, by the monotonic clock of the host.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::Channel;

/// A line of the truth, in `GET /truth` and `--truth FILE`. The last line is always a [`TruthEnd`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Truth {
    /// The truth about one request.
    Request(RequestTruth),
    /// A summary of the lines before.
    End(TruthEnd),
}

/// The plan of one request and its outcome. Instants are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTruth {
    /// Its index among the requests that ended, from 1.
    pub number: u64,
    /// Its `x-request-id`, or the one that it was given.
    pub request_id: String,
    /// The path of the request.
    pub path: String,
    /// True if a stream was requested. Otherwise there is one chunk: the response, planned for its last token.
    pub stream: bool,
    /// The injected fault, if any, in the notation of `x-assay-fault`.
    pub fault: Option<String>,
    /// The way in which it ended.
    pub ending: Ending,
    /// The status of the response; absent if there was none.
    pub status: Option<u16>,
    /// The finish reason: `stop` or `length`; absent if the response was cut short.
    pub finish_reason: Option<String>,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Those that were found in the prefix cache.
    pub cached_tokens: u32,
    /// Those after them that had been in the prefix cache and were evicted: a cache without limit would have found these, too.
    pub evicted_tokens: u32,
    /// Blocks that were evicted from the prefix cache to make room for its prompt.
    pub evictions: u32,
    /// The number of its preemptions.
    pub preemptions: u32,
    /// Tokens that were planned for its response.
    pub output_tokens: u32,
    /// Those of them that are reasoning.
    pub reasoning_tokens: u32,
    /// The instant at which its head and body were read completely.
    pub arrived_ns: i64,
    /// The planned instant at which it left the queue.
    pub admitted_ns: Option<i64>,
    /// Its chunks in their order.
    pub chunks: Vec<ChunkTruth>,
    /// The instant before the write of the data after the last chunk (usage, `[DONE]`), or of the response itself if it was not
    /// streamed; or the instant at which it was aborted.
    pub end_ns: i64,
}

/// The planned and the actual time of one chunk, written as `[planned_ns, actual_ns, tokens, channel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ChunkRow", into = "ChunkRow")]
pub struct ChunkTruth {
    /// The planned instant.
    pub planned_ns: i64,
    /// The instant before the write of its first byte; absent if the connection was already gone.
    pub actual_ns: Option<i64>,
    /// Its tokens.
    pub tokens: u32,
    /// The channel of its tokens.
    pub channel: Channel,
}

type ChunkRow = (i64, Option<i64>, u32, Channel);

impl From<ChunkRow> for ChunkTruth {
    fn from((planned_ns, actual_ns, tokens, channel): ChunkRow) -> Self {
        Self { planned_ns, actual_ns, tokens, channel }
    }
}

impl From<ChunkTruth> for ChunkRow {
    fn from(chunk: ChunkTruth) -> Self {
        (chunk.planned_ns, chunk.actual_ns, chunk.tokens, chunk.channel)
    }
}

/// The way in which a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its response was sent completely, including faults within it.
    Finished,
    /// Its fault ended it.
    Fault,
    /// Its client left, or read too slowly.
    Aborted,
    /// The endpoint was stopped.
    Stopped,
}

/// A summary of the lines before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthEnd {
    /// The number of the last line before; pass it as `since` the next time.
    pub last: u64,
    /// Requests that ended so far.
    pub ended: u64,
    /// Those of them after `since` whose truth was dropped before it could be returned, because there was no room.
    pub dropped: u64,
    /// True if there are more lines to request.
    pub more: bool,
}

/// The latest truths, within bounds.
pub(crate) struct TruthRing {
    rows: VecDeque<RequestTruth>,
    chunks: usize,
    ended: u64,
    max_rows: usize,
    max_chunks: usize,
}

/// The maximum chunks of one response to `GET /truth`: it is rendered on the thread that sends chunks.
const CHUNKS_AT_A_TIME: usize = 100_000;

/// The maximum requests of one such response.
const ROWS_AT_A_TIME: usize = 20_000;

impl TruthRing {
    pub(crate) fn new(max_rows: usize, max_chunks: usize) -> Self {
        Self { rows: VecDeque::new(), chunks: 0, ended: 0, max_rows, max_chunks }
    }

    /// Adds the truth about a request that has ended, numbers it, and drops the oldest if there is no room.
    pub(crate) fn push(&mut self, mut row: RequestTruth) -> &RequestTruth {
        self.ended += 1;
        row.number = self.ended;
        self.chunks += row.chunks.len();
        self.rows.push_back(row);
        while self.rows.len() > 1 && (self.rows.len() > self.max_rows || self.chunks > self.max_chunks) {
            self.chunks -= self.rows.pop_front().map_or(0, |oldest| oldest.chunks.len());
        }
        &self.rows[self.rows.len() - 1]
    }

    /// Returns the number of dropped truths.
    pub(crate) fn dropped(&self) -> u64 {
        self.ended - self.rows.len() as u64
    }

    /// Returns the lines after `since`, up to the maximum of one response, and their summary.
    pub(crate) fn since(&self, since: u64) -> (impl Iterator<Item = &RequestTruth>, TruthEnd) {
        let gone = self.dropped();
        let skip = since.saturating_sub(gone).min(self.rows.len() as u64) as usize;
        let mut chunks = 0;
        let fits = |row: &&RequestTruth| {
            chunks += row.chunks.len();
            chunks <= CHUNKS_AT_A_TIME
        };
        // One row always fits, or a reader would never get past it.
        let count = self.rows.iter().skip(skip).take(ROWS_AT_A_TIME).take_while(fits).count().max(1);
        let count = count.min(self.rows.len() - skip);
        let last = if count == 0 { since.min(self.ended) } else { gone + (skip + count) as u64 };
        let end = TruthEnd { last, ended: self.ended, dropped: gone.saturating_sub(since), more: last < self.ended };
        (self.rows.iter().skip(skip).take(count), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, chunks: usize) -> RequestTruth {
        let chunk = ChunkTruth { planned_ns: 5, actual_ns: Some(6), tokens: 2, channel: Channel::Content };
        RequestTruth {
            number: 0,
            request_id: id.to_owned(),
            path: "/v1/completions".to_owned(),
            stream: true,
            fault: None,
            ending: Ending::Finished,
            status: Some(200),
            finish_reason: Some("length".to_owned()),
            prompt_tokens: 3,
            cached_tokens: 0,
            evicted_tokens: 0,
            evictions: 0,
            preemptions: 0,
            output_tokens: 2,
            reasoning_tokens: 0,
            arrived_ns: 1,
            admitted_ns: Some(1),
            chunks: vec![chunk; chunks],
            end_ns: 7,
        }
    }

    fn told(ring: &TruthRing, since: u64) -> (Vec<&str>, TruthEnd) {
        let (rows, end) = ring.since(since);
        (rows.map(|row| row.request_id.as_str()).collect(), end)
    }

    #[test]
    fn what_has_no_room_goes_and_is_counted() {
        let mut ring = TruthRing::new(2, 1_000);
        assert_eq!(told(&ring, 0), (vec![], TruthEnd { last: 0, ended: 0, dropped: 0, more: false }));
        for id in ["a", "b", "c"] {
            ring.push(row(id, 1));
        }
        assert_eq!(told(&ring, 0), (vec!["b", "c"], TruthEnd { last: 3, ended: 3, dropped: 1, more: false }));
        assert_eq!(told(&ring, 2), (vec!["c"], TruthEnd { last: 3, ended: 3, dropped: 0, more: false }));
        assert_eq!(told(&ring, 9), (vec![], TruthEnd { last: 3, ended: 3, dropped: 0, more: false }));
    }

    #[test]
    fn chunks_are_bounded_as_well_and_a_large_response_comes_in_parts() {
        let mut ring = TruthRing::new(100, 250_000);
        for id in ["a", "b", "c", "d"] {
            ring.push(row(id, 80_000));
        }
        assert_eq!(told(&ring, 0), (vec!["b"], TruthEnd { last: 2, ended: 4, dropped: 1, more: true }));
        assert_eq!(told(&ring, 3), (vec!["d"], TruthEnd { last: 4, ended: 4, dropped: 0, more: false }));
    }

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let line = Truth::Request(row("a", 1));
        let text = serde_json::to_string(&line).expect("JSON");
        assert!(text.starts_with(r#"{"kind":"request","number":0,"request_id":"a","#), "{text}");
        assert!(text.contains(r#""chunks":[[5,6,2,"content"]]"#), "{text}");
        assert_eq!(serde_json::from_str::<Truth>(&text).expect("a truth"), line);
    }
}
