//! A run as it proceeds under a person's eyes: entries are shown as they come, questions are asked, Ctrl-C stops it.
//!
//! The session decides nothing about the run; it reads the same entries as everybody else and hands answers over.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::config::EffectClass;
use baton_core::entry::Recorded;
use baton_core::id::TaskId;
use baton_core::json::Json;
use baton_core::principal::Principal;
use baton_core::time::Timestamp;
use baton_runtime::{EntryStream, RunHandle, RunOutcome};
use baton_store::Store;
use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::question::read_answer;
use crate::screen::{Output, Screen, style};
use crate::text::{Text, text};
use crate::timeline::Rows;
use crate::view::RunView;
use crate::view::lines::line;
use crate::view::live::{LiveTree, Prompt};
use crate::{export, job};

/// What the keys do while a question is asked.
const KEYS: &str = "Enter answers · l: answer later · Ctrl-C stops";
const KEYS_WITH_DOCUMENTS: &str = "Enter answers · d: show the documents · l: answer later · Ctrl-C stops";

/// How much of a document is shown beside a question.
const DOCUMENT_LINES: usize = 40;

/// How often elapsed times are redrawn while nothing else happens.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What came of a run in this process.
pub(crate) struct Ended {
    /// The run, folded.
    pub(crate) view: RunView,
    /// How to exit.
    pub(crate) exit: Exit,
}

/// Shows `handle`'s run until it ends, only waits for a person whom we cannot ask, or is interrupted.
///
/// What happened up to entry `told` is taken in and not told again.
pub(crate) async fn follow(handle: &RunHandle, told: u64, store: &Arc<dyn Store>, place: &Place) -> Result<Ended, Failure> {
    if place.screen.live {
        let kept = place.store_file().map_or_else(|| "memory".to_owned(), |file| place.shown(&file));
        let job = &handle.configs().job.id;
        let kept = style::faint(format!("store {kept}"));
        place.screen.tell(&text!("run {} · job {job} · {}", style::name(handle.id()), kept));
    }
    let live = place.screen.live.then(LiveTree::new);
    let mut session = Session {
        handle,
        told,
        store,
        screen: place.screen,
        view: RunView::default(),
        rows: Rows::default(),
        live,
        asked: None,
        later: BTreeSet::new(),
        keys: None,
        stopping: false,
        interrupted: false,
        told_awaited: false,
        unread: false,
        caught_up: false,
    };
    session.proceed(handle.entries()).await?;
    let outcome = handle.outcome().await;
    let Session { live, view, interrupted, screen, .. } = session;
    if let Some(mut live) = live {
        live.clear();
        drop(live);
        for line in view.tree(view.shown_at(), width(), usize::MAX) {
            screen.tell(&line);
        }
    }
    let exit = match outcome {
        RunOutcome::Ended { end, result, .. } => Exit::of_run(&end, result.error.as_ref().map(|error| error.code)),
        RunOutcome::WaitingForPerson => Exit::Waiting,
        RunOutcome::Stopped if interrupted => Exit::Interrupted,
        RunOutcome::Stopped if view.waits_for_person() => Exit::Waiting,
        RunOutcome::Stopped => Exit::Interrupted,
        RunOutcome::Failed(error) => return Err(job::run_stopped(handle.id(), error)),
    };
    Ok(Ended { view, exit })
}

/// How wide lines may be; a file has no width.
pub(crate) fn width() -> usize {
    if !io::stdout().is_terminal() && !io::stderr().is_terminal() {
        return 160;
    }
    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).clamp(40, 160)
}

/// The moment now, for elapsed times on the screen only.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}

struct Session<'a> {
    handle: &'a RunHandle,
    /// The last entry that was told before.
    told: u64,
    /// Where documents are read from.
    store: &'a Arc<dyn Store>,
    screen: Screen,
    view: RunView,
    rows: Rows,
    live: Option<LiveTree>,
    /// The question that is being asked, and what was typed so far.
    asked: Option<(TaskId, Prompt)>,
    /// Questions that the person will answer later.
    later: BTreeSet<TaskId>,
    keys: Option<EventStream>,
    stopping: bool,
    interrupted: bool,
    /// Whether the person was told what stopping waits for.
    told_awaited: bool,
    /// Whether entries can no longer be printed: nobody reads them, or the disk is full.
    unread: bool,
    /// Whether the run was found waiting for people who are still being asked; looked at again after the next change.
    caught_up: bool,
}

