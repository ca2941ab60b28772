//! `breadcrumb show`, `search` and `history`.

use baton_breadcrumb::{context_for_models, view};
use baton_rcrt::{Filter, ToolCatalog};
use baton_runtime::search_breadcrumbs;
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbQuery, BreadcrumbVersion, FoundBreadcrumbs, Sensitivity};
use baton_types::json::Json;
use clap::Args;
use serde_json::{Value, json};

use super::{Desk, desk_with};
use crate::app::embedder;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::style;
use crate::terminal;
use crate::text::{Text, text};
use crate::{job, words};

/// The record that no store keeps: it is derived from the configs.
const CATALOG: &str = "tool.catalog.v1";

/// Arguments of `search`.
#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Words: the records nearest to their meaning are found if your models.json has embeddings, else those with at least one of them
    #[arg(value_name = "WORDS")]
    words: Option<String>,
    /// Only records of this schema
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<String>,
    /// Only records with this tag. May be repeated: a record must have all tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The most nearest neighbours by meaning, if your models.json has embeddings [default: 5]. 0 searches by words
    #[arg(long, value_name = "COUNT")]
    nn: Option<usize>,
    /// The most records, such as 100
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

/// Shows a record: as models read it, or every field.
pub(super) async fn show(name: &str, full: bool, place: &Place) -> Result<Exit, Failure> {
    if name == CATALOG {
        return show_catalog(full, place).await;
    }
    let (Desk { store, author }, id) = desk_with(name, place).await?;
    let (breadcrumbs, now) = (store.breadcrumbs(), terminal::now());
    let unknown = || Failure::not_found("breadcrumb", name, []);
    if full {
        let record = breadcrumbs.find(&id, &author.viewer, now).await.map_err(Failure::of_store)?.ok_or_else(unknown)?;
        place.screen.json(&record)?;
        return Ok(Exit::Done);
    }
    let known = breadcrumbs.find(&id, &author.viewer, now).await.map_err(Failure::of_store)?.ok_or_else(unknown)?;
    if known.sensitivity == Sensitivity::Secret {
        return Err(Failure::Refused("the breadcrumb is secret, so no model reads it; --full shows it to you".to_owned()));
    }
    let record = breadcrumbs.read(&id, &author.viewer, now).await.map_err(Failure::of_store)?.ok_or_else(unknown)?;
    let definition = match &record.schema_name {
        Some(schema) => breadcrumbs.definition(schema, &record.project, now).await.map_err(Failure::of_store)?,
        None => None,
    };
    let seen = view(&record, definition.as_ref());
    print_view(&seen.record, seen.warning, place)
}

/// Shows the catalog of tools as a record. The hints of a definition of its schema count; without one it has the compact form.
async fn show_catalog(full: bool, place: &Place) -> Result<Exit, Failure> {
    let tools = job::tools(place)?;
    let catalog =
        ToolCatalog::of(tools.values(), &Filter::default()).map_err(|missing| Failure::not_found("tool", missing.name, []))?;
    let mut record = catalog.record();
    if full {
        place.screen.value(&record)?;
        return Ok(Exit::Done);
    }
    let definition = match Desk::existing(place)? {
        Some(Desk { store, author }) => {
            let defined = store.breadcrumbs().definition(CATALOG, &author.viewer.project, terminal::now()).await;
            defined.map_err(Failure::of_store)?
        }
        None => None,
    };
    let hints = definition.as_ref().and_then(|definition| definition.hints());
    let (context, warning) = match hints {
        Some(_) => context_for_models(&Json::from(&record["context"]), hints),
        None => (json!({"formatted": catalog.compact("")}), None),
    };
    record["context"] = context;
    print_view(&record, warning, place)
}

