//! The tokio shell round the core: performs effects and brings back events.
