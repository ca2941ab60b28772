//! The program dies at every place of the sales job, and tools with a wrong effect class are detected.

use std::path::Path;

use baton_crash::{At, Case, Plan, Shape, StrayFigures, Sweep, Trial, Violation, lay_out, ledger_configs, strays, zombies};

/// Two at a time, nothing at random.
const PLAN: Plan = Plan { nested: Some(0), random: 0, seed: 1, jobs: 2 };

fn case(job: &Path) -> Case {
    Case {
        name: "test".to_owned(),
        job: job.to_owned(),
        program: env!("CARGO_BIN_EXE_baton-victim").into(),
        tool_configs: ledger_configs(),
        scratch: None,
        without: Vec::new(),
    }
}

fn q3_sales() -> Case {
    case(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/q3-sales"))
}

#[test]
fn a_process_killed_at_any_place_of_the_sales_job_loses_and_repeats_nothing() {
    let plan = Plan { nested: Some(8), random: 4, ..PLAN };
    let case = q3_sales();
    let figures = Sweep::begin(&case, &plan).unwrap().run();
    assert_eq!(figures.violations, []);
    assert_eq!(figures.errors, []);
    assert!(figures.writes >= 10, "only {} writes", figures.writes);
    // Threads may put two results into one commit, so a place that was listed is not always come to.
    assert!(figures.kills + figures.missed >= figures.places && figures.missed <= 4, "{figures:?}");
    assert!(figures.nested >= 8, "{figures:?}");
    assert_eq!(figures.in_doubt, 0, "its calls are pure");
    assert!(figures.verified >= figures.kills, "the checker does not know the job's tools: {figures:?}");
}

#[test]
fn calls_that_a_kill_interrupts_are_in_doubt_exactly_if_they_must_not_be_repeated() {
    let functions = ["call.run.before", "tool.effect.before", "tool.effect.after", "call.run.after"];
    let commands = ["exec.start.before", "exec.start.after", "exec.reap.before", "exec.reap.after"];
    for (shape, places) in [(Shape::Effects, functions), (Shape::Commands, commands)] {
        let folder = tempfile::tempdir().unwrap();
        let case = case(&lay_out(shape, folder.path()).unwrap());
        let sweep = Sweep::begin(&case, &PLAN).unwrap();
        let mut doubts = 0;
        for place in places {
            let figures = sweep.run_one(&[(0, first(&sweep, place))]);
            assert_eq!((figures.violations, figures.errors), (Vec::new(), Vec::new()), "{place}");
            doubts += figures.in_doubt;
        }
        assert!(doubts > 0, "no call was in flight");
    }
}

#[test]
fn a_tool_that_is_called_keyed_and_ignores_its_key_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = case(&lay_out(Shape::Effects, folder.path()).unwrap());
    for (_, text) in &mut case.tool_configs {
        *text = text.replace("at_most_once", "keyed");
    }
    let sweep = Sweep::begin(&case, &PLAN).unwrap();
    // Ten calls run at the same time, in another order each time: what has had its effect when the process dies is found out.
    let mut duplicated = 0;
    for number in 0..10 {
        let figures = sweep.run_one(&[(0, nth(&sweep, "tool.effect.after", number))]);
        duplicated += figures.duplicated;
        let of_effects = |(_, violation): &(_, Violation)| matches!(violation, Violation::Duplicated(_));
        assert!(figures.violations.iter().all(of_effects), "{figures:?}");
    }
    assert!(duplicated > 0, "no effect was repeated");
}

#[test]
fn an_entry_that_was_told_otherwise_is_missed() {
    let case = q3_sales();
    let outcome = Trial { case: &case, kills: [].into() }.run(None).unwrap();
    let mut printed = outcome.processes[0].1.printed.clone();
    assert_eq!(printed.len(), outcome.timeline.entries.len());
    assert_eq!(outcome.timeline.lacks(&printed), None);
    printed[5].entry = printed[6].entry.clone();
    assert_eq!(outcome.timeline.lacks(&printed).map(|printed| printed.seq), Some(6));
    let mut shorter = outcome.timeline.clone();
    shorter.entries.truncate(7);
    assert!(shorter.begins(&outcome.timeline) && !outcome.timeline.begins(&shorter));
    shorter.entries.remove(3);
    assert!(!shorter.begins(&outcome.timeline) && shorter.gap() == Some(4));
}

#[test]
fn an_owner_that_slept_while_another_took_its_run_over_commits_nothing() {
    let figures = zombies(&q3_sales(), 6, 1, 2).unwrap();
    assert_eq!(figures.violations, Vec::<String>::new());
    assert_eq!((figures.attempts, figures.accepted), (6, 0));
}

#[test]
fn commands_of_engines_that_are_killed_or_asked_to_end_are_gone_and_repeat_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let figures = strays(&case(&lay_out(Shape::Strays, folder.path()).unwrap()), 10, 1, 2);
    assert!(figures.are_sound(), "{figures:?}");
    assert!(figures.met >= 10 && figures.kills >= figures.met && figures.stores > 0, "{figures:?}");
}

/// Without what ends commands with their engine, the kit must count those that live on; without what ends them at the next
/// start too, those that run beside their next attempt.
#[test]
fn commands_that_nobody_ends_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = case(&lay_out(Shape::Strays, folder.path()).unwrap());
    case.without = vec!["exec.guard".to_owned()];
    assert_noticed(&case, |figures| figures.alive > 0);
    case.without.push("exec.former".to_owned());
    assert_noticed(&case, |figures| figures.alive > 0 && figures.overlaps > 0);
}

/// Asserts that `is_noticed` holds for one of five sweeps. One sweep may show nothing: after half of the kills the run is resumed at
/// once, and the new process ends old commands, unless `exec.former` is off.
#[track_caller]
fn assert_noticed(case: &Case, is_noticed: fn(&StrayFigures) -> bool) {
    let mut sweeps = Vec::new();
    // Run n uses seed + n. Seeds 100 apart keep the sweeps from repeating each other's runs.
    for seed in (1..=401).step_by(100) {
        let figures = strays(case, 5, seed, 2);
        if is_noticed(&figures) {
            assert!(!figures.are_sound(), "{figures:?}");
            return;
        }
        sweeps.push(figures);
    }
    panic!("{sweeps:?}");
}

/// Returns the first pass of `place` in the undisturbed run.
fn first(sweep: &Sweep<'_>, place: &str) -> At {
    nth(sweep, place, 0)
}

fn nth(sweep: &Sweep<'_>, place: &str, number: usize) -> At {
    let passes = &sweep.reference().processes[0].1.passes;
    At::Pass(passes.iter().filter(|pass| pass.place == place).nth(number).unwrap().name)
}
