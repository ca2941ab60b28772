//! Documents of a type that a task's models do not take: they are records, and no base for a write.

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::document::{DocumentRef, Write};
use baton_types::entry::{Entry, ModelRequested};
use baton_types::message::Part;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::document_path;
use crate::support::{Sim, agent, call, function, handoff, job, turn, write, writes};

fn document(path: &str, mime_type: &str) -> Write {
    let mut document = write(path, "bytes");
    mime_type.clone_into(&mut document.content.mime_type);
    document
}

/// Runs an agent of `draft` that writes over the document `a` of this type. Returns the records of its first request, whether
/// the request shows the document, and the error of the write.
fn overwrites(draft: &JobDraft, mime_type: &str) -> (Vec<DocumentRef>, bool, Option<ErrorCode>) {
    let sim = Sim::new(draft)
        .agent_with("root", |prompted| {
            let parts = || prompted.request.messages.iter().flat_map(|message| &message.parts);
            let is_shown = parts().any(|part| matches!(part, Part::Document(_)));
            Ok(turn([if prompted.turn == 1 { call("save", &is_shown.to_string()) } else { handoff("done") }]))
        })
        .tool("save", |_| writes(json!("saved"), vec![write("a", "new")]))
        .start_with(vec![document("a", mime_type)]);
    sim.assert_over();
    let mut requests = sim.entries().filter_map(|entry| match entry {
        Entry::ModelRequested(ModelRequested { pointers, .. }) => Some(pointers.clone()),
        _ => None,
    });
    let is_shown = sim.entries().any(|entry| match entry {
        Entry::ModelAnswered(answered) => answered.calls.iter().any(|call| call.input.text().contains("true")),
        _ => false,
    });
    let result = sim.result("0/1.1");
    assert_eq!(result.status == CallStatus::Success, result.error.is_none());
    (requests.next().unwrap(), is_shown, result.error.map(|error| error.code))
}

fn with_model(images: bool, files: bool) -> JobDraft {
    job([agent("root", "save").model("seeing")]).tool(function("save").writing()).takes("seeing", images, files)
}

#[test]
fn a_document_that_a_model_does_not_take_is_a_record_and_no_base_for_a_write() {
    let record = || vec![DocumentRef { path: document_path("a"), version: 1 }];
    let (read, unread) = (|| (Vec::new(), true, None), || (record(), false, Some(ErrorCode::Conflict)));
    for (mime_type, images, files) in [("application/pdf", false, true), ("image/png", true, false), ("image/webp", true, false)]
    {
        assert_eq!(overwrites(&with_model(images, files), mime_type), read(), "{mime_type}");
        assert_eq!(overwrites(&with_model(!images, !files), mime_type), unread(), "{mime_type}");
    }
    for mime_type in ["text/csv", "application/json", "image/svg+xml", "text/html; charset=utf-8"] {
        assert_eq!(overwrites(&with_model(false, false), mime_type), read(), "{mime_type} is text");
    }
    for mime_type in ["image/tiff", "application/zip", "audio/mpeg", "application/octet-stream"] {
        assert_eq!(overwrites(&with_model(true, true), mime_type), unread(), "no model takes {mime_type}");
    }
}

#[test]
fn a_document_is_shown_if_every_model_of_the_chain_takes_it() {
    for (second, is_shown) in [(true, true), (false, false)] {
        let draft = with_model(true, true).fallbacks("seeing", &["other"]).takes("other", true, second);
        assert_eq!(overwrites(&draft, "application/pdf").1, is_shown);
    }
}
