//! Images in the messages of a chat, in the format of OpenAI's API.

use serde_json::{Value, json};

use crate::ServingApi;

impl ServingApi {
    /// Returns true if requests may have images beside a prompt.
    pub const fn takes_images(self) -> bool {
        matches!(self, Self::Chat)
    }
}

/// Returns the message of a prompt with images, by their URLs. The text comes first, as in genai-bench.
pub(crate) fn illustrated_message(text: &str, images: &[String]) -> Value {
    let text = json!({"type": "text", "text": text});
    let images = images.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}}));
    json!({"role": "user", "content": std::iter::once(text).chain(images).collect::<Vec<_>>()})
}

/// Returns the URL of an image part of a message; `None` if the part is no image. A part without a URL is an image with an empty one.
pub(crate) fn image_url(part: &Value) -> Option<&str> {
    if part.get("type").and_then(Value::as_str) != Some("image_url") {
        return None;
    }
    let url = part.get("image_url").and_then(|image| image.get("url").or(Some(image))).and_then(Value::as_str);
    Some(url.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_text_and_then_its_images() {
        let message = illustrated_message("a b", &["data:image/png;base64,AA==".to_owned()]);
        let expected = json!({"role": "user", "content": [
            {"type": "text", "text": "a b"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ]});
        assert_eq!(message, expected);
        let urls: Vec<_> = expected["content"].as_array().expect("parts").iter().map(image_url).collect();
        assert_eq!(urls, [None, Some("data:image/png;base64,AA==")]);
        assert_eq!(image_url(&json!({"type": "image_url"})), Some(""));
        assert_eq!(image_url(&json!({"type": "image_url", "image_url": "http://h/i"})), Some("http://h/i"));
    }

    #[test]
    fn only_chats_take_images() {
        assert!(ServingApi::ALL.iter().all(|api| api.takes_images() == (*api == ServingApi::Chat)));
    }
}
