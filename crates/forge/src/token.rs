//! The secret that authenticates to a forge.

use std::fmt;

use ureq::http::HeaderValue;

use crate::ForgeError;

/// The longest token: those of GitHub have some hundred bytes, and a header must hold it.
const MAX_TOKEN_BYTES: usize = 8 << 10;

/// A token. Nothing prints it: neither `Debug` nor any error.
#[derive(Clone)]
pub struct Token {
    secret: String,
}

impl Token {
    /// Takes a token from a file or a variable: blanks around it are not part of it.
    pub fn new(text: &str) -> Result<Self, ForgeError> {
        let secret = text.trim();
        if secret.is_empty() || secret.len() > MAX_TOKEN_BYTES || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ForgeError::Token);
        }
        Ok(Self { secret: secret.to_owned() })
    }

    /// Returns the value of the header that holds the token, after the prefix that a forge requires.
    pub(crate) fn header(&self, before: &str) -> Result<HeaderValue, ForgeError> {
        let mut header = HeaderValue::try_from(format!("{before}{}", self.secret)).map_err(|_| ForgeError::Token)?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Returns a text of the forge with the token masked, if it contains it.
    pub(crate) fn mask(&self, text: &str) -> String {
        text.replace(&self.secret, "[secret]")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_token() {
        let token = Token::new(" hunter22\n").expect("a token");
        assert_eq!(format!("{token:?} {:?}", token.header("Bearer ").expect("a header")), "[secret] Sensitive");
        assert_eq!(token.mask("a hunter22 b"), "a [secret] b");
    }

    #[test]
    fn what_no_header_can_hold_is_refused_without_being_repeated() {
        for bad in ["", " \n", "a b", "hunter\r\n22", "hünter22", &"x".repeat(MAX_TOKEN_BYTES + 1)] {
            let error = Token::new(bad).expect_err("no token");
            assert_eq!(format!("{error:?}"), "Token");
        }
    }
}
