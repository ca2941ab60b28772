//! What happens between a run and the person at its terminal, as a state machine: no terminal, no clock and no run in it.
//!
//! Events come in, the state changes, actions go out. The shell around it (`session.rs`) draws, reads keys and hands answers
//! over. Whether a run waits for people is decided on one snapshot: the questions that are open as of the very entry since
//! which, by the runtime's word, nothing can proceed. A question that was answered in between is therefore never missed.

use std::collections::BTreeSet;

use baton_types::id::TaskId;

/// Where the conversation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No question is open.
    Running,
    /// A person is asked.
    Asking(Asked),
    /// Questions are open, and nobody here is asked: they were put off, or nobody can be asked here.
    WaitingForOthers,
    /// The run takes no further step here.
    Stopping {
        /// Whether the person interrupted it; the next interruption ends the process.
        interrupted: bool,
    },
    /// The run ended or stopped.
    Over {
        /// Whether the person interrupted it.
        interrupted: bool,
    },
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// Its task.
    pub(crate) question: TaskId,
    /// Whether documents came with it.
    pub(crate) has_documents: bool,
}

/// The question that a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The question.
    pub(crate) open: Open,
    /// The text typed so far.
    pub(crate) typed: String,
    /// The fault of the last answer.
    pub(crate) fault: Option<String>,
    /// Whether an answer was handed over that the run has not judged yet.
    pub(crate) handed_over: bool,
}

/// An event of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The run's entries up to this one were taken in, and these questions wait for a person, oldest first.
    Entries {
        /// The newest entry.
        seq: u64,
        /// The questions.
        open: Vec<Open>,
    },
    /// As of this entry nothing can proceed until a person answers.
    WaitsForPeople(u64),
    /// A key was pressed.
    Key(Key),
    /// The run, or the question's schema, judged an answer: `None` accepts it.
    Judged {
        /// The question's task.
        question: TaskId,
        /// The fault of the answer.
        fault: Option<String>,
    },
    /// The person, or the system, interrupts.
    Interrupted,
    /// Nobody can read the entries any more.
    Unread,
    /// The run ended or stopped.
    Ended,
}

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character.
    Character(char),
    /// Removes the last character.
    Backspace,
    /// Removes all characters.
    Clear,
    /// Ends the line.
    Enter,
}

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Show this question and read keys.
    Ask(TaskId),
    /// Show no question and read no keys.
    AskNothing,
    /// Judge this text as an answer, and hand it over if it fits; [`Event::Judged`] says what came of it.
    Answer {
        /// The question's task.
        question: TaskId,
        /// The text.
        typed: String,
    },
    /// Show the documents that came with this question.
    ShowDocuments(TaskId),
    /// Say that an answer came to nothing.
    Say(String),
    /// Let the run take no further step.
    Stop,
    /// Say which calls stopping waits for.
    SayAwaited,
    /// End the process at once.
    Exit,
}

/// The conversation with one person about one run.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    state: State,
    /// Whether a person can be asked here.
    interactive: bool,
    /// The newest entry that was taken in.
    seq: u64,
    /// The questions that wait for a person as of that entry, oldest first.
    open: Vec<Open>,
    /// The entry as of which nothing can proceed until a person answers.
    waits_since: Option<u64>,
    /// Questions that the person will answer later.
    later: BTreeSet<TaskId>,
}

impl Conversation {
    /// A conversation about a run of which nothing is known yet.
    pub(crate) fn new(interactive: bool) -> Self {
        Self { state: State::Running, interactive, seq: 0, open: Vec::new(), waits_since: None, later: BTreeSet::new() }
    }

    /// The state.
    #[cfg(test)]
    fn state(&self) -> &State {
        &self.state
    }

