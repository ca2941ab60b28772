//! Compile errors of functions that cannot be tools or that disagree with their JSON.
//!
//! The fixtures are real crates, checked by a real cargo: each `//~ message` in them is an error that must be reported at
//! that line, and no other error may be. (Snapshots of whole messages would change with every compiler.)

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// File (from the fixture's crate), line and text of an error.
type Complaint = (String, u64, String);

struct Fixtures {
    folder: PathBuf,
}

impl Fixtures {
    /// Returns a fresh copy of the fixtures, in a workspace of their own, with the repository's locked versions.
    fn copy(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        copy(&source, &folder, &root);
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");
        Self { folder }
    }

    /// Checks a package and returns the errors that were reported, and whether it compiled.
    fn check(&self, arguments: &[&str]) -> (Vec<Complaint>, bool) {
        let output = Command::new(env!("CARGO"))
            .args(["check", "--offline", "--quiet", "--keep-going", "--message-format=json"])
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures-target"))
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let complaints: Vec<Complaint> = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|line| complaint(&line["message"]))
            .collect();
        let explained = output.status.success() || !complaints.is_empty();
        assert!(explained, "cargo failed without a complaint:\n{}", String::from_utf8_lossy(&output.stderr));
        (complaints, output.status.success())
    }
}

/// Copies a folder; `X.in` becomes `X` with the repository's place filled in.
fn copy(from: &Path, to: &Path, root: &Path) {
    fs::create_dir_all(to).expect("a folder for the fixtures");
    for entry in fs::read_dir(from).expect("the fixtures") {
        let entry = entry.expect("a fixture");
        let name = entry.file_name().into_string().expect("a plain name");
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(name), root);
        } else {
            let text = fs::read_to_string(entry.path()).expect("a fixture is text");
            let text = text.replace("@ROOT@", &root.to_string_lossy().replace('\\', "/"));
            fs::write(to.join(name.trim_end_matches(".in")), text).expect("a fixture is copied");
        }
    }
}

/// Returns an error that has a span. The closing "aborting due to" has none. An error inside a macro of the standard
/// library is shown at the place that called it, so that place counts.
fn complaint(message: &Value) -> Option<Complaint> {
    if message["level"] != "error" {
        return None;
    }
    let mut span = message["spans"].as_array()?.iter().find(|span| span["is_primary"] == true)?;
    while span["file_name"].as_str()?.starts_with('/') && span["expansion"].is_object() {
        span = &span["expansion"]["span"];
    }
    let file = span["file_name"].as_str()?;
    let file = file.rsplit_once("src/").map_or(file, |(_, file)| file);
    Some((file.to_owned(), span["line_start"].as_u64()?, message["message"].as_str()?.to_owned()))
}

/// Returns the `//~` comments of the fixtures' programs.
fn expected(folder: &Path) -> Vec<Complaint> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("strict/src/bin")).expect("the programs") {
        let path = entry.expect("a program").path();
        let name = format!("bin/{}", path.file_name().expect("a name").to_string_lossy());
        for (line, text) in fs::read_to_string(&path).expect("a program is text").lines().enumerate() {
            if let Some((_, message)) = text.split_once("//~ ") {
                found.push((name.clone(), line as u64 + 1, message.to_owned()));
            }
        }
    }
    found
}

#[test]
fn every_disagreement_is_an_error_at_its_place_and_nothing_else_is() {
    let fixtures = Fixtures::copy("fixtures-strict");
    let expected = expected(&fixtures.folder);
    assert!(expected.len() > 20, "the fixtures say what they expect");
    let (found, compiled) = fixtures.check(&["--package", "strict", "--bins"]);
    assert!(!compiled);
    let fits = |(file, line, text): &Complaint, (other_file, other_line, message): &Complaint| {
        file == other_file && line == other_line && text.contains(message.as_str())
    };
    let missing: Vec<_> = expected.iter().filter(|wanted| !found.iter().any(|found| fits(found, wanted))).collect();
    let surplus: Vec<_> = found.iter().filter(|found| !expected.iter().any(|wanted| fits(found, wanted))).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:#?}\nsurplus: {surplus:#?}");
    let agreeing: BTreeSet<_> = found.iter().filter(|(file, ..)| file == "bin/agrees.rs").collect();
    assert!(agreeing.is_empty());
}

#[test]
fn a_program_that_depends_on_the_library_alone_is_checked_again_when_only_the_json_changes() {
    let fixtures = Fixtures::copy("fixtures-embedder");
    assert_eq!(fixtures.check(&["--package", "embedder"]), (Vec::new(), true));
    let config = fixtures.folder.join("tool-configs/shout.json");
    let text = fs::read_to_string(&config).expect("the config");
    fs::write(&config, text.replace("\"times\"", "\"time\"")).expect("the config is changed");
    let (found, compiled) = fixtures.check(&["--package", "embedder"]);
    assert!(!compiled);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].2, "tool-configs/shout.json has no parameter \"times\"; did you mean \"time\"?");
}
