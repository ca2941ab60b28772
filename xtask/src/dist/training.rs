//! The jobs that the instrumented program executes: small ones of the benchmark. `suspended` is not among them, since it needs a second
//! process.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use std::{fs, io};

use anyhow::{Context, ensure};

use crate::project::root;

/// Arguments of `baton-bench`. Functions of earlier jobs come first in the program.
const JOBS: [&[&str]; 14] = [
    &["q3", "--n", "300"],
    &["q3", "--n", "300", "--conc", "16"],
    &["q3", "--n", "100", "--conc", "16", "--store", "sqlite"],
    &["wide", "--n", "200"],
    &["wide", "--n", "200", "--store", "sqlite"],
    &["deep", "--n", "100"],
    &["deep", "--n", "100", "--store", "sqlite"],
    &["long", "--n", "500"],
    &["long", "--n", "500", "--store", "sqlite"],
    &["children", "--n", "100"],
    &["blocked", "--n", "500"],
    &["blocked", "--n", "500", "--store", "sqlite"],
    &["resume", "--n", "2000", "--store", "sqlite"],
    &["startup", "--n", "15"],
];

/// The files that a training makes.
pub(super) struct Counts {
    /// The counts of all parts of functions, for the compiler.
    pub(super) profile: PathBuf,
    /// The names of the functions that ran, one in each line, in the order of [`executed`].
    pub(super) order: PathBuf,
}

/// Returns the counts of `program`; `tool` is `llvm-profdata`.
///
/// The counts of a training are never the same twice, and another file is another build. So the same program trains once with the same
/// version of this module.
pub(super) fn counts(program: &Path, target: &Path, tool: &Path) -> anyhow::Result<Counts> {
    let name = target.join(format!("{:016x}", hash(program)?));
    let counts = Counts { profile: name.with_extension("profdata"), order: name.with_extension("order") };
    if counts.profile.exists() && counts.order.exists() {
        return Ok(counts);
    }
    let place = target.join("training");
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).context("the last training cannot be removed");
        }
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(&place).with_context(|| format!("{} cannot be made", place.display()))?;
    for (job, arguments) in JOBS.iter().enumerate() {
        train(program, arguments, &place.join(job.to_string()))?;
    }
    // A file that is only partly written must not be taken for counts.
    let merged = place.join("merged");
    merge(tool, &merged, &place)?;
    for entry in fs::read_dir(target).with_context(|| format!("{} cannot be read", target.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "profdata" || extension == "order") {
            fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    let mut shown = Vec::new();
    for job in 0..JOBS.len() {
        let of_job = place.join(format!("{job}.profdata"));
        merge(tool, &of_job, &place.join(job.to_string()))?;
        let output = Command::new(tool).args(["show", "--all-functions", "--counts"]).arg(&of_job).output()?;
        ensure!(output.status.success(), "llvm-profdata failed: {}", String::from_utf8_lossy(&output.stderr));
        shown.push(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let order = executed(&shown);
    ensure!(!order.is_empty(), "llvm-profdata names no function that ran");
    fs::write(&counts.order, order.join("\n") + "\n").with_context(|| format!("{} cannot be written", counts.order.display()))?;
    fs::rename(&merged, &counts.profile).with_context(|| format!("{} cannot be written", counts.profile.display()))?;
    Ok(counts)
}

/// Merges the counts in the folder `counts` into the file `merged`.
///
/// Functions that never ran have no counts in it. With zeros, the compiler would make them small and slow, and most of them belong to
/// features that the training does not use.
fn merge(tool: &Path, merged: &Path, counts: &Path) -> anyhow::Result<()> {
    let status = Command::new(tool).args(["merge", "--sparse", "--output"]).arg(merged).arg(counts).status();
    ensure!(status.context("llvm-profdata cannot be started")?.success(), "llvm-profdata failed");
    Ok(())
}

/// Returns the names of the functions that ran: those of the first job first, and of these the ones that the second job ran as well, and
/// so on. So the first job finds its functions on few pages. Functions of the same jobs are ordered by the highest count that one of their
/// parts has in any job, highest first.
///
/// `shown` is the output of `llvm-profdata show` for each job: the name of each function, after that of its module if it is not visible
/// outside, and then its counts.
fn executed(shown: &[String]) -> Vec<&str> {
    let mut counts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (job, shown) in shown.iter().enumerate() {
        let mut function = "";
        for line in shown.lines() {
            if let Some(blocks) = line.trim_start().strip_prefix("Block counts: [") {
                let blocks = blocks.trim_end_matches(']').split(',').filter_map(|count| count.trim().parse().ok());
                let most: u64 = blocks.max().unwrap_or(0);
                if most > 0 {
                    let of_jobs = counts.entry(function).or_default();
                    of_jobs.resize(job + 1, 0);
                    of_jobs[job] = most.max(of_jobs[job]);
                }
            } else if let Some(name) =
                line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')).filter(|name| !name.starts_with(' '))
            {
                function = name.rsplit(';').next().unwrap_or(name);
            }
        }
    }
    let mut found: Vec<_> = counts.into_iter().collect();
    found.sort_by_cached_key(|(_, counts)| {
        let jobs: Vec<bool> = counts.iter().map(|count| *count > 0).collect();
        Reverse((jobs, counts.iter().max().copied()))
    });
    found.into_iter().map(|(function, _)| function).collect()
}

/// Executes the instrumented program, which leaves its counts in the folder `place`.
fn train(program: &Path, arguments: &[&str], place: &Path) -> anyhow::Result<()> {
    eprintln!("training: {} {}", program.file_name().unwrap_or_default().to_string_lossy(), arguments.join(" "));
    let now = SystemTime::UNIX_EPOCH.elapsed().context("the clock is before 1970")?.as_secs_f64();
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments).env("BENCH_T0", now.to_string());
    // %m is a number of the program: each process adds to the counts of those before it.
    command.env("LLVM_PROFILE_FILE", place.join("%m.profraw")).stdin(Stdio::null());
    let output = command.output().context("it cannot be started")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it failed ({}):\n{errors}", output.status);
    // The status does not show that counts could not be written.
    ensure!(!errors.contains("LLVM Profile"), "its counts are not complete:\n{errors}");
    Ok(())
}

/// Returns a number of the file's content and of this module.
fn hash(file: &Path) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?);
    // The jobs, and the way in which their functions are ordered.
    hasher.write(include_bytes!("training.rs"));
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::executed;

    #[test]
    fn functions_of_the_first_jobs_come_first_and_then_those_that_run_often() {
        let shown = |functions: &[(&str, &str)]| {
            let one = |(name, counts): &(&str, &str)| {
                format!("  {name}:\n    Hash: 0x01\n    Counters: 2\n    Block counts: [{counts}]\n")
            };
            format!("Counters:\n{}Instrumentation level: IR\n", functions.iter().map(one).collect::<String>())
        };
        let first = [("_start", "1, 0"), ("some_crate.7-cgu.0;_often", "10, 400, 2"), ("_never", "0"), ("_only_first", "900")];
        let second = [("_start", "1, 0"), ("some_crate.7-cgu.0;_often", "0, 3, 0"), ("_only_second", "5"), ("_never", "0")];
        assert_eq!(executed(&[shown(&first), shown(&second)]), ["_often", "_start", "_only_first", "_only_second"]);
    }
}
