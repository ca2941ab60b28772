//! The crash kit: kills a program at every place where something lasts, goes on with what is left, and compares the end with
//! that of a run that nobody killed.
//!
//! [`Trial`] is one such attempt: a job, started in a folder of its own by a real process, which is killed where the plan says
//! ([`At`]) and followed by another process with `baton resume`, until the job's end. What every process *acknowledged* (an entry
//! that it printed, an answer that it took) must be in the timeline that it left behind; that timeline must be the beginning
//! of the final one; and the end must be that of the undisturbed run: result, documents and versions. Effects outside the
//! store are counted by the [`ledger`]: none twice, none lost, and in doubt exactly the `at_most_once` calls that were
//! in flight.
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
