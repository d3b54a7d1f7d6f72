//! The number of input and output tokens: the traffic scenarios of genai-bench, and explicit distributions.

use std::fmt;
use std::str::FromStr;

use assay_api::InputKind;
use assay_manifest::{ImageFormat, Images};

/// The most tokens of one prompt or response, and of all documents of a request together: ten times the longest context that is served today.
pub const MAX_TOKENS: u64 = 16_000_000;

/// A traffic scenario in the grammar of genai-bench, without speech and video.
///
/// The schedule defines how each is sampled (truncation, clipping, exclusive bounds), following genai-bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scenario {
    /// `D(i,o)`: fixed numbers of input and output tokens.
    Deterministic {
        /// Input tokens.
        input: u64,
        /// Output tokens.
        output: u64,
    },
    /// `N(mi,si)/(mo,so)`: independent normal draws, clipped to at least 1 input token and 2 output tokens.
    Normal {
        /// Mean and standard deviation of input tokens.
        input: (u64, u64),
        /// Mean and standard deviation of output tokens.
        output: (u64, u64),
    },
    /// `U(lo,hi)/(lo,hi)`; the short form `U(i,o)` gives the two upper bounds and means lower bounds of 1.
    Uniform {
        /// Lower (at least 1) and upper bound of input tokens.
        input: (u64, u64),
        /// Lower (at least 1) and upper bound of output tokens.
        output: (u64, u64),
    },
    /// `E(t)`: an embedding of a document of `t` tokens.
    Embedding {
        /// Tokens of each document.
        tokens: u64,
    },
    /// `R(d,q)`: scores of documents of `d` tokens for a query of `q` tokens.
    Rerank {
        /// Tokens of each document.
        document: u64,
        /// Tokens of the query.
        query: u64,
    },
    /// `I(w,h)` or `I(w,h,n)`: a prompt with `n` images of `w` x `h` pixels; the endpoint decides how long the response is.
    Image(Images),
}

/// The reason why a text is not a scenario that can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The kind of scenario belongs to work that no workload type covers yet.
    #[error("`{0}` scenarios ({1}) are not supported: use `D`, `N`, `U`, `E`, `R` or `I`")]
    Unsupported(&'static str, &'static str),
    /// Rows of a dataset, which have lengths of their own.
    #[error(
        "the rows of a dataset are no lengths: write `dataset: {{path: FILE, output: server}}` instead of `lengths` (`--dataset FILE`)"
    )]
    Dataset,
    /// Images that no request can have.
    #[error("it asks for {0}")]
    Images(String),
    /// The text matches none of the known forms.
    #[error(
        "expected `D(in,out)`, `N(mean,sd)/(mean,sd)`, `U(low,high)/(low,high)`, `U(in,out)`, `E(tokens)`, `R(document,query)` or `I(width,height,images)`, \
         without spaces"
    )]
    Form,
    /// An upper bound lies below its lower bound.
    #[error("the upper bound {1} lies below the lower bound {0}")]
    Bounds(u64, u64),
    /// Zero tokens, which genai-bench treats as "any length".
    #[error("{0} must be at least 1 token")]
    Zero(&'static str),
    /// More tokens than any model accepts.
    #[error("{0} tokens are more than {MAX_TOKENS}")]
    TooMany(u64),
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        refuse_other_kinds(text)?;
        let (kind, groups) = text.split_at(text.find('(').ok_or(ScenarioError::Form)?);
        let groups = parse_groups(groups).ok_or(ScenarioError::Form)?;
        let scenario = match (kind, groups.as_slice()) {
            ("D", [pair]) => pair_of(pair).map(|(input, output)| Self::Deterministic { input, output }),
            ("N", [input, output]) => parse_pairs(input, output).map(|(input, output)| Self::Normal { input, output }),
            ("U", [input, output]) => parse_pairs(input, output)
                .map(|(input, output)| Self::Uniform { input: raise_to_one(input), output: raise_to_one(output) }),
            ("U", [highs]) => pair_of(highs).map(|(input, output)| Self::Uniform { input: (1, input), output: (1, output) }),
            ("E", [one]) => <[u64; 1]>::try_from(one.as_slice()).ok().map(|[tokens]| Self::Embedding { tokens }),
            ("R", [pair]) => pair_of(pair).map(|(document, query)| Self::Rerank { document, query }),
            ("I", [sides]) => images(sides).map(Self::Image),
            _ => None,
        };
        scenario.ok_or(ScenarioError::Form)?.checked()
    }
}

