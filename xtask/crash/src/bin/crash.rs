//! The kit's program: what `cargo xtask crash` starts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use baton_crash::{At, Case, Figures, PassName, Plan, Shape, Sweep, lay_out, ledger_configs, strays, zombies};
use clap::{Parser, ValueEnum};

/// Number of printed violations of one job.
const SHOWN: usize = 20;

/// Kills a program at every durable step, resumes it, and compares the end with that of an undisturbed run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask crash", bin_name = "cargo xtask crash")]
struct Arguments {
    /// Folders of jobs that end without people [default: examples/q3-sales, unless only --shapes are given]
    jobs: Vec<PathBuf>,
    /// Generated jobs beside them [default: all, unless jobs are given]
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<Shape>,
    /// Second kills while the first one is being recovered: at so many random places, or with `all` at every write of the
    /// recovery from a kill at every write
    #[arg(long, value_parser = nested, default_value = "0", value_name = "N|all")]
    nested: Nested,
    /// Kills at random moments, for each job
    #[arg(long, default_value_t = 0, value_name = "N")]
    random: usize,
    /// Instead: owners that are stopped before a commit and wake up when another process has ended their run, for each job
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000")]
    zombies: Option<usize>,
    /// Instead: kills at random moments until so many met running commands; on the generated job `strays`, unless others are
    /// given
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "500")]
    strays: Option<usize>,
    /// Instead: one trial, PROCESS:PASS or PROCESS@MICROSECONDSus for each of its kills, as a violation names it
    #[arg(long, value_parser = kill, value_delimiter = ',', value_name = "KILL")]
    at: Vec<(usize, At)>,
    /// Safeguards to go without, to see whether the kit notices: `exec.guard`, `exec.former`
    #[arg(long, value_delimiter = ',', value_name = "SAFEGUARD")]
    without: Vec<String>,
    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of concurrent trials
    #[arg(long, default_value_t = 2)]
    parallel: usize,
    /// Another program with baton's command line, built with the feature `failpoints` of package `baton`
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Parent of the trials' folders [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Number of second kills.
#[derive(Clone, Copy, Debug)]
struct Nested(Option<usize>);

fn nested(text: &str) -> Result<Nested, String> {
    match text {
        "all" => Ok(Nested(None)),
        number => number.parse().map(|number| Nested(Some(number))).map_err(|_| "expected a number or `all`".to_owned()),
    }
}

fn kill(text: &str) -> Result<(usize, At), String> {
    let parsed = match text.split_once(':') {
        Some((process, pass)) => process.parse().ok().zip(pass.parse::<PassName>().ok().map(At::Pass)),
        None => text.split_once('@').and_then(|(process, after)| {
            let micros = after.strip_suffix("us")?.parse().ok()?;
            Some((process.parse().ok()?, At::Moment(Duration::from_micros(micros))))
        }),
    };
    parsed.ok_or_else(|| "expected PROCESS:PASS or PROCESS@MICROSECONDSus, such as 0:w17".to_owned())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the requested trials. Returns true if there was no violation.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let generated = tempfile::tempdir()?;
    let cases = arguments.cases(&generated)?;
    if let Some(count) = arguments.zombies {
        return arguments.zombies(&cases, count);
    }
    if let Some(count) = arguments.strays {
        return Ok(arguments.strays(&cases, count));
    }
    let plan = Plan { nested: arguments.nested.0, random: arguments.random, seed: arguments.seed, jobs: arguments.parallel };
    let mut all = Vec::new();
    for case in &cases {
        let begun = Instant::now();
        let sweep = Sweep::begin(case, &plan)?;
        eprintln!(
            "{}: {} entries, {} delegated tasks, {} processes",
            case.name,
            sweep.reference().timeline.entries.len(),
            sweep.reference().timeline.delegations(),
            sweep.reference().processes.len(),
        );
        let figures = if arguments.at.is_empty() { sweep.run() } else { sweep.run_one(&arguments.at) };
        eprintln!("{}: {:.1} s", case.name, begun.elapsed().as_secs_f64());
        print_violations(case, &figures);
        all.push(figures);
    }
    print(&all);
    Ok(all.iter().all(Figures::are_sound))
}

