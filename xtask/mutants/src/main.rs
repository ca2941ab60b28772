//! `cargo xtask mutants`: changes the core in every way that `cargo mutants` knows, and reports the changes that its
//! tests miss.
//!
//! One build holds all mutants, each behind a switch, so that a trial costs a test run and no build. A test program is
//! only run against the mutants that it reaches. Verdicts and the mutants that do not compile are cached under
//! `target/mutants` by the sources' hash: an interrupted chore continues at its place.

mod list;
mod plant;
mod report;
mod sites;
mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use clap::Parser;

use self::list::Mutant;
use self::plant::Planted;
use self::report::Verdicts;
use self::trial::{Test, Verdict};

/// The crates that are changed and whose tests are tried, by folder; each is called `baton-` and the folder's name.
const CRATES: [&str; 7] =
    ["engine/types", "engine/render", "engine/machine", "engine/schema", "engine/config", "engine/tool", "engine/template"];

/// Files that are left out: the provider tests cover them, and their survivors have not been judged.
const UNTOUCHED: &str = "engine/schema/src/provider/";

/// Which mutants are tried.
#[derive(Parser)]
#[command(name = "cargo xtask mutants", bin_name = "cargo xtask mutants")]
struct Options {
    /// Only mutants of files whose path contains this.
    #[arg(long, value_name = "TEXT")]
    file: Option<String>,
    /// Only one part of the list, such as `1/4`.
    #[arg(long, value_name = "K/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Tries those again that nothing caught before.
    #[arg(long)]
    survivors: bool,
    /// Programs of tests that run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Fails if fewer than so many per cent are caught, or if a survivor has no reason in `survivors.json`.
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<f64>,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(k, n)| (1..=*n).contains(k)).ok_or_else(|| "a part and how many there are, such as 1/4".to_owned())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the workspace has a folder")?;
    let work = root.join("target").join("mutants");
    std::fs::create_dir_all(&work)?;
    let packages: Vec<String> = CRATES.iter().map(|folder| folder.replace("engine/", "baton-")).collect();
    let listed = list::mutants(root, &packages, UNTOUCHED, &work.join("tools"))?;
    ensure!(!listed.is_empty(), "cargo mutants lists nothing");
    let state = report::state(root, &CRATES)?;
    let libraries = CRATES.map(|folder| format!("{folder}/src/lib.rs"));
    let kept = work.join(format!("left-out-{state:016x}.json"));
    let mut planted = Planted::new(root, work.join("tree"), &libraries, listed.clone(), kept)?;
    let programs = trial::build(&mut planted, &packages, &work.join("build"))?;
    let mut tests = Vec::new();
    for (program, folder) in programs {
        tests.extend(Test::measured(&program, &folder, &work.join("reached.txt"))?);
    }
    // The quick ones first: most mutants meet their end there.
    tests.sort_by_key(|test| test.takes);

    let verdicts = Verdicts::open(&work, state)?;
    let chosen: Vec<&Mutant> = chosen(&listed, options, &planted, &verdicts);
    eprintln!(
        "{} mutants, {} left out, {} to try with {} tests",
        listed.len(),
        planted.left_out.len(),
        chosen.len(),
        tests.len()
    );
    try_all(&chosen, &tests, options.jobs, &verdicts)?;
    report::print(&listed, &planted, &verdicts, options.at_least, &root.join("xtask/mutants/survivors.json"))
}

/// Returns the mutants for this run.
fn chosen<'m>(listed: &'m [Mutant], options: &Options, planted: &Planted, verdicts: &Verdicts) -> Vec<&'m Mutant> {
    let (part, parts) = options.shard.unwrap_or((1, 1));
    listed
        .iter()
        .enumerate()
        .filter(|(index, _)| index % parts == part - 1)
        .map(|(_, mutant)| mutant)
        .filter(|mutant| options.file.as_ref().is_none_or(|text| mutant.file.contains(text)))
        .filter(|mutant| !planted.left_out.contains_key(&mutant.id))
        .filter(|mutant| match verdicts.of(mutant) {
            None => true,
            Some(Verdict::Caught(_)) => false,
            Some(Verdict::Survived | Verdict::Unreached) => options.survivors,
        })
        .collect()
}

fn try_all(chosen: &[&Mutant], tests: &[Test], jobs: usize, verdicts: &Verdicts) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(mutant) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = trial::tried(mutant.id, tests).and_then(|verdict| verdicts.keep(mutant, &verdict));
                    if let Err(error) = tried {
                        *failed.lock().expect("no thread panics while it holds this") = Some(error);
                        return;
                    }
                    let done = next.load(Ordering::Relaxed);
                    if done.is_multiple_of(100) {
                        eprintln!("{done} of {}", chosen.len());
                    }
                }
            });
        }
    });
    failed.into_inner().expect("no thread panics while it holds this").map_or(Ok(()), Err)
}
