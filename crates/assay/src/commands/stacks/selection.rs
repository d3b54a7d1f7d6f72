//! The selection of stacks: a seeded walk over the versions of dependencies, the combinations of some versions, or the latest one.
//! Pure but for the resolver that it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use assay_manifest::{Digest, normalised_package_name};
use assay_schedule::{Generator, Seed};
use assay_spec::{LockedPackage, parse_lock, render};
use assay_stage::{ErrorCode, Failure};

/// The resolutions that are tried for each stack, at most.
const TRIES_PER_STACK: usize = 20;

/// The most combinations of versions that are listed, of which some are drawn.
const MAX_COMBINATIONS: usize = 100_000;

/// A resolver, whose responses may change from day to day.
pub(crate) trait Resolve {
    /// Returns the text of a lock file, or the resolver's reason why there is none.
    fn lock(&mut self, wanted: &Resolution<'_>) -> Result<Result<String, String>, Failure>;

    /// Returns the versions of a package, the newest first, or the reason why they are not known.
    fn versions(&mut self, package: &str) -> Result<Result<Vec<String>, String>, Failure>;
}

/// The wanted properties of a lock file, besides the requirements.
#[derive(Debug, Default)]
pub(crate) struct Resolution<'a> {
    /// The lock file whose versions are kept if they can be.
    pub(crate) kept: Option<&'a str>,
    /// The dependency that has another version than there.
    pub(crate) moved: Option<(&'a str, &'a str)>,
    /// The versions of packages.
    pub(crate) pins: &'a [(String, String)],
}

/// The rule by which stacks are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Method {
    /// Begin with the latest stack, and move a random dependency to a random version, again and again
    Random,
    /// Combine the versions of the named packages, and resolve everything else
    Combinations,
    /// The latest stack alone
    Latest,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Combinations => "combinations",
            Self::Latest => "latest",
        }
    }
}

/// A package whose versions vary: `NAME`, or `NAME==PATTERN,PATTERN`, where a pattern is a version or the beginning of one with `.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariedPackage {
    pub(crate) name: String,
    pub(crate) patterns: Vec<String>,
}

impl std::str::FromStr for VariedPackage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, patterns) = text.split_once("==").map_or((text, ""), |(name, patterns)| (name, patterns));
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+!*".contains(&byte));
        let patterns: Vec<String> =
            patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()).map(str::to_owned).collect();
        let name = name.trim();
        if !is_word(name) || name.starts_with('-') || !patterns.iter().all(|pattern| is_word(pattern)) {
            return Err("expected `NAME` or `NAME==VERSION,VERSION`, such as `numpy==1.26.*,2.0.1`".to_owned());
        }
        Ok(Self { name: normalised_package_name(name), patterns })
    }
}

impl VariedPackage {
    fn has(&self, version: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| fits(pattern, version))
    }

    /// Returns the patterns that none of the versions fits.
    fn unmatched(&self, versions: &[String]) -> Vec<&str> {
        let is_unmatched = |pattern: &&String| !versions.iter().any(|version| fits(pattern, version));
        self.patterns.iter().filter(is_unmatched).map(String::as_str).collect()
    }
}

/// Returns true if a version is the one of a pattern, or begins as one that ends in `.*` does.
fn fits(pattern: &str, version: &str) -> bool {
    match pattern.strip_suffix(".*") {
        Some(begin) => version.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
        None => version == pattern,
    }
}

/// A lock file among those that are selected.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// Its lock file.
    pub(crate) lock: String,
    /// The packages of the lock file.
    pub(crate) packages: Vec<LockedPackage>,
    /// The way to it, such as `numpy 2.1.0`.
    pub(crate) change: String,
}

/// A stack that was wanted and not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) change: String,
    pub(crate) reason: String,
}

/// The selected stacks, and what became of the others.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) stacks: Vec<Stack>,
    /// The number of resolutions that gave a stack again.
    pub(crate) duplicates: usize,
    pub(crate) skipped: Vec<Skipped>,
    digests: BTreeSet<Digest>,
}

impl Selection {
    /// Adds a stack unless it is there: two lock files of the same packages and digests are one. Returns false for one that is no lock
    /// file, which is skipped.
    pub(crate) fn add(&mut self, change: String, lock: String) -> bool {
        match parse_lock("the lock file", lock.as_bytes()) {
            Ok(packages) => {
                if self.digests.insert(normalised_digest(&packages)) {
                    self.stacks.push(Stack { lock, packages, change });
                } else {
                    self.duplicates += 1;
                }
                true
            }
            Err(problems) => {
                let first = problems.first().map(|problem| problem.message.clone());
                self.skip(change, first.unwrap_or_else(|| render(&problems)));
                false
            }
        }
    }

