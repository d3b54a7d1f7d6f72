//! Vocabularies of tiktoken: byte pairs by rank.
//!
//! A text is split by a pattern, and each piece is encoded by itself: if it is no token, it begins as its bytes, and the two neighbours
//! that together are the token of the lowest rank are joined, the leftmost first, until no two neighbours are a token. This is the rule
//! of [tiktoken](https://github.com/openai/tiktoken). A `tokenizer.json` states an order of pairs instead of one of tokens: every pair
//! of every token would have to be written out, without a proof that both agree. Therefore the rule itself is here.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use assay_manifest::TiktokenEncoding;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fancy_regex::Regex;

use crate::encoder::Encoder;
use crate::file::{catch_panic, quote};
use crate::{MAX_FILE_BYTES, TokenizerError};

/// The longest token. The longest of the published vocabularies has 128 bytes.
pub const MAX_TOKEN_BYTES: usize = 1_024;

/// The longest piece of a text: 4 MiB, because encoding a piece takes some fifty times its size of memory.
pub const MAX_PIECE_BYTES: usize = 4 << 20;

/// The pattern of `r50k_base` and `p50k_base`: contractions, letters, digits, other characters, each with the space before it. Repetitions
/// that give nothing back (`++`) match the same texts in constant memory.
const R50K: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s+(?!\S)|\s++";

/// The pattern of `cl100k_base`: at most three digits in a piece, and line breaks by themselves.
const CL100K: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|",
    r"\s*[\r\n]+|\s+(?!\S)|\s++"
);

/// The pattern of `o200k_base`: words are also split before a capital letter that follows small ones.
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The tokens of a vocabulary, and the pattern that splits texts.
pub(crate) struct RankedBytes {
    ranks: HashMap<Vec<u8>, u32>,
    tokens: HashMap<u32, Vec<u8>>,
    longest: usize,
    pattern: Regex,
}

/// A piece of a text while its neighbours are joined.
struct Parts<'a> {
    ranks: &'a RankedBytes,
    piece: &'a [u8],
    /// The end of the part that begins at each byte; 0 if none does any more.
    ends: Vec<u32>,
    /// The start of the part that ends at each byte.
    starts: Vec<u32>,
    /// Neighbours that are a token together: its rank, start and end. Some have been joined with others since.
    pairs: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

