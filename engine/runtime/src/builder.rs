//! Builds an engine.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_config::PriceTable;
use baton_models::{Cassettes, Model, Providers};
use baton_store::Store;
use baton_tool::{ToolFunction, registered_functions};
use baton_types::id::ProjectId;
use tokio::sync::{OnceCell, Semaphore};

use crate::bus::Bus;
use crate::clock::{Clock, SystemClock};
use crate::contents::Contents;
use crate::engine::Engine;
use crate::error::RunError;
use crate::loaded::Loaded;
use crate::processes::COMMAND_GRACE;
use crate::services::{Models, ProjectOf, Services, Variable};
use crate::tool_services::ToolServices;
use crate::trust::TrustPolicy;

/// Builds an [`Engine`].
pub struct EngineBuilder {
    store: Option<Arc<dyn Store>>,
    trust: Option<Arc<dyn TrustPolicy>>,
    clock: Arc<dyn Clock>,
    variable: Variable,
    project_of: ProjectOf,
    models: Models,
    price_table: Option<PriceTable>,
    tool_services: Option<Arc<dyn ToolServices>>,
    bus: Option<Arc<dyn Bus>>,
    cassettes: Option<Arc<Cassettes>>,
    functions: Option<Vec<&'static ToolFunction>>,
    blocking_threads: usize,
    command_grace: Duration,
    content_bytes: usize,
    transcript_bytes: usize,
}

impl Engine {
    /// Begins to build an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            store: None,
            trust: None,
            clock: Arc::new(SystemClock),
            variable: Arc::new(|name| std::env::var(name).ok()),
            project_of: Arc::new(|_| None),
            models: Models::default(),
            price_table: None,
            tool_services: None,
            bus: None,
            cassettes: None,
            functions: None,
            blocking_threads: 64,
            command_grace: COMMAND_GRACE,
            content_bytes: 64 << 20,
            transcript_bytes: 64 << 20,
        }
    }
}

impl EngineBuilder {
    /// Keeps runs in `store`. An engine cannot be built without one.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Runs only configs that `policy` trusts. An engine cannot be built without one: [`crate::TrustEverything`] is for programs
    /// whose configs are their own.
    pub fn trust(mut self, policy: impl TrustPolicy + 'static) -> Self {
        self.trust = Some(Arc::new(policy));
        self
    }

    /// Finds the project of a job's folder with `project_of`: its jobs share the breadcrumbs with the visibility `team`. Without a
    /// project (default), the jobs that share a long-term memory do.
    pub fn project_of(mut self, project_of: impl Fn(&Path) -> Option<ProjectId> + Send + Sync + 'static) -> Self {
        self.project_of = Arc::new(project_of);
        self
    }

    /// Reads the time from `clock` instead of the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Lets `model` answer wherever an agent's model has this name; outranks a job's model of the same name.
    pub fn model(mut self, name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        Arc::make_mut(&mut self.models).insert(name.into(), model);
        self
    }

    /// Looks up prices of models in `table` instead of the engine's own table. A job's price for a model of its own
    /// overrides both.
    pub fn prices(mut self, table: PriceTable) -> Self {
        self.price_table = Some(table);
        self
    }

    /// Announces runs that need an owner on `bus`, and lets [`Engine::work`] take those that others announce.
    pub fn bus(mut self, bus: Arc<dyn Bus>) -> Self {
        self.bus = Some(bus);
        self
    }

    /// Sends calls of tools with a `target_subject` by `services`. Without them, a job whose agents have such a tool does not start.
    pub fn tool_services(mut self, services: Arc<dyn ToolServices>) -> Self {
        self.tool_services = Some(services);
        self
    }

    /// Records the exchanges with providers in `cassettes`, or plays them. During playback nothing is sent to a
    /// provider and no key is needed. A request that differs from the recorded one ends its run, naming the cassette
    /// and the first difference.
    ///
    /// An engine that records has one run, which cannot be forked. An engine with [`Cassettes::record_further`]
    /// continues its recording. Models without a provider answer as usual.
    pub fn cassettes(mut self, cassettes: Arc<Cassettes>) -> Self {
        self.cassettes = Some(cassettes);
        self
    }

    /// Looks up environment variables by `variable` instead of in the process's environment.
    pub fn variables(mut self, variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.variable = Arc::new(variable);
        self
    }

    /// Loads pinned configs with these tool functions instead of all linked ones.
    pub fn functions(mut self, functions: Vec<&'static ToolFunction>) -> Self {
        self.functions = Some(functions);
        self
    }

    /// Limits tools to `threads` blocking threads; further calls wait (default: 64).
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads.max(1);
        self
    }

    /// Sets the time between asking a command to end and killing it (default: one second).
    pub fn command_grace(mut self, grace: Duration) -> Self {
        self.command_grace = grace;
        self
    }

    /// Keeps at most about `bytes` bytes of documents in memory (default: 64 MiB).
    pub fn content_cache_bytes(mut self, bytes: usize) -> Self {
        self.content_bytes = bytes;
        self
    }

    /// Keeps at most about `bytes` bytes of conversations of one run in memory (default: 64 MiB).
    pub fn transcript_cache_bytes(mut self, bytes: usize) -> Self {
        self.transcript_bytes = bytes;
        self
    }

    /// Builds the engine.
    ///
    /// Fails with [`RunError::NoStore`] or [`RunError::NoTrust`].
    pub fn build(self) -> Result<Engine, RunError> {
        let store = self.store.ok_or(RunError::NoStore)?;
        let trust = self.trust.ok_or(RunError::NoTrust)?;
        let mut functions = self.functions.unwrap_or_else(registered_functions);
        functions.sort_by_key(|function| function.id);
        Ok(Engine(Arc::new(Services {
            contents: Contents::new(Arc::clone(&store), self.content_bytes),
            store,
            trust,
            clock: self.clock,
            variable: self.variable,
            project_of: self.project_of,
            blocking: Arc::new(Semaphore::new(self.blocking_threads)),
            command_grace: self.command_grace,
            models: self.models,
            providers: Providers::default().with_cassettes(self.cassettes),
            price_table: self.price_table,
            dispatcher: self.tool_services,
            bus: self.bus,
            functions,
            transcript_bytes: self.transcript_bytes,
            running: Mutex::default(),
            loaded: Loaded::default(),
            secret: OnceCell::new(),
        })))
    }
}
