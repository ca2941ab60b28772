//! Checks which crates and modules may depend on which: crates by their manifests, modules of one crate by the paths that they import.
//!
//! A crate below never depends on one above. Inside a crate, imports form no cycle. A cycle that has to stay is listed here
//! with its reason, and the check fails when a listed cycle is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::project::{cargo, root};

/// The crates of the engine, each with the crates that it may depend on. Tests may depend on more.
const LAYERS: [(&str, &[&str]); 23] = [
    ("baton-types", &[]),
    ("baton-template", &[]),
    ("baton-files", &[]),
    ("baton-macros", &[]),
    ("baton-program", &["baton-files"]),
    ("baton-render", &["baton-types"]),
    ("baton-machine", &["baton-types", "baton-render"]),
    ("baton-schema", &["baton-types"]),
    ("baton-tool", &["baton-types"]),
    ("baton-timeline", &["baton-types"]),
    ("baton-docs", &["baton-types"]),
    ("baton-utp", &["baton-types"]),
    ("baton-jq", &["baton-types"]),
    ("baton-breadcrumb", &["baton-types", "baton-template", "baton-jq"]),
    ("baton-store", &["baton-types", "baton-files", "baton-breadcrumb"]),
    ("baton-config", &["baton-types", "baton-template", "baton-program", "baton-schema", "baton-tool", "baton-utp"]),
    ("baton-models", &["baton-types", "baton-template", "baton-schema", "baton-files"]),
    ("baton-proof", &["baton-types", "baton-render", "baton-machine", "baton-schema", "baton-config", "baton-utp"]),
    (
        "baton-runtime",
        &[
            "baton-types",
            "baton-breadcrumb",
            "baton-render",
            "baton-machine",
            "baton-schema",
            "baton-config",
            "baton-tool",
            "baton-store",
            "baton-models",
            "baton-files",
        ],
    ),
    (
        "baton-tools",
        &[
            "baton-types",
            "baton-files",
            "baton-jq",
            "baton-program",
            "baton-schema",
            "baton-tool",
            "baton-models",
            "baton-macros",
        ],
    ),
    ("baton-rcrt", &["baton-types", "baton-breadcrumb", "baton-config", "baton-store", "baton-models", "baton-runtime"]),
    ("baton-nats", &["baton-types", "baton-breadcrumb", "baton-store", "baton-models", "baton-utp", "baton-runtime"]),
    // The program links everything.
    (
        "baton",
        &[
            "baton-types",
            "baton-breadcrumb",
            "baton-machine",
            "baton-schema",
            "baton-config",
            "baton-tool",
            "baton-timeline",
            "baton-store",
            "baton-models",
            "baton-proof",
            "baton-rcrt",
            "baton-runtime",
            "baton-tools",
            "baton-macros",
            "baton-files",
            "baton-docs",
            "baton-utp",
            "baton-nats",
        ],
    ),
];

/// All that the pure crates may depend on besides: no runtime, no network, no database, no clock, no randomness.
const PURE: [(&str, &[&str]); 4] = [
    (
        "baton-types",
        &[
            "base64",
            "blake3",
            "indexmap",
            "jiff",
            "rpds",
            "rustc-hash",
            "schemars",
            "serde",
            "serde_json",
            "similar",
            "strsim",
            "thiserror",
            "unicode-normalization",
            "unicode-security",
        ],
    ),
    ("baton-render", &["serde_json"]),
    ("baton-machine", &["hashbrown", "petgraph", "rustc-hash", "serde", "serde_json", "smallvec"]),
    ("baton-utp", &["schemars", "serde", "serde_json", "thiserror"]),
];

/// A cycle that stays.
struct Cycle {
    /// Its crate.
    package: &'static str,
    /// Its modules, in alphabetical order.
    modules: &'static [&'static str],
    /// The reason.
    #[expect(dead_code, reason = "it is for readers of this file")]
    reason: &'static str,
}

/// The cycles that stay.
const CYCLES: &[Cycle] = &[
    Cycle {
        package: "baton-machine",
        modules: &["calls", "phase"],
        reason: "A phase owns the calls of its turn, and these know the purpose of their request.",
    },
    Cycle {
        package: "baton-machine",
        modules: &["draft", "rules", "rules::after"],
        reason: "A draft ends turns by the rule *after*, which reads it.",
    },
    Cycle {
        package: "baton-machine",
        modules: &["apply::calls", "apply::tasks"],
        reason: "The end of a call may end its task, and the end of a task ends its calls.",
    },
    Cycle {
        package: "baton-template",
        modules: &["code", "meter"],
        reason: "The instructions charge the meter, and the meter knows the namespaces that they make.",
    },
    Cycle {
        package: "baton-store",
        modules: &["sqlite::layout", "sqlite::schema"],
        reason: "A schema is compared with the layout that its own tables give.",
    },
    Cycle {
        package: "baton-store",
        modules: &["sqlite::perform", "sqlite::writer"],
        reason: "The writer performs one write, whose form is the writer's.",
    },
    Cycle {
        package: "baton-models",
        modules: &["script", "scripted"],
        reason: "A script is checked by the model that follows it.",
    },
    Cycle {
        package: "baton-tools",
        modules: &["data::delimited", "data::json_rows", "data::table"],
        reason: "A table is read from its formats, each of which gives its cells.",
    },
];

