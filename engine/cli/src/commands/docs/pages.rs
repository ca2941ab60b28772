//! The pages of a job or a project, from its checked configs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_config::{Role, Sources, Unconfigured, declared_settings, load_tools};
use baton_docs::{DescribedTool, Introduction, Job, Settings, agents_page, first_line, tools_of, tools_page};
use baton_runtime::LoadedJob;
use baton_tool::registered_functions;
use baton_types::config::Origin;
use baton_types::id::ToolId;

use crate::exit::Failure;
use crate::job::{self, Checked};
use crate::place::{PROJECT_FILE, Place};

/// The page of tools.
const TOOLS: &str = "TOOLS.md";
/// The page of agents. Coding assistants take a file called AGENTS.md for instructions, and a job's texts must not be any.
const AGENTS: &str = "JOB-AGENTS.md";

/// The pages of a job or a project.
pub(super) struct Pages {
    tools: String,
    agents: String,
}

/// A job or a project without its agents: the settings that its tools declare, and its own tools.
struct Declared {
    settings: Settings,
    own: BTreeSet<ToolId>,
}

impl Declared {
    fn of(sources: &Sources) -> Self {
        let roles = [Role::BuiltinTool, Role::SharedTool, Role::Tool];
        let is_own = |role: Role, origin: Origin| roles.contains(&role) && origin != Origin::BuiltIn;
        let files = sources.files().filter(|source| is_own(source.role, source.origin));
        let ids = files.filter_map(|source| Some(ToolId::new(Path::new(&source.path).file_stem()?.to_str()?)));
        Self { settings: declared_settings(sources), own: ids.collect() }
    }
}

impl Pages {
    /// Renders the pages of the job or project in the place's current folder. `command` writes them again.
    pub(super) fn of(place: &Place, command: &str) -> Result<Self, Failure> {
        let is_project = place.current.join(PROJECT_FILE).is_file();
        let names: Vec<PathBuf> = if is_project {
            place.jobs().into_iter().map(PathBuf::from).chain(place.other_job_here()).collect()
        } else {
            vec![PathBuf::from(".")]
        };
        let mut faults: Vec<String> = Vec::new();
        let mut loaded: Vec<LoadedJob> = Vec::new();
        for name in &names {
            match job::judge(place, name)? {
                Checked::Sound(job) => loaded.push(job),
                Checked::Faulty(found) => faults.push(found.to_string()),
            }
        }
        let shared = if is_project { shared_tools(place, &mut faults)? } else { Vec::new() };
        if !faults.is_empty() {
            // Faults of shared files are faults of every job.
            faults.dedup();
            return Err(Failure::Faults(faults.join("\n")));
        }
        let declared: Vec<Declared> = loaded.iter().map(|job| Declared::of(job.sources())).collect();
        let jobs: Vec<Job<'_>> = loaded
            .iter()
            .zip(&declared)
            .map(|(job, Declared { settings, own })| Job { configs: &job.configs, settings, own })
            .collect();
        let tools = tools_of(&jobs, shared);
        let (subject, owner) = match (is_project, loaded.as_slice()) {
            (false, [job]) => (format!("the job `{}`: those that its agents may use", job.configs.job.id), "job"),
            _ => ("this project: those that agents of its jobs may use".to_owned(), "project"),
        };
        let text = format!(
            "Tools of {subject}, and those that its folder configures. What a call does follows from the tool's type.\n\
             [{AGENTS}]({AGENTS}) describes the agents."
        );
        let first_line = first_line(command, &format!("the configs of this {owner}"));
        let introduction = Introduction { first_line: &first_line, text: &text, overview: "All tools" };
        Ok(Self { tools: tools_page(&introduction, &tools), agents: agents_page(&first_line, &jobs, TOOLS, &tools) })
    }

    /// Returns the pages by file name.
    pub(super) fn files(self) -> [(&'static str, String); 2] {
        [(TOOLS, self.tools), (AGENTS, self.agents)]
    }
}

/// Returns the tools that a project configures for all of its jobs.
fn shared_tools(place: &Place, faults: &mut Vec<String>) -> Result<Vec<DescribedTool>, Failure> {
    let (sources, _) = job::without_job(place)?;
    let tools = match load_tools(&sources, &registered_functions(), Unconfigured::Refused) {
        Ok(tools) => tools,
        Err(found) => {
            faults.push(found.to_string());
            return Ok(Vec::new());
        }
    };
    let Declared { settings, own } = Declared::of(&sources);
    let described =
        |id: &ToolId| Some(DescribedTool::without_job(Arc::clone(tools.get(id)?), settings.get(id).cloned().unwrap_or_default()));
    Ok(own.iter().filter_map(described).collect())
}
