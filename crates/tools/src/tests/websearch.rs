//! Tests of `websearch` with each of its providers.

use super::web::{Server, answer, call, here, redirect};
use super::*;
use crate::{Search, websearch};

const KEY: &str = "canary-key-7c1f";

/// Every provider at this URL, with its response for two pages and for none.
fn providers(url: &str) -> Vec<(&'static str, Search, String, &'static str)> {
    let page = |excerpt: &str, n: u32| {
        json!({"title": format!("Page <strong>{n}</strong>"), "url": format!("https://example.org/{n}"),
            excerpt: format!("About {n} &amp; more.")})
    };
    let content = json!({"query": "q", "results": [page("content", 1), page("content", 2)], "answers": [],
        "unresponsive_engines": [], "response_time": 1.2});
    let brave = json!({"type": "search", "query": {"original": "q"}, "mixed": {"type": "mixed"},
        "web": {"type": "search", "results": [page("description", 1), page("description", 2)]}});
    vec![
        ("SearXNG", Search::searxng(url).unwrap(), content.to_string(), r#"{"query": "q", "results": []}"#),
        (
            "Brave",
            Search::brave(KEY, Some(url)).unwrap(),
            brave.to_string(),
            r#"{"type": "search", "query": {}}"#,
        ),
        ("Tavily", Search::tavily(KEY, Some(url)).unwrap(), content.to_string(), r#"{"results": []}"#),
    ]
}

fn search(bench: &Bench, search: &Search, input: Value) -> Result<String, ToolFailure> {
    let done = call(bench, &websearch(here(), search.clone()), input);
    let said = match &done {
        Ok(text) => text.clone(),
        Err(failure) => failure.text.clone(),
    };
    assert!(!said.contains(KEY) && !format!("{search:?}").contains(KEY), "the key is told: {said}");
    done
}

/// A server that sends this response to every request, and every provider at it.
fn each(
    says: impl Fn(&str) -> Vec<u8> + Clone + Send + Sync + 'static,
    check: impl Fn(&str, Result<String, ToolFailure>, &Server),
) {
    for at in 0..3 {
        let bench = Bench::new();
        let server = Server::new(&bench, says.clone());
        let (name, provider, ..) = providers(&server.url("127.0.0.1", "")).swap_remove(at);
        check(name, search(&bench, &provider, json!({"query": "q"})), &server);
    }
}

#[test]
fn results_are_listed() {
    let bench = Bench::new();
    for at in 0..3 {
        let found = providers("http://127.0.0.1").swap_remove(at).2;
        let server = Server::new(&bench, move |_| answer(200, "application/json", &found));
        let (name, provider, ..) = providers(&server.url("127.0.0.1", "/")).swap_remove(at);
        let text =
            search(&bench, &provider, json!({"query": " two\n words & more ", "max_results": 5})).unwrap();
        assert_eq!(
            text,
            format!(
                "1. Page 1\n   https://example.org/1\n   About 1 & more.\n2. Page 2\n   https://example.org/2\n   About \
                 2 & more.\n[2 results from {name}]"
            )
        );
        let request = server.requests()[0].clone();
        let (line, rest) = request.split_once("\r\n").unwrap();
        match name {
            "SearXNG" => assert_eq!(line, "GET /search?q=two+words+%26+more&format=json HTTP/1.1"),
            "Brave" => {
                assert_eq!(line, "GET /res/v1/web/search?q=two+words+%26+more&count=5 HTTP/1.1");
                assert!(rest.contains(&format!("x-subscription-token: {KEY}\r\n")), "{rest}");
            }
            _ => {
                assert_eq!(line, "POST /search HTTP/1.1");
                assert!(rest.contains(&format!("authorization: Bearer {KEY}\r\n")), "{rest}");
                assert!(rest.contains("content-type: application/json\r\n"), "{rest}");
                let body: Value = serde_json::from_str(rest.split_once("\r\n\r\n").unwrap().1).unwrap();
                assert_eq!((&body["query"], &body["max_results"]), (&json!("two words & more"), &json!(5)));
            }
        }
        let text = search(&bench, &provider, json!({"query": "q", "max_results": 1})).unwrap();
        assert!(text.ends_with(&format!("[1 result from {name}]")), "{text}");
    }
}

#[test]
fn nothing_found_is_said() {
    let bench = Bench::new();
    for at in 0..3 {
        let nothing = providers("http://127.0.0.1").swap_remove(at).3;
        let server = Server::new(&bench, move |_| answer(200, "application/json", nothing));
        let provider = providers(&server.url("127.0.0.1", "")).swap_remove(at).1;
        let text = search(&bench, &provider, json!({"query": "q"})).unwrap();
        assert_eq!(text, "Nothing was found for `q`. Try other or fewer words.");
    }
}

#[test]
fn a_status_is_explained_and_the_providers_words_are_not_repeated() {
    for (status, said) in [(401, "ser has to"), (403, "ser has to"), (429, "Too many"), (500, "a problem")] {
        each(
            move |_| answer(status, "application/json", format!("{{\"error\": \"bad key {KEY}\"}}")),
            |name, done, _| {
                let failure = done.unwrap_err();
                assert_eq!(failure.code, Code::ToolError);
                assert!(
                    failure.text.starts_with(&format!("{name} answered with status {status}.")),
                    "{}",
                    failure.text
                );
                assert!(failure.text.contains(said), "{}", failure.text);
            },
        );
    }
}

#[test]
fn an_answer_that_is_none_is_said() {
    for body in ["", "<html>", "{", "[]", "null", "7", "{\"results\": 7, \"web\": {\"results\": 7}}"] {
        each(
            move |_| answer(200, "application/json", body),
            |name, done, _| {
                let failure = done.expect_err(body);
                assert_eq!(
                    failure.text,
                    format!("{name} answered with something that is not a list of results."),
                    "{body}"
                );
            },
        );
    }
    // Deeper than a parser should recurse.
    each(move |_| answer(200, "x", "[".repeat(1_000_000)), |_, done, _| assert!(done.is_err()));
}

#[test]
fn a_huge_answer_is_not_taken() {
    each(
        |_| answer(200, "application/json", "x".repeat(3 << 20)),
        |name, done, _| {
            let said =
                format!("{name} cannot be asked: the answer has more than the 2097152 bytes accepted.");
            assert_eq!(done.unwrap_err().text, said);
        },
    );
}

#[test]
fn a_key_does_not_follow_a_redirect() {
    each(
        |request| {
            if request.contains("/stolen") { answer(200, "x", "{}") } else { redirect("/stolen") }
        },
        |_, done, server| {
            assert!(done.unwrap_err().text.contains("A user has to correct `search.url`"));
            assert_eq!(server.connections(), 1);
        },
    );
}

#[test]
fn a_provider_that_is_not_there_is_said() {
    let bench = Bench::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    drop(listener);
    for (name, provider, ..) in providers(&url) {
        let failure = search(&bench, &provider, json!({"query": "q"})).unwrap_err();
        assert!(
            failure.text.starts_with(&format!("{name} cannot be asked: cannot connect to")),
            "{}",
            failure.text
        );
    }
}

#[test]
fn without_a_provider_the_answer_says_how_to_set_one_up() {
    let text = Bench::new().fails("websearch", json!({"query": "q"}), Code::Unsupported);
    assert!(text.starts_with("There was no search: no search provider is set up."), "{text}");
    for way in [
        "settings file",
        "provider: searxng, url:",
        "provider: brave",
        "provider: tavily",
        "`search.key_env`",
    ] {
        assert!(text.contains(way), "{text}");
    }
}

#[test]
fn an_interface_that_is_named_already_is_not_named_twice() {
    let bench = Bench::new();
    let server = Server::new(&bench, |_| answer(200, "x", "{\"results\": []}"));
    let provider = Search::searxng(&server.url("127.0.0.1", "/searx/search")).unwrap();
    search(&bench, &provider, json!({"query": "q"})).unwrap();
    assert!(server.requests()[0].starts_with("GET /searx/search?q=q&format=json "));
}

#[test]
fn bad_input_is_answered_precisely() {
    let bench = Bench::new();
    for (input, problem) in [
        (json!({"query": "  "}), "`query` must not be empty"),
        (json!({"query": "x".repeat(401)}), "`query` has 401 bytes, more than the 400 accepted"),
        (json!({"query": "x", "max_results": 0}), "`max_results` must be at least 1"),
        (json!({"query": "x", "key": "y"}), "unknown field `key`, expected `query` or `max_results`"),
    ] {
        let text = bench.fails("websearch", input, Code::InvalidInput);
        assert_eq!(text, format!("Invalid input for `websearch`: {problem}. Nothing was done."));
    }
}

#[test]
fn a_key_that_a_provider_echoes_is_not_told() {
    let urlencoded = KEY.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    for echo in [KEY.to_owned(), urlencoded.clone(), format!("Bearer {KEY}")] {
        let page = json!({"title": echo, "url": format!("https://example.org/?k={echo}"), "content": echo,
            "description": echo});
        let body = json!({"results": [page], "web": {"results": [page]}}).to_string();
        // The first provider has no key.
        for at in 1..3 {
            let (bench, body) = (Bench::new(), body.clone());
            let server = Server::new(&bench, move |_| answer(200, "application/json", &body));
            let (name, provider, ..) = providers(&server.url("127.0.0.1", "")).swap_remove(at);
            let text = search(&bench, &provider, json!({"query": "q"})).unwrap();
            assert!(text.contains("[key]") && !text.contains(&urlencoded), "{name}: {text}");
        }
    }
}
