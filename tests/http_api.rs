//! The HTTP API over the real command: runs that are started, followed, answered, ended and resumed by clients.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use boon::{Compiler, Schemas};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http_client::{Client, Message};
use crate::support::{Home, RunningCommand};

/// A root with one child.
const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  reply: {text: found it}
- reply: {text: all done}
";
/// The same, but the child waits for its model forever.
const STUCK: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  reply: {text: found it}
  latency_ms: 3600000
- reply: {text: all done}
";
/// A root that writes a file.
const WRITING: &str = "
- when: {turn: 1}
  reply: {tool_calls: [{name: write, input: {path: made.txt, content: \"one\\ntwo\\n\"}}]}
- reply: {text: it is there}
";
/// A call that asks.
const ASKING: &str = "
- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: git push origin main}}]}
- reply: {text: all done}
";

fn home(script: &str) -> Home {
    let home = Home::new();
    home.write("script.yaml", script);
    home
}

/// Starts a server, and returns a client for it.
fn serve(home: &Home, more: &[&str]) -> (RunningCommand, Client) {
    let any: &[&str] = if more.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    let mut server = home.start(&[&["serve"], any, more].concat());
    let url = server.line().unwrap_or_else(|| panic!("the server ended"));
    (server, Client::of(&url))
}

fn request() -> Value {
    json!({ "request": "look", "settings": { "model": "scripted/script.yaml" } })
}

#[track_caller]
fn start(client: &Client) -> String {
    let started = client.post("/api/v1/runs", &request()).has(201).json();
    started["run"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned()
}

fn stream(run: &str) -> String {
    format!("/api/v1/runs/{run}/events/stream")
}

/// The events among messages, and the number in the message of the end.
#[track_caller]
fn split(messages: Vec<Message>) -> (Vec<Value>, Option<u64>) {
    let mut events = Vec::new();
    let mut end = None;
    for message in messages {
        match message.name.as_str() {
            "" => {
                assert_eq!(message.id, message.data["seq"].as_u64());
                events.push(message.data);
            }
            "end" => end = message.id,
            _ => panic!("{message:?}"),
        }
    }
    (events, end)
}

/// Waits until a server that got a signal has ended.
#[track_caller]
fn stop(server: RunningCommand) -> String {
    server.signal(Signal::TERM);
    server.finish().exits(0).stderr
}

#[test]
fn a_run_is_started_followed_and_read_over_http() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let run = start(&client);
    let (events, end) = split(client.follow(&stream(&run), None).all());
    let journal = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    assert_eq!(events, journal, "what is streamed is the journal");
    assert_eq!(end, journal.last().expect("events")["seq"].as_u64());

    let shown = client.get(&format!("/api/v1/runs/{run}")).has(200);
    let (mut shown, mut printed) = (shown.json(), home.posse(&["show", "--json", &run]).exits(0).json());
    // The last files of the run may still be removed.
    for shown in [&mut shown, &mut printed] {
        shown["disk_bytes"].take();
    }
    assert_eq!(shown, printed, "the same as in the terminal");
    let outcome = client.get(&format!("/api/v1/runs/{run}/outcome")).has(200).json();
    assert_eq!((&outcome["status"], &outcome["text"]), (&json!("completed"), &json!("all done")));
    let page = format!("/api/v1/runs/{run}/agents/1/report");
    let answer = client.get(&page).has(200);
    let report = answer.json();
    assert_eq!((&report["agent"], &report["report"]), (&json!(format!("{run}.1")), &json!("found it")));
    let child = client.get(&format!("/api/v1/runs/{run}/agents/{run}.1")).has(200).json();
    assert_eq!(child["agents"].as_array().map(Vec::len), Some(1));

    // A client that has an answer already gets none.
    let tag = &answer.headers["etag"];
    let again = client.send("GET", &page, &[("If-None-Match", tag)], "").has(304);
    assert!(again.body.is_empty());
    stop(server);
}

