//! The text that a template makes of a conversation.
//!
//! A template is rendered around placeholders, once: what stands before, between and after them is put before, between and after the
//! messages of every conversation, so no request costs a rendering. A template of which that does not hold, because what it writes depends on the
//! number of messages or on their texts, has no conversations, and says why.

use std::sync::Arc;

use assay_manifest::MessageRole as Role;

use super::{Frame, MAX_TEMPLATE_TEXT, TemplateSource, quote, render};

/// The end of the thoughts in a response of a model that writes them into its text. Some templates cut them out of what was said before.
const END_OF_THOUGHTS: &str = "</think>";

/// The text that all placeholders begin with, and no template has in its own.
const PLACEHOLDER: &str = "placeholder qz";

/// The messages of the longest conversation that is tried. None is a part of another. They have what templates replace, escape or look for:
/// letters of both cases, signs, tags and line breaks.
const PLACEHOLDERS: [&str; 5] = [
    "placeholder qza: Is <b>1 & 2</b> \"it\", 'I' {{ask}}?\n\nYes.",
    "placeholder qzb: Is <b>1 & 2</b> \"it\", 'I' {{ask}}?\n\nYes.",
    "placeholder qzc: Is <b>1 & 2</b> \"it\", 'I' {{ask}}?\n\nYes.",
    "placeholder qzd: Is <b>1 & 2</b> \"it\", 'I' {{ask}}?\n\nYes.",
    "placeholder qze: Is <b>1 & 2</b> \"it\", 'I' {{ask}}?\n\nYes.",
];

/// The treatment of the thoughts of earlier responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thoughts {
    Kept,
    Cut,
    /// The line breaks behind them, too.
    CutWithBreaks,
}

/// The texts that a template puts around the messages of conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConversationTemplate {
    pub(super) source: Arc<TemplateSource>,
    /// The texts around a message that has no others before it.
    pub(crate) frame: Frame,
    /// True if it takes off the white space around the messages of users.
    trims: bool,
    /// The texts between messages, or the reason why there can be only one.
    dialogue: Result<Dialogue, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Dialogue {
    /// Absent if a conversation can have no message of the system.
    system: Option<SystemMessage>,
    user_assistant: String,
    assistant_user: String,
    /// The treatment of responses.
    trims: bool,
    thoughts: Thoughts,
}

/// The texts around a message of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SystemMessage {
    before: String,
    /// Up to the message of the user that follows.
    behind: String,
    trims: bool,
}

/// A template, as a function of messages.
type Render<'a> = dyn Fn(&[(Role, &str)]) -> Result<String, String> + 'a;

impl ConversationTemplate {
    /// Finds what the template puts around messages. `frame` is what it puts around a single one.
    pub(super) fn find(source: TemplateSource, frame: Frame) -> Result<Self, String> {
        let source = Arc::new(source);
        let render = |messages: &[(Role, &str)]| render(&source.text, &source.config, messages).map_err(|error| quote(&error));
        let [one, ..] = PLACEHOLDERS;
        let padded = padded(one);
        let trims = match render(&[(Role::User, &padded)])? {
            found if found == frame.around(&padded) => false,
            found if found == frame.around(one) => true,
            _ => {
                return Err(
                    "what it makes of a message is neither the message nor the message without the white space around it"
                        .to_owned(),
                );
            }
        };
        let single = Self { source: Arc::clone(&source), frame, trims, dialogue: Err(String::new()) };
        let dialogue = Dialogue::find(&render, &single);
        Ok(Self { dialogue, ..single })
    }

    /// Returns the text of messages that follow one of `before`, or begin a conversation. What stands behind the last message of a prompt is
    /// [`end`](Self::end).
    pub(crate) fn text(&self, before: Option<Role>, messages: &[(Role, &str)]) -> Result<String, String> {
        let (mut text, mut before) = (String::new(), before);
        for (role, message) in messages {
            text.push_str(self.between(before, *role)?);
            text.push_str(self.message(*role, message));
            before = Some(*role);
        }
        Ok(text)
    }

    /// Returns what stands behind the last message of a prompt.
    pub(crate) fn end(&self) -> &str {
        &self.frame.after
    }

    /// Returns the texts by which a prompt grows with a turn, beside its messages: what stands before a later message of a user, and before the
    /// response to it. Fails if there is only one turn, with the reason.
    pub(crate) fn turn_frame(&self) -> Result<Frame, &str> {
        let dialogue = self.dialogue.as_ref().map_err(String::as_str)?;
        Ok(Frame { before: dialogue.assistant_user.clone(), after: dialogue.user_assistant.clone() })
    }

    /// Returns what stands between two messages, or before the first.
    fn between(&self, before: Option<Role>, role: Role) -> Result<&str, String> {
        if (before, role) == (None, Role::User) {
            return Ok(&self.frame.before);
        }
        let dialogue = self.dialogue.as_ref().map_err(|why| format!("it takes a single message of `user`: {why}"))?;
        let system = || dialogue.system.as_ref().ok_or("it has no place of its own for a message of `system`".to_owned());
        match (before, role) {
            (None, Role::System) => system().map(|system| system.before.as_str()),
            (Some(Role::System), Role::User) => system().map(|system| system.behind.as_str()),
            (Some(Role::User), Role::Assistant) => Ok(&dialogue.user_assistant),
            (Some(Role::Assistant), Role::User) => Ok(&dialogue.assistant_user),
            (None, Role::User | Role::Assistant) => Err(format!("it would begin with a message of `{role}`")),
            (Some(before), _) => Err(format!("a message of `{role}` would follow one of `{before}`")),
        }
    }