impl RankedBytes {
    pub(crate) fn read(bytes: &[u8], pattern: &str) -> Result<Self, TokenizerError> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(TokenizerError::FileTooLarge(bytes.len()));
        }
        let (mut ranks, mut tokens) = (HashMap::new(), HashMap::new());
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let unusable = |cause: String| TokenizerError::Line { line: number, cause };
            let (token, rank) = read_line(line).map_err(unusable)?;
            if tokens.insert(rank, token.clone()).is_some() {
                return Err(unusable(format!("the rank {rank} is there twice")));
            }
            if ranks.insert(token, rank).is_some() {
                return Err(unusable("its token is there twice".to_owned()));
            }
        }
        if let Some(missing) = (0..=u8::MAX).find(|byte| !ranks.contains_key([*byte].as_slice())) {
            return Err(TokenizerError::ByteMissing(missing));
        }
        // Last, because it is expensive: a malformed file is refused before it.
        let expression = match pattern.parse::<TiktokenEncoding>() {
            Ok(encoding) => expression_of(encoding),
            Err(_) => pattern,
        };
        let pattern = catch_panic(|| Regex::new(expression).map_err(|error| TokenizerError::Pattern(quote(&error))))?;
        let longest = ranks.keys().map(Vec::len).max().unwrap_or(0);
        Ok(Self { ranks, tokens, longest, pattern })
    }

    fn rank(&self, token: &[u8]) -> Option<u32> {
        if token.len() > self.longest { None } else { self.ranks.get(token).copied() }
    }

    /// Calls `token` with the id and the end of each token of a text, until it returns false.
    fn encode(&self, text: &str, token: &mut dyn FnMut(u32, usize) -> bool) -> Result<(), TokenizerError> {
        for found in self.pattern.find_iter(text) {
            let found = found.map_err(|error| TokenizerError::Text(quote(&error)))?;
            let piece = found.as_str().as_bytes();
            if piece.len() > MAX_PIECE_BYTES {
                return Err(TokenizerError::PieceTooLong(piece.len()));
            }
            if let Some(id) = self.rank(piece) {
                if !token(id, found.end()) {
                    return Ok(());
                }
                continue;
            }
            for (id, end) in Parts::new(self, piece).join() {
                if !token(id, found.start() + end) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Encoder for RankedBytes {
    fn ids(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        catch_panic(|| {
            self.encode(text, &mut |id, _| {
                ids.push(id);
                true
            })
        })?;
        Ok(ids)
    }

    fn end_of(&self, text: &str, tokens: u32) -> Result<usize, TokenizerError> {
        if tokens == 0 {
            return Ok(0);
        }
        let (mut count, mut last) = (0, text.len());
        catch_panic(|| {
            self.encode(text, &mut |_, end| {
                count += 1;
                if count == tokens {
                    last = end;
                }
                count < tokens
            })
        })?;
        Ok(last)
    }

    fn token(&self, id: u32) -> Option<String> {
        String::from_utf8(self.tokens.get(&id)?.clone()).ok()
    }

    fn tokens(&self, _: bool) -> Vec<(u32, String)> {
        self.tokens.keys().filter_map(|id| Some((*id, self.token(*id)?))).collect()
    }
}

impl<'a> Parts<'a> {
    /// Returns a piece of at most [`MAX_PIECE_BYTES`] as its bytes.
    fn new(ranks: &'a RankedBytes, piece: &'a [u8]) -> Self {
        let size = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        let starts = [0].into_iter().chain(0..size).collect();
        let mut parts = Self { ranks, piece, ends: (1..=size).collect(), starts, pairs: BinaryHeap::new() };
        for start in 0..size {
            parts.note(start);
        }
        parts
    }

    /// Notes the part that begins at `start` and its next neighbour, if they are a token together.
    fn note(&mut self, start: u32) {
        if let Some(end) = self.pair_end(start)
            && let Some(rank) = self.ranks.rank(&self.piece[start as usize..end as usize])
        {
            self.pairs.push(Reverse((rank, start, end)));
        }
    }

    /// Returns the end of the next neighbour of the part that begins at `start`; `None` without such a part or neighbour.
    fn pair_end(&self, start: u32) -> Option<u32> {
        let end = self.ends.get(start as usize).copied().filter(|end| *end > 0)?;
        self.ends.get(end as usize).copied()
    }

    /// Joins neighbours until no two are a token, and returns the tokens with their ends.
    fn join(mut self) -> Vec<(u32, usize)> {
        while let Some(Reverse((_, start, end))) = self.pairs.pop() {
            if self.pair_end(start) != Some(end) {
                continue;
            }
            let middle = self.ends[start as usize];
            self.ends[middle as usize] = 0;
            self.ends[start as usize] = end;
            self.starts[end as usize] = start;
            self.note(start);
            if start > 0 {
                self.note(self.starts[start as usize]);
            }
        }
        let mut tokens = Vec::new();
        let mut start = 0;
        while start < self.piece.len() {
            let end = self.ends[start] as usize;
            // Each part is a byte, or was joined because it is a token.
            tokens.extend(self.ranks.rank(&self.piece[start..end]).map(|id| (id, end)));
            start = end;
        }
        tokens
    }
}

/// Returns the pattern of an encoding.
fn expression_of(encoding: TiktokenEncoding) -> &'static str {
    match encoding {
        TiktokenEncoding::R50kBase | TiktokenEncoding::P50kBase => R50K,
        TiktokenEncoding::Cl100kBase => CL100K,
        TiktokenEncoding::O200kBase => O200K,
    }
}

/// Returns the token and the rank of a line, or the reason why it has none.
fn read_line(line: &[u8]) -> Result<(Vec<u8>, u32), String> {
    let space = line.iter().position(|byte| *byte == b' ').ok_or("it has no space")?;
    let (token, rank) = (&line[..space], &line[space + 1..]);
    if token.len() > MAX_TOKEN_BYTES * 4 / 3 + 4 {
        return Err(format!("its token has more than {MAX_TOKEN_BYTES} bytes"));
    }
    let token = STANDARD.decode(token).map_err(|error| error.to_string())?;
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        return Err(format!("its token has {} bytes, not 1 to {MAX_TOKEN_BYTES}", token.len()));
    }
    let rank = std::str::from_utf8(rank).ok().and_then(|rank| rank.parse().ok()).ok_or("its rank is not a whole number")?;
    Ok((token, rank))
}

#[cfg(test)]
mod tests;
