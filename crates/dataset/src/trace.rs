//! The times and the blocks of a trace, over all of its rows.

use std::collections::{HashMap, VecDeque};

use assay_manifest::{BlockSummary, Count, Digest, TraceTimes};

use crate::{DatasetError, RowTime, TokenBlocks};

/// The most different blocks of a trace, and the most different prefixes of whole blocks.
pub const MAX_BLOCKS: usize = 10_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// The key of the sample's draws.
const SAMPLE: &[u8] = b"assay.dev/trace-sample/v1";

/// The rules by which the times of a trace are used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeRules {
    /// The start of the window since the first row of the file, in nanoseconds. It is the start of the replay.
    pub from_ns: u64,
    /// The end of the window; rows at it are outside.
    pub to_ns: Option<u64>,
    /// The longest gap between two kept rows, and from the start of the window to the first, in nanoseconds. What a gap has more is taken out.
    /// With sessions it is the longest pause before a later turn instead.
    pub max_gap_ns: Option<u64>,
    /// The longest pause after a response that called a tool, in nanoseconds; `max_gap_ns` if it is absent.
    pub max_tool_ns: Option<u64>,
    /// The share of sessions that is kept, or of rows if the trace names no sessions. A smaller sample is a part of a larger one.
    pub sample: Option<f64>,
}

/// The times of kept rows, one after the other.
pub(crate) struct Timeline {
    rules: TimeRules,
    /// The times of the first row and of the last one, as the file has them.
    first_and_last: Option<(i64, i64)>,
    /// The time of the last kept row since the start of the window, with its gaps as they were.
    kept_ns: u64,
    /// The times of the kept rows of the last second.
    last_second: VecDeque<u64>,
    summary: TraceTimes,
}

impl Timeline {
    pub(crate) fn new(rules: TimeRules) -> Self {
        Self { rules, first_and_last: None, kept_ns: 0, last_second: VecDeque::new(), summary: TraceTimes::default() }
    }

    /// Returns the time of a row since the start of the window, if the rules keep it.
    pub(crate) fn admit(&mut self, row: u64, time: Option<RowTime>) -> Result<Option<u64>, DatasetError> {
        let time = time.ok_or_else(|| DatasetError::row(row, "has no time"))?;
        let (first, last) = self.first_and_last.unwrap_or((time.at_ns, time.at_ns));
        if time.at_ns < last {
            return Err(DatasetError::row(row, "is earlier than the row before it: sort the file by time"));
        }
        self.first_and_last = Some((first, time.at_ns));
        let since_first = time.at_ns.abs_diff(first);
        let is_inside = since_first >= self.rules.from_ns && self.rules.to_ns.is_none_or(|to_ns| since_first < to_ns);
        if !is_inside {
            self.summary.outside_window.0 += 1;
            return Ok(None);
        }
        if self.rules.sample.is_some_and(|share| !is_sampled(time.session.unwrap_or(row), share)) {
            self.summary.not_sampled.0 += 1;
            return Ok(None);
        }
        Ok(Some(since_first - self.rules.from_ns))
    }

    /// Returns the time at which an admitted row is replayed at its own speed.
    pub(crate) fn place(&mut self, admitted_ns: u64) -> u64 {
        let gap = admitted_ns.saturating_sub(self.kept_ns);
        let over = self.rules.max_gap_ns.map_or(0, |max| gap.saturating_sub(max));
        if over > 0 {
            self.summary.gaps_cut.0 += 1;
            self.summary.cut_ns.0 += over;
        }
        self.kept_ns = admitted_ns;
        let at_ns = admitted_ns.saturating_sub(self.summary.cut_ns.0);
        self.count(at_ns);
        at_ns
    }

    /// Counts a row that is kept at this time, which is none before those counted so far.
    pub(crate) fn count(&mut self, at_ns: u64) {
        self.summary.span_ns = Count(at_ns);
        self.last_second.push_back(at_ns);
        while self.last_second.front().is_some_and(|first| at_ns - first >= SECOND_NS) {
            self.last_second.pop_front();
        }
        self.summary.busiest_second.0 = self.summary.busiest_second.0.max(self.last_second.len() as u64);
    }

