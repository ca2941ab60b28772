//! Tokens of the catalog of seed 001's 15 tools, and of the first request of a job with them: `cargo xtask bench --catalog`.
//!
//! Tokens are counted by the tokenizer `o200k_base` of `OpenAI`. The requests are the bytes that a server receives from the engine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, anyhow, bail, ensure};
use baton_config::{Role, Sources, Unconfigured, load_tools};
use baton_rcrt::{Filter, ToolCatalog};
use baton_runtime::{Engine, LoadedJob, RunOutcome, StartOptions};
use baton_store::MemoryStore;
use baton_tool::registered_functions;
use baton_tools as _;
use serde_json::json;
use tiktoken_rs::CoreBPE;

/// The tools of seed 001's catalog, in its order.
const TOOLS: [&str; 15] = [
    "openrouter",
    "venice",
    "ollama_local",
    "calculator",
    "random",
    "echo",
    "timer",
    "breadcrumb-create",
    "breadcrumb-update",
    "breadcrumb-search",
    "json-transform",
    "workflow",
    "scheduler",
    "openrouter_models_sync",
    "astral",
];

/// The most tokens of the compact catalog: the figure of seed 001.
const MOST_TOKENS: usize = 900;

/// Least reduction by the compact catalog, in percent of the record `tool.catalog.v1` (seed 001).
const LEAST_CATALOG_REDUCTION: f64 = 89.0;

/// Least reduction of a job's first request by `discover`, in percent of the one with `full`: the lower bound of seed 001.
const LEAST_REQUEST_REDUCTION: f64 = 65.0;

/// Name of the measured job.
const JOB: &str = "seed-tools";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let tokenizer = tiktoken_rs::o200k_base()?;
    let tokens = |text: &str| CoreBPE::encode_ordinary(&tokenizer, text).len();
    let catalog = catalog()?;
    let (compact, full) = (catalog.compact(""), catalog.record().to_string());
    println!("{compact}");
    println!("| measured | tokens (o200k_base) | reduction | target |\n| --- | --- | --- | --- |");
    let (lines, record) = (tokens(&compact), tokens(&full));
    let catalog_reduction = reduction(lines, record);
    println!("| tool.catalog.v1 of 15 tools as compact JSON | {record} | | |");
    println!(
        "| compact catalog | {lines} | {catalog_reduction:.1} % | at most {MOST_TOKENS}, {LEAST_CATALOG_REDUCTION} % less |"
    );
    let mut missed = Vec::new();
    if lines > MOST_TOKENS {
        missed.push(format!("the compact catalog has {lines} tokens, more than {MOST_TOKENS}"));
    }
    if catalog_reduction < LEAST_CATALOG_REDUCTION {
        missed.push(format!(
            "the compact catalog is {catalog_reduction:.1} % smaller than the record, not {LEAST_CATALOG_REDUCTION} %"
        ));
    }
    for invocation in ["native", "universal"] {
        let (all, few) = (first_request(invocation, "full").await?, first_request(invocation, "discover").await?);
        let (all, few) = (tokens(&all), tokens(&few));
        let less = reduction(few, all);
        // The explanation of universal invocation is in both of its requests, so that seed 001's bound is one for native calls.
        let is_bound = invocation == "native";
        let target = if is_bound { format!("{LEAST_REQUEST_REDUCTION} % less") } else { String::new() };
        println!("| first request of {JOB}, {invocation}, full | {all} | | |");
        println!("| first request of {JOB}, {invocation}, discover | {few} | {less:.1} % | {target} |");
        if is_bound && less < LEAST_REQUEST_REDUCTION {
            missed.push(format!("the first request is {less:.1} % smaller with discover, not {LEAST_REQUEST_REDUCTION} %"));
        }
    }
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// Returns by how many percent `small` is less than `large`.
fn reduction(small: usize, large: usize) -> f64 {
    100.0 * (1.0 - small as f64 / large as f64)
}

