//! The generated jobs: a tree of tasks with open questions, and a list of calls whose effects are counted.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

/// Branches of the tree, and tasks of each: five levels of sixteen.
const BRANCHES: usize = 16;
const LEVELS: usize = 5;

/// Branches whose last task asks a person; the others ask their master.
const ASKING_PEOPLE: usize = 3;

/// Turns of the list with [`CALLS_AT_ONCE`] calls, and turns with one call: 200 calls of keyed and `at_most_once` tools.
const BROAD_TURNS: usize = 16;
const CALLS_AT_ONCE: usize = 10;
const SINGLE_TURNS: usize = 40;

/// Twelve calls of commands: three turns with two, six with one.
const PAIRS_OF_COMMANDS: usize = 3;
const SINGLE_COMMANDS: usize = 6;

/// The command: notes an attempt, then an effect; with `once`, only if its key has none yet.
const EFFECT: &str = r#"# Usage: effect.sh TOOL always|once. The input on stdin differs for each call and is not needed here.
note() {
  printf '{"kind":"%s","key":"%s","tool":"%s","process":%s}\n' "$1" "$BATON_CALL_ID" "$2" "$$" >> "$BATON_LEDGER"
}
note attempt "$1"
if [ "$2" = always ] || ! grep -qs "\"kind\":\"effect\",\"key\":\"$BATON_CALL_ID\"" "$BATON_LEDGER"; then
  note effect "$1"
fi
printf '{"done":true}\n'
"#;

/// The command of [`Shape::Strays`]: holds a lock of its key, as does a child of it in another session; an attempt that finds
/// the lock held runs beside another one. It takes long enough to be met.
const STRAY: &str = r#"# Usage: stray.sh TOOL.
note() {
  printf '{"kind":"%s","key":"%s","tool":"%s","process":%s}\n' "$1" "$BATON_CALL_ID" "$2" "$$" >> "$BATON_LEDGER"
}
exec 9>> "$BATON_LEDGER-lock-$(printf %s "$BATON_CALL_ID" | tr / _)"
flock -n 9 || echo "$BATON_CALL_ID" >> "$BATON_LEDGER-overlaps"
note attempt "$1"
setsid sleep 30 < /dev/null > /dev/null 2>&1 &
sleep 0.15
note effect "$1"
printf '{"done":true}\n'
"#;

/// Turns of three calls each, of a tool of each effect that a resumed run treats in its own way.
const STRAY_TURNS: usize = 5;

/// A job that the kit makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// 80 tasks, five levels of sixteen, whose last ones ask: most of them their master, three a person.
    Tree,
    /// 200 calls of `keyed` and `at_most_once` tools, some alone in their turn and some ten at a time, and 20 `idempotent` ones.
    Effects,
    /// 12 calls of `exec` tools, `keyed` and `at_most_once`.
    Commands,
    /// 15 calls of commands that take a moment and start processes in sessions of their own.
    Strays,
}

impl Shape {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Effects => "effects",
            Self::Commands => "commands",
            Self::Strays => "strays",
        }
    }
}

