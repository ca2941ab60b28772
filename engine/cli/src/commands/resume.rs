//! `baton resume`: continues a run with its pinned configs, or with the current configs of its job.

use baton_config::Sources;
use baton_runtime::{Engine, Holder, RunError, RunHandle};
use clap::Args;

use crate::app::{Ending, build, builder, complete, finish, run_failure, unpause};
use crate::cassettes::RecordingArgs;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::FoundRun;
use crate::shell::baton;
use crate::signals::Interruptions;
use crate::style;
use crate::terminal;
use crate::text::text;
use crate::trust::Manner;
use crate::{job, runs};

/// Arguments of `resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// Continue with the current configs in the job's folder. Shows the changes and asks for confirmation
    #[arg(long)]
    migrate: bool,
    /// Confirm the changes of --migrate in advance
    #[arg(long, requires = "migrate")]
    yes: bool,
    /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    ending: Ending,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Take the run over although another process runs it. That process can then write nothing more to the run
    #[arg(long)]
    take_over: bool,
}

/// Continues a run. An ended run is only reported again; a run that is paused in another process continues in that process.
pub(crate) async fn run(args: ResumeArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find(place, &args.run).await?;
    let out = args.ending.target(place)?;
    let recording = args.recording.of_resumption(place)?;
    let builder = builder(&found.store, place.kept_in(), place, Manner::of(args.trust))?;
    let engine = build(recording.used_by(builder), place).await?;
    let holder = engine.holder(found.id()).await.map_err(run_failure)?;
    if let Holder::Elsewhere { owner } = &holder
        && !args.take_over
    {
        if found.state().await?.totals().paused {
            return unpause(&engine, &found, place).await;
        }
        return Err(held(owner, &found));
    }
    let migrated = if args.migrate { migrate(&args, &engine, &found, place).await? } else { None };
    let (handle, interruptions) = if let Some(migrated) = migrated {
        migrated
    } else {
        let interruptions = Interruptions::catch()?;
        let resumed = if args.take_over { engine.resume(found.id()).await } else { engine.resume_free(found.id()).await };
        let handle = match resumed {
            Err(RunError::Held { owner, .. }) => return Err(held(&owner, &found)),
            handle => handle.map_err(run_failure)?,
        };
        if !args.migrate {
            job::tell_changes(place, &found).await?;
        }
        (handle, interruptions)
    };
    // A person who resumes a run wants it to continue, so a pause ends here. An ended run has no pause.
    let _ended = handle.unpause(&terminal::person()).await;
    let exit = finish(&handle, found.record.last_seq, &found.store, place, out.as_ref(), interruptions).await?;
    recording.close(found.id(), exit, place)
}

/// Returns the refusal to take a run from the living process `owner`.
fn held(owner: &str, found: &FoundRun) -> Failure {
    Failure::Refused(format!(
        "{owner} owns run {} and is still running; look at it: {}; or take it over: {}",
        found.id(),
        baton("show").value(found.id()),
        baton("resume").value(found.id()).flag("--take-over")
    ))
}

/// Continues with the current configs of the job's folder, after a confirmation. Returns `None` if the run has ended or already
/// has these configs.
async fn migrate(
    args: &ResumeArgs,
    engine: &Engine,
    found: &FoundRun,
    place: &Place,
) -> Result<Option<(RunHandle, Interruptions)>, Failure> {
    let state = found.state().await?;
    let Some(started) = state.started().filter(|_| state.ended().is_none()) else { return Ok(None) };
    let job = job::of_run(place, started)?;
    let sources: &Sources = job.sources();
    let migration = engine.migration(found.id(), sources).await.map_err(run_failure)?;
    let screen = place.screen;
    if migration.files.is_empty() {
        screen.tell(&text!("the job has not changed since the run adopted it, so there is nothing to migrate"));
        return Ok(None);
    }
    if !migration.hindrances.is_empty() {
        let reasons: Vec<String> = migration.hindrances.iter().map(|reason| format!("\n  {reason}")).collect();
        return Err(Failure::Refused(format!(
            "the run cannot continue with the current configs of the job:{}",
            reasons.concat()
        )));
    }
    for (index, file) in migration.files.iter().enumerate() {
        screen.tell(&text!("{}{file}", if index == 0 { "migrate     " } else { "            " }));
    }
    for task in &migration.tasks {
        let prefix = if task.new_prefix { "; its next request starts a new cache prefix" } else { "" };
        screen.tell(&text!("  {} ({}): {}{prefix}", task.task, task.agent, task.changes.join(", ")));
    }
    if migration.tasks.is_empty() {
        screen.tell(&text!("  no unfinished task changes; tasks that are created later may"));
    }
    if !args.yes {
        if !screen.interactive {
            return Err(Failure::Usage("nothing was changed; --yes continues with these configs".to_owned()));
        }
        screen.tell(&text!("{} Continue with these configs? [y/N]", style::waiting("?")));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(Failure::Usage("nothing was changed".to_owned()));
        }
    }
    let interruptions = Interruptions::catch()?;
    let handle = engine.migrate(found.id(), sources, &terminal::person()).await.map_err(run_failure)?;
    Ok(Some((handle, interruptions)))
}
