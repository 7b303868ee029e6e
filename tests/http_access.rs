//! Who may use a server: tokens with rights, tenants that see nothing of each other, and the log of decisions.

use serde_json::{Value, json};

use crate::http_client::{Answer, Client};
use crate::support::{Home, RunningCommand};

/// A root that only answers.
const SCRIPT: &str = "- reply: {text: all done}\n";
/// A call that asks.
const ASKING: &str = "
- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: git push origin main}}]}
- reply: {text: all done}
";

/// A home whose settings name its script as the model.
fn home(script: &str) -> Home {
    let home = Home::new();
    let script = home.write("script.yaml", script);
    home.write_settings(&format!("model: 'scripted/{}'\n", script.display()));
    home
}

fn serve(home: &Home) -> (RunningCommand, Client) {
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let url = server.line().unwrap_or_else(|| panic!("the server ended"));
    (server, Client::of(&url))
}

/// Makes a token, and returns a client with it.
#[track_caller]
fn client(home: &Home, server: &Client, args: &[&str]) -> Client {
    let made = home.posse(&[&["token", "new"], args].concat()).exits(0);
    assert!(made.stderr.contains("shown once"), "{made:?}");
    Client { address: server.address.clone(), token: made.stdout.trim().to_owned() }
}

#[track_caller]
fn start(client: &Client) -> String {
    let started = client.post("/api/v1/runs", &json!({ "request": "look" })).has(201).json();
    let run = started["run"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    client.follow(&format!("/api/v1/runs/{run}/events/stream"), None).until("run.completed");
    run
}

/// A refusal without what names the request: two of them are the same if a client cannot tell them apart.
fn without_id(answer: &Answer, id: &str) -> (u16, String) {
    (answer.status, String::from_utf8_lossy(&answer.body).replace(id, "ID"))
}

#[test]
fn a_token_does_what_it_has_the_right_to_until_it_is_revoked() {
    let home = home(SCRIPT);
    let (_server, operator) = serve(&home);
    let none = home.posse(&["token", "ls"]).exits(0);
    assert!(none.stdout.contains("there is no token but the one"), "{none:?}");

    // The server that runs already knows it at once.
    let reader = client(&home, &operator, &["reader"]);
    assert!(reader.token.starts_with("posse_") && reader.token != operator.token);
    let session = reader.get("/api/v1/session").has(200).json();
    assert_eq!((&session["token"], &session["rights"]), (&json!("reader"), &json!(["read"])));
    assert!(session["expires_at"].is_string(), "{session}");
    reader.get("/api/v1/runs").has(200);
    let refused = reader.post("/api/v1/runs", &json!({ "request": "look" }));
    refused.is_problem(403, "RIGHT_MISSING");
    assert!(refused.json()["remedy"].as_str().is_some_and(|remedy| remedy.contains("the right `run`")));
    reader.post("/api/v1/runs/aaaaaaaa/answers", &json!({})).is_problem(403, "RIGHT_MISSING");
    reader.post("/api/v1/projects", &json!({ "dir": "." })).is_problem(403, "RIGHT_MISSING");
    reader.get("/api/v1/audit").is_problem(403, "RIGHT_MISSING");
    reader.get("/api/v1/runs/aaaaaaaa/export").is_problem(403, "RIGHT_MISSING");

    let runner = client(&home, &operator, &["runner", "--right", "read", "--right", "run", "--expires", "0"]);
    start(&runner);
    // Who may not answer may not approve in advance; and a file of the machine is no model for others.
    let run = |body: Value| runner.post("/api/v1/runs", &body);
    assert_eq!(
        run(json!({ "request": "look", "allow": ["network"] })).is_problem(403, "RIGHT_MISSING"),
        "allow"
    );
    for (setting, field) in [
        (json!({ "settings": { "model": "scripted/script.yaml" } }), "settings.model"),
        (json!({ "settings": { "model": "replay/x.posse" } }), "settings.model"),
        (json!({ "base_url": "http://127.0.0.1:1" }), "base_url"),
    ] {
        let mut body = json!({ "request": "look" });
        body.as_object_mut().expect("an object").extend(setting.as_object().expect("an object").clone());
        assert_eq!(run(body).is_problem(403, "RIGHT_MISSING"), field);
    }
    let plan =
        "goal: x\nsteps:\n  - {title: a, description: b, agent: explore, model: scripted/script.yaml}\n";
    assert_eq!(run(json!({ "plan": plan })).is_problem(403, "RIGHT_MISSING"), "plan");
    assert_eq!(run(json!({ "request": "look", "dir": "/" })).is_problem(403, "DIR_REFUSED"), "dir");
    runner.get("/api/v1/settings?dir=/etc").is_problem(403, "DIR_REFUSED");
    runner.get("/api/v1/settings?dir=/no/such").is_problem(403, "DIR_REFUSED");

    let listed = home.posse(&["token", "ls"]).exits(0).stdout;
    assert!(
        listed.contains("runner") && listed.contains("read, run") && listed.contains("never"),
        "{listed}"
    );
    assert!(!listed.contains(&runner.token[10..]), "{listed}");
    let listed = home.posse(&["token", "ls", "--json"]).exits(0).json();
    assert_eq!(listed["tokens"].as_array().map(Vec::len), Some(2));
    home.posse(&["token", "new", "runner"]).exits(2);
    home.posse(&["token", "new", "no name"]).exits(2);
    home.posse(&["token", "revoke", "runner"]).exits(0);
    assert_eq!(runner.get("/api/v1/runs").is_problem(401, "TOKEN_REFUSED"), "Authorization");
    home.posse(&["token", "revoke", "runner"]).exits(1);
    reader.get("/api/v1/runs").has(200);
}

#[test]
fn a_tenant_sees_nothing_of_another_one() {
    let home = home(SCRIPT);
    let (_server, operator) = serve(&home);
    let foreign = start(&operator);
    let all = ["--right", "read", "--right", "run", "--right", "answer", "--right", "admin"];
    let team = client(&home, &operator, &[&["team", "--tenant", "team"], &all[..]].concat());
    assert_eq!(team.get("/api/v1/runs").has(200).json()["runs"], json!([]));

    // A run of another tenant is what a run that does not exist is, for every operation.
    let document = team.get("/api/openapi.json").has(200).json();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        if !path.contains("{run}") {
            continue;
        }
        let of = |run: &str| path.replace("{run}", run).replace("{agent}", "0");
        for (method, operation) in operations.as_object().expect("operations") {
            let query = match operation["operationId"].as_str().expect("a name") {
                "explain" => "?operation=bash:ls",
                "getFileDiff" => "?path=x",
                _ => "",
            };
            let body = match operation["operationId"].as_str().expect("a name") {
                "answerQuestion" => json!({ "approval": "0", "decision": "allow" }),
                "sendMessage" | "continueAgent" => json!({ "text": "hello" }),
                _ => json!({}),
            };
            let send = |run: &str| match method.as_str() {
                "get" => team.get(&format!("{}{query}", of(run))),
                _ => team.post(&of(run), &body),
            };
            let (known, unknown) = (send(&foreign), send("aaaaaaaa"));
            known.is_problem(404, "UNKNOWN_RUN");
            assert_eq!(without_id(&known, &foreign), without_id(&unknown, "aaaaaaaa"), "{method} {path}");
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");

    // Without a project, the tenant can start nothing, and an admin of it adds none.
    let request = json!({ "request": "look" });
    team.post("/api/v1/runs", &request).is_problem(403, "DIR_REFUSED");
    team.post("/api/v1/projects", &json!({ "dir": "." })).is_problem(403, "RIGHT_MISSING");
    std::fs::create_dir(home.project().join("theirs")).expect("a directory");
    let added = json!({ "dir": "theirs", "tenant": "team" });
    operator.post("/api/v1/projects", &added).has(201);
    let projects = team.get("/api/v1/projects").has(200).json();
    assert_eq!(
        (&projects["projects"][0]["name"], projects["projects"].as_array().map(Vec::len)),
        (&json!("theirs"), Some(1))
    );
    let own = start(&team);
    let shown = team.get(&format!("/api/v1/runs/{own}")).has(200).json();
    assert_eq!(shown["dir"], projects["projects"][0]["dir"]);
    let outside = json!({ "request": "look", "dir": home.project() });
    assert_eq!(team.post("/api/v1/runs", &outside).is_problem(403, "DIR_REFUSED"), "dir");

    // And the other way round.
    operator.get(&format!("/api/v1/runs/{own}")).is_problem(404, "UNKNOWN_RUN");
    let listed = operator.get("/api/v1/runs").has(200).json();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1));
    assert!(!home.posse(&["ps", "--all"]).exits(0).stdout.contains(&own));
    // Two tenants may use the same key.
    for client in [&team, &operator] {
        client.post_with("/api/v1/runs", &[("Idempotency-Key", "a")], &request).has(201);
    }
}