#[test]
fn a_client_that_connects_again_after_any_event_misses_and_repeats_none() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let run = start(&client);
    let (all, end) = split(client.follow(&stream(&run), None).all());
    let last = end.expect("an end");
    assert_eq!(last, all.len() as u64);
    for known in 0..last {
        let (rest, end) = split(client.follow(&stream(&run), Some(known)).all());
        let place = usize::try_from(known).expect("a place");
        assert_eq!((&rest[..], end), (&all[place..], Some(last)), "after {known}");
    }
    let over = client.send("GET", &stream(&run), &[("Last-Event-ID", &last.to_string())], "");
    over.has(204);
    // A client that waited after an event that does not exist would miss some.
    let beyond = client.send("GET", &stream(&run), &[("Last-Event-ID", &(last + 1).to_string())], "");
    assert_eq!(beyond.is_problem(400, "INVALID_CURSOR"), "Last-Event-ID");

    // Pages have the same events, and filters leave out the others.
    let mut paged = Vec::new();
    let mut after = 0;
    loop {
        let page = client.get(&format!("/api/v1/runs/{run}/events?after={after}&limit=3")).has(200).json();
        paged.extend(page["events"].as_array().expect("events").iter().cloned());
        after = page["after"].as_u64().expect("a number");
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(paged, all);
    let of_child =
        |event: &&Value| event["agent_id"] == format!("{run}.1") && event["kind"] == "agent.model_replied";
    let expected: Vec<Value> = all.iter().filter(of_child).cloned().collect();
    assert_eq!(expected.len(), 1);
    let path = format!("{}?agent=1&kind=agent.model_replied", stream(&run));
    assert_eq!(split(client.follow(&path, None).all()), (expected, Some(last)));

    // The task view numbers its own events.
    let path = format!("/api/v1/runs/{run}/agents/1/task/stream");
    let task = client.follow(&path, None).all();
    let kinds: Vec<&str> = task.iter().filter_map(|message| message.data["type"].as_str()).collect();
    assert!(kinds.starts_with(&["status"]) && kinds.ends_with(&["done"]), "{task:#?}");
    let rest = client.follow(&path, Some(2)).all();
    assert_eq!(rest, task[2..]);
    stop(server);
}

#[test]
fn a_question_is_answered_over_http_and_the_terminal_shows_the_same() {
    let home = home(ASKING);
    let (server, client) = serve(&home, &[]);
    let run = start(&client);
    let mut following = client.follow(&stream(&run), None);
    following.until("agent.input_requested");
    let open = client.get(&format!("/api/v1/runs/{run}/questions")).has(200).json();
    let question = open["questions"][0].clone();
    assert_eq!(question["operation"], "bash:git push origin main");
    assert_eq!(home.posse(&["approvals", "--json"]).exits(0).json(), question);
    assert_eq!(client.get("/api/v1/questions").has(200).json(), open, "of all runs");
    let waiting = client.get("/api/v1/runs?status=waiting").has(200).json();
    assert_eq!(waiting["runs"][0]["run"], run);

    let answers = format!("/api/v1/runs/{run}/answers");
    let foreign = client.post(&answers, &json!({ "approval": "0", "decision": "allow" }));
    assert_eq!(foreign.is_problem(409, "NOT_ASKED"), "approval");
    let answer = json!({ "approval": question["approval"], "decision": "deny", "reason": "not on a Friday" });
    let mut deltas = client.follow(&format!("/api/v1/runs/{run}/deltas/stream?agent=0"), None);
    let answered = client.post(&answers, &answer).has(200).json();
    assert_eq!((&answered["decision"], &answered["carried"]), (&json!("deny"), &json!(true)));
    following.until("agent.input_answered");
    let delta = deltas.next().expect("a delta").data;
    assert_eq!((&delta["part"], &delta["content"]), (&json!("text"), &json!("all done")));
    conforms(&client.get("/api/openapi.json").has(200).json(), "Delta", &delta);
    assert_eq!(deltas.all().last().map(|message| message.name.clone()).as_deref(), Some("end"));
    assert_eq!(
        following.until("run.completed")["seq"],
        following.next().expect("an end").id.expect("a number")
    );
    let ended = client.get(&format!("/api/v1/runs/{run}/questions")).has(200).json();
    assert_eq!(ended["questions"], json!([]));
    client.post(&answers, &answer).is_problem(409, "RUN_ENDED");
    stop(server);
}

