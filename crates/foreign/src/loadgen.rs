//! The settings of MLPerf's LoadGen, read and looked up as LoadGen does.

use std::collections::HashMap;

use crate::mapping::Mapping;
use crate::row::Outcome;
use crate::value::shown_name;

/// The scenarios of LoadGen.
pub(crate) const SCENARIOS: [&str; 4] = ["Server", "Offline", "SingleStream", "MultiStream"];

const NO_SETTING: &str = "write `MODEL.SCENARIO.key = NUMBER`, with spaces around the `=`, and comments on lines of their own";

/// A line that sets a key.
#[derive(Debug)]
pub(crate) struct Setting {
    model: String,
    pub(crate) scenario: String,
    pub(crate) key: String,
    pub(crate) value: String,
    /// Its treatment; `None` if it has none yet.
    pub(crate) treatment: Option<Treated>,
}

/// The treatment of a setting.
#[derive(Debug)]
pub(crate) struct Treated {
    pub(crate) outcome: Outcome,
    pub(crate) to: String,
    pub(crate) note: String,
}

impl Setting {
    /// Returns its name, as the file has it.
    pub(crate) fn field(&self) -> String {
        format!("{}.{}.{}", self.model, self.scenario, self.key)
    }

    /// Returns true if it is one of a model.
    pub(crate) fn is_of(&self, model: &str) -> bool {
        self.model == "*" || self.model == model
    }

    /// Returns its value as a whole number; `None` if LoadGen reads it as another one.
    pub(crate) fn whole(&self) -> Option<u64> {
        let has_zeros = self.value.len() > 1 && self.value.starts_with('0');
        self.value.parse().ok().filter(|_| !has_zeros)
    }

    /// Returns its value as a number of 0 or more.
    pub(crate) fn number(&self) -> Option<f64> {
        self.value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
    }
}

/// The settings of a file.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// All of them, in the order of the file.
    pub(crate) all: Vec<Setting>,
    /// The last setting of each name: it is the one that counts.
    by_name: HashMap<String, usize>,
}

impl Settings {
    /// Reads the lines of a file. Lines that LoadGen refuses or passes over get their rows here.
    pub(crate) fn read(text: &str, mapping: &mut Mapping<'_>) -> Self {
        let mut settings = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match read_line(line) {
                Ok(setting) => settings.add(setting),
                Err(remedy) => mapping.refused(&format!("line:{number}"), remedy),
            }
        }
        settings
    }

    fn add(&mut self, setting: Setting) {
        let index = self.all.len();
        if let Some(earlier) = self.by_name.insert(setting.field(), index) {
            self.treat(earlier, Outcome::Ignored, "", "a later line sets it again");
        }
        self.all.push(setting);
    }

    /// Returns the models that the file names, in its order.
    pub(crate) fn models(&self) -> Vec<String> {
        let mut models: Vec<String> = Vec::new();
        for setting in self.all.iter().filter(|setting| setting.model != "*") {
            if !models.contains(&setting.model) {
                models.push(setting.model.clone());
            }
        }
        models
    }

    /// Returns true if the file names a scenario for a model.
    pub(crate) fn has_scenario(&self, model: &str, scenario: &str) -> bool {
        self.all.iter().any(|setting| setting.scenario == scenario && setting.is_of(model))
    }

    /// Returns the place of the setting that counts for a key: of the model and the scenario, of the scenario, of the model, or of all, in
    /// this order, as LoadGen 6.0.17 looks them up.
    pub(crate) fn find(&self, model: &str, scenario: &str, key: &str) -> Option<usize> {
        let names = [(model, scenario), ("*", scenario), (model, "*"), ("*", "*")];
        names.iter().find_map(|(model, scenario)| self.by_name.get(&format!("{model}.{scenario}.{key}")).copied())
    }

    /// Records what became of a setting. One that counts for several scenarios has the strongest outcome of them.
    pub(crate) fn treat(&mut self, index: usize, outcome: Outcome, to: &str, note: &str) {
        let Some(setting) = self.all.get_mut(index) else { return };
        let is_stronger = setting.treatment.as_ref().is_none_or(|known| strength(outcome) > strength(known.outcome));
        if is_stronger {
            setting.treatment = Some(Treated { outcome, to: to.to_owned(), note: note.to_owned() });
        }
    }
}

fn strength(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Ignored => 0,
        Outcome::Mapped => 1,
        Outcome::Approximated | Outcome::SecretReference => 2,
        Outcome::Refused => 3,
    }
}

