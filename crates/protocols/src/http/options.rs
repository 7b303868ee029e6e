//! How a server listens, and what keeps it from starting.

use std::net::SocketAddr;

use posse_setup::{OpenError, SetupError};

use super::access::{ServerAddress, is_host, is_origin};
use super::tls::{TlsError, TlsFiles};
use super::token::TokenError;

/// How a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Whether clients on other machines may reach it. Then they reach it through TLS.
    pub allow_remote: bool,
    /// The certificate, if it speaks TLS itself.
    pub tls: Option<TlsFiles>,
    /// Whether a proxy in front of it speaks TLS.
    pub behind_proxy: bool,
    /// The names and addresses by which clients on other machines reach it, without ports.
    pub hosts: Vec<String>,
    /// The origins of other pages that may use the API with a token, as browsers send them.
    pub origins: Vec<String>,
}

impl ServeOptions {
    /// A server for clients of this machine.
    pub fn local(listen: SocketAddr) -> Self {
        Self {
            listen,
            allow_remote: false,
            tls: None,
            behind_proxy: false,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Refuses what would put a token on a network in plain text, or accept requests for any name.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        if let Some(wrong) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(ServeError::NoHost(wrong.clone()));
        }
        if let Some(wrong) = self.origins.iter().find(|origin| !is_origin(origin)) {
            return Err(ServeError::NoOrigin(wrong.clone()));
        }
        let is_loopback = self.listen.ip().is_loopback();
        if is_loopback && self.hosts.is_empty() && !self.behind_proxy {
            return Ok(());
        }
        if !self.allow_remote {
            return Err(ServeError::NotAllowed(self.listen));
        }
        if self.tls.is_none() && !self.behind_proxy {
            return Err(ServeError::NotEncrypted(self.listen));
        }
        if self.hosts.is_empty() && (self.behind_proxy || self.listen.ip().is_unspecified()) {
            return Err(ServeError::HostsMissing);
        }
        Ok(())
    }

    /// How clients reach a server that listens like this.
    pub(super) fn reached(&self) -> ServerAddress {
        let mut hosts = self.hosts.clone();
        if !self.listen.ip().is_unspecified() {
            hosts.push(self.listen.ip().to_string());
        }
        let is_encrypted = self.tls.is_some() || self.behind_proxy;
        ServerAddress { hosts, is_encrypted, origins: self.origins.clone() }
    }
}

/// Why a server did not start. Nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other machines could reach it, and that was not allowed.
    #[error("{0} can be reached from other machines, and that is not allowed")]
    NotAllowed(SocketAddr),
    /// Other machines could reach it without encryption.
    #[error("{0} can be reached from other machines, and nothing encrypts what they send")]
    NotEncrypted(SocketAddr),
    /// Nothing says by which name others reach it.
    #[error("the name by which clients reach the server is missing")]
    HostsMissing,
    /// A name that no client can write.
    #[error("`{0}` is not the name or the address of a host")]
    NoHost(String),
    /// A text that no browser sends as the origin of a page.
    #[error("`{0}` is not the origin of a page")]
    NoOrigin(String),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The state directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl From<SetupError> for ServeError {
    fn from(error: SetupError) -> Self {
        Self::Open(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(listen: &str) -> ServeOptions {
        ServeOptions::local(listen.parse().expect("an address"))
    }

    #[test]
    fn what_others_can_reach_is_allowed_encrypted_and_named() {
        let tls = Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() });
        let hosts = vec!["posse.example".to_owned()];
        let open = ServeOptions { allow_remote: true, ..options("0.0.0.0:1") };
        let named = ServeOptions { hosts: hosts.clone(), ..open.clone() };
        for (options, is_accepted) in [
            (options("127.0.0.1:1"), true),
            (options("[::1]:1"), true),
            (ServeOptions { tls: tls.clone(), ..options("127.0.0.1:1") }, true),
            (options("0.0.0.0:1"), false),
            (ServeOptions { hosts: hosts.clone(), ..options("127.0.0.1:1") }, false),
            (ServeOptions { behind_proxy: true, ..options("127.0.0.1:1") }, false),
            (ServeOptions { tls: tls.clone(), ..options("192.0.2.1:1") }, false),
            (named.clone(), false),
            (ServeOptions { tls: tls.clone(), ..open.clone() }, false),
            (ServeOptions { behind_proxy: true, ..open }, false),
            (ServeOptions { tls: tls.clone(), ..named.clone() }, true),
            (ServeOptions { tls: tls.clone(), allow_remote: true, ..options("192.0.2.1:1") }, true),
            (ServeOptions { behind_proxy: true, ..named.clone() }, true),
            (ServeOptions { tls, hosts: vec!["posse.example:1".to_owned()], ..named }, false),
            (
                ServeOptions { origins: vec!["https://tool.example".to_owned()], ..options("127.0.0.1:1") },
                true,
            ),
            (ServeOptions { origins: vec!["*".to_owned()], ..options("127.0.0.1:1") }, false),
        ] {
            assert_eq!(options.check().is_ok(), is_accepted, "{options:?}");
        }
    }
}
