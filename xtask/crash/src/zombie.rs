//! Zombies: an owner is stopped, another process takes its run over, and the old one wakes up again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use baton_store::failpoint;
use baton_timeline::sentence;

use crate::ledger;
use crate::run::Timeline;
use crate::scene::{Case, PassName, Scene, Step};
use crate::sweep::Random;

/// Exit code of a process whose run was taken over.
const TAKEN: i32 = 130;

/// Figures about zombies.
#[derive(Clone, Debug, Default)]
pub struct ZombieFigures {
    /// Owners that were stopped right before a commit, and reached that commit after another process had ended the
    /// run.
    pub attempts: usize,
    /// Number of those commits that were accepted.
    pub accepted: usize,
    /// Violations.
    pub violations: Vec<String>,
}

/// Makes `count` zombies of owners of the job, each stopped before one of its commits.
///
/// `jobs` of them are tried at the same time; `seed` chooses the commits when there are more zombies than commits.
pub fn zombies(case: &Case, count: usize, seed: u64, jobs: usize) -> anyhow::Result<ZombieFigures> {
    let scene = Scene::new(case)?;
    let undisturbed = scene.run(&Step::Run, None)?;
    let commits: Vec<PassName> =
        undisturbed.passes.iter().filter(|pass| pass.place == "store.append.before").map(|pass| pass.name).collect();
    ensure!(!commits.is_empty(), "the job commits nothing after its start");
    let mut random = Random(seed);
    // Every commit first, then any.
    let chosen: Vec<PassName> =
        (0..count).map(|number| commits.get(number).copied().unwrap_or_else(|| commits[random.below(commits.len())])).collect();

    let next = AtomicUsize::new(0);
    let figures = Mutex::new(ZombieFigures::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(pass) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = zombie(case, *pass);
                    let mut figures = figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match tried {
                        Ok(Tried { attempted, accepted, violation }) => {
                            figures.attempts += usize::from(attempted);
                            figures.accepted += accepted;
                            figures.violations.extend(violation.map(|what| format!("stopped at pass {pass}: {what}")));
                        }
                        Err(error) => figures.violations.push(format!("stopped at pass {pass}: {error:#}")),
                    }
                }
            });
        }
    });
    Ok(figures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

struct Tried {
    /// Whether the zombie reached its commit.
    attempted: bool,
    accepted: usize,
    violation: Option<String>,
}

fn zombie(case: &Case, pass: PassName) -> anyhow::Result<Tried> {
    let scene = Scene::new(case)?;
    let owner = scene.start(&Step::Run, &BTreeMap::from([(failpoint::ENV_STOP, pass.to_string())]))?;
    // In a job whose commits are not always the same, it may have ended first.
    if !owner.has_stopped()? {
        return Ok(Tried { attempted: false, accepted: 0, violation: None });
    }
    let next = scene.run(&Step::Resume, None)?;
    ensure!(next.status.success(), "the process that took over ended with {}: {}", next.status, next.stderr.trim());
    let before = scene.timeline()?.context("the run is gone")?;
    owner.resume_process()?;
    let owner = scene.finish(owner)?;
    let after = scene.timeline()?.context("the run is gone")?;
    let attempted = owner
        .passes
        .iter()
        .any(|passed| passed.name.is_write && passed.name.number > pass.number && passed.place == "store.append.after");
    let printed = &owner.printed;
    let violation = if owner.status.code() != Some(TAKEN) || !owner.stderr.contains("has taken over run") {
        Some(format!("the zombie ended with {}: {}", owner.status, owner.stderr.trim()))
    } else if let Some(lost) = after.lacks(printed) {
        Some(format!("entry {} ({}), which the zombie printed, is lost", lost.seq, sentence(lost)))
    } else {
        let twice = ledger::effects(&scene.ledger())?.into_iter().find(|(_, count)| *count > 1);
        twice.map(|((tool, key), count)| format!("{tool} took effect {count} times for {key}"))
    };
    Ok(Tried { attempted, accepted: usize::from(is_changed(&before, &after)), violation })
}

fn is_changed(before: &Timeline, after: &Timeline) -> bool {
    before.record != after.record || before.entries != after.entries
}
