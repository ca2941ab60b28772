//! `baton doctor`: checks what a run needs before it starts. Each finding names its fix, if there is one.
//!
//! Keys are looked up and never printed. A key is sent to its provider only. It is sent to a job's own address only if the job
//! is trusted. `--offline` sends nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_models::provider::{Endpoint, Health, HealthError, PROFILES, Providers};
use baton_models::{ModelError, SetupError};
use baton_runtime::Trusted;
use baton_store::{RunRecord, Store};
use baton_types::config::{ModelSpec, ProviderSettings};
use clap::{Args, ValueHint};
use serde::Serialize;

use crate::app::complete;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, nearest};
use crate::job::{self, Checked};
use crate::place::Place;
use crate::runs::{INTERRUPTED, status};
use crate::shell::baton;
use crate::style;
use crate::text::text;
use crate::trust::{Manner, PersonsTrust};
use crate::words;

/// Largest difference of a clock without a warning. Certificates and `Retry-After` dates depend on the clock.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(5);

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Folders or names of the jobs to check [default: all jobs of the project]
    #[arg(value_name = "JOB", value_hint = ValueHint::DirPath, add = complete::jobs())]
    jobs: Vec<PathBuf>,
    /// Send no requests. Check only files and environment variables
    #[arg(long)]
    offline: bool,
    /// Trust the commands, addresses, hosts and variables that the jobs use, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One result of a check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    status: Status,
    message: String,
    /// The fix, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// A provider that jobs need, with its settings and the models that they request from it.
#[derive(Debug)]
struct Needed {
    provider: String,
    settings: Option<ProviderSettings>,
    models: BTreeSet<String>,
    /// The untrusted job that sets the provider's address or key; nothing is sent then.
    untrusted: Option<String>,
}

/// Runs all checks.
pub(crate) async fn run(args: &DoctorArgs, place: &Place) -> Result<Exit, Failure> {
    let environment = Environment::at(place)?;
    let manner = if args.trust { Manner::Given } else { Manner::Look };
    let trust = PersonsTrust::at(place, place.kept_in(), Arc::clone(&environment), manner)?;
    let variables = |name: &str| environment.get(name);
    let mut findings = vec![store(place).await];
    let mut needed = Vec::new();
    let mut names = args.jobs.clone();
    if names.is_empty() {
        names.extend(place.jobs().into_iter().map(PathBuf::from));
        names.extend(place.other_job_here());
    }
    for name in &names {
        findings.extend(look_at_job(place, name, &trust, &environment, &mut needed)?);
    }
    let asked = needed.len();
    for profile in PROFILES.iter().filter(|profile| profile.key.is_required && variables(profile.key.variable).is_some()) {
        if needed.iter().all(|known| known.provider != profile.name) {
            let provider = profile.name.to_owned();
            needed.push(Needed { provider, settings: None, models: BTreeSet::new(), untrusted: None });
        }
    }
    if asked == 0 {
        let message = "no job needs a provider: all models are scripted".to_owned();
        findings.push(Finding { check: "provider", name: None, status: Status::Ok, message, fix: None });
    }
    let providers = Providers::default();
    for needed in &needed {
        findings.extend(look_at_provider(needed, &providers, &variables, args.offline).await);
    }
    report(place, &findings)
}

/// Prints the findings, and returns the exit code.
fn report(place: &Place, findings: &[Finding]) -> Result<Exit, Failure> {
    if place.screen.is_text() {
        for finding in findings {
            let mark = match finding.status {
                Status::Ok => style::good("ok  "),
                Status::Warn => style::waiting("warn"),
                Status::Fail => style::bad("fail"),
            };
            let name = finding.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            place.screen.text(&text!("{}  {:<9} {name}{}", mark, finding.check, finding.message))?;
            if let Some(fix) = &finding.fix {
                place.screen.text(&text!("      {}", style::faint(format!("→ {fix}"))))?;
            }
        }
    } else {
        place.screen.json_list(findings)?;
    }
    let fails = |check: &str| findings.iter().any(|finding| finding.check == check && finding.status == Status::Fail);
    Ok(match () {
        () if fails("job") || fails("tools") => Exit::Usage,
        () if fails("provider") => Exit::Unavailable,
        () if fails("store") => Exit::Failed,
        () => Exit::Done,
    })
}

