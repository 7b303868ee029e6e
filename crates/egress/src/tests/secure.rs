//! Fetches over https, with a root certificate of these tests.

use std::sync::Mutex;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::server::serve;
use super::*;

// Created for these tests: a root, and a certificate from it for `secure.test`.
const ROOT: &[u8] = include_bytes!("certificates/root.der");
const LEAF: &[u8] = include_bytes!("certificates/leaf.der");
const LEAF_KEY: &[u8] = include_bytes!("certificates/leaf-key.der");

async fn secure_server(says: fn(&str) -> ServerReply) -> (u16, Arc<Mutex<Vec<String>>>) {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(LEAF_KEY));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(LEAF)], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, Arc::new(says), seen.clone(), Arc::default()));
            }
        }
    });
    (port, heads)
}

fn trusting() -> Egress {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(ROOT)).unwrap();
    Egress::trusting(ScriptedResolver::new(&[&["127.0.0.1"]]), roots)
}

#[tokio::test]
async fn a_server_that_proves_its_name_is_heard() {
    let (port, heads) = secure_server(|_| ServerReply::ok("Content-Length: 6\r\n", "secure")).await;
    let url = format!("https://secure.test:{port}/");
    assert_eq!(answer(trusting().send(get(&url), &opened("secure.test")).await).body, b"secure");
    assert!(heads.lock().unwrap()[0].contains(&format!("host: secure.test:{port}")));
}

#[tokio::test]
async fn another_name_and_an_unknown_root_are_refused() {
    let (port, heads) = secure_server(|_| ServerReply::ok("", "secure")).await;
    for (egress, host) in [
        (trusting(), "other.test"),
        (trusting(), "127.0.0.1"),
        (Egress::trusting(ScriptedResolver::new(&[&["127.0.0.1"]]), RootCertStore::empty()), "secure.test"),
    ] {
        let done = egress.send(get(&format!("https://{host}:{port}/")), &opened(host)).await;
        assert!(matches!(done, Err(EgressError::Tls { .. })), "{host}: {done:?}");
    }
    assert!(heads.lock().unwrap().is_empty(), "nothing is said before the server is known");
}

#[tokio::test]
async fn a_server_without_tls_is_said() {
    let server = Server::new(|_| ServerReply::ok("", "plain")).await;
    let url = format!("https://secure.test:{}/", server.address.port());
    let done = trusting().send(brief(&url), &opened("secure.test")).await;
    assert!(matches!(done, Err(EgressError::Tls { .. } | EgressError::Timeout { .. })), "{done:?}");
}

#[tokio::test]
async fn from_https_there_is_no_way_back_to_http() {
    let (port, _) = secure_server(|line| {
        let to = line.split(['/', ' ']).nth(2).unwrap();
        ServerReply::redirect(&format!("http://secure.test:{to}/"))
    })
    .await;
    let plain = Server::new(|_| ServerReply::ok("", "plain")).await;
    let url = format!("https://secure.test:{port}/{}", plain.address.port());
    let error = trusting().send(get(&url), &opened("secure.test")).await.unwrap_err();
    assert!(matches!(error, EgressError::Downgrade { .. }), "{error}");
    assert!(error.to_string().ends_with("it leads from https back to http"));
    assert_eq!(plain.connections(), 0);
}
