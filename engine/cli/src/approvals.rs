//! Reads the previews of pending approvals: the tool's title, and the change of a document.
//!
//! Both come from the run's pinned configs and stored contents, so every command shows the same preview.

use std::sync::Arc;

use baton_store::Store;
use baton_types::config::Configs;
use baton_types::id::TaskId;

use crate::app::engine::{engine, run_failure};
use crate::exit::Failure;
use crate::export;
use crate::runs::FoundRun;
use crate::view::RunView;
use crate::view::approval::Preview;
use crate::view::change::Change;

/// Reads the missing previews of open approval questions, using the run's pinned configs.
pub(crate) async fn look(view: &mut RunView, configs: &Configs, store: &Arc<dyn Store>) {
    for question in open(view) {
        if let Some(preview) = look_at(view, &question, configs, store).await {
            view.previews.insert(question, preview);
        }
    }
}

/// Reads the missing previews of a run that was found in a store.
pub(crate) async fn look_in_store(found: &FoundRun, view: &mut RunView) -> Result<(), Failure> {
    let questions = open(view);
    let Some(started) = view.started.as_ref().filter(|_| !questions.is_empty()) else { return Ok(()) };
    match engine(&found.store)?.pinned_configs(started).await.map_err(run_failure) {
        Ok(configs) => look(view, &configs, &found.store).await,
        // The person can still answer the question.
        Err(failure) => {
            let fault = format!("its config cannot be read: {failure}");
            let preview = Preview { fault: Some(fault), ..Preview::default() };
            view.previews.extend(questions.into_iter().map(|question| (question, preview.clone())));
        }
    }
    Ok(())
}

/// Returns the open questions that ask for an approval.
fn open(view: &RunView) -> Vec<TaskId> {
    let open = view.questions.iter().filter(|question| question.closed.is_none());
    open.filter(|question| view.to_approve(&question.task).is_some()).map(|question| question.task.clone()).collect()
}

/// Reads the preview of the call that `task` asks about; `None` if the known preview is up to date.
async fn look_at(view: &RunView, task: &TaskId, configs: &Configs, store: &Arc<dyn Store>) -> Option<Preview> {
    let call = view.to_approve(task)?;
    let tool = configs.tools.get(call.tool.as_str())?;
    let input = call.input.value();
    let changed = tool.changes.as_ref().and_then(|changes| Some((changes, Change::document(changes, &input)?)));
    let current = changed.as_ref().and_then(|(_, path)| view.documents.get(path)).map(|document| document.current());
    let base = current.map(|current| current.reference());
    if view.previews.get(task).is_some_and(|known| known.base == base) {
        return None;
    }
    let mut preview = Preview { title: tool.title.clone(), base, ..Preview::default() };
    let Some((changes, path)) = changed else { return Some(preview) };
    let before = match current {
        Some(current) => match export::content(store, current).await {
            Ok(content) => Some((current.as_ref(), content)),
            Err(failure) => {
                preview.fault = Some(format!("changes {path}, whose present version cannot be read: {failure}"));
                return Some(preview);
            }
        },
        None => None,
    };
    let asked = view.questions.iter().find(|question| question.task == *task);
    let asked = asked.and_then(|question| question.documents.get(&path)).map(|document| document.current().version);
    let before = before.as_ref().map(|(version, content)| (*version, &**content));
    preview.change = Change::of(tool, changes, &input, path, before).map(|change| change.since(asked));
    Some(preview)
}
