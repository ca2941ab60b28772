//! The jobs that the counting programs execute: those of the benchmark, and examples by the command line.

use std::hash::{DefaultHasher, Hasher};
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

/// Examples that need neither a person nor anything that is not part of the program.
const EXAMPLES: [&str; 4] = ["q3-sales", "iowa-electricity", "second-draft", "research-code"];

/// Commands that read the run of an example.
const READING: [&[&str]; 5] = [&["show", "@last"], &["timeline", "@last"], &["verify", "@last"], &["replay", "@last"], &["ps"]];

/// The folder in the training's that programs write their counts to.
const RAW: &str = "counts";

/// Returns the file with the counts of both programs; `tool` is `llvm-profdata`.
///
/// The counts of a training are never the same twice, and another file is another build. So the same programs train once.
pub(super) fn counts(baton: &Path, bench: &Path, target: &Path, tool: &Path) -> anyhow::Result<PathBuf> {
    let counts = target.join(format!("{:016x}.profdata", hash(&[baton, bench])?));
    if counts.exists() {
        return Ok(counts);
    }
    for entry in fs::read_dir(target).with_context(|| format!("{} cannot be read", target.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "profdata") {
            fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
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
        train(bench, arguments, &place)?;
    }
    for example in EXAMPLES {
        let store = place.join(example).with_extension("db");
        let store = store.to_str().context("the path of the target folder is not Unicode")?;
        let example = format!("examples/{example}");
        for arguments in std::iter::once(&["run", example.as_str()][..]).chain(READING) {
            train(baton, &[arguments, &["--store", store]].concat(), &place)?;
        }
    }
    // A file that is only partly written must not be taken for counts.
    let merged = place.join("merged");
    let status = Command::new(tool).args(["merge", "--sparse", "--output"]).arg(&merged).arg(place.join(RAW)).status();
    ensure!(status.context("llvm-profdata cannot be started")?.success(), "llvm-profdata failed");
    fs::rename(&merged, &counts).with_context(|| format!("{} cannot be written", counts.display()))?;
    Ok(counts)
}

/// Executes a counting program, which leaves its counts in `place`.
fn train(program: &Path, arguments: &[&str], place: &Path) -> anyhow::Result<()> {
    eprintln!("training: {} {}", program.file_name().unwrap_or_default().to_string_lossy(), arguments.join(" "));
    let now = SystemTime::UNIX_EPOCH.elapsed().context("the clock is before 1970")?.as_secs_f64();
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments).env("BENCH_T0", now.to_string());
    // %m is a number of the program: each process adds to the counts of those before it.
    command.env("LLVM_PROFILE_FILE", place.join(RAW).join("%m.profraw")).stdin(Stdio::null());
    let output = command.output().context("it cannot be started")?;
    ensure!(output.status.success(), "it failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn hash(files: &[&Path]) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(&fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_training_exist() {
        for example in EXAMPLES {
            assert!(root().join("examples").join(example).join("job.json").exists(), "{example}");
        }
    }
}
