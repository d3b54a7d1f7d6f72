//! The links between the turns of a session of a trace: its streams, and which turns wait for which.

use super::RecordedPause;

/// The bytes of a turn's place in its session.
pub(super) const PLACE_BYTES: usize = 8 + LINK_BYTES;

/// The bytes of a link.
pub(super) const LINK_BYTES: usize = 6;

/// The links of a turn to others of its session, which are counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnLink {
    /// Its stream: 0 is the first of the session, and a subagent's is the next number.
    pub stream: u16,
    /// The turn that it comes after: the one before in its stream, or the one that spawned the stream; absent for the first of the session.
    pub after: Option<u16>,
    /// The turn of another stream that waits for its end, because it is the last of a subagent.
    pub joined_by: Option<u16>,
}

/// The place of a turn in its session of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TracePlace {
    pub(crate) pause: RecordedPause,
    pub(crate) link: TurnLink,
}

impl TracePlace {
    pub(crate) fn to_bytes(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..8].copy_from_slice(&self.pause.to_bytes());
        let TurnLink { stream, after, joined_by } = self.link;
        // No turn is joined by the first, so that 0 is none.
        let words = [stream, after.map_or(0, |turn| turn.saturating_add(1)), joined_by.unwrap_or(0)];
        bytes[8..].as_chunks_mut::<2>().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        bytes
    }
}

impl TurnLink {
    pub(super) fn from_bytes(bytes: [u8; LINK_BYTES]) -> Self {
        let words = bytes.as_chunks::<2>().0;
        let word = |place: usize| words.get(place).map_or(0, |word| u16::from_le_bytes(*word));
        Self { stream: word(0), after: word(1).checked_sub(1), joined_by: Some(word(2)).filter(|turn| *turn > 0) }
    }
}

/// The links of one row, in both directions. Turns are counted from 0, and the turns that come after one are a chain, of which 0 is the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowLinks {
    link: TurnLink,
    /// The first turn that comes after it, and the next one that comes after the same turn.
    followed_by: u16,
    next_follower: u16,
    /// The number of subagents that it joins.
    joined: u16,
}

/// The links of all rows of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    rows: Vec<RowLinks>,
    /// The most streams of a session.
    most_streams: u32,
}

/// The session that is being added.
#[derive(Debug, Default)]
pub(super) struct OpenSession {
    first_row: usize,
    turns: u16,
    /// The last turn of each stream so far.
    latest: Vec<u16>,
    /// The turns that join others, with those.
    joins: Vec<(u16, u16)>,
}

impl Links {
    /// Adds the link of a row, the first of a session or not. Returns false if it cannot be.
    pub(super) fn add(&mut self, session: &mut OpenSession, link: TurnLink, is_first: bool) -> bool {
        if is_first {
            if !self.close(session) {
                return false;
            }
            *session = OpenSession { first_row: self.rows.len(), ..OpenSession::default() };
        }
        let turn = session.turns;
        session.turns = turn.saturating_add(1);
        let stream = usize::from(link.stream);
        let is_new = stream == session.latest.len();
        let follows = match (link.after, session.latest.get(stream)) {
            (None, None) => is_first && is_new,
            (Some(after), None) => is_new && after < turn,
            (after, Some(latest)) => after == Some(*latest),
        };
        if !follows || link.joined_by.is_some_and(|joiner| joiner <= turn) {
            return false;
        }
        match session.latest.get_mut(stream) {
            Some(latest) => *latest = turn,
            None => session.latest.push(turn),
        }
        self.most_streams = self.most_streams.max(session.latest.len() as u32);
        let mut row = RowLinks { link, ..RowLinks::default() };
        if let Some(after) = link.after.and_then(|after| self.rows.get_mut(session.first_row + usize::from(after))) {
            row.next_follower = std::mem::replace(&mut after.followed_by, turn);
        }
        session.joins.extend(link.joined_by.map(|joiner| (joiner, turn)));
        self.rows.push(row);
        true
    }

    /// Links the turns of a session that join others to those. Returns false if one of them cannot be: each waits for the last turns of
    /// other streams.
    pub(super) fn close(&mut self, session: &mut OpenSession) -> bool {
        for (joiner, turn) in session.joins.drain(..) {
            let place = |turn: u16| session.first_row + usize::from(turn);
            let stream = self.rows.get(place(turn)).map_or(0, |row| row.link.stream);
            let is_last = session.latest.get(usize::from(stream)) == Some(&turn);
            let Some(row) = self.rows.get_mut(place(joiner)).filter(|row| is_last && row.link.stream != stream) else {
                return false;
            };
            row.joined += 1;
        }
        true
    }

