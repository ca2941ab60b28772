//! Questions to a person: waiting, answering, continuing.

use serde_json::json;

use crate::support::Folder;

#[test]
fn a_run_that_waits_for_a_person_exits_3_and_prints_the_command_that_answers() {
    let folder = Folder::new();
    folder.asking_job();
    let ran =
        folder.baton(&["run", "asking"]).exits(3).tells("lead asks (Q1): Revenue or units?").tells("[1] revenue   [2] units");
    let run = folder.last_run();
    let ran =
        ran.tells(&format!("baton answer {run} Q1 revenue")).tells(&format!("baton resume {run}")).tells("chain: lead → you");
    assert_eq!(ran.stdout, "", "there is no result yet");
    let report = folder.baton(&["resume", &run, "--output", "json"]).exits(3).json();
    assert_eq!(report["status"], "waiting");
    let question = &report["questions"][0];
    assert_eq!(
        (&question["question"], &question["asked_by"], &question["asked_of"]),
        (&json!("Q1"), &json!({"agent": "lead"}), &json!("person"))
    );
    assert_eq!(folder.status(), "waiting");
}

#[test]
fn an_answer_is_checked_first_and_resume_goes_on_with_it() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    folder.baton(&["answer", "@last", "profit"]).exits(2).tells("not one of revenue, units");
    folder.baton(&["answer", "@last", "--json", "7"]).exits(2).tells("does not fit");
    folder.baton(&["answer", "@last"]).exits(2).tells("Revenue or units?").tells("no answer was given");
    folder.baton(&["answer", "@last", "Q2", "units"]).exits(6).tells("there is no question Q2");
    folder
        .baton(&["answer", "Q1", "2", "--no-resume"])
        .exits(0)
        .says("the answer to Q1 is in the inbox, until the run continues: units")
        .tells("baton resume");
    let report = folder.baton(&["resume", "@last", "--output", "json"]).exits(0).json();
    assert_eq!((&report["result"], &report["status"]), (&json!({"summary": "units"}), &json!("success")));
    assert_eq!(report["questions"][0]["answered_by"], json!({"person": "ann"}));
    folder.baton(&["answer", "@last", "Q1", "units"]).exits(1).tells("question Q1 is closed");
    folder.baton(&["answer", "@last", "units"]).exits(1).tells("no question of this run waits");
}

#[test]
fn the_first_answer_wins_and_the_second_is_told_so() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let sent = folder.baton(&["answer", "@last", "units", "--no-resume", "--output", "json"]).exits(0).json();
    assert_eq!((&sent["question"], &sent["delivery"]), (&json!("Q1"), &json!("queued")));
    folder.baton(&["answer", "@last", "revenue", "--no-resume"]);
    let report = folder.baton(&["resume", "@last", "--output", "json"]).exits(0).json();
    assert_eq!(report["result"], json!({"summary": "units"}));
}

#[test]
fn a_document_goes_along_with_the_answer() {
    let folder = Folder::new();
    folder.asking_job();
    folder.write("why.md", "Because of the board.");
    folder.baton(&["run", "asking"]).exits(3);
    folder.baton(&["answer", "@last", "revenue", "--document", "why.md"]).exits(0);
    folder.baton(&["doc", "cat", "@last", "why.md"]).exits(0).says("Because of the board.");
    let listed = folder.baton(&["doc", "ls", "--output", "json"]).exits(0).json();
    assert_eq!((&listed[0]["created_by"], &listed[0]["updated_by"]), (&json!({"person": "ann"}), &json!({"person": "ann"})));
    let log = folder.baton(&["doc", "log", "why.md", "--output", "json"]).exits(0).json();
    assert_eq!((&log[0]["written_by"], &log[0]["readers"][0]["task"]), (&json!({"person": "ann"}), &json!("0")));
}

#[test]
fn several_questions_are_told_apart_by_number() {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [
        {"calls": [
            {"tool": "ask_master", "as": "first", "input": {"question": "One?"}},
            {"tool": "ask_master", "as": "second", "input": {"question": "Two?"}},
        ]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.first }} {{ results.second }}"}}}]},
    ]}});
    folder.job("twice", &[("lead", &["ask_master", "handoff"])], script, json!({}));
    folder.baton(&["run", "twice"]).exits(3).tells("(Q1): One?").tells("(Q2): Two?");
    folder.baton(&["answer", "@last", "yes"]).exits(2).tells("Q1, Q2");
    folder.baton(&["answer", "@last", "Q2", "2 apples", "--no-resume"]).exits(0).tells("1 more open");
    let resumed = folder.baton(&["resume", "@last"]).exits(3).tells("(Q1): One?").tells("continues in process ");
    assert!(!resumed.stderr.contains("process process"), "{}", resumed.stderr);
    folder.baton_with_input(&["answer", "@last", "-"], "from stdin\n").exits(0).says("from stdin 2 apples");
}

#[test]
fn an_answer_continues_a_run_that_no_process_executes() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let ran = folder.baton(&["answer", "@last", "units", "--out", "out"]).exits(0);
    ran.says("units").tells("the answer to Q1 is in the inbox: units").tells("continues").tells("✓ completed");
    folder.baton(&["run", "asking"]).exits(3);
    let report = folder.baton(&["answer", "@last", "revenue", "--output", "json"]).exits(0).json();
    assert_eq!((&report["status"], &report["result"]), (&json!("success"), &json!({"summary": "revenue"})));

    folder.baton(&["run", "asking"]).exits(3);
    folder.baton(&["pause", "@last"]).exits(0);
    folder
        .baton(&["answer", "@last", "units"])
        .exits(0)
        .says("the answer to Q1 is in the inbox, until the run continues: units")
        .tells("baton resume");
    assert_eq!(folder.status(), "waiting", "a pause lasts");
    folder.baton(&["resume", "@last"]).exits(0).says("units");
}

#[test]
fn a_run_that_asks_again_after_an_answer_exits_3_with_its_next_question() {
    let folder = Folder::new();
    let ask = |name: &str| json!({"calls": [{"tool": "ask_master", "as": name, "input": {"question": format!("{name}?")}}]});
    let end = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.one }} {{ results.two }}"}}}]});
    folder.job(
        "twice",
        &[("lead", &["ask_master", "handoff"])],
        json!({"lead": {"turns": [ask("one"), ask("two"), end]}}),
        json!({}),
    );
    folder.baton(&["run", "twice"]).exits(3).tells("(Q1): one?");
    folder.baton(&["answer", "@last", "a"]).exits(3).tells("(Q2): two?").tells(&format!("baton answer {} Q2", folder.last_run()));
    folder.baton(&["answer", "@last", "b"]).exits(0).says("a b");
}
