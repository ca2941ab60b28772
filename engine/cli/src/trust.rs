//! Trust of the person at the command line: asks with a full list, and stores the answer in the person's own state folder.
//!
//! Settings from a job's folder, its `.env` or a store need trust; settings of the program and of the person do not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use baton_config::{Role, Source};
use baton_runtime::trust::{TrustPolicy, TrustRequest, Untrusted};
use baton_types::config::{Origin, Reach, Target};

use crate::environment::{self, Environment};
use crate::exit::Failure;
use crate::place::{PROJECT_FILE, Place, absolute, within_project};
use crate::records::Records;
use crate::screen::Screen;
use crate::text::{Text, text};
use crate::{style, variables};

/// The policy that decides whether the person trusts a run's reaches.
pub(crate) struct PersonsTrust {
    screen: Screen,
    manner: Manner,
    records: Option<Records>,
    /// The store of the runs; `None` in memory.
    store: Option<String>,
    environment: Arc<Environment>,
    /// Current files of the program and of the person, by role and file name.
    own: BTreeMap<(Role, String), (Origin, String)>,
    /// Yes answers in this process, which also count if nothing can be stored.
    agreed: Mutex<BTreeSet<(String, String)>>,
}

/// The action when trust is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Ask the person, if possible.
    Ask,
    /// Take the yes from the command line.
    Given,
    /// Fail without a question.
    Look,
}

impl Manner {
    /// Returns the action for the flag `--trust`.
    pub(crate) const fn of(trust: bool) -> Self {
        if trust { Self::Given } else { Self::Ask }
    }
}

/// Reaches of one place, which are trusted for that place.
struct Group {
    place: String,
    reaches: Vec<Reach>,
}

impl PersonsTrust {
    /// Returns the policy for the person at `place`, for runs in `store`.
    pub(crate) fn at(
        place: &Place,
        store: Option<String>,
        environment: Arc<Environment>,
        manner: Manner,
    ) -> Result<Self, Failure> {
        let mut own = BTreeMap::new();
        for (name, text) in crate::builtin_tool_configs() {
            own.insert((Role::BuiltinTool, (*name).to_owned()), (Origin::BuiltIn, (*text).to_owned()));
        }
        if let Some((path, content)) = environment::user_models()? {
            own.insert((Role::UserModels, file_name(&path)), (Origin::Person, String::from_utf8_lossy(&content).into_owned()));
        }
        let (screen, agreed) = (place.screen, Mutex::default());
        Ok(Self { screen, manner, records: Records::open()?, store, environment, own, agreed })
    }

    /// Groups the reaches of `request` that need trust by the place that sets them.
    fn groups(&self, request: &TrustRequest<'_>) -> Vec<Group> {
        let folder = request.folder.map(absolute).unwrap_or_default();
        let said_by = |origin| request.reaches.iter().filter(move |reach| reach.origin == origin).cloned().collect();
        let groups = [
            Group { place: format!("job {folder}"), reaches: said_by(Origin::Job) },
            Group { place: self.place_of_store(&folder), reaches: said_by(Origin::Store) },
            Group {
                place: format!("env {}", absolute(self.environment.file())),
                reaches: self.environment.reaches(&request.variables, |name| variables::is_key(name, &request.reaches)),
            },
        ];
        groups.into_iter().filter(|group| !group.reaches.is_empty()).collect()
    }

    fn place_of_store(&self, folder: &str) -> String {
        let store = self.store.as_deref().unwrap_or_default();
        format!("store {store} {folder}")
    }

    fn is_trusted(&self, group: &Group) -> bool {
        let wanted: BTreeSet<String> = group.reaches.iter().map(Reach::canonical).collect();
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().all(|reach| agreed.contains(&(group.place.clone(), reach.clone())))
            || self.records.as_ref().is_some_and(|records| records.hold(&group.place, &wanted))
    }

