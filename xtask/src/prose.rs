//! `cargo xtask prose`: a lint that keeps the prose of the repository plain. `cargo xtask check` runs it.
//!
//! It reads comments, messages and help texts of the code, the documentation pages, and the descriptions of tool configs. It
//! finds habits, not meaning: a text that passes can still be unclear. Generated pages are left out, since their sources
//! are checked.

mod rules;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use self::rules::{Finding, Names, Rule, judge, judge_message};
use crate::project::root;

/// Files and folders with prose.
const CHECKED: [&str; 12] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "BENCHMARKS.md",
    "docs",
    "engine",
    "tools",
    "tool-configs",
    "tests",
    "xtask",
    "examples",
];
/// Folders that are built, recorded or written by tools.
const SKIPPED: [&str; 4] = ["target", "recordings", "node_modules", ".venv"];
/// Widest line of the README, in characters.
const README_WIDTH: usize = 120;

/// Options of `cargo xtask prose`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Prints the number of findings per rule instead of the findings.
    #[arg(long)]
    count: bool,
    /// Files and folders to check (default: the whole repository).
    paths: Vec<String>,
}

/// Runs the lint as a chore of its own.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let findings = find(&options.paths)?;
    if !options.count {
        return report(&findings);
    }
    for rule in Rule::ALL {
        println!("{:<10}{:>6}", rule.name(), findings.iter().filter(|(_, finding)| finding.rule == rule).count());
    }
    Ok(())
}

/// Fails with every finding in the repository.
pub(crate) fn check() -> anyhow::Result<()> {
    report(&find(&[])?)
}

fn report(findings: &[(String, Finding)]) -> anyhow::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let lines = findings.iter().map(|(file, finding)| {
        format!("{file}:{}: {}: {} ({})", finding.line, finding.rule.name(), finding.text, finding.rule.cure())
    });
    bail!("the prose lint found {}:\n{}", findings.len(), lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the findings of all checked files that begin with one of `paths`; of all files if there are none.
fn find(paths: &[String]) -> anyhow::Result<Vec<(String, Finding)>> {
    let mut files = BTreeMap::new();
    for place in CHECKED {
        read(&root().join(place), &mut files)?;
    }
    let names = Names { known: identifiers(&files) };
    let mut findings = Vec::new();
    for (file, text) in &files {
        let is_asked = paths.is_empty() || paths.iter().any(|path| file.starts_with(path.as_str()));
        if is_asked {
            findings.extend(judge_file(file, text, &names).into_iter().map(|finding| (file.clone(), finding)));
        }
    }
    Ok(findings)
}

fn judge_file(file: &str, text: &str, names: &Names) -> Vec<Finding> {
    let is_readme = file == "README.md";
    let is_message_source = Path::new(file).extension() == Some("rs".as_ref()) && !is_test(file);
    let (passages, is_short) = match Path::new(file).extension().and_then(|extension| extension.to_str()) {
        Some("rs") => (text::of_rust(text), text.contains("#[arg(") || text.contains("#[command(")),
        Some("md") => (text::of_markdown(text), is_readme),
        _ => (text::of_json(text), false),
    };
    let mut findings: Vec<Finding> = passages.iter().flat_map(|passage| judge(passage, is_short, names)).collect();
    if is_message_source {
        findings.extend(text::messages(text).iter().flat_map(judge_message));
    }
    if is_readme {
        let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > README_WIDTH);
        findings.extend(wide.map(|(index, line)| Finding {
            line: index + 1,
            rule: Rule::Length,
            text: format!("{} characters, at most {README_WIDTH}", line.chars().count()),
        }));
    }
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    findings
}

