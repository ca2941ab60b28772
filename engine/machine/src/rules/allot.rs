//! Rule *allot*: everything new in a request shares one budget, the room that the window leaves.
//!
//! New are the results of the turn before, their documents, and at first the task's own request. The smallest contents come
//! first, and ties go in call order. A document without room is shown as its record, and tools read its content. An output
//! without room is written as a document. A version that the conversation holds already is named, not repeated. Returned work
//! fits as long as its records and errors fit.

use std::collections::BTreeSet;

use baton_types::call::KeptOutput;
use baton_types::document::{ContentFacts, is_for_tools, output_content};
use baton_types::entry::{KeptResult, ModelRequested};
use baton_types::estimate::text_tokens;

use crate::prelude::*;
use crate::render::output_tokens;
use crate::task::{Fresh, FreshContent};
use crate::{bounded, limits_under};

/// Number of bytes of a kept output from which its summary is made.
const SUMMARY_BYTES: usize = 1_000;

/// The part of the new content that a request shows.
#[derive(Default)]
pub(crate) struct Allotment {
    /// Tokens (≈) of the request.
    pub(crate) input_tokens: u64,
    /// Documents that are shown as their records.
    pointers: Vec<DocumentRef>,
    /// Places of outputs among the new content that are kept as documents.
    outputs: Vec<usize>,
}

impl Run {
    /// Allots the room of the next request of `task`.
    pub(crate) fn allot(&self, task: TaskIndex) -> Allotment {
        if self.graph[task].fresh().is_empty() {
            return self.allot_within(task, 0);
        }
        let room = self.window(task).map(|window| self.counted(task).estimate(room(window, self.needed_tokens(task))));
        self.allot_within(task, room.unwrap_or(u64::MAX))
    }

    /// Returns the tokens (≈) of the largest document that the conversation of `task` could hold, if its older turns were
    /// replaced for it. `None` if nothing limits it.
    pub(crate) fn largest_document(&self, task: TaskIndex) -> Option<u64> {
        let window = self.window(task)?;
        let (base, counted) = (self.graph[task].context.as_ref().map_or(0, |context| context.base_tokens), self.counted(task));
        let needed = counted.expected(base).saturating_add(self.output_tokens(task));
        let after_compaction = room(window, needed).min(window / 2);
        Some(counted.estimate(after_compaction.max(room(window, self.needed_tokens(task)))))
    }

    /// Returns the tokens (≈) of the new content for the next request of `task`, if all of it were shown.
    pub(crate) fn fresh_tokens(&self, task: TaskIndex) -> u64 {
        self.allot_within(task, u64::MAX).input_tokens - self.graph[task].context_tokens
    }

    fn allot_within(&self, task: TaskIndex, mut room: u64) -> Allotment {
        let of = &self.graph[task];
        let mut allotment = Allotment { input_tokens: of.context_tokens, ..Allotment::default() };
        if of.fresh().is_empty() {
            return allotment;
        }
        let inline_bytes = limits_under(&self.configs, of).inline_result_bytes.unwrap_or(u64::MAX);
        let mut seen: BTreeSet<(DocumentRef, bool)> = BTreeSet::new();
        let mut wanted = Vec::new();
        let mut left_out = Vec::new();
        for (place, fresh) in of.fresh().iter().enumerate() {
            match &fresh.content {
                FreshContent::Document { version, .. } | FreshContent::Conflict(version) => {
                    let is_whole = matches!(fresh.content, FreshContent::Document { .. });
                    let reference = version.reference();
                    if (is_whole && of.holds(&reference)) || !seen.insert((reference, is_whole)) {
                        continue;
                    }
                    match fresh.content {
                        FreshContent::Document { exceeds_edge: true, .. } => left_out.push(place),
                        _ if is_for_tools(&version.content.mime_type) => left_out.push(place),
                        _ => wanted.push((version.content.token_count, fresh.position, place)),
                    }
                }
                FreshContent::Part { .. } => {}
                FreshContent::Output { result, .. } if result.output.text().len() as u64 > inline_bytes => left_out.push(place),
                FreshContent::Output { result, .. } => wanted.push((output_tokens(result), fresh.position, place)),
            }
        }
        wanted.sort_unstable();
        for (tokens, _, place) in wanted {
            match room.checked_sub(tokens) {
                Some(rest) => {
                    room = rest;
                    allotment.input_tokens = allotment.input_tokens.saturating_add(tokens);
                }
                None => left_out.push(place),
            }
        }
        left_out.sort_unstable();
        for place in left_out {
            match &of.fresh()[place].content {
                FreshContent::Document { version, .. } | FreshContent::Conflict(version) => {
                    allotment.pointers.push(version.reference());
                }
                FreshContent::Output { .. } => allotment.outputs.push(place),
                FreshContent::Part { .. } => {}
            }
        }
        allotment
    }
}