#[test]
fn agents_and_runs_are_sent_messages_and_cancelled() {
    let home = home(STUCK);
    let (server, client) = serve(&home, &[]);
    let run = start(&client);
    let mut following = client.follow(&stream(&run), None);
    following.until("agent.subagent_started");
    let messages = format!("/api/v1/runs/{run}/agents/1/messages");
    let sent = client.post(&messages, &json!({ "text": "hurry" })).has(202).json();
    assert_eq!((&sent["agent"], &sent["carried"]), (&json!(format!("{run}.1")), &json!(true)));
    assert_eq!(client.post(&messages, &json!({ "text": " " })).is_problem(422, "REFUSED"), "text");
    let unknown = format!("/api/v1/runs/{run}/agents/7/messages");
    client.post(&unknown, &json!({ "text": "hello" })).is_problem(404, "UNKNOWN_AGENT");

    let cancel = format!("/api/v1/runs/{run}/cancel");
    client.post(&cancel, &json!({ "agent": "1", "reason": "not needed" })).has(202);
    let closed = following.until("agent.subagent_closed");
    assert_eq!(
        (&closed["agent_id"], &closed["detail"]["close_reason"]),
        (&json!(format!("{run}.1")), &json!("cancelled"))
    );
    following.until("run.completed");
    client.post(&cancel, &json!({})).is_problem(409, "RUN_ENDED");

    let run = start(&client);
    let mut following = client.follow(&stream(&run), None);
    following.until("agent.subagent_started");
    client.send("POST", &format!("/api/v1/runs/{run}/kill"), &[], "").has(202);
    following.until("run.cancelled");
    stop(server);
}

#[test]
fn runs_of_other_processes_are_shown_and_ended() {
    let home = home(STUCK);
    let (server, client) = serve(&home, &[]);
    let mut other = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let started = other.until_event(".1", "agent.model_called");
    let run = crate::support::run_of(&started);
    let mut following = client.follow(&stream(&run), None);
    following.until("agent.subagent_started");
    client.get(&format!("/api/v1/runs/{run}/deltas/stream")).is_problem(409, "NOT_EXECUTED_HERE");
    client.send("POST", &format!("/api/v1/runs/{run}/resume"), &[], "").is_problem(409, "EXECUTED_ELSEWHERE");
    client.post(&format!("/api/v1/runs/{run}/cancel"), &json!({ "reason": "enough" })).has(202);
    following.until("run.cancelled");
    other.finish().exits(3);

    // A run that no process executes is ended by the server itself.
    let mut other = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = crate::support::run_of(&other.until_event(".1", "agent.model_called"));
    other.kill();
    let cancelled = client.post(&format!("/api/v1/runs/{run}/cancel"), &json!({})).has(202).json();
    assert_eq!(cancelled["agent"], run);
    client.follow(&stream(&run), None).until("run.cancelled");
    stop(server);
}

#[test]
fn a_server_that_is_stopped_drains_and_its_successor_resumes() {
    let home = home(STUCK);
    let (server, client) = serve(&home, &[]);
    let run = start(&client);
    let mut following = client.follow(&stream(&run), None);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Value| event["kind"] != "agent.subagent_started") {
        seen.push(following.next().expect("an event").data);
    }
    server.signal(Signal::TERM);
    let (mut rest, mut is_draining) = (Vec::new(), false);
    while let Some(message) = following.next() {
        is_draining |= message.name == "draining";
        rest.extend(message.id.map(|_| message.data));
    }
    assert!(is_draining, "{rest:#?}");
    seen.extend(rest);
    let said = server.finish().exits(0).stderr;
    assert!(said.contains(&format!("can be resumed: {run}")), "{said}");
    assert_eq!(home.posse(&["show", "--json", &run]).exits(0).json()["status"], "interrupted");

    home.write("script.yaml", SCRIPT);
    let (server, again) = serve(&home, &["--resume"]);
    assert_eq!(again.token, client.token, "the token stays");
    let (rest, _) = split(again.follow(&stream(&run), Some(seen.len() as u64)).all());
    seen.extend(rest);
    assert_eq!(seen, home.posse(&["logs", "--json", &run]).exits(0).json_lines());
    assert_eq!(seen.last().expect("events")["kind"], "run.completed");
    let said = stop(server);
    assert!(said.contains(&format!("resumed 1 run: {run}")), "{said}");
}

