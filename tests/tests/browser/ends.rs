//! The browser of a run: shared by its calls, replaced when it is gone, and never left behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_runtime::{RunOutcome, StartOptions};
use baton_types::id::{RunId, TaskId};
use baton_types::principal::Principal;
use serde_json::{Value, json};

use super::site::{Answer, Site, page};
use super::{engine, job, one_by_one};
use crate::support::{TestJob, call_error, call_output, calls, finish, handoff, model};

/// A process of the browser of a run.
struct Process {
    number: String,
    arguments: String,
}

/// Returns the processes of the browser that the calls of `run` started. The first process knows the call, and leads their group.
fn processes(run: &str) -> Vec<Process> {
    let call = format!("BATON_CALL_ID={run}/");
    let listed = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let numbers: Vec<String> = listed.filter(|name| name.parse::<u32>().is_ok()).collect();
    let knows_call = |number: &&String| {
        let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(call.as_bytes()))
    };
    let group = |number: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let fields: Vec<String> = stat.rsplit(") ").next().unwrap_or_default().split(' ').map(str::to_owned).collect();
        let is_alive = fields.first().is_some_and(|state| !state.is_empty() && state != "Z" && state != "X");
        fields.get(2).cloned().filter(|_| is_alive)
    };
    let groups: Vec<String> = numbers.iter().filter(knows_call).filter_map(|number| group(number)).collect();
    let members = numbers.iter().filter(|number| group(number).is_some_and(|group| groups.contains(&group)));
    let process = |number: &String| {
        let arguments = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        Process { number: number.clone(), arguments: String::from_utf8_lossy(&arguments).replace('\0', " ") }
    };
    members.map(process).collect()
}

fn kill(processes: impl IntoIterator<Item = Process>) {
    let numbers: Vec<String> = processes.into_iter().map(|process| process.number).collect();
    assert!(!numbers.is_empty(), "there is nothing to kill");
    let _some_are_gone = std::process::Command::new("kill").arg("-KILL").args(numbers).status().unwrap();
}

/// Returns the folder of the browser's profile.
fn profile(processes: &[Process]) -> PathBuf {
    let named = processes.iter().find_map(|process| process.arguments.split("--user-data-dir=").nth(1)?.split(' ').next());
    PathBuf::from(named.expect("a process names the profile"))
}

/// Waits until a site was asked.
async fn asked(site: &Site) {
    let began = Instant::now();
    while site.requests().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "the page was not requested");
        tokio::task::yield_now().await;
    }
}

fn options(run: &str) -> StartOptions {
    StartOptions { run: Some(RunId::new(run)), ..StartOptions::default() }
}

/// Returns an id for a run that no other process of these tests uses.
fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_run_has_one_browser_which_ends_with_it() {
    let site = Site::start([("/", page("Page", "x"))]);
    let run = unique("one-browser");
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (noted, id, url) = (Arc::clone(&seen), run.clone(), site.url("/"));
    let model = model(move |agent, turn, _| match (agent, turn) {
        ("lead", 1) => {
            calls(&[("astral", json!({"action": "navigate", "url": url})), ("route_to_reader", json!({"request": "Look."}))])
        }
        ("reader", 1) => calls(&[("astral", json!({"action": "extract"}))]),
        ("reader", 2) => {
            calls(&[("astral", json!({"action": "evaluate", "url": url, "script": "document.cookie = 'seen=yes'"}))])
        }
        ("lead", 2) => calls(&[("astral", json!({"action": "evaluate", "script": "document.cookie"}))]),
        (agent, _) => {
            if agent == "lead" {
                let found = processes(&id);
                let leaders = found
                    .iter()
                    .filter(|process| process.arguments.contains("--user-data-dir=") && !process.arguments.contains("--type="))
                    .count();
                noted.lock().unwrap().push((leaders, profile(&found)));
            }
            handoff("done", &[])
        }
    });
    let tools = &["astral", "route_to_reader", "handoff"];
    let job = TestJob::new("lead", json!({}))
        .agent("lead", tools)
        .agent("reader", &["astral", "handoff"])
        .built_in("astral")
        .changed_tool("astral", json!({"set": {"allow_hosts": [site.address.to_string()]}}))
        .load();
    let engine = engine(model);
    let handle = engine.start(job, options(&run)).await.unwrap();
    let finished = finish(&engine, &handle).await;
    assert!(call_error(&finished.entries, "0/1.2/1.1").contains("no page is open"), "each task has its own page");
    assert_eq!(call_output(&finished.entries, "0/2.1")["result"], "seen=yes", "cookies are the run's");
    let (leaders, profile) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(leaders, 1);
    assert!(processes(&run).is_empty(), "a process is left when the run has ended");
    assert!(!profile.exists(), "the profile is left when the run has ended");
}

