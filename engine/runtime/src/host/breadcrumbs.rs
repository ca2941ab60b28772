//! Breadcrumbs of a running call: the rights of its agent, its idempotency key, and the view for models.

use std::collections::BTreeMap;

use baton_breadcrumb::{Author, BreadcrumbError, Definition, view};
use baton_store::{Breadcrumbs, Creation, StoreError, Update, Written};
use baton_tool::{BreadcrumbAsk, BreadcrumbReply, ToolError, ToolErrorKind};
use baton_types::breadcrumb::{Breadcrumb, FoundBreadcrumbs, Viewer};
use baton_types::config::Approver;
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::json;

use super::Host;
use super::embed::embedder;
use crate::{neighbours, schedules};

/// Does what a call asks for.
pub(super) async fn answer(host: &Host, ask: BreadcrumbAsk, may_read_pii: bool) -> Result<BreadcrumbReply, ToolError> {
    let breadcrumbs = host.shared.store.breadcrumbs();
    let author = author(host, may_read_pii);
    let key = Some(format!("call {}/{}", host.caller.run, host.caller.call));
    let at = host.shared.clock.now();
    let written = match ask {
        BreadcrumbAsk::Create(new) => {
            let id = BreadcrumbId::new(uuid::Uuid::now_v7().to_string());
            breadcrumbs.create(Creation { id, new, by: author.clone(), key, at }).await
        }
        BreadcrumbAsk::Change { id, change, expected } => {
            breadcrumbs.change(Update { id, change, expected, by: author.clone(), key, at }).await
        }
        BreadcrumbAsk::Search(query) => {
            let embedder = embedder(host);
            let found = neighbours::search(breadcrumbs, &query, &author.viewer, at, &embedder).await;
            let FoundBreadcrumbs { breadcrumbs: found, total, method, warning } = found.map_err(|error| refused(&error))?;
            let mut views = Views::default();
            let mut records = Vec::new();
            for record in found {
                // Another reader may have had the last read since.
                if let Some(record) = counted(breadcrumbs, record, &author.viewer, at).await? {
                    records.push(views.of(host, &record).await?);
                }
            }
            return Ok(BreadcrumbReply::Found { records, total, method, warning });
        }
        BreadcrumbAsk::PublishTicks => {
            let pass = schedules::publish_ticks(breadcrumbs, at, Some(host.project())).await.map_err(|error| refused(&error))?;
            let errors = pass.failed.into_iter().map(|(schedule, reason)| format!("{schedule}: {reason}")).collect();
            return Ok(BreadcrumbReply::Ticks { schedules: pass.schedules, published: pass.published.len(), errors });
        }
    };
    let Written { breadcrumb, repeated, .. } = written.map_err(|error| refused(&error))?;
    // The author of the first version knows its content. Every other answer shows what others wrote.
    let is_own = breadcrumb.version == 1 && !repeated;
    let breadcrumb = if is_own {
        breadcrumb
    } else {
        counted(breadcrumbs, breadcrumb.clone(), &author.viewer, at).await?.unwrap_or(breadcrumb)
    };
    let record = Views::default().of(host, &breadcrumb).await?;
    Ok(BreadcrumbReply::Written { id: breadcrumb.id, version: breadcrumb.version, record })
}

/// Counts a read of a record whose reads are limited. `None` if it has ended meanwhile.
async fn counted(
    breadcrumbs: &dyn Breadcrumbs,
    record: Breadcrumb,
    viewer: &Viewer,
    at: Timestamp,
) -> Result<Option<Breadcrumb>, ToolError> {
    if record.ttl_config.is_none_or(|config| config.max_reads.is_none()) {
        return Ok(Some(record));
    }
    breadcrumbs.read(&record.id, viewer, at).await.map_err(|error| refused(&error))
}

/// Returns the calling agent as the author of a write.
fn author(host: &Host, may_read_pii: bool) -> Author {
    let principal = Principal::Agent(host.caller.agent.clone());
    let approver = host.configs.agents.get(&host.caller.agent).and_then(|agent| agent.approver(&host.tool));
    let viewer = Viewer { principal, project: host.project().clone(), may_read_pii };
    Author {
        tools: host.configs.tools.keys().cloned().collect(),
        // A call of such a tool begins only after a person has approved it, with this input.
        may_judge: approver == Some(Approver::Person),
        run: Some(host.caller.run.clone()),
        ..Author::of(viewer)
    }
}

/// Views of records for models, with the definitions of their schemas.
#[derive(Default)]
struct Views(BTreeMap<String, Option<Definition>>);

impl Views {
    async fn of(&mut self, host: &Host, record: &Breadcrumb) -> Result<Json, ToolError> {
        let definition = match &record.schema_name {
            None => None,
            Some(schema) => {
                if !self.0.contains_key(schema) {
                    let now = host.shared.clock.now();
                    let found = host.shared.store.breadcrumbs().definition(schema, host.project(), now).await;
                    self.0.insert(schema.clone(), found.map_err(|error| refused(&error))?);
                }
                self.0.get(schema).and_then(Option::as_ref)
            }
        };
        let seen = view(record, definition);
        if let Some(warning) = seen.warning {
            tracing::warn!(breadcrumb = record.id.as_str(), "{warning}");
        }
        Ok(Json::from(seen.record))
    }
}

/// Returns the refusal of a store as the error of a call, with the fields that the seeds give a failed write.
fn refused(error: &StoreError) -> ToolError {
    let message = error.to_string();
    let detail = json!({"success": false, "error": message});
    let is_input = matches!(
        error,
        StoreError::Breadcrumb(BreadcrumbError::Invalid { .. } | BreadcrumbError::Schema { .. } | BreadcrumbError::NotAllowed(_))
    );
    let kind = if is_input { ToolErrorKind::InvalidInput } else { ToolErrorKind::Failed };
    ToolError::new(message).with_detail(detail).of_kind(kind)
}
