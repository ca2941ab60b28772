//! A run while a person watches: shows entries as they arrive, asks questions, and stops the run on Ctrl-C.
//!
//! [`conversation`] decides which question is asked and when the run stops. This shell receives the run's entries, draws, reads
//! keys and sends answers to the run.

mod conversation;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_runtime::{EntryStream, Progress, RunHandle, RunOutcome};
use baton_store::Store;
use baton_timeline::Reader;
use baton_types::config::EffectClass;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::TaskId;
use baton_types::json::Json;
use conversation::{Action, Conversation, Event, Key, Open};
use crossterm::event::{Event as Input, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use tokio::sync::{broadcast, mpsc};

use crate::app::engine::{engine, run_failure, run_stopped};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::question::read_answer;
use crate::screen::{self, Output, Screen};
use crate::shell::baton;
use crate::signals::{Interruption, Interruptions};
use crate::text::{Text, text};
use crate::view::lines::{output, progress};
use crate::view::live::{LiveTree, Prompt};
use crate::view::{Asked, RunView};
use crate::{approvals, export, person, style, terminal};

/// The keys while a question is asked.
const KEYS: &str = "Enter answers · l: answer later · Ctrl-C stops";
const KEYS_WITH_DOCUMENTS: &str = "Enter answers · d: show the documents · l: answer later · Ctrl-C stops";

/// Largest number of a document's lines that are shown with a question.
const DOCUMENT_LINES: usize = 40;

/// Interval for redrawing elapsed times while nothing else happens.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The outcome of a run in this process.
pub(crate) struct Ended {
    /// The fold of the run.
    pub(crate) view: RunView,
    /// The exit code.
    pub(crate) exit: Exit,
}

/// Shows `handle`'s run until it ends, is interrupted, or only waits for people who cannot be asked here.
///
/// Entries up to `reported` are read but not shown again.
pub(crate) async fn follow(
    handle: &RunHandle,
    reported: u64,
    store: &Arc<dyn Store>,
    place: &Place,
    interruptions: Interruptions,
) -> Result<Ended, Failure> {
    if place.screen.live {
        let kept = place.shown_store();
        let kept = style::faint(format!("store {kept}"));
        let job = &handle.configs().job.id;
        place.screen.tell(&text!("run {} · job {job} · {}", style::name(handle.id()), kept));
    }
    let (answer_outcomes, outcomes) = mpsc::unbounded_channel();
    let mut session = Session {
        handle,
        reported,
        store,
        screen: place.screen,
        view: RunView::new(engine(store)?, handle.id()).await.map_err(run_failure)?,
        reader: Reader::new(handle.id().clone()),
        live: place.screen.live.then(LiveTree::new),
        conversation: Conversation::new(place.screen.interactive),
        keys: None,
        answer_outcomes,
        has_shown_awaited: false,
        output_failed: false,
    };
    session.proceed(handle.entries(), outcomes, interruptions).await?;
    let outcome = handle.outcome().await;
    let Session { live, mut view, conversation, screen, .. } = session;
    if let Some(mut live) = live {
        live.clear();
        drop(live);
        if screen.live {
            view.tree(view.shown_at(), terminal::width(), usize::MAX).iter().for_each(|line| screen.tell(line));
        }
    }
    let exit = match outcome {
        RunOutcome::Ended { end, .. } => Exit::of_run(&end),
        RunOutcome::WaitingForPerson => Exit::Waiting,
        RunOutcome::Stopped if conversation.is_interrupted() => Exit::Interrupted,
        RunOutcome::Stopped if view.waits_for_person() => Exit::Waiting,
        RunOutcome::Stopped if view.run.is_idle() && view.run.totals().suspended_calls > 0 => {
            view.look_at_suspended().await.map_err(run_failure)?;
            Exit::Waiting
        }
        RunOutcome::Stopped => Exit::Interrupted,
        RunOutcome::ProviderAway(_) => Exit::Unavailable,
        RunOutcome::Failed(error) => return Err(run_stopped(handle.id(), error)),
    };
    Ok(Ended { view, exit })
}

struct Session<'a> {
    handle: &'a RunHandle,
    /// The last entry that an earlier execution showed.
    reported: u64,
    /// The store, from which documents are read.
    store: &'a Arc<dyn Store>,
    screen: Screen,
    view: RunView,
    reader: Reader,
    /// The drawing on the terminal: of the tree, or else of a question while it is asked.
    live: Option<LiveTree>,
    conversation: Conversation,
    keys: Option<EventStream>,
    /// The channel on which the outcome of each sent answer is reported.
    answer_outcomes: mpsc::UnboundedSender<Event>,
    /// Whether the person has read which calls stopping waits for.
    has_shown_awaited: bool,
    /// Whether entries can no longer be printed: the reader is gone, or the disk is full.
    output_failed: bool,
}