#[test]
fn a_repeated_request_starts_one_run_even_over_a_restart() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let post = |client: &Client, key: &str, body: &Value| {
        client.post_with("/api/v1/runs", &[("Idempotency-Key", key)], body)
    };
    let first = post(&client, "a", &request()).has(201).json();
    let run = first["run"].as_str().expect("a run").to_owned();
    assert_eq!(post(&client, "a", &request()).has(201).json(), first);
    let other = json!({ "request": "something else", "settings": { "model": "scripted/script.yaml" } });
    assert_eq!(post(&client, "a", &other).is_problem(422, "KEY_CONFLICT"), "Idempotency-Key");
    client.follow(&stream(&run), None).all();
    server.kill();
    let (server, client) = serve(&home, &[]);
    assert_eq!(post(&client, "a", &request()).has(201).json()["run"], run);
    assert_eq!(post(&client, "a", &other).is_problem(422, "KEY_CONFLICT"), "Idempotency-Key");
    let runs = client.get("/api/v1/runs").has(200).json();
    assert_eq!((runs["runs"].as_array().map(Vec::len), &runs["next"]), (Some(1), &Value::Null));

    // A replay is a run of its own, also after a restart: neither request finds the run of the other one.
    let replay = |client: &Client| {
        let path = format!("/api/v1/runs/{run}/replay");
        client.post_with(&path, &[("Idempotency-Key", "r")], &json!({})).has(201).json()["run"].clone()
    };
    let replayed = replay(&client);
    assert_ne!(replayed, run);
    assert_eq!(replay(&client), replayed);
    client.follow(&stream(replayed.as_str().expect("a run")), None).all();
    server.kill();
    let (server, client) = serve(&home, &[]);
    assert_eq!(replay(&client), replayed);
    assert_eq!(post(&client, "a", &request()).has(201).json()["run"], run);

    let second = post(&client, "b", &request()).has(201).json();
    client.follow(&stream(second["run"].as_str().expect("a run")), None).all();
    let page = client.get("/api/v1/runs?limit=1").has(200).json();
    assert_eq!(page["runs"][0]["run"], second["run"], "newest first");
    let next = |page: &Value| {
        let cursor = page["next"].as_str().expect("more");
        client.get(&format!("/api/v1/runs?limit=1&cursor={cursor}")).has(200).json()
    };
    let page = next(&page);
    assert_eq!(page["runs"][0]["run"], replayed);
    let page = next(&page);
    assert_eq!((&page["runs"][0]["run"], &page["next"]), (&json!(run), &Value::Null));
    stop(server);
}

#[test]
fn a_repeated_message_is_sent_once() {
    let home = home(STUCK);
    let (server, client) = serve(&home, &[]);
    let run = start(&client);
    let mut following = client.follow(&stream(&run), None);
    following.until("agent.subagent_started");
    let path = format!("/api/v1/runs/{run}/agents/1/messages");
    let key = [("Idempotency-Key", "hurry")];
    let send = |text: &str| client.post_with(&path, &key, &json!({ "text": text }));
    let first = send("hurry").has(202).json();
    assert_eq!(send("hurry").has(202).json(), first);
    assert_eq!(send("faster").is_problem(422, "KEY_CONFLICT"), "Idempotency-Key");
    // The same key with another path is another request.
    let other = format!("/api/v1/runs/{run}/cancel");
    assert_eq!(client.post_with(&other, &key, &json!({})).is_problem(422, "KEY_CONFLICT"), "Idempotency-Key");
    client.post(&format!("/api/v1/runs/{run}/kill"), &json!({})).has(202);
    following.until("run.cancelled");
    let events = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    let messages: Vec<&Value> =
        events.iter().filter(|event| event["kind"] == "agent.message_received").collect();
    let texts: Vec<&Value> = messages.iter().map(|event| &event["detail"]["text"]).collect();
    assert!(texts.iter().filter(|text| **text == "hurry").count() <= 1, "{texts:?}");
    assert!(texts.iter().all(|text| **text != "faster"), "{texts:?}");
    stop(server);
}

#[test]
fn requests_from_elsewhere_are_refused() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let runs = "/api/v1/runs";
    let (host, token) = (("Host", client.address.as_str()), format!("Bearer {}", client.token));
    let right = ("Authorization", token.as_str());
    let send = |headers: &[(&str, &str)]| client.send_plain("GET", runs, headers, "");
    send(&[host, right]).has(200);
    let missing = send(&[host]);
    assert_eq!(missing.is_problem(401, "TOKEN_REFUSED"), "Authorization");
    assert_eq!(missing.headers["www-authenticate"], "Bearer");
    send(&[host, ("Authorization", "Bearer 0123")]).is_problem(401, "TOKEN_REFUSED");
    let foreign = send(&[("Host", "evil.example"), right]);
    assert_eq!(foreign.is_problem(421, "HOST_REFUSED"), "Host");
    let foreign = send(&[host, right, ("Origin", "http://evil.example")]);
    assert_eq!(foreign.is_problem(403, "ORIGIN_REFUSED"), "Origin");
    let own = format!("http://{}", client.address);
    let answer = send(&[host, right, ("Origin", &own)]).has(200);
    assert!(!answer.headers.contains_key("access-control-allow-origin"), "{answer:?}");
    // The top needs no token, and tells nothing. The description of the API needs one.
    let top = client.send_plain("GET", "/", &[host], "").has(200);
    assert_eq!(top.headers["x-content-type-options"], "nosniff");
    client.send_plain("GET", "/nothing", &[host], "").is_problem(404, "NOT_FOUND");
    client.send_plain("GET", "/api/v1/nothing", &[host], "").is_problem(401, "TOKEN_REFUSED");
    client.send_plain("GET", "/", &[("Host", "evil.example")], "").is_problem(421, "HOST_REFUSED");
    client.send_plain("GET", "/api/openapi.json", &[host], "").is_problem(401, "TOKEN_REFUSED");

    let file = home.state_dir().join("serve.token");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).expect("a token"), client.token);
    stop(server);
}

