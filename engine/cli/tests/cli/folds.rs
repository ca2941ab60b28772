//! `show` and `doc ls` are folds of the exported timeline. The reader in this file uses nothing but the rules of
//! `docs/timeline.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::Folder;

/// A sum of usage and cost.
#[derive(Clone, Default)]
struct Sum {
    usage: [u64; 4],
    estimated: bool,
    picos: u64,
    is_unpriced: bool,
}

impl Sum {
    fn settle(&mut self, usage: &Value, cost: &Value) {
        for (sum, name) in self.usage.iter_mut().zip(["input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"]) {
            *sum += usage[name].as_u64().unwrap_or(0);
        }
        self.estimated |= usage["estimated"] == true;
        self.cost(cost);
    }

    fn cost(&mut self, cost: &Value) {
        match cost.as_u64() {
            Some(picos) => self.picos += picos,
            None => self.is_unpriced = true,
        }
    }

    fn add(&mut self, other: &Self) {
        self.usage.iter_mut().zip(other.usage).for_each(|(sum, more)| *sum += more);
        self.picos += other.picos;
        self.is_unpriced |= other.is_unpriced;
    }

    fn tokens(&self) -> u64 {
        self.usage[0] + self.usage[1]
    }

    fn usd(&self) -> Option<f64> {
        (!self.is_unpriced).then_some(self.picos as f64 / 1e12)
    }

    fn report(&self) -> Value {
        let [input, output, cached, reasoning] = self.usage;
        json!({
            "input_tokens": input, "output_tokens": output, "cached_tokens": cached, "reasoning_tokens": reasoning,
            "estimated": self.estimated,
        })
    }
}

/// A task, as far as its lines describe it.
#[derive(Default)]
struct Task {
    created: Value,
    ended: Option<String>,
    turns: Value,
    is_asking: bool,
    has_begun: bool,
    open: BTreeSet<String>,
    awaited: BTreeSet<String>,
    sum: Sum,
    /// Tokens and cost of open requests, by the call that made each.
    reserved: BTreeMap<String, (u64, Value)>,
}

impl Task {
    fn state(&self) -> &str {
        match &self.ended {
            Some(state) => state,
            None if self.created["holder"] == "person" => "blocked",
            None if self.is_asking => "running",
            None if !self.open.is_empty() && self.open == self.awaited => "blocked",
            None if self.open.is_empty() && !self.has_begun => "ready",
            None if self.open.is_empty() => "ready",
            None => "running",
        }
    }
}