/// Returns the catalog of the 15 tools, from their configs alone.
fn catalog() -> anyhow::Result<ToolCatalog> {
    let mut sources = Sources::new("");
    for name in TOOLS {
        let (path, text) = config(name)?;
        sources.add(Role::BuiltinTool, path, text);
    }
    let tools = load_tools(&sources, &[], Unconfigured::Reading).map_err(|faults| anyhow!("{faults}"))?;
    ToolCatalog::of(tools.values(), &Filter::default()).map_err(|missing| anyhow!("{missing:?}"))
}

/// Returns the place and the text of the config of a built-in tool.
fn config(name: &str) -> anyhow::Result<(String, String)> {
    let place = format!("tool-configs/{name}.json");
    let text = std::fs::read_to_string(root().join(&place)).with_context(|| format!("{place} cannot be read"))?;
    Ok((place, text))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Executes the job with an agent of `invocation` and `catalog`, and returns the body of its first request.
async fn first_request(invocation: &str, catalog: &str) -> anyhow::Result<String> {
    let (address, received) = serve()?;
    let job = job(invocation, catalog, &address)?;
    let engine = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::new(MemoryStore::default()));
    let handle = engine.variables(|_| None).build()?.start(job, StartOptions::default()).await?;
    match handle.outcome().await {
        RunOutcome::Ended { end, .. } => ensure!(end.status.as_str() == "success", "the run ended {}", end.status.as_str()),
        _ => bail!("the run did not end"),
    }
    tokio::task::spawn_blocking(|| received.join()).await?.map_err(|_| anyhow!("the server failed"))?
}

/// Returns the job: one agent with the 15 tools. None of them is called.
fn job(invocation: &str, catalog: &str, address: &str) -> anyhow::Result<LoadedJob> {
    let mut sources = Sources::new("");
    let job = json!({
        "job_id": JOB, "description": "Answers questions with the tools of seed 001.", "root": "assistant",
        "request": "Draw two random numbers between 1 and 6, and answer with the square of their sum.",
    });
    let models = json!({"providers": {"local": {"like": "openai", "base_url": address}}});
    let agent = json!({
        "agent_id": "assistant", "description": "Answers questions.", "model": "local:gpt-5-mini", "tools": TOOLS,
        "system_prompt": "You are a helpful assistant. Answer with the tools that you have.",
        "invocation": invocation, "catalog": catalog,
    });
    sources.add(Role::Job, "job.json", job.to_string());
    sources.add(Role::Models, "models.json", models.to_string());
    sources.add(Role::Agent, "agents/assistant.json", agent.to_string());
    let functions: Vec<_> = registered_functions();
    for name in TOOLS {
        let (path, text) = config(name)?;
        sources.add(Role::BuiltinTool, path, text);
    }
    let describe = "tool-configs/describe_tools.json";
    sources.add(Role::BuiltinTool, describe, std::fs::read_to_string(root().join(describe))?);
    let functions: Vec<_> = functions.into_iter().filter(|function| TOOLS.contains(&function.id)).collect();
    LoadedJob::from_sources(sources, &functions).map_err(|faults| anyhow!("{faults}"))
}

/// Starts a server that answers one request with a text, and returns its address and the body that it receives.
fn serve() -> anyhow::Result<(String, JoinHandle<anyhow::Result<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/v1", listener.local_addr()?);
    Ok((address, std::thread::spawn(move || answer(listener.accept()?.0))))
}

fn answer(stream: TcpStream) -> anyhow::Result<String> {
    let mut reader = BufReader::new(stream);
    let mut length = 0_usize;
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "the request has no end");
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    // An answer that ends the task in both ways to call tools.
    let text = json!({"tool_requests": [], "message": "done"}).to_string();
    let reply = json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.len()
    );
    reader.get_mut().write_all((head + &reply).as_bytes())?;
    Ok(String::from_utf8(body)?)
}