#[test]
fn a_browser_gets_a_session_for_the_printed_link_and_acts_only_from_the_own_page() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let host = ("Host", client.address.as_str());
    let log_in = |token: &str| client.send_plain("GET", &format!("/?token={token}"), &[host], "");
    let refused = log_in("0123").has(401);
    assert!(!refused.headers.contains_key("set-cookie"), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.body).contains("The server prints the link"), "{refused:?}");
    let opened = log_in(&client.token).has(303);
    assert_eq!(opened.headers["location"], "/");
    assert_eq!(opened.headers["referrer-policy"], "no-referrer");
    let set = opened.headers["set-cookie"].clone();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.split("; ").any(|given| given == part), "{set}");
    }
    assert!(!set.contains(&client.token) && !set.contains("Secure"), "{set}");
    let cookie = set.split(';').next().expect("a cookie").to_owned();
    let own = format!("http://{}", client.address);
    let (cookie_header, origin) = (("Cookie", cookie.as_str()), ("Origin", own.as_str()));

    let read = |headers: &[(&str, &str)]| client.send_plain("GET", "/api/v1/session", headers, "");
    let session = read(&[host, cookie_header]).has(200).json();
    assert_eq!((&session["token"], &session["tenant"]), (&json!("serve"), &json!("local")));
    assert_eq!(session["rights"], json!(["read", "run", "answer", "admin"]));
    assert_eq!(session["projects"][0]["is_default"], true);
    read(&[host, cookie_header, ("Sec-Fetch-Site", "same-origin")]).has(200);
    for site in ["same-site", "cross-site"] {
        read(&[host, cookie_header, ("Sec-Fetch-Site", site)]).is_problem(403, "ORIGIN_REFUSED");
    }
    assert_eq!(read(&[host, ("Cookie", "posse_token=x")]).is_problem(401, "TOKEN_REFUSED"), "Cookie");

    // A form of another page brings the cookie, and nothing else.
    let act = |headers: &[(&str, &str)]| {
        let json_type = ("Content-Type", "application/json");
        let all = [&[host, json_type, cookie_header], headers].concat();
        client.send_plain("POST", "/api/v1/runs", &all, &request().to_string())
    };
    act(&[]).is_problem(403, "ORIGIN_REFUSED");
    act(&[("Origin", "http://127.0.0.1:1")]).is_problem(403, "ORIGIN_REFUSED");
    act(&[("Origin", "null")]).is_problem(403, "ORIGIN_REFUSED");
    assert_eq!(client.get("/api/v1/runs").has(200).json()["runs"], json!([]), "nothing was started");
    act(&[origin]).has(201);
    act(&[("Sec-Fetch-Site", "same-origin")]).has(201);

    // It stays valid over a restart, and ends with the token.
    server.kill();
    let (server, client) = serve(&home, &["--listen", &client.address]);
    client.send_plain("GET", "/api/v1/session", &[host, cookie_header], "").has(200);
    server.kill();
    fs::remove_file(home.state_dir().join("serve.token")).expect("removed");
    let (server, client) = serve(&home, &["--listen", &client.address]);
    client.send_plain("GET", "/api/v1/session", &[host, cookie_header], "").is_problem(401, "TOKEN_REFUSED");
    stop(server);
}

#[test]
fn the_page_may_load_nothing_but_itself() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let page = client.send_plain("GET", "/", &[("Host", &client.address)], "").has(200);
    let policy = &page.headers["content-security-policy"];
    assert!(
        policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(page.headers[name], value);
    }
    assert_eq!(
        client.send_plain("POST", "/", &[("Host", &client.address)], "").has(405).headers["allow"],
        "GET, HEAD"
    );
    stop(server);
}