fn key(by: &Value) -> String {
    by["call"].as_str().unwrap_or_default().to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn moment(line: &Value) -> i64 {
    text(&line["timestamp"]).parse::<jiff::Timestamp>().unwrap().as_microsecond()
}

/// Returns the output of `doc ls --versions` for a `document_written` line. `first` is the report of the document's first version.
fn document(line: &Value, first: Option<&Value>) -> Value {
    let data = &line["data"];
    let content = &data["content"];
    let mut report = json!({
        "path": data["path"], "version": data["version"], "mime_type": content["mime_type"], "size_bytes": content["size_bytes"],
        "token_count": content["token_count"], "created_by": data["created_by"], "updated_by": data["created_by"],
        "summary": content.get("summary").cloned().unwrap_or_else(|| json!("")), "created_at": line["timestamp"],
        "updated_at": line["timestamp"],
    });
    for (name, value) in first.iter().flat_map(|first| ["created_by", "created_at"].map(|name| (name, first[name].clone()))) {
        report[name] = value;
    }
    for name in ["description", "tags", "task"] {
        if let Some(value) = data.get(name) {
            report[name] = value.clone();
        }
    }
    report
}

/// Returns names such as `["a.md v1", …]`.
fn names(documents: &Value) -> Vec<String> {
    let documents = documents.as_array().into_iter().flatten();
    documents.map(|document| format!("{} v{}", text(&document["path"]), document["version"])).collect()
}

/// Returns the expected output of `show` and `doc ls --versions` for the run with these `lines`.
fn fold(lines: &[Value]) -> (Value, Vec<Value>) {
    let mut order = Vec::new();
    let mut tasks: BTreeMap<String, Task> = BTreeMap::new();
    let (mut documents, mut questions, mut outputs): (Vec<Value>, Vec<Value>, Vec<Value>) = Default::default();
    let (mut all, mut unknown, mut fork_sum): (Sum, (u64, Sum), Sum) = Default::default();
    let (mut fork, mut recorded): (Option<Value>, BTreeMap<String, Value>) = Default::default();
    let (mut run_ended, mut root_ended, mut is_paused) = (Value::Null, Value::Null, false);
    let mut began = moment(&lines[0]);
    for line in lines {
        let data = &line["data"];
        let id = text(&line["task"]);
        match line["entry"].as_str().unwrap() {
            "task_created" => {
                order.push(id.clone());
                tasks.insert(id, Task { created: data.clone(), turns: json!(0), ..Task::default() });
                if let Some(call) = data.get("concern").map(|_| text(&data["task"]).rsplit_once('/').unwrap().0.to_owned()) {
                    let caller = tasks.get_mut(&text(&data["caller"])).unwrap();
                    caller.open.insert(call.clone());
                    caller.awaited.insert(call);
                }
            }
            "model_requested" => {
                let task = tasks.get_mut(&id).unwrap();
                (task.is_asking, task.has_begun) = (true, true);
                task.turns = data["turn"].clone();
                let cost = data.get("reserved_cost").cloned().unwrap_or_else(|| json!(0));
                task.reserved.insert(String::new(), (data["reserved_tokens"].as_u64().unwrap(), cost));
            }
            "call_asked_model" => {
                let reserved = (data["reserved_tokens"].as_u64().unwrap(), data["reserved_cost"].clone());
                tasks.get_mut(&id).unwrap().reserved.insert(key(data), reserved);
            }
            "model_answered" => {
                tasks.get_mut(&id).unwrap().is_asking = false;
                if id == "0" && line.get("output").is_some() {
                    outputs.push(json!({"task": id, "turn": data["turn"], "message": line["output"]}));
                }
                if let Some(fork) = &mut fork {
                    fork["turns"] = json!(fork["turns"].as_u64().unwrap() + 1);
                    if data.get("recorded").is_some() {
                        fork["recorded_turns"] = json!(fork["recorded_turns"].as_u64().unwrap() + 1);
                        recorded.insert(id, data["turn"].clone());
                    }
                }
            }
            "call_approved" => {
                let task = tasks.get_mut(&id).unwrap();
                task.open.remove(line["call"].as_str().unwrap());
                task.awaited.remove(line["call"].as_str().unwrap());
            }
            "call_started" => {
                let task = tasks.get_mut(&id).unwrap();
                task.open.insert(text(&line["call"]));
                if line.get("with").is_some() {
                    task.awaited.insert(text(&line["call"]));
                }
            }
            "output" => outputs.push(json!({
                "task": id, "call": line["call"], "status": data["status"], "output": line["output"],
            })),
            "document_written" => {
                let first = documents.iter().find(|first| first["path"] == line["data"]["path"]).cloned();
                documents.push(document(line, first.as_ref()));
            }
            "question_opened" => questions.push(json!({
                "question": format!("Q{}", data["number"]), "task": id, "asked_by": line["with"]["holder"],
                "asked_of": data["holder"], "text": data["question"], "state": "open", "documents": names(&line["documents"]),
            })),
            "question_closed" => {
                let question = questions.iter_mut().find(|known| known["task"] == line["task"]).unwrap();
                let how = &data["how"];
                question["state"] = json!(how.as_object().unwrap().keys().next().unwrap());
                if let Some(answered) = how.get("answered") {
                    question["answer"] = answered["answer"].clone();
                    question["answered_by"] = answered["by"].clone();
                }
                if let Some(default) = how.get("expired").and_then(|expired| expired.get("default")) {
                    question["answer"] = default.clone();
                }
            }
            "budget_settled" => {
                let task = tasks.get_mut(&id).unwrap();
                task.reserved.remove(&data.get("by").map(key).unwrap_or_default());
                let cost = &data["cost"];
                if data["unknown"] == true {
                    unknown.0 +=
                        data["usage"]["input_tokens"].as_u64().unwrap() + data["usage"]["output_tokens"].as_u64().unwrap();
                    unknown.1.cost(cost);
                } else {
                    task.sum.settle(&data["usage"], cost);
                    all.settle(&data["usage"], cost);
                    let is_recorded = data.get("by").is_none() && recorded.get(&id) == Some(&data["turn"]);
                    if fork.is_some() && !is_recorded {
                        fork_sum.settle(&data["usage"], cost);
                    }
                }
            }
            "control" => {
                match data["action"].as_str() {
                    Some("paused") => is_paused = true,
                    Some("unpaused") => is_paused = false,
                    _ => {}
                }
                if let Some(new) = data["action"].get("adopted").and_then(|adopted| adopted.get("fork")) {
                    began += moment(line) - new["at"].as_i64().unwrap();
                    fork = Some(json!({"run": new["from"]["run"], "seq": new["from"]["seq"], "turns": 0, "recorded_turns": 0}));
                    (fork_sum, recorded) = Default::default();
                }
            }
            "task_ended" if line["type"] == "root" => root_ended = line.clone(),
            "run_ended" => run_ended = data.clone(),
            _ => {}
        }
        let closes = &line["closes"];
        for call in closes["calls"].as_array().into_iter().flatten() {
            let task = tasks.values_mut().find(|task| task.open.contains(call.as_str().unwrap()));
            if let Some(task) = task {
                task.open.remove(call.as_str().unwrap());
                task.awaited.remove(call.as_str().unwrap());
            }
        }
        for task in closes["tasks"].as_array().into_iter().flatten() {
            let state = data.get("state").map_or("cancelled".to_owned(), text);
            tasks.get_mut(task.as_str().unwrap()).unwrap().ended = Some(state);
            for question in questions.iter_mut().filter(|question| question["task"] == *task && question["state"] == "open") {
                question["state"] = json!("failed");
            }
        }
    }

    let mut subtrees: BTreeMap<String, Sum> = BTreeMap::new();
    for id in order.iter().rev() {
        let own = tasks[id].sum.clone();
        subtrees.entry(id.clone()).or_default().add(&own);
        let whole = subtrees[id].clone();
        if let Some(caller) = tasks[id].created["caller"].as_str() {
            subtrees.entry(caller.to_owned()).or_default().add(&whole);
        }
    }
    let (mut reserved, mut reserved_cost) = (0, Sum::default());
    for (tokens, cost) in tasks.values().flat_map(|task| task.reserved.values()) {
        reserved += tokens;
        reserved_cost.cost(cost);
    }
    for question in &mut questions {
        let created = &tasks[question["task"].as_str().unwrap()].created;
        if let Some(schema) = created.get("answer_schema") {
            question["answer_schema"] = schema.clone();
        }
    }
    let waits = questions.iter().any(|question| question["state"] == "open" && question["asked_of"] == "person")
        && tasks.values().all(|task| task.ended.is_some() || task.state() == "blocked");
    let status = match run_ended["status"].as_str() {
        Some(status) => status,
        None if waits => "waiting",
        None if is_paused => "paused",
        None => "running",
    };
    let handed_off = root_ended["result"]["documents"].as_array().into_iter().flatten().map(|reference| {
        let is_it = |written: &&Value| written["path"] == reference["path"] && written["version"] == reference["version"];
        documents.iter().find(is_it).unwrap().clone()
    });
    let mut show = json!({
        "run": lines[0]["run"], "job": lines[0]["data"]["job"], "status": status, "result": root_ended["result"]["output"],
        "documents": handed_off.collect::<Vec<_>>(),
        "tasks": order.iter().map(|id| {
            let task = &tasks[id];
            json!({
                "task": id, "agent": task.created["holder"]["agent"], "holder": task.created["holder"], "status": task.state(),
                "caller": task.created["caller"], "kind": task.created["kind"], "turns": task.turns, "tokens": task.sum.tokens(),
                "cost_usd": task.sum.usd(), "subtree": {"tokens": subtrees[id].tokens(), "cost_usd": subtrees[id].usd()},
            })
        }).collect::<Vec<_>>(),
        "questions": questions,
        "usage": {
            "used": all.report(), "reserved": {"tokens": reserved, "cost_usd": reserved_cost.usd()},
            "unknown": {"tokens": unknown.0, "cost_usd": unknown.1.usd()},
        },
        "cost_usd": all.usd(),
        "elapsed_ms": (lines.iter().map(moment).max().unwrap() - began) / 1_000,
    });
    if let Some(error) = root_ended["result"].get("error") {
        show["error"] = error.clone();
    }
    if let Some(limit) = run_ended.get("limit") {
        // Reports spell out only this name for people.
        let spelt = BTreeMap::from([("run_turns", "limits.turns of the run")]);
        show["limit"] = json!(spelt[limit.as_str().unwrap()]);
    }
    if !outputs.is_empty() {
        show["outputs"] = json!(outputs);
    }
    if let Some(mut fork) = fork {
        fork["usage"] = fork_sum.report();
        fork["cost_usd"] = json!(fork_sum.usd());
        show["fork"] = fork;
    }
    documents.sort_by_key(|document| text(&document["path"]));
    (show, documents)
}

/// Compares the last run with the fold of its export.
#[track_caller]
fn compare(folder: &Folder, what: &str) {
    let lines = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    assert!(lines.iter().all(|line| line["v"] == 0), "{what}: every line has the version of the format");
    let (show, documents) = fold(&lines);
    let mut shown = folder.baton(&["show", "@last", "--output", "json"]).exits(0).json();
    let failure = shown.as_object_mut().unwrap().remove("failure");
    assert_eq!(shown.as_object_mut().unwrap().remove("v"), Some(json!(0)), "{what}");
    assert_eq!(failure.is_some(), shown.get("error").is_some(), "{what}: each error has its cause");
    assert_eq!(show, shown, "{what}");
    let mut listed = folder.baton(&["doc", "ls", "@last", "--versions", "--output", "json"]).exits(0).json();
    for document in listed.as_array_mut().unwrap() {
        assert_eq!(document.as_object_mut().unwrap().remove("v"), Some(json!(0)), "{what}");
    }
    assert_eq!(json!(documents), listed, "{what}");
}

#[test]
fn show_and_doc_ls_are_folds_of_the_exported_timeline() {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["run", "writing"]).exits(0);
    compare(&folder, "a delegation with documents");
    let original = folder.last_run();
    folder.baton(&["fork", &original]).exits(0);
    compare(&folder, "a fork that takes every answer from its original");
    folder.baton(&["fork", &original, "--at", "9", "--set", "agents.worker.system_prompt=Do it well."]).exits(0);
    compare(&folder, "a fork that asks anew");

    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    compare(&folder, "a run that waits for a person");
    folder.baton(&["answer", "@last", "units", "--no-resume"]).exits(0);
    folder.baton(&["resume", "@last"]).exits(0);
    compare(&folder, "a run that a person answered");
    folder.baton(&["run", "asking"]).exits(3);
    folder.baton(&["cancel", "@last", "--reason", "no longer needed"]).exits(0);
    compare(&folder, "a run that a person cancelled while it waited");

    let calls = json!([{"tool": "write_file", "input": {"content": 1}}, {"tool": "nothing_like_it", "input": {}}]);
    let script = json!({"lead": {"turns": [{"calls": calls.clone()}, {"calls": calls}, {"text": "cut"}]}});
    folder.job("limited", &[("lead", &["write_file"])], script, json!({"limits": {"turns": 2}}));
    folder.baton(&["run", "limited"]).exits(4);
    compare(&folder, "a run that reached a limit after refused calls");

    let echo = |to_llm: bool| json!({"tool": "echo", "input": {"message": "x"}, "return_to_llm": to_llm});
    let script = json!({"lead": {"turns": [
        {"text": "first", "calls": [echo(true), echo(false)]}, {"text": "second", "calls": [echo(false)]},
    ]}});
    folder.job("talking", &[("lead", &["echo"])], script, json!({}));
    folder.baton(&["run", "talking"]).exits(0);
    compare(&folder, "messages and results for the user");

    let parallel: Vec<Value> =
        (0..8).map(|part| json!({"tool": "route_to_worker", "input": {"request": format!("{part}")}})).collect();
    let done = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    let script = json!({"lead": {"turns": [{"calls": parallel}, done.clone()]}, "worker": {"turns": [done]}});
    folder.job("wide", &[("lead", &["route_to_worker", "handoff"]), ("worker", &["handoff"])], script, json!({}));
    folder.baton(&["run", "wide"]).exits(0);
    compare(&folder, "eight tasks of one agent");
    let text = folder.baton(&["timeline", "@last", "--type", "handoff"]).exits(0).stdout;
    assert!((1..=8).all(|part| text.contains(&format!(" 0/1.{part}"))), "each line of text names its task:\n{text}");
}

#[test]
fn the_export_holds_every_stored_entry_unchanged() {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["--store", "kept.db", "run", "writing"]).exits(0);
    let lines = folder.baton(&["--store", "kept.db", "timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    let exported: Vec<Value> = lines
        .iter()
        .map(|line| json!({"seq": line["seq"], "decision": line["decision"], "at": moment(line), "entry": {text(&line["entry"]): line["data"]}}))
        .collect();
    let read = |store: baton_store::SqliteStore| async move {
        use baton_store::Store;
        let run = store.runs().await.unwrap().remove(0).id;
        store.entries(&run, 0, 1_000).await.unwrap()
    };
    let store = baton_store::SqliteStore::open(folder.path().join("kept.db")).unwrap();
    let stored = tokio::runtime::Runtime::new().unwrap().block_on(read(store));
    let stored: Vec<Value> = stored.iter().map(|recorded| serde_json::to_value(recorded).unwrap()).collect();
    assert_eq!(exported, stored);
}
