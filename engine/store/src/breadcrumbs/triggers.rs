//! Triggers: written in the transaction of the version that has to be handled, so that none is lost and none is made twice.

use baton_breadcrumb::{
    AGENT_SCHEMA, AgentDefinition, Author, DEFAULT_TRIGGER_DEPTH, Handler, Trigger, TriggerState, is_new_request, session_of,
    starts,
};
use baton_types::breadcrumb::{Breadcrumb, TtlType};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::time::Timestamp;

use super::read::counting;
use super::row::damaged;
use super::rows::Rows;
use crate::{NextTrigger, StoreError};

/// Notes the triggers of a version that was just written; returns their number. `before` is the version before it.
pub(crate) async fn note(
    rows: &impl Rows,
    record: &Breadcrumb,
    before: Option<&Breadcrumb>,
    by: &Author,
) -> Result<u32, StoreError> {
    let mut handlers = Vec::new();
    if is_new_request(record, before) {
        handlers.push((Handler::ToolRequest, DEFAULT_TRIGGER_DEPTH));
    }
    for (definition, agent) in agents(rows, &record.project, record.updated_at).await? {
        // A faulty definition is reported by the program that starts its agent.
        if let Ok(agent) = AgentDefinition::read(&agent)
            && starts(&agent, record, before, by)
        {
            handlers.push((Handler::Agent(definition), agent.trigger_depth));
        }
    }
    if handlers.is_empty() {
        return Ok(0);
    }
    let cause = match &by.run {
        Some(run) => rows.trigger_of(run).await?,
        None => None,
    };
    let depth = cause.map_or(0, |cause| cause.depth) + 1;
    let noted = handlers.len() as u32;
    for (handler, most) in handlers {
        let refused =
            (depth > most).then(|| format!("it would be trigger {depth} of a chain, and limits.trigger_depth is {most}"));
        let trigger = Trigger {
            number: 0,
            project: record.project.clone(),
            handler,
            breadcrumb: record.id.clone(),
            version: record.version,
            session: session_of(record).map(str::to_owned),
            depth,
            cause: by.run.clone(),
            at: record.updated_at.as_micros(),
            record: (record.ttl_type != TtlType::Never).then(|| Box::new(record.clone())),
            refused,
            state: TriggerState::Waiting,
        };
        rows.add_trigger(trigger).await?;
    }
    Ok(noted)
}

/// Returns the agents of a project: of each record that is one, its id and the version that counts.
pub(crate) async fn agents(
    rows: &impl Rows,
    project: &ProjectId,
    now: Timestamp,
) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError> {
    let found = counting(rows, rows.of_schema(AGENT_SCHEMA, Some(project)).await?, now).await?;
    Ok(found.into_iter().map(|(row, record)| (row.id, record)).collect())
}

/// See [`crate::Breadcrumbs::next_triggers`].
pub(crate) async fn next(
    rows: &impl Rows,
    project: &ProjectId,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<NextTrigger>, StoreError> {
    let mut found = Vec::new();
    for trigger in rows.next_triggers(project, limit).await? {
        found.push(with_records(rows, trigger, now).await?);
    }
    Ok(found)
}

async fn with_records(rows: &impl Rows, trigger: Trigger, now: Timestamp) -> Result<NextTrigger, StoreError> {
    let record = match rows.find(&trigger.breadcrumb).await? {
        Some(row) if !row.is_over(now) => Some(rows.version(&row, trigger.version).await?.breadcrumb),
        _ => None,
    };
    let definition = match &trigger.handler {
        Handler::ToolRequest => None,
        Handler::Agent(definition) => {
            let found = rows.find(definition).await?.into_iter().collect();
            counting(rows, found, now).await?.pop().map(|(_, record)| record)
        }
    };
    let previous = match trigger.queue() {
        None => None,
        Some(queue) => rows.run_before(&queue, trigger.number).await?,
    };
    Ok(NextTrigger { trigger, record, definition, previous })
}

/// Lets `run`, which is about to begin, handle a trigger. Fails with [`StoreError::TriggerTaken`] if another run handles it, or it is
/// settled.
pub(crate) async fn start(rows: &impl Rows, number: u64, run: &RunId) -> Result<(), StoreError> {
    let mut trigger = rows.trigger_to_change(number).await?;
    if trigger.state != TriggerState::Waiting {
        return Err(StoreError::TriggerTaken(number));
    }
    trigger.state = TriggerState::Started { run: run.clone() };
    rows.save_trigger(&trigger).await
}

/// Returns the trigger that a stored text has.
pub(crate) fn read_trigger(number: i64, body: &str) -> Result<Trigger, StoreError> {
    let trigger = serde_json::from_str(body).map_err(|error| damaged(format!("trigger {number}: {error}")))?;
    Ok(Trigger { number: number as u64, ..trigger })
}

/// Returns the text of a trigger.
pub(crate) fn trigger_body(trigger: &Trigger) -> String {
    serde_json::to_string(trigger).expect("a trigger has only names and numbers")
}
