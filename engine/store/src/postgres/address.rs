//! The address of a database: what people write, what is shown, and how connections are made.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::Tls;
use crate::StoreError;

/// Longest time until a connection is made, unless the address has a `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a message after which the system asks whether the server is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// The parameters that only this program knows. They are removed before the client reads the address.
const OWN: [&str; 3] = ["direct", "passfile", "prepared"];

/// The address of a database.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    /// Settings of the connection that listens, if it goes to another place.
    direct: Option<Config>,
    /// Whether connections keep the plans of their statements.
    is_prepared: bool,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.shown()).finish()
    }
}

impl Address {
    /// Whether `text` is the address of a database.
    pub(crate) fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads an address. A password that it lacks comes from `PGPASSWORD`, or from the file that `passfile` or `PGPASSFILE` names.
    ///
    /// Fails with [`StoreError::Address`].
    pub(crate) fn read(text: &str) -> Result<Self, StoreError> {
        let wrong = |what: String| StoreError::Address { what };
        if !Self::is_one(text) {
            return Err(wrong("it does not begin with postgres:// or postgresql://".to_owned()));
        }
        let (address, parameters) = text.split_once('?').unwrap_or((text, ""));
        let (own, others): (Vec<&str>, Vec<&str>) = parameters
            .split('&')
            .filter(|parameter| !parameter.is_empty())
            .partition(|parameter| OWN.contains(&parameter.split('=').next().unwrap_or_default()));
        let own = |name: &str| own.iter().find_map(|parameter| parameter.split_once('=').filter(|(found, _)| *found == name));
        let address = if others.is_empty() { address.to_owned() } else { format!("{address}?{}", others.join("&")) };
        // Errors of the client name the parameter, never a value.
        let mut config = Config::from_str(&address).map_err(|error| wrong(causes(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it has no host".to_owned()));
        }
        if config.get_user().is_none() {
            let user = std::env::var("PGUSER").or_else(|_| std::env::var("USER")).unwrap_or_else(|_| "postgres".to_owned());
            config.user(user);
        }
        if config.get_password().is_none() {
            let passfile = own("passfile").map(|(_, file)| unescaped(file)).or_else(|| std::env::var("PGPASSFILE").ok());
            match (std::env::var("PGPASSWORD"), passfile) {
                (Ok(password), _) => {
                    config.password(password);
                }
                (Err(_), Some(file)) => {
                    let found = in_passfile(Path::new(&file), &config).map_err(|error| wrong(format!("{file}: {error}")))?;
                    if let Some(password) = found {
                        config.password(password);
                    }
                }
                (Err(_), None) => {}
            }
        }
        if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) && config.get_ssl_mode() == SslMode::Prefer {
            // No server encrypts a socket of its own machine.
            config.ssl_mode(SslMode::Disable);
        }
        if config.get_keepalives_idle() > KEEPALIVE {
            config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE / 2).keepalives_retries(3);
        }
        if config.get_tcp_user_timeout().is_none() {
            // While sent data has no acknowledgement, the system asks nothing, and would wait for a quarter of an hour.
            config.tcp_user_timeout(KEEPALIVE * 2);
        }
        if config.get_application_name().is_none() {
            config.application_name("baton");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let direct = match own("direct") {
            None => None,
            Some((_, place)) => {
                Some(elsewhere(&config, &unescaped(place)).ok_or_else(|| wrong("`direct` is not HOST:PORT".to_owned()))?)
            }
        };
        let is_prepared = match own("prepared") {
            None | Some((_, "off")) => false,
            Some((_, "on")) => true,
            Some(_) => return Err(wrong("`prepared` is neither on nor off".to_owned())),
        };
        Ok(Self { config, direct, is_prepared })
    }

    /// Returns the settings of connections.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the settings of the connection that listens.
    pub(super) fn direct(&self) -> &Config {
        self.direct.as_ref().unwrap_or(&self.config)
    }

    /// Whether connections keep the plans of their statements, by prepared statements.
    pub(super) fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// Returns how connections are encrypted.
    pub(super) fn tls(&self) -> Result<Tls, StoreError> {
        let is_required = self.config.get_ssl_mode() == SslMode::Require;
        Tls::new(is_required).map_err(|what| StoreError::Address { what })
    }

    /// Returns the address as people see it: without a password and parameters.
    pub(crate) fn shown(&self) -> String {
        let ports = self.config.get_ports();
        let mut places = Vec::new();
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(index).or_else(|| ports.first()).copied().unwrap_or(5432);
            places.push(match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(folder) => format!("{}:{port}", folder.display()),
            });
        }
        if places.is_empty() {
            places.extend(self.config.get_hostaddrs().iter().map(ToString::to_string));
        }
        format!("postgres://{}/{}", places.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

/// Returns an error with its causes. None of them has the password.
pub(super) fn causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// Returns the settings for another place.
fn elsewhere(config: &Config, place: &str) -> Option<Config> {
    let (host, port) = place.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let mut other = Config::new();
    other.host(host).port(port).ssl_mode(config.get_ssl_mode());
    other.user(config.get_user()?);
    if let Some(password) = config.get_password() {
        other.password(password);
    }
    if let Some(name) = config.get_dbname() {
        other.dbname(name);
    }
    if let Some(name) = config.get_application_name() {
        other.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        other.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        other.tcp_user_timeout(*timeout);
    }
    other.keepalives_idle(config.get_keepalives_idle()).keepalives_retries(config.get_keepalives_retries().unwrap_or(3));
    other.keepalives_interval(config.get_keepalives_interval().unwrap_or(KEEPALIVE / 2));
    Some(other)
}

/// Returns the password of the first line of a password file that fits, as libpq reads it: `host:port:database:user:password`, where `*`
/// fits everything. <https://www.postgresql.org/docs/current/libpq-pgpass.html>
fn in_passfile(file: &Path, config: &Config) -> std::io::Result<Option<String>> {
    let text = std::fs::read_to_string(file)?;
    let host = config.get_hosts().first().map_or_else(String::new, |host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(_) => "localhost".to_owned(),
    });
    let port = config.get_ports().first().unwrap_or(&5432).to_string();
    let (database, user) = (config.get_dbname().or(config.get_user()), config.get_user());
    let wanted = [host.as_str(), &port, database.unwrap_or_default(), user.unwrap_or_default()];
    let fits = |line: &str| {
        let fields = fields(line);
        let is_wanted = |(found, wanted): (&String, &&str)| found == "*" || found == *wanted;
        (fields.len() == 5 && fields.iter().zip(&wanted).all(is_wanted)).then(|| fields[4].clone())
    };
    Ok(text.lines().filter(|line| !line.starts_with('#')).find_map(fits))
}

/// Returns the fields of a line, where a backslash takes the next character literally.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut().into_iter().for_each(|field| field.extend(rest.next())),
            other => fields.last_mut().into_iter().for_each(|field| field.push(other)),
        }
    }
    fields
}

