//! TLS by certificate files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error as RustlsError, ServerConfig};

/// The only protocol that is spoken over it.
const PROTOCOL: &[u8] = b"http/1.1";

/// The files of a certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that certify it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {problem}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The key is that of another certificate.
    #[error("{key}: this is not the key of the certificate in {cert}", key = .key.display(), cert = .cert.display())]
    Mismatch {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
}

/// Reads a certificate with its key.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let TlsFiles { cert, key } = files;
    let failed = |path: &Path, problem: String| TlsError::File { path: path.to_owned(), problem };
    let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> =
        chain.map_err(|error| failed(cert, words(&error, "a certificate")))?;
    if chain.is_empty() {
        return Err(failed(cert, "there is no certificate in it".to_owned()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, words(&error, "a private key")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(cert, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private);
    let mut config = config.map_err(|error| match error {
        RustlsError::InconsistentKeys(_) => TlsError::Mismatch { cert: cert.clone(), key: key.clone() },
        RustlsError::InvalidCertificate(problem) => failed(cert, format!("{problem:?}")),
        other => failed(key, other.to_string()),
    })?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn words(error: &PemError, expected: &str) -> String {
    match error {
        PemError::NoItemsFound => format!("there is not {expected} in it"),
        PemError::Io(error) => error.to_string(),
        other => format!("this is not {expected} in PEM: {other}"),
    }
}
