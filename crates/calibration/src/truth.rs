//! The simulator's report of each request: when it had arrived, and when each token event was written.

use std::collections::BTreeMap;

use assay_stage::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};

/// The true times of one request, in nanoseconds of the host's monotonic clock. One line of the artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrueRequest {
    /// Its `x-request-id`: 32 hexadecimal digits.
    pub request_id: String,
    /// The instant at which its head and body were read completely.
    pub arrived_ns: i64,
    /// The instant before the write of each token event, in their order.
    pub written_ns: Vec<i64>,
}

/// The true times of requests, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth(BTreeMap<u128, TrueRequest>);

impl Truth {
    /// Adds the report of a request. One whose id is not 32 hexadecimal digits is of another client.
    pub fn add(&mut self, request: TrueRequest) {
        if let Some(id) = parse_id(&request.request_id) {
            self.0.insert(id, request);
        }
    }

    /// Returns the true times of a request.
    pub(crate) fn get(&self, id: u128) -> Option<&TrueRequest> {
        self.0.get(&id)
    }

    /// Parses the lines of an artifact.
    ///
    /// # Errors
    /// Fails if a line is malformed, or if two lines are about one request.
    pub fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        let malformed =
            |line: usize| Failure::new(ErrorCode::Calibration, format!("line {line} of a simulator's report is malformed"));
        let mut truth = Self::default();
        for (index, line) in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
            let request: TrueRequest = serde_json::from_slice(line).map_err(|error| malformed(index + 1).because(&error))?;
            let id = parse_id(&request.request_id).ok_or_else(|| malformed(index + 1))?;
            if truth.0.insert(id, request).is_some() {
                return Err(malformed(index + 1));
            }
        }
        Ok(truth)
    }

    /// Writes the lines of these requests, as far as they are known, in the order of their ids.
    pub(crate) fn lines(&self, ids: impl IntoIterator<Item = u128>) -> Result<Vec<u8>, Failure> {
        let mut lines = Vec::new();
        let mut ids: Vec<u128> = ids.into_iter().collect();
        ids.sort_unstable();
        for request in ids.iter().filter_map(|id| self.get(*id)) {
            serde_json::to_writer(&mut lines, request)
                .map_err(|error| Failure::new(ErrorCode::Internal, "a simulator's report has no JSON form").because(&error))?;
            lines.push(b'\n');
        }
        Ok(lines)
    }
}

fn parse_id(text: &str) -> Option<u128> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| is_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u128) -> TrueRequest {
        TrueRequest { request_id: format!("{id:032x}"), arrived_ns: 5, written_ns: vec![10, 30] }
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let mut truth = Truth::default();
        [2, 1, 7].map(request).into_iter().for_each(|request| truth.add(request));
        truth.add(TrueRequest { request_id: "probe".to_owned(), ..request(9) });
        let lines = truth.lines([2, 1, 3]).expect("written");
        let read = Truth::parse(&lines).expect("parsed");
        assert_eq!((read.get(1), read.get(2), read.get(7)), (Some(&request(1)), Some(&request(2)), None));
        assert_eq!(read.lines([1, 2]).expect("written"), lines);
    }

    #[test]
    fn malformed_lines_are_refused() {
        let line = |id: &str| format!(r#"{{"request_id":"{id}","arrived_ns":1,"written_ns":[]}}"#);
        let id = format!("{:032x}", 1);
        assert!(Truth::parse(line(&id).as_bytes()).is_ok());
        for bad in ["{}", "1", &line("1"), &line("+0000000000000000000000000000001"), &format!("{}\n{}", line(&id), line(&id))] {
            assert_eq!(Truth::parse(bad.as_bytes()).expect_err(bad).code.as_str(), "calibration", "{bad}");
        }
    }
}