#[tokio::test]
async fn a_cancelled_or_stopped_run_leaves_no_browser() {
    for stops in [false, true] {
        let site = Site::start([("/", Answer::Never)]);
        let run = unique(&format!("cancelled-{stops}"));
        let engine = engine(one_by_one(vec![json!({"action": "navigate", "url": site.url("/"), "timeout_seconds": 2})]));
        let handle = engine.start(job(&[site.address.to_string()]).load(), options(&run)).await.unwrap();
        asked(&site).await;
        let profile = profile(&processes(&run));
        if stops {
            assert!(matches!(handle.stop().await, RunOutcome::Stopped));
        } else {
            handle.cancel(TaskId::root(), "enough", &Principal::person("the test")).await.unwrap();
            assert!(matches!(handle.outcome().await, RunOutcome::Ended { .. }));
        }
        assert!(processes(&run).is_empty(), "a process is left, stopped: {stops}");
        assert!(!profile.exists(), "the profile is left, stopped: {stops}");
    }
}

/// Makes calls on a page. `meddle` acts before the third one.
async fn meddled(name: &str, meddle: fn(Vec<Process>), inputs: impl FnOnce(&Site) -> Vec<Value>) -> Vec<Result<Value, String>> {
    let site = Site::start([("/", page("Page", "text"))]);
    let run = unique(name);
    let (id, inputs) = (run.clone(), inputs(&site));
    let count = inputs.len();
    let model = model(move |_, turn, _| {
        if turn == 3 {
            meddle(processes(&id));
        }
        match inputs.get(turn as usize - 1) {
            Some(input) => calls(&[("astral", input.clone())]),
            None => handoff("done", &[]),
        }
    });
    let engine = engine(model);
    let handle = engine.start(job(&[site.address.to_string()]).load(), options(&run)).await.unwrap();
    let finished = finish(&engine, &handle).await;
    assert!(processes(&run).is_empty(), "a process is left");
    let outcome = |number| {
        let call = format!("0/{number}.1");
        let output = call_output(&finished.entries, &call);
        if output.is_null() { Err(call_error(&finished.entries, &call)) } else { Ok(output) }
    };
    (1..=count).map(outcome).collect()
}

fn calls_around(site: &Site) -> Vec<Value> {
    let navigate = json!({"action": "navigate", "url": site.url("/")});
    let extract = json!({"action": "extract"});
    vec![navigate.clone(), extract.clone(), extract.clone(), navigate, extract]
}

#[tokio::test]
async fn a_browser_that_was_killed_is_replaced() {
    let outcomes = meddled("killed-browser", kill, calls_around).await;
    let error = outcomes[2].as_ref().unwrap_err();
    assert!(error.contains("no page is open") || error.contains("the browser has ended"), "{error}");
    assert_eq!(outcomes[4].as_ref().map(|output| &output["text"]), Ok(&json!("text")), "{outcomes:?}");
}

#[tokio::test]
async fn a_page_that_crashed_is_replaced() {
    let renderers = |found: Vec<Process>| kill(found.into_iter().filter(|process| process.arguments.contains("--type=renderer")));
    let outcomes = meddled("killed-page", renderers, calls_around).await;
    let error = outcomes[2].as_ref().unwrap_err();
    assert!(error.contains("no page is open") || error.contains("the page crashed"), "{error}");
    assert_eq!(outcomes[4].as_ref().map(|output| &output["text"]), Ok(&json!("text")), "{outcomes:?}");
}

#[tokio::test]
async fn a_missing_browser_is_an_error_that_names_what_to_install() {
    let engine = engine(one_by_one(vec![json!({"action": "launch"})]));
    let job = TestJob::new("solo", json!({}))
        .agent("solo", &["astral", "handoff"])
        .built_in("astral")
        .changed_tool("astral", json!({"set": {"browser": "no-such-browser"}}))
        .load();
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let finished = finish(&engine, &handle).await;
    let error = call_error(&finished.entries, "0/1.1");
    assert!(error.contains("no browser was found (looked for no-such-browser in PATH). Install Chromium"), "{error}");
}
