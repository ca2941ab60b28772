//! Paths that a model may give a document: those that lead out of the workspace, read as something else, or cannot be seen.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::{Scene, Size, Tally};

/// Documents of one run.
const DOCUMENTS: usize = 16;

/// Lets an agent write a document at every path, beside one that already exists.
pub fn attack(size: Size) -> anyhow::Result<Tally> {
    let paths = paths();
    let paths: Vec<&String> = paths.iter().step_by(if size == Size::Full { 1 } else { 8 }).collect();
    let mut tally = Tally::default();
    for paths in paths.chunks(DOCUMENTS) {
        let scene = Scene::new()?;
        let mut turns = vec![write(&[&"report.md".to_owned()], "genuine")];
        turns.extend(paths.iter().map(|path| write(&[path], "forged")));
        turns.push(json!({"text": "done"}));
        let limits = json!({"limits": {"turns": turns.len() + 2}});
        scene.write_job("writing", &[("lead", &["write_file"])], json!({"lead": {"turns": turns}}), limits)?;
        let before = scene.files()?;
        let ran = scene.run(&["run", "writing"])?;
        ensure!(ran.code == Some(0), "the run failed: {}", ran.text());
        let listed = scene.run(&["doc", "ls", "@last", "--output", "json"])?;
        let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
        let names: Vec<&str> = listed.iter().filter_map(|document| document["path"].as_str()).collect();
        for path in paths {
            let name = path.strip_prefix("./").unwrap_or(path);
            let is_there = names.iter().any(|known| *known == name || *known == path.as_str());
            tally.count((is_there && name != "report.md").then(|| format!("{path:?} is a document now")));
        }
        for version in ["report.md", "report.md@1", "report.md@v1"] {
            let shown = scene.run(&["doc", "cat", "@last", version])?;
            let is_forged = String::from_utf8_lossy(&shown.stdout).contains("forged");
            tally.count(is_forged.then(|| format!("{version} shows what another document holds")));
        }
        scene.run(&["doc", "export", "@last", "--out", "exported"])?;
        for (path, _) in scene.files()? {
            let is_known = before.iter().any(|(known, _)| *known == path);
            let is_own = path.starts_with(scene.home()) || path.iter().any(|part| part == ".baton" || part == "exported");
            tally.count((!is_known && !is_own).then(|| format!("{} appeared", path.display())));
        }
    }
    Ok(tally)
}

fn write(paths: &[&String], content: &str) -> Value {
    let call = |path: &&String| json!({"tool": "write_file", "input": {"path": path, "content": content}});
    json!({"calls": paths.iter().map(call).collect::<Vec<_>>(), "literal": true})
}

/// Paths that no document may have beside `report.md`.
fn paths() -> Vec<String> {
    let mut paths: Vec<String> = [
        "../x",
        "../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "a/../../x",
        "./../x",
        "a/./b",
        "a/..",
        "..",
        ".",
        "",
        " ",
        "./",
        "a//b",
        "a/",
        "....//x",
        "..\\x",
        "a\\b",
        "C:\\x",
        "C:x",
        "\\\\host\\share",
        "file:///etc/passwd",
        "http://x/y",
        "~/x",
        "~root/x",
        "$HOME/x",
        "${HOME}/x",
        "%2e%2e%2fx",
        "%252e%252e/x",
        "..%c0%afx",
        "a%00b",
        "a\0b",
        "a\nb",
        "a\rb",
        "a\tb",
        "a\u{1b}[2Jb",
        "a\u{7f}b",
        "a\u{9b}b",
        "CON",
        "con.txt",
        "PRN",
        "AUX",
        "aux.md",
        "NUL",
        "nul.",
        "COM1",
        "com9.log",
        "LPT1",
        "x.",
        "x ",
        " x",
        "a /b",
        "a./b",
        "report.md@1",
        "report.md@2",
        "report.md@01",
        "report.md@v1",
        "report.md@V1",
        "report.md@999999999999",
        "a/report.md@3",
        "x@١",
        "x@１",
        "Report.md",
        "REPORT.MD",
        "report.MD",
        "report.md/x",
        "ｒeport.md",
        "report．md",
        "repo\u{ad}rt.md",
        "\u{440}eport.md",
        "r\u{435}port.md",
        "rep\u{43e}rt.md",
        "re\u{440}ort.md",
        "rep\u{3bf}rt.md",
        "\u{433}epor\u{442}.md",
        "a\u{2215}b",
        "a\u{2044}b",
        "a\u{29f8}b",
        "a\u{ff0f}b",
        "\u{2025}/x",
        "\u{ff0e}\u{ff0e}/x",
        "report\u{202e}dm.exe",
        "a\u{2066}b\u{2069}",
    ]
    .map(str::to_owned)
    .to_vec();
    let unseen = "\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202f}\
        \u{205f}\u{2060}\u{2061}\u{206f}\u{2800}\u{3000}\u{3164}\u{a0}\u{1680}\u{2003}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{e0001}\u{e0041}\u{e0100}\u{e000}\u{85}";
    paths.extend(unseen.chars().map(|character| format!("report{character}.md")));
    for end in ["@3", "@v9", "@0", "@00000000000000000002"] {
        paths.extend([format!("notes{end}"), format!("deep/notes{end}"), format!("notes.v2{end}")]);
    }
    paths.extend(["n".repeat(256), format!("{}.md", "é".repeat(128)), "a/".repeat(2_100) + "b"]);
    paths
}

/// Returns the number of paths.
pub fn count() -> anyhow::Result<usize> {
    let paths = paths();
    let distinct: std::collections::BTreeSet<_> = paths.iter().collect();
    ensure!(distinct.len() == paths.len(), "the list has a path twice");
    Ok(paths.len())
}
