//! The agents of the benchmark jobs: what their models say, and what comes of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::disk::Disk;
use crate::measurement::{Mark, first_call, takes_mark, unix_seconds};
use crate::{Workload, contents};

/// A job that proceeds.
pub(crate) struct Job {
    workload: Workload,
    n: usize,
    documents: Mutex<HashMap<String, Document>>,
    timeline: Mutex<Vec<Value>>,
    disk: Option<Arc<Disk>>,
    marks: Mutex<Vec<Mark>>,
}

/// A document, and its line in a list of documents.
struct Document {
    content: Arc<str>,
    _listed: Value,
}

/// Locks a part that a job shares, for a moment. No holder panics.
fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no holder of the lock panics")
}

impl Job {
    /// Returns a new job, with its table if it has one.
    pub(crate) fn new(workload: Workload, n: usize, disk: Option<Arc<Disk>>) -> Self {
        let (documents, timeline, marks) = Default::default();
        let job = Self { workload, n, documents, timeline, disk, marks };
        if workload == Workload::Q3 {
            job.put("sales_raw.csv", &contents::table(), "text/csv");
        }
        job
    }

    pub(crate) fn root(&self) -> String {
        if self.workload == Workload::Deep { "level" } else { "root" }.to_owned()
    }

    /// Returns the number of calls in the timeline.
    pub(crate) fn calls(&self) -> usize {
        hold(&self.timeline).len()
    }

    pub(crate) fn marks(&self) -> Vec<Mark> {
        hold(&self.marks).clone()
    }

    /// Writes a document and returns the result of the tool.
    fn put(&self, path: &str, content: &str, mime_type: &str) -> Value {
        let size = content.len();
        let summary = content.get(..size.min(80)).unwrap_or(content);
        let listed = json!({
            "path": path, "mime_type": mime_type, "size_bytes": size, "token_count": size / 4, "version": 1,
            "created_by": "task", "created_at": unix_seconds(), "summary": summary, "tags": [],
        });
        hold(&self.documents).insert(path.to_owned(), Document { content: content.into(), _listed: listed });
        json!({"path": path, "size_bytes": size, "version": 1})
    }

    fn content(&self, path: &str) -> Arc<str> {
        hold(&self.documents).get(path).map_or_else(|| "".into(), |document| Arc::clone(&document.content))
    }

    /// `text` with the contents of the documents that `paths` names.
    fn with_documents(&self, mut text: String, paths: &Value) -> String {
        for path in paths.as_array().into_iter().flatten().filter_map(Value::as_str) {
            text.extend(["\n\n# ", path, "\n", &self.content(path)]);
        }
        text
    }

    /// Adds a call to the timeline, once it is durable.
    async fn record(&self, kind: &str, tool: &str, input: &Value, result: Value) -> anyhow::Result<()> {
        let entry = json!({"type": kind, "tool": tool, "input": input, "result": result, "timestamp": unix_seconds()});
        if let Some(disk) = &self.disk {
            disk.write(serde_json::to_vec(&entry)?).await?;
        }
        hold(&self.timeline).push(entry);
        Ok(())
    }

    /// Returns the answer of `agent`'s model as text. `number` is the one in its request.
    fn answer(&self, agent: &str, turn: usize, number: usize) -> String {
        let call = |tool: &str, input| json!({"calls": [{"tool": tool, "input": input}]});
        let write = |path: &str, mime_type: &str| {
            call("write_file", json!({"path": path, "content": contents::report(), "mime_type": mime_type}))
        };
        let handoff =
            |summary: &str, documents: &[&str]| json!({"handoff": {"result": {"summary": summary}, "documents": documents}});
        let document = || format!("doc_{number}.md");
        let answer = match (self.workload, agent, turn) {
            (Workload::Q3, "root", 1) => {
                call("route_to_analyst", json!({"request": "Analyze Q3 sales", "documents": ["sales_raw.csv"]}))
            }
            (_, "analyst", 1) => call("stop_and_think", json!({"thoughts": "I should aggregate by region first.".repeat(4)})),
            (_, "analyst", 2) => write("analysis.md", "text/markdown"),
            (_, "analyst", 3) => {
                call("route_to_visualizer", json!({"request": "Create charts", "documents": ["sales_raw.csv", "analysis.md"]}))
            }
            (_, "analyst", _) => handoff("analysis complete", &["analysis.md", "charts.md"]),
            (_, "visualizer", 1) => call("load_to_context", json!({"path": "sales_raw.csv"})),
            (_, "visualizer", 2) => write("charts.md", "text/markdown"),
            (_, "visualizer", _) => handoff("charts created", &["charts.md"]),
            (Workload::Wide, "root", 1) => {
                let input = |item| json!({"request": format!("item={item}"), "documents": []});
                let delegation = |item| json!({"tool": "route_to_worker", "input": input(item)});
                json!({"calls": (0..self.n).map(delegation).collect::<Vec<_>>()})
            }
            (_, "worker", 1..=4) => call("calc", json!({"a": turn, "b": number})),
            (_, "worker", 5) => write(&document(), "text/markdown"),
            (_, "worker", _) => handoff("ok", &[&document()]),
            (_, "level", 1) if number == 0 => write("leaf.md", "text/markdown"),
            (_, "level", 1) => call("route_to_level", json!({"request": format!("level={}", number - 1), "documents": []})),
            (_, "level", _) if number < self.n => handoff("up", &["leaf.md"]),
            (Workload::Long, _, turn) if turn <= self.n => call("calc", json!({"a": turn, "b": 1})),
            (Workload::Startup, _, 1) => call("calc", json!({"a": 1, "b": 1})),
            _ => json!({"text": "done"}),
        };
        answer.to_string()
    }
}

