//! The beginnings of prompts that earlier requests of an attempt have as well, by its plan: what a prefix cache without limits would find.
//!
//! They are known where prompts are made of parts that are: the blocks of a trace, in the order of its rows; the prefix in front of synthetic
//! prompts; and the earlier turns of a drawn session with recorded history, of which the endpoint was sent all but the last response.
//! A request counts as sent before all later ones of the schedule. The words of a salt and the tokens of a chat template, which
//! all prompts begin with, are not counted.

use std::collections::HashSet;
use std::sync::Arc;

use assay_dataset::Index;
use assay_manifest::{CacheMode, History, PromptSource, ServingWork, SharedPrefix};

use crate::{OfferedLoad, ScheduledRequest};

/// The requests of an attempt, one after the other in the order of the schedule.
#[derive(Clone, Debug)]
pub struct PrefixReuse(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Every prompt was sent before the trial.
    Everything,
    /// The blocks of a trace, whose index has the repeated tokens of each row.
    Blocks(Arc<Index>),
    Synthetic {
        prefix: Option<SharedPrefix>,
        /// The groups of the requests so far, with their adapters: servers keep what they computed for one adapter apart from that for others.
        groups: HashSet<(Option<u32>, u32)>,
        /// The adapters of the requests so far.
        adapters: HashSet<Option<u32>>,
    },
}

impl PrefixReuse {
    /// Returns the state before the first request of an attempt at this load, or the reason why the repeated tokens are not known. `index` is that of
    /// the work's dataset, if it has one.
    pub fn new(work: &ServingWork, offered: OfferedLoad, index: Option<&Arc<Index>>) -> Result<Self, String> {
        if work.api.capabilities().input.has_documents() {
            return Err("its requests have documents, which have no beginning in common".to_owned());
        }
        match work.cache {
            CacheMode::Shared => return Err("with `cache: shared`, earlier attempts leave prompts in the cache".to_owned()),
            CacheMode::Warm => return Ok(Self(Kind::Everything)),
            CacheMode::ColdSalt | CacheMode::ColdFlush => {}
        }
        match &work.prompts {
            PromptSource::Synthetic { .. } if has_live_history(work) => {
                Err("with live history, what a turn repeats depends on the responses".to_owned())
            }
            PromptSource::Synthetic { prefix: None, .. } if work.sessions.is_none() => {
                Err("no two prompts begin alike, by the plan".to_owned())
            }
            PromptSource::Synthetic { prefix, .. } => {
                Ok(Self(Kind::Synthetic { prefix: *prefix, groups: HashSet::new(), adapters: HashSet::new() }))
            }
            PromptSource::Dataset(dataset) => {
                let is_in_order = matches!(offered, OfferedLoad::Replay { .. }) || work.plays_trace();
                let played = work.sessions.as_ref().and_then(|sessions| sessions.count);
                let index = index.filter(|_| dataset.summary.blocks.is_some()).ok_or("its prompts are texts without blocks")?;
                match played.zip(dataset.summary.sessions) {
                    _ if work.adapters.len() > 1 => {
                        Err("its requests have adapters, of which the blocks of the trace say nothing".to_owned())
                    }
                    _ if work.session_play().start.is_some() => {
                        Err("sessions begin in their middle, without the turns whose blocks later ones repeat".to_owned())
                    }
                    _ if work.session_play().marker => {
                        Err("a marker of each session moves its prompts in the blocks of a cache".to_owned())
                    }
                    _ if !is_in_order => Err("the rows of the trace are not sent in its order".to_owned()),
                    Some((played, of)) if played < of => Err("only a part of the trace's sessions is played".to_owned()),
                    _ => Ok(Self(Kind::Blocks(Arc::clone(index)))),
                }
            }
        }
    }

    /// Returns the number of leading tokens of a request's prompt that earlier requests have as well. Every request of the schedule has to be passed,
    /// in its order, those of the warm-up first.
    pub fn repeated_tokens(&mut self, request: &ScheduledRequest) -> u32 {
        match &mut self.0 {
            Kind::Everything => request.input_tokens,
            Kind::Blocks(index) => {
                request.row.and_then(|row| index.row(row)).map_or(0, |row| row.reused_tokens.min(request.input_tokens))
            }
            Kind::Synthetic { prefix, groups, adapters } => {
                let later_turn = request.turn.filter(|turn| turn.turn > 0);
                let repeated = match (prefix, request.group) {
                    _ if let Some(turn) = later_turn => turn.sent_before,
                    (Some(prefix), Some(group)) => {
                        let is_first = adapters.insert(request.adapter);
                        let is_known = !groups.insert((request.adapter, group));
                        if is_known {
                            prefix.tokens()
                        } else if is_first {
                            0
                        } else {
                            prefix.system
                        }
                    }
                    _ => 0,
                };
                repeated.min(request.input_tokens)
            }
        }
    }
}

fn has_live_history(work: &ServingWork) -> bool {
    work.sessions.as_ref().is_some_and(|sessions| sessions.history == History::Live)
}

/// Returns the tokens of a prompt that a cache of whole blocks finds, of those that it was sent before. The last token of a prompt is always
/// computed, because its output is the first token of the response.
pub fn tokens_in_blocks(repeated: u32, prompt: u32, block: u32) -> u32 {
    let block = block.max(1);
    repeated.min(prompt.saturating_sub(1)) / block * block
}
