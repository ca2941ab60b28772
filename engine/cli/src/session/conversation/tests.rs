use super::*;

fn task(name: &str) -> TaskId {
    TaskId::new(name)
}

fn entries(seq: u64, open: &[&str]) -> Event {
    Event::Entries { seq, open: open.iter().map(|name| Open { question: task(name), has_documents: *name == "docs" }).collect() }
}

fn typed(conversation: &mut Conversation, text: &str) -> Vec<Action> {
    let keys = text.chars().map(|key| if key == '\n' { Key::Enter } else { Key::Character(key) });
    keys.flat_map(|key| conversation.on(Event::Key(key))).collect()
}

fn checked(name: &str, fault: Option<&str>) -> Event {
    Event::AnswerChecked { question: task(name), fault: fault.map(str::to_owned) }
}

fn ask(name: &str) -> Vec<Action> {
    vec![Action::Ask(task(name))]
}

fn answer(name: &str, text: &str) -> Vec<Action> {
    vec![Action::Answer { question: task(name), typed: text.to_owned() }]
}

/// Returns a conversation in which `q1` is asked since entry 7, and the run waits only for its answer.
fn asking() -> Conversation {
    let mut conversation = Conversation::new(true);
    assert_eq!(conversation.on(entries(6, &[])), []);
    assert_eq!(conversation.on(entries(7, &["q1"])), ask("q1"));
    assert_eq!(conversation.on(Event::WaitsForPeople(7)), []);
    conversation
}

#[test]
fn an_answer_given_here_lets_the_run_proceed() {
    let mut conversation = asking();
    assert_eq!(typed(&mut conversation, "1\n"), answer("q1", "1"));
    assert_eq!(conversation.on(checked("q1", None)), []);
    assert_eq!(conversation.on(entries(8, &[])), [Action::AskNothing]);
    assert_eq!(conversation.state(), &State::Running);
    assert_eq!(conversation.on(Event::Ended), []);
    assert_eq!(conversation.state(), &State::Over { interrupted: false });
}

#[test]
fn a_wait_that_is_over_by_the_entries_taken_in_stops_nothing() {
    // The runtime reports that the run waits since entry 7, but by then entry 8 has closed the question.
    let mut conversation = Conversation::new(true);
    conversation.on(entries(7, &["q1"]));
    conversation.on(entries(8, &[]));
    assert_eq!(conversation.on(Event::WaitsForPeople(7)), []);
    assert_eq!(conversation.state(), &State::Running);
}

#[test]
fn a_wait_for_entries_that_are_not_taken_in_yet_is_decided_with_them() {
    let mut conversation = Conversation::new(true);
    conversation.on(entries(6, &[]));
    assert_eq!(conversation.on(Event::WaitsForPeople(7)), []);
    assert_eq!(conversation.state(), &State::Running);
    assert_eq!(conversation.on(entries(7, &["q1"])), ask("q1"));
}

#[test]
fn an_answer_from_elsewhere_ends_the_asking() {
    let mut conversation = asking();
    assert_eq!(typed(&mut conversation, "uni"), []);
    assert_eq!(conversation.on(entries(8, &[])), [Action::AskNothing]);
    assert_eq!(conversation.state(), &State::Running);
    // Late keys are ignored.
    assert_eq!(typed(&mut conversation, "ts\n"), []);
}

#[test]
fn an_answer_that_came_too_late_is_said_to_have_come_to_nothing() {
    let mut conversation = asking();
    assert_eq!(typed(&mut conversation, "1\n"), answer("q1", "1"));
    assert_eq!(conversation.on(entries(9, &["q2"])), ask("q2"));
    assert_eq!(
        conversation.on(checked("q1", Some("the question is closed"))),
        [Action::Say("the question is closed".to_owned())]
    );
    assert_eq!(conversation.asked().map(|asked| (asked.open.question.as_str(), asked.is_sent)), Some(("q2", false)));
}

#[test]
fn what_is_typed_while_an_answer_is_checked_answers_nothing() {
    let mut conversation = asking();
    assert_eq!(typed(&mut conversation, "1\n2\n"), answer("q1", "1"));
    assert_eq!(conversation.on(entries(8, &["q2"])), [Action::Ask(task("q2"))]);
    assert_eq!(conversation.asked().map(|asked| asked.typed.as_str()), Some(""));
    assert_eq!(conversation.on(checked("q1", None)), []);
    assert_eq!(typed(&mut conversation, "2\n"), answer("q2", "2"));
}