    /// Counts the rows of a session whose start is not recorded, at their times since it began.
    pub(crate) fn count_session(&mut self, times_ns: impl Iterator<Item = u64>) {
        let longest_ns = self.summary.span_ns.0;
        self.last_second.clear();
        times_ns.for_each(|at_ns| self.count(at_ns));
        self.summary.span_ns.0 = self.summary.span_ns.0.max(longest_ns);
    }

    /// Returns the numbers so far, for those that are counted elsewhere.
    pub(crate) fn summary(&mut self) -> &mut TraceTimes {
        &mut self.summary
    }

    pub(crate) fn finish(self) -> TraceTimes {
        self.summary
    }
}

/// Returns true for this share of all units. The draw depends on the unit alone.
pub(crate) fn is_sampled(unit: u64, share: f64) -> bool {
    let digest = Digest::compute(&[SAMPLE, &unit.to_le_bytes()].concat());
    let draw = digest.as_bytes().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    // The draw as one of 2^53 equally spaced numbers in [0, 1).
    ((draw >> 11) as f64) / ((1_u64 << 53) as f64) < share
}

/// The blocks of kept rows, as a tree: a node is a block under the block before it.
#[derive(Default)]
pub(crate) struct BlockTree {
    /// The tokens of each block, by its scope and its id. Blocks without a scope have scope 0.
    tokens: HashMap<(u64, u64), u32>,
    nodes: HashMap<(u64, u32, u64), u32>,
    /// The rows so far.
    rows: u64,
    summary: BlockSummary,
}

impl BlockTree {
    /// Adds the blocks of a row, and returns the number of its leading tokens that an earlier row has as well.
    pub(crate) fn add(&mut self, row: u64, blocks: &TokenBlocks) -> Result<u32, DatasetError> {
        let is_first = self.rows == 0;
        self.rows += 1;
        if is_first {
            self.summary.tokens = blocks.size;
        } else if self.summary.tokens != blocks.size {
            self.summary.tokens = 0;
        }
        self.summary.rows_without.0 += u64::from(blocks.ids.is_empty());
        let (mut parent, mut reused, mut is_known) = (0, 0, true);
        let scope = blocks.scope.unwrap_or(0);
        for (id, tokens) in blocks.blocks() {
            let first = *self.tokens.entry((scope, id)).or_insert(tokens);
            if first != tokens {
                let problem = format!(
                    "has block {id} with {tokens} tokens, and an earlier request has it with {first}: the trace is damaged, its blocks do \
                     not have {} tokens, or a partial last block has no id of its own",
                    blocks.size
                );
                return Err(DatasetError::row(row, problem));
            }
            let new = self.nodes.len() as u32 + 1;
            let node = *self.nodes.entry((scope, parent, id)).or_insert(new);
            is_known &= node != new;
            reused += if is_known { tokens } else { 0 };
            parent = node;
        }
        if self.nodes.len() > MAX_BLOCKS {
            return Err(DatasetError::TooManyBlocks);
        }
        self.summary.reused_tokens.0 += u64::from(reused);
        Ok(reused)
    }

