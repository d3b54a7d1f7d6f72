//! The vectors in `golden.json` are those of Jinja2 3.1.6, by `golden.py`.

use std::collections::BTreeMap;

use assay_manifest::TemplateUse;
use serde_json::json;

use super::*;
use crate::Tokenizer;
use crate::tests::{BYTES, special_words, word_level};

/// Messages, each with its author and its text.
type Messages = Vec<(Role, String)>;

#[derive(Deserialize)]
struct Golden {
    conversations: BTreeMap<String, Messages>,
    templates: Vec<GoldenTemplate>,
}

#[derive(Deserialize)]
struct GoldenTemplate {
    name: String,
    template: String,
    before: String,
    after: String,
    /// The texts of the conversations; absent for one that the template refuses.
    conversations: BTreeMap<String, Option<String>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden.json")).expect("vectors")
}

fn config() -> Vec<u8> {
    json!({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "model_max_length": 4096})
        .to_string()
        .into_bytes()
}

fn rendered(template: &str) -> Result<ConversationTemplate, TokenizerError> {
    ConversationTemplate::render(&TemplateFiles { config: Some(&config()), template: Some(template.as_bytes()) })
}

fn frame(template: &str) -> Result<Frame, TokenizerError> {
    rendered(template).map(|template| template.frame)
}

/// Returns the prompt of a conversation.
fn prompt(template: &ConversationTemplate, messages: &Messages) -> Result<String, String> {
    let messages: Vec<(Role, &str)> = messages.iter().map(|(role, text)| (*role, text.as_str())).collect();
    template.text(None, &messages).map(|text| text + template.end())
}

#[test]
fn templates_give_what_jinja_gives() {
    let golden = golden();
    assert_eq!(golden.templates.len(), 6);
    for GoldenTemplate { name, template, before, after, .. } in golden.templates {
        assert_eq!(frame(&template), Ok(Frame { before, after }), "{name}");
    }
}

