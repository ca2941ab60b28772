//! Many tasks that wait for people: what each holds, what all of them do meanwhile, and how soon one wakes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use baton_models::FunctionModel;
use baton_runtime::{Engine, OpenQuestion, RunHandle, RunOutcome, StartOptions};
use baton_types::call::ModelCall;
use baton_types::entry::Entry;
use baton_types::id::TaskId;
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use futures_util::TryStreamExt;
use serde_json::json;
use tokio::sync::mpsc;

use super::{Place, call, delegations, number};
use crate::measurement::{Measurement, Stopwatch, cpu_seconds, rss_bytes};
use crate::{Kept, Workload, job};

/// The most askers under one lead.
const ASKERS_OF_A_LEAD: usize = 1_000;

/// The most questions that are answered.
const ANSWERS: usize = 1_000;

pub(super) async fn measure(n: usize, kept: Kept) -> anyhow::Result<Measurement> {
    let place = Place::new(kept)?;
    let (woken, mut wakes) = mpsc::unbounded_channel();
    let model = FunctionModel::new(move |request: &ModelRequest| {
        if request.agent.as_str() == "asker" && request.turn > 1 {
            // The measurement has ended if the receiver is gone.
            let _ended = woken.send((request.task.clone(), Instant::now()));
        }
        Ok(answer(request, n))
    });
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::clone(&place.store))
        .model("m", Arc::new(model))
        .build()?;
    let job = job::load(Workload::Blocked, n)?;

    let (watch, empty) = (Stopwatch::start(), rss_bytes());
    let handle = engine.start(job, StartOptions::default()).await?;
    ensure!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson), "the run does not wait for a person");
    let mut measurement = watch.stop(0, 1);
    measurement.set("rss_per_task_bytes", (rss_bytes() - empty) / n as f64);
    let questions = handle.open_questions().await;
    ensure!(questions.len() == n, "{} questions are open instead of {n}", questions.len());

    let idle = cpu_seconds();
    tokio::time::sleep(Duration::from_secs(1)).await;
    measurement.set("idle_cpu_s", cpu_seconds() - idle);

    let answers = n.min(ANSWERS);
    let mut chosen: Vec<_> = questions.iter().step_by(n / answers).take(answers).cloned().collect();
    drop(questions);
    let last = chosen.pop().context("there is no question")?;
    let mut waits = Vec::with_capacity(answers);
    for question in &chosen {
        waits.push(wake(&handle, question, &mut wakes).await?);
    }
    let through = place.store.run(handle.id()).await?.context("the run is unknown")?.last_seq;
    waits.push(wake(&handle, &last, &mut wakes).await?);
    ended(&handle, through, &last.asker).await?;
    waits.sort_unstable();
    measurement.set("wake_p50_us", percentile(&waits, 50));
    measurement.set("wake_p99_us", percentile(&waits, 99));
    measurement.set("answered", answers as f64);
    // Where every question was answered, the run ends.
    ensure!(matches!(handle.stop().await, RunOutcome::Stopped | RunOutcome::Ended { .. }), "the run did not stop");
    Ok(measurement)
}

/// Answers `question`; how long it took until the asker's model was asked again.
async fn wake(
    handle: &RunHandle,
    question: &OpenQuestion,
    wakes: &mut mpsc::UnboundedReceiver<(TaskId, Instant)>,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    handle.answer(question.task.clone(), &Principal::program("bench"), Json::from(&json!("Yes.")), Vec::new()).await?;
    let (task, woke) = wakes.recv().await.context("the model went away")?;
    ensure!(task == question.asker, "{task} woke instead of {}", question.asker);
    Ok(woke - began)
}

/// Waits until `asker` has ended, which it does after entry `through`.
async fn ended(handle: &RunHandle, through: u64, asker: &TaskId) -> anyhow::Result<()> {
    let mut entries = handle.entries_after(through);
    while let Some(recorded) = entries.try_next().await? {
        if matches!(&recorded.entry, Entry::TaskEnded(ended) if ended.task == *asker) {
            return Ok(());
        }
    }
    bail!("{asker} did not end")
}

/// Returns the value that `percent` of the sorted `waits` do not exceed, in microseconds.
pub(super) fn percentile(waits: &[Duration], percent: usize) -> f64 {
    let rank = (waits.len() * percent).div_ceil(100).max(1);
    waits.get(rank - 1).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e6)
}

fn answer(request: &ModelRequest, n: usize) -> ModelTurn {
    match (request.agent.as_str(), request.turn) {
        ("root", 1) => {
            let leads = (0..n).step_by(ASKERS_OF_A_LEAD).map(|first| {
                let askers = (n - first).min(ASKERS_OF_A_LEAD);
                ModelCall::new("route_to_lead", json!({"request": format!("{first}={askers}"), "documents": []}))
            });
            ModelTurn::calls(leads.collect())
        }
        ("lead", 1) => delegations("route_to_asker", number(request)),
        ("asker", 1) => call("ask_master", json!({"question": "Shall I continue?"})),
        _ => ModelTurn::text("done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_wait_that_was_measured() {
        let waits: Vec<_> = (1..=1_000).map(Duration::from_micros).collect();
        assert_eq!([50, 99].map(|percent| percentile(&waits, percent) as usize), [500, 990]);
        assert_eq!(percentile(&waits[..1], 99) as usize, 1);
        assert!(percentile(&[], 99).is_nan());
    }
}
