//! HTTPS with a test root certificate.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;

use super::*;

// Created for these tests: a root, and a certificate that it issued for `localhost`.
const ROOT: &[u8] = include_bytes!("../certificates/root.der");
const LEAF: &[u8] = include_bytes!("../certificates/leaf.der");
const LEAF_KEY: &[u8] = include_bytes!("../certificates/leaf-key.der");

/// Limit of requests that servers accept over one connection.
const MAX_STREAMS: u32 = 100;

/// A server with one version of HTTP that answers only after `together` requests have arrived. Returns its port and its
/// number of connections.
async fn secure_server(version: Version, together: usize) -> (u16, Arc<AtomicUsize>) {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(LEAF_KEY));
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(LEAF)], key)
        .unwrap();
    let is_newer = version == Version::HTTP_2;
    config.alpn_protocols = vec![if is_newer { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::<AtomicUsize>::default();
    let count = connections.clone();
    let barrier = Arc::new(Barrier::new(together));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            count.fetch_add(1, Ordering::SeqCst);
            let io = TokioIo::new(stream);
            let barrier = barrier.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let barrier = barrier.clone();
                    async move {
                        assert_eq!(request.version(), version);
                        barrier.wait().await;
                        let body = Full::new(Bytes::from(super::stream("anthropic", "thinking")));
                        Ok::<_, Infallible>(Response::new(body))
                    }
                });
                if is_newer {
                    let mut server = http2::Builder::new(TokioExecutor::new());
                    server.max_concurrent_streams(MAX_STREAMS).serve_connection(io, service).await.ok();
                } else {
                    http1::Builder::new().serve_connection(io, service).await.ok();
                }
            });
        }
    });
    (port, connections)
}

fn trusting() -> Http {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(ROOT)).unwrap();
    Http::trusting(roots)
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_and_one_connection_of_the_newer_carries_many_calls() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let (port, connections) = secure_server(version, 1).await;
        let endpoint = endpoint(Format::Anthropic, &format!("https://localhost:{port}"));
        let model = remote(&endpoint, "claude-x", FACTS, &trusting());
        call(&*model).await.expect("a reply");
        let replies = futures::future::join_all((0..20).map(|_| call(&*model))).await;
        assert!(replies.iter().all(|reply| reply.as_ref().is_ok_and(|reply| reply.reply.raw.is_some())));
        if version == Version::HTTP_2 {
            assert_eq!(connections.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test]
async fn more_calls_than_a_connection_takes_do_not_wait_for_each_other() {
    // No call is answered before all have arrived.
    let (port, connections) = secure_server(Version::HTTP_2, 150).await;
    let endpoint = endpoint(Format::Anthropic, &format!("https://localhost:{port}"));
    let model = remote(&endpoint, "claude-x", FACTS, &trusting());
    let replies = futures::future::join_all((0..150).map(|_| call(&*model))).await;
    assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), 150);
    assert!(connections.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn a_server_that_does_not_prove_its_name_is_told_nothing() {
    let (port, connections) = secure_server(Version::HTTP_11, 1).await;
    for (http, host) in [(trusting(), "127.0.0.1"), (Http::trusting(RootCertStore::empty()), "localhost")] {
        let endpoint = endpoint(Format::Chat, &format!("https://{host}:{port}"));
        let failure = call(&*remote(&endpoint, "m", FACTS, &http)).await.expect_err("a failure");
        assert!(failure.error.message.contains("certificate"), "{}", failure.error.message);
        assert_eq!(failure.usage, Some(Usage::ZERO));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}
