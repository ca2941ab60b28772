//! Checks `docs/RULES.md`: every file and every test that it names exists.
//!
//! A rule that names a test which is gone is a rule that nothing holds any more.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};

use crate::project::root;

/// The page.
const PAGE: &str = "docs/RULES.md";
/// The folders that file names on the page are relative to, unless they begin at the root.
const CORE: [&str; 2] = ["engine/machine/src", "engine/types/src"];
/// Folders with tests.
const TESTED: [&str; 4] = ["engine", "tests", "tools", "xtask"];

/// Fails with the names that do not exist.
pub(crate) fn check() -> anyhow::Result<()> {
    let page = std::fs::read_to_string(root().join(PAGE)).with_context(|| format!("{PAGE} cannot be read"))?;
    let names = Names::of(&page);
    let mut functions = BTreeSet::new();
    for folder in TESTED {
        collect_functions(&root().join(folder), &mut functions)?;
    }
    let is_file = |name: &&String| CORE.iter().chain(&[""]).any(|base| root().join(base).join(name).is_file());
    let missing: Vec<&str> = names
        .files
        .iter()
        .filter(|name| !is_file(name))
        .chain(names.tests.iter().filter(|name| !functions.contains(*name)))
        .map(String::as_str)
        .collect();
    if names.tests.is_empty() || names.files.is_empty() {
        bail!("{PAGE} names no files or no tests: has its form changed?");
    }
    if !missing.is_empty() {
        bail!("{PAGE} names what does not exist: {}", missing.join(", "));
    }
    Ok(())
}

/// The names in backticks that a page promises to exist.
#[derive(Debug, Default, PartialEq)]
struct Names {
    /// Source files.
    files: BTreeSet<String>,
    /// Test functions: what follows `Tests:`, and the last column of a table whose last heading is `held by`.
    tests: BTreeSet<String>,
}

impl Names {
    fn of(page: &str) -> Self {
        let mut names = Self::default();
        let (mut in_tests, mut in_table) = (false, false);
        for line in page.lines() {
            in_tests &= !line.trim().is_empty();
            in_table = line.starts_with('|') && (in_table || line.ends_with("| held by |"));
            let tests = match (line.split_once("Tests:"), in_tests) {
                (Some((_, tests)), _) => {
                    in_tests = true;
                    tests
                }
                (None, true) => line,
                (None, false) if in_table => line.trim_end_matches('|').rsplit('|').next().unwrap_or_default(),
                (None, false) => "",
            };
            names.tests.extend(quoted(tests).filter(|name| is_name(name)).map(str::to_owned));
            names.files.extend(quoted(line).filter(|name| Path::new(name).extension() == Some("rs".as_ref())).map(str::to_owned));
        }
        names
    }
}

/// Returns the texts between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|character| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_')
}

/// Adds the names of all functions in the Rust files below `folder`.
fn collect_functions(folder: &Path, functions: &mut BTreeSet<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect_functions(&path, functions)?;
        } else if path.extension() == Some("rs".as_ref()) {
            let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            let declared = text.lines().filter_map(|line| line.trim_start().split_once("fn ").map(|(_, name)| name));
            functions.extend(declared.filter_map(|name| name.split(['(', '<']).next()).map(str::to_owned));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_tests_are_found_where_the_page_names_them() {
        let page = "File: `act.rs`, a `tool`. Tests: `one_test`,\n`another_test`.\n\nNo `test_here`.\n\n\
            | name | held by |\n| --- | --- |\n| `a_name` | `third_test` |\n";
        let names = Names::of(page);
        assert_eq!(names.files, BTreeSet::from(["act.rs".to_owned()]));
        let tests = ["one_test", "another_test", "third_test"].map(str::to_owned);
        assert_eq!(names.tests, BTreeSet::from(tests));
    }

    #[test]
    fn every_rule_of_the_page_names_what_exists() {
        check().unwrap();
    }
}
