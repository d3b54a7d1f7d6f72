//! The ceiling of a shard in a cluster: a pod with the placement and limits of a load shard measures it and prints it to its log.
//!
//! The log comes from a node that others share, so it is read as strictly as any untrusted input.

use assay_cluster::{CeilingPod, LoadPod, ObjectPath, Pod, ceiling_pod};
use assay_manifest::{Ceiling, Digest, Fact};
use assay_stage::{Context, Failure, Layout};

use super::{ProbeOutput, read_cached, store_measurement};
use crate::hardware::{LIMIT, one_line};
use crate::pods::PodProvisioner;

/// The most known measurements that are passed to a probe: each is an argument of its pod. On a machine of another one it
/// measures again.
const MAX_KNOWN: usize = 256;

impl PodProvisioner<'_> {
    /// Returns the ceiling of a shard on the node that the cluster chooses for it. It fails only if the stage is stopped.
    pub(crate) fn probe_ceiling(&self, ctx: &Context, load: &LoadPod, avoid: &[String]) -> Result<Fact<Ceiling>, Failure> {
        let known = list_known(ctx);
        let pod = CeilingPod {
            namespace: &self.here.targets_namespace,
            run_id: &self.run_id,
            image: &self.here.image,
            load,
            avoid,
            known: &known,
        };
        let output = self.run_probe(ctx, &pod);
        ctx.check_cancelled()?;
        let fact = output.and_then(|(node, said)| resolve_ceiling(ctx, &node, &parse_output(&said)?));
        Ok(fact.unwrap_or_else(|why| Fact::unknown(format!("the probe of a load node said nothing: {why}"))))
    }

    /// Runs the probe; returns the node that the pod ran on, and its output.
    fn run_probe(&self, ctx: &Context, pod: &CeilingPod<'_>) -> Result<(String, String), String> {
        let name = pod.name();
        self.create_pod(ctx, &name, &ceiling_pod(pod)).map_err(|failure| failure.message)?;
        let place = ObjectPath::named("Pod", pod.namespace, &name);
        // The pod may wait for a node as long as a shard would.
        let said = self.await_output(ctx, &name, (self.here.start_limit, self.here.start_limit + LIMIT));
        let there = self.cluster.get::<Pod>(&place).map_err(|error| error.to_string());
        self.delete_pod(&name);
        let node = there?.and_then(|pod| pod.spec?.node_name);
        Ok((node.ok_or("its pod does not say which node it ran on")?, said?))
    }
}

/// Returns the fingerprints of earlier measurements.
fn list_known(ctx: &Context) -> Vec<Digest> {
    let paths = ctx.store().list(Layout::CEILINGS).unwrap_or_else(|error| {
        tracing::warn!(%error, "what was measured before cannot be listed");
        Vec::new()
    });
    let digest = |path: &String| format!("sha256:{}", path.rsplit('/').next()?).parse().ok();
    paths.iter().filter_map(digest).take(MAX_KNOWN).collect()
}

fn parse_output(said: &str) -> Result<ProbeOutput, String> {
    let said: ProbeOutput = serde_json::from_str(one_line(said)?).map_err(|error| format!("it said no ceiling: {error}"))?;
    match &said.measured {
        Some(measured) if !measured.is_usable() => Err("it said a ceiling of nothing".to_owned()),
        _ => Ok(said),
    }
}

fn resolve_ceiling(ctx: &Context, node: &str, said: &ProbeOutput) -> Result<Fact<Ceiling>, String> {
    let fingerprint = said.fingerprint;
    match (&said.measured, &said.failure) {
        (Some(measured), _) => {
            store_measurement(ctx, &fingerprint, measured);
            Ok(measured.as_fact(fingerprint, false, node))
        }
        (None, Some(why)) => Err(why.chars().take(500).collect()),
        (None, None) => {
            let known = read_cached(ctx, &fingerprint).ok_or("it named a measurement that nobody has made")?;
            Ok(known.as_fact(fingerprint, true, node))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_probe_that_says_anything_else_is_not_believed() {
        let digest = Digest::compute(b"");
        assert!(parse_output(&format!("{{\"fingerprint\":\"{digest}\"}}\n")).is_ok());
        let measured = |concurrency: u32| {
            format!(
                r#"{{"fingerprint":"{digest}","measured":{{"concurrency":{concurrency},"requests_per_s":1,"events_per_s":1,"measured_at":"1970-01-01T00:00:00.000000000Z","program":"{digest}"}}}}"#
            )
        };
        assert!(parse_output(&measured(1)).is_ok());
        assert_eq!(parse_output(&measured(0)), Err("it said a ceiling of nothing".to_owned()));
        assert_eq!(parse_output("{}\n{}"), Err("it said more than one line".to_owned()));
        assert!(parse_output("").expect_err("nothing").starts_with("it said no ceiling"));
        assert!(parse_output(&measured(1).replace("program", "author")).expect_err("another member").contains("unknown field"));
    }

    proptest! {
        #[test]
        fn whatever_a_probe_says_is_understood_or_refused(text in "\\PC{0,80}") {
            let _ = parse_output(&text);
        }
    }
}