/// Returns true if a line begins with a key of a scenario and an equals sign.
pub(crate) fn is_setting(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| split_name(name.trim()).is_some())
}

/// Splits the name of a setting into the model, which may have dots, the scenario and the key.
fn split_name(name: &str) -> Option<(&str, &str, &str)> {
    let (rest, key) = name.rsplit_once('.')?;
    let (model, scenario) = rest.rsplit_once('.')?;
    let is_key =
        key.starts_with(|c: char| c.is_ascii_lowercase()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_model = model == "*" || (!model.contains('*') && shown_name(model) == model);
    ((scenario == "*" || SCENARIOS.contains(&scenario)) && is_key && is_model).then_some((model, scenario, key))
}

/// Reads a line that is neither empty nor a comment, or returns the remedy.
fn read_line(line: &str) -> Result<Setting, &'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, "=", value] = words.as_slice() else { return Err(NO_SETTING) };
    let Some((model, scenario, key)) = split_name(name) else {
        return Err(
            "a setting has a model or `*`, a scenario and a key: the scenarios are Server, Offline, SingleStream, MultiStream and `*`",
        );
    };
    if value.parse::<f64>().is_err() {
        return Err("LoadGen reads numbers only: write one, and comments on lines of their own");
    }
    let [model, scenario, key, value] = [model, scenario, key, value].map(str::to_owned);
    Ok(Setting { model, scenario, key, value, treatment: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::ImportOptions;

    fn settings(text: &str) -> (Settings, Vec<String>) {
        let options = ImportOptions::default();
        let mut mapping = Mapping::new(&options, 1);
        let settings = Settings::read(text, &mut mapping);
        (settings, mapping.rows.iter().map(|row| format!("{} {}", row.field, row.note.as_deref().unwrap_or_default())).collect())
    }

    /// A setting of the scenario takes precedence over one of the model.
    #[test]
    fn the_more_specific_setting_counts_as_in_loadgen() {
        let all = "m.Server.a = 1\n*.Server.a = 2\nm.*.a = 3\n*.*.a = 4\n";
        for (left_out, expected) in [(0, "1"), (1, "2"), (2, "3"), (3, "4")] {
            let text: Vec<&str> = all.lines().skip(left_out).collect();
            let (settings, _) = settings(&text.join("\n"));
            let index = settings.find("m", "Server", "a").expect("set");
            assert_eq!(settings.all[index].value, expected);
        }
        let (settings, _) = settings(all);
        assert_eq!(settings.find("n", "Server", "a"), Some(1));
        assert_eq!((settings.find("n", "Offline", "a"), settings.find("m", "Server", "b")), (Some(3), None));
    }

    #[test]
    fn lines_that_loadgen_does_not_read_as_settings_are_refused_by_their_number() {
        let (settings, rows) =
            settings("# a\n\n  #b\nm.Server.a=1\nm.Server.a = 1 # c\nm.Servre.a = 1\nm.Server.a = x\nm.Server.a = 2\n");
        assert_eq!(settings.all.len(), 1);
        let lines: Vec<&str> = rows.iter().filter_map(|row| row.split(' ').next()).collect();
        assert_eq!(lines, ["line:4", "line:5", "line:6", "line:7"]);
    }

    #[test]
    fn the_last_of_several_lines_counts() {
        let (settings, _) = settings("m.Server.a = 1\nm.Server.a = 2\n");
        assert_eq!(settings.find("m", "Server", "a"), Some(1));
        assert_eq!(settings.all[0].treatment.as_ref().map(|treated| treated.outcome), Some(Outcome::Ignored));
    }

    #[test]
    fn a_model_may_have_dots_and_a_value_is_the_number_that_loadgen_reads() {
        assert_eq!(split_name("wan-2.2.Offline.min_duration"), Some(("wan-2.2", "Offline", "min_duration")));
        for none in ["a.b", "a.Server", "a.Server.", "a*.Server.b", "sk-abcdefghijklmnopqrstuvwxyz.Server.b", "a.server.b"] {
            assert_eq!(split_name(none), None, "{none}");
        }
        let value = |value: &str| read_line(&format!("*.*.a = {value}")).expect("a setting");
        assert_eq!(
            (value("0").whole(), value("10").whole(), value("010").whole(), value("1.5").whole()),
            (Some(0), Some(10), None, None)
        );
        assert_eq!((value("1.5").number(), value("-1").number(), value("inf").number()), (Some(1.5), None, None));
    }
}