/// Writes the job into a folder of its own below `folder`; returns it.
pub fn lay_out(shape: Shape, folder: &Path) -> anyhow::Result<PathBuf> {
    let (agents, script) = match shape {
        Shape::Tree => tree(),
        Shape::Effects => effects(),
        Shape::Commands => commands(),
        Shape::Strays => strays(),
    };
    let job = json!({
        "job_id": shape.name(),
        "description": "A job of the crash kit.",
        "root": agents[0]["agent_id"],
        "request": "Do it.",
        "models": {"scripted": {"provider": "scripted", "script": "the.script.json"}},
    });
    let place = folder.join(shape.name());
    std::fs::create_dir_all(place.join("agents")).context("a generated job cannot be written")?;
    let write = |file: &str, value: &Value| std::fs::write(place.join(file), format!("{value:#}\n"));
    write("job.json", &job)?;
    write("the.script.json", &json!({"agents": script}))?;
    if shape == Shape::Commands {
        std::fs::create_dir_all(place.join("tools"))?;
        std::fs::write(place.join("effect.sh"), EFFECT)?;
        for (id, effect, often) in [("command_append", "at_most_once", "always"), ("command_charge", "keyed", "once")] {
            write(&format!("tools/{id}.json"), &command(id, effect, &["sh", "effect.sh", id, often]))?;
        }
    }
    if shape == Shape::Strays {
        std::fs::create_dir_all(place.join("tools"))?;
        std::fs::write(place.join("stray.sh"), STRAY)?;
        for effect in STRAY_EFFECTS {
            let id = format!("stray_{effect}");
            write(&format!("tools/{id}.json"), &command(&id, effect, &["sh", "stray.sh", &id]))?;
        }
    }
    for agent in agents {
        write(&format!("agents/{}.json", agent["agent_id"].as_str().unwrap_or_default()), &agent)?;
    }
    Ok(place)
}

fn agent(id: &str, tools: &[String], more: &[(&str, Value)]) -> Value {
    let mut config = json!({
        "agent_id": id,
        "description": format!("Does the work of {id}."),
        "model": "scripted",
        "system_prompt": format!("You are {id}."),
        "tools": tools,
    });
    for (key, value) in more {
        config[*key] = value.clone();
    }
    config
}

fn call(tool: &str, input: Value) -> Value {
    json!({"tool": tool, "input": input})
}

fn turn(calls: &[Value]) -> Value {
    json!({"calls": calls})
}

/// Returns a root with sixteen branches, each a chain of five tasks. The last task writes the answer that it gets.
fn tree() -> (Vec<Value>, Value) {
    let branch = |number: usize| format!("branch-{number:02}");
    let route = |agent: &str, request: &str| call(&format!("route_to_{agent}"), json!({"request": request}));
    let hand_back = |document: &str| call("handoff", json!({"result": {"summary": document}, "documents": [document]}));
    let tools = |called: &[&str]| {
        let routes = called.iter().map(|agent| format!("route_to_{agent}"));
        routes.chain(["handoff".to_owned()]).collect::<Vec<_>>()
    };

    let mut agents = vec![agent("root", &tools(&["level-1"]), &[])];
    let mut script = json!({});
    let all: Vec<Value> = (1..=BRANCHES).map(|number| route("level-1", &branch(number))).collect();
    let documents: Vec<String> = (1..=BRANCHES).map(|number| format!("{}.md", branch(number))).collect();
    let end = call("handoff", json!({"result": {"summary": "All branches are done."}, "documents": documents}));
    script["root"] = json!({"turns": [turn(&all), turn(&[end])]});
    for level in 1..LEVELS {
        let (id, next) = (format!("level-{level}"), format!("level-{}", level + 1));
        let back = turn(&[hand_back("{{ request }}.md")]);
        if level + 1 < LEVELS {
            agents.push(agent(&id, &tools(&[&next]), &[]));
            script[&id] = json!({"turns": [turn(&[route(&next, "{{ request }}")]), back]});
        } else {
            agents.push(agent(&id, &tools(&["clerk", "scout"]), &[]));
            let people: Vec<String> = (1..=ASKING_PEOPLE).map(branch).collect();
            let to_scout = turn(&[route("scout", "{{ request }}")]);
            let condition = format!("not question and request in {}", json!(people));
            script[&id] = json!({
                "turns": [turn(&[route("clerk", "{{ request }}")]), back],
                "answers": [{"text": "Write it as it is."}],
                "cases": [{"when": condition, "turns": [to_scout, back]}],
            });
        }
    }
    for (id, more) in [("clerk", &[][..]), ("scout", &[("master", json!("person"))][..])] {
        let own = ["ask_master", "write_file", "handoff"].map(str::to_owned);
        agents.push(agent(id, &own, more));
        let written = json!({"path": "{{ request }}.md", "content": "{{ results.ask_master }}\n"});
        script[id] = json!({"turns": [
            turn(&[call("ask_master", json!({"question": "How shall {{ request }} be written?"}))]),
            turn(&[call("write_file", written)]),
            turn(&[hand_back("{{ request }}.md")]),
        ]});
    }
    (agents, script)
}

