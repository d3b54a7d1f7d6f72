//! The formats of texts: durations, paths, addresses and the like. Each accepts a text in its normal form, explains a refusal,
//! and carries the pattern that editors check.

use std::time::Duration;

use assay_manifest::{CaseId, Digest, Instant, Name, RunId};
use serde_json::Value as Json;

use crate::lengths::Scenario;

/// A format of a text.
pub(crate) struct Format {
    /// The name of such a text, with its article: `a duration`.
    pub(crate) what: &'static str,
    /// A regular expression (ECMA 262) that every accepted text matches; empty for any text.
    pub(crate) pattern: &'static str,
    /// An example that is accepted.
    pub(crate) example: &'static str,
    /// The longest text, in characters.
    pub(crate) max: usize,
    /// Returns the text in its normal form, or the reason why it is refused.
    pub(crate) normal: fn(&str) -> Result<String, String>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

/// The longest duration that a definition may have.
const MAX_DURATION: Duration = Duration::from_hours(30 * 24);

/// Returns the text if it is accepted, and `rule` as the error otherwise.
fn keep_if(text: &str, accepted: bool, rule: &str) -> Result<String, String> {
    if accepted { Ok(text.to_owned()) } else { Err(rule.to_owned()) }
}

pub(crate) static TEXT: Format =
    Format { what: "a text", pattern: "", example: "one or more words", max: 4096, normal: |text| Ok(text.to_owned()) };

pub(crate) static WORD: Format = Format {
    what: "a short text without spaces",
    pattern: "^[!-~]+$",
    example: "fp8",
    max: 200,
    normal: |text| keep_if(text, text.bytes().all(|b| b.is_ascii_graphic()), "printable ASCII without spaces"),
};

pub(crate) static LABEL: Format = Format {
    what: "a label's name",
    pattern: "^[a-z0-9]([a-z0-9._/-]*[a-z0-9])?$",
    example: "team",
    max: 63,
    normal: |text| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let accepted = text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || "._/-".contains(c));
        keep_if(text, accepted, "lower-case letters, digits and inner `.`, `_`, `/`, `-`")
    },
};

pub(crate) static NAME: Format = Format {
    what: "a name",
    pattern: "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
    example: "llama-8b",
    max: 40,
    normal: |text| keep_if(text, Name::new(text).is_ok(), "lower-case letters, digits and inner hyphens, at most 40 characters"),
};

pub(crate) static CPUS: Format = Format {
    what: "a list of CPUs",
    pattern: "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$",
    example: "0-1,4",
    max: 1000,
    normal: |text| text.parse::<assay_manifest::CpuList>().map(|cpus| cpus.to_string()).map_err(|error| error.to_string()),
};

pub(crate) static OBJECT_NAME: Format = Format {
    what: "a name of Kubernetes",
    pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    example: "llama-8b",
    max: 63,
    normal: |text| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let accepted =
            text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-');
        keep_if(text, accepted, "lower-case letters, digits and inner hyphens, at most 63 characters")
    },
};

pub(crate) static RUN_ID: Format = Format {
    what: "a run id",
    pattern: "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
    example: "nightly-2026-11-20",
    max: 40,
    normal: |text| keep_if(text, RunId::new(text).is_ok(), "lower-case letters, digits and inner hyphens, at most 40 characters"),
};

pub(crate) static CASE_ID: Format = Format {
    what: "a case",
    pattern: "^[a-z0-9-]+\\.[a-z0-9-]+\\.[a-z0-9-]+$",
    example: "chat.llama-8b.default",
    max: 122,
    normal: |text| keep_if(text, text.parse::<CaseId>().is_ok(), "the names of workload, target and variant with dots between"),
};

pub(crate) static COMMIT: Format = Format {
    what: "a commit",
    pattern: "^[0-9a-f]{40}$",
    example: "3f786850e387550fdab836ed7e6dc881de23001b",
    max: 40,
    normal: |text| {
        let accepted = text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        keep_if(text, accepted, "40 lower-case hexadecimal digits")
    },
};

pub(crate) static ENV_NAME: Format = Format {
    what: "an environment variable's name",
    pattern: "^[A-Z][A-Z0-9_]*$",
    example: "MATRIX_SIZE",
    max: 100,
    normal: |text| {
        let accepted = text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        keep_if(text, accepted, "upper-case letters, digits and `_`, beginning with a letter")
    },
};

/// The name of a label of Prometheus.
pub(crate) static LABEL_NAME: Format = Format {
    what: "the name of a label",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    example: "instance",
    max: 200,
    normal: |text| keep_if(text, is_series_name(text, b"_"), "letters, digits and `_`, beginning with no digit"),
};

/// The name of a metric of Prometheus.
pub(crate) static SERIES_NAME: Format = Format {
    what: "the name of a metric",
    pattern: "^[A-Za-z_:][A-Za-z0-9_:]*$",
    example: "node_load1",
    max: 200,
    normal: |text| keep_if(text, is_series_name(text, b"_:"), "letters, digits, `_` and `:`, beginning with no digit"),
};

fn is_series_name(text: &str, signs: &[u8]) -> bool {
    let accepted = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte));
    accepted && !text.starts_with(|c: char| c.is_ascii_digit())
}

pub(crate) static MEMBER: Format = Format {
    what: "a member of a request's body",
    pattern: "^[a-z_][a-z0-9_]*$",
    example: "top_p",
    max: 100,
    normal: |text| {
        let accepted = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        keep_if(text, accepted, "lower-case letters, digits and `_`, beginning with a letter")
    },
};

pub(crate) static HEADER: Format = Format {
    what: "a header's name",
    pattern: "^[A-Za-z0-9-]+$",
    example: "Authorization",
    max: 100,
    normal: |text| {
        let accepted = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        keep_if(text, accepted, "letters, digits and hyphens").map(|name| name.to_lowercase())
    },
};

