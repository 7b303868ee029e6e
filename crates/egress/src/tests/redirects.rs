//! Redirects: each is checked, few are followed.

use super::*;

async fn redirecting_to(to: &'static str) -> Server {
    Server::new(
        move |line| if line.contains(" / ") { ServerReply::redirect(to) } else { ServerReply::ok("", "end") },
    )
    .await
}

#[tokio::test]
async fn the_same_host_is_followed() {
    for to in ["/end", "end", "?x", "//open.test:PORT/end"] {
        let server = Server::new(move |line| {
            let port = line.split("port=").nth(1).and_then(|rest| rest.split(' ').next());
            match port {
                Some(port) => ServerReply::redirect(&to.replace("PORT", port)),
                None => ServerReply::ok("", "end"),
            }
        })
        .await;
        let url = server.url("open.test", &format!("/?port={}", server.address.port()));
        let answer = answer(here().send(get(&url), &opened("open.test")).await);
        assert_eq!(answer.body, b"end", "{to}");
        assert_eq!((answer.target.host(), server.connections()), ("open.test", 2));
    }
}

#[tokio::test]
async fn another_host_is_handed_back_and_not_reached() {
    for to in [
        "http://127.0.0.1/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://other.test/x",
        "https://www.open.test/",
        "//other.test/",
    ] {
        let server = redirecting_to(to).await;
        let resolver = ScriptedResolver::new(&[&["127.0.0.1"]]);
        let egress = Egress::resolving(resolver.clone());
        let reply = egress.send(get(&server.url("open.test", "/")), &opened("open.test")).await.unwrap();
        let Reply::Elsewhere { from, to: target } = reply else { panic!("{reply:?}") };
        assert_eq!(from.host(), "open.test");
        assert_ne!(target.host(), "open.test");
        assert_eq!((resolver.asked().len(), server.connections()), (1, 1), "{to}");
    }
}

#[tokio::test]
async fn every_hop_is_judged_again() {
    // The redirect leads to another port of the same host, and only the first port is open.
    let inner = Server::new(|_| ServerReply::ok("", "secret")).await;
    let port = inner.address.port();
    let outer = Server::new(move |_| ServerReply::redirect(&format!("http://open.test:{port}/"))).await;
    let open_port = outer.address.port();
    let openings = Openings::by(move |target| target.port() == open_port);
    let done = here().send(get(&outer.url("open.test", "/")), &openings).await;
    assert!(matches!(done, Err(EgressError::Refused { .. })), "{done:?}");
    assert_eq!((outer.connections(), inner.connections()), (1, 0));
}

#[tokio::test]
async fn another_scheme_is_not_followed() {
    for to in
        ["file:///etc/passwd", "ftp://open.test/", "gopher://open.test/", "data:text/plain,x", "javascript:1"]
    {
        let server = redirecting_to(to).await;
        let error = here().send(get(&server.url("open.test", "/")), &opened("open.test")).await.unwrap_err();
        assert_eq!(error, EgressError::BadRedirect { to: to.to_owned(), problem: UrlProblem::Scheme });
    }
    let server = redirecting_to("http://user:word@open.test/").await;
    let error = here().send(get(&server.url("open.test", "/")), &opened("open.test")).await.unwrap_err();
    assert!(matches!(error, EgressError::BadRedirect { problem: UrlProblem::UserInfo, .. }), "{error}");
}

/// Redirects `/n` to `/n-1` until `/0`.
async fn countdown() -> Server {
    Server::new(|line| {
        let number: u32 = line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if number == 0 {
            ServerReply::ok("", "end")
        } else {
            ServerReply::redirect(&format!("/{}", number - 1))
        }
    })
    .await
}

#[tokio::test]
async fn five_are_followed_and_six_are_not() {
    let server = countdown().await;
    assert_eq!(
        answer(here().send(get(&server.url("open.test", "/5")), &opened("open.test")).await).body,
        b"end"
    );
    assert_eq!(server.connections(), 6);
    let server = countdown().await;
    let error = here().send(get(&server.url("open.test", "/6")), &opened("open.test")).await.unwrap_err();
    assert_eq!(error, EgressError::Redirects { to: server.url("open.test", "/0") });
    assert_eq!(server.connections(), 6);
}

#[tokio::test]
async fn a_loop_ends() {
    let server = Server::new(|_| ServerReply::redirect("/again")).await;
    let error = here().send(get(&server.url("open.test", "/")), &opened("open.test")).await.unwrap_err();
    assert!(
        error.to_string().starts_with("more than 5 redirects; the last one leads to http://open.test"),
        "{error}"
    );
    assert_eq!(server.connections(), 6);
}

#[tokio::test]
async fn a_request_with_a_key_follows_nothing() {
    let server = redirecting_to("/end").await;
    let request = Request {
        redirects: Redirects::HandBack,
        headers: vec![("x-key", "secret".to_owned())],
        ..get(&server.url("open.test", "/"))
    };
    assert!(!format!("{request:?}").contains("secret"));
    let reply = here().send(request, &opened("open.test")).await.unwrap();
    assert!(matches!(reply, Reply::Elsewhere { .. }), "{reply:?}");
    assert!(server.heads()[0].contains("x-key: secret"));
    assert_eq!(server.connections(), 1);
}