fn refuse_other_kinds(text: &str) -> Result<(), ScenarioError> {
    let kind = text.split('(').next().unwrap_or_default();
    if text == "dataset" {
        return Err(ScenarioError::Dataset);
    }
    let others = [("A", "speech"), ("V", "video")];
    let other = others.iter().find(|(word, _)| *word == kind);
    other.map_or(Ok(()), |(word, what)| Err(ScenarioError::Unsupported(word, what)))
}

/// Parses numbers in parentheses, in groups joined by `/`.
fn parse_groups(text: &str) -> Option<Vec<Vec<u64>>> {
    text.split('/').map(parse_group).collect()
}

fn parse_group(text: &str) -> Option<Vec<u64>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    inner.split(',').map(|number| number.parse().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()))).collect()
}

fn pair_of(group: &[u64]) -> Option<(u64, u64)> {
    <[u64; 2]>::try_from(group).ok().map(|[a, b]| (a, b))
}

fn parse_pairs(input: &[u64], output: &[u64]) -> Option<((u64, u64), (u64, u64))> {
    pair_of(input).zip(pair_of(output))
}

/// Returns the images of `I`: width, height and, if it is not 1, their number.
fn images(numbers: &[u64]) -> Option<Images> {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let (width, height, count) = match numbers {
        [width, height] => (*width, *height, 1),
        [width, height, count] => (*width, *height, *count),
        _ => return None,
    };
    Some(Images { width: number(width), height: number(height), count: number(count), format: ImageFormat::Jpeg })
}

/// Raises a lower bound of 0 to 1, as genai-bench does.
fn raise_to_one((low, high): (u64, u64)) -> (u64, u64) {
    (low.max(1), high)
}

/// Returns the form of the scenarios for these inputs.
pub(crate) fn scenario_form(input: InputKind) -> &'static str {
    match input {
        InputKind::Prompt => "D(in,out)",
        InputKind::Documents => "E(tokens)",
        InputKind::QueryAndDocuments => "R(document,query)",
    }
}

/// Returns a scenario for these inputs.
pub(crate) fn scenario_example(input: InputKind) -> &'static str {
    match input {
        InputKind::Prompt => "D(128,256)",
        InputKind::Documents => "E(128)",
        InputKind::QueryAndDocuments => "R(128,100)",
    }
}

impl Scenario {
    /// Returns the inputs that it describes.
    pub(crate) fn input(self) -> InputKind {
        match self {
            Self::Deterministic { .. } | Self::Normal { .. } | Self::Uniform { .. } | Self::Image(_) => InputKind::Prompt,
            Self::Embedding { .. } => InputKind::Documents,
            Self::Rerank { .. } => InputKind::QueryAndDocuments,
        }
    }

    /// Returns the input tokens of a request with this many documents; `None` if its requests have no documents.
    pub(crate) fn request_tokens(self, documents: u64) -> Option<u64> {
        match self {
            Self::Embedding { tokens } => Some(tokens.saturating_mul(documents)),
            Self::Rerank { document, query } => Some(document.saturating_mul(documents).saturating_add(query)),
            Self::Deterministic { .. } | Self::Normal { .. } | Self::Uniform { .. } | Self::Image(_) => None,
        }
    }

    fn checked(self) -> Result<Self, ScenarioError> {
        let (input, output) = match self {
            Self::Deterministic { input, output } => (input, output),
            Self::Normal { input, output } => (input.0, output.0),
            Self::Uniform { input, output } => {
                [input, output].iter().try_for_each(|(low, high)| check_bounds(*low, *high))?;
                (input.1, output.1)
            }
            Self::Embedding { tokens } => (tokens, 1),
            Self::Rerank { document, query } => (document, query),
            Self::Image(images) => return images.refusal().map_or(Ok(self), |reason| Err(ScenarioError::Images(reason))),
        };
        let (first, second) = if self.input() == InputKind::QueryAndDocuments {
            ("the document", "the query")
        } else {
            ("the input", "the output")
        };
        check_not_zero(first, input)?;
        check_not_zero(second, output)?;
        let largest = self.numbers().into_iter().max().unwrap_or(0);
        if largest > MAX_TOKENS { Err(ScenarioError::TooMany(largest)) } else { Ok(self) }
    }

    fn numbers(self) -> Vec<u64> {
        match self {
            Self::Deterministic { input, output } => vec![input, output],
            Self::Normal { input, output } | Self::Uniform { input, output } => vec![input.0, input.1, output.0, output.1],
            Self::Embedding { tokens } => vec![tokens],
            Self::Rerank { document, query } => vec![document, query],
            Self::Image(_) => Vec::new(),
        }
    }
}

fn check_bounds(low: u64, high: u64) -> Result<(), ScenarioError> {
    if high == 0 {
        Err(ScenarioError::Zero("the upper bound"))
    } else if high < low {
        Err(ScenarioError::Bounds(low, high))
    } else {
        Ok(())
    }
}

