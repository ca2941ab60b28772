//! `baton breadcrumb`: creates, changes, shows, searches, judges and imports records that outlive runs.

mod import;
mod look;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use baton_breadcrumb::Author;
use baton_store::Store;
use baton_types::id::BreadcrumbId;
use clap::{Args, Subcommand, ValueHint};

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::{project, terminal};

/// Arguments of `breadcrumb`.
#[derive(Debug, Args)]
pub(crate) struct BreadcrumbArgs {
    #[command(subcommand)]
    verb: BreadcrumbVerb,
}

/// The verbs of `breadcrumb`.
#[derive(Debug, Subcommand)]
enum BreadcrumbVerb {
    /// Create a breadcrumb
    #[command(
        after_help = "Example:\n  baton breadcrumb create --title \"Prices of Q3\" --context '{\"beans\": 4.2}' --tag sales"
    )]
    Create(write::CreateArgs),
    /// Change a breadcrumb: each change is a new version
    #[command(after_help = "Example:\n  baton breadcrumb update 0198c --if-version 1 --merge '{\"beans\": 4.5}'")]
    Update(write::UpdateArgs),
    /// Show a breadcrumb as models read it
    #[command(after_help = "Example:\n  baton breadcrumb show 0198c --full")]
    Show {
        /// The breadcrumb: its id or the beginning of its id. `tool.catalog.v1` is the catalog of tools, derived from the configs
        id: String,
        /// Show every field of the record, and its context without the changes for models
        #[arg(long)]
        full: bool,
    },
    /// List the breadcrumbs that meet all conditions: the best fit first, or without words the newest
    #[command(
        after_help = "Examples:\n  baton breadcrumb search revenue --schema report.v1 --tag sales\n  baton breadcrumb search \"what customers complain about\" --nn 10"
    )]
    Search(look::SearchArgs),
    /// List the versions of a breadcrumb, newest first
    #[command(after_help = "Example:\n  baton breadcrumb history 0198c")]
    History {
        /// The breadcrumb: its id or the beginning of its id
        id: String,
        /// The most versions, such as 100
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        limit: usize,
    },
    /// Approve a breadcrumb: adds the tags approved and validated
    #[command(after_help = "Example:\n  baton breadcrumb approve 0198c --reason \"checked the figures\"")]
    Approve(write::VerdictArgs),
    /// Reject a breadcrumb: adds the tag rejected
    #[command(after_help = "Example:\n  baton breadcrumb reject 0198c --reason \"wrong quarter\"")]
    Reject(write::VerdictArgs),
    /// Create or update the breadcrumbs that the JSON files of a folder contain
    #[command(after_help = "Example:\n  baton breadcrumb import bootstrap-breadcrumbs")]
    Import {
        /// The folder. Each of its JSON files, at any depth, has one record
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
        /// Replace records that were changed since the last import, where their file has changed too
        #[arg(long)]
        replace: bool,
    },
}

/// Executes the verb.
pub(crate) async fn run(args: BreadcrumbArgs, place: &Place) -> Result<Exit, Failure> {
    match args.verb {
        BreadcrumbVerb::Create(args) => write::create(args, place).await,
        BreadcrumbVerb::Update(args) => write::update(args, place).await,
        BreadcrumbVerb::Show { id, full } => look::show(&id, full, place).await,
        BreadcrumbVerb::Search(args) => look::search(args, place).await,
        BreadcrumbVerb::History { id, limit } => look::history(&id, limit, place).await,
        BreadcrumbVerb::Approve(args) => write::judge(args, true, place).await,
        BreadcrumbVerb::Reject(args) => write::judge(args, false, place).await,
        BreadcrumbVerb::Import { folder, replace } => import::run(&folder, replace, place).await,
    }
}

/// The store, and the person who works with its breadcrumbs.
struct Desk {
    store: Arc<dyn Store>,
    author: Author,
}

impl Desk {
    /// Opens the store, and creates it if it does not exist.
    fn open(place: &Place) -> Result<Self, Failure> {
        Self::with(place.open_store()?, place)
    }

    /// Opens the store if it exists.
    fn existing(place: &Place) -> Result<Option<Self>, Failure> {
        place.existing_store()?.map(|store| Self::with(store, place)).transpose()
    }

    fn with(store: Arc<dyn Store>, place: &Place) -> Result<Self, Failure> {
        let folder = place.current.canonicalize().map_err(|error| Failure::file(&place.current, error))?;
        let project = project::project_id(place, &folder)?;
        Ok(Self { store, author: Author::outside(terminal::person(), project) })
    }

    /// Returns the id that `name` is, or begins.
    async fn find(&self, name: &str) -> Result<BreadcrumbId, Failure> {
        let found =
            self.store.breadcrumbs().ids(name, &self.author.viewer, 5, terminal::now()).await.map_err(Failure::of_store)?;
        match found.as_slice() {
            _ if name.is_empty() => Err(Failure::Usage("the id is empty".to_owned())),
            [only] => Ok(only.clone()),
            [first, ..] if first.as_str() == name => Ok(first.clone()),
            [] => Err(Failure::not_found("breadcrumb", name, [])),
            several => {
                let ids: Vec<&str> = several.iter().map(BreadcrumbId::as_str).collect();
                Err(Failure::Usage(format!("several breadcrumbs begin with {name}: {}", ids.join(", "))))
            }
        }
    }
}

/// Returns the desk and the id that `name` is, or begins.
async fn desk_with(name: &str, place: &Place) -> Result<(Desk, BreadcrumbId), Failure> {
    let desk = Desk::existing(place)?.ok_or_else(|| Failure::not_found("breadcrumb", name, []))?;
    let id = desk.find(name).await?;
    Ok((desk, id))
}

/// Returns an id for a new record.
fn new_id() -> BreadcrumbId {
    BreadcrumbId::new(uuid::Uuid::now_v7().to_string())
}