/// A package, as cargo describes it.
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` for an ordinary one.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Fails with every dependency that no layer allows, and with every cycle that is not listed.
pub(crate) fn check() -> anyhow::Result<()> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"]).output().context("cargo cannot be started")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata cannot be read")?;
    let mut faults = Vec::new();
    let mut cycles: BTreeSet<(String, Vec<String>)> = BTreeSet::new();
    for (name, allowed) in LAYERS {
        let package = metadata.packages.iter().find(|package| package.name == name);
        let package = package.with_context(|| format!("there is no package {name}"))?;
        faults.extend(forbidden(package, allowed));
        let source = Path::new(&package.manifest_path).with_file_name("src");
        cycles.extend(cycles_in(&imports(&source)?).into_iter().map(|cycle| (name.to_owned(), cycle)));
    }
    let listed: BTreeSet<(String, Vec<String>)> = CYCLES
        .iter()
        .map(|cycle| (cycle.package.to_owned(), cycle.modules.iter().map(|module| (*module).to_owned()).collect()))
        .collect();
    let fault = |what: &str, (package, modules): &(String, Vec<String>)| format!("{package}: {what}: {}", modules.join(", "));
    faults.extend(cycles.difference(&listed).map(|cycle| fault("modules import each other in a cycle", cycle)));
    faults.extend(listed.difference(&cycles).map(|cycle| fault("a listed cycle no longer exists", cycle)));
    if faults.is_empty() { Ok(()) } else { bail!("{}\nsee {}", faults.join("\n"), root().join(file!()).display()) }
}

/// Returns the dependencies of `package` that its layer does not allow.
fn forbidden(package: &Package, allowed: &[&str]) -> Vec<String> {
    let pure = PURE.iter().find(|(name, _)| *name == package.name).map(|(_, others)| *others);
    let may = |name: &str| {
        if name.starts_with("baton") { allowed.contains(&name) } else { pure.is_none_or(|others| others.contains(&name)) }
    };
    let ordinary = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    let wrong = ordinary.filter(|dependency| !may(&dependency.name));
    wrong.map(|dependency| format!("{} must not depend on {}", package.name, dependency.name)).collect()
}

/// Returns the modules below `source` by path, each with the modules of the same crate that it names by `crate::` or `super::`. What a
/// module re-exports of its own children is not counted; nor are tests.
fn imports(source: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut files = BTreeMap::new();
    read(source, source, &mut files)?;
    let prelude = files.remove("prelude").unwrap_or_default();
    let known: BTreeSet<String> = files.keys().cloned().collect();
    let named_in = |(module, text): (String, String)| (module.clone(), named(&module, &without_prelude(&text, &prelude), &known));
    Ok(files.into_iter().map(named_in).collect())
}

/// Returns `text` with an import of each name that it uses of `prelude`, in place of the import of them all.
fn without_prelude(text: &str, prelude: &str) -> String {
    let used: BTreeSet<&str> = text.split(|each: char| !each.is_alphanumeric() && each != '_').collect();
    let shared = prelude.split("use ").filter(|tree| tree.starts_with("crate::")).flat_map(paths);
    let is_used = |path: &Vec<String>| path.last().is_some_and(|name| used.contains(name.as_str()));
    let imports: Vec<String> = shared.filter(is_used).map(|path| format!("use {};", path.join("::"))).collect();
    text.replace("use crate::prelude::*;", &imports.join("\n"))
}

fn read(source: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            read(source, &path, files)?;
            continue;
        }
        let within = path.strip_prefix(source).unwrap_or(&path).with_extension("");
        let mut names: Vec<String> = within.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if names.iter().any(|name| name == "tests") || path.extension() != Some("rs".as_ref()) {
            continue;
        }
        if names.last().is_some_and(|name| name == "mod") || names == ["lib"] || names == ["main"] {
            names.pop();
        }
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        files.insert(names.join("::"), code.join("\n"));
    }
    Ok(())
}

/// Returns the modules that `text`, the code of `module`, names.
fn named(module: &str, text: &str, known: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_word = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    for root in ["crate::", "super::"] {
        for (place, _) in text.match_indices(root) {
            if text[..place].ends_with(is_word) {
                continue;
            }
            let end = text[place..].find([';', '\n']).map_or(text.len(), |end| place + end);
            let whole = if is_import(&text[..place]) {
                &text[place..text[place..].find(';').map_or(end, |end| place + end)]
            } else {
                &text[place..end]
            };
            for path in paths(whole) {
                let target = resolved(module, &path, known);
                if target != module {
                    found.insert(target);
                }
            }
        }
    }
    found
}

/// Whether `before` ends with the beginning of an import.
fn is_import(before: &str) -> bool {
    before.ends_with("use ")
}

/// Returns the paths of an import tree, or the one path that an expression begins with.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let name = |text: &str| text.chars().take_while(|each| each.is_alphanumeric() || *each == '_').collect::<String>();
    let mut prefix: Vec<String> = Vec::new();
    let mut rest = tree.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
            for (place, character) in group.char_indices() {
                match character {
                    '{' => depth += 1,
                    '}' if depth == 0 => {
                        found.extend(paths(&group[start..place]));
                        break;
                    }
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.extend(paths(&group[start..place]));
                        start = place + 1;
                    }
                    _ => {}
                }
            }
            let joined = found.into_iter().filter(|path| !path.is_empty());
            return joined.map(|path| prefix.iter().cloned().chain(path).collect()).collect();
        }
        let part = name(rest);
        if part.is_empty() {
            return vec![prefix];
        }
        rest = &rest[part.len()..];
        prefix.push(part);
        match rest.strip_prefix("::") {
            Some(after) => rest = after,
            None => return vec![prefix],
        }
    }
}

/// Returns the module that `path`, used in `module`, leads into.
fn resolved(module: &str, path: &[String], known: &BTreeSet<String>) -> String {
    let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = after;
    }
    for part in rest {
        at.push(part);
        if !known.contains(&at.join("::")) {
            at.pop();
            break;
        }
    }
    at.join("::")
}

/// Returns the cycles of `imports`: sets of modules each of which leads to all others of its set.
fn cycles_in(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reach(module, imports))).collect();
    let cycle = |module: &str| -> Vec<String> {
        let mutual = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(module));
        reached[module].iter().filter(mutual).map(|other| (*other).to_owned()).collect()
    };
    imports.keys().map(|module| cycle(module)).filter(|cycle| cycle.len() > 1).collect()
}

fn reach<'i>(module: &str, imports: &'i BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'i str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = imports.get(module).into_iter().flatten().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(imports.get(next).into_iter().flatten().map(String::as_str));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> BTreeSet<Vec<String>> {
        let known: BTreeSet<String> = files.iter().map(|(module, _)| (*module).to_owned()).collect();
        cycles_in(&files.iter().map(|(module, text)| ((*module).to_owned(), named(module, text, &known))).collect())
    }

    #[test]
    fn a_cycle_is_found_through_groups_and_paths_in_code() {
        let a = ("a", "use crate::{b::{Thing, other}, c};\n");
        let files = [a, ("b", "fn f() -> super::c::D {}\n"), ("c", "use std::fmt;\n\nlet x = crate::a::make();\n")];
        assert_eq!(found(&files), BTreeSet::from([["a", "b", "c"].map(str::to_owned).to_vec()]));
        assert_eq!(found(&[a, ("b", ""), ("c", "use crate::b;\n")]), BTreeSet::new());
    }

    #[test]
    fn a_child_that_uses_its_parent_is_a_cycle_only_if_the_parent_names_it() {
        assert_eq!(found(&[("a", "mod b;\npub use b::B;\n"), ("a::b", "use super::A;\n")]), BTreeSet::new());
        let named = found(&[("a", "use crate::a::b::B;\n"), ("a::b", "use super::A;\n")]);
        assert_eq!(named, BTreeSet::from([["a", "a::b"].map(str::to_owned).to_vec()]));
    }

    #[test]
    fn a_dependency_upward_is_refused_and_one_of_tests_is_not() {
        let dependency = |name: &str, kind: Option<&str>| Dependency { name: name.to_owned(), kind: kind.map(str::to_owned) };
        let dependencies =
            vec![dependency("baton-runtime", None), dependency("tokio", None), dependency("rusqlite", Some("dev"))];
        let package = Package { name: "baton-machine".to_owned(), manifest_path: String::new(), dependencies };
        assert_eq!(forbidden(&package, &["baton-types"]).len(), 2);
    }

    #[test]
    fn every_crate_keeps_to_its_layer() {
        check().unwrap();
    }
}
