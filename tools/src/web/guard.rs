//! Which addresses on the web may be asked: judged from the URL first, then from every address that its host resolves to.
//!
//! A URL comes from a model or from a page. So it may try to reach addresses that only this machine can reach: its own ports,
//! its local network, the metadata of its cloud. Only the public internet is allowed, on the ports of the web. A person names
//! each other host, such as a search engine of their own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// The longest URL that is read.
const MAX_URL_BYTES: usize = 4_096;
/// The ports of the web.
const PORTS: [u16; 2] = [80, 443];
/// Names that never leave a machine or its network (RFC 6761, RFC 6762, RFC 8375, and `internal`, which ICANN reserved in
/// 2024 and clouds use for their metadata).
const PRIVATE_NAMES: [&str; 6] = ["localhost", "localdomain", "local", "internal", "home.arpa", "onion"];

/// Blocks of IPv4 that are not the public internet (IANA's registry of special-purpose addresses), and one address of the
/// public internet behind which a cloud keeps what its machines alone may see.
#[rustfmt::skip]
const BLOCKED_V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::UNSPECIFIED, 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier's network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's own services"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "the local link"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay to IPv6"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for measurements"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Blocks of global unicast IPv6 that lead elsewhere than they seem to, or nowhere.
#[rustfmt::skip]
const BLOCKED_V6: [(Ipv6Addr, u32, &str); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "for protocols such as Teredo"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
];

/// Why an address is not asked. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no URL.
    #[error("{url:?} is not a web address: {reason}")]
    NoUrl {
        /// The given address, shortened.
        url: String,
        /// The fault.
        reason: String,
    },
    /// It is a URL of another kind.
    #[error("{scheme}: addresses are not allowed; use http: or https:")]
    Scheme {
        /// Its kind.
        scheme: String,
    },
    /// It carries a name or password.
    #[error("an address with a user name or password is not allowed")]
    Credentials,
    /// It names a port that is not the web's.
    #[error("port {port} is not allowed; use port 80 or 443, or one that the tool's settings allow")]
    Port {
        /// The port.
        port: u16,
    },
    /// Its name belongs to this machine or its network.
    #[error("{host} is a name of this machine or its network, which is not allowed")]
    PrivateName {
        /// The name.
        host: String,
    },
    /// It is, or resolves to, an address that is not public.
    #[error("{host} resolves to {address}, which is not public ({what}) and not allowed")]
    PrivateAddress {
        /// The host.
        host: String,
        /// The address.
        address: IpAddr,
        /// Kind of the address.
        what: &'static str,
    },
    /// Its name resolves to nothing.
    #[error("{host} has no address: {reason}")]
    NoAddress {
        /// The name.
        host: String,
        /// Why.
        reason: String,
    },
    /// A page sends from an encrypted connection to one that is not.
    #[error("it redirects from https to http, which is not followed")]
    Downgrade,
}

/// Returns the kind of `address`, if it is not public.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => BLOCKED_V4
            .iter()
            .find(|(block, bits, _)| (address.to_bits() ^ block.to_bits()) >> (32 - bits) == 0)
            .map(|(_, _, what)| *what),
        // Everything outside of global unicast is refused: loopback, link-local and unique local addresses, multicast, and
        // all that carry an IPv4 address along (mapped, compatible, translated).
        IpAddr::V6(address) if address.segments()[0] & 0xe000 != 0x2000 => Some("not global IPv6"),
        IpAddr::V6(address) => BLOCKED_V6
            .iter()
            .find(|(block, bits, _)| (address.to_bits() ^ block.to_bits()) >> (128 - bits) == 0)
            .map(|(_, _, what)| *what),
    }
}

/// Hosts and ports that a person allows in addition to public hosts on the ports of the web.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    hosts: Vec<(String, Option<u16>)>,
    ports: Vec<u16>,
}

