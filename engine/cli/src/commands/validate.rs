//! `baton validate`: reports all faults of jobs at once, before a run starts.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;

use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::job::{self, Checked};
use crate::place::Place;
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Folders or names of jobs [default: the job in this folder, else all jobs of the project]
    #[arg(value_name = "JOB", value_hint = ValueHint::DirPath, add = complete::jobs())]
    jobs: Vec<PathBuf>,
    /// Also fail for fields of tools without type or description, and for examples with fields that the output does not have
    #[arg(long)]
    strict: bool,
}

/// Checks the jobs, and prints the faults.
pub(crate) fn run(args: &ValidateArgs, place: &Place) -> Result<Exit, Failure> {
    let jobs = if !args.jobs.is_empty() {
        args.jobs.clone()
    } else if place.current.join(crate::place::JOB_FILE).is_file() {
        vec![PathBuf::from(".")]
    } else {
        place.jobs().into_iter().map(PathBuf::from).collect()
    };
    if jobs.is_empty() {
        return Err(Failure::Usage("there is no job here; name one: baton validate JOB".to_owned()));
    }
    let mut reports = Vec::new();
    let mut valid = true;
    for name in &jobs {
        let checked = job::judge(place, name)?;
        let findings = job::conformance(place, name)?.err();
        let checked = match (checked, findings.clone()) {
            (Checked::Sound(_), Some(findings)) if args.strict => Checked::Faulty(findings),
            (checked, _) => checked,
        };
        match checked {
            Checked::Sound(job) => {
                let configs = &job.configs;
                let used: std::collections::BTreeSet<_> = configs.agents.values().flat_map(|agent| agent.tools.keys()).collect();
                if place.screen.is_text() {
                    let agents = words::counted(configs.agents.len(), "agent");
                    let tools = words::counted(used.len(), "tool");
                    place.screen.text(&text!("{}   {}: {agents}, {tools}, 0 faults", style::good("ok"), name.display()))?;
                    if let Some(findings) = &findings {
                        let found = words::counted(findings.len(), "field");
                        place
                            .screen
                            .text(&text!("     {found} of tools without type, description or declaration: see --strict"))?;
                    }
                }
                reports.push(json!({
                    "job": name, "valid": true, "job_id": configs.job.id, "agents": configs.agents.len(), "tools": used.len(), "faults": [],
                    "conformance": findings.iter().flatten().collect::<Vec<_>>(),
                }));
            }
            Checked::Faulty(faults) => {
                valid = false;
                if place.screen.is_text() {
                    place.screen.tell(&Text::block(&faults.to_string()));
                }
                reports.push(json!({"job": name, "valid": false, "faults": faults}));
            }
        }
    }
    if !place.screen.is_text() {
        match reports.as_slice() {
            [only] => place.screen.json(only)?,
            several => place.screen.json_list(several)?,
        }
    }
    Ok(if valid { Exit::Done } else { Exit::Usage })
}
