//! The options of `assay bench` for lengths that are written as tables (weighted pairs and histograms), and for images.

use assay_stage::{ErrorCode, Failure};
use serde_json::{Map, Number, Value, json};

/// Lengths that are written as tables, and images.
#[derive(clap::Args)]
pub(super) struct LengthTables {
    /// Pairs of input and output tokens with their weights, in AIPerf's notation of sequence distributions, such as "256,128:60;512,256:40"
    #[arg(long, value_name = "IN,OUT:WEIGHT;..", conflicts_with_all = ["input_tokens", "output_tokens", "scenario", "file"])]
    pairs: Option<String>,
    /// The bins of input tokens and their weights: edges, one more than there are bins, and weights, such as "1,256,1024,4096:70,25,5"
    #[arg(long, value_name = "EDGES:WEIGHTS", conflicts_with_all = ["input_tokens", "scenario", "pairs", "file"])]
    input_histogram: Option<String>,
    /// The same for output tokens
    #[arg(long, value_name = "EDGES:WEIGHTS", conflicts_with_all = ["output_tokens", "scenario", "pairs"])]
    output_histogram: Option<String>,
    /// Synthetic images of each request or turn, such as width=512,height=512,count=2,format=png
    #[arg(long, value_name = "NAME=VALUE,..", value_delimiter = ',')]
    images: Vec<String>,
    /// The kind of the text of synthetic prompts: words that are drawn by themselves, or prose
    #[arg(long, value_name = "KIND", value_parser = ["words", "natural"])]
    text: Option<String>,
    /// Send prompts as token ids by completions: those of the words of --tokenizer, or of this range, such as 1000..31999
    #[arg(long, value_name = "LEAST..MOST", num_args = 0..=1, default_missing_value = "")]
    prompt_token_ids: Option<String>,
}

impl LengthTables {
    /// Returns the lengths of these options; `None` if there are none. Fixed lengths stand for the side without a histogram.
    pub(super) fn lengths(&self, input_tokens: u64, output_tokens: u64) -> Result<Option<Value>, Failure> {
        if let Some(text) = &self.pairs {
            return Ok(Some(json!({"pairs": parse_pairs(text)?})));
        }
        if self.input_histogram.is_none() && self.output_histogram.is_none() {
            return Ok(None);
        }
        let input = histogram("--input-histogram", self.input_histogram.as_deref())?;
        let side = |drawn: Option<Value>, tokens| drawn.unwrap_or_else(|| json!({"fixed": tokens}));
        Ok(Some(json!({"input": side(input, input_tokens), "output": side(self.output()?, output_tokens)})))
    }

    /// Returns the kind of text, if it is given.
    pub(super) fn text(&self) -> Option<Value> {
        self.text.clone().map(Value::from)
    }

    /// Returns the token ids that prompts are sent as; `None` if they are texts.
    pub(super) fn token_ids(&self) -> Result<Option<Value>, Failure> {
        self.prompt_token_ids.as_deref().map(parse_ids).transpose()
    }

    /// Returns the images of each request; `None` if there are none.
    pub(super) fn images(&self) -> Result<Option<Value>, Failure> {
        let images = self.images.iter().map(|pair| parse_image(pair)).collect::<Result<Map<_, _>, _>>()?;
        Ok((!images.is_empty()).then_some(Value::Object(images)))
    }

    /// Returns the distribution of the output tokens; `None` if they have no histogram.
    pub(super) fn output(&self) -> Result<Option<Value>, Failure> {
        histogram("--output-histogram", self.output_histogram.as_deref())
    }
}

/// Parses `LEAST..MOST`; without them, ids are those of the tokenizer.
fn parse_ids(text: &str) -> Result<Value, Failure> {
    if text.is_empty() {
        return Ok(json!({}));
    }
    let bounds = text.split_once("..").and_then(|(least, most)| Some((least.parse::<u32>().ok()?, most.parse::<u32>().ok()?)));
    let (least, most) = bounds.ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--prompt-token-ids {text}` is not of the form LEAST..MOST"))
            .hint("such as `--prompt-token-ids 1000..31999`, or without a range the ids of the words of `--tokenizer`")
    })?;
    Ok(json!({"least": least, "most": most}))
}

/// Parses `NAME=VALUE`; a number is a number, anything else a text.
fn parse_image(text: &str) -> Result<(String, Value), Failure> {
    let parsed = text
        .split_once('=')
        .map(|(name, value)| (name.to_owned(), value.parse::<u64>().map_or_else(|_| json!(value), Value::from)));
    parsed.ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--images {text}` is not of the form NAME=VALUE"))
            .hint("such as `--images width=512,height=512,count=2,format=png`")
    })
}

