//! Exchanges with providers, recorded in files and played from them.
//!
//! A recording is a folder that belongs to one run. It has one file, a **cassette**, for each request of the run to a
//! provider. The cassette names the turn of a task or the call of a tool that made the request. It holds the request
//! without headers and address, and the answer or the reason why there was none. Secrets are removed from both. A
//! played request must equal the recorded one. The recorded bytes then go through the same decoders as live bytes.
//!
//! It is *not* a timeline: what an answer led to is the machine's business, which decides it again when a cassette is played.

mod body;
mod difference;
mod folder;
mod form;
mod playback;
mod take;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};

use baton_types::id::RunId;

use self::folder::Label;
use crate::secret::Secrets;

pub(crate) use form::{Heard, NoAnswer, Occasion, Wait};
pub(crate) use take::Takes;

/// The fewest bytes that make a secret. What servers without keys are given in place of one is none, and its letters may be
/// anywhere.
const MIN_SECRET_BYTES: usize = 8;

/// A folder of cassettes, to record into or to play from.
///
/// Give it to an engine's builder. An engine that records has one run; one that plays may have several, each of which must ask
/// what the recorded one asked.
pub struct Cassettes {
    folder: PathBuf,
    mode: Mode,
    secrets: RwLock<Secrets>,
    /// First error that no request could report.
    fault: OnceLock<CassetteError>,
}

enum Mode {
    /// Records; `has_run` is true once the recording has its run.
    Record {
        has_run: AtomicBool,
    },
    Play,
}

/// Reasons why a recording cannot be made or played. They contain no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CassetteError {
    /// The folder of a new recording has something in it.
    #[error("{} is not empty: record into a new or empty folder", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder does not have a recording in it.
    #[error("{} has no recording; create one with baton run JOB --record DIR", .folder.display())]
    NoRecording {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has another run's recording in it.
    #[error("{} has the recording of run {there}: record each run in its own folder, from its start", .folder.display())]
    OtherRun {
        /// The folder.
        folder: PathBuf,
        /// The run that it belongs to.
        there: String,
    },
    /// The engine has had a run that was recorded.
    #[error("{} already has the recording of a run: record each run in its own folder", .folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
    },
    /// A run that has begun without being recorded cannot be recorded any more.
    #[error("run {run} started without being recorded, so its recording would be incomplete: record a run from its start")]
    Unrecorded {
        /// The run.
        run: String,
    },
    /// A file or folder could not be written.
    #[error("{} cannot be written, so the recording is incomplete: {reason}", .file.display())]
    Unwritten {
        /// Which one.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A secret came in pieces that are too small to recognize.
    #[error("{} was not written, so the recording is incomplete: {provider} repeated the key in several pieces, which cannot be removed", .file.display())]
    SecretInPieces {
        /// The cassette.
        file: PathBuf,
        /// The provider.
        provider: String,
    },
    /// A file could not be read.
    #[error("{} cannot be read: {reason}", .file.display())]
    Unreadable {
        /// Which one.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something is asked that the recorded run did not ask.
    #[error("there is no cassette {}: the recorded run did not send this request; record it again with baton run JOB --record DIR", .file.display())]
    Missing {
        /// The cassette that it would be in.
        file: PathBuf,
    },
    /// It is asked otherwise than it was.
    #[error("the request differs from cassette {} at {pointer}: recorded is {recorded}, now it is {now}; if the change is intended, record it again with baton run JOB --record DIR", .file.display())]
    Different {
        /// The cassette.
        file: PathBuf,
        /// JSON pointer into it, to the first place where they differ.
        pointer: String,
        /// Recorded value, shortened.
        recorded: String,
        /// Present value, shortened.
        now: String,
    },
    /// The recorded run did not wait for the answer, and this one does.
    #[error("cassette {} has no answer: the recorded run stopped waiting after {waited_milliseconds} ms, but this run still waits", .file.display())]
    NotGivenUp {
        /// The cassette.
        file: PathBuf,
        /// Time that the recorded run waited, in milliseconds.
        waited_milliseconds: u64,
    },
}

impl Cassettes {
    /// Returns a new recording in `folder`, which is made, or must be empty.
    ///
    /// Fails with [`CassetteError::NotEmpty`] or [`CassetteError::Unwritten`].
    pub fn record(folder: &Path) -> Result<Self, CassetteError> {
        folder::make_empty(folder)?;
        Ok(Self::of(folder, Mode::Record { has_run: AtomicBool::new(false) }))
    }

    /// Returns the recording in `folder`, to be continued when its run is resumed. Requests that are made anew replace
    /// their earlier recording.
    ///
    /// Fails with [`CassetteError::NoRecording`] or [`CassetteError::Unreadable`].
    pub fn record_further(folder: &Path) -> Result<Self, CassetteError> {
        Label::read(folder)?;
        Ok(Self::of(folder, Mode::Record { has_run: AtomicBool::new(true) }))
    }

    /// Returns the recording in `folder` for playback: nothing is sent, no key is needed, and there are no pauses.
    ///
    /// Fails with [`CassetteError::NoRecording`] or [`CassetteError::Unreadable`].
    pub fn play(folder: &Path) -> Result<Self, CassetteError> {
        Label::read(folder)?;
        Ok(Self::of(folder, Mode::Play))
    }

    fn of(folder: &Path, mode: Mode) -> Self {
        Self { folder: folder.to_owned(), mode, secrets: RwLock::default(), fault: OnceLock::new() }
    }

    /// Whether they are played; else they are recorded.
    pub fn is_played(&self) -> bool {
        matches!(self.mode, Mode::Play)
    }

    /// Returns the error that prevented a cassette from being written when no request was left to report it.
    pub fn fault(&self) -> Option<&CassetteError> {
        self.fault.get()
    }

    /// Returns the number of cassettes.
    pub fn count(&self) -> usize {
        folder::count(&self.folder)
    }

    /// Makes the recording that of a run which is about to start. A second one is refused.
    pub fn claim(&self) -> Result<(), CassetteError> {
        match &self.mode {
            Mode::Record { has_run } if has_run.swap(true, Ordering::Relaxed) => {
                Err(CassetteError::Taken { folder: self.folder.clone() })
            }
            Mode::Record { .. } | Mode::Play => Ok(()),
        }
    }

    /// Writes down which run it is that claimed the recording.
    pub fn label(&self, run: &RunId) -> Result<(), CassetteError> {
        if self.is_played() { Ok(()) } else { Label::of(run).write(&self.folder) }
    }

    /// Checks that the recording belongs to `run`, before the run continues.
    pub fn check_run(&self, run: &RunId) -> Result<(), CassetteError> {
        match &self.mode {
            Mode::Record { has_run } if !has_run.load(Ordering::Relaxed) => {
                Err(CassetteError::Unrecorded { run: run.to_string() })
            }
            Mode::Record { .. } => match Label::read(&self.folder)?.run {
                there if there == run.as_str() => Ok(()),
                there => Err(CassetteError::OtherRun { folder: self.folder.clone(), there }),
            },
            Mode::Play => Ok(()),
        }
    }

    /// Keeps `secret` out of every cassette from now on, in every known spelling. Keys of providers are kept out
    /// without this call.
    pub fn keep_out(&self, secret: &str) {
        if secret.len() >= MIN_SECRET_BYTES {
            self.secrets.write().unwrap_or_else(PoisonError::into_inner).add(secret);
        }
    }

    fn secrets(&self) -> RwLockReadGuard<'_, Secrets> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Cassettes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cassettes").field("folder", &self.folder).field("is_played", &self.is_played()).finish_non_exhaustive()
    }
}
