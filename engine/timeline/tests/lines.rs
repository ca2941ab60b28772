//! Lines of simulated runs: lossless, valid under their schema, and complete about ends.

use std::collections::{BTreeMap, BTreeSet};

use baton_proof::simulation;
use baton_timeline::{Line, Reader, sentence};
use baton_types::entry::{Entry, QuestionEnd, Recorded};
use baton_types::id::RunId;
use serde_json::Value;

/// Number of simulated runs that the tests read.
const SEEDS: u64 = 150;

/// Returns the timelines of the simulated runs.
fn timelines() -> impl Iterator<Item = Vec<Recorded>> {
    (0..SEEDS).map(|seed| simulation::timeline(seed).1)
}

/// Returns the lines of `timeline`, written as ndjson and read back.
fn exported(timeline: &[Recorded]) -> Vec<(String, Line)> {
    let mut reader = Reader::new(RunId::new("r1"));
    timeline
        .iter()
        .map(|recorded| serde_json::to_string(&reader.line(recorded)).unwrap())
        .map(|text| {
            let line = serde_json::from_str(&text).unwrap();
            (text, line)
        })
        .collect()
}

#[test]
fn a_line_has_the_stored_entry_and_gives_it_back() {
    let mut names = BTreeSet::new();
    for timeline in timelines() {
        for (recorded, (text, line)) in timeline.iter().zip(exported(&timeline)) {
            assert_eq!(*recorded, line.recorded());
            let (stored, line): (Value, Value) = (serde_json::to_value(recorded).unwrap(), serde_json::from_str(&text).unwrap());
            assert_eq!(stored["entry"][recorded.entry.name()], line["data"]);
            names.insert(recorded.entry.name());
        }
    }
    let missing: Vec<_> = Entry::NAMES.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "no simulated run has an entry {missing:?}");
}

#[test]
fn every_line_meets_the_published_schema() {
    let schema = baton_timeline::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut strayed = 0;
    for timeline in timelines().take(40) {
        for (text, _) in exported(&timeline) {
            let mut line: Value = serde_json::from_str(&text).unwrap();
            let faults: Vec<String> = validator.iter_errors(&line).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{faults:?} in {text}");
            line["data"] = serde_json::json!({"forged": true});
            strayed += u32::from(!validator.is_valid(&line));
        }
    }
    assert!(strayed > 100, "the schema says what the data of an entry is");
}

#[test]
fn every_task_call_and_question_is_closed_by_exactly_one_line() {
    for (seed, timeline) in timelines().enumerate() {
        let mut open = BTreeMap::new();
        let mut closed = BTreeSet::new();
        for (_, line) in exported(&timeline) {
            match &line.entry {
                Entry::TaskCreated(created) => _ = open.insert(created.task.to_string(), line.seq),
                Entry::ModelAnswered(answered) => {
                    let calls = (1..=answered.calls.len() as u32).map(|position| answered.task.call(answered.turn, position));
                    open.extend(calls.map(|call| (format!("call {call}"), line.seq)));
                }
                Entry::CallMade(made) => _ = open.insert(format!("call {}", made.call), line.seq),
                Entry::QuestionOpened(opened) => _ = open.insert(format!("Q{}", opened.number), line.seq),
                Entry::QuestionClosed(closed) => assert!(
                    !matches!(closed.how, QuestionEnd::Escalated { .. }) || line.with.is_some(),
                    "an escalated question names the next one"
                ),
                _ => {}
            }
            let tasks = line.closes.tasks.iter().map(ToString::to_string);
            let calls = line.closes.calls.iter().map(|call| format!("call {call}"));
            let questions = line.closes.questions.iter().map(|number| format!("Q{number}"));
            for name in tasks.chain(calls).chain(questions) {
                assert!(open.remove(&name).is_some(), "seed {seed}: line {} closes {name}, which is not open", line.seq);
                assert!(closed.insert(name.clone()), "seed {seed}: line {} closes {name} again", line.seq);
            }
        }
        assert!(open.is_empty(), "seed {seed}: nothing closes {open:?}");
    }
}

#[test]
fn documents_are_named_with_their_content() {
    let mut named = 0;
    for timeline in timelines() {
        for (_, line) in exported(&timeline) {
            for document in &line.documents {
                assert!(document.content.is_some(), "line {} names {document} without its content", line.seq);
                named += 1;
            }
        }
    }
    assert!(named > 100);
}

#[test]
fn a_sentence_tells_tasks_of_one_agent_apart_by_the_task_of_its_line() {
    for timeline in timelines().take(20) {
        for (_, line) in exported(&timeline) {
            assert_eq!(line.task.as_ref(), line.entry.task());
            let words = sentence(&line).to_string();
            assert!(words.len() > line.entry.name().len() / 4 && !words.contains('\n'), "{words:?}");
        }
    }
}

#[test]
fn the_page_of_the_format_names_every_entry_type_and_field() {
    let page = std::fs::read_to_string("../../docs/timeline.md").unwrap();
    for name in Entry::NAMES {
        assert!(page.contains(&format!("| `{name}` |")), "{name} has no row");
    }
    let schema = baton_timeline::schema();
    for field in schema["properties"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{field}`")), "{field} is not described");
    }
    assert!(baton_timeline::Kind::names().all(|name| page.contains(&format!("`{name}`"))));
}
