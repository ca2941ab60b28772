//! Rule *allot*: everything new in a request shares one budget, the room that the window leaves.
//!
//! New are the results of the turn before, their documents, and at first the task's own request. The smallest contents come
//! first, and ties go in call order. A document without room is shown as its record, and tools read its content. An output
//! without room is written as a document. A version that the conversation holds already is named, not repeated. If the request
//! still exceeds the window, the largest results and records share one document, so no amount of returned work ends a task.

use std::collections::{BTreeSet, btree_map};

use baton_render::{BUNDLE_TOKENS, is_long, output_tokens, record_tokens};
use baton_types::call::KeptOutput;
use baton_types::document::{Content, ContentFacts, output_content};
use baton_types::entry::{Bundle, KeptResult, ModelRequested};
use baton_types::estimate::text_tokens;

use crate::bounded;
use crate::prelude::*;
use crate::task::{Fresh, FreshContent, Held, OWN_REQUEST};

/// Number of bytes of a kept output from which its summary is made.
const SUMMARY_BYTES: usize = 1_000;

/// Name of documents that hold several results and records, in place of a tool's.
const BUNDLE: &str = "left-out";

/// The part of the new content that a request shows.
#[derive(Default)]
pub(crate) struct Allotment {
    /// Tokens (≈) of the request.
    pub(crate) input_tokens: u64,
    /// Documents that are shown as their records.
    pointers: Vec<DocumentRef>,
    /// Documents whose changes after a conflict are not shown.
    conflicts: Vec<DocumentRef>,
    /// Places of results among the new content whose outputs are kept as documents.
    outputs: Vec<usize>,
    /// The results and records that share one document.
    bundled: Bundled,
}

/// New content for which not even results and records have room.
#[derive(Default)]
struct Bundled {
    /// Places of results among the new content.
    results: BTreeSet<usize>,
    /// Documents.
    documents: BTreeSet<DocumentRef>,
    /// Tokens (≈) that the conversation does not take without them.
    saved: u64,
}

/// The new content that a request does not show, as its entry records it.
pub(crate) struct LeftOut {
    pub(crate) pointers: Vec<DocumentRef>,
    pub(crate) conflicts: Vec<DocumentRef>,
    pub(crate) kept: Vec<KeptResult>,
    pub(crate) bundle: Option<Box<Bundle>>,
}

impl Run {
    /// Allots the room of the next request of `task`.
    pub(crate) fn allot(&self, task: TaskIndex) -> Allotment {
        let window = if self.graph[task].fresh().is_empty() { None } else { self.window(task) };
        let Some(window) = window else { return self.allot_within(task, u64::MAX, Bundled::default()) };
        let bundled = self.bundled(task, window);
        let needed = self.needed_without(task, bundled.saved);
        let room = self.counted(task).estimate(room(window, needed));
        self.allot_within(task, room, bundled)
    }

    /// Returns the fewest tokens that the next request of `task` and its answer need.
    pub(crate) fn least_tokens(&self, task: TaskIndex, window: u64) -> u64 {
        self.needed_without(task, self.bundled(task, window).saved)
    }

    fn needed_without(&self, task: TaskIndex, saved: u64) -> u64 {
        let context = self.graph[task].context_tokens.saturating_sub(saved);
        self.counted(task).expected(context).saturating_add(self.output_tokens(task))
    }

    /// Returns the new results and records that share one document, because the next request of `task` would exceed its
    /// window. The largest go first, until four fifths of the window suffice.
    fn bundled(&self, task: TaskIndex, window: u64) -> Bundled {
        let mut bundled = Bundled::default();
        let needed = self.needed_tokens(task);
        if needed <= window {
            return bundled;
        }
        let documents = &self.shared.documents;
        let tokens = |fresh: &Fresh| match &fresh.content {
            // The absent output takes a token, as it does in `body`.
            FreshContent::Result { body, .. } => Some(body.saturating_sub(1)),
            FreshContent::Document { version, .. } => Some(record_tokens(&version.reference(), documents)),
            FreshContent::Conflict(_) | FreshContent::Part { .. } => None,
        };
        let fresh = self.graph[task].fresh();
        let mut sizes: Vec<(u64, usize)> =
            fresh.iter().enumerate().filter_map(|(place, fresh)| Some((tokens(fresh)?, place))).collect();
        sizes.sort_unstable();
        let excess = self.counted(task).estimate(needed - (window - window / 5)).saturating_add(BUNDLE_TOKENS);
        let mut saved = 0;
        while saved < excess
            && let Some((tokens, place)) = sizes.pop()
        {
            saved += tokens;
            match &fresh[place].content {
                FreshContent::Document { version, .. } => _ = bundled.documents.insert(version.reference()),
                _ => _ = bundled.results.insert(place),
            }
        }
        bundled.saved = saved.saturating_sub(BUNDLE_TOKENS);
        if bundled.saved == 0 { Bundled::default() } else { bundled }
    }

