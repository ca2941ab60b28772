//! Adopted configs: a migration, and the first own entry of a fork.

use std::sync::Arc;
use std::time::Duration;

use baton_machine::Run;
use baton_types::config::{Configs, EffectClass};
use baton_types::entry::{Adoption, Entry, Fork, ForkPoint, ForkedEffects, Notice};
use baton_types::event::{Effect, Event, Refusal};
use baton_types::id::{ContentHash, RunId, TaskId};
use baton_types::limits::Limits;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, ask, call, function, handoff, job, note, route, says, turn};

fn adoption() -> Adoption {
    let configs = ContentHash::of(b"other configs");
    Adoption { changes: vec!["job.json: limits".to_owned()], ..Adoption::of(configs) }
}

fn forking(at: Timestamp) -> Adoption {
    let from = ForkPoint { run: RunId::new("run"), seq: 3 };
    let fork = Fork { run: RunId::new("fork"), from, at, effects: ForkedEffects::default() };
    Adoption { fork: Some(fork), ..adoption() }
}

/// Returns the run of `sim`, read back, which adopts `configs`.
fn adopting(sim: &Sim, configs: &Arc<Configs>, adoption: Adoption, at: Timestamp) -> Result<(Run, Vec<Effect>), Refusal> {
    let mut run = sim.fold();
    run.know_configs(adoption.configs, Arc::clone(configs));
    let decision = run.handle(at, Event::Adopted { adoption, documents: Vec::new(), by: Principal::person("ada") })?;
    Ok((run, decision.effects))
}

fn later(sim: &Sim) -> Timestamp {
    sim.now.plus(Duration::from_secs(100))
}

fn tokens(tokens: u64) -> Limits {
    Limits { tokens: Some(tokens), ..Limits::default() }
}

/// Returns a root that waits for two children; each has made one call of `post`, which has a result, and one that runs.
fn two_children() -> Sim {
    let mut sim = Sim::new(&team("post", Limits::default(), Limits::default(), "children"))
        .agent("root", [turn([route("child", "a"), route("other", "b")])])
        .agent("child", [turn([call("post", "1"), call("post", "2")])])
        .agent("other", [turn([call("post", "1"), call("post", "2")])])
        .holding("post")
        .start();
    for call in ["0/1.1/1.1", "0/1.2/1.1"] {
        sim.returned(call, baton_types::event::Outcome::success(serde_json::json!("posted"))).unwrap();
    }
    sim
}

fn team(tool: &str, run: Limits, child: Limits, prompt: &str) -> JobDraft {
    let agents = [
        agent("root", "route_to_child route_to_other ask_master").prompt(prompt),
        agent("child", tool).limits(child),
        agent("other", tool),
    ];
    job(agents).tool(function(tool)).limits(run)
}

#[test]
fn a_run_goes_on_by_what_it_adopted() {
    let sim = two_children();
    let other = team("post", Limits { turns: Some(7), ..Limits::default() }, Limits::default(), "children").build();
    let (run, _) = adopting(&sim, &other, adoption(), later(&sim)).unwrap();
    assert!(Arc::ptr_eq(run.configs(), &other));
    assert_eq!(run.started().unwrap().configs, adoption().configs);
    assert_eq!(run.started().unwrap().run.as_str(), sim.name, "a migration is the same run");
    assert_eq!(run.started().unwrap().forked_from, None);
    assert_eq!(run.last_seq(), sim.timeline.len() as u64 + (run.last_seq() - sim.run.last_seq()));
    assert!(run.last_seq() > sim.run.last_seq());
    assert_ne!(run, sim.fold(), "it is no longer what it was");
    assert_eq!(sim.fold(), sim.fold());
}

#[test]
fn work_started_by_an_adoption_follows_the_new_limits() {
    let of = |parallel_calls| {
        let limits = Limits { parallel_calls: Some(parallel_calls), ..Limits::default() };
        job([agent("root", "look")]).tool(function("look").effect(EffectClass::Pure)).limits(limits)
    };
    let sim = Sim::new(&of(1)).agent("root", [turn([call("look", "1"), call("look", "2")])]).holding("look").start();
    let begun = |parallel_calls| {
        let (_, effects) = adopting(&sim, &of(parallel_calls).build(), adoption(), later(&sim)).unwrap();
        effects.iter().filter(|effect| matches!(effect, Effect::Execute { .. })).count()
    };
    assert_eq!((begun(1), begun(2)), (1, 2));
}

