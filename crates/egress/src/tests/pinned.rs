//! The client connects to the address that it checked.

use super::*;

#[tokio::test]
async fn a_name_is_resolved_once_and_that_address_is_reached() {
    let first = Server::on("127.0.0.1", |_| ServerReply::ok("", "first")).await;
    let resolver = ScriptedResolver::new(&[&["127.0.0.1"], &["127.0.0.9"]]);
    let egress = Egress::resolving(resolver.clone());
    let reply = egress.send(get(&first.url("flip.test", "/")), &opened("flip.test")).await;
    assert_eq!(answer(reply).body, b"first");
    assert_eq!(resolver.asked(), ["flip.test"]);
}

#[tokio::test]
async fn an_answer_that_changes_after_the_check_is_not_heard() {
    let here = Server::on("127.0.0.1", |_| ServerReply::ok("", "secret")).await;
    let resolver = ScriptedResolver::new(&[&[NOBODY], &["127.0.0.1"]]);
    let egress = Egress::resolving(resolver.clone());
    let done = egress.send(brief(&here.url("flip.test", "/")), &Openings::none()).await;
    assert!(matches!(done, Err(EgressError::Connect { .. } | EgressError::Timeout { .. })), "{done:?}");
    assert_eq!((here.connections(), resolver.asked().len()), (0, 1));
    // The next fetch resolves the name again, and checks the new answer.
    let done = egress.send(brief(&here.url("flip.test", "/")), &Openings::none()).await;
    assert!(matches!(done, Err(EgressError::Refused { .. })), "{done:?}");
    assert_eq!(here.connections(), 0);
}

#[tokio::test]
async fn one_address_that_is_not_public_refuses_them_all() {
    let here = Server::on("127.0.0.1", |_| ServerReply::ok("", "secret")).await;
    for answer in [[NOBODY, "127.0.0.1"], ["127.0.0.1", NOBODY], ["::ffff:127.0.0.1", NOBODY]] {
        let egress = Egress::resolving(ScriptedResolver::new(&[&answer]));
        let error = egress.send(brief(&here.url("both.test", "/")), &Openings::none()).await.unwrap_err();
        assert!(error.to_string().starts_with("`both.test` leads to "), "{error}");
    }
    assert_eq!(here.connections(), 0);
}

#[tokio::test]
async fn an_error_names_the_address_and_what_it_is() {
    let resolver = ScriptedResolver::new(&[&["169.254.169.254"]]);
    let error = Egress::resolving(resolver)
        .send(get("http://metadata.google.internal/"), &Openings::none())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`metadata.google.internal` leads to 169.254.169.254, which is a link-local or metadata address, and only \
         public addresses are fetched"
    );
    let error = here().send(get("http://[::1]/"), &Openings::none()).await.unwrap_err();
    assert_eq!(error.to_string(), "`[::1]` is a loopback address, and only public addresses are fetched");
}

#[tokio::test]
async fn what_is_open_opens_nothing_else() {
    let server = Server::new(|_| ServerReply::ok("", "here")).await;
    let openings = opened("open.test");
    assert_eq!(answer(here().send(get(&server.url("open.test", "/")), &openings).await).body, b"here");
    for other in ["other.test", "open.test.evil.example", "xopen.test", "127.0.0.1", "localhost"] {
        let done = here().send(get(&server.url(other, "/")), &openings).await;
        assert!(matches!(done, Err(EgressError::Refused { .. })), "{other}: {done:?}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn ports_of_other_protocols_are_refused_unless_opened() {
    for port in [1, 21, 22, 25, 81, 110, 993, 5432, 6379, 11211, 6000] {
        let url = format!("http://docs.test:{port}/");
        let done = here().send(get(&url), &Openings::none()).await;
        assert_eq!(done, Err(EgressError::Port { host: "docs.test".into(), port }));
        let done = here().send(brief(&url), &opened("docs.test")).await;
        assert!(!matches!(done, Err(EgressError::Port { .. })), "{done:?}");
    }
}

#[tokio::test]
async fn a_name_without_an_address_says_so() {
    let egress = Egress::resolving(ScriptedResolver::new(&[&[]]));
    let error = egress.send(get("http://nowhere.test/"), &Openings::none()).await.unwrap_err();
    assert_eq!(error.to_string(), "the name `nowhere.test` cannot be resolved: it has no address");
}

#[tokio::test]
async fn a_request_tells_only_what_it_must() {
    let server = Server::new(|_| ServerReply::ok("Set-Cookie: a=b\r\n", "x")).await;
    let url = server.url("open.test", "/a b?c={d}#fragment");
    for _ in 0..2 {
        answer(here().send(get(&url), &opened("open.test")).await);
    }
    for head in server.heads() {
        let lines: Vec<&str> = head.trim_end().lines().collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            lines,
            [
                "GET /a%20b?c={d} HTTP/1.1",
                &format!("host: open.test:{}", server.address.port()),
                &format!("user-agent: posse/{version}"),
                "accept: */*",
                "accept-encoding: gzip, br, deflate",
                "connection: close",
            ]
        );
    }
}