/// Returns the tokens for new content in a request that needs `needed` tokens of its window without it. Below four
/// fifths of the window, older turns stay. Beyond that, half of the rest stays free.
fn room(window: u64, needed: u64) -> u64 {
    let rest = window.saturating_sub(needed);
    rest.saturating_sub(window / 5).max(rest / 2)
}

impl Draft<'_> {
    /// Writes the outputs that the next request of `task` has no room for, and returns what its entry records.
    pub(crate) fn keep_left_out(&mut self, task: TaskIndex, allotment: &mut Allotment) -> (Vec<DocumentRef>, Vec<KeptResult>) {
        let outputs = std::mem::take(&mut allotment.outputs);
        let kept = outputs.into_iter().filter_map(|place| {
            let FreshContent::Output { call, tool, result } = self.task(task).fresh()[place].content.clone() else { return None };
            let output = self.keep_output(task, &call, &tool, &result.output.shown());
            Some(KeptResult { call, output })
        });
        let kept = kept.collect();
        (std::mem::take(&mut allotment.pointers), kept)
    }

    /// Writes `output` as a document for `task`, unless a document holds it already.
    fn keep_output(&mut self, task: TaskIndex, call: &CallId, tool: &ToolId, output: &Json) -> KeptOutput {
        let (content, mime_type, ending) = output_content(output);
        let hash = ContentHash::of(&content);
        let documents = &self.run.shared.documents;
        let mut paths = baton_types::path::kept_output_paths(tool, hash, ending);
        let path = paths.find(|path| {
            let same = documents.get(path).map(|document| document.current().content.hash == hash);
            same.unwrap_or_else(|| documents.twin(path).is_none())
        });
        let path = path.expect("a workspace does not hold every path");
        if let Some(document) = documents.get(&path) {
            return KeptOutput::new(document.current());
        }
        let head = String::from_utf8_lossy(&content[..content.len().min(SUMMARY_BYTES)]);
        let content_facts = ContentFacts {
            hash,
            size_bytes: content.len() as u64,
            mime_type: mime_type.to_owned(),
            token_count: text_tokens(content.len() as u64),
            summary: bounded(&head.split_whitespace().collect::<Vec<_>>().join(" ")),
        };
        let description = format!("Output of call {call} of {tool}");
        let write = Write { path, content: content_facts, description: Some(description), tags: None };
        self.decision.contents.push((hash, Arc::clone(&content)));
        let created_by = Principal::Agent(self.agent(task).id.clone());
        KeptOutput::new(&self.write(write, Some(created_by), Some((self.id(task), call.clone()))))
    }
}

impl Task {
    /// Whether its conversation holds this version whole.
    fn holds(&self, reference: &DocumentRef) -> bool {
        self.documents.as_ref().is_some_and(|documents| documents.held.contains_key(reference))
    }

    /// Takes the new content into its conversation with `request`, except for what the request leaves out.
    pub(crate) fn take_fresh(&mut self, request: &ModelRequested) {
        let pointers: BTreeSet<&DocumentRef> = request.pointers.iter().collect();
        let Some(documents) = self.documents.as_mut() else { return };
        for Fresh { position: _, content } in std::mem::take(&mut documents.fresh) {
            let version = match &content {
                FreshContent::Document { version, .. } | FreshContent::Conflict(version) => version,
                FreshContent::Part { call, version } => {
                    if !request.kept.iter().any(|kept| kept.call == *call) {
                        documents.learn(version);
                    }
                    continue;
                }
                FreshContent::Output { .. } => continue,
            };
            let reference = version.reference();
            if pointers.contains(&reference) {
                let named = documents.named.entry(version.path.clone()).or_default();
                *named = version.version.max(*named);
                continue;
            }
            documents.learn(version);
            if matches!(content, FreshContent::Document { .. }) {
                documents.held.entry(reference).or_insert(request.turn.saturating_sub(1));
            }
        }
    }
}
