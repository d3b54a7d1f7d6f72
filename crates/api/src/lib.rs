//! The APIs of inference endpoints, one module each: the path, the request body, how a response is parsed, the capabilities that
//! other crates ask for, and the response of a simulated endpoint.
//!
//! No other crate decides by the name of an API. The client calls [`ServingApi::request_body`] and
//! [`ServingApi::parse_response`], a simulated endpoint calls [`ReceivedRequest::parse`], [`ServingApi::read_inputs`] and
//! [`SimulatedResponse`], and everything else asks for [`Capabilities`].
//!
//! An API is chosen once for each request or document, by a `match`; inside of a document all calls are static.

mod api_format;
mod chat;
mod completions;
mod custom;
mod embeddings;
mod generation;
mod images;
mod json;
mod messages;
mod received;
mod request;
mod rerank;
mod response;
mod responses;
mod serving_api;
mod simulated;

pub use api_format::{CallRules, Capabilities, InputKind};
pub use custom::{CustomApi, CustomApiError, ResponsePaths};
pub use images::add_images;
pub use json::{Scan, Text};
pub use received::{InputCounts, InputReader, ReceivedRequest};
pub use request::{RequestBody, RequestInput};
pub use response::{InputParts, InvalidCount, ParsedResponse, TextSink, Usage, member_names};
pub use serving_api::ServingApi;
pub use simulated::{Content, ContentFault, OutputTokens, ResponseNames, ResponsePlan, SimulatedResponse, TokenRun};
