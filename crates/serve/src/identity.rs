//! Identities of clients, and the objects that each may write. Pure.

use std::fmt;
use std::str::FromStr;

use assay_chain::StageName;
use assay_manifest::Role;
use assay_store::ObjectPath;

/// A holder of credentials for the store. Its text form is its access key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Identity {
    /// May read, and write nothing.
    Read,
    /// Writes the objects that one role signs: `source` starts and ends runs, a stage writes its results.
    Role(Role),
    /// A whole run on one machine: the source and all six stages.
    Run,
}

/// The effect of a write on an existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The existing object stays, and the second writer gets an error.
    Create,
    /// The existing object is replaced.
    Replace,
}

/// The reason why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No identity may write it.
    NoIdentity(&'static str),
    /// Only this other identity may write it.
    OtherIdentity(Identity),
}

impl Identity {
    const READ: &'static str = "read";
    const RUN: &'static str = "run";

    /// Returns all identities that a store knows.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [Self::Read, Self::Run].into_iter().chain(Role::RUN.into_iter().map(Self::Role))
    }

    /// Checks that the identity may write an object.
    pub(crate) fn may_write(self, write: WriteMode, place: &ObjectPath) -> Result<(), Refusal> {
        if self == Self::Read {
            return Err(Refusal::NoIdentity("these credentials only read"));
        }
        match place {
            // A blob can only be replaced by the same bytes, which repairs a damaged one.
            ObjectPath::Blob(_) => Ok(()),
            ObjectPath::Staging(name) if is_random(name) => match write {
                WriteMode::Create => Ok(()),
                WriteMode::Replace => Err(Refusal::NoIdentity(CREATE_ONLY)),
            },
            ObjectPath::Staging(_) => Err(Refusal::NoIdentity("what is staged has a name of sixteen hexadecimal digits")),
            ObjectPath::Pointer(path) => {
                let owner = owner(path).ok_or(Refusal::NoIdentity("no run writes there, and a served store has no prefix"))?;
                if write == WriteMode::Replace && !is_checkpoint(path) {
                    return Err(Refusal::NoIdentity(CREATE_ONLY));
                }
                let is_drivers = self == Self::Role(Role::Source) && is_mark_of_driver(path);
                if self == Self::Run || self == owner || is_drivers { Ok(()) } else { Err(Refusal::OtherIdentity(owner)) }
            }
        }
    }

    /// Checks that the identity may remove an object: only incomplete objects, and nothing that a run rests on.
    pub(crate) fn may_remove(self, place: &ObjectPath) -> Result<(), Refusal> {
        match place {
            ObjectPath::Staging(name) if is_random(name) && self != Self::Read => Ok(()),
            _ => Err(Refusal::NoIdentity("nothing in a store is removed")),
        }
    }
}

const CREATE_ONLY: &str = "objects of a store are created once and stay: send `If-None-Match: *`";

/// Returns true if the name is one that a client gives a staged object: sixteen hexadecimal digits.
fn is_random(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns the identity that writes a pointer, or an object of the warehouse; `None` if no identity may.
fn owner(path: &str) -> Option<Identity> {
    let mut parts = path.split('/');
    let role = match (parts.next()?, parts.next()?, parts.next()) {
        ("runs", _, Some("source" | "ends")) | ("cases" | "times", _, Some(_)) => Role::Source,
        ("runs", _, Some(stage)) => StageName::ALL.into_iter().find(|known| known.as_str() == stage)?.role(),
        ("warehouse", _, Some(_)) => Role::Publish,
        ("ceilings", _, None) => Role::Provision,
        // A copy of a run writes the results of all of its stages. A gate judges finished runs, and likewise acts for a person.
        // So do the person who calibrates a client, the one who searches for a load, and the one who imports results of another tool.
        ("fetched" | "foreign" | "foreign-verdicts" | "searches", _, None) | ("gates" | "calibrations", _, Some(_)) => {
            return Some(Identity::Run);
        }
        _ => return None,
    };
    Some(Identity::Role(role))
}

/// Returns true if the path is a mark that the driver of a run creates below a stage's results: the one that ends an attempt because a
/// shard was lost, which the driver sees first, and the one after which a stage begins. They cost an attempt or let a stage begin, and
/// never make a result.
fn is_mark_of_driver(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["runs", _, "execute", _, "trials", _, _, "broken"] | ["runs", _, "execute", _, "may-begin"])
}

