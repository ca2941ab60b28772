//! A run in one terminal, and a person who acts on it in another: real processes on one store, and real signals.
//!
//! These tests do not sleep: a tool writes into one pipe when it has begun, and waits for the test's line in another.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::screens::{CTRL_C, CURSOR_BACK, Screen};
use crate::support::{Folder, Ran, signal, wait_until_gone, wrapped};

/// A tool that waits: its command writes its process id to a pipe, and ends when the test writes to a pipe of its own.
struct Gate {
    began: PathBuf,
    go: PathBuf,
}

impl Gate {
    /// Adds the tool `gate` to the job `job` of `folder`.
    fn new(folder: &Folder, job: &str, effect: &str) -> Self {
        let path = |name: &str| folder.path().join(format!("{job}.{name}"));
        let gate = Self { began: path("began"), go: path("go") };
        assert!(Command::new("mkfifo").arg(&gate.began).status().unwrap().success());
        let (began, go) = (gate.began.display(), gate.go.display());
        let script = format!("mkfifo '{go}'.$$\necho $$ > '{began}'\nread line < '{go}'.$$\necho '{{\"passed\": true}}'\n");
        folder.write(&format!("{job}/gate.sh"), script);
        let tool = json!({
            "tool_id": "gate", "type": "function_tool", "description": "Waits.", "effect": effect,
            "exec": {"command": ["sh", "gate.sh"]}, "input_schema": {"type": "object"},
        });
        folder.write(&format!("{job}/tools/gate.json"), tool.to_string());
        gate
    }

    /// Waits until the tool waits; returns the id of its process.
    fn reached(&self) -> String {
        fs::read_to_string(&self.began).unwrap().trim().to_owned()
    }

    /// Lets the tool's process `process` end.
    fn open(&self, process: &str) {
        fs::write(format!("{}.{process}", self.go.display()), "go\n").unwrap();
    }
}

/// Becomes the program of its arguments. SIGHUP has its default effect there, although the tests may run under `nohup`.
const HUNG_UP_BY_DEFAULT: &str =
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])";

/// A run in a terminal of its own, with one JSON line per entry on stdout.
struct Terminal {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    told: String,
}

impl Terminal {
    fn open(folder: &Folder, arguments: &[&str]) -> Self {
        let program = folder.command(&[arguments, &["--output", "ndjson"]].concat());
        let mut command = wrapped("python3", &["-c", HUNG_UP_BY_DEFAULT], &program);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (BufReader::new(child.stdout.take().unwrap()), BufReader::new(child.stderr.take().unwrap()));
        Self { child, out, err, told: String::new() }
    }

    /// Reads entries until one contains all of `words`.
    #[track_caller]
    fn shows(&mut self, words: &[&str]) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.out.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "{words:?} never came:\n{}", self.told);
            self.told += &line;
            if words.iter().all(|words| line.contains(words)) {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    /// Reads stderr until a line contains `words`.
    #[track_caller]
    fn tells(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.err.read_line(&mut line).unwrap(), 0, "{words:?} was never told");
        }
    }

    fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// Waits until the process ends.
    fn ends(mut self) -> Ran {
        let mut stdout = std::mem::take(&mut self.told);
        self.out.read_to_string(&mut stdout).unwrap();
        let mut stderr = String::new();
        self.err.read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ran { code, stdout, stderr }
    }
}

/// Writes a job whose worker calls the gate, and whose lead then hands off a result.
fn gated(folder: &Folder, job: &str, effect: &str) -> Gate {
    let script = json!({
        "lead": {"turns": [
            {"calls": [{"tool": "route_to_worker", "as": "work", "input": {"request": "Wait."}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "all done"}}}]},
        ]},
        "worker": {"turns": [
            {"calls": [{"tool": "gate", "input": {}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "worked"}}}]},
        ]},
    });
    folder.job(job, &[("lead", &["route_to_worker", "handoff"]), ("worker", &["gate", "handoff"])], script, json!({}));
    Gate::new(folder, job, effect)
}

