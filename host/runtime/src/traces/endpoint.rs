//! The address of a collector.

use std::fmt;

/// The path of traces in OTLP over HTTP.
const PATH: &str = "/v1/traces";

/// Where traces go: `http://HOST:PORT`, and perhaps a path in front of `/v1/traces`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The host and the port, as the system looks them up.
    pub(crate) address: String,
    /// The path, to its end.
    pub(crate) path: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

impl Endpoint {
    /// Reads it.
    ///
    /// # Errors
    /// What to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!("{text:?} {why}: write http://HOST:PORT, as in \"http://127.0.0.1:4318\""))
        };
        if text.starts_with("https://") {
            return Err(format!(
                "{text:?} asks for TLS, which this program does not speak with collectors: run one beside the replica, name it as \
                 \"http://127.0.0.1:4318\", and let it pass the traces on with TLS"
            ));
        }
        let Some(rest) = text.strip_prefix("http://") else { return wrong("does not begin with http://") };
        if !rest.chars().all(|c| c.is_ascii_graphic()) {
            return wrong("has spaces, or characters that no address has");
        }
        if rest.contains(['?', '#', '@', '"', '\\']) {
            return wrong("has more than a host, a port and a path");
        }
        let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let Some((host, port)) = address.rsplit_once(':') else { return wrong("names no port") };
        if host.is_empty() || host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
            return wrong("names no host");
        }
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return wrong("names no port from 1 to 65535");
        }
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix(PATH).unwrap_or(path);
        Ok(Self { address: address.to_owned(), path: format!("{path}{PATH}") })
    }
}
