//! Joins of a turn's delegations and consequences of failures: the whole table, and its limits.

use expect_test::expect;
use std::sync::Arc;
use std::time::Duration;

use baton_machine::Run;
use baton_proof::jobs::{JobDraft, ToolDraft};
use baton_proof::random::Random;
use baton_proof::{Sim, agent, ask, call, check, function, handoff, job, route, says, started, turn};
use baton_types::call::{AfterExecution, CallError, CallStatus, ErrorCode, ModelCall};
use baton_types::config::{Configs, Join, JoinState, OnFailure, Retry, Tally};
use baton_types::entry::{Entry, Recorded};
use baton_types::event::{Event, Outcome};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::model::ModelTurn;
use baton_types::time::Timestamp;
use serde_json::json;

const JOINS: [Join; 8] = [
    Join::All,
    Join::FirstSuccess,
    Join::FailFast,
    Join::Quorum(1),
    Join::Quorum(2),
    Join::Quorum(3),
    Join::Quorum(4),
    Join::Quorum(5),
];

#[test]
fn the_state_is_that_of_the_table() {
    use JoinState::{Impossible, Met, Pending};
    //           join                  ok bad open
    let rows = [
        (Join::All, (0, 0, 1), Pending),
        (Join::All, (1, 1, 1), Pending),
        (Join::All, (0, 2, 0), Met),
        (Join::FirstSuccess, (0, 1, 1), Pending),
        (Join::FirstSuccess, (1, 0, 3), Met),
        (Join::FirstSuccess, (0, 2, 0), Impossible),
        (Join::FailFast, (2, 0, 1), Pending),
        (Join::FailFast, (3, 0, 0), Met),
        (Join::FailFast, (1, 1, 1), Impossible),
        (Join::Quorum(2), (1, 1, 1), Pending),
        (Join::Quorum(2), (2, 0, 1), Met),
        (Join::Quorum(2), (0, 2, 1), Impossible),
        (Join::Quorum(2), (1, 2, 0), Impossible),
        // More than the turn has: all are awaited.
        (Join::Quorum(3), (0, 1, 1), Pending),
        (Join::Quorum(3), (1, 1, 0), Met),
    ];
    for (join, (succeeded, failed, pending), expected) in rows {
        assert_eq!(join.state(Tally { succeeded, failed, pending }), expected, "{join} of {succeeded}/{failed}/{pending}");
    }
}

// ---- The whole table.

/// Outcomes of one attempt at a delegation.
const OUTCOMES: [CallStatus; 5] =
    [CallStatus::Success, CallStatus::Failed, CallStatus::Partial, CallStatus::Timeout, CallStatus::Cancelled];

/// The delegations by the text of the rules, without the machine: a status for each that has its result.
#[derive(Clone)]
struct Expected {
    join: Join,
    /// Further attempts of each.
    left: Vec<u32>,
    results: Vec<Option<CallStatus>>,
}

impl Expected {
    fn attempt_ends(&mut self, delegation: usize, status: CallStatus) {
        if matches!(status, CallStatus::Failed | CallStatus::Timeout) && self.left[delegation] > 0 {
            self.left[delegation] -= 1;
            return;
        }
        self.results[delegation] = Some(status);
        let needed = match self.join {
            Join::All => return,
            Join::FirstSuccess => 1,
            Join::FailFast => self.results.len(),
            Join::Quorum(least) => least as usize,
        };
        let there = self.results.iter().filter(|result| **result == Some(CallStatus::Success)).count();
        let open = self.results.iter().filter(|result| result.is_none()).count();
        if needed <= self.results.len() && (there >= needed || there + open < needed) {
            for result in &mut self.results {
                result.get_or_insert(CallStatus::Cancelled);
            }
        }
    }
}

/// A run in which the root has just delegated, and every possible continuation.
#[derive(Clone)]
struct Walk {
    run: Run,
    now: Timestamp,
    timeline: Vec<Recorded>,
}

