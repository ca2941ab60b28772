//! The independent checker: reads the histories that a trial left, and the ledger of effects. It shares no code with the engine.
//!
//! A folder of a trial has these files:
//!
//! - `queued.ndjson`: a line `{"run", "tag"}` for each run whose queueing was confirmed to a client.
//! - `histories/RUN.ndjson`: the timeline of each run of the store (`baton timeline RUN --output ndjson`).
//! - `histories/RUN.json`: its state (`baton show RUN --output json`).
//! - `ledger.ndjson`: a line `{"tool", "key", "input"}` for each effect, written by the program that had the effect.
//! - `samples.ndjson`: rows of the table of runs, `{"run", "status", "epoch", "last_seq", …}`, as they were during the trial, in order.
//!
//! A run is **lost** if it was queued and has not completed. An effect is **doubled** if one key acted twice although it may act once, or if
//! two keys acted for one call. Calls of the tools in [`KEYED`] repeat their effect under the same key, as a service that knows the key
//! expects. All other calls may act once at most.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// The tools whose effect is one effect per key, however often it is requested.
const KEYED: [&str; 1] = ["note"];

/// Findings of the checker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of runs.
    pub runs: usize,
    /// Number of calls that have a result.
    pub calls: usize,
    /// Number of effects in the ledger: different keys.
    pub effects: usize,
    /// Number of requests for an effect whose key had acted before, which `keyed` permits.
    pub repeated: usize,
    /// Number of calls whose outcome is unknown.
    pub unknown: usize,
    /// Number of calls that ended without success in another way, such as by a deadline.
    pub unsuccessful: usize,
    /// Runs that are lost, each with the reason.
    pub lost: Vec<String>,
    /// Effects that are doubled.
    pub doubled: Vec<String>,
    /// Histories that contradict themselves or the ledger.
    pub broken: Vec<String>,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.broken.is_empty()
    }

    /// Returns everything that is wrong, a line for each fault.
    pub fn faults(&self) -> Vec<String> {
        let kinds = [("lost", &self.lost), ("doubled", &self.doubled), ("broken", &self.broken)];
        kinds.iter().flat_map(|(kind, faults)| faults.iter().map(move |fault| format!("{kind}: {fault}"))).collect()
    }
}

/// A place in a job: the tag of its run and the number of its step. An agent calls each place once.
type Place = (String, u64);

/// Reads the folder of a trial and judges it.
///
/// # Errors
/// A file is missing or cannot be read. What a readable file has is judged and never an error.
pub fn check(folder: &Path) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let mut results = BTreeMap::new();
    let mut completed = BTreeSet::new();
    for (run, history, state) in histories(folder)? {
        findings.runs += 1;
        let before = findings.broken.len();
        check_history(&run, &history, &mut findings, &mut results);
        if end_of(&history) == Some("completed") && state["status"] == "success" && findings.broken.len() == before {
            completed.insert(run);
        } else {
            let last = history.last().map_or("nothing", |line| line["entry"].as_str().unwrap_or("?"));
            findings.lost.push(format!("{run} is {} and its history ends with {last}", state["status"]));
        }
    }
    for line in lines(&folder.join("queued.ndjson"))? {
        let run = line["run"].as_str().unwrap_or_default();
        if !completed.contains(run) && !findings.lost.iter().any(|lost| lost.starts_with(run)) {
            findings.lost.push(format!("{run} was queued and has no history"));
        }
    }
    check_samples(&lines(&folder.join("samples.ndjson"))?, &mut findings);
    check_ledger(&lines(&folder.join("ledger.ndjson"))?, &results, &mut findings);
    Ok(findings)
}

/// Checks one timeline: its order, its end, and that each call has one result. Adds the statuses of results to `results`.
fn check_history(run: &str, history: &[Value], findings: &mut Findings, results: &mut BTreeMap<Place, String>) {
    let mut broken = |fault: String| findings.broken.push(format!("{run}: {fault}"));
    let (mut begun, mut closed) = (BTreeMap::<&str, &Value>::new(), BTreeSet::new());
    let (mut decision, mut ends) = (0, 0);
    for (place, line) in history.iter().enumerate() {
        let number = place as u64 + 1;
        if line["seq"].as_u64() != Some(number) || line["run"] != run {
            broken(format!("line {number} is entry {} of {}", line["seq"], line["run"]));
        }
        if line["decision"].as_u64().is_none_or(|next| next < decision) {
            broken(format!("entry {number} is of decision {}, after decision {decision}", line["decision"]));
        }
        decision = line["decision"].as_u64().unwrap_or(decision);
        let call = line["call"].as_str();
        match (line["entry"].as_str().unwrap_or_default(), call) {
            ("call_started", Some(call)) if begun.insert(call, &line["input"]).is_some() => {
                broken(format!("call {call} begins twice"));
            }
            ("call_finished", Some(call)) => {
                findings.calls += 1;
                let status = line["result"]["status"].as_str().unwrap_or_default();
                let is_unknown = line["result"]["error"]["code"] == "unknown_outcome" || status == "unknown_outcome";
                findings.unknown += usize::from(is_unknown);
                findings.unsuccessful += usize::from(!is_unknown && status != "success");
                match begun.get(call) {
                    // A handoff ends its task in the decision that takes it, and has no line of its beginning.
                    None if line["type"] == "handoff" => {}
                    None => broken(format!("call {call} has a result and never began")),
                    Some(input) => drop(place_of(input).map(|place| results.insert(place, status.to_owned()))),
                }
            }
            ("run_ended", _) => ends += 1,
            _ => {}
        }
        for call in line["closes"]["calls"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !closed.insert(call) {
                broken(format!("call {call} has two results"));
            }
        }
    }
    for call in begun.keys().filter(|call| !closed.contains(*call)) {
        broken(format!("call {call} has no result"));
    }
    if ends > 1 {
        broken("the run ends twice".to_owned());
    }
}

