//! The machine: decides what every event of a run means. Pure: no files, no clock, no randomness.
