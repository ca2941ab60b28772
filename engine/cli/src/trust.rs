//! Commands are run, keys sent to addresses that a job names, and hosts asked that it allows, only for job folders that the person trusts: asked once,
//! remembered by a hash of these configs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::config::{Configs, Executor};
use baton_core::id::ContentHash;
use serde_json::json;

use crate::exit::Failure;
use crate::place::Place;
use crate::screen::style;
use crate::session;
use crate::text::{Text, text};

/// Whether nothing in `configs` needs trust, or the person gave it.
pub(crate) fn is_trusted(place: &Place, configs: &Configs, folder: Option<&Path>) -> bool {
    let (commands, mut ways) = (commands(configs), ways(configs));
    ways.extend(tools(configs));
    (commands.is_empty() && ways.is_empty()) || marker(place, &commands, &ways, folder).is_file()
}

/// Refuses to go on with `configs` unless the job has no `exec` tool, no way of its own to a provider and sets nothing of its
/// tools that needs trust, was trusted before, or is trusted now.
pub(crate) fn require(place: &Place, configs: &Configs, folder: Option<&Path>, trust: bool) -> Result<(), Failure> {
    let (commands, mut ways) = (commands(configs), ways(configs));
    let sets_tools = tools(configs);
    let names_ways = !ways.is_empty();
    ways.extend(sets_tools.iter().cloned());
    if commands.is_empty() && ways.is_empty() {
        return Ok(());
    }
    let marker = marker(place, &commands, &ways, folder);
    if marker.is_file() {
        return Ok(());
    }
    let list: Vec<String> = commands.iter().map(|(tool, command, _)| format!("  {tool}: {}\n", command.join(" "))).collect();
    let list = list.concat() + &ways.concat();
    let whats = [
        (!commands.is_empty(), "runs commands on this machine"),
        (names_ways, "says itself where requests to models and their keys go"),
        (!sets_tools.is_empty(), "says itself what its tools may reach"),
    ];
    let whats: Vec<&str> = whats.into_iter().filter(|(does, _)| *does).map(|(_, what)| what).collect();
    let what = format!("this job {}", whats.join(", and "));
    if !trust && !place.screen.interactive {
        return Err(Failure::Usage(format!("{what}:\n{list}look at them, then add --trust")));
    }
    if !trust {
        place.screen.tell(&text!("{} {what}:", style::waiting("?")));
        place.screen.tell(&Text::block(&list));
        place.screen.tell(&text!("  Go on? [y/N]"));
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

/// The ways to providers that the job itself names, a line each.
fn ways(configs: &Configs) -> Vec<String> {
    let own = configs.job.providers.iter().filter(|(_, settings)| settings.origin.needs_trust());
    own.filter(|(_, settings)| settings.base_url.is_some() || settings.key_variable.is_some())
        .map(|(name, settings)| {
            let url = settings.base_url.as_deref().unwrap_or("its usual address");
            let key = settings.key_variable.as_ref().map(|key| format!(" with the key in {key}")).unwrap_or_default();
            format!("  {name}: like {} at {url}{key}\n", settings.like)
        })
        .collect()
}

/// What the job itself says of the tools that some agent may call, a line each.
fn tools(configs: &Configs) -> Vec<String> {
    let granted: BTreeMap<_, _> = configs.agents.values().flat_map(|agent| &agent.tools).collect();
    let lines = granted.into_values().flat_map(|tool| {
        tool.reaches
            .iter()
            .filter(|reach| reach.origin.needs_trust() && tool.command().is_none())
            .map(|reach| format!("  {reach}\n"))
    });
    lines.collect()
}

/// The file whose existence means trust: named by the folder and everything that decides what is run.
fn marker(place: &Place, commands: &[(String, Vec<String>, Vec<String>)], ways: &[String], folder: Option<&Path>) -> PathBuf {
    let folder = folder.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    let mut what = json!({"folder": folder, "commands": commands});
    // What was trusted before jobs could name ways stays trusted.
    if !ways.is_empty() {
        what["ways"] = json!(ways);
    }
    let what = what.to_string();
    place.state().join("trusted").join(ContentHash::of(what.as_bytes()).to_string())
}

fn remember(marker: &Path, list: &str) -> Result<(), Failure> {
    let failed = |error| Failure::File { path: marker.display().to_string(), error };
    if let Some(folder) = marker.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(marker, format!("trusted by {}:\n{list}", session::person())).map_err(failed)
}
