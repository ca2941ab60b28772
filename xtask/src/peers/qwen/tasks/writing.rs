//! Documents that a task writes.

use serde_json::{Value, json};

use super::super::chance::Chance;
use super::super::task::{Agents, Expected, Outcome, Task};
use super::{WORDS, result_schema};

/// Asks for a document with an exact text.
pub(super) fn exact(chance: &mut Chance) -> Task {
    let (content, path) = (line(chance), "note.txt");
    task(
        format!(
            "Write the document {path} with exactly this text, on one line: {content}\nThen call handoff with {{\"result\": {{\"path\": \"{path}\"}}, \"documents\": \
             [\"{path}\"]}}."
        ),
        Agents::Files,
        path,
        content,
    )
}

/// Asks for a document with one number changed.
pub(super) fn change(chance: &mut Chance) -> Task {
    let (retries, port) = (chance.between(2, 9), chance.between(1_000, 9_999));
    let new = retries + chance.between(10, 80);
    let name = chance.pick(&WORDS);
    let text = |retries: u32| format!("name = {name}\nretries = {retries}\nport = {port}");
    let path = "settings.txt";
    let request = format!(
        "Read {path} with load_to_context. Then write it again with write_file: retries is {new} and everything else stays as it is. \
         Then call handoff with {{\"result\": {{\"path\": \"{path}\"}}, \"documents\": [\"{path}\"]}}."
    );
    Task { documents: vec![(path, text(retries))], ..task(request, Agents::Files, path, text(new)) }
}

/// Asks for a document that another agent writes.
pub(super) fn delegated(chance: &mut Chance) -> Task {
    let (content, path) = (line(chance), "note.txt");
    let request = format!(
        "Let the agent writer write the document {path} with exactly this text, on one line: {content}\nThen call handoff with \
         {{\"result\": {{\"path\": \"{path}\"}}, \"documents\": [\"{path}\"]}}."
    );
    let words = vec![path.to_owned(), content.clone()];
    let mut task = task(request, Agents::Writer, path, content);
    task.expected.push(Expected::Delegates { agent: "writer", words });
    task
}

/// Returns a line of three words and a number.
fn line(chance: &mut Chance) -> String {
    let words = chance.some(&WORDS, 3);
    format!("{} {} {} {}", words[0], words[1], words[2], chance.between(100, 999))
}

/// Returns a task that writes `content` to `path` and hands it off.
fn task(request: String, agents: Agents, path: &'static str, content: String) -> Task {
    let result: Value = json!({ "path": path });
    Task {
        request,
        documents: Vec::new(),
        agents,
        schema: result_schema(&[("path", "string")]),
        expected: vec![Expected::Writes { path, content: content.clone() }],
        outcome: Outcome::Document { result, path, content },
    }
}
