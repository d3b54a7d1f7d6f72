//! Command lines of other tools: a table of options, and the words that are given.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::mapping::Mapping;
use crate::value::shown_name;

/// The options of `assay import` that no other tool has.
const OWN_OPTIONS: [&str; 7] = ["--to", "--partial", "--dry-run", "--force", "--json", "--lengths", "--only"];

/// The most words in front of a command.
const MAX_LEADING_WORDS: usize = 20;

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Its names, the long one first.
    pub(crate) names: &'static [&'static str],
    pub(crate) takes: Takes,
    pub(crate) treatment: Treatment,
    /// A value of it; with it the option has the outcome of its treatment, in a test.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of each row uses it"))]
    pub(crate) example: &'static str,
}

/// The words that follow an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None.
    Nothing,
    /// One word; the option may be given once.
    One,
    /// One word or more; the option may be repeated.
    Many,
}

/// The treatment of an option.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Treatment {
    /// The format maps it to this field.
    Carried(&'static str),
    /// It changes nothing that Assay measures.
    Ignored(&'static str),
    /// Assay cannot do the same.
    Refused(&'static str),
    /// Assay cannot do the same, unless it has this value, with which it changes nothing.
    Unless {
        /// The value.
        value: &'static str,
        /// The remedy for any other.
        remedy: &'static str,
    },
}

/// Returns an option that takes one word.
pub(crate) const fn one(names: &'static [&'static str], to: &'static str, example: &'static str) -> Flag {
    Flag { names, takes: Takes::One, treatment: Treatment::Carried(to), example }
}

/// Returns an option that takes several words.
pub(crate) const fn many(names: &'static [&'static str], to: &'static str, example: &'static str) -> Flag {
    Flag { names, takes: Takes::Many, treatment: Treatment::Carried(to), example }
}

/// Returns an option without a word.
pub(crate) const fn switch(names: &'static [&'static str], to: &'static str) -> Flag {
    Flag { names, takes: Takes::Nothing, treatment: Treatment::Carried(to), example: "" }
}

/// Returns an option that is ignored.
pub(crate) const fn ignored(names: &'static [&'static str], takes: Takes, why: &'static str) -> Flag {
    Flag { names, takes, treatment: Treatment::Ignored(why), example: "1" }
}

/// Returns an option that is refused.
pub(crate) const fn refused(names: &'static [&'static str], takes: Takes, remedy: &'static str) -> Flag {
    Flag { names, takes, treatment: Treatment::Refused(remedy), example: "1" }
}

/// Returns an option that is refused unless it has a value that changes nothing. `example` is another one.
pub(crate) const fn unless(
    names: &'static [&'static str],
    value: &'static str,
    remedy: &'static str,
    example: &'static str,
) -> Flag {
    Flag { names, takes: Takes::One, treatment: Treatment::Unless { value, remedy }, example }
}

/// The options of a command, or the fields of a document, that the format maps, by their first name.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    given: BTreeMap<&'static str, Vec<String>>,
}

impl Arguments {
    /// Reads the words behind a command. Options that are unknown, ignored or refused get their rows here.
    pub(crate) fn read(words: &[String], flags: &'static [Flag], mapping: &mut Mapping<'_>) -> Self {
        let mut arguments = Self::default();
        let mut rest = words.iter().peekable();
        while let Some(word) = rest.next() {
            let Some((name, attached)) = option_of(word) else {
                mapping.refused("(word)", "a word belongs to no option: remove it");
                continue;
            };
            let Some(flag) = flags.iter().find(|flag| flag.names.contains(&name.as_str())) else {
                // The words of an unknown option are not told from its values.
                while rest.next_if(|word| option_of(word).is_none()).is_some() {}
                let remedy = if OWN_OPTIONS.contains(&name.as_str()) {
                    "this is an option of `assay import`: write it before the `--`"
                } else {
                    "this option is not known to Assay: remove it if the load does not depend on it"
                };
                mapping.refused(&shown_name(&name), remedy);
                continue;
            };
            let mut values: Vec<String> = attached.into_iter().collect();
            let most = match flag.takes {
                Takes::Nothing => 0,
                Takes::One => 1,
                Takes::Many => usize::MAX,
            };
            while values.len() < most {
                match rest.next_if(|word| values.is_empty() && flag.takes == Takes::One || option_of(word).is_none()) {
                    Some(value) => values.push(value.clone()),
                    None => break,
                }
            }
            arguments.take(flag, values, mapping);
        }
        arguments
    }