/// Works as one agent on `request`. Returns its handoff, or `null` if it ends with a text.
pub(crate) fn work(job: Arc<Job>, agent: String, request: String) -> BoxFuture<'static, anyhow::Result<Value>> {
    Box::pin(async move {
        let number = number(&request).unwrap_or(job.n);
        let mut conversation = vec![json!({"role": "user", "content": request})];
        let mut turn = 0;
        loop {
            turn += 1;
            // Where a model would be awaited.
            tokio::task::yield_now().await;
            if job.workload == Workload::Long && takes_mark(turn, job.n) {
                hold(&job.marks).push(Mark::now());
            }
            let mut answer: Value = serde_json::from_str(&job.answer(&agent, turn, number))?;
            let Value::Array(calls) = answer["calls"].take() else { return Ok(answer["handoff"].take()) };
            conversation.push(Value::Array(calls.clone()));
            for result in results(&job, calls).await? {
                conversation.push(json!({"role": "tool", "content": result}));
            }
        }
    })
}

/// Returns the results of one turn's calls, in their order; several calls run concurrently.
async fn results(job: &Arc<Job>, mut calls: Vec<Value>) -> anyhow::Result<Vec<String>> {
    if calls.len() == 1 {
        return Ok(vec![call(Arc::clone(job), calls.remove(0)).await?]);
    }
    let running: Vec<_> = calls.into_iter().map(|one| tokio::spawn(call(Arc::clone(job), one))).collect();
    let mut results = Vec::with_capacity(running.len());
    for one in running {
        results.push(one.await??);
    }
    Ok(results)
}

/// Makes one call. Returns its result for the model.
async fn call(job: Arc<Job>, call: Value) -> anyhow::Result<String> {
    let (tool, input) = (text(&call, "tool")?, &call["input"]);
    if let Some(agent) = tool.strip_prefix("route_to_") {
        job.record("agent_as_tool", tool, input, json!("delegated")).await?;
        let request = job.with_documents(text(input, "request")?.to_owned(), &input["documents"]);
        let handoff = tokio::spawn(work(Arc::clone(&job), agent.to_owned(), request)).await??;
        job.record("handoff", "handoff", &handoff, Value::Null).await?;
        return Ok(job.with_documents(handoff.to_string(), &handoff["documents"]));
    }
    let (kind, result) = match tool {
        "write_file" => ("function_tool", job.put(text(input, "path")?, text(input, "content")?, text(input, "mime_type")?)),
        "load_to_context" => ("function_tool", json!(&*job.content(text(input, "path")?))),
        "calc" => ("function_tool", calc(input)?),
        _ => ("non_function_tool", json!({"logged": true})),
    };
    job.record(kind, tool, input, result.clone()).await?;
    Ok(if let Value::String(content) = result { content } else { result.to_string() })
}

fn calc(input: &Value) -> anyhow::Result<Value> {
    first_call();
    let number = |key: &str| input[key].as_u64().with_context(|| format!("{key} is not a number"));
    Ok(json!({"sum": number("a")? + number("b")?, "note": contents::note()}))
}

fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value[key].as_str().with_context(|| format!("{key} is not a text"))
}

/// Returns the number in a request, `item=7`; `None` at the root. Documents may follow.
fn number(request: &str) -> Option<usize> {
    let (_, rest) = request.lines().next()?.split_once('=')?;
    rest.parse().ok()
}
