//! What a server must not be made to do: by paths, by sizes, by texts of models, by other pages and other clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::http_client::Client;
use crate::support::{Home, RunningCommand};

/// A model whose texts are written for a stream, a page and a terminal.
const HOSTILE: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: \"<script>alert(1)</script>\", prompt: \"a\\r\\nevent: end\\ndata: {}\\n\\n\"}}]}
- reply: {text: \"done\\n\\nevent: end\\ndata: {}\\n\\nid: 99\\n\\u2028\\u0000<img src=x onerror=alert(1)>\"}
";

fn serve(home: &Home) -> (RunningCommand, Client) {
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let url = server.line().unwrap_or_else(|| panic!("the server ended"));
    (server, Client::of(&url))
}

/// Sends bytes as they are, and returns everything that comes back. A request that is not complete is ended.
fn raw(client: &Client, bytes: &[u8], is_complete: bool) -> String {
    let mut connection = TcpStream::connect(&client.address).expect("a connection");
    // A server may close the connection before it has read everything.
    let _ = connection.write_all(bytes);
    if !is_complete {
        let _ = connection.shutdown(std::net::Shutdown::Write);
    }
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn texts_of_models_break_no_stream_and_stay_text() {
    let home = Home::new();
    home.write("script.yaml", HOSTILE);
    let (_server, client) = serve(&home);
    let request = "look\r\nevent: end\r\ndata: {}\r\n\r\n";
    let body = json!({ "request": request, "settings": { "model": "scripted/script.yaml" } });
    let run = client.post("/api/v1/runs", &body).has(201).json()["run"].as_str().expect("a run").to_owned();
    let messages = client.follow(&format!("/api/v1/runs/{run}/events/stream"), None).all();
    let (end, events) = messages.split_last().expect("messages");
    assert_eq!(end.name, "end");
    assert!(
        events.iter().all(|message| message.name.is_empty() && message.id == message.data["seq"].as_u64())
    );
    let events: Vec<_> = events.iter().map(|message| message.data.clone()).collect();
    assert_eq!(events, home.posse(&["logs", "--json", &run]).exits(0).json_lines());
    for path in ["", "/agents/1/conversation", "/agents/1/contract", "/timeline"] {
        let answer = client.get(&format!("/api/v1/runs/{run}{path}")).has(200);
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        assert_eq!(answer.headers["content-security-policy"], "default-src 'none'; frame-ancestors 'none'");
        assert!(!answer.body.contains(&b'\n'), "{path}");
    }
    let talk = client.get(&format!("/api/v1/runs/{run}/agents/0/conversation")).has(200).json();
    assert_eq!(talk["entries"][0]["text"], request, "it is not changed either");
}

/// Files whose names and contents are written for a page.
const FILES: &str = "
- when: {turn: 1}
  reply:
    text: \"[x](javascript:alert(1)) <script>alert(1)</script>\"
    tool_calls:
      - {name: write, input: {path: \"<img src=x onerror=alert(1)>.html\", content: \"<script>alert(1)</script>\\n\"}}
- reply: {text: \"# <script>alert(1)</script>\"}
";

#[test]
fn no_answer_is_taken_for_a_page() {
    let home = Home::new();
    home.write("script.yaml", FILES);
    home.write(
        ".posse/agents/evil.md",
        "---\nname: evil\ndescription: <script>alert(1)</script>\n---\n<script>\n",
    );
    let (_server, client) = serve(&home);
    let body = json!({
        "request": "<script>alert(1)</script>",
        "context": "<script>alert(1)</script>",
        "settings": { "model": "scripted/script.yaml" },
    });
    let run = client.post("/api/v1/runs", &body).has(201).json()["run"].as_str().expect("a run").to_owned();
    client.follow(&format!("/api/v1/runs/{run}/events/stream"), None).until("run.completed");
    let document = client.get("/api/openapi.json").has(200).json();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let operation = &operations["get"];
        let is_stream = operation["responses"]["200"]["content"]["text/event-stream"].is_object();
        if operation.is_null() || is_stream {
            continue;
        }
        let query = match operation["operationId"].as_str().expect("a name") {
            "explain" => "?operation=write:%3Cscript%3E",
            "getFileDiff" => "?path=%3Cimg%20src=x%20onerror=alert(1)%3E.html",
            _ => "",
        };
        let path = path.replace("{run}", &run).replace("{agent}", "0");
        let answer = client.get(&format!("{path}{query}")).has(200);
        let content = answer.headers["content-type"].as_str();
        let is_inert =
            ["application/json", "text/plain; charset=utf-8", "application/gzip"].contains(&content);
        assert!(is_inert, "{path}: {content}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        let policy = "default-src 'none'; frame-ancestors 'none'";
        assert_eq!(answer.headers["content-security-policy"], policy, "{path}");
        tried += 1;
    }
    assert!(tried > 25, "{tried}");
    let export = client.get(&format!("/api/v1/runs/{run}/export")).has(200);
    assert!(export.headers["content-disposition"].starts_with("attachment; "), "{:?}", export.headers);
}

#[test]
fn a_token_of_another_server_opens_nothing() {
    let (home, other) = (Home::new(), Home::new());
    let (_server, client) = serve(&home);
    let (_other, foreign) = serve(&other);
    assert_ne!(client.token, foreign.token);
    let made = other.posse(&["token", "new", "ci", "--right", "read"]).exits(0).stdout.trim().to_owned();
    for token in [&foreign.token, &made] {
        let thief = Client { address: client.address.clone(), token: token.clone() };
        assert_eq!(thief.get("/api/v1/runs").is_problem(401, "TOKEN_REFUSED"), "Authorization");
    }
    // Nor does its session.
    let host = ("Host", foreign.address.as_str());
    let opened = foreign.send_plain("GET", &format!("/?token={}", foreign.token), &[host], "").has(303);
    let cookie = opened.headers["set-cookie"].split(';').next().expect("a cookie").to_owned();
    let headers = [("Host", client.address.as_str()), ("Cookie", &cookie)];
    let refused = client.send_plain("GET", "/api/v1/runs", &headers, "");
    assert_eq!(refused.is_problem(401, "TOKEN_REFUSED"), "Cookie");
}

#[test]
fn only_pages_of_a_named_origin_use_the_api_and_only_with_a_token() {
    let home = Home::new();
    let mut server =
        home.start(&["serve", "--listen", "127.0.0.1:0", "--cors-origin", "https://tool.example"]);
    let client = Client::of(&server.line().expect("a URL"));
    let named = ("Origin", "https://tool.example");
    let answer = client.send("GET", "/api/v1/runs", &[named], "").has(200);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://tool.example");
    assert_eq!(answer.headers["vary"], "Origin");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{answer:?}");
    let host = ("Host", client.address.as_str());
    let asks = ("Access-Control-Request-Method", "POST");
    let preflight = client.send_plain("OPTIONS", "/api/v1/runs", &[host, named, asks], "").has(204);
    assert!(preflight.headers["access-control-allow-headers"].contains("idempotency-key"), "{preflight:?}");
    // A page can read why it was refused, but a cookie is no token.
    let refused = client.send_plain("GET", "/api/v1/runs", &[host, named], "");
    refused.is_problem(401, "TOKEN_REFUSED");
    assert_eq!(refused.headers["access-control-allow-origin"], "https://tool.example");
    let opened = client.send_plain("GET", &format!("/?token={}", client.token), &[host], "").has(303);
    let cookie = opened.headers["set-cookie"].split(';').next().expect("a cookie").to_owned();
    for more in [&[][..], &[("Sec-Fetch-Site", "cross-site")], &[("Sec-Fetch-Site", "same-origin")]] {
        let headers = [&[host, named, ("Cookie", &cookie)], more].concat();
        client.send_plain("GET", "/api/v1/runs", &headers, "").is_problem(403, "ORIGIN_REFUSED");
    }
    for other in ["https://evil.example", "http://tool.example", "https://tool.example:1", "null"] {
        let refused = client.send("GET", "/api/v1/runs", &[("Origin", other)], "");
        refused.is_problem(403, "ORIGIN_REFUSED");
        assert!(!refused.headers.contains_key("access-control-allow-origin"), "{other}");
        let headers = [host, ("Origin", other), asks];
        client.send_plain("OPTIONS", "/api/v1/runs", &headers, "").is_problem(403, "ORIGIN_REFUSED");
    }
    let wrong = home.posse(&["serve", "--listen", "127.0.0.1:0", "--cors-origin", "*"]).exits(2).stderr;
    assert!(wrong.contains("--cors-origin: `*` is not the origin of a page"), "{wrong}");
}

#[test]
fn odd_paths_lead_nowhere() {
    let home = Home::new();
    home.write_own("secret.txt", "secret");
    let (_server, client) = serve(&home);
    for path in [
        "/api/v1/runs/../../../../etc/passwd",
        "/api/v1/runs/%2e%2e/%2e%2e/serve.token",
        "/api/v1/runs/..%2f..%2fserve.token",
        "/api/v1//runs",
        "/api/v1/runs/",
        "/api/v1/runs;x",
        "/api/V1/runs",
        "/assets/../serve.token",
        "/assets/%2e%2e/serve.token",
        "/serve.token",
        "/%00",
        "/api/v1/runs%00",
        "//evil.example/api/v1/runs",
    ] {
        let answer = client.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(&client.token), "{path}");
    }
    // An absolute address, two hosts, a host that is none: nothing is done for another name.
    let head = |first: &str, headers: &str| {
        let token = format!("Authorization: Bearer {}\r\nConnection: close\r\n", client.token);
        raw(&client, format!("{first}\r\n{token}{headers}\r\n").as_bytes(), true)
    };
    let own = format!("Host: {}\r\n", client.address);
    assert_eq!(status(&head("GET /api/v1/runs HTTP/1.1", &own)), "200");
    for headers in ["", "Host: evil.example\r\n", &format!("{own}{own}"), "Host: localhost@evil.example\r\n"]
    {
        let answer = head("GET /api/v1/runs HTTP/1.1", headers);
        assert!(matches!(status(&answer), "400" | "421"), "{headers}: {answer}");
    }
}

#[test]
fn what_is_too_large_is_refused_and_harms_no_other_client() {
    let home = Home::new();
    let (_server, client) = serve(&home);
    let own = format!(
        "Host: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n",
        client.address, client.token
    );
    let long = format!("GET /api/v1/runs HTTP/1.1\r\n{own}X-Long: {}\r\n\r\n", "x".repeat(64 * 1024));
    assert_eq!(status(&raw(&client, long.as_bytes(), true)), "431");
    let mut many = String::new();
    for number in 0..200 {
        many.extend(["X-", &number.to_string(), ": x\r\n"]);
    }
    let many = format!("GET /api/v1/runs HTTP/1.1\r\n{own}{many}\r\n");
    assert_eq!(status(&raw(&client, many.as_bytes(), true)), "431");
    // What is only a little too large is read to its end, and answered with a problem document.
    let long = "x".repeat(20 * 1024);
    let answer = client.send("GET", "/api/v1/runs", &[("X-Long", &long)], "");
    answer.is_problem(431, "TOO_LARGE");
    let many = vec![("X-Many", "x"); 100];
    client.send("GET", "/api/v1/runs", &many, "").is_problem(431, "TOO_LARGE");
    client.get(&format!("/api/v1/runs?cursor={long}")).is_problem(414, "TOO_LARGE");
    let path = format!("GET /api/v1/runs?cursor={} HTTP/1.1\r\n{own}\r\n", "x".repeat(64 * 1024));
    assert!(matches!(status(&raw(&client, path.as_bytes(), true)), "414" | "431"));
    // A body that is announced, and one that is not.
    let head = format!("POST /api/v1/runs HTTP/1.1\r\n{own}Content-Type: application/json\r\n");
    let announced = format!("{head}Content-Length: 99999999999\r\n\r\n{{");
    assert_eq!(status(&raw(&client, announced.as_bytes(), true)), "413");
    let piece = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", piece.repeat(10));
    let answer = raw(&client, chunked.as_bytes(), true);
    // The connection may be closed while the client still writes.
    assert!(matches!(status(&answer), "413" | ""), "{answer}");
    // Two lengths, and a request within a request.
    let smuggled = format!(
        "{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/v1/doctor HTTP/1.1\r\n{own}\r\n"
    );
    let answer = raw(&client, smuggled.as_bytes(), true);
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    for broken in [
        "\r\n",
        "GET",
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = raw(&client, broken.as_bytes(), false);
        assert!(matches!(status(&answer), "400" | "505" | ""), "{broken:?}: {answer}");
    }
    client.get("/api/v1/runs").has(200);
}