#[test]
fn a_bad_request_is_answered_with_what_is_wrong() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    let runs = "/api/v1/runs";
    let mut misspelled = request();
    misspelled["max_depht"] = 1.into();
    assert_eq!(client.post(runs, &misspelled).is_problem(400, "INVALID_REQUEST"), "max_depht");
    let setting = json!({ "request": "look", "settings": { "agent.max_turns": "many" } });
    assert_eq!(client.post(runs, &setting).is_problem(422, "REFUSED"), "settings.agent.max_turns");
    let nowhere = json!({ "request": "look", "dir": "/no/such/directory" });
    assert_eq!(client.post(runs, &nowhere).is_problem(422, "REFUSED"), "dir");
    let nobody =
        json!({ "request": "look", "agent": "nobody", "settings": { "model": "scripted/script.yaml" } });
    assert_eq!(client.post(runs, &nobody).is_problem(422, "REFUSED"), "agent");
    assert_eq!(client.post(runs, &json!({})).is_problem(422, "REFUSED"), "request");
    client
        .send("POST", runs, &[("Content-Type", "application/json")], "{")
        .is_problem(400, "INVALID_REQUEST");
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(
        client.send("POST", runs, &form, "request=look").is_problem(415, "INVALID_REQUEST"),
        "content-type"
    );
    let huge = "x".repeat(9 * 1024 * 1024);
    let json_type = [("Content-Type", "application/json")];
    client.send("POST", runs, &json_type, &huge).is_problem(413, "TOO_LARGE");
    client
        .send("POST", runs, &[("Idempotency-Key", ""), json_type[0]], "{}")
        .is_problem(400, "INVALID_PARAMETER");

    let wrong = client.send("DELETE", runs, &[], "");
    wrong.is_problem(405, "METHOD_NOT_ALLOWED");
    let allowed: BTreeSet<&str> = wrong.headers["allow"].split(',').map(str::trim).collect();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed:?}");
    client.get("/api/v1/nothing").is_problem(404, "NOT_FOUND");
    client.get("/nothing").is_problem(404, "NOT_FOUND");
    client.get("/api/v1/runs/../../etc/passwd").is_problem(404, "NOT_FOUND");
    for run in ["aaaaaaaa", "x", "%2e%2e", "aaaaaaaa%0d%0aSet-Cookie:x"] {
        client.get(&format!("/api/v1/runs/{run}")).is_problem(404, "UNKNOWN_RUN");
        client.post(&format!("/api/v1/runs/{run}/cancel"), &json!({})).is_problem(404, "UNKNOWN_RUN");
    }
    assert_eq!(client.get("/api/v1/runs?cursor=x").is_problem(400, "INVALID_CURSOR"), "cursor");
    assert_eq!(client.get("/api/v1/runs?limt=1").is_problem(400, "INVALID_PARAMETER"), "limt");
    assert_eq!(client.get("/api/v1/runs?limit=many").is_problem(400, "INVALID_PARAMETER"), "limit");
    assert_eq!(client.get("/api/v1/agents?dir=/no/such").is_problem(422, "REFUSED"), "dir");
    assert_eq!(client.get(runs).has(200).json()["runs"], json!([]), "nothing was started");
    stop(server);
}

#[test]
fn an_address_that_cannot_be_used_is_an_error() {
    let home = home(SCRIPT);
    let (server, client) = serve(&home, &[]);
    assert!(client.address.starts_with("127.0.0.1:"), "{}", client.address);
    let used = home.posse(&["serve", "--listen", &client.address]).exits(1);
    let expected =
        format!("error: {}: another process listens there\nhint: name another address", client.address);
    assert!(used.stderr.starts_with(&expected) && used.stdout.is_empty(), "{used:?}");
    for wrong in ["7766", "127.0.0.1", "here:7766", "127.0.0.1:99999"] {
        let refused = home.posse(&["serve", "--listen", wrong]).exits(2).stderr;
        assert!(refused.contains("expected an address and a port"), "{refused}");
    }
    for open in ["0.0.0.0:7766", "[::]:7766", "192.0.2.1:7766"] {
        let refused = home.posse(&["serve", "--listen", open]).exits(2).stderr;
        assert!(
            refused.contains("can be reached from other machines") && refused.contains("ssh -L"),
            "{refused}"
        );
    }
    stop(server);
    let (none, client) = serve(&home, &["--resume"]);
    client.get("/api/v1/runs").has(200);
    assert!(stop(none).contains("no run was interrupted"));
}

