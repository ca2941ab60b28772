//! Checks that the commands of tools exist: their programs on `PATH`, and the scripts in the folder of the job or of its project.

use std::path::Path;

use baton_config::{Fault, FaultKind, Role, Source, Sources};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Endings of files that an interpreter executes. Other arguments may name files that do not exist yet.
const SCRIPTS: [&str; 14] = ["awk", "bash", "cjs", "jar", "jl", "js", "lua", "mjs", "php", "pl", "py", "rb", "sh", "ts"];

/// Folders in which the system finds programs if `PATH` is not set (`execvp` of the GNU C library).
const UNSET_PATH: &str = "/bin:/usr/bin";

/// The part of a tool's config that names its command.
#[derive(Deserialize)]
struct Config<'a> {
    #[serde(borrow)]
    exec: Option<Exec<'a>>,
}

#[derive(Deserialize)]
struct Exec<'a> {
    #[serde(borrow)]
    command: Vec<&'a RawValue>,
}

/// Returns a fault for each program and script of a tool that does not exist. `folder` is the job's folder.
pub(crate) fn missing(sources: &Sources, folder: &Path) -> Vec<Fault> {
    let mut all = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_else(|| UNSET_PATH.into());
    let is_on_path = |program: &str| std::env::split_paths(&path).any(|place| place.join(program).is_file());
    // The ancestors of a relative path may end below the project's folder.
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let project = whole.ancestors().nth(sources.above()).unwrap_or(&whole);
    let roles = [Role::Tool, Role::BuiltinTool, Role::SharedTool];
    for source in roles.into_iter().flat_map(|role| sources.of(role)) {
        let place = if source.role.is_shared() {
            Place { folder: project, of: "project", shown: "the project's folder".to_owned() }
        } else {
            Place { folder, of: "job", shown: folder.display().to_string() }
        };
        all.extend(missing_of(source, &place, &is_on_path).into_iter().map(|(index, range, fault)| {
            let fault = Fault { file: sources.display(source), ..fault };
            Fault { pointer: format!("/exec/command/{index}"), ..fault.at(&source.text, range) }
        }));
    }
    all
}

/// The folder in which the command of a tool runs.
struct Place<'a> {
    folder: &'a Path,
    /// Its owner: `job` or `project`.
    of: &'static str,
    /// Its name in messages.
    shown: String,
}

/// Returns the arguments of the command in `source` that do not exist, with their places in its text.
fn missing_of(
    source: &Source,
    place: &Place<'_>,
    is_on_path: &dyn Fn(&str) -> bool,
) -> Vec<(usize, std::ops::Range<usize>, Fault)> {
    // Configs that cannot be read have faults of their own.
    let Ok(Config { exec: Some(exec) }) = serde_json::from_str::<Config<'_>>(&source.text) else { return Vec::new() };
    let Place { folder, of, shown } = place;
    let missing = |(index, value): (usize, &&RawValue)| {
        let argument: String = serde_json::from_str(value.get()).ok()?;
        // A link is judged where files are read.
        if argument.is_empty() || folder.join(&argument).symlink_metadata().is_ok() {
            return None;
        }
        let is_program = index == 0;
        let is_path = argument.contains('/');
        let fault = if is_program && !is_path {
            if is_on_path(&argument) {
                return None;
            }
            let message = format!("the program \"{argument}\" is not on PATH");
            let expected = format!("an installed program, or a file of the {of}'s folder");
            Fault::of_file(FaultKind::MissingFile, "", message).expected(expected)
        } else if is_program || is_script(&argument) {
            let message = format!("the file \"{argument}\" of the command does not exist");
            let expected = format!("a file, relative to {shown}");
            Fault::of_file(FaultKind::MissingFile, "", message).expected(expected)
        } else {
            return None;
        };
        let start = value.get().as_ptr().addr() - source.text.as_ptr().addr();
        let beside = files_beside(folder, &argument);
        Some((index, start..start + value.get().len(), fault.near(&argument, beside.iter().map(String::as_str))))
    };
    exec.command.iter().enumerate().filter_map(missing).collect()
}

/// Returns true for an argument that names a script: a path without spaces, with the ending of a script.
fn is_script(argument: &str) -> bool {
    let ending = Path::new(argument).extension().and_then(|ending| ending.to_str());
    !argument.starts_with('-')
        && !argument.contains(|character: char| character.is_whitespace() || ":*?$<>|;&".contains(character))
        && ending.is_some_and(|ending| SCRIPTS.contains(&ending))
}

/// Returns the files in the folder of `argument`, written as `argument` is.
fn files_beside(folder: &Path, argument: &str) -> Vec<String> {
    let below = argument.rsplit_once('/').map_or("", |(below, _)| below);
    // A config must not list other folders of the machine.
    if argument.starts_with('/') || argument.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder.join(below)).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.take(1_000).map(|name| if below.is_empty() { name } else { format!("{below}/{name}") }).collect()
}