impl Arguments {
    fn cases(&self, generated: &tempfile::TempDir) -> anyhow::Result<Vec<Case>> {
        let own = std::env::current_exe().context("this program's own path is unknown")?;
        let program = match &self.program {
            Some(program) => std::path::absolute(program)?,
            None => own.with_file_name("baton-victim"),
        };
        let tool_configs = if self.program.is_none() { ledger_configs() } else { Vec::new() };
        let (mut jobs, mut shapes) = (self.jobs.clone(), self.shapes.clone());
        if jobs.is_empty() && shapes.is_empty() {
            if self.strays.is_some() {
                shapes = vec![Shape::Strays];
            } else {
                shapes = vec![Shape::Tree, Shape::Effects, Shape::Commands];
                jobs.push("examples/q3-sales".into());
            }
        }
        let mut cases = Vec::new();
        for job in jobs {
            if !job.join("job.json").is_file() {
                bail!("{} is not the folder of a job", job.display());
            }
            let name = job.file_name().map_or_else(|| job.display().to_string(), |name| name.to_string_lossy().into_owned());
            cases.push((name, std::path::absolute(job)?));
        }
        for shape in shapes {
            cases.push((shape.name().to_owned(), lay_out(shape, generated.path())?));
        }
        let scratch = &self.scratch;
        let case = |(name, job)| Case {
            name,
            job,
            program: program.clone(),
            tool_configs: tool_configs.clone(),
            scratch: scratch.clone(),
            without: self.without.clone(),
        };
        Ok(cases.into_iter().map(case).collect())
    }

    fn zombies(&self, cases: &[Case], count: usize) -> anyhow::Result<bool> {
        let mut sound = true;
        println!("| job | stale commits tried | accepted | other violations |");
        println!("| --- | ---: | ---: | ---: |");
        for case in cases {
            let figures = zombies(case, count, self.seed, self.parallel)?;
            println!("| {} | {} | {} | {} |", case.name, figures.attempts, figures.accepted, figures.violations.len());
            figures.violations.iter().take(SHOWN).for_each(|violation| eprintln!("{}: {violation}", case.name));
            sound &= figures.accepted == 0 && figures.violations.is_empty() && figures.attempts > 0;
        }
        Ok(sound)
    }
}

impl Arguments {
    fn strays(&self, cases: &[Case], count: usize) -> bool {
        println!(
            "| job | runs | kills | that met commands | asked to end | that met commands | their processes | alive after 1 s | \
             folders | overlaps | lost | doubled | stores taken away | other violations |"
        );
        println!("| --- |{}", " ---: |".repeat(13));
        let mut sound = true;
        for case in cases {
            let figures = strays(case, count, self.seed, self.parallel);
            let numbers = [
                figures.runs,
                figures.kills,
                figures.met,
                figures.asked,
                figures.asked_met,
                figures.commands,
                figures.alive,
                figures.folders,
                figures.overlaps,
                figures.lost,
                figures.doubled,
                figures.stores,
                figures.violations.len(),
            ];
            let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
            println!("| {} | {} |", case.name, numbers.join(" | "));
            figures.violations.iter().take(SHOWN).for_each(|violation| eprintln!("{}: {violation}", case.name));
            sound &= figures.are_sound();
        }
        sound
    }
}

/// Prints the violations, and the command that repeats each.
fn print_violations(case: &Case, figures: &Figures) {
    let found = figures.violations.iter().map(|(kills, violation)| (kills, violation.to_string()));
    let failed = figures.errors.iter().map(|(kills, error)| (kills, error.clone()));
    for (kills, what) in found.chain(failed).take(SHOWN) {
        let named: Vec<String> = kills.iter().map(ToString::to_string).collect();
        let at: Vec<String> = named.iter().map(|kill| kill.split(' ').next().unwrap_or_default().to_owned()).collect();
        eprintln!("{}: killed at {}: {what}", case.name, named.join(", "));
        let known = Shape::value_variants().iter().any(|shape| shape.name() == case.name);
        let job = if known { format!("--shapes {}", case.name) } else { case.job.display().to_string() };
        eprintln!("  again: cargo xtask crash {job} --at {}", at.join(","));
    }
}

/// Prints a table with a line for each job.
fn print(all: &[Figures]) {
    let Some(first) = all.first() else { return };
    let names: Vec<&str> = columns(first).into_iter().map(|(name, _)| name).collect();
    println!("| job | {} |\n| --- |{}", names.join(" | "), " ---: |".repeat(names.len()));
    for figures in all {
        let values: Vec<String> = columns(figures).into_iter().map(|(_, value)| value).collect();
        println!("| {} | {} |", figures.case, values.join(" | "));
    }
}

fn columns(figures: &Figures) -> Vec<(&'static str, String)> {
    let counts = [
        ("writes", figures.writes),
        ("places", figures.places),
        ("kills", figures.kills),
        ("at writes", figures.kills_at_writes),
        ("nested", figures.nested),
        ("random", figures.random),
        ("missed", figures.missed),
        ("not begun", figures.unborn),
        ("resumed", figures.resumed),
        ("lost", figures.lost),
        ("duplicated", figures.duplicated),
        ("in flight", figures.in_flight),
        ("in doubt", figures.in_doubt),
        ("verified", figures.verified),
        ("other faults", figures.violations.len() + figures.errors.len() - figures.lost - figures.duplicated),
    ];
    let ms = |share| figures.recovery_at(share).map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
    let times = [("recovery p50 ms", ms(0.5)), ("max ms", ms(1.0))];
    counts.map(|(name, count)| (name, count.to_string())).into_iter().chain(times).collect()
}
