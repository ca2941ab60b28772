//! The loader: texts in, checked configs or *all* faults out.
//!
//! It never stops at the first fault. The name of an unreadable file still gives the intended id, so that one broken
//! file does not make others look broken.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use baton_tool::ToolFunction;
use baton_types::config::{Configs, Embeddings, ProviderSettings, Tool};
use baton_types::id::ToolId;
use baton_utp::subject::Token;

use crate::fault::{FaultKind, Faults};
use crate::form::ProjectForm;
use crate::loader::Loader;
use crate::models::ModelRules;
use crate::price::{PriceTable, check_money, prices};
use crate::reader::Spot;
use crate::shape;
use crate::source::{Role, Sources};

/// Which registered functions must have a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconfigured {
    /// None may be without: a start.
    Refused,
    /// Allowed for some: a run pinned to older configs continues in a program with further tools. Tools that no agent
    /// is granted are not loaded, so the program may also lack their functions.
    Allowed,
    /// Nothing will be executed: a run is only read, and no tool needs a function.
    Reading,
}

/// Loads a job: everything that a run of it needs, or every fault of every file.
pub fn load(
    sources: &Sources,
    functions: &[&'static ToolFunction],
    unconfigured: Unconfigured,
    rules: &ModelRules<'_>,
) -> Result<Configs, Faults> {
    let mut loader = Loader::new(sources, functions);
    loader.reading = unconfigured == Unconfigured::Reading;
    loader.follow(rules);
    loader.read_agents();
    loader.load_tools(unconfigured);
    loader.load_configurations(unconfigured);
    let job = loader.load_job(rules);
    let agents = loader.load_agents(job.as_ref());
    Faults::none_of(loader.faults)?;
    let job = job.expect("a job without faults was loaded");
    // An agent of the project that the job does not use cannot be called.
    loader.tools.retain(|_, tool| tool.agent.as_ref().is_none_or(|agent| agents.contains_key(agent)));
    let configs = Configs {
        job,
        agents: agents.into_iter().collect(),
        tools: loader.tools.into_iter().collect(),
        money_limits: loader.money_limits,
        compile_schema: baton_schema::compile,
    };
    // A resumed run keeps the prices that it started with.
    if unconfigured == Unconfigured::Refused && !configs.money_limits.is_empty() {
        check_money(&configs, None, &prices(&configs, None, |_| false, PriceTable::embedded))?;
    }
    Ok(configs)
}

/// Loads the tools alone, for commands that need no job.
pub fn load_tools(
    sources: &Sources,
    functions: &[&'static ToolFunction],
    unconfigured: Unconfigured,
) -> Result<BTreeMap<ToolId, Arc<Tool>>, Faults> {
    let mut loader = Loader::new(sources, functions);
    loader.reading = unconfigured == Unconfigured::Reading;
    loader.read_agents();
    loader.load_tools(unconfigured);
    Faults::none_of(loader.faults)?;
    Ok(loader.tools)
}

/// Loads the model that makes vectors of texts, and the settings of providers, for commands that need no job.
pub fn load_embeddings(
    sources: &Sources,
    rules: &ModelRules<'_>,
) -> Result<(Option<Embeddings>, BTreeMap<String, ProviderSettings>), Faults> {
    let mut loader = Loader::new(sources, &[]);
    loader.follow(rules);
    let read = loader.read_models(rules);
    Faults::none_of(loader.faults)?;
    Ok((read.embeddings, read.providers))
}

/// The one hidden folder of a project in which runs may be kept.
const STATE_FOLDER: &str = ".baton";

/// Loads a project file; `file` is its path as messages show it.
///
/// The file may come from somebody else. So the folders that it names must be in the project. Runs are not kept where other
/// programs look for files: neither in the project's own folder nor in a hidden folder such as `.git`.
pub fn load_project(file: &str, content: &[u8]) -> Result<ProjectForm, Faults> {
    let mut sources = Sources::default();
    sources.add(Role::Project, file, content);
    let mut loader = Loader::new(&sources, &[]);
    let source = sources.of(Role::Project).next().expect("the source was just added");
    let read = loader.read(source).and_then(|read| {
        let form = loader.form::<ProjectForm>(&shape::PROJECT, &read.text, &read.value)?;
        let folders = [("/store", form.store.as_deref()), ("/jobs", form.jobs.as_deref())];
        for (pointer, folder) in folders.into_iter().filter_map(|(pointer, folder)| Some((pointer, folder?))) {
            if let Some(why) = misplaced(folder, pointer == "/store") {
                let message = format!("\"{}\" is set to {folder:?}, which is {why}", &pointer[1..]);
                loader.faults.push(read.text.fault(FaultKind::BadPath, pointer, Spot::Value, message));
            }
        }
        let tokens = [("/project", form.project.as_deref()), ("/channel", form.channel.as_deref())];
        for (pointer, token) in tokens.into_iter().filter_map(|(pointer, token)| Some((pointer, token?))) {
            if Token::parse(token).is_none() {
                let message = format!("\"{}\" is set to {token:?}, which cannot be part of a subject", &pointer[1..]);
                let fault = read.text.fault(FaultKind::OutOfRange, pointer, Spot::Value, message);
                loader.faults.push(fault.expected("a text without dots, white space, control characters, * and >"));
            }
        }
        Some(form)
    });
    Faults::none_of(loader.faults)?;
    Ok(read.expect("a project without faults was read"))
}

/// Returns the reason why a project may not name `folder`, if it may not.
fn misplaced(folder: &str, keeps_runs: bool) -> Option<&'static str> {
    let components = Path::new(folder).components().filter(|part| *part != Component::CurDir);
    let names: Option<Vec<_>> = components
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let Some(names) = names else { return Some("outside of the project; name a folder in it") };
    let is_hidden = |name: &&str| name.starts_with('.') && *name != STATE_FOLDER;
    match names.iter().any(is_hidden) {
        _ if !keeps_runs => None,
        true => Some("in a hidden folder; the only one that keeps runs is .baton"),
        false if names.is_empty() => Some("the project itself; name a folder in it"),
        false => None,
    }
}