#[test]
fn a_pause_from_another_terminal_holds_the_next_step_until_the_run_is_resumed() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "idempotent");
    let mut terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    assert_eq!((&folder.status(), &folder.listed()["held"]), (&json!("running"), &json!(true)));
    let told = folder.baton(&["pause", "@last", "--output", "json"]).exits(0).json();
    assert_eq!(
        (&told["command"], &told["delivery"], &told["entry"]["data"]["action"]),
        (&json!("pause"), &json!("done"), &json!("paused"))
    );
    terminal.shows(&["\"paused\""]);
    terminal.tells("paused by ann (person)   → baton resume");
    folder.baton(&["pause", "@last"]).exits(0).says("is already paused").tells("baton resume");
    assert_eq!(folder.status(), "paused");
    folder.baton(&["show", "@last"]).exits(0).says("‖ paused").says("waits for worker");
    gate.open(&process);
    terminal.shows(&["call_finished", "\"gate\""]);
    folder.baton(&["show", "@last"]).exits(0).says("○ worker  0/1.1  Wait.   paused");

    folder.baton(&["steer", "@last", "first of all"]).exits(0).says("lead (0) receives the message");
    folder.baton(&["steer", "@last", "worker", "be brief"]).exits(0).says("worker (0/1.1) receives the message");
    let told = folder.baton(&["steer", "@last", "0/1.1", "and quick", "--output", "ndjson"]).exits(0).json();
    assert_eq!((&told["task"], &told["entry"]["data"]["action"]), (&json!("0/1.1"), &json!({"steered": {"text": "and quick"}})));
    folder.baton(&["steer", "@last", "0/7.7", "hello"]).exits(6).tells("there is no task 0/7.7");
    folder.baton(&["steer", "@last", " "]).exits(2).tells("the message is empty");

    folder.baton(&["resume", "@last"]).exits(0).says("continues in the process that runs it");
    let ran = terminal.ends().exits(0);
    assert_eq!(ran.lines().last().unwrap()["report"]["result"], json!({"summary": "all done"}));
    let names: Vec<&str> = ran
        .stdout
        .lines()
        .filter_map(|line| ["\"paused\"", "\"unpaused\"", "model_requested"].into_iter().find(|name| line.contains(name)))
        .collect();
    assert_eq!(names, ["model_requested", "model_requested", "\"paused\"", "\"unpaused\"", "model_requested", "model_requested"]);
    folder
        .baton(&["show", "@last", "--task", "0/1.1", "--messages"])
        .exits(0)
        .says("A person says: be brief\"\n}\n{\n  \"type\": \"notice\",\n  \"text\": \"A person says: and quick\"");
    folder.baton(&["show", "@last", "--task", "0", "--messages"]).exits(0).says("A person says: first of all");
    for verb in [&["pause", "@last"][..], &["cancel", "@last"], &["steer", "@last", "more"]] {
        folder.baton(verb).exits(1).tells("has ended: completed");
    }
}

#[test]
fn a_cancel_from_another_terminal_ends_the_task_its_command_and_all_below_and_the_caller_goes_on() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "idempotent");
    let terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    let ran = folder.baton(&["cancel", "@last", "worker", "--reason", "not needed"]).exits(0);
    ran.says("task 0/1.1").says("is cancelled, with all tasks below it");
    wait_until_gone(&process);
    let ran = terminal.ends().exits(0);
    assert!(ran.stdout.contains("not needed"), "the caller is told why: {}", ran.stdout);
    assert_eq!(ran.lines().last().unwrap()["report"]["tasks"][1]["status"], "cancelled");
}

#[test]
fn cancelling_a_run_ends_it_in_its_own_terminal_too() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "at_most_once");
    let terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    let told = folder.baton(&["cancel", "@last", "--reason", "the wrong job", "--output", "json"]).exits(0).json();
    assert_eq!(
        (&told["delivery"], &told["entry"]["data"]["action"]),
        (&json!("done"), &json!({"cancelled": {"reason": "the wrong job"}}))
    );
    let ran = terminal.ends().exits(1).tells("cancelled by ann (person): the wrong job");
    assert_eq!(ran.lines().last().unwrap()["report"]["status"], "cancelled");
    wait_until_gone(&process);
    assert_eq!((&folder.status(), &folder.listed()["owner"]), (&json!("cancelled"), &Value::Null));
}

#[test]
fn a_run_whose_process_was_killed_is_interrupted_and_can_be_resumed_or_cancelled() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "idempotent");
    let killed = |gate: &Gate| {
        let terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
        let process = gate.reached();
        terminal.signal("KILL");
        terminal.ends();
        assert_eq!((&folder.status(), &folder.listed()["held"]), (&json!("interrupted"), &json!(false)));
        process
    };
    let orphan = killed(&gate);
    folder.baton(&["ps"]).exits(0).says("interrupted").tells(&format!("baton resume {}", folder.last_run()));
    folder.baton(&["show", "@last"]).exits(0).says("interrupted: no process runs it").tells("baton resume");
    let paused = folder.baton(&["pause", "@last", "--output", "json"]).exits(0).json();
    assert_eq!((&paused["delivery"], &paused["entry"]["data"]["action"]), (&json!("done"), &json!("paused")));
    assert_eq!((&folder.status(), &folder.listed()["owner"]), (&json!("paused"), &Value::Null));
    folder.baton(&["steer", "@last", "go on"]).exits(0).says("the command is in the inbox");
    wait_until_gone(&orphan);
    let terminal = Terminal::open(&folder, &["resume", "@last"]);
    gate.open(&gate.reached());
    assert_eq!(terminal.ends().exits(0).lines().last().unwrap()["report"]["status"], "success");
    folder.baton(&["show", "@last", "--task", "0", "--messages"]).exits(0).says("A person says: go on");

    let orphan = killed(&gate);
    folder.baton(&["cancel", "@last"]).exits(0).says("is cancelled");
    assert_eq!(folder.status(), "cancelled");
    wait_until_gone(&orphan);
}