    fn remember(&self, place: &str, reaches: &[Reach]) -> Result<(), Untrusted> {
        let lines: BTreeSet<String> = reaches.iter().map(Reach::canonical).collect();
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.extend(lines.iter().map(|line| (place.to_owned(), line.clone())));
        let Some(records) = self.records.as_ref().filter(|records| !records.hold(place, &lines)) else { return Ok(()) };
        let failed = |error| Untrusted { reason: format!("trust cannot be stored in {}: {error}", records.folder().display()) };
        records.keep(place, &lines).map_err(failed)
    }

    /// Asks the person about `groups`, unless the command line already has the answer.
    fn settle(&self, groups: &[&Group], folder: Option<&Path>) -> Result<(), Untrusted> {
        let reaches = groups.iter().flat_map(|group| &group.reaches);
        let lines: Vec<String> = reaches.map(|reach| format!("  {}\n", shown(reach, folder))).collect();
        let list = lines.concat();
        let what = "this job is not trusted yet, and it can act outside of its run";
        match self.manner {
            Manner::Given => return Ok(()),
            Manner::Ask if self.screen.interactive => {}
            Manner::Ask | Manner::Look => {
                return Err(Untrusted { reason: format!("{what}:\n{list}check every line, then add --trust") });
            }
        }
        self.screen.tell(&text!("{} {what}:", style::waiting("?")));
        self.screen.tell(&Text::block(&list));
        self.screen.tell(&text!("  Continue? [y/N]"));
        let answer = typed().unwrap_or_default();
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Untrusted { reason: "not trusted; nothing was run".to_owned() })
    }
}

impl TrustPolicy for PersonsTrust {
    fn recognize(&self, source: &Source) -> Option<Origin> {
        let (origin, text) = self.own.get(&(source.role, file_name(&source.path)))?;
        (*text == source.text).then_some(*origin)
    }

    fn judge(&self, request: &TrustRequest<'_>) -> Result<(), Untrusted> {
        let groups = self.groups(request);
        let open: Vec<&Group> = groups.iter().filter(|group| !self.is_trusted(group)).collect();
        if !open.is_empty() {
            self.settle(&open, request.folder)?;
            open.iter().try_for_each(|group| self.remember(&group.place, &group.reaches))?;
        }
        self.environment.release(&request.variables);
        // The person lets this run execute now. Its reaches are trusted when they are read back from the store later, from
        // whatever source they come now.
        if self.store.is_some() && self.manner != Manner::Look && !request.reaches.is_empty() {
            let folder = request.folder.map(absolute).unwrap_or_default();
            self.remember(&self.place_of_store(&folder), &request.reaches)?;
        }
        Ok(())
    }
}

/// Renders a reach. A file of the project is shown relative to the project's folder.
fn shown(reach: &Reach, folder: Option<&Path>) -> String {
    let in_project = |path: &str| {
        let folder = folder.filter(|_| path.starts_with("../"))?.canonicalize().ok()?;
        let project = within_project(&folder).find(|folder| folder.join(PROJECT_FILE).is_file())?;
        let file = folder.join(path).canonicalize().ok()?;
        Some(file.strip_prefix(project).ok()?.to_string_lossy().into_owned())
    };
    match &reach.target {
        Target::Script { path, hash } => match in_project(path) {
            Some(path) => {
                let target = Target::Script { path, hash: *hash };
                format!("{} of the project", Reach { target, ..reach.clone() })
            }
            None => reach.to_string(),
        },
        _ => reach.to_string(),
    }
}

/// Reads a line from the person. Returns `None` on Ctrl-C, since the program may catch that signal by now.
fn typed() -> Option<String> {
    let (sender, answer) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _closed = std::io::stdin().read_line(&mut line);
        let _interrupted = sender.send(line);
    });
    let wait = async {
        tokio::select! {
            line = answer => line.ok(),
            _ = tokio::signal::ctrl_c() => None,
        }
    };
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(wait))
}

/// Returns the last component of a path.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
