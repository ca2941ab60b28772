//! Tags: routing, pointers and state of a record in one list.

use std::collections::BTreeSet;

use baton_types::breadcrumb::{BreadcrumbChange, Verdict};

use crate::BreadcrumbError;
use crate::access::Author;

/// Tags that a judgement sets and removes.
const APPROVED: [&str; 2] = ["approved", "validated"];
const REJECTED: &str = "rejected";
const UNJUDGED: [&str; 2] = ["draft", "pending"];

/// Beginnings of tags that route a record: the engine alone sets them for agents.
const ROUTES: [&str; 3] = ["consumer:", "session:", "request:"];
/// Tags of the records of a tool's execution.
const EXECUTION: [&str; 3] = ["tool:request", "tool:response", "tool:catalog"];

/// Returns `tags` as records have them: sorted, each once.
pub(crate) fn normalized(tags: impl IntoIterator<Item = String>) -> Vec<String> {
    tags.into_iter().collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns the tags of a new record, or the tag that its author may not set.
pub(crate) fn of_new(tags: &[String], by: &Author) -> Result<Vec<String>, BreadcrumbError> {
    tags.iter().try_for_each(|tag| check_new(tag, by))?;
    Ok(normalized(tags.iter().cloned()))
}

/// Refuses a tag that `by` may not set.
fn check_new(tag: &str, by: &Author) -> Result<(), BreadcrumbError> {
    if by.viewer.is_model() && !by.may_route {
        return check_for_model(tag, by);
    }
    if is_verdict(tag) {
        let reason =
            format!("the tag {tag:?} comes with a verdict, which the history keeps: use `breadcrumb approve` or `reject`");
        return Err(BreadcrumbError::NotAllowed(reason));
    }
    Ok(())
}

/// Returns the tags after a change without a judgement. What no agent may set, no agent may remove. A change by an agent takes
/// the approval away: it was for other content.
pub(crate) fn after(before: &[String], change: &BreadcrumbChange, by: &Author) -> Result<Vec<String>, BreadcrumbError> {
    let mut tags: BTreeSet<String> = change.tags.as_deref().unwrap_or(before).iter().cloned().collect();
    tags.extend(change.add_tags.iter().cloned());
    tags.retain(|tag| !change.remove_tags.contains(tag));
    tags.iter().filter(|tag| !before.contains(tag)).try_for_each(|tag| check_new(tag, by))?;
    if by.viewer.is_model() {
        tags.extend(before.iter().filter(|tag| check_for_model(tag, by).is_err()).cloned());
        tags.retain(|tag| !is_approval(tag));
    }
    Ok(normalized(tags))
}

/// Returns the tags after a judgement.
pub(crate) fn judged(before: &[String], verdict: &Verdict) -> Vec<String> {
    let mut tags: BTreeSet<String> = before.iter().filter(|tag| !is_one_of(tag, &UNJUDGED[..1])).cloned().collect();
    if verdict.approved {
        tags.retain(|tag| !is_one_of(tag, &UNJUDGED) && !is_one_of(tag, &[REJECTED]));
        tags.extend(APPROVED.map(str::to_owned));
    } else {
        tags.retain(|tag| !is_one_of(tag, &APPROVED));
        tags.insert(REJECTED.to_owned());
    }
    normalized(tags)
}

/// Whether only a verdict sets `tag`.
fn is_verdict(tag: &str) -> bool {
    is_approval(tag) || is_one_of(tag, &[REJECTED])
}

/// Whether `tag` marks an approved record.
pub(crate) fn is_approval(tag: &str) -> bool {
    is_one_of(tag, &APPROVED)
}

/// Whether a person approved the record with these tags.
pub(crate) fn are_approved(tags: &[String]) -> bool {
    tags.iter().any(|tag| tag == APPROVED[0])
}

/// Whether a person rejected the record with these tags.
pub(crate) fn are_rejected(tags: &[String]) -> bool {
    tags.iter().any(|tag| tag == REJECTED)
}

/// Refuses a tag that gives a record powers: to be approved, to wake an agent, or to pass for a tool's answer.
fn check_for_model(tag: &str, by: &Author) -> Result<(), BreadcrumbError> {
    let lower = tag.to_lowercase();
    let refused =
        |why: &str| Err(BreadcrumbError::NotAllowed(format!("the tag {tag:?} cannot be set or removed by an agent: {why}")));
    if is_verdict(&lower) {
        return refused("a person approves or rejects a record");
    }
    if ROUTES.iter().any(|route| lower.starts_with(route)) {
        return refused("it routes the record to an agent, a session or a request");
    }
    if EXECUTION.contains(&lower.as_str()) {
        return refused("it marks the records of a tool's execution");
    }
    match lower.strip_prefix("tool:") {
        Some(tool) if by.tools.iter().any(|id| id.as_str().eq_ignore_ascii_case(tool)) => refused("a tool of that name exists"),
        _ => Ok(()),
    }
}

fn is_one_of(tag: &str, names: &[&str]) -> bool {
    names.iter().any(|name| tag.eq_ignore_ascii_case(name))
}