    fn skip(&mut self, change: String, reason: String) {
        self.skipped.push(Skipped { change, reason });
    }
}

/// Returns the digest of the packages of a lock file, in any order and layout.
fn normalised_digest(packages: &[LockedPackage]) -> Digest {
    let mut lines: Vec<String> = packages
        .iter()
        .map(|locked| {
            format!(
                "{}=={};{:?} {}\n",
                locked.package.name,
                locked.package.version,
                locked.package.marker,
                locked.hashes.join(" ")
            )
        })
        .collect();
    lines.sort();
    Digest::compute(lines.concat().as_bytes())
}

/// The wanted selection.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) count: usize,
    pub(crate) seed: u64,
    pub(crate) packages: &'a [VariedPackage],
}

/// Selects stacks. The same request and the same responses of the resolver give the same stacks.
pub(crate) fn select(request: &Request<'_>, resolver: &mut dyn Resolve) -> Result<Selection, Failure> {
    let mut selection = Selection::default();
    let seed = Seed::new(*Digest::compute(format!("assay.dev/v1alpha1 stacks {}", request.seed).as_bytes()).as_bytes());
    match request.method {
        Method::Latest => _ = latest(resolver, &mut selection)?,
        Method::Random => walk(request, resolver, &mut Draws::new(&seed), &mut selection)?,
        Method::Combinations => combine(request, resolver, &seed, &mut selection)?,
    }
    Ok(selection)
}

/// The random numbers of a walk, one after the other.
struct Draws {
    generator: Generator,
    next: u64,
}

impl Draws {
    fn new(seed: &Seed) -> Self {
        Self { generator: Generator::new(seed, &["stacks", "walk"]), next: 0 }
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let bound = NonZeroU64::new(items.len() as u64)?;
        let index = self.generator.below(self.next, bound);
        self.next += 1;
        items.get(index as usize)
    }
}

/// Adds the latest stack; returns its lock file.
fn latest(resolver: &mut dyn Resolve, selection: &mut Selection) -> Result<String, Failure> {
    let lock = resolver
        .lock(&Resolution::default())?
        .map_err(|why| Failure::new(ErrorCode::NoStack, format!("the requirements cannot be resolved: {why}")))?;
    if !selection.add("latest".to_owned(), lock.clone()) {
        let why = selection.skipped.pop().map(|skipped| skipped.reason).unwrap_or_default();
        return Err(Failure::new(ErrorCode::NoStack, format!("what the resolver wrote is no lock file: {why}")));
    }
    Ok(lock)
}

/// Walks from stack to stack: each has a random dependency of the one before at a random version.
fn walk(request: &Request<'_>, resolver: &mut dyn Resolve, draws: &mut Draws, selection: &mut Selection) -> Result<(), Failure> {
    let mut last = latest(resolver, selection)?;
    let mut known = KnownVersions::default();
    for _ in 0..request.count.saturating_mul(TRIES_PER_STACK) {
        if selection.stacks.len() >= request.count {
            break;
        }
        let packages = parse_lock("the lock file", last.as_bytes()).unwrap_or_default();
        let varied = |name: &str| request.packages.iter().find(|package| package.name == name);
        let candidates: Vec<&LockedPackage> =
            packages.iter().filter(|locked| request.packages.is_empty() || varied(&locked.package.name).is_some()).collect();
        let Some(moved) = draws.pick(&candidates) else {
            return Err(Failure::new(ErrorCode::NoStack, "the latest stack has none of the packages that `--package` names"));
        };
        let name = &moved.package.name;
        let others: Vec<String> = match known.get(resolver, name)? {
            Ok(versions) => {
                let is_other = |version: &&String| {
                    **version != moved.package.version && varied(name).is_none_or(|package| package.has(version))
                };
                versions.iter().filter(is_other).cloned().collect()
            }
            Err(why) => {
                let why = why.clone();
                selection.skip(format!("{name} at another version"), why);
                continue;
            }
        };
        let Some(version) = draws.pick(&others) else {
            selection.skip(format!("{name} at another version"), "there is no other version".to_owned());
            continue;
        };
        let change = format!("{name} {version}");
        let wanted = Resolution { kept: Some(&last), moved: Some((name, version)), pins: &[(name.clone(), version.clone())] };
        match resolver.lock(&wanted)? {
            Ok(lock) if selection.add(change.clone(), lock.clone()) => last = lock,
            Ok(_) => {}
            Err(why) => selection.skip(change, why),
        }
    }
    Ok(())
}

