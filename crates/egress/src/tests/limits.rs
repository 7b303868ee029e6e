//! Servers that never end, never begin, or send too much.

use super::*;

async fn error_of(told: impl Fn() -> ServerReply + Send + Sync + 'static) -> (EgressError, Server) {
    let server = Server::new(move |_| told()).await;
    let request = brief(&server.url("open.test", "/"));
    (here().send(request, &opened("open.test")).await.unwrap_err(), server)
}

#[tokio::test]
async fn an_endless_body_ends_at_its_limit() {
    let limits = Limits { body_max_bytes: 100_000, ..Limits::default() };
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let piece = if head.contains("chunked") { "4\r\nmore\r\n" } else { "more" };
        let told = move |_: &str| ServerReply::Endless(head.into(), piece.repeat(1000).into());
        let server = Server::new(told).await;
        let request = Request { limits, ..get(&server.url("open.test", "/")) };
        let done = here().send(request, &opened("open.test")).await;
        assert_eq!(done, Err(EgressError::TooLarge { max_bytes: 100_000 }));
        server.left.notified().await;
    }
}

#[tokio::test]
async fn a_server_that_stalls_is_left() {
    for stall in [
        "",
        "HTTP/1.1 200 OK\r\nContent-",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n",
    ] {
        let (error, server) = error_of(move || ServerReply::Stall(stall.into())).await;
        assert_eq!(error, EgressError::Timeout { limit: Duration::from_millis(200) }, "{stall}");
        server.left.notified().await;
    }
}

#[tokio::test]
async fn a_drip_that_never_ends_ends_with_the_time() {
    let server = Server::new(|_| ServerReply::Endless("HTTP/1.1 200 OK\r\n\r\n".into(), b"x".to_vec())).await;
    let mut request = brief(&server.url("open.test", "/"));
    request.limits.body_max_bytes = usize::MAX;
    let done = here().send(request, &opened("open.test")).await;
    assert_eq!(done, Err(EgressError::Timeout { limit: Duration::from_millis(200) }));
    server.left.notified().await;
}

#[tokio::test]
async fn a_fetch_that_is_dropped_leaves() {
    let server = Server::new(|_| ServerReply::Stall(Vec::new())).await;
    let request = get(&server.url("open.test", "/"));
    let begun = tokio::spawn(async move { here().send(request, &opened("open.test")).await });
    while server.heads().is_empty() {
        tokio::task::yield_now().await;
    }
    begun.abort();
    server.left.notified().await;
}

#[tokio::test]
async fn headers_have_a_limit() {
    let head = "HTTP/1.1 200 OK\r\n";
    for (told, too_large) in [
        (ServerReply::Endless(head.into(), format!("X-Big: {}\r\n", "x".repeat(5_000)).into()), true),
        (ServerReply::Endless(format!("{head}X-Big: ").into(), "x".repeat(10_000).into()), true),
        (ServerReply::Endless("HTTP/1.1 200 ".into(), "O".repeat(10_000).into()), true),
        (ServerReply::ok(&"X-Many: 1\r\n".repeat(2_000), ""), false),
    ] {
        let told = std::sync::Mutex::new(Some(told));
        let (error, _) = error_of(move || told.lock().unwrap().take().unwrap()).await;
        match error {
            EgressError::Headers { .. } => {}
            EgressError::Protocol { .. } if !too_large => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_not_http_is_said() {
    for told in ["SSH-2.0-OpenSSH_9.9\r\n", "+PONG\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n", "\0\0\0\0\r\n\r\n"] {
        let (error, _) = error_of(move || ServerReply::Bytes(told.into())).await;
        assert!(error.to_string().starts_with("`open.test` did not answer in HTTP: "), "{error}");
    }
    let (error, _) =
        error_of(|| ServerReply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx".into())).await;
    assert!(matches!(error, EgressError::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn nobody_there_is_said() {
    let server = Server::new(|_| ServerReply::Bytes(Vec::new())).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let done = here().send(brief(&format!("http://open.test:{port}/")), &opened("open.test")).await;
    let Err(EgressError::Connect { host, port: said, .. }) = done else { panic!("{done:?}") };
    assert_eq!((host.as_str(), said), ("open.test", port));
    // The second address is tried if the first does not respond.
    let egress = Egress::resolving(ScriptedResolver::new(&[&["127.0.0.77", "127.0.0.1"]]));
    let done = egress.send(get(&server.url("open.test", "/")), &opened("open.test")).await;
    assert!(matches!(done, Err(EgressError::Protocol { .. })), "{done:?}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_status_is_an_answer() {
    for status in [204, 404, 500] {
        let told = move |_: &str| {
            ServerReply::Bytes(
                format!("HTTP/1.1 {status} X\r\nContent-Type: text/x\r\nContent-Length: 0\r\n\r\n").into(),
            )
        };
        let server = Server::new(told).await;
        let answer = answer(here().send(get(&server.url("open.test", "/")), &opened("open.test")).await);
        assert_eq!((answer.status, answer.content_type.as_deref()), (status, Some("text/x")));
    }
}