impl Walk {
    /// Begins a run whose root delegates to as many agents as `retries` has numbers: the further attempts of each.
    fn begin(join: Join, retries: &[u32], pause: u32) -> Self {
        let names: Vec<String> = (0..retries.len()).map(|index| format!("worker{index}")).collect();
        let granted: Vec<String> = names.iter().map(|name| format!("route_to_{name}")).collect();
        let agents =
            std::iter::once(agent("root", &granted.join(" ")).join(join)).chain(names.iter().map(|name| agent(name, "last")));
        let routes = names.iter().zip(retries).filter(|(_, times)| **times > 0).map(|(name, times)| {
            ToolDraft::route(name).on_failure(OnFailure::Retry(Retry { times: *times, backoff_seconds: pause }))
        });
        let configs: Arc<Configs> = job(agents).tools(routes).tool(function("last").after(AfterExecution::Terminate)).build();
        let started = started(&configs);
        let mut walk = Self { run: Run::new(configs), now: Timestamp::from_micros(1_000_000), timeline: Vec::new() };
        walk.event(Event::Started { run: started, root: "root".into(), documents: Vec::new() });
        walk.answered(&TaskId::root(), names.iter().map(|name| route(name, "work")).collect());
        walk
    }

    fn event(&mut self, event: Event) {
        self.now = self.now.plus(Duration::from_millis(1));
        let decision = self.run.handle(self.now, event).expect("what happens is accepted");
        self.timeline.extend(decision.entries.into_iter().map(Arc::unwrap_or_clone));
    }

    fn answered(&mut self, task: &TaskId, calls: Vec<ModelCall>) {
        let answer = ModelTurn::calls(calls);
        self.event(Event::ModelAnswered { task: task.clone(), turn: 1, request: ContentHash::of(b""), answer, recorded: None });
    }

    /// Returns the attempt that works on each delegation, where one does.
    fn working(&self, delegations: usize) -> Vec<(usize, TaskId)> {
        let live = self.run.graph().iter().filter(|task| task.is_live() && task.id != TaskId::root());
        let found: Vec<(usize, TaskId)> = live
            .map(|task| {
                let (_, position) = task.id.originating_call().position().expect("every task here answers a call");
                (position as usize - 1, task.id.clone())
            })
            .collect();
        assert!(found.len() <= delegations, "a delegation has two attempts at once: {found:?}");
        found
    }

    /// Lets the agent of `task` end it with `status`, through a tool that ends its task.
    fn ends(&mut self, task: &TaskId, status: CallStatus) {
        self.answered(task, vec![call("last", "x")]);
        let outcome = match status {
            CallStatus::Success => Outcome::success(json!("worked")),
            other => Outcome::error(other, CallError::new(ErrorCode::ToolFailed, "it went wrong")),
        };
        self.event(Event::CallReturned { call: task.call(1, 1), outcome });
    }

    fn results(&self, delegations: usize) -> Vec<Option<CallStatus>> {
        let mut results = vec![None; delegations];
        for recorded in &self.timeline {
            if let Entry::CallFinished(finished) = &recorded.entry
                && finished.task == TaskId::root()
            {
                let (_, position) = finished.call.position().expect("a call has a position");
                let before = results[position as usize - 1].replace(finished.result.status);
                assert_eq!(before, None, "{} has two results", finished.call);
            }
        }
        results
    }

    /// Checks that no result of an ended task is lost: its call has it, or the call was tried again.
    fn check_nothing_is_lost(&self) {
        for recorded in &self.timeline {
            let Entry::TaskEnded(ended) = &recorded.entry else { continue };
            let call = ended.task.originating_call();
            let told = self.timeline.iter().any(|other| match &other.entry {
                Entry::CallFinished(finished) => finished.call == call && finished.result.status == ended.result.status,
                _ => false,
            });
            assert!(told || ended.retry_at.is_some(), "the result of {} is lost", ended.task);
        }
    }

    /// Checks that the root's agent is asked again, and that nothing else is left to do.
    fn check_rest(&self) {
        let root = self.run.task(&TaskId::root()).expect("the root exists");
        assert_eq!(root.turns, 2, "the caller is asked once more, and once only");
        assert_eq!(self.run.totals().live_tasks, 1, "only the caller lives");
        assert_eq!(self.run.next_wake(), None, "nothing is left to wait for");
        assert_eq!(self.run, Run::fold(Arc::clone(self.run.configs()), &self.timeline), "the run is the fold of its timeline");
        self.check_nothing_is_lost();
    }
}

