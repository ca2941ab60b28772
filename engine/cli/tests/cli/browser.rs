//! The browser of a run whose process was killed, and one call of the browser tool from the command line.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Folder, Ran};

/// A page on loopback, whose first request never gets an answer.
struct Site {
    port: u16,
    asked: Receiver<()>,
}

impl Site {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, asked) = channel();
        std::thread::spawn(move || {
            let mut kept = None;
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = [0; 4_096];
                let Ok(1..) = stream.read(&mut head) else { continue };
                if kept.is_none() {
                    kept = Some(stream);
                } else {
                    let page = "<title>Late</title><link rel=icon href=data:,>hello";
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", page.len());
                    stream.write_all((head + page).as_bytes()).ok();
                }
                sender.send(()).ok();
            }
        });
        Self { port, asked }
    }
}

/// Returns the living processes of browsers whose profiles are below `folder`: the members of their groups.
fn browsers(folder: &Path) -> Vec<String> {
    let profile = format!("--user-data-dir={}", folder.display());
    let listed = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let processes: Vec<String> = listed.filter(|name| name.parse::<u32>().is_ok()).collect();
    let has_profile = |process: &&String| {
        let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument.starts_with(profile.as_bytes()))
    };
    let groups: Vec<String> = processes.iter().filter(has_profile).filter_map(|process| group_of(process)).collect();
    processes.iter().filter(|process| group_of(process).is_some_and(|group| groups.contains(&group))).cloned().collect()
}

/// Returns the group of a process that is there and not a zombie.
fn group_of(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
    let is_alive = !matches!(fields[..], ["Z" | "X", ..]);
    fields.get(2).filter(|_| is_alive).map(|group| (*group).to_owned())
}

#[test]
fn a_browser_dies_with_an_engine_that_is_killed_and_the_next_one_starts_another() {
    let (folder, site) = (Folder::new(), Site::start());
    let address = format!("127.0.0.1:{}", site.port);
    let url = format!("http://{address}/");
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "astral", "input": {"action": "navigate", "url": url, "timeout_seconds": 120}}]},
        {"calls": [{"tool": "astral", "as": "lost", "input": {"action": "extract"}}]},
        {"calls": [{"tool": "astral", "as": "page", "input": {"action": "extract", "url": url}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"text": "{{ results.page.text }}", "calls": "{{ calls | map(attribute='status') | list }}"}}}]},
    ]}});
    folder.job("browsing", &[("lead", &["astral", "handoff"])], script, json!({}));
    folder.write("browsing/tools/astral.json", json!({"tool_id": "astral", "set": {"allow_hosts": [address]}}).to_string());
    // No path of a socket may be as long as this one.
    let temporary = folder.path().join("temporary".repeat(12));
    fs::create_dir(&temporary).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = folder.command(arguments);
        command.env("TMPDIR", &temporary);
        command
    };
    let mut engine = command(&["run", "browsing", "--trust", "--output", "json"]);
    let printed = fs::File::create(folder.path().join("printed")).unwrap();
    let mut engine = engine.stdout(Stdio::null()).stderr(printed).spawn().unwrap();
    let asked = site.asked.recv_timeout(Duration::from_mins(1));
    assert!(asked.is_ok(), "the page was not requested: {}", folder.read("printed"));
    let processes = browsers(&temporary);
    assert!(processes.len() > 1, "the browser has several processes: {processes:?}");
    engine.kill().unwrap();
    engine.wait().unwrap();
    let began = Instant::now();
    while let Some(left) = processes.iter().find(|process| group_of(process).is_some()) {
        assert!(began.elapsed() < Duration::from_secs(10), "process {left} is still there");
        std::thread::yield_now();
    }
    assert_eq!(browsers(&temporary), Vec::<String>::new());
    let ran = Ran::from(command(&["resume", "@last", "--output", "json"]).output().unwrap()).exits(0);
    let result = &ran.json()["result"];
    assert_eq!(result["text"], "hello");
    assert_eq!(result["calls"], json!(["unknown_outcome", "failed", "success"]), "{result}");
    let folders = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(folders.collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new(), "a profile is left");
}

#[test]
fn one_call_makes_a_screenshot_of_a_document() {
    let folder = Folder::new();
    folder.write("page.html", "<title>One</title><h1>Hello</h1>");
    let call = ["tool", "call", "astral", "--document", "page.html", "--out", "shots", "--input"];
    let input = json!({"action": "screenshot", "url": "document:page.html", "path": "page.png"}).to_string();
    let arguments: Vec<&str> = call.into_iter().chain([input.as_str()]).collect();
    let output = folder.baton(&arguments).exits(0);
    assert!(output.stdout.contains("document:page.html"), "{}", output.stdout);
    let image = fs::read(folder.path().join("shots/page.png")).unwrap();
    assert!(image.starts_with(b"\x89PNG\r\n"), "it is no picture");
}
