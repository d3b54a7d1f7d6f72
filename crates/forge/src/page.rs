//! Paginated lists.

use crate::client::{Forge, RequestContext};
use crate::dialect::Parsed;
use crate::{Api, ForgeError, text};

/// The most pages of one list: three thousand entries, longer than any thread that is read.
pub const MAX_PAGES: usize = 30;

impl Forge {
    /// Calls `see` with one page after another, parsed with `parse`, until it returns a result.
    pub(crate) fn search<P, T>(
        &self,
        path: &str,
        about: &RequestContext,
        parse: impl Fn(&[u8]) -> Parsed<P>,
        mut see: impl FnMut(P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let mut url = self.api().url_for(path);
        for _ in 0..MAX_PAGES {
            let response = self.get(&url, about)?;
            if let Some(found) = see(self.parse_with(&response, about, &parse)?) {
                return Ok(Some(found));
            }
            match next(response.link.as_deref(), self.api()) {
                NextPage::None => return Ok(None),
                NextPage::Page(next) => url = next,
                NextPage::Elsewhere(there) => {
                    return Err(
                        self.bad_response(about, &format!("its next page is elsewhere, at {}", text::without_user(&there)))
                    );
                }
            }
        }
        Err(ForgeError::TooManyPages { what: about.what.clone() })
    }
}

/// The page after a page.
#[derive(Debug, PartialEq, Eq)]
enum NextPage {
    None,
    Page(String),
    /// On another host, which must not receive the token.
    Elsewhere(String),
}

fn next(link: Option<&str>, api: &Api) -> NextPage {
    match link.and_then(target_of_next) {
        None => NextPage::None,
        Some(url) if api.is_same_origin(url) => NextPage::Page(url.to_owned()),
        Some(url) => NextPage::Elsewhere(url.to_owned()),
    }
}

/// Returns the target of `rel="next"` in a `Link` header (RFC 8288). Addresses may contain commas and semicolons, so the brackets
/// delimit them.
fn target_of_next(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((url, after)) = rest.split_once('<').and_then(|(_, after)| after.split_once('>')) {
        let end = after.find('<').unwrap_or(after.len());
        let (parameters, following) = after.split_at(end);
        if parameters.split([';', ',']).any(|parameter| matches!(parameter.trim(), r#"rel="next""# | "rel=next")) {
            return Some(url);
        }
        rest = following;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next_of(header: &str) -> NextPage {
        next(Some(header), &Api::default())
    }

    fn page(url: &str) -> NextPage {
        NextPage::Page(url.to_owned())
    }

    #[test]
    fn the_next_page_is_what_the_header_calls_next() {
        let two = "https://api.github.com/repositories/1/issues/7/comments?per_page=100&page=2";
        assert_eq!(next_of(&format!(r#"<{two}>; rel="next", <https://api.github.com/x?page=9>; rel="last""#)), page(two));
        assert_eq!(next_of(&format!(r#"<https://api.github.com/x?page=1>; rel="prev", <{two}>; rel="next""#)), page(two));
        assert_eq!(next_of(&format!("<{two},;>; rel=next")), page(&format!("{two},;")));
        assert_eq!(next_of(r#"<https://api.github.com/x>; rel="prev""#), NextPage::None);
        assert_eq!(next_of(r#"<https://evil.example/x>; rel="next""#), NextPage::Elsewhere("https://evil.example/x".to_owned()));
        assert_eq!(next_of(r#"</x?page=2>; rel="next""#), NextPage::Elsewhere("/x?page=2".to_owned()));
        assert_eq!(next(None, &Api::default()), NextPage::None);
    }

    proptest! {
        #[test]
        fn whatever_the_header_is_no_page_is_on_another_host(header in r#"(<(https://(api.github.com|x)/)?\PC{0,9}>; ?rel="?next"?,?){0,3}"#) {
            if let NextPage::Page(url) = next_of(&header) {
                prop_assert!(url.starts_with("https://api.github.com/"), "{}", url);
            }
        }
    }
}