/// Returns every next event, with one of `outcomes` where an attempt ends; none at the end, where all has come as it must.
fn branches(walk: &Walk, expected: &Expected, outcomes: &[CallStatus]) -> Vec<(Walk, Expected)> {
    let delegations = expected.results.len();
    assert_eq!(walk.results(delegations), expected.results, "{} with {:?} left", expected.join, expected.left);
    let working = walk.working(delegations);
    let mut branches = Vec::new();
    for (delegation, task) in working {
        for status in outcomes {
            let (mut walk, mut expected) = (walk.clone(), expected.clone());
            walk.ends(&task, *status);
            expected.attempt_ends(delegation, *status);
            branches.push((walk, expected));
        }
    }
    if let Some(wake) = walk.run.next_wake() {
        // While attempts wait, time may pass and another process may take over.
        let mut walk = walk.clone();
        let fold = Run::fold(Arc::clone(walk.run.configs()), &walk.timeline);
        walk.run = fold;
        walk.event(Event::TakenOver { process: "another".to_owned(), after_death: false });
        walk.now = walk.now.max(wake);
        walk.event(Event::TimePassed);
        branches.push((walk, expected.clone()));
    }
    if branches.is_empty() {
        assert!(expected.results.iter().all(Option::is_some), "{:?} is the end", expected.results);
        walk.check_rest();
    }
    branches
}

/// Explores every order of ends and every outcome in `outcomes`, from here on. Returns the number of ways.
fn explore(walk: &Walk, expected: &Expected, outcomes: &[CallStatus]) -> usize {
    let branches = branches(walk, expected, outcomes);
    let ways: usize = branches.iter().map(|(walk, expected)| explore(walk, expected, outcomes)).sum();
    ways.max(1)
}

fn begin(join: Join, retries: &[u32], pause: u32) -> (Walk, Expected) {
    let expected = Expected { join, left: retries.to_vec(), results: vec![None; retries.len()] };
    (Walk::begin(join, retries, pause), expected)
}

fn explore_all(retries: &[u32], pause: u32, outcomes: &[CallStatus]) -> usize {
    let of = |join| {
        let (walk, expected) = begin(join, retries, pause);
        explore(&walk, &expected, outcomes)
    };
    JOINS.map(of).iter().sum()
}

#[test]
fn every_join_ends_as_the_table_says_for_all_outcomes_and_orders_of_up_to_four_delegations() {
    for delegations in 1..=3 {
        explore_all(&vec![0; delegations], 0, &OUTCOMES);
    }
    let ways = explore_all(&[0; 4], 0, &OUTCOMES[..3]);
    // All orders and outcomes of `all` alone are 4! × 3⁴.
    assert!(ways > 24 * 81 * 2, "only {ways} ways were gone");
}

#[test]
fn every_join_ends_as_the_table_says_where_delegations_are_tried_again() {
    let outcomes = &OUTCOMES[..2];
    for retries in [&[1][..], &[2], &[1, 1], &[2, 1], &[0, 1, 1], &[1, 1, 1], &[0, 0, 0, 1], &[1, 0, 1, 0]] {
        explore_all(retries, 0, outcomes);
    }
}

/// `BATON_WHOLE_TABLE=1 cargo test --release -p baton-machine --test machine joins::` goes every way; everyday tests go some of
/// them, by chance, and some on which attempts wait.
#[test]
fn every_join_ends_as_the_table_says_where_all_of_four_delegations_are_tried_again() {
    let retries = [1; 4];
    if std::env::var_os("BATON_WHOLE_TABLE").is_some() {
        let (walk, expected) = begin(Join::All, &retries, 0);
        // With k of the four tried again: C(4, k) × 2⁴⁻ᵏ × 3ᵏ outcomes in (4 + k)! / 2ᵏ orders.
        assert_eq!(explore(&walk, &expected, &OUTCOMES[..3]), 384 + 5_760 + 38_880 + 136_080 + 204_120);
        println!("{} ways with each tried again once", explore_all(&retries, 0, &OUTCOMES[..3]));
        println!("{} ways without", explore_all(&[0; 4], 0, &OUTCOMES));
    }
    for seed in 0..300 {
        let mut random = Random::seeded(seed);
        let (join, pause) = (*random.pick(&JOINS), *random.pick(&[0, 30]));
        let mut here = begin(join, &retries, pause);
        loop {
            let mut branches = branches(&here.0, &here.1, &OUTCOMES);
            if branches.is_empty() {
                break;
            }
            here = branches.swap_remove(random.below(branches.len()));
        }
    }
}

#[test]
fn every_join_ends_as_the_table_says_whatever_happens_while_attempts_wait() {
    for retries in [&[1][..], &[2], &[1, 0], &[1, 1]] {
        explore_all(retries, 30, &[CallStatus::Success, CallStatus::Timeout]);
    }
}

// ---- What joins must not touch.

fn fan_out(join: Join) -> JobDraft {
    job([
        agent("root", "route_to_quick route_to_slow route_to_deep ask_master").join(join),
        agent("quick", ""),
        agent("slow", "work"),
        agent("deep", "route_to_slow"),
    ])
    .tool(function("work"))
}

