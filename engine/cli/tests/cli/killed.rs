//! The remains of a run whose process was killed: no running command, and after the next start no folder.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::screens::Screen;
use crate::support::{Folder, Ran, is_alive, signal, wait_until_gone, wrapped};

/// A job with a command that hangs the first time and answers the second time.
struct Hanging {
    folder: Folder,
    /// The pipe into which the command writes when it has begun.
    began: PathBuf,
}

impl Hanging {
    fn new(effect: &str) -> Self {
        let folder = Folder::new();
        let script = json!({"lead": {"turns": [
            {"calls": [{"tool": "hang", "input": {}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "all done"}}}]},
        ]}});
        folder.job("hanging", &[("lead", &["hang", "handoff"])], script, json!({}));
        let tool = json!({
            "tool_id": "hang", "type": "function_tool", "description": "Hangs once.", "effect": effect,
            "exec": {"command": ["sh", "hang.sh"]}, "input_schema": {"type": "object"},
        });
        folder.write("hanging/tools/hang.json", tool.to_string());
        let began = folder.path().join("began");
        assert!(Command::new("mkfifo").arg(&began).status().unwrap().success());
        let home = folder.path().display();
        // The second start records whether the first process, or the one that it started, still executes. A process that is
        // being ended has no memory any more, and so executes nothing.
        let text = format!(
            "if mkdir '{home}/once' 2>/dev/null; then\n  setsid sleep 600 >/dev/null 2>&1 &\n  echo $$ $! > '{home}/pids'\n  \
             echo begun > '{home}/began'\n  wait\nfi\nfor pid in $(cat '{home}/pids'); do\n  \
             grep -qs '^VmSize:' /proc/$pid/status && echo $pid >> '{home}/overlap'\ndone\necho '{{\"passed\": true}}'\n"
        );
        folder.write("hanging/hang.sh", text);
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder, began }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.folder.command(arguments);
        command.env("TMPDIR", self.folder.path().join("tmp"));
        command
    }

    /// Starts the run and waits until its command hangs. Returns the ids of the command's processes.
    fn begin(&self) -> (Child, Vec<String>) {
        let mut command = self.command(&["run", "hanging", "--trust", "--output", "json"]);
        let engine = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(fs::read_to_string(&self.began).unwrap(), "begun\n");
        (engine, self.folder.read("pids").split_whitespace().map(str::to_owned).collect())
    }

    /// Resumes the run, and checks its end.
    fn resume(&self) {
        let ran = Ran::from(self.command(&["resume", "@last", "--output", "json"]).output().unwrap()).exits(0);
        assert_eq!(ran.json()["result"], json!({"summary": "all done"}));
        assert!(!self.folder.path().join("overlap").exists(), "the call ran twice at once");
        assert_eq!(self.folders(), Vec::<String>::new(), "a folder of a dead command is left");
    }

    /// Returns the folders of commands.
    fn folders(&self) -> Vec<String> {
        let listed = fs::read_dir(self.folder.path().join("tmp")).unwrap();
        let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("baton-exec-")).collect()
    }
}

impl Drop for Hanging {
    /// Kills the processes that a failed test leaves.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let processes = fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
            let _gone_already = Command::new("kill").arg("-KILL").args(processes.split_whitespace()).status();
        }
    }
}

/// Returns the guard of an engine, if it has one.
fn guard_of(engine: u32) -> Option<u32> {
    let mark = format!("BATON_GUARD_OF={engine}-");
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let mut guards = processes.filter(|process| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    });
    guards.next()
}

#[test]
fn commands_die_with_an_engine_that_is_killed_and_their_folders_go_at_the_next_start() {
    for effect in ["idempotent", "keyed"] {
        let hanging = Hanging::new(effect);
        let (mut engine, processes) = hanging.begin();
        let guard = guard_of(engine.id()).expect("a command runs");
        engine.kill().unwrap();
        engine.wait().unwrap();
        for process in &processes {
            wait_until_gone(process);
        }
        wait_until_gone(&guard.to_string());
        assert_eq!(hanging.folders().len(), 1);
        hanging.resume();
    }
}

#[test]
fn a_guard_keeps_nothing_of_its_engine() {
    let hanging = Hanging::new("idempotent");
    let (mut engine, _) = hanging.begin();
    let guard = guard_of(engine.id()).unwrap();
    let environment = fs::read_to_string(format!("/proc/{guard}/environ")).unwrap();
    assert_eq!(environment.trim_end_matches('\0').split('\0').count(), 1, "{environment:?}");
    assert_eq!(fs::read_link(format!("/proc/{guard}/cwd")).unwrap(), PathBuf::from("/"));
    let open = fs::read_dir(format!("/proc/{guard}/fd")).unwrap().map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
    let open: Vec<String> = open.map(|file| file.display().to_string()).filter(|file| !file.starts_with("pipe:")).collect();
    // It may just be setting its name.
    let name = format!("/proc/{guard}/comm");
    assert!(open.iter().all(|file| file == "/dev/null" || *file == name || file.starts_with("socket:")), "{open:?}");
    engine.kill().unwrap();
    engine.wait().unwrap();
    wait_until_gone(&guard.to_string());
}

