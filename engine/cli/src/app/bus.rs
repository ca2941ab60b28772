//! The connection of a command to a bus.

use baton_nats::address::Credentials;
use std::io::IsTerminal;
use std::sync::Arc;

use baton_nats::{Bus, BusError};
use baton_runtime::{Engine, EngineBuilder};
use baton_utp::subject::Address;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use crate::app::engine::run_failure;
use crate::exit::Failure;
use crate::place::Place;

/// The project of a folder whose `baton.json` names none.
const DEFAULT_PROJECT: &str = "default";
/// The channel of a folder whose `baton.json` names none.
const DEFAULT_CHANNEL: &str = "main";

/// Returns the project and the channel in which commands work here.
pub(crate) fn address(place: &Place) -> Result<Address, Failure> {
    let settings = place.settings();
    let project = settings.project.as_deref().unwrap_or(DEFAULT_PROJECT);
    let channel = settings.channel.as_deref().unwrap_or(DEFAULT_CHANNEL);
    // The loader has checked both.
    Address::parse(project, channel).ok_or_else(|| Failure::Engine(format!("{project}.{channel} cannot be part of a subject")))
}

/// Connects to the bus, if there is one. From then on, warnings are printed: those about lost connections and refused messages have no
/// other way to a person.
pub(crate) async fn connect(place: &Place) -> Result<Option<Bus>, Failure> {
    let Some(server) = place.bus() else { return Ok(None) };
    let warnings = tracing_subscriber::fmt().with_max_level(Level::WARN).with_writer(std::io::stderr).with_target(false);
    let warnings = warnings.without_time().with_ansi(std::io::stderr().is_terminal());
    // A program that embeds the command line may have its own.
    let _present = warnings.try_init();
    let credentials = Credentials::named_by(|name| std::env::var(name).ok()).map_err(failure)?;
    Bus::connect(server, &credentials, address(place)?).await.map(Some).map_err(failure)
}

/// Builds an engine that executes runs. If there is a bus, the engine sends calls to tool services, and this process takes part in the work
/// for the project until it ends: callbacks, and requests for cards.
pub(crate) async fn build(builder: EngineBuilder, place: &Place) -> Result<Engine, Failure> {
    let (engine, bus) = build_connected(builder, place).await?;
    if let Some(bus) = bus {
        let serving = engine.clone();
        // If the process ends in the middle of a message, another process gets that message again.
        tokio::spawn(async move { bus.serve(&serving, &CancellationToken::new()).await });
    }
    Ok(engine)
}

/// Builds an engine that only announces runs. A process that ends at once must take no part in the work: the callbacks and requests that it
/// gets would stay without an answer until they come again.
pub(crate) async fn build_to_announce(builder: EngineBuilder, place: &Place) -> Result<Engine, Failure> {
    build_connected(builder, place).await.map(|(engine, _)| engine)
}

async fn build_connected(builder: EngineBuilder, place: &Place) -> Result<(Engine, Option<Bus>), Failure> {
    let Some(bus) = connect(place).await? else { return Ok((builder.build().map_err(run_failure)?, None)) };
    let shared = Arc::new(bus.clone());
    let engine = builder.tool_services(shared.clone()).bus(shared).build().map_err(run_failure)?;
    bus.claim(&**engine.store()).await.map_err(failure)?;
    Ok((engine, Some(bus)))
}

/// Returns the error of a bus as a failure of the command.
pub(crate) fn failure(error: BusError) -> Failure {
    match error {
        BusError::Unreachable { .. } | BusError::Stream { .. } | BusError::Store(_) => Failure::Unavailable(error.to_string()),
        BusError::Address(_) | BusError::Credentials { .. } | BusError::OtherStore { .. } => Failure::Usage(error.to_string()),
    }
}