pub(crate) static SESSION_HEADER: Format = Format {
    what: "the name of a header of sessions",
    pattern: "^[Xx]-[A-Za-z0-9-]+$",
    example: "x-session-id",
    max: 100,
    normal: |text| {
        let name = text.to_lowercase();
        let rest = name.strip_prefix("x-").unwrap_or_default();
        let accepted = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && name != "x-request-id";
        keep_if(&name, accepted, "a name that begins with `x-`, of letters, digits and hyphens; `x-request-id` is Assay's own")
    },
};

pub(crate) static DURATION: Format = Format {
    what: "a duration",
    pattern: "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
    example: "1h30m",
    max: 40,
    normal: |text| parse_duration(text).and_then(above_zero).map(write_duration),
};

/// The smallest and the largest limit of lateness: a slice of a busy scheduler, below which a delay is in no sum of delays, and a second.
const LATENESS_LIMITS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

pub(crate) static LATENESS: Format = Format {
    what: "a duration",
    pattern: "^([0-9]+s)?([0-9]+ms)?$",
    example: "10ms",
    max: 40,
    normal: |text| {
        let lateness = parse_duration(text)?;
        let is_within = (LATENESS_LIMITS.0..=LATENESS_LIMITS.1).contains(&lateness);
        if is_within { Ok(write_duration(lateness)) } else { Err("must be from 5ms to 1s".to_owned()) }
    },
};

/// The longest pause within a session, the schedule's limit.
const MAX_PAUSE: Duration = Duration::from_hours(24);

pub(crate) static PAUSE: Format = Format {
    what: "a duration",
    pattern: "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
    example: "2s",
    max: 40,
    normal: |text| {
        let pause = parse_duration(text)?;
        if pause > MAX_PAUSE { Err("must not be longer than a day".to_owned()) } else { Ok(write_duration(pause)) }
    },
};

pub(crate) static DURATION_OR_NONE: Format = Format {
    what: "a duration",
    pattern: "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
    example: "0s",
    max: 40,
    normal: |text| parse_duration(text).map(write_duration),
};

fn above_zero(duration: Duration) -> Result<Duration, String> {
    if duration.is_zero() { Err("it must be above zero".to_owned()) } else { Ok(duration) }
}

/// Parses a duration: whole numbers with `h`, `m`, `s`, `ms`, each at most once and in that order.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let rule = || "whole numbers with `h`, `m`, `s` and `ms`, in that order, such as `30s` or `1h30m`".to_owned();
    let (mut rest, mut units, mut total_ms) = (text, UNITS.iter(), 0u64);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        let unit = &tail[..tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len()];
        let (_, each_ms) = units.find(|(name, _)| *name == unit).ok_or_else(rule)?;
        let part = number.parse::<u64>().map_err(|_| rule())?.checked_mul(*each_ms);
        total_ms = part.and_then(|part| total_ms.checked_add(part)).ok_or("longer than 30 days")?;
        rest = &tail[unit.len()..];
    }
    let total = Duration::from_millis(total_ms);
    if text.is_empty() {
        Err(rule())
    } else if total > MAX_DURATION {
        Err("longer than 30 days".to_owned())
    } else {
        Ok(total)
    }
}

/// Writes a duration in its normal form, such as `1h30m` or `500ms`; whole milliseconds.
pub fn write_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let parts = [(ms / 3_600_000, "h"), (ms / 60_000 % 60, "m"), (ms / 1_000 % 60, "s"), (ms % 1_000, "ms")];
    let text = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect::<Vec<_>>().concat();
    if text.is_empty() { "0s".to_owned() } else { text }
}

pub(crate) static LATENCY: Format = Format {
    what: "a latency with its unit",
    pattern: "^[0-9]+(\\.[0-9]+)?(us|ms|s)$",
    example: "200ms",
    max: 20,
    normal: |text| parse_latency(text).map(|ns| format!("{ns}ns")).and_then(|_| keep_latency(text)),
};

/// Returns a latency in its normal form: in the largest unit that needs no fraction.
fn keep_latency(text: &str) -> Result<String, String> {
    let ns = parse_latency(text)?;
    let units = [(1_000_000_000, "s"), (1_000_000, "ms")];
    let whole = units.iter().find(|(each, _)| ns % each == 0);
    Ok(whole.map_or_else(|| format!("{}us", ns / 1_000), |(each, unit)| format!("{}{unit}", ns / each)))
}

/// Parses a latency into nanoseconds, with a resolution of one microsecond.
pub fn parse_latency(text: &str) -> Result<u64, String> {
    let rule = || {
        // `1h` is a duration, and the units of a latency are smaller.
        let example = parse_duration(text).ok().filter(|time| !time.is_zero()).map(|time| format!("`{}s`", time.as_secs_f64()));
        format!("a number above 0 with `us`, `ms` or `s`, such as {}", example.as_deref().unwrap_or("`200ms` or `1.5s`"))
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(rule)?;
    let (number, unit) = text.split_at(split);
    let each_us = match unit {
        "us" => 1u64,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(rule()),
    };
    let us = decimal_times(number, each_us).ok_or_else(rule)?;
    if us == 0 || us > 3_600_000_000 { Err("must be at least 1us and at most an hour".to_owned()) } else { Ok(us * 1_000) }
}

/// Multiplies a decimal number by a power of ten, exactly; `None` if a fraction remains.
fn decimal_times(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = fraction.parse::<u64>().ok()?.checked_mul(factor)?;
    if parts % scale != 0 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(parts / scale)
}

pub(crate) static PATH: Format =
    Format { what: "a relative path", pattern: "^[^/\\\\][^\\\\]*$", example: "run.sh", max: 300, normal: normal_path };

/// The longest normalised path.
const MAX_PATH: usize = 300;

/// Normalises a relative path: `./a//b` becomes `a/b`; a path that leads out of its folder is refused.
pub(crate) fn normal_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') || text.contains('\\') || text.contains(':') {
        return Err("must be relative, with `/` between folders".to_owned());
    }
    if text.chars().any(char::is_control) || text.len() > MAX_PATH {
        return Err(format!("must have at most {MAX_PATH} bytes and no control characters"));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err("must not lead out of its folder with `..`".to_owned());
    }
    if parts.first().is_some_and(|first| first.eq_ignore_ascii_case(".git")) {
        return Err("must not lead into `.git`".to_owned());
    }
    if parts.is_empty() || text.ends_with('/') {
        return Err("must name a file".to_owned());
    }
    Ok(parts.join("/"))
}

