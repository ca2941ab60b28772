//! The examples, as they are shipped: they come to their end offline, replay to the byte, and survive a crash anywhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_machine::Run;
use baton_proof::cancel::cancelled;
use baton_runtime::{Engine, LoadedJob, RunError, RunHandle, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_tool::registered_functions;
use baton_tools as _;
use baton_types::call::CallStatus;
use baton_types::entry::Entry;
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde_json::Value;

use crate::support::failing::{Failing, FailingStore};
use crate::support::{Finished, finish, name_of, workspace};

/// Returns the repository's folder.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the folders of the examples, ordered.
pub(crate) fn examples() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(repository().join("examples")).unwrap();
    let mut examples: Vec<_> = folder.map(|entry| entry.unwrap().path()).filter(|path| path.join("job.json").is_file()).collect();
    examples.sort();
    assert!(examples.len() >= 3, "only {} examples were found", examples.len());
    examples
}

/// Returns the job in `folder`, with the built-in tools.
pub(crate) fn load(folder: &Path) -> LoadedJob {
    let mut configs = Vec::new();
    for entry in std::fs::read_dir(repository().join("tool-configs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        configs.push((name, std::fs::read_to_string(&path).unwrap()));
    }
    let shipped = |id: &str| configs.iter().any(|(name, _)| name == id);
    let functions: Vec<_> = registered_functions().into_iter().filter(|function| shipped(function.id)).collect();
    assert!(!functions.is_empty(), "the built-in tools are not linked");
    let builtin: Vec<_> = configs.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    LoadedJob::read(folder, &builtin, &functions).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

fn engine(store: Arc<dyn Store>) -> Engine {
    Engine::builder().trust(baton_runtime::TrustEverything).store(store).build().unwrap()
}

/// Waits for the end of a run. A person takes the first choice of every question, or approves.
pub(crate) async fn outcome(handle: &RunHandle) -> RunOutcome {
    loop {
        match handle.outcome_without_people().await {
            RunOutcome::WaitingForPerson => {
                let question = &handle.open_questions().await[0];
                let schema = question.answer_schema.value();
                let choice = schema["enum"][0].clone();
                let answer = match &schema["properties"]["approved"] {
                    Value::Null if choice.is_null() => Value::from("yes"),
                    Value::Null => choice,
                    _ => serde_json::json!({"approved": true}),
                };
                match handle.answer(question.task.clone(), &Principal::person("the test"), Json::from(answer), Vec::new()).await {
                    Ok(()) | Err(RunError::NotRunning(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            outcome => return outcome,
        }
    }
}

/// Runs the example in `folder` to its end.
pub(crate) async fn run(folder: &Path) -> Finished {
    let engine = engine(Arc::new(MemoryStore::default()));
    let handle = engine.start(load(folder), StartOptions::default()).await.unwrap();
    outcome(&handle).await;
    finish(&engine, &handle).await
}

#[tokio::test]
async fn every_example_comes_to_its_end_and_replays_to_the_byte() {
    for folder in examples() {
        // Waiting for its end checks its numbering, its fold and its replay.
        let finished = run(&folder).await;
        assert_eq!(finished.status, CallStatus::Success.as_str(), "{}: {}", folder.display(), finished.result);
        let again = run(&folder).await;
        assert_eq!(finished.result, again.result, "{}", folder.display());
        assert_eq!(workspace(finished.run.documents()), workspace(again.run.documents()), "{}", folder.display());
    }
}

/// A process that dies after a commit leaves the same state as one that dies before the next, so one kind of crash is
/// enough here.
#[tokio::test]
async fn an_example_that_is_killed_at_any_commit_comes_to_the_same_end() {
    for folder in examples() {
        let expected = run(&folder).await;
        let mut crashes = 0;
        for commits in 1.. {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, Failing::Before)));
            let handle = doomed.start(load(&folder), StartOptions::default()).await.unwrap();
            match outcome(&handle).await {
                RunOutcome::Failed(RunError::Store(_)) => crashes += 1,
                RunOutcome::Ended { .. } => break,
                other => panic!("{}", name_of(&other)),
            }
            let engine = engine(store);
            let resumed = engine.resume(handle.id()).await.unwrap();
            outcome(&resumed).await;
            let finished = finish(&engine, &resumed).await;
            let place = format!("{} killed at commit {}", folder.display(), commits + 1);
            assert_eq!(finished.result, expected.result, "{place}");
            assert_eq!(workspace(finished.run.documents()), workspace(expected.run.documents()), "{place}");
        }
        println!("{}: {crashes} crashes", folder.display());
        let least = answers_in_a_row(&expected);
        assert!(crashes >= least, "{}: only {crashes} crashes were tried, of {least} at least", folder.display());
    }
}

#[tokio::test]
async fn an_example_that_is_cancelled_at_any_step_leaves_nothing_behind() {
    for folder in examples() {
        let finished = run(&folder).await;
        let mut run = Run::new(Arc::clone(finished.run.configs()));
        let (mut steps, mut cancels) = (0, 0);
        for (recorded, next) in finished.entries.iter().zip(&finished.entries[1..]) {
            run.apply(recorded);
            // The entries of one batch have one moment, so nothing can be cancelled between them.
            if recorded.at == next.at {
                continue;
            }
            steps += 1;
            for target in run.graph().iter().filter(|task| task.is_live()) {
                let place = || format!("{}, entry {}, cancelling {}", folder.display(), recorded.seq, target.id);
                cancelled(&run, recorded.at, &target.id).unwrap_or_else(|left| panic!("{}: {left}", place()));
                cancels += 1;
            }
        }
        println!("{}: {cancels} cancels at {steps} steps", folder.display());
        assert!(steps >= answers_in_a_row(&finished), "{}: only {steps} steps", folder.display());
    }
}

/// Returns the fewest commits that can follow the run's start, however many calls one of them takes in: one for each answer of a
/// task and of the tasks above it, which wait for it, where these are most.
fn answers_in_a_row(finished: &Finished) -> usize {
    let answered = || {
        finished.entries.iter().filter_map(|recorded| match &recorded.entry {
            Entry::ModelAnswered(entry) => Some(entry.task.as_str()),
            _ => None,
        })
    };
    let waits_for =
        |above: &str, task: &str| task.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    answered().map(|task| answered().filter(|above| waits_for(above, task)).count()).max().unwrap_or_default()
}