impl Session<'_> {
    async fn proceed(&mut self, mut entries: EntryStream) -> Result<(), Failure> {
        let mut interrupts = signals(SignalKind::interrupt())?;
        let mut terminations = signals(SignalKind::terminate())?;
        let mut dirty = false;
        loop {
            let frame = self.live.as_ref().map(|live| if dirty { live.next_frame() } else { live.next_frame() + HEARTBEAT });
            tokio::select! {
                biased;
                _ = interrupts.recv() => self.interrupt(),
                _ = terminations.recv() => self.interrupt(),
                () = at(frame), if frame.is_some() => {
                    self.draw();
                    dirty = false;
                }
                entry = entries.next() => match entry {
                    None => return Ok(()),
                    Some(Err(error)) => return Err(Failure::Store(error.to_string())),
                    Some(Ok(entry)) => {
                        self.take_in(&entry);
                        dirty = true;
                    }
                },
                key = next_key(&mut self.keys), if self.keys.is_some() => {
                    self.key(key?).await;
                    dirty = true;
                }
                outcome = self.handle.outcome_without_people(), if !self.stopping && !self.caught_up => {
                    self.caught_up = true;
                    if let RunOutcome::WaitingForPerson = outcome {
                        // Asked of the run: the view may have entries yet to take in.
                        let open = self.handle.open_questions().await;
                        if !self.screen.interactive || open.iter().all(|question| self.later.contains(&question.task)) {
                            self.stop();
                        }
                    }
                }
            }
        }
    }

    /// Shows an entry.
    fn take_in(&mut self, entry: &Recorded) {
        self.view.apply(entry);
        self.caught_up = false;
        let row = self.rows.row(entry);
        let is_new = entry.seq > self.told;
        if self.screen.output == Output::Ndjson && is_new && !self.unread && self.screen.json(&row).is_err() {
            // The run stops as if interrupted; the report at its end says why it could not be told.
            self.unread = true;
            if !self.interrupted {
                self.interrupt();
            }
        }
        if self.live.is_none()
            && is_new
            && let Some(line) = line(&self.view, entry)
        {
            self.screen.tell(&line);
        }
        if self.interrupted {
            self.tell_awaited();
        }
        self.choose_question();
    }

    /// Asks the oldest open question that is not put off, where a person can be asked.
    fn choose_question(&mut self) {
        if !self.screen.interactive || self.stopping {
            return;
        }
        let open = self.view.questions_for_person().find(|question| !self.later.contains(&question.task)).cloned();
        match (open, &self.asked) {
            (Some(open), Some((asked, _))) if open.task == *asked => {}
            (Some(open), _) => {
                let lines = self.view.question_lines(&open, width());
                if self.live.is_none() {
                    for line in &lines {
                        self.screen.tell(line);
                    }
                }
                let has_documents = self.view.tasks.get(&open.task).is_some_and(|row| !row.created.documents.is_empty());
                let keys = if has_documents { KEYS_WITH_DOCUMENTS } else { KEYS };
                self.asked = Some((open.task, Prompt { lines, keys, ..Prompt::default() }));
                self.listen(true);
            }
            (None, Some(_)) => {
                self.asked = None;
                self.listen(false);
            }
            (None, None) => {}
        }
    }

    /// Begins or ends reading the keyboard.
    fn listen(&mut self, listen: bool) {
        // Without a tree nothing holds the terminal, so one is made for as long as the question is open.
        if listen && self.live.is_none() {
            self.live = Some(LiveTree::new());
        }
        if let Some(live) = &mut self.live {
            live.keys(listen);
        }
        self.keys = listen.then(EventStream::new);
    }

    async fn key(&mut self, event: Event) {
        let Event::Key(key) = event else { return };
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return self.interrupt();
        }
        let Some((_, prompt)) = &mut self.asked else { return };
        match key.code {
            KeyCode::Char('u') if control => prompt.typed.clear(),
            KeyCode::Char(character) if !control => prompt.typed.push(character),
            KeyCode::Backspace => drop(prompt.typed.pop()),
            KeyCode::Enter => self.submit().await,
            _ => {}
        }
    }

    /// Hands over what was typed, or says what is wrong with it.
    async fn submit(&mut self) {
        let Some((task, mut prompt)) = self.asked.take() else { return };
        if prompt.typed.trim() == "d" && self.view.tasks.get(&task).is_some_and(|row| !row.created.documents.is_empty()) {
            self.show_documents(&task).await;
            prompt.typed.clear();
            self.asked = Some((task, prompt));
            return;
        }
        if prompt.typed.trim() == "l" {
            self.later.insert(task);
            self.caught_up = false;
            self.listen(false);
            return self.choose_question();
        }
        let schema = self.view.tasks.get(&task).map(|row| row.created.answer_schema.clone()).unwrap_or_default();
        let fault: Option<String> = match read_answer(&schema, &prompt.typed) {
            Ok(answer) => {
                let answered = self.handle.answer(task.clone(), &person(), Json::from(answer), Vec::new()).await;
                answered.err().map(|error| error.to_string())
            }
            Err(fault) => Some(fault),
        };
        if fault.is_some() {
            prompt.fault = fault.map(|fault| text!("{fault}"));
            prompt.typed.clear();
        }
        // Answered or not, the question stays up until its closing entry arrives.
        self.asked = Some((task, prompt));
    }

    /// Prints the documents that came with a question, above the tree.
    async fn show_documents(&mut self, task: &TaskId) {
        let documents = self.view.tasks.get(task).map(|row| row.created.documents.clone()).unwrap_or_default();
        let mut said = Vec::new();
        for reference in &documents {
            let Some(version) = self.view.documents.version(reference) else { continue };
            let text = match export::content(self.store, version).await {
                Ok(content) => String::from_utf8(content.to_vec()).unwrap_or_else(|_| version.content.summary.clone()),
                Err(failure) => failure.to_string(),
            };
            said.push(style::faint(format!("── {reference} ──")));
            let lines: Vec<&str> = text.lines().collect();
            said.extend(lines.iter().take(DOCUMENT_LINES).map(|line| Text::block(line)));
            if lines.len() > DOCUMENT_LINES {
                let more = lines.len() - DOCUMENT_LINES;
                said.push(style::faint(format!("… {more} more lines: baton doc cat {} {}", self.handle.id(), reference.path)));
            }
        }
        if let Some(live) = &mut self.live {
            live.say(&said);
        }
    }

    /// Stops the run, so that it can be resumed; a second time, the process ends at once.
    fn interrupt(&mut self) {
        if self.interrupted {
            self.live = None;
            self.screen.tell(&resume_hint(self.handle));
            // Nothing is dropped on the way out, and no command may survive this process.
            baton_runtime::kill_commands();
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        self.interrupted = true;
        self.asked = None;
        self.listen_off();
        self.stop();
        self.tell_awaited();
    }

    /// Says once what stopping waits for, as soon as it is known.
    fn tell_awaited(&mut self) {
        let awaited = self.unrepeatable();
        if !awaited.is_empty() && !std::mem::replace(&mut self.told_awaited, true) {
            let told =
                text!("  stopping when {} ended, which must not be repeated; Ctrl-C again ends at once", awaited.join(", "));
            match &mut self.live {
                Some(live) => live.say(&[told]),
                None => self.screen.tell(&told),
            }
        }
    }

    /// The running calls that stopping waits for, as people know them.
    fn unrepeatable(&self) -> Vec<String> {
        let configs = self.handle.configs();
        let is_awaited = |tool: &str| {
            let tool = configs.tools.get(tool);
            tool.is_some_and(|tool| tool.tool_type.behavior().runs_code && tool.effect == EffectClass::AtMostOnce)
        };
        let calls = self.view.tasks.values().flat_map(|row| row.open_calls.values().map(move |tool| (row, tool)));
        let awaited = calls.filter(|(_, tool)| is_awaited(tool));
        awaited.map(|(row, tool)| format!("{tool} of {}", row.created.holder)).collect()
    }

    fn listen_off(&mut self) {
        if self.keys.is_some() {
            self.listen(false);
        }
    }

    fn stop(&mut self) {
        if !self.stopping {
            self.stopping = true;
            let handle = self.handle.clone();
            tokio::spawn(async move { handle.stop().await });
        }
    }

    fn draw(&mut self) {
        if let Some(live) = &mut self.live {
            live.draw(&self.view, now(), self.asked.as_ref().map(|(_, prompt)| prompt));
        }
    }
}

/// What to type to go on with an interrupted run.
fn resume_hint(handle: &RunHandle) -> Text {
    text!("  stopped   → baton resume {}", handle.id())
}

/// The person at this terminal.
pub(crate) fn person() -> Principal {
    let name = ["BATON_USER", "USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| "unknown".to_owned());
    Principal::person(name)
}

fn signals(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::Engine(format!("signals cannot be received: {error}")))
}

async fn at(moment: Option<Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment.into()).await;
    }
}

async fn next_key(keys: &mut Option<EventStream>) -> Result<Event, Failure> {
    match keys {
        Some(keys) => match keys.next().await {
            Some(event) => Ok(event?),
            None => Err(Failure::Output(io::Error::other("the keyboard was closed"))),
        },
        None => std::future::pending().await,
    }
}