    /// The question that is asked.
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match &self.state {
            State::Asking(asked) => Some(asked),
            _ => None,
        }
    }

    /// Whether the run may still take steps here.
    pub(crate) fn is_proceeding(&self) -> bool {
        !matches!(self.state, State::Stopping { .. } | State::Over { .. })
    }

    /// Whether the person interrupted the run.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.state, State::Stopping { interrupted: true } | State::Over { interrupted: true })
    }

    /// Takes in what happened; returns what has to be done, in this order.
    pub(crate) fn on(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Entries { seq, open } => (self.seq, self.open) = (seq, open),
            Event::WaitsForPeople(seq) => self.waits_since = Some(seq),
            Event::Key(key) => return self.on_key(key),
            Event::Judged { question, fault } => return self.on_judged(&question, fault),
            // As if interrupted, but once only: a disk that is full does not end the process.
            Event::Unread if self.is_interrupted() => return Vec::new(),
            Event::Interrupted | Event::Unread => return self.on_interruption(),
            Event::Ended => {
                let interrupted = self.is_interrupted();
                return self.enter(State::Over { interrupted });
            }
        }
        self.settle()
    }

    /// Enters the state that the open questions call for.
    fn settle(&mut self) -> Vec<Action> {
        if !self.is_proceeding() {
            return Vec::new();
        }
        let can_ask = |open: &&Open| self.interactive && !self.later.contains(&open.question);
        let to_ask = self.open.iter().find(can_ask).cloned();
        let is_asked = |asked: &Asked| self.open.iter().filter(can_ask).any(|open| open.question == asked.open.question);
        match (to_ask, &self.state) {
            (Some(_), State::Asking(asked)) if is_asked(asked) => Vec::new(),
            (Some(open), _) => {
                let question = open.question.clone();
                self.state = State::Asking(Asked { open, typed: String::new(), fault: None, handed_over: false });
                vec![Action::Ask(question)]
            }
            // Both speak of the same entry, so nobody has answered since.
            (None, _) if self.waits_since == Some(self.seq) => {
                let mut actions = self.enter(State::Stopping { interrupted: false });
                actions.push(Action::Stop);
                actions
            }
            (None, _) if self.open.is_empty() => self.enter(State::Running),
            (None, _) => self.enter(State::WaitingForOthers),
        }
    }

    /// Enters a state in which nobody is asked.
    fn enter(&mut self, state: State) -> Vec<Action> {
        let was_asking = self.asked().is_some();
        self.state = state;
        if was_asking { vec![Action::AskNothing] } else { Vec::new() }
    }

    fn on_key(&mut self, key: Key) -> Vec<Action> {
        // Keys typed while an answer is judged are dropped: the person cannot know which question comes next.
        let State::Asking(asked) = &mut self.state else { return Vec::new() };
        if asked.handed_over {
            return Vec::new();
        }
        match key {
            Key::Character(character) => asked.typed.push(character),
            Key::Backspace => drop(asked.typed.pop()),
            Key::Clear => asked.typed.clear(),
            Key::Enter => {
                let (question, typed) = (asked.open.question.clone(), std::mem::take(&mut asked.typed));
                match typed.trim() {
                    "l" => {
                        self.later.insert(question);
                        return self.settle();
                    }
                    "d" if asked.open.has_documents => return vec![Action::ShowDocuments(question)],
                    _ => {}
                }
                asked.handed_over = true;
                asked.fault = None;
                return vec![Action::Answer { question, typed }];
            }
        }
        Vec::new()
    }

    fn on_judged(&mut self, question: &TaskId, fault: Option<String>) -> Vec<Action> {
        // One that is accepted stays up until the entry that closes it arrives.
        let Some(fault) = fault else { return Vec::new() };
        match &mut self.state {
            State::Asking(asked) if asked.open.question == *question => {
                asked.handed_over = false;
                asked.fault = Some(fault);
                Vec::new()
            }
            // The next start asks again.
            State::Stopping { .. } | State::Over { .. } => Vec::new(),
            // It was closed meanwhile, by somebody else or by its deadline.
            State::Running | State::Asking(_) | State::WaitingForOthers => vec![Action::Say(fault)],
        }
    }

    fn on_interruption(&mut self) -> Vec<Action> {
        match self.state {
            State::Over { .. } => Vec::new(),
            State::Stopping { interrupted: true } => vec![Action::Exit],
            State::Stopping { interrupted: false } => {
                self.state = State::Stopping { interrupted: true };
                vec![Action::SayAwaited]
            }
            State::Running | State::Asking(_) | State::WaitingForOthers => {
                let mut actions = self.enter(State::Stopping { interrupted: true });
                actions.extend([Action::Stop, Action::SayAwaited]);
                actions
            }
        }
    }
}

#[cfg(test)]
mod tests;
