//! The columns of a file of records: the only place where they are named.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The type of a column of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A 64-bit whole number.
    Int,
    /// One of a short list of words.
    Word,
    /// Text.
    Text,
    /// A list of whole numbers, one for each token event.
    Ints,
}

macro_rules! columns {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $kind:ident $null:literal;)+) => {
        /// A column of a file of records, in the file's order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RecordColumn {
            $($(#[doc = $doc])+ $variant),+
        }

        impl RecordColumn {
            /// All of them, in the file's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns its name in the file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns its type.
            pub const fn kind(self) -> RecordKind {
                match self { $(Self::$variant => RecordKind::$kind),+ }
            }

            /// Returns true if it may be null.
            pub const fn nullable(self) -> bool {
                match self { $(Self::$variant => $null),+ }
            }

            /// Returns its meaning.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+)),+ }
            }
        }
    };
}

columns! {
    /// The request's place in the schedule of the whole trial; warm-up and measured phase count apart.
    GlobalIndex "global_index" Int false;
    /// The session that it is a turn of; null if the trial has no sessions.
    Session "session" Int true;
    /// Its turn in that session, from 0.
    Turn "turn" Int true;
    /// Its stream among those of that session, from 0: a subagent is a stream of its own; null unless the session is of a trace.
    Stream "stream" Int true;
    /// The number of turns of that session, in all of its streams.
    SessionTurns "session_turns" Int true;
    /// The turns of that session that had succeeded when it ended, itself included if it did; null if another one had failed before.
    SessionDone "session_done" Int true;
    /// The time at which the first turn of the session was due.
    SessionStart "session_start_ns" Int true;
    /// The pauses of the session before this turn: the time in which none of its turns was due or in flight, in nanoseconds.
    SessionPauses "session_pauses_ns" Int true;
    /// The time at which it was planned: by the grid of its user, or by the trace whose session it belongs to, the start of the session and the time
    /// from there; null without either.
    Planned "planned_ns" Int true;
    /// The attempt, from 0.
    Attempt "attempt" Int false;
    /// The shard that sent it, from 0.
    Shard "shard" Int false;
    /// The phase that it was due in: `warmup` or `measured`.
    Phase "phase" Word false;
    /// The outcome of the request.
    Outcome "outcome" Word false;
    /// Its `x-request-id` and trace id: 32 hexadecimal digits.
    RequestId "request_id" Text false;
    /// The time at which it was due; null under closed loop, except for turns of sessions and for requests that open a connection each.
    /// This and every time: nanoseconds since the trial's start.
    Intended "intended_ns" Int true;
    /// The time at which there was a place for it among the requests in flight; null unless due requests wait for one.
    Ready "ready_ns" Int true;
    /// The time at which the client dequeued it.
    Dequeued "dequeued_ns" Int true;
    /// The time at which its connection was requested; null if one was kept alive.
    ConnectStart "connect_start_ns" Int true;
    /// The time at which its connection was established.
    ConnectEnd "connect_end_ns" Int true;
    /// The time at which its first byte was written.
    Sent "sent_ns" Int true;
    /// The time at which its last byte was written.
    WriteDone "write_done_ns" Int true;
    /// The time at which the first byte of the response was read.
    FirstByte "first_byte_ns" Int true;
    /// The first token event, on any channel.
    FirstToken "first_token_ns" Int true;
    /// The first event with content.
    FirstContent "first_content_ns" Int true;
    /// The last token event.
    LastToken "last_token_ns" Int true;
    /// The time at which the response was complete, or the request was given up.
    End "end_ns" Int true;
    /// The status code of the response.
    HttpStatus "http_status" Int true;
    /// The endpoint's reason to stop.
    FinishReason "finish_reason" Text true;
    /// The error.
    Error "error" Text true;
    /// Bytes that were written.
    RequestBytes "request_bytes" Int false;
    /// Bytes that were read.
    ResponseBytes "response_bytes" Int false;
    /// The requested tokens of the prompt.
    InputTokensRequested "input_tokens_requested" Int true;
    /// Tokens of the prompt by the workload's tokenizer.
    InputTokens "input_tokens" Int false;
    /// Tokens of the prompt as the endpoint counts them.
    InputTokensEndpoint "input_tokens_endpoint" Int true;
    /// Tokens of the prompt from the endpoint's prefix cache.
    CachedTokens "cached_tokens" Int true;
    /// The requested tokens of the response.
    OutputTokensRequested "output_tokens_requested" Int true;
    /// Tokens of the response.
    OutputTokens "output_tokens" Int true;
    /// The source of their count.
    OutputSource "output_source" Word false;
    /// The endpoint's own count of them, if it is not used.
    OutputTokensClaimed "output_tokens_claimed" Int true;
    /// The reason why a token count in the response's `usage` is not used, such as `output_exceeds_limit`; `none` if all are used.
    UsageFault "usage_fault" Word false;
    /// The reasoning tokens among them.
    ReasoningTokens "reasoning_tokens" Int true;
    /// Tokens among them that a prediction of the request had.
    AcceptedPredictionTokens "accepted_prediction_tokens" Int true;
    /// Tokens that the first token event brought.
    FirstEventTokens "first_event_tokens" Int true;
    /// The number of token events.
    TokenEvents "token_events" Int false;
    /// SHA-256 of the prompt: 64 hexadecimal digits.
    PromptSha256 "prompt_sha256" Text true;
    /// SHA-256 of the response's text: 64 hexadecimal digits.
    ResponseSha256 "response_sha256" Text true;
    /// The time of each token event; empty if the list was not kept.
    ChunkAt "chunk_at_ns" Ints false;
    /// Bytes of text of each token event.
    ChunkBytes "chunk_bytes" Ints false;
    /// Tokens of each token event; null for each event whose tokens the endpoint does not state.
    ChunkTokens "chunk_tokens" Ints true;
}

impl RecordColumn {
    /// Returns true if single items of its lists may be null.
    const fn items_nullable(self) -> bool {
        matches!(self, Self::ChunkTokens)
    }

    /// Returns the field of a list's items.
    pub(super) fn item(self) -> Arc<Field> {
        Arc::new(Field::new("item", DataType::Int64, self.items_nullable()))
    }

    /// Returns the field as the file declares it.
    pub(super) fn field(self) -> Field {
        let kind = match self.kind() {
            RecordKind::Int => DataType::Int64,
            RecordKind::Word | RecordKind::Text => DataType::Utf8,
            RecordKind::Ints => DataType::List(self.item()),
        };
        Field::new(self.name(), kind, self.nullable())
    }

    /// Returns the field as batches are read: words stay indices into a dictionary.
    pub(super) fn read_field(self) -> Field {
        match self.kind() {
            RecordKind::Word => Field::new(
                self.name(),
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
                self.nullable(),
            ),
            _ => self.field(),
        }
    }
}

/// Returns the Arrow schema of a file of records.
pub fn record_schema() -> SchemaRef {
    Arc::new(Schema::new(RecordColumn::ALL.iter().map(|column| column.field()).collect::<Vec<_>>()))
}
