//! Reads the previews of pending approvals: the tool's title, and the change of a document or the breadcrumb to approve.
//!
//! They come from the run's pinned configs and stored contents, so every command shows the same preview.

use std::sync::Arc;

use baton_breadcrumb::Author;
use baton_store::Store;
use baton_types::breadcrumb::Breadcrumb;
use baton_types::config::{Executor, Tool};
use baton_types::id::{BreadcrumbId, ProjectId, TaskId};
use serde_json::Value;

use crate::view::approval::{BreadcrumbPreview, Preview};
use crate::view::change::Change;
use crate::view::{Asked, RunView};
use crate::{export, terminal};

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
    let Some((changes, path)) = changed else {
        if is_breadcrumb_approval(tool) {
            match breadcrumb_preview(&input, store).await {
                Ok(breadcrumb) => preview.breadcrumb = Some(breadcrumb),
                Err(fault) => preview.fault = Some(fault),
            }
        }
        return Some(preview);
    };
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

fn is_breadcrumb_approval(tool: &Tool) -> bool {
    matches!(&tool.executor, Some(Executor::Function(function)) if function.id == "breadcrumb-approve")
}

/// Reads the version of a breadcrumb that a call would approve, or returns the reason why it would approve none.
async fn breadcrumb_preview(input: &Value, store: &Arc<dyn Store>) -> Result<BreadcrumbPreview, String> {
    let id = BreadcrumbId::new(input["breadcrumb_id"].as_str().unwrap_or_default());
    // A person reads the records of all projects.
    let person = Author::outside(terminal::person(), ProjectId::new("")).viewer;
    let found = store.breadcrumbs().find(&id, &person, terminal::now()).await.map_err(|error| error.to_string())?;
    let record = found.ok_or_else(|| format!("breadcrumb {id} does not exist, so nothing would be approved"))?;
    if input["version"] != record.version {
        return Err(format!(
            "approves nothing: the breadcrumb {id} has version {} now, and the call names {}",
            record.version, input["version"]
        ));
    }
    let Breadcrumb { id, version, title, schema_name, description, context, llm_hints, .. } = record;
    Ok(BreadcrumbPreview { id, version, title, schema_name, description, context, llm_hints })
}
