//! Whole-system tests: the engine from a job's files to its last entry, without the command line.

mod budgets;
mod configs;
mod configurations;
mod control;
mod discovery;
mod early_calls;
mod examples;
mod exec;
mod forks;
mod memory;
mod model_tools;
mod outages;
mod providers;
mod recovery;
mod returned_work;
mod runs;
mod scale;
mod scripted_jobs;
mod sessions;
mod size;
mod support;
mod trust;
mod universal;