/// Resolves the combinations of the versions of the named packages: all of them, or as many as wanted, drawn at random. As many are tried as by a walk.
fn combine(request: &Request<'_>, resolver: &mut dyn Resolve, seed: &Seed, selection: &mut Selection) -> Result<(), Failure> {
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    let mut absent = Vec::new();
    for package in request.packages {
        let versions = resolver.versions(&package.name)?.map_err(|why| {
            Failure::new(ErrorCode::NoStack, format!("the versions of `{}` are not known: {why}", package.name))
        })?;
        let unmatched = package.unmatched(&versions);
        absent.extend(unmatched.into_iter().map(|pattern| format!("{} {pattern}", package.name)));
        let wanted: Vec<String> = versions.into_iter().filter(|version| package.has(version)).collect();
        if wanted.is_empty() {
            let message = format!("no version of `{}` fits `{}`", package.name, package.patterns.join(","));
            return Err(Failure::new(ErrorCode::NoStack, message));
        }
        if combinations.len().saturating_mul(wanted.len()) > MAX_COMBINATIONS {
            let message = format!("the versions of the named packages have more than {MAX_COMBINATIONS} combinations");
            return Err(Failure::new(ErrorCode::NoStack, message).hint("name fewer versions with `--package NAME==PATTERN`"));
        }
        let with = |pins: &Vec<(String, String)>, version: &String| {
            [pins.clone(), vec![(package.name.clone(), version.clone())]].concat()
        };
        combinations = combinations.iter().flat_map(|pins| wanted.iter().map(move |version| with(pins, version))).collect();
    }
    if combinations.len() > request.count {
        combinations = Generator::new(seed, &["stacks", "combinations"]).shuffle(combinations);
    }
    for pins in combinations.iter().take(request.count.saturating_mul(TRIES_PER_STACK)) {
        if selection.stacks.len() >= request.count {
            break;
        }
        let change = pins.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ");
        match resolver.lock(&Resolution { pins, ..Resolution::default() })? {
            Ok(lock) => _ = selection.add(change, lock),
            Err(why) => selection.skip(change, why),
        }
    }
    // Last, because the first reason of a search that makes no stack is printed.
    for change in absent {
        selection.skip(change, "the resolver lists no such version".to_owned());
    }
    Ok(())
}

/// The versions of packages, each requested once.
#[derive(Default)]
struct KnownVersions(BTreeMap<String, Result<Vec<String>, String>>);