#[test]
fn a_stream_ends_with_its_token() {
    let home = home(ASKING);
    let (_server, operator) = serve(&home);
    let reader = client(&home, &operator, &["reader"]);
    let run = operator.post("/api/v1/runs", &json!({ "request": "look" })).has(201).json()["run"].clone();
    let run = run.as_str().expect("a run");
    let mut following = reader.follow(&format!("/api/v1/runs/{run}/events/stream"), None);
    following.until("agent.input_requested");
    home.posse(&["token", "revoke", "reader"]).exits(0);
    operator.post(&format!("/api/v1/runs/{run}/cancel"), &json!({})).has(202);
    let last = following.next().expect("a last message");
    assert_eq!((last.name.as_str(), last.id), ("revoked", None), "nothing of what happened since");
    assert!(following.next().is_none());
}

#[test]
fn every_decision_is_in_the_log_with_the_token_that_made_it() {
    let home = home(ASKING);
    let (_server, operator) = serve(&home);
    let phone = client(&home, &operator, &["phone", "--right", "read", "--right", "answer"]);
    let run = operator.post("/api/v1/runs", &json!({ "request": "look" })).has(201).json()["run"].clone();
    let run = run.as_str().expect("a run");
    let mut following = operator.follow(&format!("/api/v1/runs/{run}/events/stream"), None);
    following.until("agent.input_requested");
    let open = phone.get(&format!("/api/v1/runs/{run}/questions")).has(200).json();
    let answer = json!({ "approval": open["questions"][0]["approval"], "decision": "deny", "reason": "no" });
    phone.post(&format!("/api/v1/runs/{run}/answers"), &answer).has(200);
    following.until("run.completed");
    operator.post(&format!("/api/v1/runs/{run}/cancel"), &json!({})).is_problem(409, "RUN_ENDED");
    // Reading decides nothing.
    phone.get("/api/v1/runs").has(200);

    let log = operator.get("/api/v1/audit").has(200).json();
    let entries = log["entries"].as_array().expect("entries");
    let of = |operation: &str| -> Vec<&Value> {
        entries.iter().filter(|entry| entry["operation"] == operation).collect()
    };
    let answers = of("answerQuestion");
    let [after, before] = answers[..] else { panic!("{log:#}") };
    assert_eq!(
        (&before["id"], &before["token"], &before["run"]),
        (&after["id"], &json!("phone"), &json!(run))
    );
    assert!(before["detail"].as_str().is_some_and(|detail| detail.starts_with("decision=deny ")), "{before}");
    assert_eq!((&before["outcome"], &after["outcome"]), (&Value::Null, &json!("200")));
    let started = of("startRun");
    assert_eq!((&started[0]["run"], &started[0]["token"]), (&json!(run), &json!("serve")));
    assert_eq!(of("cancel")[0]["outcome"], "409 RUN_ENDED");
    assert_eq!(of("newToken")[0]["detail"], "name=phone rights=read,answer");
    assert!(entries.iter().all(|entry| entry["operation"] != "listRuns"), "{log:#}");
}