    fn row(&self, first_row: u64, turn: u16) -> Option<&RowLinks> {
        self.rows.get(usize::try_from(first_row).ok()?.checked_add(usize::from(turn))?)
    }

    pub(super) fn link(&self, first_row: u64, turn: u16) -> Option<TurnLink> {
        self.row(first_row, turn).map(|row| row.link)
    }

    pub(super) fn most_streams(&self) -> u32 {
        self.most_streams
    }

    /// Returns the turns that wait for a turn, each with the number of turns that it waits for.
    pub(super) fn followers(&self, first_row: u64, turn: u16) -> impl Iterator<Item = (u16, u32)> {
        let own = self.row(first_row, turn).copied().unwrap_or_default();
        let next = move |turn: &u16| self.row(first_row, *turn).map(|row| row.next_follower).filter(|next| *next > 0);
        let chain = std::iter::successors(Some(own.followed_by).filter(|first| *first > 0), next);
        let waits = move |turn: u16| 1 + u32::from(self.row(first_row, turn).map_or(0, |row| row.joined));
        chain.chain(own.link.joined_by).map(move |turn| (turn, waits(turn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(stream: u16, after: Option<u16>, joined_by: Option<u16>) -> TurnLink {
        TurnLink { stream, after, joined_by }
    }

    /// Returns the links of sessions; `None` if they cannot be.
    fn links(sessions: &[&[TurnLink]]) -> Option<Links> {
        let (mut links, mut session) = (Links::default(), OpenSession::default());
        for turns in sessions {
            let mut added = turns.iter().enumerate().map(|(turn, link)| links.add(&mut session, *link, turn == 0));
            added.all(|is_added| is_added).then_some(())?;
        }
        links.close(&mut session).then_some(links)
    }

    /// Turn 0 spawns two subagents: turns 1 and 3, which turn 4 joins, and turn 2, which nothing waits for.
    fn forked() -> [TurnLink; 5] {
        [link(0, None, None), link(1, Some(0), None), link(2, Some(0), None), link(1, Some(1), Some(4)), link(0, Some(0), None)]
    }

    #[test]
    fn the_turns_that_wait_for_another_are_found_with_the_number_that_each_waits_for() {
        let links = links(&[&[link(0, None, None)], &forked()]).expect("links");
        let followers = |turn| {
            let mut found: Vec<_> = links.followers(1, turn).collect();
            found.sort_unstable();
            found
        };
        assert_eq!([0, 1, 2, 3, 4].map(followers), [vec![(1, 1), (2, 1), (4, 2)], vec![(3, 1)], vec![], vec![(4, 2)], vec![]]);
        assert_eq!((links.followers(0, 0).count(), links.most_streams()), (0, 3));
    }

    #[test]
    fn a_circle_and_other_links_that_cannot_be_are_refused() {
        let with = |turn: usize, changed: TurnLink| {
            let mut turns = forked();
            turns[turn] = changed;
            links(&[&turns]).is_some()
        };
        assert!(with(4, forked()[4]));
        assert!(!with(1, link(1, Some(3), None)), "turn 3 waits for turn 1");
        assert!(!with(1, link(1, Some(1), None)), "it waits for itself");
        assert!(!with(3, link(1, Some(1), Some(2))), "turn 2 is before it");
        assert!(!with(3, link(1, Some(0), Some(4))), "two turns of a stream would overlap");
        assert!(!with(4, link(0, Some(3), None)), "it does not follow its stream");
        assert!(!with(2, link(3, Some(0), None)), "stream 2 is missing");
        assert!(!with(1, link(1, Some(0), Some(4))), "it is not the last of its stream");
        assert!(!with(3, link(1, Some(1), Some(9))), "there is no turn 9");
        assert!(!with(0, link(0, Some(0), None)), "the first waits for nothing");
        assert!(!with(2, link(0, Some(0), Some(4))), "its own stream does not join it");
        assert!(links(&[&[link(1, None, None)]]).is_none(), "the first stream is 0");
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for link in [link(0, None, None), link(7, Some(0), Some(9)), link(u16::MAX, Some(9_999), None)] {
            let pause = RecordedPause { ns: 5, is_tool: true };
            let bytes = TracePlace { pause, link }.to_bytes();
            assert_eq!(bytes.split_last_chunk::<LINK_BYTES>().map(|(_, bytes)| TurnLink::from_bytes(*bytes)), Some(link));
        }
    }
}