#[test]
fn conversations_are_what_jinja_makes_of_them_or_are_refused() {
    let golden = golden();
    let mut refused = Vec::new();
    for GoldenTemplate { name, template, conversations, .. } in golden.templates {
        let template = rendered(&template).expect("a template");
        for (conversation, expected) in conversations {
            match prompt(&template, &golden.conversations[&conversation]) {
                Ok(text) => assert_eq!(Some(text), expected, "{name}: {conversation}"),
                Err(why) => refused.push(format!("{name}, {conversation}: {why}")),
            }
        }
    }
    insta::assert_snapshot!(refused.join("\n"), @r"
    inst, told: it has no place of its own for a message of `system`
    inst, told two: it has no place of its own for a message of `system`
    headers, told: it has no place of its own for a message of `system`
    headers, told two: it has no place of its own for a message of `system`
    turns, told: it has no place of its own for a message of `system`
    turns, told two: it has no place of its own for a message of `system`
    last, thought: it takes a single message of `user`: what it puts around a message depends on the number of messages
    last, told: it takes a single message of `user`: what it puts around a message depends on the number of messages
    last, told two: it takes a single message of `user`: what it puts around a message depends on the number of messages
    last, two: it takes a single message of `user`: what it puts around a message depends on the number of messages
    ");
}

#[test]
fn a_template_that_looks_at_messages_is_found_out_by_those_that_show_it() {
    let found = |template: &str, prompts: &[&[&str]]| {
        let template = rendered(template).expect("a template");
        let of = |texts: &&[&str]| {
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            roles.zip(*texts).map(|(role, text)| (role, (*text).to_owned())).collect::<Vec<_>>()
        };
        template.first_other(prompts.iter().map(of).collect()).expect("rendered")
    };
    let chatml = &golden().templates[0].template;
    let prompts: [&[&str]; 4] = [&["a"], &["a WORLD", "", "c"], &["", "</think>", " x "], &["1", "2", "3", "4", "5", "6", "7"]];
    assert_eq!(found(chatml, &prompts), None);
    let plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    assert_eq!(found(plain, &prompts), None);
    assert_eq!(found(&plain.replace("m.content }}", "m.content }}{% if 'WORLD' in m.content %}!{% endif %}"), &prompts), Some(1));
    assert_eq!(found(&plain.replace("m.content }}", "m.content }}{% if not m.content %}!{% endif %}"), &prompts), Some(1));
    assert_eq!(found(&plain.replace("m.content }}", "m.content }}{% if loop.index > 6 %}!{% endif %}"), &prompts), Some(3));
    let refusing = plain.replace("{% for", "{% if messages|length > 6 %}{{ raise_exception('too long') }}{% endif %}{% for");
    assert_eq!(found(&refusing, &prompts), Some(3));
}

#[test]
fn only_messages_that_follow_each_other_in_every_template_are_put_together() {
    use Role::{Assistant, System, User};
    let template = rendered(&golden().templates[0].template).expect("a template");
    let refused = |roles: &[Role]| {
        let messages = roles.iter().map(|role| (*role, "x".to_owned())).collect();
        prompt(&template, &messages).expect_err("refused")
    };
    let all =
        [refused(&[Assistant, User]), refused(&[User, User]), refused(&[User, System, User]), refused(&[System, Assistant])];
    insta::assert_snapshot!(all.join("\n"), @r"
    it would begin with a message of `assistant`
    a message of `user` would follow one of `user`
    a message of `system` would follow one of `user`
    a message of `assistant` would follow one of `system`
    ");
}

#[test]
fn what_follows_is_what_the_whole_has_behind_what_was_said() {
    let template = rendered(&golden().templates[0].template).expect("a template");
    let whole = [(Role::System, "a"), (Role::User, "b"), (Role::Assistant, "c"), (Role::User, "d")];
    let (said, added) = whole.split_at(2);
    let parts = [template.text(None, said).expect("said"), template.text(Some(Role::User), added).expect("added")];
    assert_eq!(Ok(parts.concat()), template.text(None, &whole));
}

#[test]
fn the_template_of_a_configuration_is_its_text_or_the_one_named_default() {
    let own = |template: Json| {
        let config = json!({"chat_template": template}).to_string();
        let files = TemplateFiles { config: Some(config.as_bytes()), template: None };
        ConversationTemplate::render(&files).map(|template| template.frame)
    };
    let expected = Frame { before: "user: ".to_owned(), after: String::new() };
    let text = "{{ messages[0].role }}: {{ messages[0].content }}";
    assert_eq!(own(json!(text)), Ok(expected.clone()));
    assert_eq!(own(json!([{"name": "tool_use", "template": ""}, {"name": "default", "template": text}])), Ok(expected.clone()));
    let config = json!({"chat_template": "unused"}).to_string();
    let of_file =
        ConversationTemplate::render(&TemplateFiles { config: Some(config.as_bytes()), template: Some(text.as_bytes()) });
    assert_eq!(of_file.map(|template| template.frame), Ok(expected));
}

#[test]
fn a_template_that_cannot_be_used_is_refused() {
    let refused = |template: &str| frame(template).expect_err("refused").to_string();
    let around = |before: &str| format!("{before}{{{{ messages[0].content }}}}");
    insta::assert_snapshot!(
        [
            refused("{% for message in messages %}"),
            refused("no message"),
            refused("{{ messages[0].content }}{{ messages[0].content }}"),
            refused(&around("{{ messages[0].content | length }} ")),
            refused(&around("{{ raise_exception('only tools') }}")),
            refused(&around("{{ strftime_now('%d') }}")),
            refused(&around("{% include 'other' %}")),
            refused(&around("{% generation %}")),
        ]
        .join("\n"),
        @r"
        the chat template cannot be used: syntax error: unexpected end of input, expected end of block (in chat_template:1)
        the chat template cannot be used: a message is in its text 0 times, not once
        the chat template cannot be used: a message is in its text 2 times, not once
        the chat template cannot be used: what it puts around a message depends on the message
        the chat template cannot be used: invalid operation: it refuses the message: only tools (in chat_template:1)
        the chat template cannot be used: unknown function: strftime_now is unknown (in chat_template:1)
        the chat template cannot be used: syntax error: unknown statement include (in chat_template:1)
        the chat template cannot be used: syntax error: unknown statement generation (in chat_template:1)
        "
    );
    let config_refused = |config: &[u8]| {
        ConversationTemplate::render(&TemplateFiles { config: Some(config), template: None }).expect_err("refused").to_string()
    };
    let missing = "there is no `chat_template.jinja`, and `tokenizer_config.json` has no `chat_template`";
    for config in [b"{}".as_slice(), b"{\"chat_template\": [{\"name\": \"rag\"}]}", b"{\"chat_template\": 7}"] {
        assert_eq!(config_refused(config), format!("the chat template cannot be used: {missing}"));
    }
    assert!(config_refused(b"{").starts_with("the chat template cannot be used: `tokenizer_config.json`: EOF"));
}

#[test]
fn a_template_that_names_no_special_token_needs_no_configuration() {
    let alone = |text: &str| ConversationTemplate::render(&TemplateFiles { config: None, template: Some(text.as_bytes()) });
    let frame = alone("<|user|>{{ messages[0].content }}<|end|>").expect("a frame").frame;
    assert_eq!((frame.before.as_str(), frame.after.as_str()), ("<|user|>", "<|end|>"));
    let refused = alone("{{ bos_token }}{{ messages[0].content }}").expect_err("refused").to_string();
    insta::assert_snapshot!(refused, @"the chat template cannot be used: it names `bos_token`, whose text a `tokenizer_config.json` has, and there is none");
    let neither = ConversationTemplate::render(&TemplateFiles { config: None, template: None }).expect_err("refused").to_string();
    assert!(neither.contains("there is no `chat_template.jinja`"), "{neither}");
}

#[test]
fn a_template_has_limits() {
    let out_of_fuel = |template: &str| {
        let error = frame(template).expect_err("refused").to_string();
        assert!(error.contains("out of fuel"), "{template}: {error}");
    };
    out_of_fuel("{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}");
    out_of_fuel(
        "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    );
    out_of_fuel("{{ 'x' * 1000000000 }}");
    let error = frame("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").expect_err("refused").to_string();
    assert!(error.contains("recursion"), "{error}");
    let long = format!("{}{{{{ messages[0].content }}}}", "x".repeat(MAX_TEMPLATE_TEXT + 1));
    assert_eq!(frame(&long), Err(TokenizerError::Template("it puts 65537 bytes around a message, more than 65536".to_owned())));
    let large = vec![b' '; MAX_TEMPLATE_BYTES + 1];
    let of_large = ConversationTemplate::render(&TemplateFiles { config: Some(&large), template: None });
    assert_eq!(of_large, Err(TokenizerError::FileTooLarge(MAX_TEMPLATE_BYTES + 1)));
}

/// A tokenizer whose tokens are words and the special texts of the ChatML template.
fn tokenizer(usage: TemplateUse) -> Tokenizer {
    let template = &golden().templates[0].template;
    let files = TemplateFiles { config: Some(&config()), template: Some(template.as_bytes()) };
    Tokenizer::from_file(&special_words(200, &["<|im_start|>", "<|im_end|>"]))
        .and_then(|tokenizer| tokenizer.with_template(&files, usage))
        .expect("a tokenizer")
}

#[test]
fn prompts_have_their_length_with_the_template() {
    let (apply, count) = (tokenizer(TemplateUse::Apply), tokenizer(TemplateUse::Count));
    // `<|im_start|>`, `system`, `You are a helpful assistant` and its point, `<|im_end|>`; `<|im_start|>`, `user`; then `<|im_end|>`,
    // `<|im_start|>`, `assistant`. The unknown words are one token each.
    assert_eq!((apply.template_tokens(), count.template_tokens()), (Some(14), Some(14)));
    for tokens in [15, 16, 40, 1_000] {
        let (sent, message) = (apply.prompt(7, Some(3), tokens).expect("made"), count.prompt(7, Some(3), tokens).expect("made"));
        assert_eq!((sent.tokens, apply.count(&sent.text)), (tokens, Ok(u64::from(tokens))));
        assert_eq!((message.tokens, count.count(&message.text)), (tokens, Ok(u64::from(tokens) - 14)));
        assert!(sent.text.starts_with("<|im_start|>system\n") && sent.text.ends_with("<|im_start|>assistant\n"), "{}", sent.text);
        assert!(sent.text.contains(&format!("<|im_start|>user\n{}<|im_end|>", message.text)));
    }
    // A shorter prompt is the template with a single word.
    let shortest = apply.prompt(7, None, 3).expect("made");
    assert_eq!((shortest.tokens, apply.count(&shortest.text)), (15, Ok(15)));
}

#[test]
fn pieces_have_their_sum_with_the_template() {
    let apply = tokenizer(TemplateUse::Apply);
    let pieces = apply.pieces(&[(1, 10), (2, 5), (3, 30)]).expect("made");
    assert_eq!((pieces.tokens, apply.count(&pieces.text)), (45, Ok(45)));
    let other = apply.pieces(&[(1, 10), (2, 5), (4, 30)]).expect("made");
    let common = pieces.text.bytes().zip(other.text.bytes()).take_while(|(one, other)| one == other).count();
    assert!(apply.count(&pieces.text[..common]).expect("counted") >= 14 - 4 + 15, "both begin with the template and 15 words");
}

#[test]
fn a_conversation_has_the_tokens_of_its_turns_and_responses() {
    let (apply, count) = (tokenizer(TemplateUse::Apply).of_messages(), tokenizer(TemplateUse::Count).of_messages());
    let first = apply.prompt(7, Some(3), 40).expect("made");
    assert_eq!(first, count.prompt(7, Some(3), 40).expect("made"), "a message, whoever applies the template");
    let mut said = vec![(Role::User, first.text)];
    let mut tokens = first.tokens;
    let whole = |said: &[(Role, String)]| {
        let messages: Vec<(Role, &str)> = said.iter().map(|(role, text)| (*role, text.as_str())).collect();
        assert_eq!(count.applied(&messages), None);
        apply.applied(&messages).expect("applied").expect("a prompt")
    };
    for turn in 0..3 {
        assert_eq!(apply.count(&whole(&said)), Ok(u64::from(tokens)), "turn {turn}");
        let (response, next) = (apply.unframed(turn, 9).expect("made"), apply.later_message(turn, 30).expect("made"));
        assert_eq!((response.tokens, next.tokens, apply.count(&response.text)), (9, 30, Ok(9)));
        said.extend([(Role::Assistant, response.text), (Role::User, next.text)]);
        tokens += 9 + 30;
    }
}

#[test]
fn a_template_of_single_messages_makes_no_later_turn() {
    let files = TemplateFiles { config: Some(&config()), template: Some(b"x {{ messages[0].content }} x") };
    let tokenizer =
        Tokenizer::from_file(&word_level(200)).and_then(|tokenizer| tokenizer.with_template(&files, TemplateUse::Count));
    let tokenizer = tokenizer.expect("a tokenizer").of_messages();
    assert!(tokenizer.prompt(1, None, 12).is_ok());
    insta::assert_snapshot!(tokenizer.later_message(1, 12).expect_err("refused"), @"the chat template cannot be used: of a conversation, it leaves a message out, repeats or moves it");
    let messages = [(Role::User, "a"), (Role::Assistant, "b"), (Role::User, "c")];
    insta::assert_snapshot!(tokenizer.in_template(None, &messages).expect("a template").expect_err("refused"), @"the chat template takes no such messages: it takes a single message of `user`: of a conversation, it leaves a message out, repeats or moves it");
}

#[test]
fn a_template_may_merge_with_a_word() {
    // By words between spaces and signs, `xtime` is one token, as `time` is: the template adds a letter and no token.
    let files = TemplateFiles { config: Some(&config()), template: Some(b"x{{ messages[0].content }}") };
    let tokenizer =
        Tokenizer::from_file(&word_level(200)).and_then(|tokenizer| tokenizer.with_template(&files, TemplateUse::Apply));
    let tokenizer = tokenizer.expect("a tokenizer");
    assert_eq!(tokenizer.template_tokens(), Some(0));
    let prompt = tokenizer.prompt(1, None, 12).expect("made");
    assert_eq!((prompt.tokens, tokenizer.count(&prompt.text)), (12, Ok(12)));
}

#[test]
fn a_prompt_of_words_that_do_not_add_up_states_what_it_has() {
    let (config, golden) = (config(), golden());
    let files = TemplateFiles { config: Some(&config), template: Some(golden.templates[1].template.as_bytes()) };
    // By bytes, `<s>[INST] ` and ` [/INST]` are 10 and 8 tokens.
    let tokenizer = Tokenizer::from_file(&BYTES).and_then(|tokenizer| tokenizer.with_template(&files, TemplateUse::Apply));
    let tokenizer = tokenizer.expect("a tokenizer");
    assert_eq!(tokenizer.template_tokens(), Some(18));
    for tokens in [60, 61, 62] {
        let prompt = tokenizer.prompt(1, None, tokens).expect("made");
        assert_eq!(tokenizer.count(&prompt.text), Ok(u64::from(prompt.tokens)));
        // No word has fewer than three letters.
        assert!(prompt.tokens.abs_diff(tokens) <= 3, "{} for {tokens}", prompt.tokens);
    }
}

/// Each of these would overflow a stack, which ends the process: nested operators, branches, a value that holds itself.
#[test]
fn a_template_that_would_use_up_the_stack_is_refused() {
    let told = |template: &str| {
        frame(&format!("{template}{{{{ messages[0].content }}}}")).map(|_| ()).map_err(|error| error.to_string())
    };
    let too_long = "the chat template cannot be used: invalid operation: it has more than 16384 tokens";
    let long = [
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(50_000)),
        format!("{{{{ 1{} }}}}", "|string".repeat(60_000)),
        format!("{{{{ a{} }}}}", ".b".repeat(100_000)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(30_000)),
    ];
    for template in long {
        assert_eq!(told(&template), Err(too_long.to_owned()));
    }
    let whole = "the chat template cannot be used: invalid operation: the namespace `n` is used as a whole, and not by a member such as `n.a`";
    let elsewhere =
        "the chat template cannot be used: invalid operation: `namespace` stands elsewhere than in `set NAME = namespace(...)`";
    for template in [
        "{% set n = namespace() %}{% set n.a = n %}{{ n }}",
        "{% set n = namespace() %}{% for m in [n] %}{% set m.a = m %}{% endfor %}",
    ] {
        assert_eq!(told(template), Err(whole.to_owned()), "{template}");
    }
    for template in ["{% set f = namespace %}", "{% for n in [namespace()] %}{% set n.a = n %}{% endfor %}", "{{ namespace() }}"]
    {
        assert_eq!(told(template), Err(elsewhere.to_owned()), "{template}");
    }
    // What is as deep as it may be does not overflow: operators, and a value that holds another as often as steps allow.
    let deepest = MAX_TOKENS - 20;
    for template in [
        format!("{{{{ {}1 }}}}", "-".repeat(deepest)),
        format!("{{{{ {}1 }}}}", "not ".repeat(deepest)),
        format!("{{{{ 1{} }}}}", "|string".repeat(deepest / 2)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(deepest / 4)),
        "{% set n = namespace(a=1) %}{% for i in range(9999) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a|string|length }}"
            .to_owned(),
    ] {
        let _ = told(&template);
    }
    let used = "{% set n = namespace(found=false) %}{% if not n.found %}{% set n.found = true %}{% endif %}{{ n['found'] }} {{ messages[0].content }}";
    assert_eq!(frame(used).map(|frame| frame.before), Ok("True ".to_owned()));
}
