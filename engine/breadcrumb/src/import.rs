//! An import of a record from a file: what changes, and when it must not.

use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, NewBreadcrumb, TtlSource, TtlType};
use baton_types::json::Json;

use crate::{BreadcrumbError, tags};

/// Returns the change after which `current` is as its file describes it. `imported` is the version that the last import made.
///
/// Tags that the record got since stay. An approval was for the content before, so it does not.
///
/// Fails with [`BreadcrumbError::ImportConflict`] if others have changed the content since. With `replaces`, their changes are lost.
pub fn import(
    current: &Breadcrumb,
    imported: &Breadcrumb,
    file: &NewBreadcrumb,
    replaces: bool,
) -> Result<BreadcrumbChange, BreadcrumbError> {
    let mut change = difference(current, file);
    if change == BreadcrumbChange::default() {
        return Ok(change);
    }
    if !replaces && !has_same_content(current, imported) {
        return Err(BreadcrumbError::ImportConflict { imported: imported.version, found: current.version });
    }
    if (BreadcrumbChange { add_tags: Vec::new(), ..change.clone() }) != BreadcrumbChange::default() {
        change.remove_tags = current.tags.iter().filter(|tag| tags::is_approval(tag)).cloned().collect();
    }
    Ok(change)
}

fn difference(current: &Breadcrumb, file: &NewBreadcrumb) -> BreadcrumbChange {
    // An empty text, and null, remove a field.
    let text = |file: &Option<String>, current: &Option<String>| (file != current).then(|| file.clone().unwrap_or_default());
    let hints = || file.llm_hints.clone().unwrap_or_default();
    let mut change = BreadcrumbChange {
        title: (file.title != current.title).then(|| file.title.clone()),
        context: (file.context != current.context).then(|| file.context.clone()),
        add_tags: file.tags.iter().filter(|tag| !current.tags.contains(tag)).cloned().collect(),
        description: text(&file.description, &current.description),
        semantic_version: text(&file.semantic_version, &current.semantic_version),
        llm_hints: (file.llm_hints != current.llm_hints).then(hints),
        visibility: Some(file.visibility).filter(|visibility| *visibility != current.visibility),
        sensitivity: Some(file.sensitivity).filter(|sensitivity| *sensitivity != current.sensitivity),
        ..BreadcrumbChange::default()
    };
    let is_own_end = matches!(current.ttl_source, Some(TtlSource::Explicit | TtlSource::Manual));
    let has_time = file.ttl_config.is_some_and(|config| config.minutes.or(config.hours).or(config.days).is_some());
    let has_other_moment = !has_time && file.ttl.is_some_and(|ttl| current.ttl != Some(ttl));
    match (file.ttl, file.ttl_config) {
        // The end that a definition gives is not in the file.
        (None, None) if is_own_end && current.ttl_type != TtlType::Never => change.ttl_type = Some(TtlType::Never),
        (None, None) => {}
        (ttl, config) if config != current.ttl_config || has_other_moment => {
            (change.ttl, change.ttl_type, change.ttl_config) = (ttl, file.ttl_type, config);
        }
        _ => {}
    }
    change
}

/// Whether two versions differ in tags alone.
fn has_same_content(one: &Breadcrumb, other: &Breadcrumb) -> bool {
    let content = |record: &Breadcrumb| {
        let Breadcrumb { title, context, description, semantic_version, llm_hints, visibility, sensitivity, .. } = record.clone();
        let texts = (title, context, description, semantic_version, llm_hints.as_ref().map(Json::value));
        (texts, visibility, sensitivity, record.ttl, record.ttl_type, record.ttl_config)
    };
    one.version == other.version || content(one) == content(other)
}