pub(crate) static SQL_PATH: Format = Format {
    what: "the path of a query",
    pattern: "^[^/\\\\][^\\\\]*\\.sql$",
    example: "queries/latency.sql",
    max: 300,
    normal: |text| {
        let path = normal_path(text)?;
        if path.strip_suffix(".sql").is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/')) {
            Ok(path)
        } else {
            Err("must end with `.sql`".to_owned())
        }
    },
};

pub(crate) static HTTPS_URL: Format = Format {
    what: "an address",
    pattern: "^https://[!-~]+$",
    example: "https://example.org/run.sh",
    max: 2000,
    normal: |text| normal_url(text, &["https"]),
};

pub(crate) static HTTP_URL: Format = Format {
    what: "an address",
    pattern: "^https?://[!-~]+$",
    example: "http://127.0.0.1:8000",
    max: 2000,
    normal: |text| normal_url(text, &["http", "https"]),
};

/// The address of a target: of a host, or of a Unix socket of this machine.
pub(crate) static ENDPOINT_URL: Format = Format {
    what: "an address",
    pattern: "^(https?://|unix:/)[!-~]+$",
    example: "http://127.0.0.1:8000",
    max: 2000,
    normal: |text| match text.strip_prefix("unix:") {
        Some(socket) => normal_socket(socket).map(|()| text.to_owned()),
        None if text.starts_with('/') || text.contains("unix") => Err(
            "must begin with `http://` or `https://`, or with `unix:` and the path of a socket, as in `unix:/run/server.sock`"
                .to_owned(),
        ),
        None => normal_url(text, &["http", "https"]),
    },
};

/// The most bytes of the path of a Unix socket, which is a limit of the system.
const MAX_SOCKET_PATH: usize = 107;

/// Checks the path of a Unix socket, and the path of its requests after another `:`.
fn normal_socket(text: &str) -> Result<(), String> {
    let (socket, base) = text.split_once(':').unwrap_or((text, "/"));
    if !socket.starts_with('/') || socket.ends_with('/') || socket.len() > MAX_SOCKET_PATH {
        return Err(format!("must name the absolute path of a socket of at most {MAX_SOCKET_PATH} bytes after `unix:`"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') || !base.starts_with('/') {
        return Err("must not hold spaces, and after a second `:` comes a path, as in `unix:/run/server.sock:/v1`".to_owned());
    }
    Ok(())
}

/// The address of a telemetry source, without credentials: those of a Prometheus are references.
pub(crate) static TELEMETRY_URL: Format = Format {
    what: "an address",
    pattern: "^https?://[!-~]+$",
    example: "http://node-7:9100/metrics",
    max: 2000,
    normal: |text| normal_url(text, &["http", "https"]),
};

/// The origin of a Slurm job's accounting.
pub(crate) static SACCT: Format = Format {
    what: "the word `command` or an absolute path",
    pattern: "^(command|/.*)$",
    example: "/var/tmp/sacct.json",
    max: 4096,
    normal: |text| {
        let is_path = text.starts_with('/') && !text.contains(['\0', '\n']);
        keep_if(text, text == "command" || is_path, "`command`, or a path that begins with `/`")
    },
};

/// The loopback address that spans are received at.
pub(crate) static LOOPBACK: Format = Format {
    what: "a loopback address",
    pattern: r"^(127\.0\.0\.1|\[::1\]):[0-9]{1,5}$",
    example: "127.0.0.1:4318",
    max: 20,
    normal: |text| {
        let Some(port) = text.strip_prefix("127.0.0.1:").or_else(|| text.strip_prefix("[::1]:")) else {
            return Err("`127.0.0.1:PORT` or `[::1]:PORT`: spans are received without credentials".to_owned());
        };
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
        if is_port { Ok(text.to_owned()) } else { Err("its port is a number from 1 to 65535".to_owned()) }
    },
};

fn normal_url(text: &str, schemes: &[&str]) -> Result<String, String> {
    let scheme = schemes.iter().find(|scheme| text.strip_prefix(**scheme).is_some_and(|rest| rest.starts_with("://")));
    if scheme.is_none() {
        return Err(scheme_problem(text, schemes));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) || text.contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}', '#']) {
        return Err("must not hold spaces, a fragment or characters that an address has to escape".to_owned());
    }
    let authority = host_of(text);
    if authority.contains('@') {
        return Err("must not carry a user or password".to_owned());
    }
    normal_host(authority)?;
    Ok(text.to_owned())
}