    /// Returns what it makes of an earlier response, without what stands around it.
    pub(crate) fn response<'a>(&self, response: &'a str) -> &'a str {
        self.message(Role::Assistant, response)
    }

    /// Returns what it makes of a message.
    fn message<'a>(&self, role: Role, message: &'a str) -> &'a str {
        let dialogue = self.dialogue.as_ref().ok();
        let (message, trims) = match role {
            Role::User => (message, self.trims),
            Role::System => (message, dialogue.and_then(|dialogue| dialogue.system.as_ref()).is_some_and(|system| system.trims)),
            Role::Assistant => dialogue.map_or((message, false), |dialogue| (dialogue.thoughts.of(message), dialogue.trims)),
        };
        if trims { message.trim_matches(is_stripped) } else { message }
    }
}

/// Returns true for what Jinja takes off at the ends of a text: white space as Python has it.
fn is_stripped(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

impl Thoughts {
    /// Returns what is left of a response.
    fn of(self, response: &str) -> &str {
        let behind = response.rsplit_once(END_OF_THOUGHTS).map_or(response, |(_, behind)| behind);
        match self {
            Self::Kept => response,
            Self::Cut => behind,
            Self::CutWithBreaks => behind.trim_start_matches('\n'),
        }
    }
}

impl Dialogue {
    /// Finds what a template puts between messages; `single` has what it puts around one.
    fn find(render: &Render<'_>, single: &ConversationTemplate) -> Result<Self, String> {
        use Role::{Assistant, User};
        let short = texts_around(render, &[User, Assistant, User])?;
        let [first, user_assistant, assistant_user, end] = short.as_slice() else {
            return Err("of a conversation, it leaves a message out".to_owned());
        };
        let long = [first, user_assistant, assistant_user, user_assistant, assistant_user, end];
        let found = texts_around(render, &[User, Assistant, User, Assistant, User])?;
        if *first != single.frame.before || *end != single.frame.after || !found.iter().eq(long) {
            return Err("what it puts around a message depends on the number of messages".to_owned());
        }
        let rules =
            [Thoughts::Kept, Thoughts::Cut, Thoughts::CutWithBreaks].map(|thoughts| [(thoughts, false), (thoughts, true)]);
        let [one, two, three, ..] = PLACEHOLDERS;
        let responses = [format!("<think>\n{three}\n{END_OF_THOUGHTS}\n\n{two}"), padded(two)];
        let conversations =
            [0, 1].map(|place: usize| [(User, one), (Assistant, responses.get(place).map_or("", String::as_str)), (User, three)]);
        let rendered = conversations.iter().map(|messages| render(messages)).collect::<Result<Vec<_>, _>>()?;
        let dialogue = rules
            .into_iter()
            .flatten()
            .map(|(thoughts, trims)| Self {
                system: SystemMessage::find(render, user_assistant, assistant_user, end),
                user_assistant: user_assistant.clone(),
                assistant_user: assistant_user.clone(),
                trims,
                thoughts,
            })
            .find(|dialogue| {
                let template = ConversationTemplate { dialogue: Ok((*dialogue).clone()), ..single.clone() };
                let mut pairs = conversations.iter().zip(&rendered);
                pairs.all(|(messages, rendered)| template.text(None, messages).is_ok_and(|text| text + end == *rendered))
            });
        dialogue.ok_or_else(|| "what it makes of a response depends on the response".to_owned())
    }
}

impl SystemMessage {
    fn find(render: &Render<'_>, user_assistant: &str, assistant_user: &str, end: &str) -> Option<Self> {
        use Role::{Assistant, System, User};
        let short = texts_around(render, &[System, User]).ok()?;
        let long = texts_around(render, &[System, User, Assistant, User]).ok()?;
        let [before, behind, rest @ ..] = short.as_slice() else { return None };
        if !rest.iter().eq([end]) || !long.iter().eq([before, behind, user_assistant, assistant_user, end]) {
            return None;
        }
        let [one, two, ..] = PLACEHOLDERS;
        let padded = padded(one);
        let found = render(&[(System, &padded), (User, two)]).ok()?;
        let of = |message: &str| [before, message, behind, two, end].concat();
        let trims = [false, true].into_iter().find(|trims| found == of(if *trims { one } else { &padded }))?;
        Some(Self { before: before.clone(), behind: behind.clone(), trims })
    }
}

/// Returns a message with white space around it.
fn padded(message: &str) -> String {
    format!(" {message}\n")
}

/// Returns the texts around messages of these authors.
fn texts_around(render: &Render<'_>, roles: &[Role]) -> Result<Vec<String>, String> {
    let messages: Vec<(Role, &str)> = roles.iter().copied().zip(PLACEHOLDERS).collect();
    let rendered = render(&messages)?;
    if rendered.len() > MAX_TEMPLATE_TEXT {
        return Err(format!("it makes {} bytes of a short conversation, more than {MAX_TEMPLATE_TEXT}", rendered.len()));
    }
    split(&rendered, messages.iter().map(|(_, message)| *message))
}

/// Returns the texts around messages, each of which is in the text once, in their order.
fn split<'a>(text: &str, messages: impl Iterator<Item = &'a str>) -> Result<Vec<String>, String> {
    let (mut texts, mut rest) = (Vec::new(), text);
    for message in messages {
        let parted =
            rest.split_once(message).filter(|(before, behind)| !before.contains(PLACEHOLDER) && !behind.contains(message));
        let Some((before, behind)) = parted else {
            return Err("of a conversation, it leaves a message out, repeats or moves it".to_owned());
        };
        texts.push(before.to_owned());
        rest = behind;
    }
    texts.push(rest.to_owned());
    Ok(texts)
}
