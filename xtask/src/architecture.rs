//! `cargo xtask check`: ARCHITECTURE.md names every crate's folder and every dependency, and nothing that is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::project::root;

/// Fails with everything in ARCHITECTURE.md that is missing or gone.
pub(crate) fn check() -> anyhow::Result<()> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md cannot be read")?;
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("Cargo.toml cannot be read")?;
    let manifest: toml::Value = toml::from_str(&manifest).context("Cargo.toml is not TOML")?;
    let faults = faults(&page, &manifest, |folder| root().join(folder).is_dir());
    if faults.is_empty() { Ok(()) } else { bail!("ARCHITECTURE.md:\n  {}", faults.join("\n  ")) }
}

/// Compares `page` with the workspace's `manifest`.
fn faults(page: &str, manifest: &toml::Value, is_folder: impl Fn(&str) -> bool) -> Vec<String> {
    let folders = first_column(page, "## Codemap");
    let gone = folders.iter().filter(|folder| !is_folder(folder)).map(|folder| format!("the codemap's {folder} is not a folder"));
    let members = manifest["workspace"]["members"].as_array().into_iter().flatten().filter_map(toml::Value::as_str);
    let is_covered = |member: &str| folders.iter().any(|folder| Path::new(folder).starts_with(member));
    let unmapped = members.filter(|member| !is_covered(member)).map(|member| format!("the codemap lacks {member}"));

    let listed = first_column(page, "## Dependencies");
    let external = |(_, value): &(&String, &toml::Value)| value.get("path").is_none();
    let used: BTreeSet<&str> = manifest["workspace"]["dependencies"]
        .as_table()
        .into_iter()
        .flatten()
        .filter(external)
        .map(|(name, _)| name.as_str())
        .collect();
    let unlisted = used.iter().filter(|name| !listed.contains(**name)).map(|name| format!("the dependency {name} has no reason"));
    let unused = listed.iter().filter(|name| !used.contains(name.as_str())).map(|name| format!("{name} is not a dependency"));
    gone.chain(unmapped).chain(unlisted).chain(unused).collect()
}

/// Returns the names in the first column of the table under `heading`: without backticks and parentheses, split at commas.
fn first_column(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split_once(heading).map_or("", |(_, rest)| rest);
    let rows = section.lines().skip_while(|line| !line.starts_with("| ---")).skip(1).take_while(|line| line.starts_with('|'));
    let mut names = BTreeSet::new();
    for row in rows {
        let cell = row.trim_start_matches('|').split('|').next().unwrap_or_default();
        let mut plain = String::new();
        let mut depth = 0_u32;
        for character in cell.chars() {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                '`' => {}
                other if depth == 0 => plain.push(other),
                _ => {}
            }
        }
        names.extend(plain.split(',').map(|name| name.trim().trim_end_matches('/').to_owned()).filter(|name| !name.is_empty()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_gone_folders_and_dependencies_are_named() {
        let page = "## Codemap\n\n| folder | holds |\n| --- | --- |\n| `a/src/` | |\n| `gone/` | |\n\n## Dependencies\n\n\
                    | crate | for |\n| --- | --- |\n| serde (`derive`), old | |\n";
        let manifest =
            "[workspace]\nmembers = [\"a\", \"b\"]\n[workspace.dependencies]\nserde = \"1\"\nnew = \"1\"\na = { path = \"a\" }\n";
        let found = faults(page, &toml::from_str(manifest).unwrap(), |folder| folder != "gone");
        let expected = [
            "the codemap's gone is not a folder",
            "the codemap lacks b",
            "the dependency new has no reason",
            "old is not a dependency",
        ];
        assert_eq!(found, expected);
    }
}
