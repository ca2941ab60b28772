//! The address of a NATS server, and the credentials for it.
//!
//! An address is `nats://[USER:PASSWORD@]HOST[:PORT][,HOST…]`, or `tls://…`. It may have a token in place of user and password.
//! Credentials in files are named by variables of the environment, as the tools of NATS do: `NATS_CREDS`, `NATS_NKEY`, `NATS_CA`, and
//! `NATS_CERT` with `NATS_KEY`.

use std::path::PathBuf;

use async_nats::{ConnectOptions, ServerAddr};

use crate::BusError;

/// Files with credentials and certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// A file with a JWT and its seed, from `NATS_CREDS`.
    pub creds: Option<PathBuf>,
    /// A file with the seed of an NKey, from `NATS_NKEY`.
    pub nkey: Option<PathBuf>,
    /// The certificate of an authority of one's own, from `NATS_CA`.
    pub authority: Option<PathBuf>,
    /// A client certificate and its key, from `NATS_CERT` and `NATS_KEY`.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Credentials {
    /// Reads the variables by `variable`.
    ///
    /// # Errors
    /// Only one of `NATS_CERT` and `NATS_KEY` is set.
    pub fn named_by(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BusError> {
        let file = |name: &str| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let certificate = match (file("NATS_CERT"), file("NATS_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(BusError::Address("NATS_CERT and NATS_KEY belong together, and only one of them is set".to_owned())),
        };
        Ok(Self { creds: file("NATS_CREDS"), nkey: file("NATS_NKEY"), authority: file("NATS_CA"), certificate })
    }

    /// Returns the options of a connection with these credentials.
    pub(crate) async fn options(&self) -> Result<ConnectOptions, BusError> {
        let unreadable = |file: &PathBuf, error: &dyn std::fmt::Display| BusError::Credentials {
            file: file.display().to_string(),
            reason: error.to_string(),
        };
        let mut options = ConnectOptions::new();
        if let Some(file) = &self.creds {
            options = options.credentials_file(file).await.map_err(|error| unreadable(file, &error))?;
        }
        if let Some(file) = &self.nkey {
            let seed = tokio::fs::read_to_string(file).await.map_err(|error| unreadable(file, &error))?;
            options = options.nkey(seed.trim().to_owned());
        }
        if let Some(file) = &self.authority {
            options = options.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = &self.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }
}

/// Reads the address of one or more servers of a cluster.
///
/// # Errors
/// The address has another scheme than `nats` and `tls`, or no host.
pub(crate) fn servers(address: &str) -> Result<Vec<ServerAddr>, BusError> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    if !matches!(scheme, "nats" | "tls") || rest.is_empty() {
        let shown = shown(address);
        return Err(BusError::Address(format!(
            "{shown} is not the address of a NATS server; expected nats://HOST:PORT or tls://HOST:PORT"
        )));
    }
    let (login, hosts) = rest.rsplit_once('@').map_or(("", rest), |(login, hosts)| (&rest[..=login.len()], hosts));
    let servers = hosts.split(',').map(|host| format!("{scheme}://{login}{host}").parse::<ServerAddr>());
    servers.collect::<Result<_, _>>().map_err(|error| BusError::Address(format!("{}: {error}", shown(address))))
}

/// Returns the address without user, password and token.
pub fn shown(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    if scheme.is_empty() { hosts.to_owned() } else { format!("{scheme}://{hosts}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_servers_of_a_cluster_and_is_shown_without_its_password() {
        let found = servers("nats://ann:secret@one:4222,two,[::1]:4223").expect("three servers");
        let found: Vec<_> = found.iter().map(|server| (server.host().to_owned(), server.port())).collect();
        assert_eq!(found, [("one".to_owned(), 4222), ("two".to_owned(), 4222), ("::1".to_owned(), 4223)]);
        assert_eq!(shown("nats://ann:secret@one,two"), "nats://one,two");
        for wrong in ["one:4222", "http://ann:secret@one", "nats://", "nats://ann:secret@:x"] {
            let error = servers(wrong).expect_err(wrong).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let variable = |name: &str| (name == "NATS_CERT").then(|| "c.pem".to_owned());
        let error = Credentials::named_by(variable).expect_err("the key is missing").to_string();
        assert!(error.contains("NATS_KEY"), "{error}");
        assert_eq!(Credentials::named_by(|_| Some(String::new())).expect("nothing is set"), Credentials::default());
    }
}