/// Returns true for a file that has only tests, whose texts are data.
fn is_test(file: &str) -> bool {
    file.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// Adds the files with prose at or below `place`, by their path from the root.
fn read(place: &Path, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    if place.is_dir() {
        for entry in std::fs::read_dir(place).with_context(|| format!("{} cannot be read", place.display()))? {
            let path: PathBuf = entry?.path();
            if !SKIPPED.iter().any(|name| path.ends_with(name)) {
                read(&path, files)?;
            }
        }
        return Ok(());
    }
    let name = place.strip_prefix(root()).unwrap_or(place).display().to_string();
    let has_prose = match place.extension().and_then(|extension| extension.to_str()) {
        Some("rs" | "md") => true,
        Some("json") => name.starts_with("tool-configs/"),
        _ => false,
    };
    if has_prose {
        let text = std::fs::read_to_string(place).with_context(|| format!("{name} cannot be read"))?;
        let _none = files.insert(name, text);
    }
    Ok(())
}

/// Returns every identifier of the code outside of comments, and every name on the rules page.
fn identifiers(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (file, text) in files {
        let is_code = Path::new(file).extension() == Some("rs".as_ref());
        if !is_code && file != "docs/RULES.md" {
            continue;
        }
        for line in text.lines().filter(|line| !is_code || !line.trim_start().starts_with("//")) {
            let parts = line.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
            names.extend(parts.filter(|part| part.contains('_')).map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rules that find something in `text`, in order.
    fn found(file: &str, text: &str) -> Vec<Rule> {
        let names = Names { known: BTreeSet::from(["every_call_has_one_result".to_owned()]) };
        judge_file(file, text, &names).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn bad_sentences_are_found_with_their_rule() {
        let planted = [
            ("/// What the run holds.\nstruct A;", Rule::Opener),
            ("/// Those of the run.\nstruct A;", Rule::Opener),
            ("//! Whoever asks first.\n", Rule::Opener),
            ("/// How many there are.\nconst A: u8 = 1;", Rule::Opener),
            ("/// Whether it may begin, and why.\nfn a() -> Option<u8> {", Rule::Opener),
            ("/// The length.\npub(crate) async fn a() -> u8 {", Rule::Verb),
            ("fn a() {\n    // The header says how long.\n}", Rule::Speech),
            ("let a = 1; // as the file tells\n", Rule::Speech),
            ("// Older turns give way to a summary.\n", Rule::Posture),
            ("// The rule stands.\n", Rule::Posture),
            ("// The run goes on\n// by other rules.\n", Rule::Posture),
            ("// A number of 8, unless said.\n", Rule::Dialect),
            ("// The file is there, and the lock beside.\n", Rule::Dialect),
            ("// See RELIABILITY Z6.\n", Rule::Reference),
            ("// By turn rule 6.\n", Rule::Reference),
            ("// By T-X6.\n", Rule::Reference),
            ("// Kept by `every_call_has_two_results`.\n", Rule::Reference),
        ];
        for (text, rule) in planted {
            assert!(found("engine/a.rs", text).contains(&rule), "{rule:?} in {text:?}");
        }
        assert_eq!(found("docs/a.md", "The run goes on.\n\n| a | nobody |\n"), [Rule::Posture, Rule::Dialect]);
        assert_eq!(found("tool-configs/a.json", r#"{"description": "8 unless said"}"#), [Rule::Speech, Rule::Dialect]);
    }

    #[test]
    fn bad_messages_are_found_with_their_rule() {
        let planted = [
            ("#[error(\"nobody decided ({0})\")]\nA(String),", Rule::Dialect),
            ("bail!(\"key {name} stands twice\");", Rule::Posture),
            ("format!(\n    \"the answer did not \\\n     go on\"\n)", Rule::Posture),
            ("tell(r#\"the store was \"told\" so\"#);", Rule::Speech),
            ("let a = '\"'; let b = \"it is no regular file\";", Rule::Negation),
            ("let a = \"the model \\\"m\\\" is none of the job\";", Rule::Negation),
        ];
        for (text, rule) in planted {
            assert_eq!(found("engine/a.rs", text), [rule], "{text:?}");
            assert_eq!(found("engine/a/tests/b.rs", text), [], "the texts of tests are data: {text:?}");
            assert_eq!(found("engine/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}\n}}")), [], "{text:?}");
        }
        let findings = judge_file("engine/a.rs", "fn a() {\n    b(\"one\\n\\\n       it stands\");\n}", &Names::default());
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn good_sentences_pass() {
        let good = [
            "/// Whether it may begin.\nfn a(&self) -> bool {",
            "/// Whether it is known; `None` before the start.\n#[serde(default)]\nknown: Option<bool>,",
            "/// Returns the length.\nfn a() -> u8 {",
            "/// The cases of the rule.\n#[test]\nfn a() {}",
            "/// Number of calls.\ncalls: u8,",
            "// The model says what it wants; a person told it so.\n",
            "// The answer said \"nobody stands there\".\n",
            "// Kept by `every_call_has_one_result`.\n",
            "// The lock is beside the socket.\n",
            "let a = \"// b\"; let c = '\"'; let d: &'static str = \"\"; // The rule holds.\n",
            "let a = \"there is no run {id}\"; let b = \"it is no longer running\"; let c = \"stands\";",
            "/// Renders text:\n///\n/// ```\n/// // nobody tells\n/// ```\nfn a() {}",
        ];
        for text in good {
            assert_eq!(found("engine/a.rs", text), [], "{text:?}");
        }
    }

    #[test]
    fn sentences_are_counted_to_their_end() {
        let sentence = |words: usize| format!("A{}.", " word".repeat(words - 1));
        let page =
            |words: usize| format!("{}\n{}\n", sentence(words).replacen(" word word word", " word\nword word", 1), sentence(3));
        assert_eq!(found("docs/a.md", &page(40)), []);
        assert_eq!(found("docs/a.md", &page(41)), [Rule::Length]);
        assert_eq!(found("README.md", &page(30).replace(" word", " w")), []);
        assert_eq!(found("README.md", &page(31).replace(" word", " w")), [Rule::Length]);
        assert_eq!(found("README.md", &format!("# {}\n", "x".repeat(119))), [Rule::Length]);
        let help = format!("/// {}\n#[arg(long)]\nfile: String,", sentence(31));
        assert_eq!(found("engine/a.rs", &help), [Rule::Length]);
    }

    #[test]
    fn a_finding_has_the_line_of_its_word() {
        let findings = judge_file("a.md", "One.\n\nTwo\nstands.\n", &Names::default());
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [4]);
        let config = "{\n  \"a\": {\n    \"description\": \"it stands\"\n  }\n}";
        assert_eq!(judge_file("a.json", config, &Names::default())[0].line, 3);
    }

    #[test]
    fn the_repository_has_no_findings() {
        check().unwrap();
    }
}
