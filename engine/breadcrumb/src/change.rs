//! Creation and change of a record.

use std::fmt::Write as _;

use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, NewBreadcrumb, Sensitivity, TtlSource, TtlType};
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::access::{Author, may_write};
use crate::agent::AgentDefinition;
use crate::definition::Definition;
use crate::schedule::{SCHEDULE_SCHEMA, Schedule};
use crate::ttl::Wanted;
use crate::{BreadcrumbError, bounds, tags, words};

/// Returns the first version of a record. `definition` is that of its schema, if there is one.
pub fn created(
    id: BreadcrumbId,
    new: &NewBreadcrumb,
    by: &Author,
    definition: Option<&Definition>,
    now: Timestamp,
) -> Result<Breadcrumb, BreadcrumbError> {
    let author = &by.viewer.principal;
    let mut record = Breadcrumb {
        id,
        owner: author.clone(),
        project: by.viewer.project.clone(),
        title: new.title.clone(),
        schema_name: new.schema_name.clone(),
        context: new.context.clone(),
        tags: tags::of_new(&new.tags, by)?,
        description: new.description.clone(),
        semantic_version: new.semantic_version.clone(),
        llm_hints: new.llm_hints.clone(),
        visibility: new.visibility,
        sensitivity: new.sensitivity,
        ttl: None,
        ttl_type: TtlType::Never,
        ttl_config: None,
        ttl_source: None,
        version: 1,
        checksum: String::new(),
        size_bytes: 0,
        read_count: 0,
        created_at: now,
        created_by: author.clone(),
        updated_at: now,
        updated_by: author.clone(),
        entity_keywords: Vec::new(),
    };
    if by.viewer.is_model() && record.sensitivity == Sensitivity::Secret {
        let reason = "an agent cannot create a secret record: its content comes from a model";
        return Err(BreadcrumbError::NotAllowed(reason.to_owned()));
    }
    let wanted = Wanted { at: new.ttl, kind: new.ttl_type, config: new.ttl_config };
    match definition.and_then(|definition| definition.end_of(&record.tags)) {
        Some((end, source)) if wanted.is_none() => end.set(&mut record, source, now)?,
        _ => {
            check_other_end(&wanted, definition)?;
            wanted.set(&mut record, TtlSource::Explicit, now)?;
        }
    }
    finished(record, definition)
}

/// Returns the version of `current` after `change`. `definition` is that of its schema, if there is one.
pub fn changed(
    current: &Breadcrumb,
    change: &BreadcrumbChange,
    by: &Author,
    definition: Option<&Definition>,
    now: Timestamp,
) -> Result<Breadcrumb, BreadcrumbError> {
    if !may_write(&by.viewer, current) {
        let reason = format!("the breadcrumb {} belongs to another project and cannot be changed from here", current.id);
        return Err(BreadcrumbError::NotAllowed(reason));
    }
    let mut record = current.clone();
    record.version += 1;
    record.updated_at = now.max(current.updated_at);
    record.updated_by = by.viewer.principal.clone();
    if let Some(verdict) = &change.verdict {
        if !by.may_judge {
            let reason = "an agent cannot approve or reject a record; a person does, by answering the approval of the call";
            return Err(BreadcrumbError::NotAllowed(reason.to_owned()));
        }
        if (BreadcrumbChange { verdict: None, ..change.clone() }) != BreadcrumbChange::default() {
            return Err(BreadcrumbError::invalid("verdict", "a judgement changes nothing else; make two changes"));
        }
        record.tags = tags::judged(&current.tags, verdict);
        return finished(record, None);
    }
    if *change == BreadcrumbChange::default() {
        return Err(BreadcrumbError::invalid("updates", "nothing is to be changed; name context, tags, title or another field"));
    }
    record.tags = tags::after(&current.tags, change, by)?;
    set_fields(&mut record, change)?;
    check_powers(current, &record, by)?;
    let wanted = Wanted { at: change.ttl, kind: change.ttl_type, config: change.ttl_config };
    if !wanted.is_none() {
        check_other_end(&wanted, definition)?;
        wanted.set(&mut record, TtlSource::Manual, now)?;
    }
    finished(record, definition)
}

