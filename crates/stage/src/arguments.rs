//! The command line of a stage binary: everything by digest, so that a container or a person can run the chain without `assay`.

use std::path::PathBuf;
use std::str::FromStr;

use assay_manifest::{Digest, RunId, Shard};

/// Run one stage: verify its inputs, run it, sign its result and have it accepted.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub(crate) struct Arguments {
    /// The artifact store: a folder or a URI.
    #[arg(long, value_name = "URI", env = "ASSAY_STORE", hide_env_values = true)]
    pub(crate) store: String,
    /// The run that this stage belongs to.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: RunId,
    /// An input, as the digests of its manifest and of its bundle; repeat it for each input.
    #[arg(long = "input", value_name = "MANIFEST,BUNDLE")]
    pub(crate) inputs: Vec<ManifestRef>,
    /// The trust policy that the inputs must satisfy: a digest in the store, or a file.
    #[arg(long, value_name = "DIGEST|FILE")]
    pub(crate) trust: String,
    /// The stage's private key in cosign's format; its password is read from `COSIGN_PASSWORD`, empty if unset.
    #[arg(long, value_name = "FILE", conflicts_with = "key_fd")]
    pub(crate) key: Option<PathBuf>,
    /// An inherited file descriptor to read the unlocked key (PKCS#8 DER) from.
    #[arg(long, value_name = "N")]
    pub(crate) key_fd: Option<u32>,
    /// The stage's parameters, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) parameters: String,
    /// The shard of this process: its index, and the number of shards of the trial.
    #[arg(long, value_name = "I/N", default_value = "0/1", value_parser = parse_shard)]
    pub(crate) shard: Shard,
    /// The folder for scratch files; a private folder inside it is created and removed.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) scratch: Option<PathBuf>,
    /// The file for the reason of a failure, as JSON, which a cluster shows for a terminated container.
    #[arg(long, value_name = "FILE")]
    pub(crate) failure_file: Option<PathBuf>,
    /// Verify the inputs, but begin only once the store has this object: the driver creates it when all that has to run beside
    /// the stage runs.
    #[arg(long, value_name = "PATH")]
    pub(crate) begin_after: Option<String>,
    /// Only compute: nothing is signed or accepted, outputs go to this store, and the manifest's digest is printed.
    #[arg(long, value_name = "URI")]
    pub(crate) recompute: Option<String>,
}

/// A manifest and its bundle, by digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ManifestRef {
    pub(crate) manifest: Digest,
    pub(crate) bundle: Digest,
}

impl FromStr for ManifestRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (manifest, bundle) = text.split_once(',').ok_or("expected two digests joined by a comma: MANIFEST,BUNDLE")?;
        let digest = |text: &str| text.parse::<Digest>().map_err(|error| error.to_string());
        Ok(Self { manifest: digest(manifest)?, bundle: digest(bundle)? })
    }
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let parsed = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match parsed {
        Some((index, count)) if index < count => Ok(Shard { index, count }),
        _ => Err("expected I/N with I below N, such as 0/3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use proptest::prelude::*;

    const REQUIRED: [&str; 6] = ["--store", "s", "--run", "nightly", "--trust", "trust.yaml"];

    fn parse(more: &[&str]) -> Result<Arguments, String> {
        let all = ["assay-plan"].iter().chain(&REQUIRED).chain(more);
        Arguments::try_parse_from(all).map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn shards_and_pairs_are_read_strictly() {
        assert_eq!(parse_shard("2/3"), Ok(Shard { index: 2, count: 3 }));
        for bad in ["3/3", "1", "/", "-1/2", "0/0", "", "0/1/2", "a/b", "0/4294967296"] {
            assert!(parse_shard(bad).is_err(), "{bad}");
        }
        let digest = Digest::compute(b"");
        assert_eq!(format!("{digest},{digest}").parse(), Ok(ManifestRef { manifest: digest, bundle: digest }));
        for bad in [digest.to_string(), format!("{digest},"), format!(",{digest}"), format!("{digest},{digest},{digest}")] {
            assert!(bad.parse::<ManifestRef>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let arguments = parse(&[]).expect("enough");
        assert_eq!((arguments.parameters.as_str(), arguments.shard, arguments.inputs.len()), ("{}", Shard::ONLY, 0));
        assert!(arguments.key.is_none() && arguments.key_fd.is_none() && arguments.recompute.is_none());
    }

    #[test]
    fn an_input_is_given_once_for_each() {
        let digest = Digest::compute(b"");
        let pair = format!("{digest},{digest}");
        assert_eq!(parse(&["--input", &pair, "--input", &pair]).expect("two").inputs.len(), 2);
        insta::assert_snapshot!(parse(&["--input", "x"]).expect_err("no pair"), @"error: invalid value 'x' for '--input <MANIFEST,BUNDLE>': expected two digests joined by a comma: MANIFEST,BUNDLE");
    }

    #[test]
    fn contradictions_and_what_is_no_name_are_refused() {
        insta::assert_snapshot!(parse(&["--key", "k", "--key-fd", "3"]).expect_err("two keys"), @"error: the argument '--key <FILE>' cannot be used with '--key-fd <N>'");
        let other = Arguments::try_parse_from(["assay-plan", "--store", "s", "--run", "Nightly", "--trust", "t"]);
        assert!(other.expect_err("no run id").to_string().contains("`Nightly` is not a run id"));
        insta::assert_snapshot!(parse(&["--shard", "3/3"]).expect_err("no shard"), @"error: invalid value '3/3' for '--shard <I/N>': expected I/N with I below N, such as 0/3");
    }

    proptest! {
        #[test]
        fn whatever_is_typed_is_a_shard_and_a_pair_or_refused(text in "\\PC{0,80}") {
            if let Ok(shard) = parse_shard(&text) {
                prop_assert!(shard.index < shard.count);
            }
            let _ = text.parse::<ManifestRef>();
        }
    }
}
