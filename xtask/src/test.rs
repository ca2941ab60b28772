//! `cargo xtask test`: all tests of the workspace, those in the documentation too, and one line with their sum.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::project::{cargo, run_cargo};
use crate::{browser, nats, postgres};

/// Runs all tests, or those that `arguments` leave. Whether they pass or fail, the last line printed is `N passed, N failed`. Lines before it
/// name what was skipped.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let mut sum = Sum::default();
    let code = match run_tests(arguments, &mut sum) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::failed(&error),
    };
    for notice in &sum.skipped {
        println!("{notice}");
    }
    println!("{sum}");
    code
}

fn run_tests(arguments: &[String], sum: &mut Sum) -> anyhow::Result<()> {
    browser::install_if_missing(arguments);
    postgres::install_if_missing(arguments);
    nats::install_if_missing(arguments);
    if arguments.iter().any(|argument| argument == "-p" || argument.starts_with("--package")) {
        // Tests of the whole system start the program; cargo would build it only for tests of its own package.
        run_cargo(&["build", "--workspace", "--bins"])?;
        return run_command(&mut cargo(&["test", "--no-fail-fast"]), arguments, sum);
    }
    let all = run_command(&mut cargo(&["test", "--no-fail-fast", "--workspace"]), arguments, sum);
    // Apart from the rest: together, every program of the workspace would get failpoints. With fewer packages, nearly all crates would
    // have other features, and be built again.
    let crashes = ["test", "--no-fail-fast", "--workspace", "--features", "baton-crash/failpoints", "--test", "kills"];
    all.and(run_command(&mut cargo(&crashes), arguments, sum))
}

/// Runs a `cargo test` with `arguments` and adds its counts.
fn run_command(command: &mut Command, arguments: &[String], sum: &mut Sum) -> anyhow::Result<()> {
    let failed = sum.failed;
    let mut tests = command.args(arguments).stdout(Stdio::piped()).spawn().context("cargo test cannot be started")?;
    for line in BufReader::new(tests.stdout.take().context("cargo test has no output")?).lines() {
        let line = line.context("the output of cargo test cannot be read")?;
        println!("{line}");
        sum.add(&line);
    }
    let status = tests.wait().context("cargo test cannot be waited for")?;
    if !status.success() || sum.failed > failed {
        bail!("cargo test failed ({status})");
    }
    Ok(())
}

/// Sum over the runners of all test programs.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Notices of tests that passed without a trial, such as those that need rights of root. They are repeated at the end.
    skipped: Vec<String>,
}

impl Sum {
    /// Adds the counts in `line` if it is a runner's summary: `test result: ok. 5 passed; 0 failed; 0 ignored; …`. Keeps a notice of a
    /// test that was skipped.
    fn add(&mut self, line: &str) {
        // The runner may have begun the line with the name of the test.
        if let Some(begin) = line.find("SKIPPED: ") {
            self.skipped.push(line[begin..].to_owned());
        }
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else { return };
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(number, what)| (number.parse::<u64>(), what)) {
                Some((Ok(number), "passed")) => self.passed += number,
                Some((Ok(number), "failed")) => self.failed += number,
                Some((Ok(number), "ignored")) => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} ignored", self.ignored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_over_every_test_program() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: not a summary\n1 passed";
        let mut sum = Sum::default();
        output.lines().for_each(|line| sum.add(line));
        assert_eq!(sum, Sum { passed: 13, failed: 2, ignored: 1, skipped: Vec::new() });
        sum.add("test no_run_is_lost ... SKIPPED: the trial of a cluster: no rights");
        assert_eq!(sum.skipped, ["SKIPPED: the trial of a cluster: no rights"]);
        assert_eq!(sum.to_string(), "13 passed, 2 failed, 1 ignored");
    }
}