#[test]
fn a_run_is_taken_from_a_living_process_only_when_that_is_asked_for() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "idempotent");
    let first = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let of_first = gate.reached();
    folder.baton(&["resume", "@last"]).exits(1).tells("is still running").tells("--take-over");
    let second = Terminal::open(&folder, &["resume", "@last", "--take-over"]);
    let of_second = gate.reached();
    // The first command is ended, and the second process makes the call again. The first process can commit nothing more.
    wait_until_gone(&of_first);
    first.ends().exits(130).tells("another process has taken over run");
    gate.open(&of_second);
    assert_eq!(second.ends().exits(0).lines().last().unwrap()["report"]["result"], json!({"summary": "all done"}));
}

#[test]
fn two_terminals_share_one_store() {
    let folder = Folder::new();
    // One job asks a person while its worker is running; the other job only runs its worker.
    let script = json!({
        "lead": {"turns": [
            {"calls": [
                {"tool": "ask_master", "as": "choice", "input": {"question": "Revenue or units?"}},
                {"tool": "route_to_worker", "input": {"request": "Wait."}},
            ]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.choice }}"}}}]},
        ]},
        "worker": {"turns": [
            {"calls": [{"tool": "gate", "input": {}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "worked"}}}]},
        ]},
    });
    let agents: &[(&str, &[&str])] = &[("lead", &["ask_master", "route_to_worker", "handoff"]), ("worker", &["gate", "handoff"])];
    folder.job("asking", agents, script, json!({}));
    let (asking_gate, other_gate) = (Gate::new(&folder, "asking", "idempotent"), gated(&folder, "other", "idempotent"));
    let mut asking = Terminal::open(&folder, &["run", "asking", "--trust"]);
    let orphan = asking_gate.reached();
    let asking_run = folder.last_run();
    let other = Terminal::open(&folder, &["run", "other", "--trust"]);
    other_gate.reached();
    let runs = folder.baton(&["ps", "--output", "json"]).exits(0).json();
    assert_eq!(runs.as_array().unwrap().iter().filter(|run| run["status"] == "running" && run["held"] == true).count(), 2);

    let answered = folder.baton(&["answer", &asking_run, "Q1", "units"]).exits(0);
    answered.says("Q1 answered: units").tells("the process that runs it continues with the answer");
    asking.shows(&["question_closed", "units"]);
    folder.baton(&["steer", &asking_run, "worker", "hurry"]).exits(0).says("receives the message with its next request");
    asking.shows(&["steered", "hurry"]);
    folder.baton(&["cancel", "@last"]).exits(0).says("is cancelled");
    other.ends().exits(1).tells("cancelled by ann");

    asking.signal("KILL");
    asking.ends();
    wait_until_gone(&orphan);
    let taken = Terminal::open(&folder, &["resume", &asking_run]);
    asking_gate.open(&asking_gate.reached());
    let ran = taken.ends().exits(0);
    assert_eq!(ran.lines().last().unwrap()["report"]["result"], json!({"summary": "units"}));
    folder.baton(&["show", &asking_run, "--task", "0/1.2", "--messages"]).exits(0).says("A person says: hurry");
    assert!(!folder.path().join(".baton/baton.db-owners").exists(), "nobody is there, and nothing is left of them");
}

#[test]
fn ctrl_c_awaits_a_command_that_must_not_be_repeated_and_a_second_one_kills_it() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "at_most_once");
    let mut terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    terminal.signal("INT");
    terminal.tells("gate of worker ends: it must not be repeated. Ctrl-C again stops at once");
    gate.open(&process);
    terminal.ends().exits(130).tells("baton resume");
    assert_eq!((&folder.status(), &folder.listed()["owner"]), (&json!("stopped"), &Value::Null));
    assert_eq!(folder.baton(&["resume", "@last", "--output", "json"]).exits(0).json()["result"], json!({"summary": "all done"}));

    let mut terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    terminal.signal("INT");
    terminal.tells("must not be repeated");
    terminal.signal("INT");
    terminal
        .ends()
        .exits(130)
        .tells("! gate of worker (0/1.1/1.1) was interrupted: whether it took effect is unknown")
        .tells("baton resume");
    wait_until_gone(&process);
    assert_eq!(folder.status(), "interrupted");
    let report = folder.baton(&["resume", "@last", "--output", "json"]).exits(0).json();
    assert_eq!(report["status"], "success", "the agent is told that the outcome is not known, and goes on: {report}");
}