/// Returns the end of a run if the last line has one.
fn end_of(history: &[Value]) -> Option<&str> {
    let last = history.last().filter(|line| line["entry"] == "run_ended")?;
    last["data"]["state"].as_str()
}

/// Checks that epochs and lengths of runs never go back, and that an end stays.
fn check_samples(samples: &[Value], findings: &mut Findings) {
    let mut known = BTreeMap::<&str, (u64, u64, &str)>::new();
    for sample in samples {
        let run = sample["run"].as_str().unwrap_or_default();
        let (epoch, last_seq) = (sample["epoch"].as_u64().unwrap_or(0), sample["last_seq"].as_u64().unwrap_or(0));
        let status = sample["status"].as_str().unwrap_or_default();
        if let Some((epoch_before, seq_before, status_before)) = known.insert(run, (epoch, last_seq, status)) {
            if epoch < epoch_before {
                findings.broken.push(format!("{run}: its epoch went back from {epoch_before} to {epoch}"));
            }
            if last_seq < seq_before {
                findings.broken.push(format!("{run}: its history went back from entry {seq_before} to {last_seq}"));
            }
            if status_before == "completed" && (status != "completed" || last_seq != seq_before) {
                findings.broken.push(format!("{run}: it continued after its end"));
            }
        }
    }
}

/// Compares the ledger with the results of calls.
fn check_ledger(ledger: &[Value], results: &BTreeMap<Place, String>, findings: &mut Findings) {
    let mut keys = BTreeMap::<Place, BTreeSet<&str>>::new();
    let mut acted = BTreeMap::<(&str, &str), usize>::new();
    for line in ledger {
        let (tool, key) = (line["tool"].as_str().unwrap_or_default(), line["key"].as_str().unwrap_or_default());
        let Some(place) = place_of(&line["input"]).filter(|_| !key.is_empty()) else {
            findings.broken.push(format!("the ledger has a line that cannot be read: {line}"));
            continue;
        };
        if !results.contains_key(&place) {
            findings.broken.push(format!("the effect of {tool} for {place:?} belongs to no call with a result"));
        }
        keys.entry(place).or_default().insert(key);
        *acted.entry((tool, key)).or_default() += 1;
    }
    findings.effects = acted.len();
    for ((tool, key), times) in acted.into_iter().filter(|(_, times)| *times > 1) {
        if KEYED.contains(&tool) {
            findings.repeated += times - 1;
        } else {
            findings.doubled.push(format!("{tool} acted {times} times for the key {key}"));
        }
    }
    for (place, keys) in keys.iter().filter(|(_, keys)| keys.len() > 1) {
        findings.doubled.push(format!("{} keys acted for one call, {place:?}: {keys:?}", keys.len()));
    }
    for (place, _) in results.iter().filter(|(place, status)| *status == "success" && !keys.contains_key(*place)) {
        findings.broken.push(format!("the call {place:?} was successful and has no effect"));
    }
}

/// Returns the place that an input names; `None` for calls of other tools.
fn place_of(input: &Value) -> Option<Place> {
    Some((input["tag"].as_str()?.to_owned(), input["step"].as_u64()?))
}

/// Returns each run with its timeline and its state.
fn histories(folder: &Path) -> anyhow::Result<Vec<(String, Vec<Value>, Value)>> {
    let folder = folder.join("histories");
    let files = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths = files.map(|file| Ok(file?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let run = path.file_stem().context("a file without a name")?.to_string_lossy().into_owned();
        let state = path.with_extension("json");
        let text = fs::read_to_string(&state).with_context(|| format!("{} cannot be read", state.display()))?;
        Ok((run, lines(path)?, serde_json::from_str(&text).with_context(|| format!("{} is not JSON", state.display()))?))
    };
    paths.iter().map(read).collect()
}

/// Returns the lines of a file, each of which is JSON.
fn lines(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let parsed = text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str);
    parsed.map(|line| line.with_context(|| format!("{} has a line that is not JSON", path.display()))).collect()
}
