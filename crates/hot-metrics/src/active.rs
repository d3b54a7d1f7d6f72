//! The active series of a receiver: the query that counts them, and its response.

use assay_manifest::RunId;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::error::{Error, Result, clean};
use crate::name::PREFIX;

/// A series is active if it has a sample of the last hours: about as long as a Prometheus holds a series in memory.
pub const ACTIVE_WINDOW_HOURS: u32 = 3;

/// Returns the address of the query that counts the active series of all runs but this one: its own are counted before the push.
pub(crate) fn query_url(url: &str, run_id: &RunId) -> String {
    let query = format!("count(last_over_time({{__name__=~\"{PREFIX}.+\",run_id!=\"{run_id}\"}}[{ACTIVE_WINDOW_HOURS}h]))");
    let encoded = utf8_percent_encode(&query, NON_ALPHANUMERIC);
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}query={encoded}")
}

/// Reads the count from the response to the query. A response without a result has no active series.
pub(crate) fn read_count(body: &[u8]) -> Result<u64> {
    let document: Value = serde_json::from_slice(body).map_err(|error| Error::Response(clean(&error.to_string())))?;
    let unusable = |why: &str| Error::Response(clean(why));
    if document["status"] != "success" || document["data"]["resultType"] != "vector" {
        return Err(unusable(document["error"].as_str().unwrap_or("it is no vector of a successful query")));
    }
    let results = document["data"]["result"].as_array().ok_or_else(|| unusable("it has no result"))?;
    match results.as_slice() {
        [] => Ok(0),
        [only] => {
            let text = only["value"][1].as_str().ok_or_else(|| unusable("its result has no value"))?;
            let count: f64 = text.parse().map_err(|_| unusable("its value is no number"))?;
            if count.is_finite() && count >= 0.0 { Ok(count as u64) } else { Err(unusable("its value is no count")) }
        }
        _ => Err(unusable("it has several results")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn the_query_is_escaped_and_leaves_the_run_out() {
        let url = query_url("http://p:9090/api/v1/query", &"one".parse().expect("a run"));
        assert!(url.starts_with("http://p:9090/api/v1/query?query=count%28last%5Fover%5Ftime"), "{url}");
        assert!(url.contains("run%5Fid%21%3D%22one%22") && !url.contains('"'), "{url}");
        assert!(query_url("http://p/q?dedup=true", &"one".parse().expect("a run")).contains("?dedup=true&query="));
    }

    #[test]
    fn a_count_is_read_from_a_vector() {
        let read = |body: &str| read_count(body.as_bytes());
        let vector = |result: &str| format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#);
        assert_eq!(read(&vector("")).expect("no series"), 0);
        assert_eq!(read(&vector(r#"{"metric":{},"value":[1767225600.1,"12345"]}"#)).expect("a count"), 12345);
        for bad in [
            "",
            "[]",
            "{}",
            &vector(r#"{"value":[1,"NaN"]}"#),
            &vector(r#"{"value":[1,"-1"]}"#),
            &vector("{},{}"),
            r#"{"status":"error","error":"query timed out"}"#,
        ] {
            assert!(matches!(read(bad), Err(Error::Response(_))), "{bad}");
        }
        assert!(read(r#"{"status":"error","error":"query timed out"}"#).expect_err("refused").to_string().contains("timed out"));
    }

    proptest! {
        #[test]
        fn any_response_is_survived(body: Vec<u8>) {
            let _ = read_count(&body);
        }
    }
}