/// Returns the problem with the beginning of an address, including its scheme if it has one.
fn scheme_problem(text: &str, schemes: &[&str]) -> String {
    let is_scheme = |scheme: &&str| {
        (1..=20).contains(&scheme.len()) && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    match text.split_once("://").map(|(scheme, _)| scheme).filter(is_scheme) {
        Some(scheme) => format!("its scheme has to be `{}`, and is `{scheme}`", schemes.join("` or `")),
        None => format!("must begin with `{}://`", schemes.join("://` or `")),
    }
}

/// Returns the host of an accepted address, with its port.
pub(crate) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

pub(crate) static HOST: Format =
    Format { what: "a host", pattern: "^[A-Za-z0-9.-]+(:[0-9]+)?$", example: "raw.example.org", max: 260, normal: normal_host };

fn normal_host(text: &str) -> Result<String, String> {
    let rule = "a host name, with a port after `:` if it needs one";
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            keep_if(address, address.parse::<std::net::Ipv6Addr>().is_ok(), rule)?;
            (None, port.strip_prefix(':').or(if port.is_empty() { None } else { Some("") }))
        }
        None => text.split_once(':').map_or((Some(text), None), |(host, port)| (Some(host), Some(port))),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let host_fits = host.is_none_or(|host| host.len() <= 253 && host.split('.').all(label));
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number > 0 && !port.starts_with('+')));
    keep_if(&text.to_ascii_lowercase(), host_fits && port_fits, rule)
}

pub(crate) static HTTP_PATH: Format = Format {
    what: "a path on the target",
    pattern: "^/[!-~]*$",
    example: "/health",
    max: 500,
    normal: |text| keep_if(text, text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic()), "must begin with `/`"),
};

pub(crate) static IMAGE: Format = Format {
    what: "a container image",
    pattern: "^[a-z0-9][A-Za-z0-9._:/-]*(@sha256:[0-9a-f]{64})?$",
    example: "registry.example.org/team/image:1.2",
    max: 500,
    normal: |text| keep_if(text, is_image(text), "a repository in lower case, then `:tag` or `@sha256:` and 64 digits"),
};

fn is_image(text: &str) -> bool {
    let (tagged, digest) = text.split_once('@').map_or((text, None), |(tagged, digest)| (tagged, Some(digest)));
    // A colon behind the last slash begins the tag; one before it belongs to the registry's port.
    let name_begins = tagged.rfind('/').map_or(0, |slash| slash + 1);
    let tag_begins = tagged[name_begins..].find(':').map(|colon| name_begins + colon);
    let (repository, tag) = tag_begins.map_or((tagged, None), |at| (&tagged[..at], Some(&tagged[at + 1..])));
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        part.bytes().all(|b| word(b) || b"._-".contains(&b))
            && part.bytes().next().is_some_and(word)
            && part.bytes().next_back().is_some_and(word)
    };
    let (registry, path) = repository.split_once('/').map_or((None, repository), |(registry, path)| (Some(registry), path));
    let registry_fits =
        registry.is_none_or(|registry| part(registry) || normal_host(registry).is_ok_and(|host| host == registry));
    let tag_fits = tag.is_none_or(|tag| {
        (1..=128).contains(&tag.len())
            && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            && !tag.starts_with(['.', '-'])
    });
    registry_fits && path.split('/').all(part) && tag_fits && digest.is_none_or(|digest| digest.parse::<Digest>().is_ok())
}

pub(crate) static SEED: Format = Format {
    what: "a seed",
    pattern: "^[0-9a-f]{64}$",
    example: "00000000000000000000000000000000000000000000000000000000000000ff",
    max: 64,
    normal: |text| keep_if(text, Digest::from_hex(text).is_ok(), "64 lower-case hexadecimal digits"),
};

pub(crate) static SPLIT_PATTERN: Format = Format {
    what: "a pattern that splits texts",
    pattern: "",
    example: "o200k_base",
    max: 2_000,
    normal: |text| keep_if(text, !text.is_empty(), "the name of an encoding, or a regular expression"),
};

pub(crate) static JSON_OBJECT: Format = Format {
    what: "a JSON object",
    pattern: "^\\s*\\{",
    example: EXTRA_BODY_EXAMPLE,
    max: 10_000,
    normal: |text| normal_object(text, EXTRA_BODY_EXAMPLE),
};

const EXTRA_BODY_EXAMPLE: &str = "{\"top_k\":20}";

pub(crate) static CUSTOM_BODY: Format = Format {
    what: "a JSON object",
    pattern: "^\\s*\\{",
    example: CUSTOM_BODY_EXAMPLE,
    max: 10_000,
    normal: |text| normal_object(text, CUSTOM_BODY_EXAMPLE),
};

const CUSTOM_BODY_EXAMPLE: &str = "{\"inputs\":\"${prompt}\",\"max_new_tokens\":\"${output_tokens}\",\"stream\":\"${stream}\"}";

/// Returns the canonical form of a JSON object.
fn normal_object(text: &str, example: &str) -> Result<String, String> {
    match serde_json::from_str::<Json>(text) {
        Ok(object @ Json::Object(_)) => canonical_text(&object),
        Ok(_) => Err(format!("it has to be an object, in braces, such as `{example}`")),
        Err(error) => Err(format!("write an object in braces, such as `{example}`; the parser stops with: {error}")),
    }
}

pub(crate) static RESPONSE_PATH: Format = Format {
    what: "a path in a response",
    pattern: "^[^.]+(\\.[^.]+)*$",
    example: "choices.0.text",
    max: 200,
    normal: |text| {
        let has_steps = text.split('.').all(|step| !step.is_empty() && !step.chars().any(char::is_control));
        keep_if(text, has_steps, "names and places of lists, joined by dots")
    },
};