/// Parses `IN,OUT:WEIGHT;...`; a weight of 1 may be left out.
fn parse_pairs(text: &str) -> Result<Vec<Value>, Failure> {
    let pair = |text: &str| {
        let (pair, weight) = text.split_once(':').unwrap_or((text, "1"));
        let (input, output) = pair.split_once(',')?;
        let tokens = |text: &str| text.trim().parse::<u64>().ok();
        Some(json!({"input": tokens(input)?, "output": tokens(output)?, "weight": weight.trim().parse::<Number>().ok()?}))
    };
    if text.contains('|') {
        return Err(Failure::new(
            ErrorCode::Option,
            format!("`--pairs {text}` has standard deviations, which pairs do not have"),
        )
        .hint("leave out `|` and the number after it, or use `--scenario 'N(mean,sd)/(mean,sd)'`"));
    }
    text.split(';').map(pair).collect::<Option<_>>().ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--pairs {text}` is not of the form IN,OUT:WEIGHT;IN,OUT:WEIGHT"))
            .hint("such as `--pairs '256,128:60;512,256:40'`")
    })
}

/// Parses `EDGES:WEIGHTS`, both separated by commas.
fn histogram(option: &str, text: Option<&str>) -> Result<Option<Value>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let numbers = |text: &str| text.split(',').map(|number| number.trim().parse::<Number>().ok()).collect::<Option<Vec<_>>>();
    let parsed = text.split_once(':').and_then(|(edges, weights)| Some((numbers(edges)?, numbers(weights)?)));
    let (edges, weights) = parsed.ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`{option} {text}` is not of the form EDGES:WEIGHTS"))
            .hint(format!("such as `{option} 1,256,1024,4096:70,25,5`"))
    })?;
    Ok(Some(json!({"histogram": {"edges": edges, "weights": weights}})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(pairs: Option<&str>, input: Option<&str>, output: Option<&str>) -> LengthTables {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        LengthTables {
            pairs: owned(pairs),
            input_histogram: owned(input),
            output_histogram: owned(output),
            images: Vec::new(),
            text: None,
            prompt_token_ids: None,
        }
    }

    fn written(tables: &LengthTables) -> Result<Option<Value>, String> {
        tables.lengths(128, 64).map_err(|failure| failure.to_string())
    }

    #[test]
    fn pairs_are_written_as_aiperf_writes_them() {
        let pairs = json!({"pairs": [{"input": 256, "output": 128, "weight": 60}, {"input": 512, "output": 256, "weight": 0.5}]});
        assert_eq!(written(&tables(Some("256,128:60;512,256:0.5"), None, None)), Ok(Some(pairs)));
        let one = json!({"pairs": [{"input": 1, "output": 2, "weight": 1}]});
        assert_eq!(written(&tables(Some("1,2"), None, None)), Ok(Some(one)));
        for wrong in ["", "1", "1,2;", "1,2:x", "a,2:1", "1,2,3:1"] {
            let refused = written(&tables(Some(wrong), None, None)).expect_err(wrong);
            assert!(refused.contains("is not of the form IN,OUT:WEIGHT"), "{refused}");
        }
        let refused = written(&tables(Some("64|10,32|8:70"), None, None)).expect_err("a deviation");
        assert!(refused.contains("has standard deviations"), "{refused}");
    }

    #[test]
    fn a_side_without_a_histogram_is_fixed() {
        let bins = json!({"histogram": {"edges": [1, 256, 1024], "weights": [70, 30]}});
        let text = Some("1,256,1024:70,30");
        assert_eq!(written(&tables(None, text, None)), Ok(Some(json!({"input": bins, "output": {"fixed": 64}}))));
        assert_eq!(written(&tables(None, None, text)), Ok(Some(json!({"input": {"fixed": 128}, "output": bins}))));
        assert_eq!(written(&tables(None, None, None)), Ok(None));
        let refused = written(&tables(None, Some("1,2"), None)).expect_err("no weights");
        assert!(refused.contains("`--input-histogram 1,2` is not of the form EDGES:WEIGHTS"), "{refused}");
    }

    #[test]
    fn token_ids_are_a_range_or_those_of_the_tokenizer() {
        let ids = |text: &str| parse_ids(text).map_err(|failure| failure.to_string());
        assert_eq!(ids("1000..31999"), Ok(json!({"least": 1000, "most": 31999})));
        assert_eq!(ids(""), Ok(json!({})));
        for wrong in ["1000", "..9", "1..", "-1..9", "1..4294967296"] {
            assert!(ids(wrong).is_err_and(|text| text.contains("is not of the form LEAST..MOST")), "{wrong}");
        }
    }

    #[test]
    fn images_are_named_like_their_fields() {
        let images = |pairs: &[&str]| {
            let images = pairs.iter().map(|pair| (*pair).to_owned()).collect();
            LengthTables { images, ..tables(None, None, None) }.images().map_err(|failure| failure.to_string())
        };
        let expected = json!({"width": 512, "height": 256, "format": "png"});
        assert_eq!(images(&["width=512", "height=256", "format=png"]), Ok(Some(expected)));
        assert_eq!(images(&[]), Ok(None));
        assert!(images(&["512x256"]).is_err_and(|text| text.contains("`--images 512x256` is not of the form NAME=VALUE")));
    }
}
