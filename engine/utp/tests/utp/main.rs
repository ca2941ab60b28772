//! The rules of seed 004, each as a test with its name.

mod cards;
mod control;
mod hostile;
mod page;
mod payloads;
mod published;
mod resume;
mod rows;
mod subjects;
mod support;
mod view;
