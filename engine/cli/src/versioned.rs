//! The version in every object that a command prints.

use serde::Serialize;

/// Version of the form of the objects that commands print. docs/json.md describes the form.
const VERSION: u32 = 0;

/// An object with the version of its form.
#[derive(Serialize)]
pub(crate) struct Versioned<'a, T> {
    v: u32,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T> Versioned<'a, T> {
    /// Returns `object` with the version.
    pub(crate) fn of(object: &'a T) -> Self {
        Self { v: VERSION, object }
    }
}