impl KnownVersions {
    fn get(&mut self, resolver: &mut dyn Resolve, package: &str) -> Result<&Result<Vec<String>, String>, Failure> {
        let found = match self.0.remove(package) {
            Some(found) => found,
            None => resolver.versions(package)?,
        };
        Ok(self.0.entry(package.to_owned()).or_insert(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of two packages: `app` needs `base`, and `app` 2 does not work with `base` 1.
    struct Index {
        calls: usize,
    }

    fn hash(text: &str) -> String {
        Digest::compute(text.as_bytes()).hex()
    }

    impl Resolve for Index {
        fn lock(&mut self, wanted: &Resolution<'_>) -> Result<Result<String, String>, Failure> {
            self.calls += 1;
            let kept = wanted.kept.map(|lock| parse_lock("kept", lock.as_bytes()).expect("a lock file")).unwrap_or_default();
            let version = |name: &str| {
                let pinned = wanted.pins.iter().find(|(pinned, _)| pinned == name).map(|(_, version)| version.clone());
                let kept = kept.iter().find(|locked| locked.package.name == name).map(|locked| locked.package.version.clone());
                pinned.or(kept).unwrap_or_else(|| "3".to_owned())
            };
            let (app, base) = (version("app"), version("base"));
            if (app.as_str(), base.as_str()) == ("2", "1") {
                return Ok(Err("app 2 depends on base 2 or later".to_owned()));
            }
            Ok(Ok(format!("app=={app} --hash=sha256:{}\nbase=={base} --hash=sha256:{}\n", hash(&app), hash(&base))))
        }

        fn versions(&mut self, _: &str) -> Result<Result<Vec<String>, String>, Failure> {
            Ok(Ok(["3", "2", "1"].map(str::to_owned).to_vec()))
        }
    }

    fn selected(method: Method, count: usize, seed: u64, packages: &[&str]) -> Selection {
        let packages: Vec<VariedPackage> = packages.iter().map(|text| text.parse().expect("a package")).collect();
        select(&Request { method, count, seed, packages: &packages }, &mut Index { calls: 0 }).expect("stacks")
    }

    fn versions(selection: &Selection) -> Vec<String> {
        let of =
            |stack: &Stack| stack.packages.iter().map(|locked| locked.package.version.as_str()).collect::<Vec<_>>().join(" ");
        selection.stacks.iter().map(of).collect()
    }

    #[test]
    fn the_same_seed_walks_the_same_way() {
        let (one, same, other) =
            (selected(Method::Random, 5, 7, &[]), selected(Method::Random, 5, 7, &[]), selected(Method::Random, 5, 8, &[]));
        assert_eq!(versions(&one), versions(&same));
        assert_ne!(versions(&one), versions(&other));
        assert_eq!(versions(&one).len(), 5);
        assert_eq!(versions(&one)[0], "3 3", "it begins with the latest");
        let steps = versions(&one);
        let differing = |pair: &[String]| pair[0].split(' ').zip(pair[1].split(' ')).filter(|(a, b)| a != b).count();
        assert!(one.duplicates > 0 || steps.windows(2).all(|pair| differing(pair) == 1), "{steps:?}");
    }

    #[test]
    fn a_walk_ends_when_there_are_no_more_stacks() {
        let all = selected(Method::Random, 20, 7, &[]);
        assert_eq!(versions(&all).len(), 8, "nine combinations, of which one does not resolve");
        assert!(all.duplicates > 0 && all.skipped.iter().all(|skipped| skipped.reason == "app 2 depends on base 2 or later"));
        assert!(!all.skipped.is_empty());
        let one = selected(Method::Random, 20, 7, &["base==1"]);
        assert_eq!(versions(&one), ["3 3", "3 1"]);
        assert!(one.skipped.iter().all(|skipped| skipped.reason == "there is no other version"), "{:?}", one.skipped);
    }

    #[test]
    fn combinations_are_all_of_the_named_versions_or_some_of_them() {
        let all = selected(Method::Combinations, 200, 1, &["app==2,3", "base==1,2"]);
        assert_eq!(versions(&all), ["3 2", "3 1", "2 2"]);
        assert_eq!(
            all.skipped,
            [Skipped { change: "app 2, base 1".to_owned(), reason: "app 2 depends on base 2 or later".to_owned() }]
        );
        let absent = selected(Method::Combinations, 200, 1, &["app==3,9.*", "base==2"]);
        assert_eq!(versions(&absent), ["3 2"]);
        let reason = "the resolver lists no such version".to_owned();
        assert_eq!(absent.skipped, [Skipped { change: "app 9.*".to_owned(), reason }]);
        let some = selected(Method::Combinations, 2, 1, &["app", "base"]);
        assert_eq!(versions(&some).len(), 2);
        assert_eq!(versions(&selected(Method::Latest, 1, 1, &[])), ["3 3"]);
    }

    /// An index in which nothing resolves.
    struct Refusing {
        calls: usize,
    }

    impl Resolve for Refusing {
        fn lock(&mut self, _: &Resolution<'_>) -> Result<Result<String, String>, Failure> {
            self.calls += 1;
            Ok(Err("no".to_owned()))
        }

        fn versions(&mut self, _: &str) -> Result<Result<Vec<String>, String>, Failure> {
            Ok(Ok((0..300).map(|version| version.to_string()).collect()))
        }
    }

    #[test]
    fn combinations_that_do_not_resolve_are_tried_so_often_only() {
        let packages: Vec<VariedPackage> = ["a", "b"].map(|name| name.parse().expect("a package")).to_vec();
        let mut index = Refusing { calls: 0 };
        let request = Request { method: Method::Combinations, count: 2, seed: 1, packages: &packages };
        let selection = select(&request, &mut index).expect("a selection");
        assert_eq!((index.calls, selection.skipped.len(), selection.stacks.len()), (40, 40, 0));
    }

    #[test]
    fn two_layouts_of_a_lock_file_are_one_stack() {
        let mut selection = Selection::default();
        let (a, b) = (format!("a==1 --hash=sha256:{}", hash("a")), format!("b==1 --hash=sha256:{}", hash("b")));
        assert!(selection.add("one".to_owned(), format!("{a}\n{b}\n")));
        assert!(selection.add("two".to_owned(), format!("# a comment\n{b}\n{a}\n")));
        assert!(!selection.add("three".to_owned(), "a\n".to_owned()));
        assert_eq!((selection.stacks.len(), selection.duplicates, selection.skipped.len()), (1, 1, 1));
    }

    #[test]
    fn a_pattern_is_a_version_or_the_beginning_of_one() {
        let package: VariedPackage = "NumPy==1.26.*,2.0.1".parse().expect("a package");
        assert_eq!(package.name, "numpy");
        assert_eq!(
            ["1.26.4", "1.260", "2.0.1", "2.0.10", "1.26"].map(|version| package.has(version)),
            [true, false, true, false, true]
        );
        assert!(["", "-x", "a==1 2", "==1"].iter().all(|text| text.parse::<VariedPackage>().is_err()));
    }
}
