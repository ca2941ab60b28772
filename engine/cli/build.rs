//! Embeds files into the program: built-in tool configs, JSON Schemas, and the templates of `init`.
//!
//! Folders are scanned, so a new tool config cannot be forgotten. An optimized build from the repository also gets its revision.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut code = String::new();
    table(
        &mut code,
        "TOOL_CONFIGS",
        "Every built-in tool config, by file name.",
        &crate_folder.join("../../tool-configs"),
        ".json",
    )?;
    table(
        &mut code,
        "SCHEMAS",
        "The JSON Schemas of the files that people write.",
        &crate_folder.join("../../generated-docs"),
        ".schema.json",
    )?;
    table(&mut code, "PROJECT", "What `init` writes.", &crate_folder.join("templates/project"), "")?;
    table(&mut code, "CRATE", "What `init --rust` writes.", &crate_folder.join("templates/crate"), "")?;
    println!("cargo:rustc-env=BATON_REVISION={}", revision(&crate_folder).unwrap_or_default());
    fs::write(out.join("embedded.rs"), code)
}

/// Returns the revision of the repository with this folder. There is none for a package from a registry, or where the sources are
/// a part of another repository. Debug builds have none either, since each commit would build them again.
fn revision(folder: &Path) -> Option<String> {
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug")
        || git(folder, &["rev-parse", "--show-prefix"])? != "engine/cli/"
    {
        return None;
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = folder.join(git(folder, &["rev-parse", "--git-path", file])?);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(folder, &["rev-parse", "--verify", "HEAD"])
}

/// Returns the line that git prints; `None` without git, or if it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let ran = Command::new("git").current_dir(folder).args(arguments).output().ok()?;
    ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}

/// Writes a table of `(path, text)` for the files below `folder` whose names end with `ending`, ordered by path.
fn table(code: &mut String, name: &str, what: &str, folder: &Path, ending: &str) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    if folder.is_dir() {
        collect(folder, &mut files)?;
    }
    files.sort();
    let _infallible = writeln!(code, "/// {what}\npub(crate) static {name}: &[(&str, &str)] = &[");
    for file in files.iter().filter(|file| file.to_string_lossy().ends_with(ending)) {
        let path = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let _infallible = writeln!(code, "    ({path:?}, include_str!({:?})),", file.display().to_string());
    }
    code.push_str("];\n");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo:rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