/// Checks that runs can be stored, and looks for interrupted runs.
async fn store(place: &Place) -> Finding {
    let finding = |status, message: String, fix: Option<String>| Finding { check: "store", name: None, status, message, fix };
    let Some(file) = place.store_file() else {
        if place.kept_in().is_some() {
            return database(place).await;
        }
        return finding(Status::Warn, "in memory: runs are lost when their process ends".to_owned(), None);
    };
    let shown = place.shown(&file);
    let opened = match place.store_to_read() {
        Ok(Some(store)) => store,
        Ok(None) => {
            let home = file.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
            return match tempfile_in(home) {
                Ok(()) => finding(Status::Ok, format!("{shown} will be created by the first run"), None),
                Err(error) => {
                    let fix = "choose another place with --store FILE or BATON_STORE".to_owned();
                    finding(Status::Fail, format!("{} cannot be written: {error}", place.shown(home)), Some(fix))
                }
            };
        }
        // The error names its fix. `baton verify` could not open the store either.
        Err(failure) => return finding(Status::Fail, failure.to_string(), None),
    };
    match opened.runs().await {
        Err(error) => finding(Status::Fail, format!("{shown}: {error}"), Some("baton verify".to_owned())),
        Ok(runs) => {
            let size = std::fs::metadata(&file).map_or(0, |facts| facts.len());
            of_runs(format!("{shown}, {}", words::size(size)), &*opened, &runs)
        }
    }
}

/// Checks that the database of the store can be reached.
async fn database(place: &Place) -> Finding {
    let failed = |error: &dyn std::fmt::Display| Finding {
        check: "store",
        name: None,
        status: Status::Fail,
        message: error.to_string(),
        fix: None,
    };
    let store = match place.open_store() {
        Ok(store) => store,
        Err(failure) => return failed(&failure),
    };
    match store.runs().await {
        Err(error) => failed(&error),
        Ok(runs) => of_runs(place.shown_store(), &*store, &runs),
    }
}

/// Reports the runs of a store, and the interrupted ones among them.
fn of_runs(store: String, opened: &dyn Store, runs: &[RunRecord]) -> Finding {
    let message = format!("{store}, {}", words::counted(runs.len(), "run"));
    let broken_off: Vec<_> = runs.iter().filter(|run| status(opened, run) == INTERRUPTED).collect();
    let (status, message, fix) = match broken_off.first() {
        None => (Status::Ok, message, None),
        Some(run) => {
            let fix = baton("resume").value(&run.id).to_string();
            (Status::Warn, format!("{message}, {} interrupted", broken_off.len()), Some(fix))
        }
    };
    Finding { check: "store", name: None, status, message, fix }
}

/// Creates a file in `folder` and removes it again.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let file = folder.join(format!(".baton-doctor-{}", std::process::id()));
    std::fs::File::create_new(&file)?;
    std::fs::remove_file(&file)
}

/// Checks a job: its faults, its trust, the tools that its models' providers would reject. Collects the providers it needs.
fn look_at_job(
    place: &Place,
    name: &Path,
    trust: &PersonsTrust,
    environment: &Environment,
    needed: &mut Vec<Needed>,
) -> Result<Vec<Finding>, Failure> {
    let shown = name.display().to_string();
    let finding = |status, message, fix| Finding { check: "job", name: Some(shown.clone()), status, message, fix };
    let job = match job::check(place, name)? {
        Checked::Sound(job) => job,
        Checked::Faulty(faults) => {
            let message = words::counted(faults.len(), "fault");
            return Ok(vec![finding(Status::Fail, message, Some(baton("validate").value(&shown).to_string()))]);
        }
    };
    let configs = &job.configs;
    let is_trusted = Trusted::check(configs, job.folder.as_deref(), None, trust).is_ok();
    let models =
        configs.agents.values().flat_map(|agent| std::iter::once(&agent.model).chain(configs.job.fallbacks(&agent.model)));
    let provided = models.filter_map(|name| match configs.job.model(name) {
        Some(ModelSpec::Provided(model)) => Some((model.provider, Some(model.model))),
        Some(ModelSpec::Scripted { .. }) | None => None,
    });
    // Some providers do not list their models for embeddings.
    let embeddings = configs.job.embeddings.iter().map(|embeddings| (embeddings.model.provider.clone(), None));
    for (provider, model) in provided.chain(embeddings) {
        let settings = configs.job.providers.get(&provider).cloned();
        let is_foreign = !is_trusted
            && (settings.as_ref().is_some_and(|settings| settings.origin.needs_trust())
                || environment.leads_to(&provider, settings.as_ref()));
        let known = needed.iter().position(|known| known.provider == provider && known.settings == settings);
        let at = known.unwrap_or_else(|| {
            let untrusted = is_foreign.then(|| shown.clone());
            needed.push(Needed { provider: provider.clone(), settings, models: BTreeSet::new(), untrusted });
            needed.len() - 1
        });
        needed[at].models.extend(model);
    }
    let agents = words::counted(configs.agents.len(), "agent");
    let mut findings = vec![if is_trusted {
        finding(Status::Ok, format!("{agents}, 0 faults"), None)
    } else {
        let message = format!("{agents}, 0 faults; uses commands, addresses or variables that are not trusted yet");
        finding(Status::Warn, message, Some(format!("check the job, then {}", baton("doctor").value(&shown).flag("--trust"))))
    }];
    let unfit = job.check_tools().err();
    findings.extend(unfit.iter().flatten().map(|fault| Finding {
        check: "tools",
        message: format!("{} ({}:{}:{})", fault.message, fault.file, fault.line, fault.column),
        ..finding(Status::Fail, String::new(), Some(baton("validate").value(&shown).to_string()))
    }));
    Ok(findings)
}