#[test]
fn ctrl_c_ends_a_command_that_may_be_repeated_and_resume_repeats_it() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "idempotent");
    let terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    terminal.signal("INT");
    terminal.ends().exits(130).tells("baton resume");
    wait_until_gone(&process);
    let terminal = Terminal::open(&folder, &["resume", "@last"]);
    gate.open(&gate.reached());
    terminal.ends().exits(0);
}

#[test]
fn ctrl_c_at_a_question_stops_the_run_and_gives_the_terminal_back() {
    let folder = Folder::new();
    folder.asking_job();
    let mut screen = Screen::open(&folder, &["run", "asking"]);
    screen.shows("Ctrl-C stops");
    screen.types(CTRL_C);
    let (code, drawn) = screen.ends();
    assert_eq!(code, Some(130), "{drawn}");
    assert!(drawn.contains(&format!("baton resume {}", folder.last_run())) && drawn.contains(CURSOR_BACK), "{drawn:?}");
    assert_eq!(folder.status(), "waiting");
}

#[test]
fn ctrl_c_on_a_terminal_awaits_a_command_once_and_kills_it_the_second_time() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "at_most_once");
    let mut screen = Screen::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    screen.shows("worker");
    screen.types(CTRL_C);
    screen.shows("Ctrl-C again stops at once");
    screen.types(CTRL_C);
    let (code, drawn) = screen.ends();
    assert_eq!(code, Some(130), "{drawn}");
    assert!(drawn.contains(&format!("baton resume {}", folder.last_run())) && drawn.contains(CURSOR_BACK), "{drawn:?}");
    wait_until_gone(&process);
}

#[test]
fn a_hang_up_awaits_a_command_that_must_not_be_repeated_and_a_second_one_changes_nothing() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "at_most_once");
    let mut terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    terminal.signal("HUP");
    terminal.tells("the terminal was closed; the run stops");
    terminal.tells("must not be repeated");
    terminal.signal("HUP");
    terminal.tells("the terminal was closed; the run stops");
    gate.open(&process);
    terminal.ends().exits(130).tells("baton resume");
    assert_eq!(folder.status(), "stopped");
    folder.baton(&["resume", "@last"]).exits(0).says("all done");
}

#[test]
fn closing_the_terminal_stops_the_run_after_its_command_and_nothing_is_in_doubt() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "at_most_once");
    let mut screen = Screen::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    screen.shows("worker");
    screen.closes();
    gate.open(&process);
    wait_until_released(&folder);
    assert_eq!(folder.status(), "stopped");
    folder.baton(&["resume", "@last"]).exits(0).says("all done");
}

#[test]
fn closing_the_terminal_at_a_question_ends_the_program() {
    let folder = Folder::new();
    folder.asking_job();
    let mut screen = Screen::open(&folder, &["run", "asking"]);
    screen.shows("Ctrl-C stops");
    screen.closes();
    wait_until_released(&folder);
    assert_eq!(folder.status(), "waiting");
    folder.baton(&["answer", "@last", "units"]).exits(0).says("units");
}

/// Waits until no process owns the newest run.
#[track_caller]
fn wait_until_released(folder: &Folder) {
    let began = Instant::now();
    while folder.listed()["held"] == true {
        assert!(began.elapsed() < Duration::from_secs(20), "the run did not stop: {}", folder.listed());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_under_nohup_survives_its_terminal() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "at_most_once");
    let mut command = wrapped("nohup", &[], &folder.command(&["run", "gated", "--trust"]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let process = gate.reached();
    signal("HUP", child.id());
    gate.open(&process);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_clock_of_a_running_run_continues_in_another_terminal() {
    let folder = Folder::new();
    let gate = gated(&folder, "gated", "idempotent");
    let terminal = Terminal::open(&folder, &["run", "gated", "--trust"]);
    let process = gate.reached();
    let began = Instant::now();
    // No entry is added while the gate is closed. The waiting time is shown from one second on.
    loop {
        let shown = folder.baton(&["show", "@last"]).exits(0).stdout;
        if shown.contains("waits for worker · ") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "the waiting time is never shown:\n{shown}");
    }
    gate.open(&process);
    terminal.ends().exits(0);
}
