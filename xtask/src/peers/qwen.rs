//! A small real model on this machine: Qwen2.5-Coder-1.5B-Instruct behind llama.cpp's own server.
//!
//! Generators make tasks from seeds; a right run of a task makes the calls that it needs and hands off exactly its result.
//! Each draw runs all tasks of one seed, in one way to call tools. Nothing is repeated: a run that takes too long is wrong.
//! The seeds of a measurement come from the hash of the commit, so that no change can be fitted to them.

mod chance;
mod judge;
mod server;
mod task;
mod tasks;
mod ways;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use self::chance::Chance;
use self::judge::{Judgement, Seen, judge};
use self::tasks::{GENERATORS, Generator};
use self::ways::Way;
use super::environment::Installer;
use super::program::{Access, KEY, Program};
use super::{Checked, Row};
use crate::project::root;

/// Name of the peer and of its folder.
pub(super) const NAME: &str = "qwen";

/// The provider whose dialect the server speaks.
const LIKE: &str = "llamacpp";

/// The share of right tasks that universal invocation must reach, in percent: 42 of 60.
const LEAST_PERCENT: usize = 70;

/// The draws of a measurement, and their limits: options of this peer alone.
#[derive(Args)]
pub(super) struct Draws {
    /// Seeds of the draws (qwen only). Default: seeds from the hash of the commit, three for `universal`, one for each other way.
    #[arg(long, value_name = "SEED", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Ways to call tools (qwen only). Default: all.
    #[arg(long, value_enum, value_name = "WAY", value_delimiter = ',')]
    ways: Vec<Way>,
    /// Names of generators (qwen only). Default: all 20.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tasks: Vec<String>,
    /// Time limit of a task in seconds (qwen only).
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    task_seconds: u64,
    /// Threads of the server (qwen only).
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    threads: u32,
}

/// Sums of the draws of one way.
#[derive(Default)]
struct Sums {
    seeds: Vec<u64>,
    tasks: usize,
    right: usize,
    wrong_calls: usize,
    input_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    seconds: u64,
}

/// Runs all draws.
pub(super) fn check(installer: &Installer<'_>, program: &Program, options: &Draws) -> anyhow::Result<Checked> {
    let generators = options.generators()?;
    let seeds = options.seeds()?;
    let ways = if options.ways.is_empty() { <Way as clap::ValueEnum>::value_variants() } else { &options.ways };
    let server = server::start(installer, options.threads)?;
    let settings = json!({"temperature": 0});
    program.write_models(&[Access {
        name: task::MODEL,
        model: NAME,
        like: LIKE,
        address: server.address("/v1"),
        key: KEY,
        settings,
    }])?;
    let mut rows = Vec::new();
    for way in ways {
        let mut sums = Sums::default();
        let count = if options.seeds.is_empty() { way.draws() } else { seeds.len() };
        for seed in &seeds[..count] {
            sums.seeds.push(*seed);
            for generator in &generators {
                sums.run(program, generator, *way, *seed)?;
            }
        }
        rows.push(sums.row(*way));
    }
    Ok(Checked { summary: format!("{} ways", rows.len()), rows })
}

impl Draws {
    /// Returns the time limit of a task.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.task_seconds)
    }

    /// Returns the chosen generators.
    fn generators(&self) -> anyhow::Result<Vec<&'static Generator>> {
        let names: Vec<&str> = GENERATORS.iter().map(|generator| generator.name).collect();
        let unknown = self.tasks.iter().find(|task| !names.contains(&task.as_str()));
        ensure!(unknown.is_none(), "unknown generator {:?}; there are {}", unknown.unwrap_or(&String::new()), names.join(", "));
        Ok(GENERATORS.iter().filter(|each| self.tasks.is_empty() || self.tasks.iter().any(|name| name == each.name)).collect())
    }

    /// Returns the seeds of the draws: those of the options, or those of the commit.
    fn seeds(&self) -> anyhow::Result<Vec<u64>> {
        if !self.seeds.is_empty() {
            return Ok(self.seeds.clone());
        }
        let git = |arguments: &[&str]| -> anyhow::Result<String> {
            let output = std::process::Command::new("git")
                .current_dir(root())
                .args(arguments)
                .output()
                .context("git cannot be started")?;
            ensure!(output.status.success(), "the commit is unknown; give --seeds");
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        ensure!(
            git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
            "there are changes that are not committed; give --seeds"
        );
        let commit = git(&["rev-parse", "HEAD"])?;
        let seeds = Chance::seeds_of(&commit, Way::Universal.draws());
        println!("seeds of commit {commit}: {seeds:?}");
        Ok(seeds)
    }
}

impl Sums {
    /// Runs and judges one task, prints its line, and adds it.
    fn run(&mut self, program: &Program, generator: &Generator, way: Way, seed: u64) -> anyhow::Result<()> {
        let task = generator.task(seed);
        let name = format!("{}-{seed}-{}", way.name(), generator.name);
        let folder = program.folder().join("jobs").join(&name);
        task.write(generator.name, way, &folder)?;
        let began = Instant::now();
        let finished = program.run(&name, &folder, &[]);
        let seconds = began.elapsed().as_secs();
        let (judgement, report) = match finished {
            Ok(finished) => (judge(&task, &Seen::of(&finished)), finished.report),
            // A folder among the documents, for instance: it is the model's doing, not a fault of this program.
            Err(error) => (Judgement { faults: vec![format!("{error:#}")], wrong_calls: 0 }, Value::Null),
        };
        let used = |key: &str| report["usage"]["used"][key].as_u64().unwrap_or_default();
        self.tasks += 1;
        self.right += usize::from(judgement.faults.is_empty());
        self.wrong_calls += judgement.wrong_calls;
        self.input_tokens += used("input_tokens");
        self.cached_tokens += used("cached_tokens");
        self.output_tokens += used("output_tokens");
        self.seconds += seconds;
        let turns = report["tasks"].as_array().map_or(0, |tasks| tasks.iter().filter_map(|task| task["turns"].as_u64()).sum());
        let verdict = if judgement.faults.is_empty() { "right" } else { "wrong" };
        println!("{verdict} {name}: {turns} turns, {} tokens, {seconds} s", used("output_tokens"));
        let error = report["error"]["message"].as_str().map(|error| format!("the run failed: {error}"));
        for fault in judgement.faults.iter().chain(&error) {
            println!("      {fault}");
        }
        Ok(())
    }

    /// Returns the sums of a way as a row; a fault if universal invocation is right too rarely.
    fn row(&self, way: Way) -> Row {
        let Self { seeds, tasks, right, wrong_calls, input_tokens, cached_tokens, output_tokens, seconds } = self;
        let percent = if *tasks == 0 { 0 } else { 100 * right / tasks };
        let saw = format!(
            "{right} of {tasks} right ({percent} %), {wrong_calls} wrong calls executed, {input_tokens} tokens in ({cached_tokens} \
             cached), {output_tokens} out, {seconds} s, seeds {seeds:?}"
        );
        let too_few = way == Way::Universal && 100 * right < LEAST_PERCENT * tasks;
        let faults = too_few.then(|| format!("less than {LEAST_PERCENT} % are right")).into_iter().collect();
        Row { case: way.name().to_owned(), saw, faults }
    }
}
