//! Prompts that are sent as the ids of their tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fewest ids that prompts may be drawn from: with fewer, prompts would have beginnings in common by chance.
pub const LEAST_TOKEN_IDS: u32 = 64;

/// The ids of tokens that prompts are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub enum TokenIds {
    /// Those of the words of the tokenizer's file.
    Tokenizer,
    /// All of a range.
    Range {
        /// The smallest id.
        least: u32,
        /// The largest id.
        most: u32,
    },
}

impl TokenIds {
    /// Returns the reason why no prompt can be drawn from these ids; `None` if prompts can.
    pub fn refusal(&self) -> Option<String> {
        match *self {
            Self::Tokenizer => None,
            Self::Range { least, most } if most < least => {
                Some(format!("the largest id, {most}, is below the smallest, {least}"))
            }
            Self::Range { least, most } => {
                let count = u64::from(most) - u64::from(least) + 1;
                (count < u64::from(LEAST_TOKEN_IDS)).then(|| format!("{count} ids are fewer than {LEAST_TOKEN_IDS}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_enough_ids() {
        let refusal = |least, most| TokenIds::Range { least, most }.refusal();
        assert_eq!(refusal(0, 63), None);
        assert_eq!(refusal(0, u32::MAX), None);
        assert_eq!(refusal(1, 63).as_deref(), Some("63 ids are fewer than 64"));
        assert_eq!(refusal(9, 8).as_deref(), Some("the largest id, 8, is below the smallest, 9"));
        assert_eq!(TokenIds::Tokenizer.refusal(), None);
    }

    #[test]
    fn its_form_is_stable() {
        let json = |ids| serde_json::to_string(&ids).expect("JSON");
        assert_eq!(json(TokenIds::Tokenizer), r#"{"from":"tokenizer"}"#);
        assert_eq!(json(TokenIds::Range { least: 1, most: 9 }), r#"{"from":"range","least":1,"most":9}"#);
    }
}
