//! Diagnosis: why the numbers of one side are worse than those of another, from what was recorded while they were measured.
//!
//! A [`Rule`] is data (`diagnosis/*.yaml`): the outcomes that it may explain, the signals that have to have moved with them, each with a
//! threshold and its reason, and the experiment that would confirm it. [`explain`] compares the counted attempts of two sides, point by point.
//! It is a pure function of its arguments.
//!
//! A rule holds at a point if an outcome got worse beyond doubt over all outcomes and points, and each of its signals moved in the stated direction, by at least its
//! threshold, and more than the attempts of either side differ from each other. So the p-value of its signals is the largest of their tests (an
//! intersection-union test: Berger, Technometrics 24, 1982), and those of all rules and points are one family. Both families are adjusted by Holm's method.
//!
//! The signals of a rule are associated with the outcome in time and place. They do not prove a cause: that is for the experiment.

mod evidence;
mod experiment;
mod explain;
mod finding;
mod quantity;
mod reference;
mod rule;

pub use evidence::{Better, ClusterEvent, Outcome, Pair, Reading, Series, Subject, Window};
pub use experiment::Experiment;
pub use explain::{ALPHA, FEWEST_ATTEMPTS, explain};
pub use finding::{Change, Conclusion, Explanation, Finding, Healthy, NotChecked, Seen, Unsure, Worse};
pub use reference::reference_page;
pub use rule::{Among, Class, Direction, Playbook, Rule, RuleError, Signal, SourceClass, WhenAbsent, parse_rules, rules};