impl Session<'_> {
    async fn proceed(
        &mut self,
        mut entries: EntryStream,
        mut outcomes: mpsc::UnboundedReceiver<Event>,
        mut interruptions: Interruptions,
    ) -> Result<(), Failure> {
        let (mut dirty, mut waited, mut input_ended) = (false, 0, false);
        let mut progress = self.handle.progress();
        loop {
            let frame = self.live.as_ref().map(|live| if dirty { live.next_frame() } else { live.next_frame() + HEARTBEAT });
            tokio::select! {
                biased;
                interruption = interruptions.next() => match interruption {
                    Interruption::Stop => self.handle_event(Event::Interrupted).await,
                    Interruption::HangUp => self.hang_up().await,
                },
                () = person::input_ended(), if !input_ended => {
                    input_ended = true;
                    self.say(&[text!("  {}", style::bad("standard input has ended and no more answers can come; the run stops"))]);
                    self.handle_event(Event::InputEnded).await;
                }
                () = at(frame), if frame.is_some() => {
                    self.draw();
                    dirty = false;
                    continue;
                }
                report = next_report(&mut progress), if progress.is_some() => match report {
                    Some(report) => {
                        let line = self.view.back_offs.take(&report, terminal::now());
                        if !self.screen.live {
                            self.say(line.as_slice());
                        }
                    }
                    None => progress = None,
                },
                entry = entries.next() => match entry {
                    None => {
                        self.handle_event(Event::Ended).await;
                        return Ok(());
                    }
                    Some(Err(error)) => return Err(Failure::Store(error.to_string())),
                    Some(Ok(entry)) => self.take_in(&entry).await?,
                },
                input = next_input(&mut self.keys), if self.keys.is_some() => match input {
                    Some(input) => self.input(input).await,
                    None => self.hang_up().await,
                },
                Some(event) = outcomes.recv() => self.handle_event(event).await,
                seq = self.handle.waits_for_people_after(waited), if self.conversation.is_proceeding() => {
                    waited = seq;
                    self.handle_event(Event::WaitsForPeople(seq)).await;
                }
            }
            dirty = true;
        }
    }

    /// Stops the run, because the terminal was closed. The person cannot see it; a file in place of stderr gets the line.
    async fn hang_up(&mut self) {
        self.say(&[text!("  {}", style::bad("the terminal was closed; the run stops"))]);
        self.handle_event(Event::HungUp).await;
    }

    /// Passes an event to the conversation, and performs the actions that it returns.
    async fn handle_event(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.conversation.on(event) {
                events.extend(self.perform(action).await);
            }
        }
    }

    /// Performs an action; returns the event that it causes at once, if any.
    async fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Ask(question) => self.show_question(&question),
            Action::AskNothing => self.listen(false),
            Action::Answer { question, typed } => return self.answer(question, &typed),
            Action::ShowDocuments(question) => {
                let lines = self.documents(&question).await;
                self.say(&lines);
            }
            Action::Say(what) => self.say(&[style::bad(what)]),
            Action::Stop => {
                let handle = self.handle.clone();
                tokio::spawn(async move { handle.stop().await });
            }
            Action::ShowAwaited => self.show_awaited(),
            Action::Exit => {
                self.live = None;
                self.view.interrupted_lines().iter().for_each(screen::tell);
                screen::tell(&text!("  stopped   → {}", baton("resume").value(self.handle.id())));
                // `exit` runs no destructors, and no command may survive this process.
                baton_runtime::kill_commands();
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
        }
        None
    }

    /// Adds an entry to the view, shows it, and reports the open questions to the conversation.
    async fn take_in(&mut self, entry: &Recorded) -> Result<(), Failure> {
        self.view.apply(entry).await.map_err(run_failure)?;
        let line = self.reader.line(entry);
        let is_new = entry.seq > self.reported;
        if self.screen.output == Output::Ndjson && is_new && !self.output_failed && self.screen.value(&line).is_err() {
            // The run stops as if it were interrupted. The report at its end meets the same failure, which is handled there.
            self.output_failed = true;
            self.handle_event(Event::OutputFailed).await;
        }
        if !self.screen.live
            && !self.screen.quiet
            && is_new
            && let Some(line) = progress(&line, self.view.began)
        {
            self.say(&[line]);
        }
        if is_new && !self.screen.quiet {
            let lines = output(&line, self.view.began, self.screen.verbose, terminal::width());
            self.say(&lines);
        }
        if let Entry::CallSuspended(suspended) = &entry.entry
            && is_new
            && !self.screen.quiet
        {
            let lines = self.view.lines_about_suspended(&suspended.call, terminal::width()).await.map_err(run_failure)?;
            self.say(&lines);
        }
        if self.conversation.is_interrupted() {
            self.show_awaited();
        }
        approvals::look(&mut self.view, self.store).await;
        let open = |Asked { task, question }: Asked<'_>| Open {
            question: task.id.clone(),
            has_documents: !question.documents.is_empty(),
        };
        let event = Event::Entries { seq: entry.seq, open: self.view.questions_for_person().map(open).collect() };
        self.handle_event(event).await;
        Ok(())
    }

    /// Shows a question, and starts to read the keyboard.
    fn show_question(&mut self, question: &TaskId) {
        if !self.screen.live {
            let lines = self.question_lines(question);
            self.say(&lines);
        }
        self.listen(true);
    }

    fn question_lines(&self, question: &TaskId) -> Vec<Text> {
        let asked = self.view.questions_for_person().find(|asked| asked.task.id == *question);
        asked.map(|asked| self.view.question_lines(asked, terminal::width())).unwrap_or_default()
    }

    /// Starts or stops reading the keyboard.
    fn listen(&mut self, listen: bool) {
        // Without a tree, only the input line is drawn, while a question is open.
        let live = self.live.get_or_insert_with(LiveTree::new);
        live.keys(listen);
        match (listen, &self.keys) {
            (true, None) => self.keys = Some(EventStream::new()),
            (true, Some(_)) => {}
            (false, _) => self.keys = None,
        }
        if !listen && !self.screen.live {
            live.clear();
            self.live = None;
        }
    }

    async fn input(&mut self, input: Input) {
        let Input::Key(key) = input else { return };
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let event = match key.code {
            KeyCode::Char('c' | 'd') if control => Event::Interrupted,
            KeyCode::Char('u') if control => Event::Key(Key::Clear),
            KeyCode::Char(character) if !control => Event::Key(Key::Character(character)),
            KeyCode::Backspace => Event::Key(Key::Backspace),
            KeyCode::Enter => Event::Key(Key::Enter),
            _ => return,
        };
        self.handle_event(event).await;
    }

    /// Sends an answer that fits its question to the run; returns the fault of any other answer.
    fn answer(&self, question: TaskId, typed: &str) -> Option<Event> {
        let asked = self.view.run.task(&question).and_then(|task| task.question.as_ref());
        let schema = asked.map(|asked| asked.answer_schema.clone()).unwrap_or_default();
        let answer = match read_answer(&schema, typed) {
            Ok(answer) => Json::from(answer),
            Err(fault) => return Some(Event::AnswerChecked { question, fault: Some(fault) }),
        };
        let (handle, answer_outcomes) = (self.handle.clone(), self.answer_outcomes.clone());
        tokio::spawn(async move {
            let answered = handle.answer(question.clone(), &terminal::person(), answer, Vec::new()).await;
            // The receiver may have been dropped.
            let _gone =
                answer_outcomes.send(Event::AnswerChecked { question, fault: answered.err().map(|error| error.to_string()) });
        });
        None
    }

    /// Returns the first lines of each document of a question.
    async fn documents(&self, question: &TaskId) -> Vec<Text> {
        let mut lines = Vec::new();
        for reference in &self.view.row(question).documents {
            let Some(version) = self.view.run.documents().version(reference) else { continue };
            let text = match export::content(self.store, version).await {
                Ok(content) => String::from_utf8(content.to_vec()).unwrap_or_else(|_| version.content.summary.clone()),
                Err(failure) => failure.to_string(),
            };
            lines.push(style::faint(format!("── {reference} ──")));
            lines.extend(text.lines().take(DOCUMENT_LINES).map(Text::block));
            let more = text.lines().count().saturating_sub(DOCUMENT_LINES);
            if more > 0 {
                let whole = baton("doc cat").value(self.handle.id()).value(&reference.path);
                lines.push(style::faint(text!("… {more} more lines: {whole}")));
            }
        }
        lines
    }

    /// Prints once which calls stopping waits for, as soon as it is known.
    fn show_awaited(&mut self) {
        let awaited = self.unrepeatable();
        if !awaited.is_empty() && !std::mem::replace(&mut self.has_shown_awaited, true) {
            let awaited = awaited.join(", ");
            self.say(&[text!("  stopping after {awaited} ends: it must not be repeated. Ctrl-C again stops at once")]);
        }
    }

    /// Returns the running calls that stopping waits for, as text for people.
    fn unrepeatable(&self) -> Vec<String> {
        let configs = self.handle.configs();
        let is_awaited = |tool: &str| {
            let tool = configs.tools.get(tool);
            tool.is_some_and(|tool| tool.tool_type.behavior().runs_code && tool.effect == EffectClass::AtMostOnce)
        };
        let calls = self.view.run.graph().iter().flat_map(|task| task.calls().map(move |call| (task, call)));
        // A call whose code waits for its own calls is not waited for: nothing that it waits for begins any more.
        let awaited = calls.filter(|(_, call)| call.is_running() && !call.is_calling() && is_awaited(&call.asked.tool));
        awaited.map(|(task, call)| format!("{} of {}", call.asked.tool, task.holder)).collect()
    }

    /// Prints lines that remain on the screen, above the drawing.
    fn say(&mut self, lines: &[Text]) {
        match &mut self.live {
            Some(live) => live.say(lines),
            None => lines.iter().for_each(screen::tell),
        }
    }

    fn draw(&mut self) {
        let Some(mut live) = self.live.take() else { return };
        let tree = self.screen.live.then_some(&self.view);
        let prompt = self.conversation.asked().map(|asked| Prompt {
            lines: if tree.is_some() { self.question_lines(&asked.open.question) } else { Vec::new() },
            keys: if asked.open.has_documents { KEYS_WITH_DOCUMENTS } else { KEYS },
            typed: &asked.typed,
            fault: asked.fault.as_deref(),
        });
        live.draw(tree, terminal::now(), prompt.as_ref());
        self.live = Some(live);
    }
}

/// Returns the next report of the run; `None` after the last one.
async fn next_report(progress: &mut Option<broadcast::Receiver<Arc<Progress>>>) -> Option<Arc<Progress>> {
    let progress = progress.as_mut()?;
    loop {
        match progress.recv().await {
            Ok(report) => return Some(report),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

async fn at(moment: Option<Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment.into()).await;
    }
}

/// Returns the next input; `None` if the keyboard cannot be read any more.
async fn next_input(keys: &mut Option<EventStream>) -> Option<Input> {
    match keys {
        Some(keys) => keys.next().await?.ok(),
        None => std::future::pending().await,
    }
}