/// Checks a record that is a schedule: that it can be read, and that its ticks can be written.
fn check_schedule(record: &Breadcrumb) -> Result<(), BreadcrumbError> {
    if record.schema_name.as_deref() != Some(SCHEDULE_SCHEMA) {
        return Ok(());
    }
    let tick = Schedule::read(record)?.tick(record, record.updated_at, record.updated_at);
    let by = Author::outside(Principal::Engine, record.project.clone());
    let written = created(record.id.clone(), &tick, &by, None, record.updated_at);
    written.map(drop).map_err(|error| BreadcrumbError::invalid("context", format!("its ticks cannot be written: {error}")))
}

/// Refuses an end of a writer where the schema allows none but its own.
fn check_other_end(wanted: &Wanted, definition: Option<&Definition>) -> Result<(), BreadcrumbError> {
    if wanted.is_none() || definition.is_none_or(Definition::allows_other_ends) {
        return Ok(());
    }
    let reason =
        "the definition of the schema sets the end of its records and allows no other; leave ttl, ttl_type and ttl_config out";
    Err(BreadcrumbError::invalid("ttl", reason))
}

/// Sets the fields that the change names, besides tags and end.
fn set_fields(record: &mut Breadcrumb, change: &BreadcrumbChange) -> Result<(), BreadcrumbError> {
    let BreadcrumbChange { title, context, merge, description, semantic_version, llm_hints, visibility, sensitivity, .. } =
        change;
    if context.is_some() && merge.is_some() {
        return Err(BreadcrumbError::invalid("context", "a change replaces the context or merges into it, not both"));
    }
    if let Some(merge) = merge {
        // Before it becomes a tree.
        bounds::check_json("context", merge, bounds::MAX_CONTEXT_BYTES)?;
        if !merge.text().trim_start().starts_with('{') {
            return Err(BreadcrumbError::invalid("context", "expected an object to merge into the context"));
        }
        record.context = merged(record.context.value(), merge.value()).into();
    }
    if let Some(title) = title {
        record.title.clone_from(title);
    }
    if let Some(context) = context {
        record.context = context.clone();
    }
    // An empty text, and null, remove a field.
    if let Some(description) = description {
        record.description = Some(description.clone()).filter(|text| !text.is_empty());
    }
    if let Some(version) = semantic_version {
        record.semantic_version = Some(version.clone()).filter(|text| !text.is_empty());
    }
    if let Some(hints) = llm_hints {
        record.llm_hints = Some(hints.clone()).filter(|hints| !hints.is_null());
    }
    record.visibility = visibility.unwrap_or(record.visibility);
    record.sensitivity = sensitivity.unwrap_or(record.sensitivity);
    Ok(())
}

/// Refuses changes by which an agent would give a record more readers than it has.
fn check_powers(before: &Breadcrumb, after: &Breadcrumb, by: &Author) -> Result<(), BreadcrumbError> {
    if !by.viewer.is_model() {
        return Ok(());
    }
    let rank = |record: &Breadcrumb| match record.sensitivity {
        Sensitivity::Low => 0,
        Sensitivity::Pii => 1,
        Sensitivity::Secret => 2,
    };
    if rank(after) < rank(before) {
        return Err(BreadcrumbError::NotAllowed("an agent cannot lower the sensitivity of a record; a person can".to_owned()));
    }
    if after.visibility != before.visibility && before.owner != by.viewer.principal {
        return Err(BreadcrumbError::NotAllowed("only the owner of a record, or a person, can change its visibility".to_owned()));
    }
    Ok(())
}

/// Merges objects at every depth; anything else of `new` replaces what was there.
// Recursion is bounded: both sides have a bounded depth.
fn merged(old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Object(mut old), Value::Object(new)) => {
            for (name, value) in new {
                let before = old.remove(&name).unwrap_or(Value::Null);
                old.insert(name, merged(before, value));
            }
            Value::Object(old)
        }
        (_, new) => new,
    }
}

/// Checks all bounds and the schema, and sets what follows from the context.
fn finished(mut record: Breadcrumb, definition: Option<&Definition>) -> Result<Breadcrumb, BreadcrumbError> {
    bounds::check(&record)?;
    let context = record.context.value();
    if let (Some(definition), Some(schema)) = (definition, &record.schema_name) {
        let faults = definition.faults_of(&context);
        if !faults.is_empty() {
            return Err(BreadcrumbError::Schema { schema: schema.clone(), faults });
        }
    }
    Definition::check(&record)?;
    AgentDefinition::check(&record)?;
    check_schedule(&record)?;
    record.checksum = checksum(&record.context);
    record.size_bytes = record.context.text().len() as u64;
    record.entity_keywords = words::keywords(&record, &context);
    Ok(record)
}

fn checksum(context: &Json) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(context.text().as_bytes()) {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
