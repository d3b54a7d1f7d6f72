//! Parses server-sent events, by the specification: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use std::ops::ControlFlow;

/// The maximum bytes of one line, and of the data of one event: the text of a response in one event is far smaller.
pub const MAX_EVENT_BYTES: usize = 1 << 20;
/// Buffers larger than this are freed at the end of a stream.
const KEEP_BYTES: usize = 16 << 10;
/// The byte order mark that a stream may begin with; it is ignored.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The data lines, joined by line feeds.
    pub data: &'a [u8],
    /// True if its type is `error`.
    pub is_error: bool,
}

/// The reason why a stream was not read to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum StopReason<B> {
    /// A line, or the data of an event, is longer than [`MAX_EVENT_BYTES`].
    TooLong,
    /// The callback stopped.
    Callback(B),
}

/// An incremental parser of a stream. Complete lines are passed on without a copy; only incomplete ones are kept.
#[derive(Debug, Default)]
pub struct Stream {
    /// The received start of an incomplete line.
    line: Vec<u8>,
    /// The copied data of the current event.
    data: Vec<u8>,
    /// True if the current event has a data line.
    has_data: bool,
    /// True if the type of the current event is `error`.
    is_error: bool,
    /// True if the last byte was a carriage return, so that a following line feed belongs to it.
    after_return: bool,
    /// True after the first line, from which on a byte order mark has no meaning.
    started: bool,
}

/// A parsed line.
enum Line<'a> {
    Blank,
    Data(&'a [u8]),
    Type {
        is_error: bool,
    },
    /// A comment, or a field that is not used here.
    Other,
}

impl Stream {
    /// Prepares for another stream.
    pub(crate) fn reset(&mut self) {
        let (line, data) = (clear_for_reuse(&mut self.line), clear_for_reuse(&mut self.data));
        *self = Self { line, data, ..Self::default() };
    }

    /// Returns the bytes of its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        self.line.capacity() + self.data.capacity()
    }

    /// Parses the next piece and calls `event` with each event that it completes. An event that is cut by the end of the stream
    /// is dropped.
    ///
    /// # Errors
    /// If a line or an event is too long, or if `event` stops. Nothing more is read of the stream then.
    #[inline]
    pub fn take<B>(&mut self, piece: &[u8], mut event: impl FnMut(Event<'_>) -> ControlFlow<B>) -> Result<(), StopReason<B>> {
        // The first data line of the current event while it is complete in this piece: nearly every event is just that.
        let mut whole: Option<&[u8]> = None;
        let mut rest = piece;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let (head, ending) = rest.split_at(end);
            if head.len() > MAX_EVENT_BYTES {
                return Err(StopReason::TooLong);
            }
            rest = self.after_ending(ending);
            if !self.line.is_empty() {
                self.finish_line(head, &mut whole)?;
                continue;
            }
            match self.read(head) {
                Line::Blank => self.dispatch(&mut whole, &mut event)?,
                Line::Data(data) if !self.has_data => {
                    self.has_data = true;
                    whole = Some(data);
                }
                Line::Data(data) => self.add_data(data, &mut whole)?,
                Line::Type { is_error } => self.is_error = is_error,
                Line::Other => {}
            }
        }
        self.keep(&mut whole)?;
        grow(&mut self.line, rest)
    }

    /// Returns the bytes after a line's ending. A carriage return ends the line at once, without waiting for its line feed.
    fn after_ending<'a>(&mut self, ending: &'a [u8]) -> &'a [u8] {
        match ending {
            [b'\r'] => {
                self.after_return = true;
                &[]
            }
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => &[],
        }
    }

    /// Completes a line whose start was kept.
    #[cold]
    fn finish_line<B>(&mut self, head: &[u8], whole: &mut Option<&[u8]>) -> Result<(), StopReason<B>> {
        grow(&mut self.line, head)?;
        let mut line = std::mem::take(&mut self.line);
        match self.read(&line) {
            Line::Data(data) => self.add_data(data, whole)?,
            Line::Type { is_error } => self.is_error = is_error,
            // Only a lone byte order mark reads as blank here, and no event comes before it.
            Line::Blank | Line::Other => {}
        }
        line.clear();
        self.line = line;
        Ok(())
    }

    fn dispatch<B>(
        &mut self,
        whole: &mut Option<&[u8]>,
        event: &mut impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> Result<(), StopReason<B>> {
        let is_error = std::mem::take(&mut self.is_error);
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let flow = event(Event { data: whole.take().unwrap_or(&self.data), is_error });
        self.data.clear();
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(why) => Err(StopReason::Callback(why)),
        }
    }

    /// Adds a further data line to the current event.
    fn add_data<B>(&mut self, data: &[u8], whole: &mut Option<&[u8]>) -> Result<(), StopReason<B>> {
        self.keep(whole)?;
        if self.has_data {
            grow(&mut self.data, b"\n")?;
        }
        self.has_data = true;
        grow(&mut self.data, data)
    }

    /// Copies the data that the piece holds, because the piece ends or more data follows.
    fn keep<B>(&mut self, whole: &mut Option<&[u8]>) -> Result<(), StopReason<B>> {
        whole.take().map_or(Ok(()), |data| grow(&mut self.data, data))
    }

    fn read<'a>(&mut self, line: &'a [u8]) -> Line<'a> {
        let started = std::mem::replace(&mut self.started, true);
        read(if started { line } else { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) })
    }
}