    /// Returns the numbers of the blocks; `None` if no row has any.
    pub(crate) fn finish(self) -> Option<BlockSummary> {
        (!self.nodes.is_empty()).then_some(BlockSummary { distinct: Count(self.tokens.len() as u64), ..self.summary })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(at_ns: i64) -> RowTime {
        RowTime { at_ns, session: None }
    }

    fn placed(rules: TimeRules, times: &[i64]) -> (Vec<u64>, TraceTimes) {
        let mut timeline = Timeline::new(rules);
        let mut kept = Vec::new();
        for (row, at_ns) in (1..).zip(times) {
            if let Some(admitted) = timeline.admit(row, Some(time(*at_ns))).expect("in order") {
                kept.push(timeline.place(admitted));
            }
        }
        (kept, timeline.finish())
    }

    #[test]
    fn a_window_is_replayed_from_its_start() {
        let rules = TimeRules { from_ns: 10, to_ns: Some(30), ..TimeRules::default() };
        // Since the first row: 0, 9, 10, 12, 29 and 30.
        let (kept, summary) = placed(rules, &[100, 109, 110, 112, 129, 130]);
        assert_eq!(kept, [0, 2, 19]);
        assert_eq!((summary.outside_window, summary.span_ns, summary.busiest_second), (Count(3), Count(19), Count(3)));
    }

    #[test]
    fn long_gaps_are_cut_and_counted() {
        let rules = TimeRules { max_gap_ns: Some(5), ..TimeRules::default() };
        let (kept, summary) = placed(rules, &[7, 8, 20, 25, 40]);
        assert_eq!(kept, [0, 1, 6, 11, 16]);
        assert_eq!((summary.gaps_cut, summary.cut_ns, summary.span_ns), (Count(2), Count(17), Count(16)));
    }

    #[test]
    fn the_busiest_second_begins_anywhere() {
        let second = 1_000_000_000;
        let (_, summary) = placed(TimeRules::default(), &[0, second - 2, second - 1, second, second + 1, 3 * second]);
        assert_eq!(summary.busiest_second, Count(4), "those from just before the second to just after it");
        let (_, summary) = placed(TimeRules::default(), &[0, second, 2 * second]);
        assert_eq!(summary.busiest_second, Count(1));
    }

    #[test]
    fn a_sample_keeps_whole_sessions_and_smaller_ones_lie_within_larger_ones() {
        let kept = |share| (0..10_000_u64).filter(|unit| is_sampled(*unit, share)).collect::<std::collections::BTreeSet<_>>();
        let (tenth, half) = (kept(0.1), kept(0.5));
        // Four standard errors of a share of a tenth: 4 x sqrt(10,000 x 0.09) = 120.
        assert!((880..=1_120).contains(&tenth.len()), "{}", tenth.len());
        assert!(tenth.is_subset(&half));
        assert_eq!(kept(1.0).len(), 10_000);
        let mut timeline = Timeline::new(TimeRules { sample: Some(0.5), ..TimeRules::default() });
        let mut of_session =
            |row, session| timeline.admit(row, Some(RowTime { at_ns: 0, session: Some(session) })).expect("in order").is_some();
        for session in 0..100 {
            assert_eq!(of_session(1, session), of_session(2, session));
        }
    }

    #[test]
    fn a_row_without_a_time_or_before_its_predecessor_is_refused() {
        let mut timeline = Timeline::new(TimeRules::default());
        assert_eq!(timeline.admit(4, None).expect_err("no time").to_string(), "row 4 has no time");
        timeline.admit(5, Some(time(10))).expect("the first");
        let error = timeline.admit(6, Some(time(9))).expect_err("earlier").to_string();
        assert_eq!(error, "row 6 is earlier than the row before it: sort the file by time");
    }

    #[test]
    fn reuse_is_of_leading_blocks_under_the_same_blocks() {
        let mut tree = BlockTree::default();
        let blocks = |tokens, ids: &[u64]| TokenBlocks { tokens, size: 10, ids: ids.to_vec(), scope: None, messages: Vec::new() };
        let reused: Vec<u32> =
            [blocks(25, &[1, 2, 3]), blocks(25, &[1, 2, 3]), blocks(24, &[1, 2, 4]), blocks(20, &[2, 1]), blocks(9, &[])]
                .iter()
                .map(|row| tree.add(1, row).expect("sound"))
                .collect();
        // Blocks 2 and 1 of the fourth row were sent before, but not at the start of a prompt.
        assert_eq!(reused, [0, 25, 20, 0, 0]);
        let summary = tree.finish().expect("blocks");
        assert_eq!((summary.distinct, summary.rows_without, summary.reused_tokens), (Count(4), Count(1), Count(45)));
    }

    #[test]
    fn a_block_of_two_sizes_is_refused() {
        let mut tree = BlockTree::default();
        tree.add(1, &TokenBlocks { tokens: 25, size: 10, ids: vec![1, 2, 3], scope: None, messages: Vec::new() }).expect("sound");
        let error = tree
            .add(2, &TokenBlocks { tokens: 30, size: 10, ids: vec![1, 2, 3], scope: None, messages: Vec::new() })
            .expect_err("damaged")
            .to_string();
        assert!(error.starts_with("row 2 has block 3 with 10 tokens, and an earlier request has it with 5"), "{error}");
    }
}