#[test]
fn a_fork_is_another_run_that_says_where_it_comes_from() {
    let sim = two_children();
    let (run, _) = adopting(&sim, &sim.configs, forking(sim.now), later(&sim)).unwrap();
    let started = run.started().unwrap();
    assert_eq!((started.run.as_str(), started.forked_from.as_ref().map(|from| from.seq)), ("fork", Some(3)));
}

#[test]
fn everything_that_configs_lack_is_said_at_once() {
    let sim = two_children();
    let reasons = |draft: &JobDraft| match adopting(&sim, &draft.build(), adoption(), later(&sim)) {
        Err(Refusal::CannotAdopt { reasons }) => reasons,
        other => panic!("adopted: {:?}", other.map(|(_, effects)| effects)),
    };
    let without_tool = reasons(&team("publish", Limits::default(), Limits::default(), "children"));
    assert_eq!(
        without_tool,
        [
            "the configs lack tool post, for which call 0/1.1/1.2 waits",
            "the configs lack tool post, for which call 0/1.2/1.2 waits"
        ],
        "calls that have their results need no tool"
    );
    let agents = [agent("root", "route_to_child"), agent("child", "post")];
    let without_agent = reasons(&job(agents).tool(note("post")));
    assert_eq!(
        without_agent,
        [
            "the configs lack tool route_to_other, for which call 0/1.2 waits",
            "call 0/1.1/1.2 waits for tool post as a function_tool, which is a non_function_tool in them",
            "the configs lack agent other, which holds task 0/1.2",
            "call 0/1.2/1.2 waits for tool post as a function_tool, which is a non_function_tool in them",
        ]
    );
}

#[test]
fn the_tool_of_an_open_inner_call_is_needed() {
    let of = |tools: &[&str]| {
        let granted = tools.join(" ");
        let tools = tools.iter().map(|tool| match *tool {
            "flow" => function("flow").effect(EffectClass::Pure).calls(&["*"]),
            other => function(other),
        });
        job([agent("root", &granted)]).tools(tools)
    };
    let turns = [turn([call("flow", "a")]), turn([handoff("done")])];
    let mut sim = Sim::new(&of(&["flow", "post", "look"])).agent("root", turns).holding("flow").holding("post").start();
    sim.makes("0/1.1", "done", call("look", "b")).unwrap();
    sim.makes("0/1.1", "open", call("post", "c")).unwrap();
    let refused = adopting(&sim, &of(&["flow", "look"]).build(), adoption(), later(&sim)).unwrap_err();
    let reasons = vec!["the configs lack tool post, for which call 0/1.1:open waits".to_owned()];
    assert_eq!(refused, Refusal::CannotAdopt { reasons });
    let (run, effects) = adopting(&sim, &of(&["flow", "post"]).build(), adoption(), later(&sim)).unwrap();
    assert!(run.ended().is_none() && !effects.is_empty(), "the tool of an inner call with its result is not needed");
}

#[test]
fn what_was_spent_before_counts_towards_limits_that_are_new() {
    let sim = two_children();
    let whole: u64 = ["0", "0/1.1", "0/1.2"].iter().map(|task| used(&sim, task)).sum();
    let budget =
        |run: &Run, task: &str| run.task(&TaskId::from(task)).unwrap().work().budget.as_ref().map(|budget| budget.tokens);
    let limited = |run, child| adopting(&sim, &team("post", run, child, "children").build(), adoption(), later(&sim)).unwrap().0;

    let child = limited(Limits::default(), tokens(1_000_000));
    assert_eq!(budget(&child, "0/1.1"), Some(used(&sim, "0/1.1")), "its own and what is below it, not what is beside it");
    assert_eq!((budget(&child, "0"), budget(&child, "0/1.2")), (None, None), "who has no limit keeps no books");
    assert!(child.totals().has_budgets);

    let agents = [
        agent("root", "route_to_child route_to_other ask_master").limits(tokens(1_000_000)),
        agent("child", "post"),
        agent("other", "post"),
    ];
    let root = adopting(&sim, &job(agents).tool(function("post")).build(), adoption(), later(&sim)).unwrap().0;
    assert_eq!(budget(&root, "0"), Some(whole));

    assert!(limited(tokens(1_000_000), Limits::default()).totals().has_budgets);
    assert!(!limited(Limits::default(), Limits::default()).totals().has_budgets);
}