impl Allowed {
    /// Allows further `ports` of public hosts, and `hosts` that need not be public, written `host` or `host:port`; the error
    /// names the first that is none.
    pub fn parse<'a>(hosts: impl IntoIterator<Item = &'a str>, ports: Vec<u16>) -> Result<Self, Refusal> {
        let read = |text: &str| {
            let is_bare = !text.contains(['/', '@', '?', '#', '\\']);
            let url = is_bare.then(|| Url::parse(&format!("http://{text}/")).ok()).flatten();
            // The parser drops the port 80 as the usual one; written out, it is meant.
            let port = text.ends_with(":80").then_some(80);
            let host = url.and_then(|url| Some((url.host_str()?.to_owned(), url.port().or(port))));
            host.ok_or_else(|| no_url(text, "an allowed host is written host or host:port"))
        };
        Ok(Self { hosts: hosts.into_iter().map(read).collect::<Result<_, _>>()?, ports })
    }

    /// Returns the host of `url` on its port, and nothing else.
    pub fn only(url: &Url) -> Self {
        let host = url.host_str().map(|host| (host.to_owned(), url.port_or_known_default()));
        Self { hosts: host.into_iter().collect(), ports: Vec::new() }
    }

    /// Whether the host of `url` is named, on its port.
    pub fn names(&self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or_default();
        self.hosts.iter().any(|(host, allowed)| {
            url.host_str() == Some(host) && allowed.map_or_else(|| PORTS.contains(&port), |allowed| allowed == port)
        })
    }

    fn has_port(&self, port: u16) -> bool {
        PORTS.contains(&port) || self.ports.contains(&port)
    }
}

/// Reads a URL as browsers do (so that `http://0x7f.1/` is `127.0.0.1`), but strictly: what a browser would drop silently,
/// such as a line break in the middle of a name, is refused.
pub(super) fn parse(text: &str) -> Result<Url, Refusal> {
    if text.len() > MAX_URL_BYTES {
        return Err(no_url(text, "it is too long"));
    }
    if text.chars().any(|character| character.is_control() || character.is_whitespace() || character == '\\') {
        return Err(no_url(text, "it has blanks, line breaks, control characters or backslashes in it"));
    }
    Url::parse(text).map_err(|error| no_url(text, &error.to_string()))
}

/// Refuses `url` if its text alone is enough for that. A name that passes must still be resolved.
pub(super) fn check(url: &Url, allowed: &Allowed) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme { scheme: url.scheme().to_owned() });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::Credentials);
    }
    let Some(host) = url.host_str() else { return Err(no_url(url.as_str(), "it names no host")) };
    if allowed.names(url) {
        return Ok(());
    }
    let port = url.port_or_known_default().unwrap_or_default();
    if !allowed.has_port(port) {
        return Err(Refusal::Port { port });
    }
    if let Some(address) = literal(url) {
        return vet(host, &[address]);
    }
    let name = host.trim_end_matches('.');
    let is_private = |private: &str| name == private || name.ends_with(&format!(".{private}"));
    if PRIVATE_NAMES.into_iter().any(is_private) {
        return Err(Refusal::PrivateName { host: host.to_owned() });
    }
    Ok(())
}

/// Refuses the host if any of its addresses is not public: one that hides among public ones may be the one connected to.
pub(super) fn vet(host: &str, addresses: &[IpAddr]) -> Result<(), Refusal> {
    let found = addresses.iter().find_map(|address| not_public(*address).map(|what| (*address, what)));
    match found {
        Some((address, what)) => Err(Refusal::PrivateAddress { host: host.to_owned(), address, what }),
        None => Ok(()),
    }
}

/// Returns the IP address in `url`, if it has one in place of a name.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn no_url(text: &str, reason: &str) -> Refusal {
    Refusal::NoUrl { url: text.chars().take(100).collect(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_every_block_are_where_the_registry_has_them() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::1",
            "2003::1",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "3ffe::1",
        ];
        for address in public {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
        let blocked = [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in blocked {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn a_host_is_allowed_on_its_port_alone() {
        let allowed = Allowed::parse(["Search.Example:8888", "10.0.0.7", "[::1]:80"], vec![8080]).unwrap();
        let asks = |url: &str| check(&parse(url).unwrap(), &allowed).is_ok();
        assert!(asks("http://search.example:8888/search") && asks("https://10.0.0.7/") && asks("http://[::1]/"));
        assert!(asks("http://example.com:8080/"));
        for refused in [
            "http://127.0.0.1:8080/",
            "http://example.com:8081/",
            "http://search.example:8889/",
            "http://10.0.0.7:8888/",
            "http://10.0.0.8/",
            "https://[::1]/",
        ] {
            assert!(!asks(refused), "{refused}");
        }
        for broken in ["http://a", "a/b", "u@a", "a:b", ""] {
            assert!(Allowed::parse([broken], Vec::new()).is_err(), "{broken}");
        }
    }
}