fn check_not_zero(what: &'static str, tokens: u64) -> Result<(), ScenarioError> {
    if tokens == 0 { Err(ScenarioError::Zero(what)) } else { Ok(()) }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deterministic { input, output } => write!(f, "D({input},{output})"),
            Self::Normal { input, output } => write!(f, "N({},{})/({},{})", input.0, input.1, output.0, output.1),
            Self::Uniform { input: (1, input), output: (1, output) } => write!(f, "U({input},{output})"),
            Self::Uniform { input, output } => write!(f, "U({},{})/({},{})", input.0, input.1, output.0, output.1),
            Self::Embedding { tokens } => write!(f, "E({tokens})"),
            Self::Rerank { document, query } => write!(f, "R({document},{query})"),
            Self::Image(Images { width, height, count: 1, .. }) => write!(f, "I({width},{height})"),
            Self::Image(Images { width, height, count, .. }) => write!(f, "I({width},{height},{count})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(text: &str) -> String {
        text.parse::<Scenario>().map_or_else(|error| error.to_string(), |scenario| scenario.to_string())
    }

    #[test]
    fn the_supported_forms_are_read() {
        for text in [
            "D(100,1000)",
            "N(480,240)/(300,150)",
            "U(10,20)/(30,40)",
            "U(50,100)",
            "E(64)",
            "R(64,100)",
            "I(512,256)",
            "I(2048,2048,4)",
        ] {
            assert_eq!(normal(text), text);
        }
        assert_eq!(normal("U(0,50)/(1,100)"), "U(50,100)");
        assert_eq!(normal("I(512,256,1)"), "I(512,256)");
    }

    #[test]
    fn other_kinds_are_refused_by_name() {
        assert_eq!(normal("A(100)"), "`A` scenarios (speech) are not supported: use `D`, `N`, `U`, `E`, `R` or `I`");
        assert_eq!(normal("V(1)"), "`V` scenarios (video) are not supported: use `D`, `N`, `U`, `E`, `R` or `I`");
        let dataset = "the rows of a dataset are no lengths: write `dataset: {path: FILE, output: server}` instead of `lengths` (`--dataset FILE`)";
        assert_eq!(normal("dataset"), dataset);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "D",
            "D()",
            "D(1)",
            "D(1,2,3)",
            "D(1, 2)",
            "D(-1,2)",
            "D(+1,2)",
            "D(1,2)x",
            "N(1,2)",
            "E(1,2)",
            "R(1)",
            "R(1,2)/(3,4)",
            "X(1)",
            "d(1,2)",
            "U(1,2)/",
            "D(1,2)/(3,4)",
            "D(99999999999999999999,1)",
            "I(1)",
            "I(1,2,3,4)",
            "I(1,2)/(3,4)",
        ] {
            assert!(normal(text).starts_with("expected `D(in,out)`"), "{text}: {}", normal(text));
        }
    }

    #[test]
    fn bounds_and_zeros_are_checked() {
        assert_eq!(normal("U(20,10)/(1,2)"), "the upper bound 10 lies below the lower bound 20");
        assert_eq!(normal("U(0,0)/(1,2)"), "the upper bound must be at least 1 token");
        assert_eq!(normal("D(0,5)"), "the input must be at least 1 token");
        assert_eq!(normal("D(5,0)"), "the output must be at least 1 token");
        assert_eq!(normal("R(0,5)"), "the document must be at least 1 token");
        assert_eq!(normal("R(5,0)"), "the query must be at least 1 token");
        assert_eq!(normal("I(0,5)"), "it asks for images of 0 x 5 pixels: each side has 1 to 8192 pixels");
        assert_eq!(normal("I(5,5,0)"), "it asks for 0 images: a request has 1 to 100");
        assert_eq!(normal("I(99999999999,5)"), "it asks for images of 4294967295 x 5 pixels: each side has 1 to 8192 pixels");
        assert_eq!(normal("E(99000000)"), "99000000 tokens are more than 16000000");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(a in 1u64..9999, b in 1u64..9999, c in 0u64..9999, d in 0u64..9999) {
            let texts = [format!("D({a},{b})"), format!("N({a},{c})/({b},{d})"), format!("U({c},{})/({d},{})", c + a, d + b), format!("E({a})"), format!("R({a},{b})"), format!("I({},{},{})", a % 900 + 1, b % 900 + 1, c % 9 + 1)];
            for text in texts {
                let once = text.parse::<Scenario>().expect("a scenario");
                prop_assert_eq!(once.to_string().parse(), Ok(once));
            }
        }
    }
}