fn read(line: &[u8]) -> Line<'_> {
    if let Some(value) = field(line, b"data") {
        return Line::Data(value);
    }
    if line.is_empty() {
        return Line::Blank;
    }
    field(line, b"event").map_or(Line::Other, |value| Line::Type { is_error: value == b"error" })
}

/// Returns the value of a line if it has this field: the text after the colon, less one space; empty if there is no colon.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

fn grow<B>(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), StopReason<B>> {
    if buffer.len() + bytes.len() > MAX_EVENT_BYTES {
        return Err(StopReason::TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

/// Empties a buffer for reuse; a large one is freed.
pub(crate) fn clear_for_reuse(buffer: &mut Vec<u8>) -> Vec<u8> {
    let mut buffer = std::mem::take(buffer);
    if buffer.capacity() > KEEP_BYTES {
        return Vec::new();
    }
    buffer.clear();
    buffer
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Returns the events of a stream that comes in these pieces; those of type `error` are marked.
    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut stream = Stream::default();
        let mut events = Vec::new();
        for piece in pieces {
            let taken = stream.take(piece, |event| {
                let mark = if event.is_error { "!" } else { "" };
                events.push(format!("{mark}{}", String::from_utf8_lossy(event.data)));
                ControlFlow::<Infallible>::Continue(())
            });
            assert_eq!(taken, Ok(()));
        }
        events
    }

    fn parse_events(text: &str) -> Vec<String> {
        events([text.as_bytes()])
    }

    #[test]
    fn events_end_at_blank_lines_of_any_kind() {
        assert_eq!(parse_events("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d"), ["a", "b", "c"]);
        assert_eq!(parse_events("data: a\n\r\ndata: b\r\n\n"), ["a", "b"]);
    }

    #[test]
    fn data_lines_are_joined_and_lose_one_space() {
        assert_eq!(parse_events("data:  a\ndata:b\ndata\ndata: \n\n"), [" a\nb\n\n"]);
        assert_eq!(parse_events("data\n\n"), [""]);
    }

    #[test]
    fn comments_other_fields_and_empty_events_say_nothing() {
        assert_eq!(parse_events(": ping\n\nid: 1\nretry: 5\n\ndatum: x\n\n:\ndata: a\nDATA: b\n\n"), ["a"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once() {
        assert_eq!(parse_events("\u{feff}data: a\n\n\u{feff}data: b\n\n"), ["a"]);
        assert_eq!(parse_events("\u{feff}\ndata: a\n\n"), ["a"]);
    }

    #[test]
    fn the_type_holds_for_one_event() {
        assert_eq!(
            parse_events("event: error\ndata: a\n\ndata: b\n\nevent: error\nevent: x\ndata: c\n\nevent: error\n\ndata: d\n\n"),
            ["!a", "b", "c", "d"]
        );
    }

    #[test]
    fn an_event_without_its_blank_line_is_none() {
        assert_eq!(parse_events("data: a\n"), Vec::<String>::new());
    }

    #[test]
    fn lines_and_events_have_a_limit() {
        let mut stream = Stream::default();
        let mut taken = Ok(());
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..=MAX_EVENT_BYTES / piece.len() {
            taken = stream.take(&piece, |_| ControlFlow::<Infallible>::Continue(()));
        }
        assert_eq!(taken, Err(StopReason::TooLong));
        assert!(stream.line.len() <= MAX_EVENT_BYTES);

        let mut stream = Stream::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let mut taken = Ok(());
        for _ in 0..=MAX_EVENT_BYTES / piece.len() {
            taken = stream.take(&line, |_| ControlFlow::<Infallible>::Continue(()));
        }
        assert_eq!(taken, Err(StopReason::TooLong));
        assert!(stream.data.len() <= MAX_EVENT_BYTES);
    }

    #[test]
    fn a_line_has_the_same_limit_however_it_is_cut() {
        for (length, is_taken) in [(MAX_EVENT_BYTES, true), (MAX_EVENT_BYTES + 1, false)] {
            let line = [b"data: ".as_slice(), &vec![b'x'; length - 6], b"\n\n"].concat();
            for piece in [line.len(), 1 << 16] {
                let mut stream = Stream::default();
                let taken =
                    line.chunks(piece).try_for_each(|piece| stream.take(piece, |_| ControlFlow::<Infallible>::Continue(())));
                assert_eq!(taken.is_ok(), is_taken, "{length} bytes in pieces of {piece}");
            }
        }
    }

    #[test]
    fn the_taker_may_stop() {
        let mut stream = Stream::default();
        let stopped = stream.take(b"data: a\n\ndata: b\n\n", |event| ControlFlow::Break(event.data.to_vec()));
        assert_eq!(stopped, Err(StopReason::Callback(b"a".to_vec())));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            text in proptest::collection::vec(proptest::sample::select(vec!["data: a", "data:", "data", "\n", "\r", "\r\n", ":c", "event: error", "\u{feff}", "x"]), 0..30),
            cuts in proptest::collection::vec(0_usize..120, 0..8),
        ) {
            let text = text.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            pieces.push(&text.as_bytes()[from..]);
            prop_assert_eq!(events(pieces), parse_events(&text));
            prop_assert_eq!(events(text.as_bytes().chunks(1)), parse_events(&text));
        }
    }
}
