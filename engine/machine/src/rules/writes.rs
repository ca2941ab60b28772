//! Rule *writes*: a new version names the version that its writer knew. Rule *long outputs*: an output that is too long for an
//! agent's requests is kept as a document.
//!
//! A task knows a version that it wrote, or whose content a request of it has shown. A write over any other current version is
//! a conflict, and no write of that call takes effect. A call that fails writes nothing.

use baton_types::call::{CallOutput, KeptOutput};
use baton_types::entry::Conflict;
use baton_types::event::{Outcome, Produced};

use crate::draft::FinishDetails;
use crate::prelude::*;

/// Gives a call the result of its executor. Writes are committed with the result, all or none.
pub(crate) fn returned(draft: &mut Draft<'_>, id: &CallId, outcome: Outcome) {
    let Some(call) = draft.run.running_function(id) else {
        return draft.record_late(&id.task(), format!("a result for call {id}"));
    };
    draft.settle_asks(call.task, Some(id), Used::Reservation);
    finish(draft, call, outcome, None);
}

/// Gives `call` its result of `outcome`, which its executor returned, or which somebody delivered.
pub(super) fn finish(draft: &mut Draft<'_>, call: CallAt, outcome: Outcome, delivered_by: Option<Box<Principal>>) {
    let (tool, envelope, reads, printed) = (draft.tool(call), outcome.after, outcome.reads.clone(), outcome.printed.clone());
    let failed = |error| (CallResult::error(CallStatus::Failed, error), Vec::new());
    let (result, conflicts) = judge(draft, call, &tool, outcome).unwrap_or_else(failed);
    let documents = &draft.run.shared.documents;
    let exists = |read: &DocumentRef| result.status == CallStatus::Success && documents.version(read).is_some();
    let read = reads.into_iter().filter(exists).collect();
    let details = FinishDetails { conflicts, read, delivered_by, printed, result_of: None };
    draft.finish_as(call, result.into(), envelope, details);
    draft.then(Step::Advance(call.task));
}

/// Refuses to load a document for which the conversation can have no room.
fn check_loads(draft: &Draft<'_>, task: TaskIndex, loads: &[DocumentRef]) -> Result<(), CallError> {
    if loads.is_empty() {
        return Ok(());
    }
    let Some(room) = draft.run.largest_document(task) else { return Ok(()) };
    let versions = loads.iter().filter_map(|load| draft.run.shared.documents.version(load));
    let Some(large) = versions.map(|version| &**version).find(|version| version.content.token_count > room) else {
        return Ok(());
    };
    let (path, tokens) = (&large.path, large.content.token_count);
    let message = format!("{path} has about {tokens} tokens, and your conversation has room for {room}; read a part of it");
    let detail = json!({"path": path, "token_count": tokens, "room_tokens": room});
    Err(CallError::new(ErrorCode::LimitReached, message).with_detail(detail))
}

fn is_longer(output: &Json, most: Option<u64>) -> bool {
    most.is_some_and(|most| output.text().len() as u64 > most)
}

/// Turns the outcome of an executor into the call's result, and its writes into versions. An output that is too long for the
/// agent that receives it is written as a document.
fn judge(draft: &mut Draft<'_>, call: CallAt, tool: &Tool, outcome: Outcome) -> Result<(CallResult, Vec<Conflict>), CallError> {
    let Outcome { status, output, error, writes, loads, reads: _, after, printed: _ } = outcome;
    let mut result_bytes = draft.task(call.task).limits().result_bytes;
    let (output, kept) = match output {
        Produced::Inline(output) => (Some(output), None),
        // The calls of the code are made. Their results would be lost with its output.
        Produced::Long { output, document } if !tool.calls.is_empty() && is_longer(&output, result_bytes) => {
            result_bytes = None;
            (Some(output), Some(document))
        }
        Produced::Long { output, document } => {
            (Some(output), Some(document).filter(|_| draft.returns_to_agent(call, tool, after)))
        }
        Produced::Kept(document) => (None, Some(document)),
    };
    tool.check_output(result_bytes, status, output.as_ref())?;
    if status != CallStatus::Success {
        let output = CallOutput::Inline(output.unwrap_or_default());
        return Ok((CallResult { status, output, error, documents: Vec::new() }, Vec::new()));
    }
    if !writes.is_empty() && !tool.writes {
        let message = format!("{} cannot write documents: its config lacks \"writes\": true", tool.definition.shown_name());
        return Err(CallError::new(ErrorCode::ToolFailed, message));
    }
    check_loads(draft, call.task, &loads)?;
    let task = draft.task(call.task);
    let documents = &draft.run.shared.documents;
    let present = kept.as_ref().and_then(|kept| documents.get(&kept.path)).map(|document| Arc::clone(document.current()));
    let differs = |kept: &Write| present.as_ref().is_some_and(|present| present.content.hash != kept.content.hash);
    if let Some(kept) = &kept
        && (documents.twin(&kept.path).is_some() || differs(kept))
    {
        let message = format!("the output is too long to be shown, and the document {} already exists", kept.path);
        return Err(CallError::new(ErrorCode::LimitReached, message));
    }
    if let Some((path, twin)) = documents.twin_of(&writes) {
        let message =
            format!("path {path} could be mistaken for the document {twin}, or one of them would be a folder of the other");
        return Err(CallError::new(ErrorCode::InvalidInput, message));
    }
    let mut conflicts = Vec::new();
    for write in &writes {
        let (base, head) = (task.known(&write.path), documents.head(&write.path));
        if let Some(current) = head.filter(|_| base != head) {
            conflicts.push(Conflict { path: write.path.clone(), base, current });
        }
    }
    if let Some(conflict) = conflicts.first() {
        let known = conflict.base.map_or("you knew no version of it".to_owned(), |base| format!("you knew version {base}"));
        let message = format!(
            "{} is at version {} and {known}; nothing was written. Read the current version and write again",
            conflict.path, conflict.current
        );
        // The tool's output is left out, since it describes a write that did not happen.
        let error = CallError::new(ErrorCode::Conflict, message).with_detail(json!({"conflicts": conflicts}));
        return Ok((CallResult::error(CallStatus::Failed, error), conflicts));
    }
    let output = match kept {
        None => CallOutput::Inline(output.unwrap_or_default()),
        Some(kept) => {
            let version = present.unwrap_or_else(|| draft.write_for(kept, call));
            CallOutput::Kept(Box::new(KeptOutput::new(&version)))
        }
    };
    for write in writes {
        draft.write_for(write, call);
    }
    let documents = &draft.run.shared.documents;
    let documents = loads.into_iter().filter(|load| documents.version(load).is_some()).collect();
    Ok((CallResult { status, output, error: None, documents }, Vec::new()))
}
