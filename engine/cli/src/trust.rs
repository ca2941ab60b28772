//! Commands are run only for job folders that the person trusts: asked once, remembered by a hash of the `exec` configs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::config::{Configs, Executor};
use baton_core::id::ContentHash;
use serde_json::json;

use crate::exit::Failure;
use crate::place::Place;
use crate::screen::style;
use crate::session;

/// Refuses to go on with `configs` unless the job has no `exec` tool, was trusted before, or is trusted now.
pub(crate) fn require(place: &Place, configs: &Configs, folder: Option<&Path>, trust: bool) -> Result<(), Failure> {
    let commands = commands(configs);
    if commands.is_empty() {
        return Ok(());
    }
    let marker = marker(place, &commands, folder);
    if marker.is_file() {
        return Ok(());
    }
    let list: Vec<String> = commands.iter().map(|(tool, command, _)| format!("  {tool}: {}\n", command.join(" "))).collect();
    let list = list.concat();
    if !trust && !place.screen.interactive {
        return Err(Failure::Usage(format!("this job runs commands on this machine:\n{list}look at them, then add --trust")));
    }
    if !trust {
        place.screen.tell(&format!("{} this job runs commands on this machine:\n{list}", style::waiting("?")));
        place.screen.tell("  Run them? [y/N]");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(Failure::Usage("not trusted; nothing was run".to_owned()));
        }
    }
    remember(&marker, &list)
}

/// The `exec` tools that some agent may call: id, command, environment.
fn commands(configs: &Configs) -> Vec<(String, Vec<String>, Vec<String>)> {
    let granted: BTreeMap<_, _> = configs.agents.values().flat_map(|agent| &agent.tools).collect();
    granted
        .into_values()
        .filter_map(|tool| match &tool.executor {
            Some(Executor::Exec(exec)) => Some((tool.id.to_string(), exec.command.clone(), exec.env.clone())),
            _ => None,
        })
        .collect()
}

/// The file whose existence means trust: named by the folder and everything that decides what is run.
fn marker(place: &Place, commands: &[(String, Vec<String>, Vec<String>)], folder: Option<&Path>) -> PathBuf {
    let folder = folder.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    let what = json!({"folder": folder, "commands": commands}).to_string();
    place.state().join("trusted").join(ContentHash::of(what.as_bytes()).to_string())
}

fn remember(marker: &Path, list: &str) -> Result<(), Failure> {
    let failed = |error| Failure::File { path: marker.display().to_string(), error };
    if let Some(folder) = marker.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(marker, format!("trusted by {}:\n{list}", session::person())).map_err(failed)
}
