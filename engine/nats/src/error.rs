//! Errors of the connection to a bus.

/// An error of the connection to NATS.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The address of the server is not one.
    #[error("{0}")]
    Address(String),
    /// A file with credentials or certificates cannot be read.
    #[error("{file}: {reason}")]
    Credentials {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// There is no connection.
    #[error("the NATS server at {server} cannot be reached: {reason}")]
    Unreachable {
        /// Address without a password.
        server: String,
        /// The reason.
        reason: String,
    },
    /// Another store has the project.
    #[error(
        "the project \"{project}\" belongs to another store on this bus; set another \"project\" in baton.json, or remove the stream \
         {stream} if that store is gone"
    )]
    OtherStore {
        /// The project.
        project: String,
        /// Name of the stream that has the name of the store.
        stream: String,
    },
    /// The store cannot be read.
    #[error("{0}")]
    Store(String),
    /// The server has no JetStream, or refuses a stream.
    #[error("the stream {stream} of the NATS server cannot be used: {reason}")]
    Stream {
        /// Name of the stream.
        stream: String,
        /// The reason.
        reason: String,
    },
}
