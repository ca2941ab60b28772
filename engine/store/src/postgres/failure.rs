//! What an error of the client means for the work that got it.

use tokio_postgres::error::SqlState;

use super::address::{Address, causes};
use crate::StoreError;

/// Reasons why an attempt failed.
pub(super) enum Failure {
    /// The result of the work, or an error that another attempt would not change.
    Final(StoreError),
    /// The server ended the transaction because of another one. Nothing was written.
    Conflict(StoreError),
    /// The server cannot be reached. Nothing was written.
    Away(StoreError),
}

impl Failure {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Final(error) | Self::Conflict(error) | Self::Away(error) => error,
        }
    }
}

impl Address {
    /// Returns what an error of the client means for the work.
    pub(super) fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        let Some(found) = error.as_db_error() else {
            let away = StoreError::Unreachable { store: self.shown(), what: causes(error) };
            // A fault of the address or the password stays.
            return if error.is_closed() || is_of_network(error) { Failure::Away(away) } else { Failure::Final(away) };
        };
        let what = found.to_string();
        let path = || self.shown().into();
        match found.code() {
            &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Failure::Conflict(StoreError::Postgres { what })
            }
            &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN | &SqlState::CANNOT_CONNECT_NOW => {
                Failure::Away(StoreError::Unreachable { store: self.shown(), what })
            }
            code if code.code().starts_with("08") => Failure::Away(StoreError::Unreachable { store: self.shown(), what }),
            // Of the server's connections, not of ours.
            &SqlState::TOO_MANY_CONNECTIONS => Failure::Away(StoreError::Unreachable { store: self.shown(), what }),
            &SqlState::DISK_FULL => Failure::Final(StoreError::StorageFull { path: path() }),
            &SqlState::READ_ONLY_SQL_TRANSACTION => Failure::Final(StoreError::ReadOnly { path: path() }),
            &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => Failure::Final(StoreError::Corrupt { what }),
            code if code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME => {
                Failure::Final(StoreError::Unreachable { store: self.shown(), what })
            }
            _ => Failure::Final(StoreError::Postgres { what: detailed(found) }),
        }
    }

    /// Returns what an error of some work in a transaction means for the transaction.
    pub(super) fn classified(&self, error: StoreError) -> Failure {
        match error {
            StoreError::Client(error) => self.failure(&error),
            other => Failure::Final(other),
        }
    }
}

/// Returns the message of the server with its detail, and the table or constraint that it names.
fn detailed(error: &tokio_postgres::error::DbError) -> String {
    let more = [error.detail(), error.hint(), error.constraint()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    if more.is_empty() { error.to_string() } else { format!("{error} ({more})") }
}

/// Whether the connection could not be made or was lost, as opposed to refused.
fn is_of_network(error: &tokio_postgres::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            // rustls reports a certificate that it does not trust as invalid data.
            return error.kind() != std::io::ErrorKind::InvalidData;
        }
        cause = error.source();
    }
    // The time for a connection passed.
    error.to_string().contains("timeout")
}
