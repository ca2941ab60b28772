//! `baton doc`: lists, prints, compares and exports the documents of a run.

mod history;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use baton_types::document::{Document, DocumentVersion, Documents};
use baton_types::path::DocumentPath;
use clap::{Args, Subcommand, ValueHint};
use serde_json::json;
use similar::{ChangeTag, TextDiff};

use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::export::{self, Plan, Target};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::style;
use crate::terminal;
use crate::text::{Text, text};
use crate::view::RunView;

/// Arguments of `doc`.
#[derive(Debug, Args)]
pub(crate) struct DocArgs {
    #[command(subcommand)]
    verb: DocVerb,
}

/// The verbs of `doc`.
#[derive(Debug, Subcommand)]
enum DocVerb {
    /// List the documents of a run
    Ls {
        /// The run: its id, the beginning of its id, or @last
        #[arg(default_value = "@last", add = complete::runs())]
        run: String,
        /// List all versions, not only the newest
        #[arg(long)]
        versions: bool,
    },
    /// Print a document
    Cat {
        /// The run: its id, the beginning of its id, or @last
        #[arg(add = complete::runs())]
        run: String,
        /// The document, such as report.md. `report.md@2` is its second version
        path: String,
        /// Print the blocks with their types and fields. A PDF has pages, and an XLSX has sheets
        #[arg(long)]
        blocks: bool,
    },
    /// List the versions of a document: who wrote and read each, when, and with which call
    Log {
        /// The document, such as report.md
        path: String,
        /// The run: its id, the beginning of its id, or @last
        #[arg(default_value = "@last", add = complete::runs())]
        run: String,
    },
    /// Show the changes between two versions of a document
    Diff {
        /// The run: its id, the beginning of its id, or @last
        #[arg(add = complete::runs())]
        run: String,
        /// The document, such as report.md
        path: String,
        /// Number of the older version [default: the one before --to]
        #[arg(long, value_name = "VERSION")]
        from: Option<u32>,
        /// Number of the newer version [default: the newest]
        #[arg(long, value_name = "VERSION")]
        to: Option<u32>,
    },
    /// Write documents into a new or empty folder
    ///
    /// A name that is not a valid file name on every system is changed. A hidden name is made visible. `--dry-run` shows these changes.
    Export {
        /// The run: its id, the beginning of its id, or @last
        #[arg(add = complete::runs())]
        run: String,
        /// The documents, such as report.md [default: all]. `report.md@2` is the second version
        paths: Vec<String>,
        /// New or empty folder [default: a folder named after the run]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
        /// Replace files in a folder that is not empty
        #[arg(long)]
        force: bool,
        /// Print the plan and write nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Executes the verb of `doc`.
pub(crate) async fn run(args: &DocArgs, place: &Place) -> Result<Exit, Failure> {
    let (DocVerb::Ls { run, .. }
    | DocVerb::Cat { run, .. }
    | DocVerb::Log { run, .. }
    | DocVerb::Diff { run, .. }
    | DocVerb::Export { run, .. }) = &args.verb;
    let found = runs::find_to_read(place, run).await?;
    let documents = found.documents().await?;
    match &args.verb {
        DocVerb::Ls { versions, .. } => list(&documents, *versions, place)?,
        DocVerb::Cat { path, blocks: false, .. } => cat(&found, version(&documents, path)?, place).await?,
        DocVerb::Cat { path, .. } => cat_blocks(&found, version(&documents, path)?, place).await?,
        DocVerb::Log { path, .. } => history::print(&found, document(&documents, path)?, place).await?,
        DocVerb::Diff { path, from, to, .. } => diff(&found, &documents, path, *from, *to, place).await?,
        DocVerb::Export { paths, out, force, dry_run, .. } => {
            let chosen: Vec<&DocumentVersion> = if paths.is_empty() {
                documents.iter().map(|(_, document)| document.current().as_ref()).collect()
            } else {
                paths.iter().map(|path| version(&documents, path)).collect::<Result<_, _>>()?
            };
            let folder = out.clone().unwrap_or_else(|| PathBuf::from(found.record.id.to_string()));
            let target = Target::checked(place.current.join(folder), *force, place)?;
            export(&found, &Plan::new(&chosen, &target), *dry_run, place).await?;
        }
    }
    Ok(Exit::Done)
}

fn list(documents: &Documents, versions: bool, place: &Place) -> Result<(), Failure> {
    let shown = |document: &Arc<Document>| if versions { 0 } else { document.versions().len() - 1 };
    let listed = documents
        .iter()
        .flat_map(|(_, document)| document.versions().skip(shown(document)).map(move |version| (&**document, &**version)));
    if !place.screen.is_text() {
        let reports: Vec<_> = listed.map(|(document, version)| RunView::document_report(document, version)).collect();
        return place.screen.json_list(&reports);
    }
    let all: Vec<&DocumentVersion> = listed.map(|(_, version)| version).collect();
    if all.is_empty() {
        place.screen.tell(&text!("no documents"));
    }
    RunView::document_table(&all, terminal::width()).iter().try_for_each(|line| place.screen.text(line))
}

async fn cat(found: &FoundRun, version: &DocumentVersion, place: &Place) -> Result<(), Failure> {
    let content = export::content(&found.store, version).await?;
    let text = std::str::from_utf8(&content).ok();
    if !place.screen.is_text() {
        return place.screen.json(&json!({
            "path": version.path, "version": version.version, "task": version.task, "created_by": version.created_by,
            "text": text,
        }));
    }
    if text.is_none() && std::io::stdout().is_terminal() {
        let what = &version.content.mime_type;
        return Err(Failure::Usage(format!(
            "{} is {what}, not text; send it to a file, or: baton doc export",
            version.reference()
        )));
    }
    place.screen.content(&content)
}

/// Prints the blocks of a version: in JSON an object with a block for each number, as agents count blocks.
async fn cat_blocks(found: &FoundRun, version: &DocumentVersion, place: &Place) -> Result<(), Failure> {
    let content = export::content(&found.store, version).await?;
    let blocks = baton_tools::content_blocks(&content, &version.content.mime_type)
        .map_err(|reason| Failure::Usage(format!("{} has no blocks: {reason}", version.reference())))?;
    if !place.screen.is_text() {
        let numbered = blocks.iter().enumerate().map(|(number, block)| (number.to_string(), json!(block)));
        return place.screen.json(&json!({
            "path": version.path, "version": version.version, "mime_type": version.content.mime_type,
            "blocks": numbered.collect::<serde_json::Map<_, _>>(),
        }));
    }
    if blocks.is_empty() {
        place.screen.tell(&text!("no blocks"));
    }
    for (number, block) in blocks.iter().enumerate() {
        place.screen.text(&text!("{} {}", style::name(number), style::faint(block.r#type)))?;
        for (field, value) in &block.data {
            let value = value.as_str().map_or_else(|| Text::json(value), Text::block);
            let indented = value.as_str().trim_end_matches('\n').replace('\n', "\n    ");
            place.screen.text(&text!("  {}: {}", field, Text::block(&indented)))?;
        }
    }
    Ok(())
}

async fn diff(
    found: &FoundRun,
    documents: &Documents,
    path: &str,
    from: Option<u32>,
    to: Option<u32>,
    place: &Place,
) -> Result<(), Failure> {
    let document = document(documents, path)?;
    let pick = |number: u32| numbered(document, path, number);
    let newer = pick(to.unwrap_or(document.current().version))?;
    let older = match from {
        Some(number) => pick(number)?,
        None if newer.version > 1 => pick(newer.version - 1)?,
        None => return Err(Failure::Usage(format!("{path} has only one version"))),
    };
    let (before, after) = (text_of(found, older).await?, text_of(found, newer).await?);
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let names = [older, newer].map(|version| format!("{} ({})", version.reference(), RunView::author(version)));
    let unified = diff.unified_diff().context_radius(3).header(&names[0], &names[1]).to_string();
    if !place.screen.is_text() {
        return place.screen.json(&json!({"path": path, "from": older.version, "to": newer.version, "diff": unified}));
    }
    if unified.is_empty() {
        place.screen.tell(&text!("no difference"));
        return Ok(());
    }
    place.screen.text(&style::bad(format!("--- {}", names[0])))?;
    place.screen.text(&style::good(format!("+++ {}", names[1])))?;
    for group in diff.grouped_ops(3) {
        place.screen.text(&style::faint("…"))?;
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let line = Text::block(change.value().trim_end_matches('\n'));
            place.screen.text(&match change.tag() {
                ChangeTag::Delete => style::bad(text!("-{}", line)),
                ChangeTag::Insert => style::good(text!("+{}", line)),
                ChangeTag::Equal => text!(" {}", line),
            })?;
        }
    }
    Ok(())
}

async fn export(found: &FoundRun, plan: &Plan<'_>, is_dry_run: bool, place: &Place) -> Result<(), Failure> {
    if is_dry_run {
        return if place.screen.is_text() {
            plan.lines(place).iter().try_for_each(|line| place.screen.text(&text!("{line}")))
        } else {
            place.screen.json_list(&plan.report(place))
        };
    }
    place.screen.tell(&text!("{}", plan.headline(place)));
    plan.notices(place).iter().for_each(|line| place.screen.tell(&text!("  {line}")));
    let exported = plan.carry_out(&found.store).await?;
    let shown: Vec<String> = exported.written.iter().map(|path| place.shown(path)).collect();
    if place.screen.is_text() {
        shown.iter().try_for_each(|path| place.screen.text(&text!("{path}")))?;
    } else {
        place.screen.json_list(&shown.iter().map(|file| json!({"file": file})).collect::<Vec<_>>())?;
    }
    exported.files().map(drop)
}

async fn text_of(found: &FoundRun, version: &DocumentVersion) -> Result<String, Failure> {
    let content = export::content(&found.store, version).await?;
    String::from_utf8(content.to_vec())
        .map_err(|_| Failure::Usage(format!("{} is {}, not text", version.reference(), version.content.mime_type)))
}

/// Returns the document at `path`.
fn document<'a>(documents: &'a Documents, path: &str) -> Result<&'a Arc<Document>, Failure> {
    let known = || documents.iter().map(|(known, _)| known.to_string());
    let parsed = DocumentPath::parse(path).map_err(|error| Failure::Usage(error.to_string()))?;
    documents.get(&parsed).ok_or_else(|| Failure::not_found("document", path, known()))
}

/// Returns the version that `PATH` or `PATH@VERSION` names. A name that ends like a version is one, since no document's path
/// ends so.
fn version<'a>(documents: &'a Documents, name: &str) -> Result<&'a DocumentVersion, Failure> {
    let split = name.rsplit_once('@').and_then(|(path, number)| Some((path, number.trim_start_matches('v').parse().ok()?)));
    match split {
        Some((path, number)) => numbered(document(documents, path)?, path, number),
        None => Ok(document(documents, name)?.current()),
    }
}

fn numbered<'a>(document: &'a Arc<Document>, path: &str, number: u32) -> Result<&'a DocumentVersion, Failure> {
    let known = || document.versions().map(|version| version.version.to_string());
    document
        .version(number)
        .map(AsRef::as_ref)
        .ok_or_else(|| Failure::not_found("version", format!("{number} of {path}"), known()))
}
