//! The model that a person plays (`--model person`): shows each request on stderr, and reads the answer from standard input.
//!
//! [`view`] renders requests, [`turn`] reads the lines of an answer. This shell owns standard input. A thread reads its lines,
//! because reading them blocks. Requests of several tasks wait for each other, so that each line has one reader.
//!
//! Standard input that ends does not end the run: the model then never answers, and [`input_ended`] stops the run.

mod turn;
mod view;

use std::collections::HashMap;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use baton_models::{Attempt, ContentSource, Model, ModelError};
use baton_types::config::PERSON_MODEL;
use baton_types::id::TaskId;
use baton_types::message::contents_of;
use baton_types::model::{ModelRequest, ModelTurn};
use tokio::sync::{Mutex, mpsc, watch};

use self::turn::{Draft, Step};
use crate::exit::Failure;
use crate::screen::{self, Screen};
use crate::style;
use crate::terminal;
use crate::text::text;

/// Largest size of a line of an answer, and of a file that holds an input.
const MAX_BYTES: usize = 1 << 20;

/// Time in which standard input that is empty shows that it has ended.
const END_IS_SEEN: Duration = Duration::from_millis(200);

/// The lines of standard input. The thread that reads them starts with the first use.
static LINES: LazyLock<Mutex<Lines>> = LazyLock::new(|| Mutex::new(Lines { read: read_lines(), first: None }));

/// Whether a request found that standard input has ended.
static ENDED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// The lines of standard input.
struct Lines {
    read: mpsc::Receiver<String>,
    /// The first line, if it was read before the first request.
    first: Option<String>,
}

impl Lines {
    /// Returns the next line; `None` at the end of standard input.
    async fn next(&mut self) -> Option<String> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.read.recv().await,
        }
    }
}

/// Reads lines of standard input in a thread of its own, which ends with the process.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(MAX_BYTES as u64).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            // A longer line is refused as a whole.
            if line.len() == MAX_BYTES && !line.ends_with(b"\n") && input.skip_until(b'\n').is_err() {
                return;
            }
            let line = String::from_utf8_lossy(&line);
            if sender.blocking_send(line.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Refuses a run with `model` if that model is a person who cannot be asked here.
pub(crate) async fn check_input(screen: Screen, model: Option<&str>) -> Result<(), Failure> {
    if model != Some(PERSON_MODEL) {
        return Ok(());
    }
    let refused = |reason: &str| {
        Err(Failure::Usage(format!(
            "--model {PERSON_MODEL} reads each turn from standard input, {reason}; to run without a person, write a script and use --script FILE"
        )))
    };
    if io::stdin().is_terminal() {
        return if screen.interactive { Ok(()) } else { refused("and this terminal may not be asked") };
    }
    let mut lines = LINES.lock().await;
    match tokio::time::timeout(END_IS_SEEN, lines.next()).await {
        Ok(None) => refused("which has no lines"),
        Ok(first) => {
            lines.first = first;
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// Returns the screen for a run with `model`. A person's answers are typed below the progress, so no tree is drawn over them,
/// and questions to people are left for `baton answer`.
pub(crate) fn screen_of(screen: Screen, model: Option<&str>) -> Screen {
    if model == Some(PERSON_MODEL) { Screen { live: false, interactive: false, ..screen } } else { screen }
}

/// Waits until a request finds that standard input has ended.
pub(crate) async fn input_ended() {
    let mut ended = ENDED.subscribe();
    // The sender is static, so waiting does not fail.
    let _ended = ended.wait_for(|ended| *ended).await;
}

/// A model whose answers a person types.
pub(crate) struct PersonModel {
    /// The folder from which `@FILE` is read.
    folder: PathBuf,
    /// Number of messages that the person has seen, by task.
    seen: std::sync::Mutex<HashMap<(TaskId, bool), usize>>,
}

impl PersonModel {
    /// Returns a model that reads files of the person from `folder`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, seen: std::sync::Mutex::default() }
    }
}

#[async_trait]
impl Model for PersonModel {
    fn makes_calls_itself(&self) -> bool {
        true
    }

    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        if request.call.is_some() {
            let message = "a person answers for agents only, and a tool asked".to_owned();
            return Err(ModelError::Rejected { provider: PERSON_MODEL.to_owned(), status: None, message });
        }
        let mut lines = LINES.lock().await;
        let key = (request.task.clone(), request.is_question);
        let seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).copied();
        let new = view::new_messages(request, seen);
        let mut known = HashMap::new();
        for hash in new.iter().flat_map(|message| contents_of(message)) {
            known.insert(hash, contents.content(hash).await?);
        }
        view::request(request, seen.is_none(), &new, &known, terminal::width()).iter().for_each(screen::tell);
        let mut draft = Draft::new(request.tools.clone(), self.folder.clone());
        loop {
            let step = match lines.next().await {
                Some(line) => draft.add(&line),
                // The last turn of piped lines needs no empty line after it.
                None if !draft.is_empty() => Step::Send,
                None => {
                    ENDED.send_replace(true);
                    std::future::pending().await
                }
            };
            match step {
                Step::More => {}
                Step::Help => view::help(&request.tools).iter().for_each(screen::tell),
                Step::Fault(fault) => screen::tell(&text!("  {}", style::bad(fault))),
                Step::Send => break,
            }
        }
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, request.messages.len());
        Ok(draft.turn())
    }

    /// Answers without a time limit: `limits.turn_seconds` is for models that hang.
    async fn attempt(
        &self,
        request: &ModelRequest,
        contents: &dyn ContentSource,
        _attempt: Attempt<'_>,
    ) -> Result<ModelTurn, ModelError> {
        self.answer(request, contents).await
    }
}