#[test]
fn a_wrong_answer_is_asked_for_again() {
    let mut conversation = asking();
    typed(&mut conversation, "x\n");
    assert_eq!(conversation.on(checked("q1", Some("not a number"))), []);
    assert_eq!(conversation.asked().and_then(|asked| asked.fault.as_deref()), Some("not a number"));
    assert_eq!(typed(&mut conversation, "yz"), []);
    conversation.on(Event::Key(Key::Backspace));
    assert_eq!(conversation.asked().map(|asked| asked.typed.as_str()), Some("y"));
    conversation.on(Event::Key(Key::Clear));
    assert_eq!(typed(&mut conversation, "1\n"), answer("q1", "1"));
    assert_eq!(conversation.asked().map(|asked| asked.fault.is_some()), Some(false));
}

#[test]
fn a_run_whose_questions_are_all_put_off_stops_only_when_nothing_else_can_proceed() {
    let mut conversation = Conversation::new(true);
    conversation.on(entries(7, &["q1", "q2"]));
    assert_eq!(typed(&mut conversation, "l\n"), ask("q2"));
    assert_eq!(typed(&mut conversation, "l\n"), [Action::AskNothing]);
    assert_eq!(conversation.state(), &State::WaitingForOthers);
    assert_eq!(conversation.on(entries(8, &["q1", "q2"])), []);
    assert_eq!(conversation.on(Event::WaitsForPeople(8)), [Action::Stop]);
    assert_eq!(conversation.state(), &State::Stopping { interrupted: false });
}

#[test]
fn a_question_that_is_put_off_is_answered_elsewhere() {
    let mut conversation = Conversation::new(true);
    conversation.on(entries(7, &["q1"]));
    assert_eq!(typed(&mut conversation, "l\n"), [Action::AskNothing]);
    assert_eq!(conversation.on(entries(8, &[])), []);
    assert_eq!(conversation.state(), &State::Running);
    assert_eq!(conversation.on(entries(9, &["q2"])), ask("q2"));
}

#[test]
fn a_run_that_waits_where_nobody_can_be_asked_stops() {
    let mut conversation = Conversation::new(false);
    assert_eq!(conversation.on(entries(7, &["q1"])), []);
    assert_eq!(conversation.state(), &State::WaitingForOthers);
    assert_eq!(conversation.on(Event::WaitsForPeople(7)), [Action::Stop]);
    assert_eq!(conversation.on(Event::Ended), []);
    assert_eq!(conversation.state(), &State::Over { interrupted: false });
}

#[test]
fn an_interruption_stops_and_a_second_one_ends_the_process() {
    let mut conversation = asking();
    assert_eq!(conversation.on(Event::Interrupted), [Action::AskNothing, Action::Stop, Action::ShowAwaited]);
    // An answer that is still on its way and a question that is still open change nothing any more.
    assert_eq!(conversation.on(checked("q1", Some("not running"))), []);
    assert_eq!(conversation.on(entries(8, &["q2"])), []);
    assert_eq!(conversation.on(Event::WaitsForPeople(8)), []);
    assert_eq!(conversation.on(Event::OutputFailed), []);
    assert_eq!(conversation.on(Event::Interrupted), [Action::Exit]);
    assert_eq!(conversation.on(Event::Ended), []);
    assert!(conversation.is_interrupted());
    assert_eq!(conversation.on(Event::Interrupted), []);
}

#[test]
fn a_run_that_stops_for_want_of_answers_can_still_be_interrupted() {
    let mut conversation = Conversation::new(false);
    conversation.on(entries(7, &["q1"]));
    conversation.on(Event::WaitsForPeople(7));
    assert_eq!(conversation.on(Event::Interrupted), [Action::ShowAwaited]);
    assert!(conversation.is_interrupted());
}

#[test]
fn entries_that_nobody_can_read_stop_the_run_once() {
    let mut conversation = Conversation::new(false);
    assert_eq!(conversation.on(Event::OutputFailed), [Action::Stop, Action::ShowAwaited]);
    assert_eq!(conversation.on(Event::OutputFailed), []);
}

#[test]
fn a_closed_terminal_stops_the_run_once() {
    let mut conversation = asking();
    assert_eq!(conversation.on(Event::HungUp), [Action::AskNothing, Action::Stop, Action::ShowAwaited]);
    assert_eq!(conversation.on(Event::HungUp), [], "the shell and the system may both report it");
    assert_eq!(conversation.on(Event::Interrupted), [Action::Exit]);
}

#[test]
fn documents_are_shown_where_there_are_any() {
    let mut conversation = Conversation::new(true);
    conversation.on(entries(7, &["docs"]));
    assert_eq!(typed(&mut conversation, "d\n"), [Action::ShowDocuments(task("docs"))]);
    assert_eq!(typed(&mut conversation, "1\n"), answer("docs", "1"));
    let mut conversation = asking();
    assert_eq!(typed(&mut conversation, "d\n"), answer("q1", "d"));
}
