//! A server that speaks TLS by certificate files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posse_protocols::http::{ServeError, ServeOptions, Server, TlsError, TlsFiles};
use posse_setup::{Environment, Setup};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

// Created for the tests of the client: a root, and a certificate from it for `secure.test`.
const ROOT: &[u8] = include_bytes!("../../egress/src/tests/certificates/root.der");
const LEAF: &[u8] = include_bytes!("../../egress/src/tests/certificates/leaf.der");
const LEAF_KEY: &[u8] = include_bytes!("../../egress/src/tests/certificates/leaf-key.der");

/// Writes a PEM file.
fn pem(dir: &Path, name: &str, label: &str, der: &[u8]) -> PathBuf {
    let path = dir.join(name);
    let text = STANDARD.encode(der);
    fs::write(&path, format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")).expect("a file");
    path
}

fn setup(dir: &TempDir) -> Setup {
    let state = dir.path().join("state");
    let variables =
        [("HOME".into(), dir.path().as_os_str().to_owned()), ("POSSE_HOME".into(), state.into_os_string())];
    Setup::new(Environment::new(dir.path().to_owned(), variables))
}

fn options(tls: TlsFiles) -> ServeOptions {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let hosts = vec!["secure.test".to_owned()];
    ServeOptions { allow_remote: true, tls: Some(tls), hosts, ..ServeOptions::local(listen) }
}

#[tokio::test]
async fn clients_reach_the_server_through_tls_and_its_cookie_goes_nowhere_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let cert = pem(dir.path(), "cert.pem", "CERTIFICATE", LEAF);
    let key = pem(dir.path(), "key.pem", "PRIVATE KEY", LEAF_KEY);
    let server = Server::bind(&setup(&dir), options(TlsFiles { cert, key })).await.expect("it listens");
    let (address, url) = (server.address(), server.url());
    let token = url.strip_prefix(&format!("https://secure.test:{}/?token=", address.port()));
    let token = token.unwrap_or_else(|| panic!("{url}")).to_owned();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(ROOT)).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let ask = async |request: String| {
        let connection = TcpStream::connect(address).await.expect("a connection");
        let name = ServerName::try_from("secure.test").expect("a name");
        let mut secured = connector.connect(name, connection).await.expect("TLS");
        secured.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        // The server closes the connection, with or without the farewell of TLS.
        let _ = secured.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let head = "Host: secure.test\r\nConnection: close\r\n";
    let session =
        ask(format!("GET /api/v1/session HTTP/1.1\r\n{head}Authorization: Bearer {token}\r\n\r\n")).await;
    assert!(session.starts_with("HTTP/1.1 200") && session.contains("\"token\":\"serve\""), "{session}");
    let opened = ask(format!("GET /?token={token} HTTP/1.1\r\n{head}\r\n")).await;
    assert!(opened.starts_with("HTTP/1.1 303") && opened.contains("; Secure"), "{opened}");
    let page = "Origin: http://secure.test\r\n";
    let plain =
        ask(format!("GET /api/v1/session HTTP/1.1\r\n{head}{page}Authorization: Bearer {token}\r\n\r\n"))
            .await;
    assert!(plain.starts_with("HTTP/1.1 403"), "a page without TLS: {plain}");

    // What is not TLS gets no answer, and takes no other client's.
    let mut plain = TcpStream::connect(address).await.expect("a connection");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: secure.test\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let _ = stop.send(());
    serving.await.expect("it ends");
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let cert = pem(dir.path(), "cert.pem", "CERTIFICATE", LEAF);
    let other = pem(dir.path(), "other.pem", "CERTIFICATE", ROOT);
    let key = pem(dir.path(), "key.pem", "PRIVATE KEY", LEAF_KEY);
    let text = dir.path().join("text.pem");
    fs::write(&text, "no certificate\n").expect("a file");
    let bind = async |cert: &Path, key: &Path| {
        let files = TlsFiles { cert: cert.to_owned(), key: key.to_owned() };
        match Server::bind(&setup(&dir), options(files)).await {
            Err(ServeError::Tls(error)) => error,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it listens"),
        }
    };
    let mismatch = bind(&other, &key).await;
    assert!(matches!(mismatch, TlsError::Mismatch { .. }), "{mismatch}");
    assert!(
        mismatch.to_string().contains("key.pem: this is not the key of the certificate in"),
        "{mismatch}"
    );
    for (cert, key, wrong) in
        [(&text, &key, &text), (&cert, &text, &text), (&key, &key, &key), (&cert, &cert, &cert)]
    {
        let error = bind(cert, key).await;
        assert!(matches!(&error, TlsError::File { path, .. } if path == wrong), "{error}");
    }
}