/// Returns a parameter without its percent escapes. Bytes that are not UTF-8 are replaced.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%');
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address =
            Address::read("postgres://ann:secret@one:5433,two/runs?sslmode=disable&direct=three:5432").expect("an address");
        assert_eq!(address.shown(), "postgres://one:5433,two:5432/runs");
        assert!(!format!("{address:?}").contains("secret"));
        assert_eq!(address.direct().get_hosts(), [Host::Tcp("three".to_owned())]);
        assert_eq!(address.direct().get_password(), Some(&b"secret"[..]));
    }

    #[test]
    fn what_is_wrong_with_an_address_is_reported_without_its_password() {
        let wrong = [
            "mysql://ann:secret@one/runs",
            "postgres://ann:secret@one/runs?direct=x",
            "postgres://ann:secret@one/runs?sslmode=maybe",
        ];
        for text in wrong {
            let error = Address::read(text).expect_err(text).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_file_is_read_as_libpq_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pass");
        std::fs::write(&file, "# of tests\nother:5432:*:*:no\none:*:runs:a\\:b:yes\\:\\\\:x\n*:*:*:*:last\n").expect("a file");
        let found = |user: &str| {
            let mut config = Config::new();
            config.host("one").dbname("runs").user(user);
            in_passfile(&file, &config).expect("readable")
        };
        assert_eq!(found("a:b").as_deref(), Some("yes:\\:x"));
        assert_eq!(found("ann").as_deref(), Some("last"));
    }
}
