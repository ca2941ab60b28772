//! Everything that a trial runs on: the network, the servers, three workers, a tool service, and the job whose effects are noted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, ensure};
use baton_servers::Postgres;
use serde_json::{Value, json};

use crate::bus::{Bus, SERVERS};
use crate::network::Network;
use crate::process::Process;

/// The nodes of the workers.
pub(crate) const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

/// The node of PostgreSQL. The keeper of the network knows its name too.
pub(crate) const DATABASE: &str = "database";

/// The node of the tool service.
const SERVICE: &str = "service";

/// The node of the client that queues runs.
const CLIENT: &str = "client";

/// The database of the runs.
const RUNS: &str = "runs";

/// Longest time of a command of a client, in seconds. Then the client counts it as refused.
const CLIENT_TIMEOUT: &str = "60";

/// Notes an effect: one line, appended with one write.
const NOTE: &str =
    r#"printf '{"tool":"%s","key":"%s","input":%s}\n' "$0" "$BATON_CALL_ID" "$(cat)" >>"$LEDGER"; sleep 0.3; echo '{}'"#;

/// Servers and processes. They end when this is dropped: first the workers, and the network last.
#[derive(Debug)]
pub struct Fleet {
    workers: BTreeMap<String, Process>,
    _service: Process,
    /// The NATS servers.
    pub bus: Bus,
    database: Arc<Postgres>,
    /// The network.
    pub network: Network,
    folder: PathBuf,
    program: PathBuf,
}

impl Fleet {
    /// Starts everything, with its files in `folder`, which must be empty. `program` is `baton`.
    ///
    /// # Errors
    /// [`crate::Unavailable`] if the machine permits no namespaces; anything that does not start.
    pub fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.canonicalize().with_context(|| format!("{} cannot be found", folder.display()))?;
        let program = program.canonicalize().with_context(|| format!("{} is not built", program.display()))?;
        let names: Vec<&str> = SERVERS.into_iter().chain(WORKERS).chain([DATABASE, SERVICE, CLIENT]).collect();
        let network = Network::new(&names)?;
        for name in ["servers", "logs", "jobs", "histories"] {
            fs::create_dir_all(folder.join(name))?;
        }
        write_jobs(&folder.join("jobs"))?;
        fs::write(folder.join("ledger.ndjson"), "")?;
        let node = network.node(DATABASE);
        let database = Arc::new(Postgres::start_in(node.namespace(), &node.address));
        database.sql("postgres", &format!("CREATE DATABASE {RUNS}"));
        let bus = Bus::start(&network, &folder.join("servers"))?;
        let service = {
            let mut service = network.node(SERVICE).command(&program);
            service.args(["tool", "serve", "record", "--job", "service", "--trust"]);
            equip(&mut service, &folder, &bus.address());
            Process::start(SERVICE, service, &folder.join("logs/service.log"))?
        };
        ready(&folder.join("logs/service.log"), "stop with Ctrl-C", 0)?;
        let mut fleet = Self { workers: BTreeMap::new(), _service: service, bus, database, network, folder, program };
        for name in WORKERS {
            fleet.start_worker(name, &[])?;
        }
        Ok(fleet)
    }

    /// Returns the folder with the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a worker, with more variables of its environment.
    pub fn start_worker(&mut self, name: &str, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut worker = self.command(self.network.node(name).command(&self.program));
        worker.args(["work", "--slots", "8", "--trust", "--output", "ndjson"]).envs(variables.iter().copied());
        let log = self.folder.join(format!("logs/{name}.log"));
        let length = fs::metadata(&log).map_or(0, |file| file.len());
        let worker = Process::start(name, worker, &log)?;
        self.workers.insert(name.to_owned(), worker);
        ready(&log, "stop with Ctrl-C", length)
    }

    /// Asks a worker to end, and waits until it has. It must end without an error.
    pub fn stop_worker(&mut self, name: &str) -> anyhow::Result<()> {
        let worker = self.workers.remove(name).with_context(|| format!("{name} does not run"))?;
        let status = worker.stop()?;
        ensure!(status.success(), "{name} ended with {status}");
        Ok(())
    }

    /// Returns a worker.
    pub fn worker(&self, name: &str) -> anyhow::Result<&Process> {
        self.workers.get(name).with_context(|| format!("{name} does not run"))
    }

    /// Fails if a worker has ended by itself.
    pub fn check_workers(&mut self) -> anyhow::Result<()> {
        self.workers.values_mut().try_for_each(Process::check)
    }

    /// Returns a maker of commands of a client on its node, with a limit of their time.
    pub fn clients(&self) -> impl Fn(&[&str]) -> Command + Send + Sync + 'static {
        let (node, program) = (self.network.node(CLIENT).clone(), self.program.clone());
        let (folder, bus, store) = (self.folder.clone(), self.bus.address(), self.store());
        move |arguments| {
            let mut client = node.command("timeout");
            equip(&mut client, &folder, &bus);
            client.env("BATON_STORE", &store).arg(CLIENT_TIMEOUT).arg(&program).args(arguments);
            client
        }
    }

    fn store(&self) -> String {
        format!("postgres://postgres@{}:5432/{RUNS}", self.network.node(DATABASE).address)
    }

    /// Returns the command of an observer, whom no fault reaches: it uses the socket of the database.
    pub fn observer(&self, arguments: &[&str]) -> Command {
        let mut observer = self.command(Command::new(&self.program));
        let socket = self.database.folder().display().to_string().replace('/', "%2F");
        observer.args(arguments).env("BATON_STORE", format!("postgres://postgres@{socket}:5432/{RUNS}")).env_remove("BATON_BUS");
        observer
    }

    /// Returns a query of the database, which no fault reaches: rows with columns that are separated by `|`.
    pub fn query(&self) -> impl Fn(&str) -> String + Send + Sync + 'static {
        let database = Arc::clone(&self.database);
        move |statement| database.sql(RUNS, statement)
    }

    /// Adds the folder and the environment that all commands of the cluster have.
    fn command(&self, mut command: Command) -> Command {
        equip(&mut command, &self.folder, &self.bus.address());
        command.env("BATON_STORE", self.store());
        command
    }
}

