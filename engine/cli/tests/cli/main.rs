//! The command line as users see it: these tests run the program, and check its output and its exit code.

mod answers;
mod approvals;
mod conversations;
mod crates;
mod docs;
mod doctor;
mod documents;
mod exports;
mod failures;
mod folds;
mod forks;
mod keeping;
mod killed;
#[cfg(target_os = "linux")]
mod large;
mod looking;
mod memories;
mod models;
mod outages;
mod outputs;
mod persons;
mod pinned;
mod projects;
mod recordings;
mod reports;
mod runs;
mod screens;
mod scripts;
mod shared;
mod signals;
mod stores;
mod support;
mod terminals;
mod tools;
mod trust;
mod usage;