fn used(sim: &Sim, task: &str) -> u64 {
    let used = sim.run.task(&TaskId::from(task)).unwrap().work().usage.total();
    assert!(used > 0, "{task} has made a request");
    used
}

#[test]
fn limits_that_were_kept_go_on_being_kept() {
    let mut sim = Sim::new(&team("post", tokens(1_000_000), tokens(500_000), "children"))
        .agent("root", [turn([route("child", "a")])])
        .agent("child", [turn([call("post", "1")])])
        .holding("post")
        .start();
    sim.settle();
    let before = sim.run.task(&TaskId::from("0/1.1")).unwrap().work().budget.clone();
    assert!(before.is_some());
    let draft = team("post", Limits::default(), tokens(500_000), "children");
    let (run, _) = adopting(&sim, &draft.build(), adoption(), later(&sim)).unwrap();
    assert_eq!(run.task(&TaskId::from("0/1.1")).unwrap().work().budget.clone(), before);
    assert!(run.totals().has_budgets, "the books that were begun are kept");
}

#[test]
fn a_prompt_of_another_length_is_counted_in_the_context() {
    let sim = two_children();
    let tokens = |run: &Run| run.task(&TaskId::root()).unwrap().context_tokens;
    let short = tokens(&sim.run);
    let longer = team("post", Limits::default(), Limits::default(), &format!("children{}", "x".repeat(4_000)));
    let (run, _) = adopting(&sim, &longer.build(), adoption(), later(&sim)).unwrap();
    assert_eq!(tokens(&run), short + 1_000);
}

#[test]
fn a_fork_of_a_paused_run_is_not_paused_and_a_migrated_one_is() {
    let mut sim = two_children();
    let before = sim.run.clone();
    sim.event(Event::PauseRequested { by: Principal::person("ada") }).unwrap();
    assert_ne!(sim.run, before, "runs with the same tasks differ if one of them is paused");
    let (migrated, _) = adopting(&sim, &sim.configs, adoption(), later(&sim)).unwrap();
    assert!(migrated.totals().paused);
    let (forked, _) = adopting(&sim, &sim.configs, forking(sim.now), later(&sim)).unwrap();
    assert!(!forked.totals().paused);
    let unpaused = two_children();
    let (migrated, _) = adopting(&unpaused, &unpaused.configs, adoption(), later(&unpaused)).unwrap();
    assert!(!migrated.totals().paused);
}

#[test]
fn an_adoption_while_a_reminder_is_due_does_not_end_the_turn_without_calls() {
    let by = || Principal::person("ada");
    let mut sim = Sim::new(&job([agent("root", "post").reminded_on_text()]).tool(function("post")))
        .agent("root", [says("I will do it"), turn([handoff("done")])]);
    sim.begin(Vec::new());
    sim.event(Event::PauseRequested { by: by() }).unwrap();
    sim.settle();
    let (mut run, _) = adopting(&sim, &sim.configs, adoption(), later(&sim)).unwrap();
    assert!(run.task(&TaskId::root()).unwrap().is_live(), "a turn without calls is no turn whose results all went to the user");
    let decision = run.handle(later(&sim), Event::UnpauseRequested { by: by() }).unwrap();
    let reminds = |entry: &Entry| matches!(entry, Entry::ModelRequested(asked) if matches!(asked.notice, Some(Notice::Reminder { count: 1, .. })));
    assert!(decision.entries.iter().any(|recorded| reminds(&recorded.entry)), "{decision:?}");
}

#[test]
fn the_time_between_a_run_and_its_fork_does_not_pass_for_the_fork() {
    let limits = Limits { deadline_seconds: Some(1_000), ..Limits::default() };
    let sim = Sim::new(&team("post", Limits::default(), limits, "children"))
        .agent("root", [turn([route("child", "a")])])
        .agent("child", [turn([call("post", "1")])])
        .holding("post")
        .start();
    let deadline = |run: &Run| run.task(&TaskId::from("0/1.1")).unwrap().deadline.unwrap();
    let between = later(&sim).since(sim.now);
    let (forked, _) = adopting(&sim, &sim.configs, forking(sim.now), later(&sim)).unwrap();
    assert_eq!(deadline(&forked), deadline(&sim.run).plus(between));
    assert_eq!(forked.next_wake(), sim.run.next_wake().map(|wake| wake.plus(between)));
    let (migrated, _) = adopting(&sim, &sim.configs, adoption(), later(&sim)).unwrap();
    assert_eq!(deadline(&migrated), deadline(&sim.run));
}