#[test]
fn beyond_this_machine_a_server_needs_encryption_and_a_name() {
    let home = home(SCRIPT);
    home.write("text.pem", "no certificate\n");
    let refuses = |args: &[&str], words: &[&str]| {
        let refused = home.posse(&[&["serve"], args].concat()).exits(2);
        let said = refused.stderr.replace('\n', " ");
        assert!(words.iter().all(|word| said.contains(word)) && refused.stdout.is_empty(), "{refused:?}");
    };
    refuses(&["--listen", "0.0.0.0:0"], &["is not allowed", "ssh -L", "--allow-remote"]);
    refuses(&["--host", "posse.example"], &["is not allowed"]);
    refuses(&["--listen", "0.0.0.0:0", "--allow-remote"], &["nothing encrypts", "--behind-proxy"]);
    refuses(&["--allow-remote", "--behind-proxy"], &["the name", "is missing", "--host"]);
    refuses(&["--host", "https://x"], &["--host: `https://x` is not the name"]);
    refuses(&["--tls-cert", "text.pem"], &["--tls-key"]);
    refuses(&["--tls-cert", "none.pem", "--tls-key", "text.pem"], &["none.pem: no such file"]);
    refuses(&["--tls-cert", "text.pem", "--tls-key", "text.pem"], &["text.pem: there is no"]);

    // A proxy speaks TLS: requests have its name, and pages its origin.
    let options = ["--allow-remote", "--behind-proxy", "--host", "posse.example"];
    let mut server = home.start(&[&["serve", "--listen", "127.0.0.1:0"], &options[..]].concat());
    let url = server.line().expect("a URL");
    assert!(url.starts_with("https://posse.example/?token="), "{url}");
    server.kill();
}
