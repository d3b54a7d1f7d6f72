//! Limits of what a template can nest: a stack that overflows ends the process, whatever waits for it.

use std::collections::BTreeSet;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

use super::MAX_TOKENS;

/// Refuses a template with more tokens than fit on the stack if each nests in the one before, and one in which a namespace may come to hold itself:
/// such a value has no end. Other values cannot be changed once they are made, so they hold only what was there before them.
///
/// A namespace is made by `set NAME = namespace(...)` alone, and used by its members alone, as published templates do it.
pub(super) fn check(source: &str, syntax: SyntaxConfig) -> Result<(), Error> {
    let mut tokens = Vec::new();
    for token in tokenize(source, false, syntax) {
        tokens.push(token?.0);
        if tokens.len() > MAX_TOKENS {
            return Err(refusal(format!("it has more than {MAX_TOKENS} tokens")));
        }
    }
    let mut namespaces = BTreeSet::new();
    for place in places_of(&tokens, |name| name == "namespace") {
        match (before(&tokens, place, 3), before(&tokens, place, 2), before(&tokens, place, 1), tokens.get(place + 1)) {
            (Some(Token::Ident("set")), Some(Token::Ident(name)), Some(Token::Assign), Some(Token::ParenOpen)) => {
                namespaces.insert(*name)
            }
            _ => return Err(refusal("`namespace` stands elsewhere than in `set NAME = namespace(...)`".to_owned())),
        };
    }
    for place in places_of(&tokens, |name| namespaces.contains(name)) {
        let is_member = matches!(before(&tokens, place, 1), Some(Token::Dot));
        let is_used_by_member = matches!(tokens.get(place + 1), Some(Token::Dot | Token::BracketOpen | Token::Assign));
        if let (false, false, Some(Token::Ident(name))) = (is_member, is_used_by_member, tokens.get(place)) {
            return Err(refusal(format!("the namespace `{name}` is used as a whole, and not by a member such as `{name}.a`")));
        }
    }
    Ok(())
}

/// Returns the places of names.
fn places_of<'a>(tokens: &'a [Token<'a>], is_wanted: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
    let is_place = move |token: &Token<'_>| matches!(token, Token::Ident(name) if is_wanted(name));
    tokens.iter().enumerate().filter(move |(_, token)| is_place(token)).map(|(place, _)| place)
}

/// Returns the token that is `steps` before a place.
fn before<'a>(tokens: &'a [Token<'a>], place: usize, steps: usize) -> Option<&'a Token<'a>> {
    tokens.get(place.checked_sub(steps)?)
}

fn refusal(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}
