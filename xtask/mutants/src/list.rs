//! The mutants, as `cargo mutants` lists them: what it would replace, and with what.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// The version whose list is read; another one may list other mutants.
const VERSION: &str = "27.1.0";

/// One change of the source that the tests should notice.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    /// Its number in the list, from 1.
    #[serde(skip)]
    pub(crate) id: u32,
    /// Its file, from the folder of the workspace.
    pub(crate) file: String,
    /// `file:line:column: what is replaced by what in which function`.
    pub(crate) name: String,
    /// Kind of change.
    pub(crate) genre: Genre,
    /// The new text.
    pub(crate) replacement: String,
    /// Replaced text.
    pub(crate) span: Span,
}

/// The kinds of changes. The list is that of `cargo mutants`; an unknown kind stops the chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Genre {
    /// A function returns a value at once.
    FnValue,
    /// Another operator between two values.
    BinaryOperator,
    /// An operator before a value is gone.
    UnaryOperator,
    /// An arm of a `match` is gone.
    MatchArm,
    /// The condition of an arm always holds, or never.
    MatchArmGuard,
    /// A field of a new value is left to its default.
    StructField,
}

/// Begin and end of a text.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Place,
}

/// A character of a file; both count from 1.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Mutant {
    /// Its name without its place: it stays the same when lines move.
    pub(crate) fn label(&self) -> String {
        let change = self.name.splitn(4, ':').nth(3).unwrap_or(&self.name);
        format!("{}:{change}", self.file)
    }
}

/// Lists the mutants of `packages` outside of `untouched`; installs `cargo mutants` below `tools` if it is not there.
pub(crate) fn mutants(root: &Path, packages: &[String], untouched: &str, tools: &Path) -> anyhow::Result<Vec<Mutant>> {
    let program = tools.join("bin").join("cargo-mutants");
    if !program.exists() {
        eprintln!("cargo-mutants {VERSION} is installed into {}", tools.display());
        let mut install = Command::new("cargo");
        install.args(["install", "cargo-mutants", "--locked", "--version", VERSION, "--root"]).arg(tools);
        ensure!(install.status().context("cargo cannot be started")?.success(), "cargo-mutants cannot be installed");
    }
    let listed = Command::new(&program)
        .args(["mutants", "--list", "--json"])
        .args(packages.iter().flat_map(|package| ["--package", package.as_str()]))
        .current_dir(root)
        .output()
        .context("cargo-mutants cannot be started")?;
    ensure!(listed.status.success(), "cargo mutants --list failed: {}", String::from_utf8_lossy(&listed.stderr));
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&listed.stdout).context("the list of mutants cannot be read")?;
    mutants.retain(|mutant| !mutant.file.starts_with(untouched));
    for (id, mutant) in (1..).zip(&mut mutants) {
        mutant.id = id;
    }
    Ok(mutants)
}
