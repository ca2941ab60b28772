//! One way to a provider: where it is, with which key, how long it may take and how often it may be used.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use baton_types::config::{ProviderLimits, ProviderSettings, may_hold_key};
use secrecy::{ExposeSecret, SecretString};

use super::profile::{NO_ADDRESS, Profile, provider_names};
use super::{SetupError, Variable};
use crate::secret::Secrets;

/// Time limits of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To take a connection.
    pub connect: Duration,
    /// To begin an answer.
    pub first_byte: Duration,
    /// Longest pause between two pieces of an answer.
    pub between_bytes: Duration,
    /// For a whole answer.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), first_byte: seconds(300), between_bytes: seconds(120), total: seconds(1_800) }
    }
}

/// A way to a provider. Its key shows in no print of it.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in configs.
    pub name: String,
    /// Profile of the provider, or of the one that it is like.
    pub profile: &'static Profile,
    /// Address of requests, with path.
    pub url: String,
    /// Headers that go with every request.
    pub headers: BTreeMap<String, String>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Rate limits.
    pub limits: ProviderLimits,
    /// The variable that holds the key.
    pub key_variable: String,
    key: Option<SecretString>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Returns the endpoint of `provider`, with its key.
    pub fn of(provider: &str, settings: Option<&ProviderSettings>, variable: Variable<'_>) -> Result<Self, SetupError> {
        let endpoint = Self::perhaps_without_key(provider, settings, variable)?;
        if endpoint.url.starts_with(NO_ADDRESS) {
            let variable = endpoint.profile.base_url_variable.unwrap_or_default().to_owned();
            return Err(SetupError::AddressMissing { provider: endpoint.name, variable });
        }
        let names_key = settings.is_some_and(|settings| settings.key_variable.is_some());
        let is_elsewhere = settings.is_some_and(|settings| is_elsewhere(provider, settings));
        if endpoint.key.is_none() && (names_key || (endpoint.profile.key.is_required && !is_elsewhere)) {
            return Err(SetupError::KeyMissing { provider: endpoint.name, variable: endpoint.key_variable });
        }
        Ok(endpoint)
    }

    /// Returns the endpoint of `provider`, with its key if there is one, for callers that send no request to a model.
    pub(super) fn perhaps_without_key(
        provider: &str,
        settings: Option<&ProviderSettings>,
        variable: Variable<'_>,
    ) -> Result<Self, SetupError> {
        let like = settings.map_or(provider, |settings| settings.like.as_str());
        let profile = Profile::named(like).ok_or_else(|| SetupError::UnknownProvider {
            name: like.to_owned(),
            known: provider_names().into_iter().map(str::to_owned).collect(),
        })?;
        let said = settings.and_then(|settings| settings.base_url.clone());
        let of_environment = || profile.base_url_variable.and_then(variable).filter(|url| !url.trim().is_empty());
        let of_environment = || match profile.base_url_variable {
            Some("OLLAMA_HOST") => of_environment().map(|host| address(&host)),
            _ => of_environment(),
        };
        let base = said.or_else(of_environment).unwrap_or_else(|| profile.base_url.to_owned());
        if !base.is_empty() && !base.trim().starts_with("http://") && !base.trim().starts_with("https://") {
            let reason = format!("{base} does not begin with https:// (or http:// for a server of your own)");
            return Err(SetupError::Unusable { what: "the address".to_owned(), provider: provider.to_owned(), reason });
        }
        if may_hold_key(&base) {
            let reason = "it has more than a host, a port and a path, and a key in it would be shown".to_owned();
            return Err(SetupError::Unusable { what: "the address".to_owned(), provider: provider.to_owned(), reason });
        }
        // A key belongs to an address, so a config with another address names another key.
        let own_variable = settings.and_then(|settings| settings.key_variable.clone());
        let is_unnamed = own_variable.is_none() && settings.is_some_and(|settings| is_elsewhere(provider, settings));
        let key_variable = own_variable.unwrap_or_else(|| profile.key.variable.to_owned());
        let key = if is_unnamed { None } else { variable(&key_variable) };
        let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        let given = |given: fn(&ProviderSettings) -> Option<Duration>, usual| settings.and_then(given).unwrap_or(usual);
        let usual = Timeouts::default();
        Ok(Self {
            name: provider.to_owned(),
            profile,
            url: format!("{}{}", base.trim_end_matches('/'), profile.path),
            headers: settings.map(|settings| settings.headers.clone()).unwrap_or_default(),
            timeouts: Timeouts {
                connect: given(|settings| settings.connect, usual.connect),
                first_byte: given(|settings| settings.first_byte, usual.first_byte),
                between_bytes: given(|settings| settings.between_bytes, usual.between_bytes),
                total: given(|settings| settings.total, usual.total),
            },
            limits: settings.map(|settings| settings.limits).unwrap_or_default(),
            key_variable,
            key: key.map(SecretString::from),
        })
    }

    /// Whether both ways come to the same account at the same place, whose limits they share.
    pub(super) fn is_same_account(&self, other: &Self) -> bool {
        let place = |endpoint: &Self| reqwest::Url::parse(&endpoint.url).map(|url| url.origin()).ok();
        place(self) == place(other) && self.secret() == other.secret()
    }

    pub(super) fn secret(&self) -> Option<&str> {
        self.key.as_ref().map(ExposeSecret::expose_secret)
    }

    /// Whether both ways can share connections.
    pub(super) fn is_same_way(&self, other: &Self) -> bool {
        let same_key = self.secret() == other.secret();
        self.url == other.url && self.headers == other.headers && self.timeouts == other.timeouts && same_key
    }

    /// Whether there is a key to send.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the header that carries the key, and its value.
    pub(super) fn key_header(&self) -> Option<(&'static str, SecretString)> {
        let key = self.key.as_ref()?;
        let header = self.profile.key.header;
        let value = match header {
            "authorization" => SecretString::from(format!("Bearer {}", key.expose_secret())),
            _ => key.clone(),
        };
        Some((header, value))
    }

    /// `text` without the key, in any spelling that a server may send it back in.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        self.secret().map_or_else(|| text.to_owned(), |key| Secrets::of(key).scrubbed(text).into_owned())
    }
}

/// Whether `settings` lead somewhere else than the provider whose name they bear.
fn is_elsewhere(provider: &str, settings: &ProviderSettings) -> bool {
    settings.base_url.is_some() && settings.like != provider
}

/// Whether `provider` is a server on this machine, by its profile and by the address where it is reached. An address that a job
/// names proves nothing.
pub fn runs_here(provider: &str, settings: Option<&ProviderSettings>, variable: Variable<'_>) -> bool {
    if settings.is_some_and(|settings| settings.base_url.is_some() && settings.origin.needs_trust()) {
        return false;
    }
    let endpoint = Endpoint::perhaps_without_key(provider, settings, variable);
    endpoint.is_ok_and(|endpoint| is_loopback(endpoint.profile.base_url) && is_loopback(endpoint.url.as_str()))
}

/// Whether the host of an address is this machine.
fn is_loopback(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|host| authority.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':')))
}

/// Returns the address in `OLLAMA_HOST`, which people write as `host`, `host:port` or in full.
fn address(host: &str) -> String {
    let host = host.trim();
    if host.contains("://") {
        return host.to_owned();
    }
    // What a server listens on is no address to go to.
    let host = host.replace("0.0.0.0", "127.0.0.1");
    if host.contains(':') { format!("http://{host}") } else { format!("http://{host}:11434") }
}