/// Waits until a log has a text after its first `length` bytes.
fn ready(log: &Path, text: &str, length: u64) -> anyhow::Result<()> {
    let has_text = || fs::read(log).is_ok_and(|bytes| String::from_utf8_lossy(&bytes[length as usize..]).contains(text));
    crate::wait(&format!("{} has \"{text}\"", log.display()), crate::START_TIMEOUT, || Ok(has_text()))
}

/// Adds the folder, the bus and the home of the trial.
fn equip(command: &mut Command, folder: &Path, bus: &str) {
    command.current_dir(folder.join("jobs"));
    for name in
        ["BATON_STORE", "BATON_HOME", "BATON_OUTPUT", "BATON_STATE_HOME", "NATS_CREDS", "NATS_NKEY", "NATS_CA", "NATS_CERT"]
    {
        command.env_remove(name);
    }
    command.env("BATON_BUS", bus).env("BATON_USER", "ann").env("LEDGER", folder.join("ledger.ndjson"));
    command.env("XDG_CONFIG_HOME", folder.join("config")).env("XDG_STATE_HOME", folder.join("state"));
}

/// Writes the job `fleet`, whose calls have effects, and the tool of the service.
///
/// `note` is a `keyed` command, `stamp` is an `at_most_once` command, and the service executes `record`, once for each call. `sleep` lets the
/// run wait without a worker.
fn write_jobs(folder: &Path) -> anyhow::Result<()> {
    let write = |path: &str, value: &Value| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        fs::write(&path, value.to_string()).with_context(|| format!("{} cannot be written", path.display()))
    };
    let schema = json!({
        "type": "object", "properties": {"tag": {"type": "string"}, "step": {"type": "integer"}}, "required": ["tag", "step"],
    });
    let tool =
        |id: &str| json!({"tool_id": id, "type": "function_tool", "description": "Notes its call.", "input_schema": schema});
    let command = |id: &str, effect: &str| {
        let mut tool = tool(id);
        tool["effect"] = json!(effect);
        tool["exec"] = json!({"command": ["sh", "-c", NOTE, id], "env": ["LEDGER"]});
        tool
    };
    let mut record = tool("record");
    record["target_subject"] = json!("cg.v1r3.{project_id}.{channel_id}.cmd.tool.record");
    record["suspend_timeout_seconds"] = json!(600);
    let job = |name: &str| {
        json!({
            "job_id": name, "description": "A job of the cluster kit.", "root": "lead", "request": "Do it.",
            "models": {"scripted": {"provider": "scripted", "script": "the.script.json"}},
        })
    };
    let agent = |tools: &[&str]| json!({"agent_id": "lead", "description": "An agent.", "model": "scripted", "system_prompt": "Do it.", "tools": tools});
    let call = |tool: &str, step: u64| json!({"tool": tool, "input": {"tag": "{{ request }}", "step": step}});
    let turns = json!([
        {"calls": [call("note", 1)]},
        {"calls": [call("record", 2), call("note", 3)]},
        {"calls": [call("stamp", 4)]},
        {"calls": [{"tool": "sleep", "input": {"seconds": 1}}]},
        {"calls": [call("record", 5)]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "noted"}}}]},
    ]);
    write("fleet/job.json", &job("fleet"))?;
    write("fleet/the.script.json", &json!({"agents": {"lead": {"turns": turns}}}))?;
    write("fleet/agents/lead.json", &agent(&["note", "record", "stamp", "sleep", "handoff"]))?;
    write("fleet/tools/note.json", &command("note", "keyed"))?;
    write("fleet/tools/stamp.json", &command("stamp", "at_most_once"))?;
    write("fleet/tools/record.json", &record)?;
    write("service/job.json", &job("service"))?;
    write("service/the.script.json", &json!({"agents": {"lead": {"turns": [{"text": "done"}]}}}))?;
    write("service/agents/lead.json", &agent(&["record"]))?;
    write("service/tools/record.json", &command("record", "at_most_once"))
}
