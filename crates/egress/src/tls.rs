//! TLS connections, with the machine's root certificates.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, rustls};

use super::error::EgressError;
use super::target::Target;

/// Opens TLS connections. The machine's certificates are read when the first one is needed.
#[derive(Default)]
pub(super) struct Tls {
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        Self { connector: OnceCell::new_with(Some(connector(roots).unwrap())) }
    }

    pub(super) async fn connect(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, EgressError> {
        let failed = |why: String| EgressError::Tls { host: target.host().to_owned(), why };
        let connector = self.connector.get_or_try_init(of_this_machine).await?;
        let name = match target.ip() {
            Some(ip) => ServerName::IpAddress(ip.into()),
            None => {
                ServerName::try_from(target.host().to_owned()).map_err(|error| failed(error.to_string()))?
            }
        };
        connector.connect(name, stream).await.map_err(|error| failed(error.to_string()))
    }
}

async fn of_this_machine() -> Result<TlsConnector, EgressError> {
    let no_roots = |why: String| EgressError::NoRoots { why };
    let read = tokio::task::spawn_blocking(|| {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(found.certs);
        let why = found.errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string);
        if taken == 0 { Err(why) } else { Ok(roots) }
    });
    let roots = read.await.map_err(|error| no_roots(error.to_string()))?.map_err(no_roots)?;
    connector(roots).map_err(|error| no_roots(error.to_string()))
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
