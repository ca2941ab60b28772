//! The attack suite: what somebody who sends a job, a document or an answer could try, tried against the built program.
//!
//! Each area is a file with a function `attack(size) -> anyhow::Result<Tally>`. The everyday size runs in the tests of this
//! crate; `cargo xtask attack` runs every area at full size and fails if anything escaped.
//!
//! The suite does not judge how the program defends itself: it looks only at what came out of it (files, requests, bytes
//! on a terminal).

pub mod addresses;
pub mod export;
pub mod fences;
pub mod paths;
pub mod program;
mod tally;
pub mod templates;
mod terminal;
pub mod trust;

pub use program::{Ran, Scene, Terminal};
pub use tally::{Size, Tally};

/// One area of attacks.
pub struct Area {
    /// Its name on the command line.
    pub name: &'static str,
    /// Tries everything in it.
    pub attack: fn(Size) -> anyhow::Result<Tally>,
}

/// Every area, in the order in which they are printed.
pub const AREAS: &[Area] = &[
    Area { name: "fences", attack: fences::attack },
    Area { name: "addresses", attack: addresses::attack },
    Area { name: "templates", attack: templates::attack },
    Area { name: "export", attack: export::attack },
    Area { name: "paths", attack: paths::attack },
    Area { name: "trust", attack: trust::attack },
    Area { name: "terminal", attack: terminal::attack },
];
