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
    json!({"role": "user", "content": std::iter::once(text_part(text)).chain(image_parts(images)).collect::<Vec<_>>()})
}

/// Adds images, by their URLs, behind the content of the last message of a person. Returns false if there is no such message.
pub fn add_images(messages: &mut [Value], images: &[String]) -> bool {
    let is_of_person = |message: &&mut Value| message.get("role").and_then(Value::as_str) == Some("user");
    let Some(message) = messages.iter_mut().rev().find(is_of_person).and_then(Value::as_object_mut) else { return false };
    let mut parts = match message.remove("content") {
        Some(Value::Array(parts)) => parts,
        Some(Value::String(text)) => vec![text_part(&text)],
        _ => Vec::new(),
    };
    parts.extend(image_parts(images));
    message.insert("content".to_owned(), Value::Array(parts));
    true
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_parts(urls: &[String]) -> impl Iterator<Item = Value> {
    urls.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}}))
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
    fn images_are_added_to_the_last_message_of_a_person() {
        let urls = ["data:image/png;base64,AA==".to_owned()];
        let part = json!({"type": "image_url", "image_url": {"url": urls[0]}});
        let text = |text: &str| json!({"type": "text", "text": text});
        let mut messages = [
            json!({"role": "user", "content": "a"}),
            json!({"role": "user", "name": "n", "content": "b"}),
            json!({"role": "tool", "content": "c"}),
        ];
        let others = [messages[0].clone(), messages[2].clone()];
        assert!(add_images(&mut messages, &urls));
        assert_eq!(messages[1], json!({"role": "user", "name": "n", "content": [text("b"), part]}));
        assert_eq!([messages[0].clone(), messages[2].clone()], others);
        assert!(add_images(&mut messages, &urls));
        assert_eq!(messages[1]["content"], json!([text("b"), part, part]), "parts stay, and images follow them");
        let mut silent = [json!({"role": "user", "content": null})];
        assert!(add_images(&mut silent, &urls));
        assert_eq!(silent[0]["content"], json!([part]));
        let mut system = [json!({"role": "system", "content": "s"})];
        assert!(!add_images(&mut system, &urls));
        assert_eq!(system[0]["content"], "s");
    }

    #[test]
    fn only_chats_take_images() {
        assert!(ServingApi::ALL.iter().all(|api| api.takes_images() == (*api == ServingApi::Chat)));
    }
}
