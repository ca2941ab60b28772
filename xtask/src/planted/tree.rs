//! The copy of the source that bugs are planted in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::{Bug, SWITCH};
use crate::project::root;

/// The crates that are copied: those that bugs are planted in, those whose tests catch them, and what they need.
const CRATES: [&str; 24] = [
    "engine/types",
    "engine/breadcrumb",
    "engine/machine",
    "engine/render",
    "engine/schema",
    "engine/template",
    "engine/config",
    "engine/docs",
    "engine/tool",
    "engine/files",
    "engine/jq",
    "engine/macros",
    "engine/models",
    "engine/nats",
    "engine/program",
    "engine/proof",
    "engine/rcrt",
    "engine/runtime",
    "engine/store",
    "engine/timeline",
    "engine/utp",
    "engine/cli",
    "tools",
    "tests",
];

/// Files that crates embed or their tests read.
const TEXTS: [&str; 3] = ["tool-configs", "generated-docs", "docs"];

/// The folder of the sources in the copy. Cargo identifies a crate by its path below the workspace. If the crates of the copy
/// had the same paths as those of the project, and both were built into one folder, cargo would mistake one for the other.
const SOURCE: &str = "source";

/// Copies the crates with all of `bugs` in them, each behind its switch, and returns where the copy is.
///
/// A file that is as it was is not written again, so the next build of the copy builds what has changed.
pub(super) fn plant(bugs: &[Bug]) -> anyhow::Result<PathBuf> {
    let tree = root().join("target/planted");
    let source = tree.join(SOURCE);
    let mut kept = BTreeSet::new();
    for folder in CRATES.into_iter().chain(TEXTS) {
        copy(&root().join(folder), &source.join(folder), bugs, &mut kept)?;
    }
    for bug in bugs {
        ensure!(kept.contains(&source.join(&bug.file)), "{}: there is no {} among what is copied", bug.name, bug.file);
    }
    write(&source.join("README.md"), &fs::read(root().join("README.md")).context("README.md")?)?;
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("Cargo.toml")?;
    let members = format!("members = {:?}", CRATES.map(|folder| format!("{SOURCE}/{folder}")));
    let lines = manifest.lines().filter(|line| !line.starts_with("default-members"));
    let manifest: Vec<&str> = lines.map(|line| if line.starts_with("members") { members.as_str() } else { line }).collect();
    let manifest = manifest.join("\n").replace("path = \"", &format!("path = \"{SOURCE}/"));
    write(&tree.join("Cargo.toml"), manifest.as_bytes())?;
    let lock = tree.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(root().join("Cargo.lock"), lock).context("Cargo.lock")?;
    }
    for folder in CRATES.into_iter().chain(TEXTS) {
        remove_others(&source.join(folder), &kept)?;
    }
    Ok(tree)
}

fn copy(from: &Path, to: &Path, bugs: &[Bug], kept: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))? {
        let entry = entry?;
        let (source, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&source, &copied, bugs, kept)?;
            continue;
        }
        let mut content = fs::read(&source).with_context(|| format!("{}", source.display()))?;
        let file = source.strip_prefix(root()).unwrap_or(&source).to_string_lossy().replace('\\', "/");
        let here: Vec<&Bug> = bugs.iter().filter(|bug| bug.file == file).collect();
        if !here.is_empty() {
            content = planted(&file, &String::from_utf8(content).with_context(|| file.clone())?, &here)?.into_bytes();
        }
        if bugs.iter().any(|bug| library(&bug.file) == file) {
            content.extend(switches().into_bytes());
        }
        write(&copied, &content)?;
        kept.insert(copied);
    }
    Ok(())
}

/// `text` with every bug behind its switch.
fn planted(file: &str, text: &str, bugs: &[&Bug]) -> anyhow::Result<String> {
    let mut places = Vec::new();
    for bug in bugs {
        let found: Vec<usize> = text.match_indices(&bug.find).map(|(place, _)| place).collect();
        ensure!(found.len() == 1, "{}: {file} holds its text {} times, not once:\n{}", bug.name, found.len(), bug.find);
        places.push((found[0], *bug));
    }
    places.sort_by_key(|(place, _)| *place);
    let (mut out, mut end) = (String::new(), 0);
    for (place, bug) in places {
        ensure!(place >= end, "{}: it overlaps another bug", bug.name);
        let Bug { name, find, plant, .. } = bug;
        let either = format!("if crate::planted::is({name:?}) {{ {plant} }} else {{ {find} }}");
        out.push_str(&text[end..place]);
        // Statements stay as they are; an expression is one of a larger one.
        let placed = if find.ends_with(';') { either } else { format!("({either})") };
        out.push_str(&placed);
        end = place + find.len();
    }
    out.push_str(&text[end..]);
    Ok(out)
}

/// Returns the `lib.rs` of the crate of `file`, which reads its switches.
fn library(file: &str) -> String {
    file.split_once("/src/").map_or_else(String::new, |(folder, _)| format!("{folder}/src/lib.rs"))
}

fn switches() -> String {
    format!(
        "\n/// Which bug is switched on.\npub mod planted {{\n    /// Whether `name` is.\n    pub fn is(name: &str) -> bool {{\n        \
         static SWITCHED: std::sync::OnceLock<String> = std::sync::OnceLock::new();\n        \
         SWITCHED.get_or_init(|| std::env::var({SWITCH:?}).unwrap_or_default()) == name\n    }}\n}}\n"
    )
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    fs::write(path, content).with_context(|| format!("{}", path.display()))
}

/// Removes what an earlier copy left and the project no longer has.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("{}", path.display()))?;
        }
    }
    Ok(())
}