    /// Returns the tokens (≈) of the largest document that the conversation of `task` could hold, if its older turns were
    /// replaced for it. `None` if nothing limits it.
    pub(crate) fn largest_document(&self, task: TaskIndex) -> Option<u64> {
        let window = self.window(task)?;
        let (base, counted) =
            (self.graph[task].work().context.as_ref().map_or(0, |context| context.base_tokens), self.counted(task));
        let needed = counted.expected(base).saturating_add(self.output_tokens(task));
        let after_compaction = room(window, needed).min(window / 2);
        Some(counted.estimate(after_compaction.max(room(window, self.needed_tokens(task)))))
    }

    /// Returns the tokens (≈) of the new content for the next request of `task`, if all of it were shown.
    pub(crate) fn fresh_tokens(&self, task: TaskIndex) -> u64 {
        self.allot_within(task, u64::MAX, Bundled::default()).input_tokens - self.graph[task].context_tokens
    }

    fn allot_within(&self, task: TaskIndex, mut room: u64, bundled: Bundled) -> Allotment {
        let of = &self.graph[task];
        let input_tokens = of.context_tokens.saturating_sub(bundled.saved);
        let mut allotment = Allotment { input_tokens, bundled, ..Allotment::default() };
        if of.fresh().is_empty() {
            return allotment;
        }
        let inline_bytes = of.limits().inline_result_bytes.unwrap_or(u64::MAX);
        let mut seen: BTreeSet<(DocumentRef, bool)> = BTreeSet::new();
        let mut wanted = Vec::new();
        let mut left_out = Vec::new();
        for (place, fresh) in of.fresh().iter().enumerate() {
            match &fresh.content {
                FreshContent::Document { version, .. } | FreshContent::Conflict(version) => {
                    let is_whole = matches!(fresh.content, FreshContent::Document { .. });
                    let reference = version.reference();
                    let is_bundled = is_whole && allotment.bundled.documents.contains(&reference);
                    if is_bundled || (is_whole && of.holds(&reference)) || !seen.insert((reference, is_whole)) {
                        continue;
                    }
                    match fresh.content {
                        FreshContent::Document { exceeds_edge: true, .. } => left_out.push(place),
                        _ if !self.takes(task, &version.content.mime_type) => left_out.push(place),
                        _ => wanted.push((version.content.token_count, fresh.position, place)),
                    }
                }
                FreshContent::Part { .. } => {}
                FreshContent::Result { .. } if allotment.bundled.results.contains(&place) => {}
                FreshContent::Result { result, .. } if !is_long(result) => {}
                FreshContent::Result { result, .. } if result.output.text().len() as u64 > inline_bytes => left_out.push(place),
                FreshContent::Result { result, .. } => wanted.push((output_tokens(result), fresh.position, place)),
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
                FreshContent::Document { version, .. } => allotment.pointers.push(version.reference()),
                FreshContent::Conflict(version) => allotment.conflicts.push(version.reference()),
                FreshContent::Result { .. } => allotment.outputs.push(place),
                FreshContent::Part { .. } => {}
            }
        }
        allotment.pointers.extend(allotment.bundled.documents.iter().cloned());
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
    /// Writes the results that the next request of `task` has no room for, and returns what its entry records.
    pub(crate) fn keep_left_out(&mut self, task: TaskIndex, allotment: &mut Allotment) -> LeftOut {
        let bundle = self.bundle(task, &std::mem::take(&mut allotment.bundled));
        let outputs = std::mem::take(&mut allotment.outputs);
        let kept = outputs.into_iter().filter_map(|place| {
            let FreshContent::Result { call, tool, result, .. } = self.task(task).fresh()[place].content.clone() else {
                return None;
            };
            let content = output_content(&result.output.shown());
            let head = String::from_utf8_lossy(&content.0[..content.0.len().min(SUMMARY_BYTES)]).into_owned();
            let description = format!("Output of call {call} of {tool}");
            let version = self.keep(task, Some(&call), &tool, content, &head, description);
            Some(KeptResult { call, output: KeptOutput::new(&version) })
        });
        let kept = kept.collect();
        let (pointers, conflicts) = (std::mem::take(&mut allotment.pointers), std::mem::take(&mut allotment.conflicts));
        LeftOut { pointers, conflicts, kept, bundle }
    }

    /// Writes the results and records that share one document.
    fn bundle(&mut self, task: TaskIndex, bundled: &Bundled) -> Option<Box<Bundle>> {
        if bundled.results.is_empty() && bundled.documents.is_empty() {
            return None;
        }
        let fresh = self.task(task).fresh();
        let results = bundled.results.iter().filter_map(|place| match &fresh[*place].content {
            FreshContent::Result { call, tool, result, .. } => Some((call.clone(), tool, result)),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        let versions = bundled.documents.iter().filter_map(|reference| self.run.shared.documents.version(reference));
        let content = json!({
            "results": results.iter().map(|(call, tool, result)| json!({
                "call": call, "tool": tool, "status": result.status, "output": result.output.shown(),
                "error": result.error.as_ref().map(CallError::to_value),
            })).collect::<Vec<_>>(),
            "documents": versions.map(|version| json!({
                "path": version.path, "version": version.version, "media_type": version.content.mime_type,
                "size_bytes": version.content.size_bytes, "summary": version.content.summary,
            })).collect::<Vec<_>>(),
        });
        let calls: Vec<CallId> = results.into_iter().map(|(call, _, _)| call).collect();
        let summary = format!("the results of {} calls and the records of {} documents", calls.len(), bundled.documents.len());
        let content = output_content(&Json::from(content));
        let description = "Results and records for which a request had no room".to_owned();
        let version = self.keep(task, calls.first(), &ToolId::new(BUNDLE), content, &summary, description);
        let (documents, document) = (bundled.documents.iter().cloned().collect(), version.reference());
        Some(Box::new(Bundle { results: calls, documents, document }))
    }

    /// Writes `content` as a document for `task`, unless a document holds it already.
    fn keep(
        &mut self,
        task: TaskIndex,
        call: Option<&CallId>,
        tool: &ToolId,
        (content, mime_type, ending): (Content, &str, &'static str),
        summary: &str,
        description: String,
    ) -> Arc<DocumentVersion> {
        let hash = ContentHash::of(&content);
        let documents = &self.run.shared.documents;
        let mut paths = baton_types::path::kept_output_paths(tool, hash, ending);
        let path = paths.find(|path| {
            let same = documents.get(path).map(|document| document.current().content.hash == hash);
            same.unwrap_or_else(|| documents.twin(path).is_none())
        });
        let path = path.expect("a workspace does not hold every path");
        if let Some(document) = documents.get(&path) {
            return Arc::clone(document.current());
        }
        let content_facts = ContentFacts {
            hash,
            size_bytes: content.len() as u64,
            mime_type: mime_type.to_owned(),
            token_count: text_tokens(content.len() as u64),
            summary: bounded(&summary.split_whitespace().collect::<Vec<_>>().join(" ")),
        };
        let write = Write { path, content: content_facts, description: Some(description), tags: None };
        self.decision.contents.push((hash, content));
        let created_by = Principal::Agent(self.agent(task).id.clone());
        let by = call.map(|call| (self.id(task), call.clone()));
        self.write(write, Some(created_by), by)
    }
}

impl Task {
    /// Whether its conversation holds this version whole.
    fn holds(&self, reference: &DocumentRef) -> bool {
        self.work().documents.as_ref().is_some_and(|documents| documents.held.contains_key(reference))
    }

    /// Takes the new content into its conversation with `request`, except for what the request leaves out. Returns the tokens of
    /// the documents that its own request shows whole.
    pub(crate) fn take_fresh(&mut self, request: &ModelRequested) -> u64 {
        let pointers: BTreeSet<&DocumentRef> = request.pointers.iter().collect();
        let conflicts: BTreeSet<&DocumentRef> = request.conflicts.iter().collect();
        let bundled = request.bundle.as_deref().map_or(&[] as &[CallId], |bundle| &bundle.results);
        let mut shown = 0;
        let Some(documents) = self.work_mut().documents.as_mut() else { return shown };
        for Fresh { position, content } in std::mem::take(&mut documents.fresh) {
            let version = match &content {
                FreshContent::Document { version, .. } | FreshContent::Conflict(version) => version,
                FreshContent::Part { call, version } => {
                    if !request.kept.iter().map(|kept| &kept.call).chain(bundled).any(|left_out| left_out == call) {
                        documents.learn(version);
                    }
                    continue;
                }
                FreshContent::Result { .. } => continue,
            };
            let reference = version.reference();
            let left_out = if matches!(content, FreshContent::Conflict(_)) { &conflicts } else { &pointers };
            if left_out.contains(&reference) {
                let named = documents.named.entry(version.path.clone()).or_default();
                *named = version.version.max(*named);
                continue;
            }
            documents.learn(version);
            if matches!(content, FreshContent::Document { .. })
                && let btree_map::Entry::Vacant(held) = documents.held.entry(reference)
            {
                let is_inherited = request.turn <= 1 && position != OWN_REQUEST;
                held.insert(if is_inherited { Held::Inherited } else { Held::After(request.turn.saturating_sub(1)) });
                shown += if position == OWN_REQUEST { version.content.token_count } else { 0 };
            }
        }
        shown
    }
}
