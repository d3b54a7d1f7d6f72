//! Injected faults: the ways in which endpoints fail, each of which a client has to survive and report.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The maximum bytes of a giant line.
const MAX_LINE_BYTES: u32 = 16 << 20;

/// The maximum microseconds between the bytes of a slow drip.
const MAX_DRIP_US: u32 = 10_000_000;

/// A fault of one response, written as `name` or `name:number`. Chunks count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `status:CODE`: an error object with this status, 400 to 599.
    Status(u16),
    /// `hang`: no response ever.
    Hang,
    /// `refuse`: the connection closes without a response.
    Refuse,
    /// `close:N`: the connection closes in place of chunk N.
    Close(u32),
    /// `no-done` or `no-done:N`: the stream ends without its last events, such as `[DONE]`, or in place of chunk N, as well-formed HTTP.
    NoDone(Option<u32>),
    /// `bad-json:N`: an event that is not JSON comes before chunk N.
    BadJson(u32),
    /// `bad-utf8:N`: the text of chunk N begins with a byte that is invalid in UTF-8.
    BadUtf8(u32),
    /// `stream-error:N`: an error, as the API's streams have it, in place of chunk N.
    StreamError(u32),
    /// `content-type`: the content type of the response is HTML.
    ContentType,
    /// `giant-line:BYTES`: an event of this many bytes comes before chunk 0.
    GiantLine(u32),
    /// `drip:US`: the response comes byte by byte, with this many microseconds between.
    Drip(u32),
}

/// The error for a text that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{text}` is no fault; one of `status:CODE` (400 to 599), `hang`, `refuse`, `close:N`, `no-done`, `no-done:N`, `bad-json:N`, \
     `bad-utf8:N`, `stream-error:N`, `content-type`, `giant-line:BYTES` (at most {MAX_LINE_BYTES}), `drip:MICROSECONDS` (at most \
     {MAX_DRIP_US})"
)]
pub struct FaultError {
    text: String,
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        read(text).ok_or_else(|| FaultError { text: text.chars().take(60).collect() })
    }
}

fn read(text: &str) -> Option<Fault> {
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let within = |most: u32| number.filter(|number| *number <= most);
    Some(match (name, number) {
        ("status", Some(code)) => Fault::Status(u16::try_from(code).ok().filter(|code| (400..600).contains(code))?),
        ("hang", None) => Fault::Hang,
        ("refuse", None) => Fault::Refuse,
        ("close", Some(chunk)) => Fault::Close(chunk),
        ("no-done", chunk) => Fault::NoDone(chunk),
        ("bad-json", Some(chunk)) => Fault::BadJson(chunk),
        ("bad-utf8", Some(chunk)) => Fault::BadUtf8(chunk),
        ("stream-error", Some(chunk)) => Fault::StreamError(chunk),
        ("content-type", None) => Fault::ContentType,
        ("giant-line", Some(_)) => Fault::GiantLine(within(MAX_LINE_BYTES)?),
        ("drip", Some(_)) => Fault::Drip(within(MAX_DRIP_US)?),
        _ => return None,
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "status:{code}"),
            Self::Hang => f.write_str("hang"),
            Self::Refuse => f.write_str("refuse"),
            Self::Close(chunk) => write!(f, "close:{chunk}"),
            Self::NoDone(None) => f.write_str("no-done"),
            Self::NoDone(Some(chunk)) => write!(f, "no-done:{chunk}"),
            Self::BadJson(chunk) => write!(f, "bad-json:{chunk}"),
            Self::BadUtf8(chunk) => write!(f, "bad-utf8:{chunk}"),
            Self::StreamError(chunk) => write!(f, "stream-error:{chunk}"),
            Self::ContentType => f.write_str("content-type"),
            Self::GiantLine(bytes) => write!(f, "giant-line:{bytes}"),
            Self::Drip(us) => write!(f, "drip:{us}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_fault_is_read_as_it_is_written() {
        let faults = [
            "status:503",
            "hang",
            "refuse",
            "close:0",
            "no-done",
            "no-done:3",
            "bad-json:1",
            "bad-utf8:2",
            "stream-error:4",
            "content-type",
            "giant-line:70000",
            "drip:500",
        ];
        for text in faults {
            assert_eq!(text.parse::<Fault>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_fault_is_refused_with_the_list_of_them() {
        for text in
            ["", "status", "status:200", "status:600", "status:70000", "hang:1", "close:-1", "giant-line:99999999", "drip:x"]
        {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(error.contains("is no fault; one of `status:CODE`"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            if let Ok(fault) = text.parse::<Fault>() {
                prop_assert_eq!(fault.to_string().parse::<Fault>(), Ok(fault));
            }
        }
    }
}
