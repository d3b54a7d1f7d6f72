//! The telemetry sources of a Plan: exporters as they are, and Prometheus servers with the queries of their packs.

use assay_failure::{ErrorCode, Failure};
use assay_manifest::{Artifact, Count, Digest, Name, PinnedFile, PrometheusSource, QueryPack, TelemetrySource};
use assay_spec::Pack;

use crate::{Pins, SourceFiles, nanoseconds, plan_tls};

/// Returns a query pack of Assay as planned; `None` if there is none of that name.
pub fn built_in_pack(name: &str) -> Option<QueryPack> {
    let text = Pack::built_in_text(name)?;
    Pack::built_in(name).map(|pack| planned(pack, Digest::compute(text.as_bytes()), None))
}

/// Plans a telemetry source. The packs of Assay are pins: a version of Assay may have others.
pub(crate) fn plan_telemetry(
    files: &SourceFiles<'_>,
    pins: &mut dyn Pins,
    source: &assay_spec::TelemetrySource,
) -> Result<TelemetrySource, Failure> {
    let built_in = &mut |pack: &Name| pins.query_pack(&source.name, pack);
    let own = &mut |path: &str| plan_file(&source.name, path, files.bytes(path), files.file(path)?.artifact.clone());
    let prometheus = source.prometheus.as_ref().map(|server| plan_prometheus(server, built_in, own)).transpose()?;
    Ok(TelemetrySource {
        name: source.name.clone(),
        scrape: source.scrape.clone(),
        prometheus,
        nvidia_smi: source.nvidia_smi,
        otlp: source.otlp.clone(),
        sacct: source.sacct.clone(),
    })
}

/// Returns the Prometheus of a telemetry source as a plan of this Assay would have it, with the bytes of its files by path.
pub fn prometheus_source(
    source: &Name,
    server: &assay_spec::PrometheusSource,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Result<PrometheusSource, Failure> {
    let built_in = &mut |pack: &Name| built_in_pack(pack.as_str()).ok_or_else(|| unknown_pack(pack));
    let own = &mut |path: &str| {
        let missing = || Failure::new(ErrorCode::FileMissing, format!("there is no file `{path}`"));
        let bytes = read(path).ok_or_else(missing)?;
        let (digest, size) = (Digest::compute(&bytes), Count(bytes.len() as u64));
        let artifact = Artifact { name: path.to_owned(), digest, size, media_type: "application/octet-stream".to_owned() };
        plan_file(source, path, &bytes, artifact)
    };
    plan_prometheus(server, built_in, own)
}

/// Returns a query pack of Assay by its name.
type BuiltIn<'a> = &'a mut dyn FnMut(&Name) -> Result<QueryPack, Failure>;

/// Returns a query pack of the repository by its path.
type Own<'a> = &'a mut dyn FnMut(&str) -> Result<QueryPack, Failure>;

fn plan_prometheus(
    server: &assay_spec::PrometheusSource,
    built_in: BuiltIn<'_>,
    own: Own<'_>,
) -> Result<PrometheusSource, Failure> {
    let mut packs = server.packs.iter().map(built_in).collect::<Result<Vec<_>, _>>()?;
    for path in &server.queries {
        packs.push(own(path)?);
    }
    Ok(PrometheusSource {
        url: server.url.clone(),
        headers: server.headers.iter().map(|(name, value)| value.to_env_var(name)).collect(),
        insecure_skip_tls_verify: server.insecure_skip_tls_verify,
        tls: server.tls.as_ref().map(plan_tls),
        matchers: server.matchers.clone(),
        packs,
    })
}

/// Plans a query pack of the repository.
fn plan_file(source: &Name, path: &str, bytes: &[u8], artifact: Artifact) -> Result<QueryPack, Failure> {
    let pack = Pack::parse(path, bytes).map_err(|problems| Failure::invalid(&problems))?;
    let artifact = Artifact { name: format!("telemetry/{source}/{path}"), ..artifact };
    let digest = artifact.digest;
    let file = PinnedFile { path: path.to_owned(), origin: path.to_owned(), executable: false, artifact };
    Ok(planned(&pack, digest, Some(file)))
}

fn planned(pack: &Pack, digest: Digest, file: Option<PinnedFile>) -> QueryPack {
    QueryPack {
        name: pack.name.clone(),
        digest,
        file,
        exporter: pack.exporter.clone(),
        resolution_ns: nanoseconds(pack.resolution),
        queries: pack.queries.clone(),
    }
}

/// Returns the failure of a query pack that this Assay does not have.
pub(crate) fn unknown_pack(name: &Name) -> Failure {
    Failure::new(ErrorCode::Plan, format!("there is no query pack `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pack_of_assay_can_be_planned() {
        for name in Pack::built_in_names() {
            let planned = built_in_pack(name).expect("a pack");
            assert_eq!(planned.digest, Digest::compute(Pack::built_in_text(name).unwrap_or_default().as_bytes()));
            assert!(!planned.queries.is_empty() && planned.file.is_none(), "{name}");
        }
        assert_eq!(built_in_pack("absent"), None);
    }

    #[test]
    fn metrics_of_all_packs_have_names_of_their_own() {
        let packs = Pack::built_in_names().filter_map(built_in_pack);
        let mut names: Vec<String> = packs.flat_map(|pack| pack.queries).map(|query| query.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "one source may be asked all of them");
    }

    #[test]
    fn a_file_that_is_missing_or_no_pack_is_named() {
        let server = assay_spec::PrometheusSource {
            url: "http://p".to_owned(),
            packs: Vec::new(),
            queries: vec!["p.yaml".to_owned()],
            matchers: std::collections::BTreeMap::new(),
            headers: std::collections::BTreeMap::new(),
            insecure_skip_tls_verify: false,
            tls: None,
        };
        let refused = |bytes: Option<&[u8]>| {
            let read = |_: &str| bytes.map(<[u8]>::to_vec);
            prometheus_source(&"fleet".parse().expect("a name"), &server, &read).expect_err("refused").code
        };
        assert_eq!(refused(None), ErrorCode::FileMissing);
        assert_eq!(refused(Some(b"pack: own")), ErrorCode::DefinitionInvalid);
    }
}