/// Checks that a provider has its key, answers, and has the requested models.
async fn look_at_provider(
    needed: &Needed,
    providers: &Providers,
    variable: &(dyn Fn(&str) -> Option<String> + Send + Sync),
    offline: bool,
) -> Vec<Finding> {
    let finding = |status, message: String, fix: Option<String>| Finding {
        check: "provider",
        name: Some(needed.provider.clone()),
        status,
        message,
        fix,
    };
    if let Some(job) = &needed.untrusted {
        let message = format!("not checked, because {job} is not trusted and sets its address or its key");
        return vec![finding(
            Status::Warn,
            message,
            Some(format!("check the job, then {}", baton("doctor").value(job).flag("--trust"))),
        )];
    }
    let endpoint = match Endpoint::of(&needed.provider, needed.settings.as_ref(), variable) {
        Ok(endpoint) => endpoint,
        Err(error) => return vec![finding(Status::Fail, error.to_string(), mended(&error.into(), ""))],
    };
    let key = if endpoint.has_key() { format!("the key in {}", endpoint.key_variable) } else { "no key".to_owned() };
    if offline {
        return vec![finding(Status::Ok, format!("{key}; not checked (--offline)"), None)];
    }
    let health = match providers.health(&needed.provider, needed.settings.as_ref(), variable).await {
        Ok(health) => health,
        Err(error) => {
            let fix = mended(&error, endpoint.profile.name);
            return vec![finding(Status::Fail, error.to_string(), fix)];
        }
    };
    let models = words::counted(health.models.len(), "model");
    let took = words::duration(health.took);
    let mut findings = vec![finding(Status::Ok, format!("{key}; {} answered in {took}, {models}", health.address), None)];
    for model in needed.models.iter().filter(|model| !is_offered(model, &health)) {
        let message = format!("the provider does not list the model {model}{}", nearest(&health.models, model));
        findings.push(finding(Status::Warn, message, None));
    }
    findings.extend(clock(&health));
    findings
}

/// Returns the fix for a provider that cannot be reached.
fn mended(error: &HealthError, profile: &str) -> Option<String> {
    Some(match error {
        HealthError::Setup(SetupError::KeyMissing { variable, .. }) => {
            format!("export {variable}=…, or set it in .env")
        }
        HealthError::Model(ModelError::KeyRefused { variable: Some(variable), .. }) => {
            format!("set a valid key in {variable}")
        }
        HealthError::Model(ModelError::Unreachable { .. }) if profile.starts_with("ollama") => {
            "start it with: ollama serve, or set its address in OLLAMA_HOST".to_owned()
        }
        _ => return None,
    })
}

/// Returns true if the provider's list has `model`, or is empty. Lists may have a dated name instead of a short one, and omit
/// the variants after a colon.
fn is_offered(model: &str, health: &Health) -> bool {
    let base = model.split(':').next().unwrap_or(model);
    let is_it = |known: &str| known == model || known == base || known == format!("{model}:latest");
    health.models.is_empty() || health.models.iter().any(|known| is_it(known) || known.starts_with(&format!("{model}-20")))
}

/// Compares the clock with the provider's, and reports a large difference.
fn clock(health: &Health) -> Option<Finding> {
    let (now, date) = (SystemTime::now(), health.date?);
    let off = now.duration_since(date).unwrap_or_else(|error| error.duration());
    (off > CLOCK_TOLERANCE).then(|| Finding {
        check: "clock",
        name: None,
        status: Status::Warn,
        message: format!("differs by {} from the clock of {}", words::duration(off), health.address),
        fix: Some("set the clock".to_owned()),
    })
}