fn canonical_text(value: &Json) -> Result<String, String> {
    let bytes = assay_manifest::canonical_value(value).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

pub(crate) static SHA256: Format = Format {
    what: "a sha256",
    pattern: "^(sha256:)?[0-9a-f]{64}$",
    example: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    max: 71,
    normal: |text| {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        keep_if(hex, Digest::from_hex(hex).is_ok(), "64 lower-case hexadecimal digits")
    },
};

pub(crate) static SCENARIO: Format = Format {
    what: "a traffic scenario",
    pattern: "^[DNUERI]\\([0-9,]+\\)(/\\([0-9,]+\\))?$",
    example: "D(128,256)",
    max: 80,
    normal: |text| text.parse::<Scenario>().map(|scenario| scenario.to_string()).map_err(|error| error.to_string()),
};

pub(crate) static METRIC: Format = Format {
    what: "a metric's path",
    pattern: "^[A-Za-z0-9_@%:/+-]+(\\.[A-Za-z0-9_@%:/+-]+)*$",
    example: "copy.rate",
    max: 200,
    normal: |text| {
        let sign = |b: u8| b.is_ascii_alphanumeric() || b"_@%:/+-".contains(&b);
        let accepted = text.split('.').all(|part| !part.is_empty() && part.bytes().all(sign));
        keep_if(text, accepted, "the result's members joined by dots, each of letters, digits and `_@%:/+-`")
    },
};

pub(crate) static UNIT: Format = Format {
    what: "a unit",
    pattern: "^[^\\s]+$",
    example: "GB/s",
    max: 32,
    normal: |text| keep_if(text, !text.chars().any(|c| c.is_whitespace() || c.is_control()), "a short text without spaces"),
};

pub(crate) static CURRENCY: Format = Format {
    what: "a currency",
    pattern: "^[A-Z]{3}$",
    example: "EUR",
    max: 3,
    normal: |text| {
        keep_if(text, text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase()), "the three letters of ISO 4217")
    },
};

pub(crate) static DATE: Format = Format {
    what: "a date",
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    example: "2026-11-20",
    max: 10,
    normal: |text| {
        let day = text.len() == 10 && format!("{text}T00:00:00.000000000Z").parse::<Instant>().is_ok();
        keep_if(text, day, "a day that exists, as `YYYY-MM-DD`")
    },
};

pub(crate) static INSTANT: Format = Format {
    what: "an instant",
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z$",
    example: "2026-11-20T12:00:00Z",
    max: 30,
    normal: |text| parse_instant(text).map(|instant| instant.to_string()),
};

/// Parses RFC 3339 in UTC, with or without a fraction of a second.
pub(crate) fn parse_instant(text: &str) -> Result<Instant, String> {
    let rule = || "RFC 3339 in UTC, such as `2026-11-20T12:00:00Z`".to_owned();
    let body = text.strip_suffix('Z').ok_or_else(rule)?;
    let (seconds, fraction) = body.split_once('.').unwrap_or((body, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return Err(rule());
    }
    format!("{seconds}.{fraction:0<9}Z").parse().map_err(|_| rule())
}

pub(crate) static CRON: Format = Format {
    what: "a schedule",
    pattern: "^[0-9*/,-]+( [0-9*/,-]+){4}$",
    example: "0 2 * * *",
    max: 100,
    normal: |text| {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let limits = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];
        let accepted =
            fields.len() == limits.len() && fields.iter().zip(limits).all(|(field, limits)| is_cron_field(field, limits));
        keep_if(&fields.join(" "), accepted, "five fields: minute, hour, day of month, month, day of week, in numbers")
    },
};

fn is_cron_field(field: &str, (low, high): (u32, u32)) -> bool {
    let number =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u32>().is_ok_and(|n| (low..=high).contains(&n));
    let range = |text: &str| match text.split_once('-') {
        Some((from, to)) => number(from) && number(to) && from.parse::<u32>().ok() <= to.parse().ok(),
        None => text == "*" || number(text),
    };
    let step = |text: &str| text.parse::<u32>().is_ok_and(|n| (1..=high).contains(&n) && !text.starts_with('+'));
    field.split(',').all(|part| part.split_once('/').map_or_else(|| range(part), |(of, by)| range(of) && step(by)))
}

pub(crate) static TIMEZONE: Format = Format {
    what: "a time zone",
    pattern: "^(UTC|[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+){1,2})$",
    example: "Europe/Berlin",
    max: 60,
    normal: |text| {
        let part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-".contains(&b));
        let parts: Vec<&str> = text.split('/').collect();
        let zone = (2..=3).contains(&parts.len())
            && parts.iter().all(|p| part(p))
            && parts.first().is_some_and(|area| {
                area.len() > 1
                    && area.starts_with(|c: char| c.is_ascii_uppercase())
                    && !area.contains(['+', '-'])
                    && !area.contains(|c: char| c.is_ascii_digit())
            });
        keep_if(text, text == "UTC" || zone, "`UTC` or a name of the IANA database")
    },
};

pub(crate) static QUANTITY: Format = Format {
    what: "a quantity",
    pattern: "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
    example: "500m",
    max: 20,
    normal: |text| {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[number.len()..];
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let known = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&suffix);
        keep_if(
            text,
            known && digits(whole) && digits(fraction),
            "a number with `m`, `k`, `M`, `G`, `T`, `Ki`, `Mi`, `Gi` or `Ti`",
        )
    },
};

pub(crate) static BRANCH: Format = Format {
    what: "a branch",
    pattern: "^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$",
    example: "benchmark-numbers",
    max: 200,
    normal: |text| {
        let edge = |c: char| c.is_ascii_alphanumeric();
        let signs = text.chars().all(|c| edge(c) || "._/-".contains(c));
        let accepted = text.starts_with(edge) && text.ends_with(edge) && signs && !text.contains("..") && !text.contains("//");
        // The rules of git (git-check-ref-format) that the character check does not cover.
        let accepted = accepted
            && !text.contains("/.")
            && !text.contains("./")
            && !text.starts_with("refs/")
            && !text.split('/').any(|part| part.strip_suffix(".lock").is_some());
        keep_if(text, accepted, "letters, digits and inner `.`, `_`, `/`, `-`, as Git allows")
    },
};

pub(crate) static REMOTE: Format = Format {
    what: "a remote",
    pattern: "^[A-Za-z0-9][!-~]*$",
    example: "https://example.org/team/numbers.git",
    max: 2000,
    normal: |text| {
        let rule = "a remote's name such as `origin`, or an https, ssh, git or file address without password or token";
        keep_if(text, is_remote_name(text) || is_remote_address(text), rule)
    },
};

