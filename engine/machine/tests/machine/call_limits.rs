//! Calls are counted, refused ones too, and the call beyond a limit is refused.

use baton_proof::script::Prompted;
use baton_proof::{Sim, agent, ask, call, function, handoff, job, note, route, turn};
use baton_types::call::ErrorCode;
use baton_types::limits::Limits;

fn calls(allowed: u32) -> Limits {
    Limits { calls: Some(allowed), ..Limits::default() }
}

#[test]
fn the_call_beyond_the_limit_is_refused_and_a_handoff_never_is() {
    let draft = job([agent("root", "work jot route_to_child ask_master").limits(calls(4)), agent("child", "")])
        .tools([function("work"), note("jot")]);
    let mut sim = Sim::new(&draft)
        .agent(
            "root",
            [
                turn([call("work", "a"), call("jot", "b")]),
                turn([route("child", "c"), ask("?"), call("work", "beyond")]),
                turn([call("work", "beyond")]),
                turn([handoff("done")]),
            ],
        )
        .agent("child", [turn([handoff("child")])])
        .start();
    sim.person_answers("0/2.2", "yes").expect("the question is open");
    sim.assert_over();
    let beyond = |call| (call, ErrorCode::LimitReached);
    assert_eq!(sim.refusals(), [beyond("0/2.3"), beyond("0/3.1")], "a call of each kind counts");
    assert_eq!(sim.run.totals().calls, 4);
}

#[test]
fn refused_calls_count_so_that_they_come_to_an_end() {
    let draft = job([agent("root", "work").limits(calls(3))]).tool(function("work"));
    let sim = Sim::new(&draft)
        .agent("root", [turn((0..100).map(|_| call("nothing", "x"))), turn([call("work", "a")]), turn([handoff("done")])])
        .start();
    sim.assert_over();
    let unknown = sim.refusals().iter().filter(|(_, code)| *code == ErrorCode::UnknownTool).count();
    assert_eq!((unknown, sim.refusals().len()), (3, 101), "the others are beyond the limit, and so is the call after them");
    assert_eq!(sim.run.totals().calls, 3);
}

#[test]
fn parallel_tasks_share_the_calls_of_the_run() {
    for allowed in 0..12 {
        let draft = job([agent("root", "route_to_child"), agent("child", "work")]).tool(function("work")).limits(calls(allowed));
        let busy = |prompted: &Prompted<'_>| {
            Ok(match (prompted.request.agent.as_str(), prompted.turn) {
                ("root", 1) => turn((0..4).map(|child| route("child", &child.to_string()))),
                ("child", 1) => turn([call("work", "a"), call("work", "b")]),
                _ => turn([handoff("done")]),
            })
        };
        let sim = Sim::new(&draft).agent_with("root", busy).agent_with("child", busy).by_chance(u64::from(allowed)).start();
        sim.assert_over();
        assert_eq!(sim.run.totals().calls, allowed.min(12), "all that are allowed are made and none more");
    }
}

#[test]
fn a_call_that_a_limit_refuses_when_it_acts_makes_room_for_another() {
    let limits = Limits { children: Some(0), calls: Some(1), ..Limits::default() };
    let draft = job([agent("root", "work route_to_child").limits(limits), agent("child", "")]).tool(function("work"));
    let sim =
        Sim::new(&draft).agent("root", [turn([route("child", "x")]), turn([call("work", "a")]), turn([handoff("done")])]).start();
    sim.assert_over();
    assert_eq!(sim.refusals(), [("0/1.1", ErrorCode::LimitReached)]);
}