/// Prints the view of a record for models. The context of a single text is printed as this text.
fn print_view(record: &Value, warning: Option<String>, place: &Place) -> Result<Exit, Failure> {
    if let Some(warning) = warning {
        place.screen.tell(&text!("{} {warning}", style::faint("warning:")));
    }
    if !place.screen.is_text() {
        place.screen.json(record)?;
        return Ok(Exit::Done);
    }
    let title = record["title"].as_str().unwrap_or_default();
    let names = ["schema_name", "id"].iter().filter_map(|name| record[*name].as_str()).map(|fact| text!("{fact}"));
    let version = record["version"].as_u64().map(|version| text!("version {version}"));
    let tags = record["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).map(|tag| text!("#{tag}"));
    let facts: Vec<Text> = names.chain(version).chain(tags).collect();
    place.screen.text(&text!("{}   {}", style::name(title), style::faint(Text::joined(facts, " · "))))?;
    let mut texts = record["context"].as_object().into_iter().flatten();
    match (texts.next(), texts.next()) {
        (Some((_, Value::String(only))), None) => place.screen.text(&Text::block(only))?,
        _ => place.screen.text(&Text::json(&record["context"]))?,
    }
    Ok(Exit::Done)
}

/// Lists the records that meet all conditions.
pub(super) async fn search(args: SearchArgs, place: &Place) -> Result<Exit, Failure> {
    let SearchArgs { words, schema, tags, nn, limit } = args;
    let query = BreadcrumbQuery { words, schema_name: schema, tags, neighbours: nn, limit };
    let found = match Desk::existing(place)? {
        Some(Desk { store, author }) => {
            let embedder = if query.words.is_some() && nn != Some(0) { embedder(place)? } else { Ok(None) };
            let found = search_breadcrumbs(store.breadcrumbs(), &query, &author.viewer, terminal::now(), &embedder).await;
            Some(found.map_err(Failure::of_store)?)
        }
        None => None,
    };
    let (breadcrumbs, total, method, warning) = match found {
        Some(FoundBreadcrumbs { breadcrumbs, total, method, warning }) => (breadcrumbs, total, Some(method), warning),
        None => (Vec::new(), 0, None, None),
    };
    if !place.screen.is_text() {
        let listed: Vec<Value> = breadcrumbs.iter().map(listed).collect();
        let mut found = json!({"breadcrumbs": listed, "total": total, "method": method});
        if let Some(warning) = warning {
            found["warning"] = json!(warning);
        }
        place.screen.json(&found)?;
        return Ok(Exit::Done);
    }
    if let Some(warning) = warning {
        place.screen.tell(&text!("{} {warning}", style::faint("warning:")));
    }
    let mut rows = vec![["ID", "VERSION", "UPDATED", "SCHEMA", "TITLE", "TAGS"].map(|title| text!("{title}")).to_vec()];
    rows.extend(breadcrumbs.iter().map(|record| {
        let updated = record.updated_at.to_string();
        vec![
            text!("{}", record.id),
            text!("{}", record.version),
            text!("{}", updated.get(..16).unwrap_or(&updated)),
            text!("{}", record.schema_name.as_deref().unwrap_or("-")),
            words::preview(&record.title, 60),
            words::preview(&record.tags.join(" "), 80),
        ]
    }));
    print_rows(rows, place)?;
    if total > breadcrumbs.len() as u64 {
        place.screen.tell(&style::faint(format!("{} of {total}; --limit shows more", breadcrumbs.len())));
    }
    Ok(Exit::Done)
}

/// Returns a record for lists.
fn listed(record: &Breadcrumb) -> Value {
    json!({
        "id": record.id, "title": record.title, "schema_name": record.schema_name, "tags": record.tags, "version": record.version,
        "visibility": record.visibility, "sensitivity": record.sensitivity, "owner": record.owner,
        "updated_at": record.updated_at.to_string(), "updated_by": record.updated_by,
    })
}

/// Lists the versions of a record.
pub(super) async fn history(name: &str, limit: usize, place: &Place) -> Result<Exit, Failure> {
    let (Desk { store, author }, id) = desk_with(name, place).await?;
    let versions = store.breadcrumbs().history(&id, &author.viewer, limit, terminal::now()).await.map_err(Failure::of_store)?;
    if !place.screen.is_text() {
        let listed: Vec<Value> = versions
            .iter()
            .map(|BreadcrumbVersion { breadcrumb, verdict, .. }| {
                let mut listed = listed(breadcrumb);
                listed["checksum"] = json!(breadcrumb.checksum);
                listed["verdict"] = json!(verdict);
                listed
            })
            .collect();
        place.screen.json_list(&listed)?;
        return Ok(Exit::Done);
    }
    let mut rows = vec![["VERSION", "UPDATED", "BY", "TITLE", "TAGS", "JUDGEMENT"].map(|title| text!("{title}")).to_vec()];
    rows.extend(versions.iter().map(|BreadcrumbVersion { breadcrumb, verdict, .. }| {
        let updated = breadcrumb.updated_at.to_string();
        let judgement = verdict.as_ref().map_or_else(String::new, |verdict| {
            let outcome = if verdict.approved { "approved" } else { "rejected" };
            verdict.reason.as_ref().map_or_else(|| outcome.to_owned(), |reason| format!("{outcome}: {reason}"))
        });
        vec![
            text!("{}", breadcrumb.version),
            text!("{}", updated.get(..19).unwrap_or(&updated)),
            text!("{}", breadcrumb.updated_by),
            words::preview(&breadcrumb.title, 60),
            words::preview(&breadcrumb.tags.join(" "), 60),
            words::preview(&judgement, 80),
        ]
    }));
    print_rows(rows, place)?;
    Ok(Exit::Done)
}

fn print_rows(rows: Vec<Vec<Text>>, place: &Place) -> Result<(), Failure> {
    let width = terminal::width();
    for (index, line) in words::columns(rows).iter().enumerate() {
        let line = line.cut(width);
        place.screen.text(&if index == 0 { style::faint(line) } else { line })?;
    }
    Ok(())
}
