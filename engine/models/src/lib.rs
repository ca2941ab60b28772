//! Models: they answer for agents.
//!
//! [`Model`] is the only interface between the engine and a model: it takes a [`ModelRequest`] and returns a [`ModelTurn`].
//! This crate holds the trait, the [`ScriptedModel`] by which examples, tests and benchmarks run offline, the models of
//! providers ([`Providers`]), whose exchanges can be recorded and played ([`Cassettes`]), and [`FunctionModel`] for programs
//! that embed the engine.
//!
//! A model decides nothing about a run: the machine decides what its calls mean.

mod cassette;
mod context;
mod error;
mod function;
mod governor;
mod model;
mod own_programs;
pub mod provider;
pub mod script;
mod script_of;
mod scripted;
mod secret;
mod template;
pub mod universal;
pub mod wire;

pub use cassette::{CassetteError, Cassettes};
pub use error::{ModelError, Outage};
pub use function::FunctionModel;
pub use governor::RunKey;
pub use model::{Attempt, ContentSource, Model, NoContents, Pause};
pub use own_programs::OwnPrograms;
pub use provider::{BOOLEAN_SETTINGS, Embedder, Providers, SetupError, Vectors, embeds, media_of, provider_names, runs_here};
pub use script::{ScriptFault, check_script};
pub use script_of::script_of;
pub use scripted::ScriptedModel;
pub use secret::{Secrets, secret_of_variable};
pub use wire::{OWN_SETTINGS, REFUSED_SETTINGS};