#[test]
fn an_entry_names_the_contents_that_it_needs() {
    let sim = Sim::new(&team("post", Limits::default(), Limits::default(), "children"))
        .agent("root", [turn([ask("?")])])
        .start_with(vec![crate::support::write("a.md", "text")]);
    let named = |wanted: fn(&Entry) -> bool| {
        sim.timeline.iter().find(|recorded| wanted(&recorded.entry)).map(|recorded| recorded.entry.content())
    };
    assert_eq!(named(|entry| matches!(entry, Entry::RunStarted(_))), Some(Some(sim.run.started().unwrap().configs)));
    assert_eq!(named(|entry| matches!(entry, Entry::DocumentWritten(_))), Some(Some(ContentHash::of(b"text"))));
    assert_eq!(named(|entry| matches!(entry, Entry::TaskCreated(_))), Some(None));
    let run = sim.fold();
    let event = Event::Adopted { adoption: adoption(), documents: Vec::new(), by: Principal::person("ada") };
    let mut run = run;
    run.know_configs(adoption().configs, Arc::clone(&sim.configs));
    let decision = run.handle(later(&sim), event).unwrap();
    let adopted = &decision.entries[0].entry;
    assert_eq!((adopted.adopts(), adopted.content()), (Some(&adoption()), Some(adoption().configs)));
    assert!(sim.timeline.iter().all(|recorded| recorded.entry.adopts().is_none()));
    let created = sim.entries().find(|entry| matches!(entry, Entry::TaskCreated(_))).unwrap();
    assert!(!serde_json::to_string(created).unwrap().contains("failed_attempts"), "what is nothing is not written");
}

#[test]
fn a_question_to_a_person_is_open_until_it_is_answered() {
    let agents =
        [agent("root", "route_to_asker route_to_worker"), agent("asker", "ask_master").asks_a_person(), agent("worker", "work")];
    let mut sim = Sim::new(&job(agents).tool(function("work")))
        .agent("root", [turn([route("asker", "a"), route("worker", "b")]), turn([handoff("done")])])
        .agent("asker", [turn([ask("?")]), turn([handoff("asked")])])
        .agent("worker", [turn([call("work", "a")]), turn([handoff("worked")])])
        .holding("work")
        .start();
    assert!(!Run::new(Arc::clone(&sim.configs)).waits_only_for_people(), "a run that has not begun waits for nobody");
    let open = |sim: &Sim| sim.run.open_questions().map(|task| task.id.to_string()).collect::<Vec<_>>();
    assert!(!sim.run.waits_only_for_people(), "a function runs");
    assert_eq!(open(&sim), ["0/1.1/1.1"]);
    sim.release("work");
    assert!(sim.run.waits_only_for_people());
    sim.person_answers("0/1.1/1.1", "yes").unwrap();
    assert_eq!(open(&sim), Vec::<String>::new());
    assert!(!sim.run.waits_only_for_people());
    sim.assert_over();
    assert!(!sim.run.waits_only_for_people(), "an ended run waits for nobody");
}

#[test]
fn the_graph_knows_who_called_whom() {
    let sim = two_children();
    let graph = sim.run.graph();
    let caller = |task: &str| graph.caller(&TaskId::from(task)).map(|caller| caller.id.to_string());
    assert_eq!(graph.iter().map(|task| task.id.to_string()).collect::<Vec<_>>(), ["0", "0/1.1", "0/1.2"]);
    assert_eq!(["0", "0/1.1", "0/1.2"].map(caller), [None, Some("0".to_owned()), Some("0".to_owned())]);
    let mut further = two_children();
    assert_eq!(*graph, *further.run.graph());
    further.cancel("0/1.2").unwrap();
    assert_ne!(*graph, *further.run.graph(), "the same tasks stand elsewhere");
    assert_ne!(*graph, *Sim::new(&team("post", Limits::default(), Limits::default(), "children")).run.graph());
}