/// Returns true if an object of a table's log only speeds up readers: it can be made again from the commits, which stay.
fn is_checkpoint(path: &str) -> bool {
    let Some((_, name)) = path.strip_prefix("warehouse/").and_then(|path| path.split_once("/_delta_log/")) else { return false };
    name == "_last_checkpoint" || (!name.contains('/') && name.contains(".checkpoint") && name.ends_with(".parquet"))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str(Self::READ),
            Self::Role(role) => role.fmt(f),
            Self::Run => f.write_str(Self::RUN),
        }
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::all().find(|identity| identity.to_string() == text).ok_or(())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIdentity(why) => f.write_str(why),
            Self::OtherIdentity(owner) => write!(f, "only `{owner}` and `{}` write there", Identity::Run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(name: &str) -> Identity {
        name.parse().expect("an identity")
    }

    fn writers(write: WriteMode, path: &str) -> Vec<String> {
        let place = ObjectPath::parse(path).expect("a place");
        Identity::all()
            .filter(|identity| identity.may_write(write, &place).is_ok())
            .map(|identity| identity.to_string())
            .collect()
    }

    const ALL: [&str; 8] = ["run", "source", "plan", "provision", "execute", "collect", "reduce", "publish"];

    #[test]
    fn each_stage_creates_its_own_results() {
        let creators = |path: &str| writers(WriteMode::Create, path);
        assert_eq!(creators("runs/r/source"), ["run", "source"]);
        assert_eq!(creators("runs/r/ends/000001"), ["run", "source"]);
        assert_eq!(creators("cases/w.t.default/r"), ["run", "source"]);
        assert_eq!(creators("times/r/000000"), ["run", "source"]);
        for stage in StageName::ALL {
            let role = stage.role().to_string();
            assert_eq!(creators(&format!("runs/r/{stage}/00ff/accepted/0")), ["run", &role], "{stage}");
        }
        assert_eq!(creators("runs/r/execute/00ff/trials/t/000001/0.started"), ["run", "execute"]);
        assert_eq!(creators("runs/r/execute/00ff/trials/t/000001/broken"), ["run", "source", "execute"]);
        assert_eq!(creators("runs/r/execute/00ff/may-begin"), ["run", "source", "execute"]);
        for path in [
            "runs/r/execute/00ff/accepted/broken",
            "runs/r/execute/00ff/accepted/may-begin",
            "runs/r/execute/00ff/trials/may-begin",
        ] {
            assert_eq!(creators(path), ["run", "execute"], "{path}");
        }
        assert_eq!(creators("runs/r/plan/00ff/may-begin"), ["run", "plan"]);
        assert_eq!(creators("warehouse/outcome_fact/_delta_log/00000000000000000000.json"), ["run", "publish"]);
        assert_eq!(creators("fetched/r"), ["run"]);
        assert_eq!(creators("ceilings/00ff"), ["run", "provision"]);
        assert_eq!(creators("gates/pr-17/000001"), ["run"]);
        assert_eq!(creators("calibrations/a/b/full/00000000000000000001"), ["run"]);
        assert_eq!(creators("foreign/peers"), ["run"]);
        assert_eq!(creators("searches/search-1"), ["run"]);
        assert_eq!(creators("staging/0123456789abcdef"), ALL);
        assert_eq!(creators(&blob()), ALL);
        for path in
            ["runs/r", "runs/r/other", "cases/c", "warehouse/x", "ceilings/a/b", "elsewhere/a/b", "staging/uploads/x/00001"]
        {
            assert_eq!(creators(path), [""; 0], "{path}");
        }
    }

    fn blob() -> String {
        ObjectPath::Blob(assay_manifest::Digest::compute(b"x")).to_string()
    }

    #[test]
    fn what_is_there_stays() {
        let replacers = |path: &str| writers(WriteMode::Replace, path);
        assert_eq!(replacers("runs/r/source"), [""; 0]);
        assert_eq!(replacers("runs/r/publish/00ff/accepted/0"), [""; 0]);
        assert_eq!(replacers("ceilings/00ff"), [""; 0]);
        assert_eq!(replacers("gates/pr-17/000001"), [""; 0]);
        assert_eq!(replacers("staging/0123456789abcdef"), [""; 0]);
        assert_eq!(replacers("warehouse/t/_delta_log/00000000000000000020.json"), [""; 0]);
        assert_eq!(replacers("warehouse/t/_delta_log/00000000000000000020.checkpoint.parquet"), ["run", "publish"]);
        assert_eq!(replacers("warehouse/t/_delta_log/_last_checkpoint"), ["run", "publish"]);
        assert_eq!(replacers("warehouse/t/00ff.parquet"), [""; 0]);
        assert_eq!(replacers(&blob()), ALL);
    }

    #[test]
    fn only_what_a_client_staged_is_removed() {
        for path in ["runs/r/source", "warehouse/t/a.parquet", "staging/uploads/x/00001", &blob()] {
            let place = ObjectPath::parse(path).expect("a place");
            assert!(Identity::all().all(|identity| identity.may_remove(&place).is_err()), "{path}");
        }
        let staged = ObjectPath::parse("staging/0123456789abcdef").expect("a place");
        assert!(identity("reduce").may_remove(&staged).is_ok());
        assert!(identity("read").may_remove(&staged).is_err());
    }

    #[test]
    fn a_refusal_says_who_may() {
        let place = ObjectPath::parse("runs/r/publish/00ff/accepted/0").expect("a place");
        let told = |name: &str, write| identity(name).may_write(write, &place).expect_err("refused").to_string();
        insta::assert_snapshot!(told("execute", WriteMode::Create), @"only `publish` and `run` write there");
        insta::assert_snapshot!(told("publish", WriteMode::Replace), @"objects of a store are created once and stay: send `If-None-Match: *`");
        insta::assert_snapshot!(told("read", WriteMode::Create), @"these credentials only read");
    }

    proptest! {
        /// No path gives a stage access to more than its own part of a run.
        #[test]
        fn a_stage_writes_no_other_stage_s_results(path in "(runs|cases|warehouse)(/[a-z_.0-9]{1,12}){1,4}") {
            let Ok(place) = ObjectPath::parse(&path) else { return Ok(()) };
            let stages = Identity::all().filter(|identity| *identity != Identity::Run);
            let writers = stages.filter(|identity| identity.may_write(WriteMode::Create, &place).is_ok()).count();
            prop_assert!(writers <= 1 || path.ends_with("/broken"), "{}", path);
        }
    }
}
