//! Tests of `webfetch`: the shown pages, and the messages in other cases.

use super::web::{Server, answer, approve, call, here, redirect};
use super::*;
use crate::webfetch;

/// An agent that may reach `site.example`, which is this machine.
fn bench() -> Bench {
    let mut bench = Bench::new();
    approve(&mut bench, &["webfetch:site.example"]);
    bench
}

fn fetch(bench: &Bench, server: &Server, path: &str) -> Result<String, ToolFailure> {
    call(bench, &webfetch(here()), json!({"url": server.url("site.example", path)}))
}

#[test]
fn a_page_is_shown_with_where_it_came_from() {
    let bench = bench();
    let server = Server::new(&bench, |_| {
        answer(
            200,
            "text/html; charset=utf-8",
            "<html><head><title>A\n page</title></head><body><h1>Things</h1><p>One <a href=/x>two</a>.\u{1b}[31m</p>",
        )
    });
    let port = server.port();
    assert_eq!(
        fetch(&bench, &server, "/a?b#c").unwrap(),
        format!(
            "URL: http://site.example:{port}/a?b\nStatus: 200\nType: text/html\nTitle: A page\n\n## Things\n\nOne \
             [two](http://site.example:{port}/x).\\[31m\n[end of page]"
        )
    );
    let request = &server.requests()[0];
    assert!(
        request.starts_with("GET /a?b HTTP/1.1\r\n") && request.contains("user-agent: posse/"),
        "{request}"
    );
}

#[test]
fn text_is_shown_as_it_is() {
    let bench = bench();
    let server = Server::new(&bench, |_| answer(200, "application/json", "{\"a\": [1, 2]}"));
    let text = fetch(&bench, &server, "/").unwrap();
    assert!(text.ends_with("Type: application/json\n\n{\"a\": [1, 2]}\n[end of page]"), "{text}");
}