/// Returns one agent that makes one call after the other, then writes a document that does not depend on the results.
fn effects() -> (Vec<Value>, Value) {
    let mut number = 0;
    let mut next = |tool: &str| {
        number += 1;
        call(tool, json!({"n": number}))
    };
    let mut turns = Vec::new();
    for broad in 0..BROAD_TURNS {
        let pair = |at: usize| if at.is_multiple_of(2) { "ledger_charge" } else { "ledger_append" };
        let mut calls: Vec<Value> = (0..CALLS_AT_ONCE).map(|at| next(pair(at))).collect();
        if broad.is_multiple_of(4) {
            calls.extend((0..5).map(|_| next("ledger_set")));
        }
        turns.push(turn(&calls));
        for at in 0..SINGLE_TURNS / BROAD_TURNS + usize::from(broad % 2 == 1) {
            turns.push(turn(&[next(pair(at + broad))]));
        }
    }
    turns.push(turn(&[call("write_file", json!({"path": "done.md", "content": "Everything was asked for.\n"}))]));
    turns.push(turn(&[call("handoff", json!({"result": {"summary": "done"}, "documents": ["done.md"]}))]));
    let tools = ["ledger_append", "ledger_charge", "ledger_set", "write_file", "handoff"].map(str::to_owned);
    (vec![agent("actor", &tools, &[])], json!({"actor": {"turns": turns}}))
}

/// Returns one agent that calls commands.
fn commands() -> (Vec<Value>, Value) {
    let mut number = 0;
    let mut next = |tool: &str| {
        number += 1;
        call(tool, json!({"n": number}))
    };
    let mut turns = Vec::new();
    for _ in 0..PAIRS_OF_COMMANDS {
        turns.push(turn(&[next("command_append"), next("command_charge")]));
    }
    for at in 0..SINGLE_COMMANDS {
        turns.push(turn(&[next(if at % 2 == 0 { "command_append" } else { "command_charge" })]));
    }
    turns.push(turn(&[call("handoff", json!({"result": {"summary": "done"}}))]));
    let tools = ["command_append", "command_charge", "handoff"].map(str::to_owned);
    (vec![agent("operator", &tools, &[])], json!({"operator": {"turns": turns}}))
}

/// The effects of the tools of [`Shape::Strays`].
const STRAY_EFFECTS: [&str; 3] = ["idempotent", "keyed", "at_most_once"];

/// Returns one agent that calls commands which can be inspected while they run.
fn strays() -> (Vec<Value>, Value) {
    let calls = |number: usize| {
        let effects = STRAY_EFFECTS.iter().enumerate();
        turn(&effects.map(|(at, effect)| call(&format!("stray_{effect}"), json!({"n": 3 * number + at}))).collect::<Vec<_>>())
    };
    let mut turns: Vec<Value> = (0..STRAY_TURNS).map(calls).collect();
    turns.push(turn(&[call("handoff", json!({"result": {"summary": "done"}}))]));
    let tools: Vec<String> = STRAY_EFFECTS.iter().map(|effect| format!("stray_{effect}")).chain(["handoff".to_owned()]).collect();
    (vec![agent("operator", &tools, &[])], json!({"operator": {"turns": turns}}))
}

/// Returns the config of a command.
fn command(id: &str, effect: &str, command: &[&str]) -> Value {
    json!({
        "tool_id": id,
        "type": "function_tool",
        "description": "Has an effect outside the run.",
        "parameters": {"n": {"type": "integer", "description": "A number that differs for each call.", "required": true}},
        "returns": {"done": "boolean"},
        "effect": effect,
        "timeout_seconds": 30,
        "exec": {"command": command, "env": ["BATON_LEDGER"]},
    })
}
