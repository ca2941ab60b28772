//! Whole-system tests: one binary, a file per feature.
