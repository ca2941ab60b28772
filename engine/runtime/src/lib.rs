//! The shell round the machine: performs its effects and brings back events.
//!
//! Each run has one actor, which works in three steps. It gathers every event that is ready, lets the core decide and apply
//! each, and commits the entries as one batch. Only then are entries published and effects performed. Nothing is visible
//! outside before it is durable. Nothing polls.
//!
//! The shell decides *nothing*: the core decides what an answer, a result or a crash means.

mod actor;
mod adopting;
mod builder;
mod bus;
mod clock;
mod command;
mod contents;
mod control;
mod delivery;
mod diff;
mod engine;
mod error;
mod exec;
mod execute;
mod fit;
pub mod folder;
mod fork;
mod handle;
mod host;
mod job;
mod loaded;
mod migrate;
mod neighbours;
mod processes;
mod reading;
mod recording;
mod replay;
mod schedules;
mod services;
mod signs;
mod summary;
mod suspended;
mod tool_services;
mod transcripts;
pub mod trust;
mod watchers;
mod worker;

pub use baton_tool::measure::measure;
pub use builder::EngineBuilder;
pub use bus::{Announced, Bus};
pub use clock::{Clock, SteadyClock, SystemClock};
pub use command::{Command, Delivered};
pub use delivery::Delivery;
pub use diff::{Cause, Divergent, DocumentDiff, RunDiff, TaskDiff, diff};
pub use engine::{Engine, Holder, run_id_of};
pub use error::RunError;
pub use fit::{UnfitTool, with_unfit_tools};
pub use fork::{FollowUp, ForkOptions};
pub use handle::{BackOff, EntryStream, NextAttempt, OpenQuestion, Progress, ProviderAway, RunHandle, RunOutcome};
pub use job::{InitialDocument, InputValue, LoadError, LoadedJob, StartOptions, load_configs, load_embeddings};
pub use migrate::{Divergence, Migration};
pub use neighbours::{Embeds, NoVectors, search as search_breadcrumbs};
pub use processes::kill_commands;
pub use replay::{Mismatch, ReplayReport, replay, request_of};
pub use schedules::SchedulePass;
pub use tool_services::{ServiceCommand, ToolServices};
pub use trust::{TrustEverything, TrustNothing, TrustPolicy, Trusted};
pub use worker::{Continued, Idle, WorkOptions, WorkReport};