    /// Takes the values of an option. One that is ignored or refused gets its row here.
    pub(crate) fn take(&mut self, flag: &Flag, values: Vec<String>, mapping: &mut Mapping<'_>) {
        let name = flag.names.first().copied().unwrap_or_default();
        match flag.treatment {
            Treatment::Ignored(why) => return mapping.ignored(name, why),
            Treatment::Unless { value, .. } if values.iter().all(|given| is_same(given, value)) => {
                return mapping.ignored(name, "with this value it changes nothing");
            }
            Treatment::Refused(remedy) | Treatment::Unless { remedy, .. } => return mapping.refused(name, remedy),
            Treatment::Carried(_) => {}
        }
        if flag.takes != Takes::Nothing && values.is_empty() {
            return mapping.refused(name, "this option takes a value");
        }
        if flag.takes == Takes::One && self.given.contains_key(name) {
            return mapping.refused(name, "this is given twice: keep one of them");
        }
        self.given.entry(name).or_default().extend(values);
    }

    /// Returns true if an option is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Returns the field of an option in a row: its name, and that it is absent if its default is written out.
    pub(crate) fn field(&self, name: &str) -> String {
        if self.has(name) { name.to_owned() } else { format!("{name}(absent)") }
    }

    /// Returns the value of an option that takes one word.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        self.given.get(name)?.first().map(String::as_str)
    }

    /// Returns the values of an option.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.given.get(name).into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns the whole number of an option; one that is none is refused.
    pub(crate) fn whole(&self, name: &str, mapping: &mut Mapping<'_>) -> Option<u64> {
        let text = self.one(name)?;
        let number = text.parse().ok();
        if number.is_none() {
            mapping.refused(name, "write a whole number");
        }
        number
    }

    /// Returns the number of an option, which is finite and not negative; one that is none is refused.
    pub(crate) fn number(&self, name: &str, mapping: &mut Mapping<'_>) -> Option<f64> {
        let text = self.one(name)?;
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            mapping.refused(name, "write a number of 0 or more");
        }
        number
    }

    /// Returns the whole number of an option. If it is absent or refused, returns the default of the other tool, and the row of a refused
    /// option states it.
    pub(crate) fn whole_or(&self, name: &str, default: u64, to: &str, mapping: &mut Mapping<'_>) -> u64 {
        self.whole(name, mapping).unwrap_or_else(|| {
            mapping.stands_in(name, to, &default_in_place(default));
            default
        })
    }

    /// Returns the number of an option. If it is absent or refused, returns the default of the other tool, and the row of a refused
    /// option states it.
    pub(crate) fn number_or(&self, name: &str, default: f64, to: &str, mapping: &mut Mapping<'_>) -> f64 {
        self.number(name, mapping).unwrap_or_else(|| {
            mapping.stands_in(name, to, &default_in_place(default));
            default
        })
    }

    /// Refuses each option that the format has read and then left without a row: none is left out silently.
    pub(crate) fn settle(&self, mapping: &mut Mapping<'_>) {
        for name in self.given.keys() {
            let begins =
                |field: &str| field.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '[', '.']));
            if !mapping.rows.iter().any(|row| begins(&row.field)) {
                mapping.refused(
                    name,
                    "this has no effect with the others as they are: correct those that are refused, or remove it",
                );
            }
        }
    }
}

/// Returns true if two values are the same, as texts or as numbers.
fn is_same(given: &str, value: &str) -> bool {
    given == value
        || matches!((given.parse::<f64>(), value.parse::<f64>()), (Ok(given), Ok(value)) if given.total_cmp(&value).is_eq())
}

/// States that the default of the other tool stands in the place of a refused option.
pub(crate) fn default_in_place(default: impl std::fmt::Display) -> String {
    format!("the default of the other tool, {default}, stands in its place")
}

/// Returns the name of an option, with `-` for `_`, and the value that is attached to it by `=`; `None` for a value.
fn option_of(word: &str) -> Option<(String, Option<String>)> {
    let rest = word.strip_prefix('-')?;
    if rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value.to_owned())));
    Some((name.replace('_', "-"), value))
}

/// Returns the place of the words that begin a command, such as `vllm bench serve`: those of the first of these commands that is there. A program may have a
/// path in front of it, and `NAME=VALUE` and launchers such as `env` may come first.
pub(crate) fn find_command(words: &[String], commands: &[&[&str]]) -> Option<Range<usize>> {
    let is_program = |word: &str, program: &str| word == program || word.rsplit('/').next() == Some(program);
    let begins_at = |command: &[&str], at: usize| {
        let Some((program, others)) = command.split_first() else { return false };
        let here = words.get(at).is_some_and(|word| is_program(word, program));
        let follow = words.get(at + 1..).unwrap_or_default();
        here && follow.len() >= others.len() && follow.iter().zip(others).all(|(word, expected)| word == expected)
    };
    let places = 0..words.len().min(MAX_LEADING_WORDS);
    commands.iter().find_map(|command| {
        let at = places.clone().find(|at| begins_at(command, *at))?;
        Some(at..at + command.len())
    })
}

/// Records the words that come before a command: variables, whose values are not copied, and launchers.
pub(crate) fn map_leading_words(words: &[String], mapping: &mut Mapping<'_>) {
    for word in words {
        if let Some((name, _)) = word.split_once('=') {
            mapping.ignored(&shown_name(name), "a variable of the other tool; its value is not copied");
        }
    }
}
