//! The protocols of receivers: how a batch becomes requests, and what a successful response means.

use crate::batch::Batch;
use crate::error::Result;

/// A protocol of receivers.
pub(crate) trait Protocol: Sync {
    /// Encodes a batch as requests to a receiver at `url`. To send one of them twice changes nothing.
    fn requests(&self, url: &str, batch: &Batch) -> Result<Vec<Request>>;

    /// Checks the body of a response with a status of success.
    fn check_response(&self, _body: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) url: String,
    /// True for PUT, which replaces what is there, else POST.
    pub(crate) replaces: bool,
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) body: Vec<u8>,
    /// The number of its series.
    pub(crate) series: u64,
}
