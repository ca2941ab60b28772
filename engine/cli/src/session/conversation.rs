//! The conversation between a run and the person at its terminal: a state machine without a terminal, a clock or a run.
//!
//! Events come in, the state changes, actions go out. The shell around it (`session.rs`) draws, reads keys and sends answers.
//! Whether a run waits for people is decided on one snapshot: the open questions as of one entry. The runtime reports that
//! nothing can proceed since that same entry. Therefore an answer that arrives in between is never missed.

use std::collections::BTreeSet;

use baton_types::id::TaskId;

/// The state of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No question is open.
    Running,
    /// The person is asked.
    Asking(Asked),
    /// Questions are open, but the person postponed them or cannot be asked here.
    WaitingForOthers,
    /// The run takes no further step in this process.
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

/// An open question for a person.
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
    /// Whether an answer was sent that the run has not checked yet.
    pub(crate) is_sent: bool,
}

/// An event of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The run's entries up to this one were read, and these questions wait for a person, oldest first.
    Entries {
        /// The newest entry.
        seq: u64,
        /// The questions.
        open: Vec<Open>,
    },
    /// Since this entry, nothing can proceed until a person answers.
    WaitsForPeople(u64),
    /// A key was pressed.
    Key(Key),
    /// The run, or the question's schema, checked an answer: `None` accepts it.
    AnswerChecked {
        /// The question's task.
        question: TaskId,
        /// The fault of the answer.
        fault: Option<String>,
    },
    /// The person or the system sent an interrupt.
    Interrupted,
    /// The terminal was closed.
    HungUp,
    /// The entries can no longer be printed.
    OutputFailed,
    /// The lines that a person types in place of a model have ended.
    InputEnded,
    /// The run ended or stopped.
    Ended,
}

/// A key with a meaning here.
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
    /// Check this text against the question's schema, and send it to the run if it fits. [`Event::AnswerChecked`] reports the outcome.
    Answer {
        /// The question's task.
        question: TaskId,
        /// The text.
        typed: String,
    },
    /// Show the documents that came with this question.
    ShowDocuments(TaskId),
    /// Print the fault of an answer that was rejected.
    Say(String),
    /// Stop the run, so that it takes no further step.
    Stop,
    /// Print which calls stopping waits for.
    ShowAwaited,
    /// End the process at once.
    Exit,
}

/// The conversation with one person about one run.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    state: State,
    /// Whether a person can be asked here.
    interactive: bool,
    /// The newest entry that was read.
    seq: u64,
    /// The questions that wait for a person as of that entry, oldest first.
    open: Vec<Open>,
    /// The entry since which nothing can proceed until a person answers.
    waits_since: Option<u64>,
    /// Questions that the person will answer later.
    later: BTreeSet<TaskId>,
}

impl Conversation {
    /// Returns a conversation about a run of which no entry was read yet.
    pub(crate) fn new(interactive: bool) -> Self {
        Self { state: State::Running, interactive, seq: 0, open: Vec::new(), waits_since: None, later: BTreeSet::new() }
    }

    /// Returns the state.
    #[cfg(test)]
    fn state(&self) -> &State {
        &self.state
    }

    /// Returns the question that the person is asked.
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match &self.state {
            State::Asking(asked) => Some(asked),
            _ => None,
        }
    }

    /// Returns true if the run may still take steps here.
    pub(crate) fn is_proceeding(&self) -> bool {
        !matches!(self.state, State::Stopping { .. } | State::Over { .. })
    }

    /// Returns true if the person interrupted the run.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.state, State::Stopping { interrupted: true } | State::Over { interrupted: true })
    }

    /// Handles an event; returns the actions to perform, in order.
    pub(crate) fn on(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Entries { seq, open } => (self.seq, self.open) = (seq, open),
            Event::WaitsForPeople(seq) => self.waits_since = Some(seq),
            Event::Key(key) => return self.on_key(key),
            Event::AnswerChecked { question, fault } => return self.on_answer_checked(&question, fault),
            // Like an interruption, but only once: a full disk, or a second signal about the same terminal, must not end the process.
            Event::HungUp | Event::OutputFailed | Event::InputEnded if self.is_interrupted() => return Vec::new(),
            Event::Interrupted | Event::HungUp | Event::OutputFailed | Event::InputEnded => return self.on_interruption(),
            Event::Ended => {
                let interrupted = self.is_interrupted();
                return self.enter(State::Over { interrupted });
            }
        }
        self.settle()
    }

    /// Enters the state that follows from the open questions.
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
                self.state = State::Asking(Asked { open, typed: String::new(), fault: None, is_sent: false });
                vec![Action::Ask(question)]
            }
            // Both numbers are of the same entry, so there was no answer in between.
            (None, _) if self.waits_since == Some(self.seq) => {
                let mut actions = self.enter(State::Stopping { interrupted: false });
                actions.push(Action::Stop);
                actions
            }
            (None, _) if self.open.is_empty() => self.enter(State::Running),
            (None, _) => self.enter(State::WaitingForOthers),
        }
    }

    /// Enters a state in which the person is not asked.
    fn enter(&mut self, state: State) -> Vec<Action> {
        let was_asking = self.asked().is_some();
        self.state = state;
        if was_asking { vec![Action::AskNothing] } else { Vec::new() }
    }

    fn on_key(&mut self, key: Key) -> Vec<Action> {
        // Keys that are typed while an answer is checked are ignored: the person cannot know which question comes next.
        let State::Asking(asked) = &mut self.state else { return Vec::new() };
        if asked.is_sent {
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
                asked.is_sent = true;
                asked.fault = None;
                return vec![Action::Answer { question, typed }];
            }
        }
        Vec::new()
    }

    fn on_answer_checked(&mut self, question: &TaskId, fault: Option<String>) -> Vec<Action> {
        // An accepted answer remains on the screen until the entry that closes its question arrives.
        let Some(fault) = fault else { return Vec::new() };
        match &mut self.state {
            State::Asking(asked) if asked.open.question == *question => {
                asked.is_sent = false;
                asked.fault = Some(fault);
                Vec::new()
            }
            // The next execution asks again.
            State::Stopping { .. } | State::Over { .. } => Vec::new(),
            // In the meantime, the question was closed by somebody else or by its deadline.
            State::Running | State::Asking(_) | State::WaitingForOthers => vec![Action::Say(fault)],
        }
    }

    fn on_interruption(&mut self) -> Vec<Action> {
        match self.state {
            State::Over { .. } => Vec::new(),
            State::Stopping { interrupted: true } => vec![Action::Exit],
            State::Stopping { interrupted: false } => {
                self.state = State::Stopping { interrupted: true };
                vec![Action::ShowAwaited]
            }
            State::Running | State::Asking(_) | State::WaitingForOthers => {
                let mut actions = self.enter(State::Stopping { interrupted: true });
                actions.extend([Action::Stop, Action::ShowAwaited]);
                actions
            }
        }
    }
}

#[cfg(test)]
mod tests;
