//! The behaviour of another tool's client that no field of a definition states.

use serde_json::Value;

use crate::draft::member;
use crate::mapping::Mapping;

/// The default time limit of the clients that are made of vLLM's benchmark, and of AIPerf.
pub(crate) const SIX_HOURS: Option<&str> = Some("6h");

/// The requests of a client unless a field says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The tool.
    pub(crate) tool: &'static str,
    pub(crate) temperature: Temperature,
    /// The time after which a request has failed; `None` if there is no such limit.
    pub(crate) timeout: Option<&'static str>,
}

/// The sampling temperature of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temperature {
    /// Requests state 0, as those of Assay do.
    Zero,
    /// Requests state none.
    OfServer,
}

impl Mapping<'_> {
    /// Writes out what a client does without a field for it. Called after the fields, which take precedence.
    pub(crate) fn implied(&mut self, client: Client) {
        self.settle_min_tokens();
        if client.temperature == Temperature::OfServer {
            self.temperature_of_server();
        }
        self.implied_timeout(client);
        self.shared_cache();
        self.measured_once();
    }

    /// Removes the temperature that Assay would send.
    fn temperature_of_server(&mut self) {
        if self.has_body_member("temperature") {
            return;
        }
        self.add_to_extra_body("temperature", Value::Null);
        self.mapped("temperature(implied)", "workload spec.extra_body");
    }

    fn implied_timeout(&mut self, client: Client) {
        if self.draft.load.iter().any(|(name, _)| name == "timeout") {
            return;
        }
        if let Some(limit) = client.timeout {
            self.draft.load.push(member("timeout", limit));
            return self.mapped("timeout(implied)", "workload spec.load.timeout");
        }
        let tool = client.tool;
        let how = format!("{tool} has no limit for a request; Assay counts one as failed after 5 minutes (`load.timeout`)");
        self.approximated("timeout(implied)", "workload spec.load", &how);
    }
}