#[test]
fn the_rest_of_the_turn_is_cancelled_with_all_below_it() {
    let sim = Sim::new(&fan_out(Join::FirstSuccess))
        .holding("work")
        .agent("root", [turn([route("deep", "d"), route("slow", "s"), route("quick", "q")]), turn([handoff("done")])])
        .agent("quick", [says("first")])
        .agent("slow", [turn([call("work", "a")])])
        .agent("deep", [turn([route("slow", "below")])])
        .start();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: route_to_deep, route_to_slow, route_to_quick
        0/1.1 route_to_deep started → deep
          0/1.1 created: task for deep, "d" master 0
        0/1.2 route_to_slow started → slow
          0/1.2 created: task for slow, "s" master 0
        0/1.3 route_to_quick started → quick
          0/1.3 created: task for quick, "q" master 0
          0/1.1 turn 1 asked
          0/1.2 turn 1 asked
          0/1.3 turn 1 asked
          0/1.1 turn 1: route_to_slow
          0/1.1/1.1 route_to_slow started → slow
            0/1.1/1.1 created: task for slow, "below" master 0/1.1
            0/1.1/1.1 turn 1 asked
          0/1.2 turn 1: work
          0/1.2/1.1 work started
          0/1.3 turn 1: "first"
          0/1.3 completed: success "first"
        0/1.3 route_to_quick success "first"
          0/1.1 closes [0/1.1/1.1]
          0/1.1/1.1 route_to_slow cancelled cancelled
          0/1.1 cancelled: cancelled cancelled
        0/1.1 route_to_deep cancelled cancelled
          0/1.2/1.1 work cancelled cancelled
          0/1.2 cancelled: cancelled cancelled
        0/1.2 route_to_slow cancelled cancelled
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn questions_of_the_turn_are_awaited_whatever_the_join_says() {
    let mut sim = Sim::new(&fan_out(Join::FirstSuccess))
        .agent("root", [turn([ask("which?"), route("quick", "q")]), turn([handoff("done")])])
        .agent("quick", [says("first")])
        .start();
    assert!(!sim.ended, "the question is open");
    sim.person_answers("0/1.1", "this one").unwrap();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success);
}

#[test]
fn a_success_that_ends_the_task_is_not_spoiled_by_what_the_join_cancelled() {
    let draft =
        job([agent("root", "route_to_quick route_to_slow").join(Join::FirstSuccess), agent("quick", ""), agent("slow", "work")])
            .tools([
                function("work"),
                ToolDraft::route("quick").after(AfterExecution::Terminate),
                ToolDraft::route("slow").after(AfterExecution::Terminate),
            ]);
    let sim = Sim::new(&draft)
        .holding("work")
        .agent("root", [turn([route("slow", "s"), route("quick", "q")])])
        .agent("quick", [says("first")])
        .agent("slow", [turn([call("work", "a")])])
        .start();
    sim.assert_over();
    let result = sim.task("0").result.clone().unwrap();
    assert_eq!((result.status, &*result.output.text()), (CallStatus::Success, r#""first""#));
}

#[test]
fn a_refused_delegation_counts_for_nothing() {
    // Of two delegations one names a document that is not there: a quorum of two is then more than the turn has.
    let sim = Sim::new(&fan_out(Join::Quorum(2)))
        .agent(
            "root",
            [turn([baton_proof::route_with("slow", "s", &["missing.md"]), route("quick", "q")]), turn([handoff("done")])],
        )
        .agent("quick", [says("first")])
        .start();
    sim.assert_over();
    assert!(sim.ledger.calls[&CallId::from("0/1.1")].refused);
    assert_eq!(sim.result("0/1.2").status, CallStatus::Success);
}

#[test]
fn what_the_join_cancels_is_told_whether_it_was_met() {
    let told = |join: Join, quick: Result<ModelTurn, CallError>| {
        let sim = Sim::new(&fan_out(join))
            .holding("work")
            .agent("root", [turn([route("slow", "s"), route("quick", "q")]), turn([handoff("done")])])
            .agent_with("quick", move |_| quick.clone())
            .agent("slow", [turn([call("work", "a")])])
            .start();
        sim.assert_over();
        sim.result("0/1.1").error.expect("it was cancelled").message
    };
    let met = told(Join::FirstSuccess, Ok(says("first")));
    assert!(met.contains("which was met: 1 of its 2 delegations succeeded"), "{met}");
    let unmet = told(Join::Quorum(2), Err(Sim::model_error()));
    assert!(unmet.contains("which can no longer be met: 0 of its 2 delegations succeeded"), "{unmet}");
}
