//! Reads the previews of pending approvals: the tool's title, and the change of a document.
//!
//! Both come from the run's pinned configs and stored contents, so every command shows the same preview.

use std::sync::Arc;

use baton_store::Store;
use baton_types::id::TaskId;

use crate::export;
use crate::view::approval::Preview;
use crate::view::change::Change;
use crate::view::{Asked, RunView};

/// Reads the missing previews of open approval questions.
pub(crate) async fn look(view: &mut RunView, store: &Arc<dyn Store>) {
    let open: Vec<TaskId> = view.questions().filter(Asked::is_open).map(|asked| asked.task.id.clone()).collect();
    for question in open {
        if let Some(preview) = look_at(view, &question, store).await {
            view.previews.insert(question, preview);
        }
    }
}

/// Reads the preview of the call that `task` asks about; `None` if the known preview is up to date.
async fn look_at(view: &RunView, task: &TaskId, store: &Arc<dyn Store>) -> Option<Preview> {
    let call = view.to_approve(view.run.task(task)?)?;
    let tool = view.run.configs().tools.get(call.tool.as_str())?;
    let input = call.input.value();
    let changed = tool.changes.as_ref().and_then(|changes| Some((changes, Change::document(changes, &input)?)));
    let current = changed.as_ref().and_then(|(_, path)| view.run.documents().get(path)).map(|document| document.current());
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
                preview.fault = Some(format!("changes {path}, whose current version cannot be read: {failure}"));
                return Some(preview);
            }
        },
        None => None,
    };
    let asked = view.row(task).workspace.head(&path);
    let before = before.as_ref().map(|(version, content)| (*version, &**content));
    preview.change = Change::of(tool, changes, &input, path, before).map(|change| change.since(asked));
    Some(preview)
}
