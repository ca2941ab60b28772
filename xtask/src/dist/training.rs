//! The jobs that the instrumented program executes: small ones of the benchmark. `suspended` is not among them, since it needs a second
//! process.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use std::{fs, io};

use anyhow::{Context, ensure};

use crate::project::root;

/// Arguments of `baton-bench`.
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
    /// The names of the functions that ran, one in each line, by the count of their most frequent part, highest count first.
    pub(super) order: PathBuf,
}

/// Returns the counts of `program`; `tool` is `llvm-profdata`.
///
/// The counts of a training are never the same twice, and another file is another build. So the same program trains once with the same jobs.
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
    for arguments in JOBS {
        train(program, arguments, &place)?;
    }
    // A file that is only partly written must not be taken for counts.
    let merged = place.join("merged");
    // Sparse: functions that never ran have no counts. With zeros, the compiler would make them small and slow, and most of them belong to
    // features that the training does not use.
    let status = Command::new(tool).args(["merge", "--sparse", "--output"]).arg(&merged).arg(&place).status();
    ensure!(status.context("llvm-profdata cannot be started")?.success(), "llvm-profdata failed");
    for entry in fs::read_dir(target).with_context(|| format!("{} cannot be read", target.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "profdata" || extension == "order") {
            fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    let shown = Command::new(tool).args(["show", "--all-functions", "--counts"]).arg(&merged).output()?;
    ensure!(shown.status.success(), "llvm-profdata failed: {}", String::from_utf8_lossy(&shown.stderr));
    let shown = String::from_utf8_lossy(&shown.stdout);
    let order = executed(&shown);
    ensure!(!order.is_empty(), "llvm-profdata names no function that ran");
    fs::write(&counts.order, order.join("\n") + "\n").with_context(|| format!("{} cannot be written", counts.order.display()))?;
    fs::rename(&merged, &counts.profile).with_context(|| format!("{} cannot be written", counts.profile.display()))?;
    Ok(counts)
}

/// Returns the names of the functions that ran, those with the most frequent parts first. `shown` is the output of `llvm-profdata show`: the
/// name of each function, after that of its module if it is not visible outside, and then its counts.
fn executed(shown: &str) -> Vec<&str> {
    let (mut found, mut function) = (Vec::new(), "");
    for line in shown.lines() {
        if let Some(counts) = line.trim_start().strip_prefix("Block counts: [") {
            let counts = counts.trim_end_matches(']').split(',').filter_map(|count| count.trim().parse().ok());
            let most: u64 = counts.max().unwrap_or(0);
            if most > 0 {
                found.push((Reverse(most), function));
            }
        } else if let Some(name) =
            line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')).filter(|name| !name.starts_with(' '))
        {
            function = name.rsplit(';').next().unwrap_or(name);
        }
    }
    found.sort();
    found.into_iter().map(|(_, function)| function).collect()
}

/// Executes the instrumented program, which leaves its counts in `place`.
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

/// Returns a number of the file's content and of the jobs.
fn hash(file: &Path) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?);
    JOBS.hash(&mut hasher);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::executed;

    #[test]
    fn functions_that_ran_are_named_by_how_often() {
        let shown = "Counters:
  _ZN1a5start17h0E:
    Hash: 0x01
    Counters: 2
    Block counts: [1, 0]
  some_crate.7-cgu.0;_ZN1b5often17h1E:
    Hash: 0x02
    Counters: 3
    Block counts: [10, 400, 2]
  _ZN1c5never17h2E:
    Hash: 0x03
    Counters: 1
    Block counts: [0]
Instrumentation level: IR
";
        assert_eq!(executed(shown), ["_ZN1b5often17h1E", "_ZN1a5start17h0E"]);
    }
}
