//! Recordings of providers' answers, as commands name them: a folder to record into, or to replay from.

use std::path::PathBuf;
use std::sync::Arc;

use baton_models::{CassetteError, Cassettes};
use baton_runtime::EngineBuilder;
use baton_types::id::RunId;
use clap::{Args, ValueHint};

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::shell::{CommandLine, baton};
use crate::text::text;

/// Options of commands that can record or replay requests to providers.
#[derive(Debug, Args)]
pub(crate) struct RecordingArgs {
    /// Record each request to a provider and its answer as a file in DIR, without keys
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    record: Option<PathBuf>,
    /// Take the answers from the recordings in DIR instead of providers. Needs no key and no network
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "record")]
    replay: Option<PathBuf>,
}

/// The cassettes of one execution, if any.
pub(crate) struct Recording {
    cassettes: Option<Arc<Cassettes>>,
    /// The option and the folder that named them.
    named: Option<(&'static str, PathBuf)>,
}

impl RecordingArgs {
    /// Opens the cassettes of a run that starts. A folder to record into is created before any work.
    pub(crate) fn of_start(&self, place: &Place) -> Result<Recording, Failure> {
        self.opened(place, Cassettes::record)
    }

    /// Opens the cassettes of a run that continues.
    pub(crate) fn of_resumption(&self, place: &Place) -> Result<Recording, Failure> {
        self.opened(place, Cassettes::record_further)
    }

    fn opened(
        &self,
        place: &Place,
        record: fn(&std::path::Path) -> Result<Cassettes, CassetteError>,
    ) -> Result<Recording, Failure> {
        let (opened, named) = match (&self.record, &self.replay) {
            (Some(folder), _) => (Some(record(&place.current.join(folder))), Some(("--record", folder.clone()))),
            (None, Some(folder)) => (Some(Cassettes::play(&place.current.join(folder))), Some(("--replay", folder.clone()))),
            (None, None) => (None, None),
        };
        Ok(Recording { cassettes: opened.transpose().map_err(failure)?.map(Arc::new), named })
    }
}

impl Recording {
    /// Returns `builder` with these cassettes, which its engine records or replays.
    pub(crate) fn used_by(&self, builder: EngineBuilder) -> EngineBuilder {
        match &self.cassettes {
            Some(cassettes) => builder.cassettes(Arc::clone(cassettes)),
            None => builder,
        }
    }

    /// Returns the command that resumes `run` with the same recording.
    fn resumption(&self, run: &RunId) -> CommandLine {
        let resume = baton("resume").value(run);
        match &self.named {
            Some((option, folder)) => resume.option(option, folder.display()),
            None => resume,
        }
    }

    /// Reports the state of the recording at the end of an execution of `run`. An incomplete recording is a failure, even if the
    /// run succeeded.
    pub(crate) fn close(&self, run: &RunId, exit: Exit, place: &Place) -> Result<Exit, Failure> {
        let Some(cassettes) = &self.cassettes else { return Ok(exit) };
        if let Some(fault) = cassettes.fault() {
            return Err(failure(fault.clone()));
        }
        if !cassettes.is_played() {
            place.screen.tell(&text!("cassettes   {}", cassettes.count()));
        }
        if matches!(exit, Exit::Waiting | Exit::Interrupted) {
            place.screen.tell(&text!("            to continue with it: {}", self.resumption(run)));
        }
        Ok(exit)
    }
}

/// Returns a recording's error as a failure of the command.
pub(crate) fn failure(error: CassetteError) -> Failure {
    match error {
        CassetteError::NoRecording { folder } => Failure::not_found("recording in", folder.display().to_string(), []),
        CassetteError::NotEmpty { .. }
        | CassetteError::OtherRun { .. }
        | CassetteError::Taken { .. }
        | CassetteError::Unrecorded { .. }
        | CassetteError::Unreadable { .. } => Failure::Usage(error.to_string()),
        CassetteError::Unwritten { .. }
        | CassetteError::SecretInPieces { .. }
        | CassetteError::Missing { .. }
        | CassetteError::Different { .. }
        | CassetteError::NotGivenUp { .. } => Failure::Engine(error.to_string()),
    }
}
