//! The digest of a trial's schedule. Two shards, two sides of a pair, or a trial and its plan have the same load if their digests
//! are equal.

use assay_manifest::{Digest, Hasher};

use crate::{Phase, ScheduledRequest, TrialSchedule};

/// The format of a schedule's digest. The hashed input begins with these bytes.
///
/// The digest is SHA-256 over them and then, for the warm-up and after it for the measured phase, over a record of every request,
/// in the order of their indices, and one byte 0. A record has 37 bytes: one byte 1; the index (64 bits); the offset since the
/// trial's start in nanoseconds, or -1 without one (64 bits, signed); tokens of the prompt, tokens of the response, and the
/// place of the adapter in the workload's list (32 bits each, 2^32 - 1 if there is none); and the seed of the prompt (64 bits).
/// Integers are little-endian. The record of a request with a query ends with the tokens of the query (32 bits more),
/// that of a request with a beginning in common with others with the number of its group (32 bits more), and that of a turn of a session
/// with the number of the session (64 bits more), that of the turn (32 bits) and the pause before it in nanoseconds (64 bits), and, if the
/// session is of a trace, its time since the start of the session by the trace in nanoseconds (64 bits). For a dataset or trace, the
/// seed of the prompt is its row, and the SHA-256 of the rows and of their index (32 bytes each) precede the first record.
/// If requests have images, one byte 2, and width, height and number of the images of each (32 bits each) and one byte for their format (0 is PNG,
/// 1 is JPEG) precede the first record. If requests have image files, one byte 4, the images of each and the number of files (32 bits each) and the SHA-256
/// of each file (32 bytes) precede the first record. If the client cancels requests, one byte 3 and the time from the end of sending one to its cancellation in
/// nanoseconds (64 bits) precede the first record, and every record ends with one byte: 1 if the request is cancelled, or 0.
/// If requests have adapters, one byte 5, the number of adapters (32 bits), and of each the bytes of its name (their number in 32 bits, then
/// the bytes) precede the first record.
///
/// A phase of [open length](TrialSchedule::has_open_length) contributes its first [`OPEN_LENGTH_INDICES`]. Request ids and salt
/// are absent, because they differ between executions of the same trial.
pub const DIGEST_FORMAT: &str = "assay.dev/schedule-digest/v1";

/// The number of requests that represent a phase whose number of requests is not known beforehand.
pub const OPEN_LENGTH_INDICES: u64 = 4_096;

const RECORD_BYTES: usize = 37;
const NONE: u32 = u32::MAX;

pub(crate) fn schedule_digest(schedule: &TrialSchedule) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(DIGEST_FORMAT.as_bytes());
    schedule.dataset_digests().iter().for_each(|digest| hasher.update(digest.as_bytes()));
    if let Some(images) = schedule.images() {
        hasher.update(&[2]);
        for number in [images.width, images.height, images.count] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(&[images.format as u8]);
    }
    if let Some((count, files)) = schedule.image_files() {
        hasher.update(&[4]);
        hasher.update(&count.to_le_bytes());
        hasher.update(&(files.len() as u32).to_le_bytes());
        for digest in files {
            hasher.update(digest.as_bytes());
        }
    }
    if let Some(cancel) = schedule.cancellation() {
        hasher.update(&[3]);
        hasher.update(&cancel.after_ns.0.to_le_bytes());
    }
    if !schedule.adapters().is_empty() {
        hasher.update(&[5]);
        hasher.update(&(schedule.adapters().len() as u32).to_le_bytes());
        for adapter in schedule.adapters() {
            hasher.update(&(adapter.name.len() as u32).to_le_bytes());
            hasher.update(adapter.name.as_bytes());
        }
    }
    for phase in Phase::ALL {
        let limit = if schedule.has_open_length(phase) { OPEN_LENGTH_INDICES } else { u64::MAX };
        schedule.requests(phase).take(usize::try_from(limit).unwrap_or(usize::MAX)).for_each(|request| {
            hasher.update(&record(&request));
            if let Some(tokens) = request.query_tokens {
                hasher.update(&tokens.to_le_bytes());
            }
            if let Some(group) = request.group {
                hasher.update(&group.to_le_bytes());
            }
            if let Some(place) = request.turn {
                hasher.update(&place.session.to_le_bytes());
                hasher.update(&place.turn.to_le_bytes());
                hasher.update(&place.pause_ns.to_le_bytes());
                if let Some(planned_ns) = place.planned_ns {
                    hasher.update(&planned_ns.to_le_bytes());
                }
            }
            if schedule.cancellation().is_some() {
                hasher.update(&[u8::from(request.cancel_after_ns.is_some())]);
            }
        });
        hasher.update(&[0]);
    }
    hasher.finish()
}

fn record(request: &ScheduledRequest) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let (tag, rest) = record.split_at_mut(1);
    tag[0] = 1;
    let (wide, rest) = rest.split_at_mut(16);
    let (narrow, seed) = rest.split_at_mut(12);
    wide[..8].copy_from_slice(&request.global_index.to_le_bytes());
    wide[8..].copy_from_slice(&request.offset_ns.unwrap_or(-1).to_le_bytes());
    narrow[..4].copy_from_slice(&request.input_tokens.to_le_bytes());
    narrow[4..8].copy_from_slice(&request.output_tokens.unwrap_or(NONE).to_le_bytes());
    narrow[8..].copy_from_slice(&request.adapter.unwrap_or(NONE).to_le_bytes());
    seed.copy_from_slice(&request.prompt_seed.to_le_bytes());
    record
}
