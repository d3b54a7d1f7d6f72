//! Text from untrusted input: base64 in both alphabets, and quotes that are safe in a message.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// The number of characters that an error quotes of a text.
const QUOTED: usize = 80;

// Protobuf's JSON mapping allows either alphabet, padded or not, so a reader accepts all four spellings.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const READ_STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const READ_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Encodes standard base64 with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 in either alphabet, padded or not.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let url_safe = text.bytes().any(|byte| byte == b'-' || byte == b'_');
    if url_safe { READ_URL_SAFE.decode(text) } else { READ_STANDARD.decode(text) }.ok()
}

/// Makes a hostile text safe for a message: truncated, with control characters replaced so that it cannot steer a terminal.
pub(crate) fn quote(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTED).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(QUOTED).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_read_with_and_without_padding() {
        let bytes = [0xfb, 0xff, 0xfe, 0x01];
        assert_eq!(to_base64(&bytes), "+//+AQ==");
        for spelling in ["+//+AQ==", "+//+AQ", "-__-AQ==", "-__-AQ"] {
            assert_eq!(from_base64(spelling).as_deref(), Some(&bytes[..]), "{spelling}");
        }
    }

    #[test]
    fn other_texts_are_not_base64() {
        for bad in ["+__+AQ==", "+//+AR==", "a", "a b=", "ä", "AQ=\n"] {
            assert_eq!(from_base64(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_quoted_text_is_short_and_tame() {
        assert_eq!(quote("plan"), "plan");
        assert_eq!(quote("\u{1b}[2J\n"), "\u{fffd}[2J\u{fffd}");
        assert_eq!(quote(&"x".repeat(500)).chars().count(), QUOTED + 1);
    }
}
