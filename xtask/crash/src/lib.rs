//! The crash kit: kills a program at every durable step, resumes the run, and compares the end with that of an
//! undisturbed run.
//!
//! [`Trial`] is one attempt. A real process starts a job in a folder of its own and is killed at a planned place
//! ([`At`]). Another process continues with `baton resume`, until the job's end. Everything that a process
//! *acknowledged* (an entry that it printed, an answer that it accepted) must be in the timeline that it left. That
//! timeline must be the beginning of the final one. The end must be that of the undisturbed run: result, documents and
//! versions. The [`ledger`] counts effects outside the store: none happens twice, none is lost, and exactly the
//! `at_most_once` calls that were in flight have an unknown outcome.
//!
//! The kit works on any program that is `baton::main()` with the feature `failpoints` of package `baton`: authors of tools try their
//! own with `cargo xtask crash JOB --program PROGRAM`, and may link the ledger's tools into it. What it does *not*
//! try: losing power, and disks that fail.

mod jobs;
pub mod ledger;
mod run;
mod scene;
mod strays;
mod sweep;
mod trial;
mod zombie;

pub use jobs::{Shape, lay_out};
pub use run::{Documents, End, Timeline};
pub use scene::{At, Case, Pass, PassName, Process, Step, ledger_configs};
pub use strays::{StrayFigures, strays};
pub use sweep::{Figures, Kill, Plan, Sweep};
pub use trial::{Outcome, Trial, Violation};
pub use zombie::{ZombieFigures, zombies};