fn is_remote_name(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || "._-".contains(c)) && !text.contains("..")
}

/// Returns true if git may be given the address: `scheme://host/path`, or ssh's short form `user@host:path`. The code that
/// connects to the remote checks it again; here, a review sees the problem.
fn is_remote_address(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_graphic()) && !text.contains(['?', '#', '\\', '"', '\'', '`']);
    let parts = match text.split_once("://") {
        Some((scheme, rest)) => rest.find('/').map(|at| (scheme, rest.split_at(at))),
        None => text.split_once(':').filter(|(host, _)| !host.contains('/')).map(|parts| ("ssh", parts)),
    };
    plain && parts.is_some_and(|(scheme, (authority, path))| is_remote_place(scheme, authority, path))
}

fn is_remote_place(scheme: &str, authority: &str, path: &str) -> bool {
    let word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b"._-".contains(&b) || b.is_ascii_alphanumeric())
    };
    let host = match authority.rsplit_once('@') {
        // With any scheme other than ssh, the user may be a token.
        Some((user, host)) => Some(host).filter(|_| scheme == "ssh" && word(user)),
        None => Some(authority),
    };
    let place = match scheme {
        "https" | "ssh" | "git" => host.is_some_and(|host| normal_host(host).is_ok()),
        "file" => authority.is_empty(),
        _ => false,
    };
    place && path.trim_start_matches('/').starts_with(|c: char| c != '-' && c != ':')
}

pub(crate) static PUBLIC_KEY: Format = Format {
    what: "a public key",
    pattern: "^-----BEGIN PUBLIC KEY-----\\n[A-Za-z0-9+/=\\n]+-----END PUBLIC KEY-----\\n?$",
    example: "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n",
    max: 4096,
    normal: |text| {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let base64 = |line: &&str| !line.is_empty() && line.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
        let accepted = match lines.as_slice() {
            ["-----BEGIN PUBLIC KEY-----", body @ .., "-----END PUBLIC KEY-----"] => !body.is_empty() && body.iter().all(base64),
            _ => false,
        };
        let rule = "PEM text from `-----BEGIN PUBLIC KEY-----` to `-----END PUBLIC KEY-----`";
        keep_if(&format!("{}\n", lines.join("\n")), accepted, rule)
    },
};

/// The longest certificate chain in characters: eight certificates fit.
const MAX_CERTIFICATES: usize = 32 << 10;

pub(crate) static CERTIFICATES: Format = Format {
    what: "a certificate chain",
    pattern: "^(-----BEGIN CERTIFICATE-----\\n[A-Za-z0-9+/=\\n]+-----END CERTIFICATE-----\\n?)+$",
    example: "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUWQ==\n-----END CERTIFICATE-----\n",
    max: MAX_CERTIFICATES,
    normal: |text| {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let rule = "PEM text, each certificate from `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`";
        keep_if(&format!("{}\n", lines.join("\n")), is_chain_of_certificates(&lines), rule)
    },
};

fn is_chain_of_certificates(lines: &[&str]) -> bool {
    let base64 = |line: &&str| !line.is_empty() && line.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    let Some((&"-----END CERTIFICATE-----", before)) = lines.split_last() else { return false };
    before.split(|line| *line == "-----END CERTIFICATE-----").all(|certificate| match certificate {
        ["-----BEGIN CERTIFICATE-----", body @ ..] => !body.is_empty() && body.iter().all(base64),
        _ => false,
    })
}

pub(crate) static GIT_REF: Format = Format {
    what: "a full Git reference",
    pattern: "^refs/[!-~]+$",
    example: "refs/heads/main",
    max: 300,
    normal: |text| {
        let accepted = text.strip_prefix("refs/").is_some_and(|rest| !rest.is_empty() && !rest.contains(".."))
            && text.bytes().all(|b| b.is_ascii_graphic() && !b"~^:?*[\\".contains(&b));
        keep_if(text, accepted, "a full name such as `refs/heads/main` or `refs/tags/v1`")
    },
};

pub(crate) static VARIABLE: Format = Format {
    what: "a variable's name",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    example: "NCCL_DEBUG",
    max: 100,
    normal: |text| {
        let accepted = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        keep_if(text, accepted, "letters, digits and `_`, not beginning with a digit")
    },
};

pub(crate) static OBJECT: Format = Format {
    what: "the name of a Kubernetes object",
    pattern: "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
    example: "team-settings",
    max: 253,
    normal: |text| keep_if(text, is_object_name(text, "-."), "lower-case letters, digits and inner `-` and `.`"),
};

pub(crate) static VOLUME: Format = Format {
    what: "the name of a volume",
    pattern: "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
    example: "data",
    max: 63,
    normal: |text| keep_if(text, is_object_name(text, "-"), "lower-case letters, digits and inner `-`"),
};

fn is_object_name(text: &str, inner: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || inner.contains(c))
        && !["..", ".-", "-."].iter().any(|pair| text.contains(pair))
}

pub(crate) static DATA_KEY: Format = Format {
    what: "a key of a Secret or ConfigMap",
    pattern: "^[A-Za-z0-9._-]+$",
    example: "token",
    max: 253,
    normal: |text| {
        let accepted = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) && !text.is_empty();
        keep_if(text, accepted && text != "." && !text.starts_with(".."), "letters, digits, `.`, `_` and `-`")
    },
};

pub(crate) static KUBERNETES_LABEL: Format = Format {
    what: "the key of a Kubernetes label",
    pattern: "^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$",
    example: "topology.kubernetes.io/zone",
    max: 317,
    normal: |text| {
        let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
        let accepted = prefix.is_none_or(|prefix| is_object_name(prefix, "-.")) && is_label_part(name);
        keep_if(text, accepted, "a name of at most 63 letters, digits, `-`, `_` and `.`, after a domain and `/` if it has one")
    },
};