#[test]
fn a_guard_that_is_killed_is_replaced_while_its_engine_lives() {
    let hanging = Hanging::new("idempotent");
    let (mut engine, processes) = hanging.begin();
    let guard = guard_of(engine.id()).unwrap();
    let began = Instant::now();
    while fs::read_to_string(format!("/proc/{guard}/comm")).unwrap() != "baton-guard\n" {
        assert!(began.elapsed() < Duration::from_secs(10), "the guard has another name");
        std::thread::yield_now();
    }
    signal("KILL", guard);
    let began = Instant::now();
    let next = loop {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing replaces the guard");
        match guard_of(engine.id()) {
            Some(next) if next != guard => break next,
            _ => std::thread::yield_now(),
        }
    };
    assert!(fs::metadata(format!("/proc/{guard}")).is_err(), "the former guard is a zombie");
    assert!(processes.iter().all(|process| is_alive(process)), "the engine still has them");
    engine.kill().unwrap();
    engine.wait().unwrap();
    for process in &processes {
        wait_until_gone(process);
    }
    wait_until_gone(&next.to_string());
    hanging.resume();
}

#[test]
fn who_resumes_a_run_ends_commands_that_engine_and_guard_left_behind() {
    for effect in ["idempotent", "keyed"] {
        let hanging = Hanging::new(effect);
        let (mut engine, processes) = hanging.begin();
        // The engine is stopped, so that it cannot start another guard.
        signal("STOP", engine.id());
        signal("KILL", guard_of(engine.id()).expect("a command runs"));
        engine.kill().unwrap();
        engine.wait().unwrap();
        assert!(processes.iter().all(|process| is_alive(process)), "nobody could end them");
        hanging.resume();
        for process in &processes {
            wait_until_gone(process);
        }
    }
}

#[test]
fn a_copy_of_a_store_ends_no_command_of_the_engine_that_has_the_original() {
    let hanging = Hanging::new("idempotent");
    let (mut engine, processes) = hanging.begin();
    fs::create_dir(hanging.folder.path().join("copy")).unwrap();
    for file in ["baton.db", "baton.db-wal"] {
        fs::copy(hanging.folder.path().join(".baton").join(file), hanging.folder.path().join("copy").join(file)).unwrap();
    }
    let copy = hanging.folder.path().join("copy/baton.db").display().to_string();
    Ran::from(hanging.command(&["--store", &copy, "resume", "@last", "--trust"]).output().unwrap()).exits(0);
    assert!(processes.iter().all(|process| is_alive(process)), "the engine that has them lives");
    engine.kill().unwrap();
    engine.wait().unwrap();
    for process in &processes {
        wait_until_gone(process);
    }
}

#[test]
fn an_engine_without_commands_has_no_guard() {
    let folder = Folder::new();
    folder.asking_job();
    let mut screen = Screen::open(&folder, &["run", "asking"]);
    screen.shows("Revenue or units?");
    let run = folder.listed();
    let owner = run["owner"].as_str().and_then(|owner| owner.strip_prefix("process ")).expect("it waits in a living process");
    let engine = owner.split('-').next().unwrap();
    assert_eq!(guard_of(engine.parse().unwrap()), None);
    signal("KILL", engine.parse().unwrap());
    screen.ends();
}

#[test]
fn a_run_that_a_living_process_holds_is_not_removed_until_that_is_gone() {
    let hanging = Hanging::new("idempotent");
    let (mut engine, _) = hanging.begin();
    let run = hanging.folder.last_run();
    hanging.folder.baton(&["gc", &run]).exits(1).tells("is still running");
    hanging.folder.baton(&["show", &run]).exits(0);
    engine.kill().unwrap();
    engine.wait().unwrap();
    hanging.folder.baton(&["gc", &run]).exits(0).says("removed 1 run");
}

#[test]
fn a_run_whose_store_is_taken_away_stops_and_says_so() {
    let hanging = Hanging::new("idempotent");
    let mut command = hanging.command(&["run", "hanging", "--trust", "--output", "json"]);
    let engine = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fs::read_to_string(&hanging.began).unwrap();
    fs::rename(hanging.folder.path().join(".baton/baton.db"), hanging.folder.path().join("elsewhere.db")).unwrap();
    for process in hanging.folder.read("pids").split_whitespace() {
        signal("KILL", process.parse().unwrap());
    }
    Ran::from(engine.wait_with_output().unwrap()).exits(1).tells("was moved, removed, replaced or truncated while it was in use");
}

#[test]
fn a_run_whose_disk_takes_no_more_stops_and_is_resumed_when_there_is_room() {
    let folder = Folder::new();
    let path = |turn: usize| format!("out/{turn}.md");
    let write = |turn| json!({"calls": [{"tool": "write_file", "input": {"path": path(turn), "content": format!("{turn}").repeat(90_000)}}]});
    let mut turns: Vec<_> = (0..9).map(write).collect();
    turns.push(json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "all written"}}}]}));
    folder.job("writing", &[("lead", &["write_file", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
    // A file may have 1,400 KiB at most, and the script alone takes 800. The signal about a larger file is ignored, so the write
    // fails.
    let limited = "trap '' XFSZ; ulimit -f 2800; exec \"$@\"";
    let mut shell = wrapped("sh", &["-c", limited, "sh"], &folder.command(&["run", "writing"]));
    let ran = Ran::from(shell.output().unwrap()).exits(130);
    let run = folder.last_run();
    ran.tells(&format!("baton resume {run}"));
    let report = folder.baton(&["resume", &run, "--output", "json"]).exits(0).json();
    assert_eq!(report["result"], json!({"summary": "all written"}));
    folder.baton(&["verify"]).exits(0);
    folder.baton(&["verify", &run]).exits(0);
}