#[test]
fn a_long_page_is_read_in_parts() {
    let bench = bench();
    let line = "ä line of the page that goes on for a while\n";
    let server = Server::new(&bench, move |_| answer(200, "text/plain", line.repeat(3_000)));
    let tool = webfetch(here());
    let url = server.url("site.example", "/");
    let (mut whole, mut start) = (String::new(), 0);
    loop {
        let text = call(&bench, &tool, json!({"url": url, "start": start})).unwrap();
        assert!(text.len() <= crate::answer::ANSWER_MAX_BYTES, "{}", text.len());
        let body = text.split_once("\n\n").unwrap().1;
        let (shown, note) = body.rsplit_once("\n[").unwrap();
        whole.push_str(shown);
        match note.split_once("go on with start ") {
            Some((_, next)) => start = next.trim_end_matches(']').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(whole, line.repeat(3_000));
    let failure = call(&bench, &tool, json!({"url": url, "start": 1_000_000})).unwrap_err();
    assert_eq!(failure.code, Code::InvalidInput);
    assert!(failure.text.contains("`start` is 1000000, but the page's text has only 132000 characters"));
}

#[test]
fn redirects_on_the_host_are_followed_and_others_are_told() {
    let bench = bench();
    let server = Server::new(&bench, |request| match request.split(' ').nth(1).unwrap() {
        "/old" => redirect("/new"),
        "/away" => redirect("https://www.site.example/new"),
        "/file" => redirect("file:///etc/passwd"),
        "/loop" => redirect("/loop"),
        _ => answer(200, "text/plain", "here"),
    });
    let text = fetch(&bench, &server, "/old").unwrap();
    assert!(text.starts_with(&format!("URL: {}\n", server.url("site.example", "/new"))), "{text}");
    assert_eq!(
        fetch(&bench, &server, "/away").unwrap(),
        format!(
            "{} redirects to another host: https://www.site.example/new\n[nothing was fetched from there; call \
             `webfetch` with that URL if you want it]",
            server.url("site.example", "/away")
        )
    );
    let failure = fetch(&bench, &server, "/file").unwrap_err();
    assert!(
        failure.text.contains("the redirect to `file:///etc/passwd` is not followed"),
        "{}",
        failure.text
    );
    let failure = fetch(&bench, &server, "/loop").unwrap_err();
    assert!(failure.text.contains("more than 5 redirects"), "{}", failure.text);
}

#[test]
fn an_error_of_the_server_is_a_failure_with_what_it_says() {
    let bench = bench();
    let server = Server::new(&bench, |request| match request.split(' ').nth(1).unwrap() {
        "/gone" => answer(404, "text/html", "<h1>Not here</h1>"),
        "/long" => answer(500, "text/plain", "x".repeat(100_000)),
        "/picture" => answer(403, "image/png", "x"),
        _ => answer(304, "text/plain", ""),
    });
    let failure = fetch(&bench, &server, "/gone").unwrap_err();
    assert_eq!(failure.code, Code::ToolError);
    assert_eq!(
        failure.text,
        format!("{} answered with status 404. It says: ## Not here", server.url("site.example", "/gone"))
    );
    assert!(fetch(&bench, &server, "/long").unwrap_err().text.len() < 700);
    assert!(fetch(&bench, &server, "/picture").unwrap_err().text.ends_with("answered with status 403."));
    assert!(fetch(&bench, &server, "/same").unwrap_err().text.ends_with("answered with status 304."));
}

#[test]
fn what_cannot_be_shown_is_refused_with_its_kind_and_size() {
    let bench = bench();
    let server = Server::new(&bench, |request| match request.split(' ').nth(1).unwrap() {
        "/picture" => answer(200, "image/png", b"\x89PNG\r\n\x1a\n"),
        "/pdf" => answer(200, "application/pdf", "%PDF-1.7"),
        "/deep" => answer(200, "text/html", "<div>".repeat(100_000)),
        "/wide" => answer(200, "text/html", "<b>x</b>".repeat(120_000)),
        "/attributes" => {
            let many = (0..500_000).map(|n| format!(" a{n}")).collect::<Vec<_>>().concat();
            answer(200, "text/html", format!("<p{many}>"))
        }
        _ => answer(200, "text/plain", "x".repeat(6 << 20)),
    });
    for (path, code, said) in [
        ("/picture", Code::Unsupported, "The page was fetched, but it is not text (image/png, 8 bytes)"),
        ("/pdf", Code::Unsupported, "The page was fetched, but it is a PDF document (8 bytes)"),
        ("/deep", Code::Unsupported, "The page was fetched, but its HTML is too deeply nested"),
        ("/wide", Code::Unsupported, "The page was fetched, but its HTML has too many parts"),
        ("/attributes", Code::Unsupported, "The page was fetched, but its HTML has too many attributes"),
        (
            "/large",
            Code::ToolError,
            "Nothing was fetched: the answer has more than the 5242880 bytes accepted.",
        ),
    ] {
        let failure = fetch(&bench, &server, path).unwrap_err();
        assert_eq!(failure.code, code, "{}", failure.text);
        assert!(failure.text.starts_with(said), "{}", failure.text);
    }
}

#[test]
fn a_url_that_cannot_be_read_is_answered_precisely() {
    let bench = bench();
    for (url, problem) in [
        ("", "`url` must begin with `http://` or `https://`"),
        ("not a url", "`url` must begin with `http://` or `https://`"),
        ("file:///etc/passwd", "`url` must begin with `http://` or `https://`"),
        ("http://", "`url` has no valid host"),
        ("http://a b/", "`url` has no valid host"),
        ("http://me:word@docs.rs/", "`url` must not contain a user name or password"),
        ("http://docs.rs:99999/", "`url` has no valid port"),
        ("http://docs.rs/\0", "`url` contains a control character or a backslash"),
    ] {
        let text = bench.fails("webfetch", json!({"url": url}), Code::InvalidInput);
        assert!(text.starts_with(&format!("Invalid input for `webfetch`: {problem}")), "{text}");
        assert!(text.ends_with("Nothing was done.") && !text.contains("word@"), "{text}");
    }
}

#[test]
fn a_call_has_no_more_time_than_its_limit() {
    let mut bench = bench();
    bench.call.limit = std::time::Duration::from_millis(100);
    let listener = bench.runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://site.example:{}/", listener.local_addr().unwrap().port());
    let failure = call(&bench, &webfetch(here()), json!({"url": url})).unwrap_err();
    assert_eq!(failure.code, Code::Timeout, "{}", failure.text);
    assert_eq!(
        failure.text,
        "Nothing was fetched: there was no complete answer within 0.1 seconds. The server is too slow or does not end."
    );
}