#[test]
fn the_page_is_opened_without_showing_the_token_to_other_users() {
    let home = home(SCRIPT);
    let (pipe, browser) = (home.write_own("pipe", ""), home.write_own("browser", ""));
    fs::remove_file(&pipe).expect("removed");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let script = format!("#!/bin/sh\n(echo \"$*\"; cat \"$2\") > '{}'\n", pipe.display());
    fs::write(&browser, script).expect("written");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).expect("set");
    home.set("BROWSER", &format!("{} --new-tab %s", browser.display()));
    let (server, client) = serve(&home, &["--open"]);
    let opened = fs::read_to_string(&pipe).expect("the browser was started");
    let (args, page) = opened.split_once('\n').expect("its arguments, and the page");
    assert!(args.starts_with("--new-tab ") && !args.contains(&client.token), "{args}");
    assert!(page.contains(&format!("url=http://{}/?token={}\"", client.address, client.token)), "{page}");
    let file = fs::metadata(home.state_dir().join("serve.html")).expect("a file");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    stop(server);
    home.set("BROWSER", "/no/such/browser");
    let (server, _) = serve(&home, &["--open"]);
    let said = stop(server);
    assert!(said.contains("warning: no browser was opened: /no/such/browser: "), "{said}");
}

/// A request for an operation of the document: its path, and its body.
type ExampleRequest = (String, Option<Value>);

/// A request for every operation of the document.
fn requests(
    ended: &str,
    changed: &str,
    open: &str,
    other: &str,
    question: &Value,
) -> Vec<(&'static str, ExampleRequest)> {
    let read = |path: String| (path, None);
    let of = |run: &str, rest: &str| format!("/api/v1/runs/{run}{rest}");
    let answer = json!({ "approval": question["approval"], "decision": "allow" });
    vec![
        ("listRuns", read("/api/v1/runs?limit=5".to_owned())),
        ("startRun", ("/api/v1/runs".to_owned(), Some(request()))),
        ("getRun", read(of(ended, ""))),
        ("getOutcome", read(of(ended, "/outcome"))),
        ("getRunStats", read(of(ended, "/stats"))),
        ("getAgent", read(of(ended, "/agents/0"))),
        ("getReport", read(of(ended, "/agents/0/report"))),
        ("getDiff", read(of(changed, "/agents/0/diff?form=stat"))),
        ("listChangedFiles", read(of(changed, "/agents/0/diff/files"))),
        ("getFileDiff", read(of(changed, "/agents/0/diff/file?path=made.txt"))),
        ("getContract", read(of(ended, "/agents/1/contract"))),
        ("getConversation", read(of(ended, "/agents/1/conversation?limit=5"))),
        ("getTimeline", read(of(ended, "/timeline"))),
        ("listSalvage", read(of(changed, "/salvage"))),
        ("checkApply", read(of(changed, "/apply"))),
        ("apply", (of(changed, "/apply"), Some(json!({})))),
        ("exportRun", read(of(changed, "/export"))),
        ("replay", (of(ended, "/replay"), Some(json!({})))),
        ("continueAgent", (of(ended, "/agents/0/continue"), Some(json!({ "text": "and now?" })))),
        ("retryAgent", (of(ended, "/agents/1/retry"), Some(json!({})))),
        ("explain", read(of(open, "/agents/0/explain?operation=write:src/main.rs"))),
        ("listEvents", read(of(ended, "/events?kind=agent.model_replied"))),
        ("followEvents", read(of(ended, "/events/stream"))),
        ("followTask", read(of(ended, "/agents/0/task/stream"))),
        ("followDeltas", read(of(open, "/deltas/stream"))),
        ("listQuestions", read("/api/v1/questions".to_owned())),
        ("listRunQuestions", read(of(open, "/questions"))),
        ("sendMessage", (of(open, "/agents/0/messages"), Some(json!({ "text": "hello" })))),
        ("answerQuestion", (of(open, "/answers"), Some(answer))),
        ("cancel", (of(open, "/cancel"), Some(json!({ "reason": "enough" })))),
        ("kill", (of(other, "/kill"), Some(json!({})))),
        ("resume", (of(ended, "/resume"), None)),
        ("getSession", read("/api/v1/session".to_owned())),
        ("listProjects", read("/api/v1/projects".to_owned())),
        ("addProject", ("/api/v1/projects".to_owned(), Some(json!({ "dir": ".", "tenant": "team" })))),
        ("listAudit", read("/api/v1/audit?limit=5".to_owned())),
        ("checkPlan", ("/api/v1/plans/check".to_owned(), Some(json!({ "plan": "goal: x" })))),
        ("listTrust", read("/api/v1/trust".to_owned())),
        ("getStats", read("/api/v1/stats".to_owned())),
        ("listDefinitions", read("/api/v1/agents".to_owned())),
        ("listSkills", read("/api/v1/skills".to_owned())),
        ("listSettings", read("/api/v1/settings".to_owned())),
        ("listModels", read("/api/v1/models".to_owned())),
        ("inspectMachine", read("/api/v1/doctor".to_owned())),
    ]
}