pub(crate) static LABEL_VALUE: Format = Format {
    what: "the value of a Kubernetes label",
    pattern: "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
    example: "gpu",
    max: 63,
    normal: |text| keep_if(text, is_label_part(text), "letters, digits and inner `-`, `_` and `.`"),
};

fn is_label_part(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || "-_.".contains(c))
}

pub(crate) static MOUNT_PATH: Format = Format {
    what: "a path in the container",
    pattern: "^/[^:\\\\]*$",
    example: "/data",
    max: 300,
    normal: |text| {
        let Some(relative) = text.strip_prefix('/') else { return Err("must begin with `/`".to_owned()) };
        // The root itself is a path; other checks decide if it may be mounted.
        let parts: Vec<&str> = relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        let accepted = !parts.contains(&"..") && !text.contains([':', '\\']) && !text.chars().any(char::is_control);
        keep_if(&format!("/{}", parts.join("/")), accepted, "an absolute path without `..`, `:` and `\\`")
    },
};

pub(crate) static ABSOLUTE_PATH: Format = Format {
    what: "an absolute path",
    pattern: "^/",
    example: "/srv/data",
    max: 4096,
    normal: |text| keep_if(text, text.starts_with('/') && !text.contains('\0'), "a path that begins with `/`"),
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [&Format; 47] = [
        &ABSOLUTE_PATH,
        &GIT_REF,
        &TEXT,
        &WORD,
        &LABEL,
        &NAME,
        &RUN_ID,
        &ENV_NAME,
        &LABEL_NAME,
        &SERIES_NAME,
        &MEMBER,
        &HEADER,
        &DURATION,
        &DURATION_OR_NONE,
        &LATENESS,
        &LATENCY,
        &PATH,
        &SQL_PATH,
        &HTTPS_URL,
        &HTTP_URL,
        &TELEMETRY_URL,
        &LOOPBACK,
        &SACCT,
        &HOST,
        &HTTP_PATH,
        &IMAGE,
        &SEED,
        &SHA256,
        &SCENARIO,
        &METRIC,
        &UNIT,
        &CURRENCY,
        &DATE,
        &INSTANT,
        &CRON,
        &TIMEZONE,
        &QUANTITY,
        &OBJECT_NAME,
        &BRANCH,
        &REMOTE,
        &VARIABLE,
        &OBJECT,
        &VOLUME,
        &DATA_KEY,
        &KUBERNETES_LABEL,
        &LABEL_VALUE,
        &MOUNT_PATH,
    ];

    #[test]
    fn every_example_is_accepted_and_its_normal_form_is_a_fixed_point() {
        for format in ALL.into_iter().chain([&PUBLIC_KEY, &CERTIFICATES]) {
            let once = (format.normal)(format.example).unwrap_or_else(|error| panic!("{format:?}: {error}"));
            assert_eq!((format.normal)(&once), Ok(once.clone()), "{format:?}");
        }
    }

    fn accepts(format: &Format, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!((format.normal)(text).is_ok(), "{format:?} accepts {text:?}: {:?}", (format.normal)(text));
        }
        for text in bad {
            assert!((format.normal)(text).is_err(), "{format:?} refuses {text:?}");
        }
    }

    #[test]
    fn durations() {
        let normal = |text| (DURATION_OR_NONE.normal)(text).expect("a duration");
        assert_eq!(["90s", "1h30m", "60m", "0s", "1500ms", "0h5m"].map(normal), ["1m30s", "1h30m", "1h", "0s", "1s500ms", "5m"]);
        accepts(
            &DURATION,
            &["30s", "720h"],
            &["", "s", "30", "1m1h", "1m1m", "-1s", "1.5s", "1 s", "721h", "99999999999999999999h", "0s", "3d"],
        );
    }

    #[test]
    fn limits_of_lateness() {
        accepts(&LATENESS, &["5ms", "1s"], &["4ms", "1s1ms", "0s", "", "1h", "5"]);
    }

    #[test]
    fn latencies() {
        let normal = |text| (LATENCY.normal)(text).expect("a latency");
        assert_eq!(["1.5s", "2000ms", "0.25ms", "1s"].map(normal), ["1500ms", "2s", "250us", "1s"]);
        accepts(
            &LATENCY,
            &["1us", "3600s"],
            &["", "5", "0ms", "0.5us", "1.ms", ".5s", "-1s", "1m", "2h", "99999999999999s", "1e3ms"],
        );
    }

    #[test]
    fn paths_stay_in_their_folder() {
        let normal = |text| normal_path(text).expect("a path");
        assert_eq!(["./run.sh", "a//b/./c", "..."].map(normal), ["run.sh", "a/b/c", "..."]);
        accepts(
            &PATH,
            &["a b/ü.c"],
            &["", ".", "/a", "../a", "a/../b", "a/..", "a\\b", "C:/a", ".git/config", ".GIT/x", "a/", "a\0b"],
        );
        accepts(&SQL_PATH, &["q/a.sql"], &["a.txt", ".sql", "../a.sql"]);
    }

    #[test]
    fn addresses_carry_no_password() {
        accepts(
            &HTTP_URL,
            &["http://127.0.0.1:8000", "https://a.b/c?d=e", "http://[::1]:80/x"],
            &[
                "",
                "ftp://a",
                "http://",
                "http://a b",
                "http://u:p@h/",
                "http://h:0",
                "http://h:99999",
                "http://-a",
                "http://[x]",
                "http://[::1]x",
                "http://h/#f",
            ],
        );
        accepts(&HTTPS_URL, &["https://a.b"], &["http://a.b"]);
        accepts(&HOST, &["a.b", "localhost:80", "10.0.0.1"], &["", "a..b", "a/b", "a:b", "*", "a:+1"]);
    }

    #[test]
    fn container_images() {
        let digest = format!("repo@{}", Digest::compute(b""));
        accepts(
            &IMAGE,
            &["python", "python:3.12", "localhost:5000/a/b:Tag_1", "ghcr.io/a/b", &digest],
            &["", "Python", "a:", "a:b:c", "a/", "/a", "a//b", "a@sha256:12", "a b", "-a", "a:-x"],
        );
    }

    #[test]
    fn dates_schedules_and_zones() {
        accepts(&DATE, &["2024-02-29"], &["2023-02-29", "2024-2-9", "today"]);
        accepts(
            &INSTANT,
            &["2026-01-01T00:00:00.5Z"],
            &["2026-01-01", "2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00.Z", "2026-13-01T00:00:00Z"],
        );
        accepts(
            &CRON,
            &["*/5 0-6,22 1,15 * 0"],
            &["* * * *", "60 * * * *", "* * 0 * *", "@daily", "*/0 * * * *", "5-1 * * * *", "+1 * * * *", "a * * * *"],
        );
        accepts(
            &TIMEZONE,
            &["UTC", "America/Argentina/Salta", "Etc/GMT+5"],
            &["CET?", "Europe", "europe/Berlin", "Europe/", "/x"],
        );
    }

    #[test]
    fn remotes_are_named_or_addressed_without_credentials() {
        accepts(
            &REMOTE,
            &[
                "origin",
                "team-numbers.2",
                "https://example.org:8443/a/b.git",
                "ssh://git@example.org/a.git",
                "git@example.org:a/b.git",
                "example.org:/srv/a.git",
                "git://example.org/a",
                "file:///srv/a.git",
            ],
            &[
                "",
                "-origin",
                "a/b",
                "/srv/a.git",
                "../a",
                "http://example.org/a",
                "ext::sh",
                "https://token@example.org/a",
                "https://user:pw@example.org/a",
                "ssh://git:pw@example.org/a",
                "https://example.org/a?token=x",
                "https://example.org",
                "https://example.org/",
                "file://host/a",
                "git@example.org:-a",
                "ssh://-oProxyCommand=x/a",
                "git@example.org:a b",
            ],
        );
    }

    #[test]
    fn words_of_kubernetes() {
        accepts(&VARIABLE, &["A", "http_proxy", "_x1"], &["", "1A", "A-B", "A.B"]);
        accepts(&OBJECT, &["a", "team-settings.v2"], &["", "A", "-a", "a.", "a..b", "a.-b", "a_b"]);
        accepts(&VOLUME, &["data-1"], &["", "a.b", "-a", "A"]);
        accepts(&DATA_KEY, &["token", "ca.crt", "_A"], &["", ".", "..", "..a", "a/b", "a b"]);
        accepts(
            &KUBERNETES_LABEL,
            &["gpu", "nvidia.com/gpu", "node-role.kubernetes.io/control-plane", "Pool_1"],
            &["", "/a", "a/", "a/b/c", "A.b/c", "a b", "-a", &"a".repeat(64)],
        );
        accepts(&LABEL_VALUE, &["H100-80G", "true"], &["", "a b", "-a", "a/b", &"a".repeat(64)]);
        accepts(&ABSOLUTE_PATH, &["/", "/a b/../c"], &["", "a", "./a", "/a\0b"]);
        accepts(&MOUNT_PATH, &["/", "/data", "/a/b c"], &["", "a", "/a/../b", "/a:b", "/..", "C:\\a"]);
        assert_eq!((MOUNT_PATH.normal)("/data//./x/"), Ok("/data/x".to_owned()));
    }

    #[test]
    fn the_rest() {
        accepts(&QUANTITY, &["2", "1.5", "500m", "16Gi"], &["", "m", "1.", "1 G", "1X", "-1"]);
        accepts(&OBJECT_NAME, &["a", "llama-8b", "0"], &["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(64)]);
        accepts(&BRANCH, &["a/b-c", "v1.2"], &["", "-a", "a..b", "a/", "a//b", "a/.b", "a.lock", "a b"]);
        accepts(&METRIC, &["rate", "a.b_c"], &["", ".", "a.", "a..b", "a b"]);
        accepts(&MEMBER, &["top_p", "n"], &["", "A", "1a", "a-b", "a.b"]);
        accepts(&ENV_NAME, &["A", "A_1"], &["", "a", "1A", "_A", "A-B"]);
        accepts(
            &SHA256,
            &[&Digest::compute(b"").to_string(), &Digest::compute(b"").hex()],
            &["", "12", &Digest::compute(b"").hex().to_uppercase()],
        );
        accepts(&GIT_REF, &["refs/heads/main", "refs/tags/v1.2"], &["", "main", "refs/", "refs/heads/a b", "refs/heads/a..b"]);
        let two = CERTIFICATES.example.repeat(2);
        let cut = CERTIFICATES.example.replace("-----END CERTIFICATE-----", "");
        accepts(&CERTIFICATES, &[CERTIFICATES.example, &two], &["", "MIIB", &cut, PUBLIC_KEY.example]);
        accepts(&PUBLIC_KEY, &[PUBLIC_KEY.example], &["", "MFkw", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"]);
        accepts(&CURRENCY, &["USD"], &["usd", "EURO"]);
        accepts(&LABEL, &["a", "app.io/x"], &["", "A", "-a"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_format_panic_and_normal_forms_are_fixed_points(text in any::<String>(), signs in "[-a-zA-Z0-9:/.@()*,+ \n]{0,40}") {
            for format in ALL.into_iter().chain([&PUBLIC_KEY, &CERTIFICATES]) {
                for text in [&text, &signs] {
                    if let Ok(once) = (format.normal)(text) {
                        prop_assert_eq!((format.normal)(&once), Ok(once.clone()), "{:?}", format);
                    }
                }
            }
        }

        #[test]
        fn durations_read_what_they_write(ms in 0u64..2_592_000_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&write_duration(duration)), Ok(duration));
        }
    }
}