/// Holds a value against a schema of the document.
#[track_caller]
fn conforms(document: &Value, name: &str, value: &Value) {
    let address = "http://localhost/openapi.json";
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(address, document.clone()).expect("an address");
    let place = format!("{address}#/components/schemas/{name}");
    let index = compiler.compile(&place, &mut schemas).unwrap_or_else(|error| panic!("{name}: {error}"));
    if let Err(error) = schemas.validate(value, index) {
        panic!("{name}: {error}\n{value}");
    }
}

#[test]
fn every_operation_of_the_document_answers_as_it_says() {
    let home = home(ASKING);
    home.not_replayed("it retries an agent that cannot change files: the replay of that run has no base");
    let (server, client) = serve(&home, &[]);
    let document = client.get("/api/openapi.json").has(200).json();
    let open = start(&client);
    client.follow(&stream(&open), None).until("agent.input_requested");
    let question =
        client.get(&format!("/api/v1/runs/{open}/questions")).has(200).json()["questions"][0].clone();
    let other = start(&client);
    client.follow(&stream(&other), None).until("agent.input_requested");
    home.write("script.yaml", SCRIPT);
    let ended = start(&client);
    client.follow(&stream(&ended), None).all();
    home.write("script.yaml", WRITING);
    let changed = start(&client);
    client.follow(&stream(&changed), None).all();
    home.write("script.yaml", SCRIPT);

    let mut described = BTreeSet::new();
    for operations in document["paths"].as_object().expect("paths").values() {
        for operation in operations.as_object().expect("operations").values() {
            described.insert(operation["operationId"].as_str().expect("a name").to_owned());
        }
    }
    let requests = requests(&ended, &changed, &open, &other, &question);
    let named: BTreeSet<String> = requests.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(named, described, "every operation has an example here");

    for (name, (path, body)) in requests {
        let operation = document["paths"].as_object().expect("paths").values();
        let operation = operation.flat_map(|operations| operations.as_object().expect("operations"));
        let (method, operation) =
            operation.into_iter().find(|(_, operation)| operation["operationId"] == name).expect("described");
        let responses = operation["responses"].as_object().expect("responses");
        if responses.get("200").is_some_and(|answer| answer["content"]["text/event-stream"].is_object()) {
            let schema = operation["responses"]["200"]["description"].as_str().expect("a text");
            let schema = schema.split('`').nth(1).expect("a name");
            // Nothing is written at the moment, so there is no delta to compare.
            if name == "followDeltas" {
                drop(client.follow(&path, None));
            } else {
                let first = client.follow(&path, None).next().expect("a message");
                conforms(&document, schema, &first.data);
            }
            continue;
        }
        let answer = match (method.as_str(), &body) {
            ("get", None) => client.get(&path),
            ("post", Some(body)) => client.post(&path, body),
            ("post", None) => client.send("POST", &path, &[], ""),
            other => panic!("{other:?}"),
        };
        let problem = &responses["default"]["content"]["application/problem+json"];
        let expected = responses.get(&answer.status.to_string());
        let content = answer.headers.get("content-type").map(String::as_str).unwrap_or_default();
        match expected.and_then(|expected| expected["content"].as_object()) {
            Some(of) if of.contains_key("application/json") => {
                assert_eq!(content, "application/json", "{name}");
                let schema = of["application/json"]["schema"]["$ref"].as_str().expect("a reference");
                conforms(&document, schema.rsplit('/').next().expect("a name"), &answer.json());
            }
            Some(of) => {
                let expected = if of.contains_key("text/plain") {
                    "text/plain; charset=utf-8"
                } else {
                    "application/gzip"
                };
                assert_eq!(content, expected, "{name}");
            }
            None => {
                // The run has ended.
                assert_eq!(name, "resume", "{answer:?}");
                assert_eq!(content, "application/problem+json", "{name}");
                let schema = problem["schema"]["$ref"].as_str().expect("a reference");
                conforms(&document, schema.rsplit('/').next().expect("a name"), &answer.json());
            }
        }
    }
    stop(server);
}
