//! Random and hostile requests, made from the OpenAPI document: every operation answers as the document says, none fails,
//! and none hangs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;

use boon::{Compiler, SchemaIndex, Schemas};
use posse_testkit::dice::Dice;
use serde_json::{Map, Value, json};

use crate::http_client::{Answer, Client};
use crate::support::Home;

const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- reply: {text: all done}
";
const STUCK: &str = "- reply: {text: never}\n  latency_ms: 3600000\n";

/// Requests for each operation.
const CASES: u64 = if option_env!("POSSE_CAMPAIGNS").is_some() { 500 } else { 12 };
const SEED: u64 = 20;
/// How deep a made value is nested.
const DEPTH_MAX: u32 = 4;

/// Texts that programs have taken for something else.
const HOSTILE: &[&str] = &[
    "",
    " ",
    "0",
    "-1",
    "18446744073709551616",
    "null",
    "true",
    "../../etc/passwd",
    "..%2f..%2f",
    "\u{0}",
    "a\r\nSet-Cookie: x=y",
    "\n\nevent: end\ndata: {}\n\n",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "'; DROP TABLE runs; --",
    "\u{202e}\u{1b}[2J",
    "ＫＡ",
    "%00",
    "*",
    "@",
    "k3f9ab2c.1.1.1.1.1.1.1.1",
    "completed",
    "network",
    "bash:*",
];

/// Makes requests.
struct Maker<'a> {
    dice: Dice,
    document: &'a Value,
    /// Runs that exist, and one that does not.
    runs: &'a [String],
}

impl Maker<'_> {
    fn one_of<'b, T: ?Sized>(&mut self, choices: &[&'b T]) -> &'b T {
        let at = self.dice.roll(choices.len() as u64);
        choices[usize::try_from(at).expect("a place")]
    }

    /// Whether something of this chance happens: one in so many.
    fn once_in(&mut self, many: u64) -> bool {
        self.dice.roll(many) == 0
    }

    fn hostile(&mut self) -> String {
        if self.once_in(20) { "x".repeat(5_000) } else { self.one_of(HOSTILE).to_owned() }
    }

    /// A value for a schema, or for no schema at all.
    fn value(&mut self, schema: &Value, depth: u32) -> Value {
        if self.once_in(6) || depth == 0 {
            return self.anything(depth);
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().expect("a name");
            return self.value(&self.document["components"]["schemas"][name].clone(), depth);
        }
        for of in ["anyOf", "oneOf", "allOf"] {
            if let Some(choices) = schema[of].as_array() {
                let all: Vec<&Value> = choices.iter().collect();
                let chosen = self.one_of(&all).clone();
                return self.value(&chosen, depth);
            }
        }
        if let Some(words) = schema["enum"].as_array() {
            let all: Vec<&Value> = words.iter().collect();
            return self.one_of(&all).clone();
        }
        if let Some(word) = schema.get("const") {
            return word.clone();
        }
        let of = match &schema["type"] {
            Value::Array(types) => {
                let all: Vec<&Value> = types.iter().collect();
                self.one_of(&all).as_str().unwrap_or_default().to_owned()
            }
            of => of.as_str().unwrap_or_default().to_owned(),
        };
        match of.as_str() {
            "object" => self.object(schema, depth),
            "array" => {
                let count = self.dice.roll(3);
                (0..count).map(|_| self.value(&schema["items"], depth.saturating_sub(1))).collect()
            }
            "string" => self.hostile().into(),
            "integer" | "number" => {
                self.one_of(&[&json!(0), &json!(1), &json!(-1), &json!(1e300), &json!(u64::MAX)]).clone()
            }
            "boolean" => self.once_in(2).into(),
            "null" => Value::Null,
            _ => self.anything(depth),
        }
    }

    fn object(&mut self, schema: &Value, depth: u32) -> Value {
        let mut made = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_there = if required.contains(&name.as_str()) { !self.once_in(8) } else { self.once_in(3) };
            if is_there {
                made.insert(name.clone(), self.value(property, depth.saturating_sub(1)));
            }
        }
        if self.once_in(8) {
            made.insert(self.hostile(), self.anything(depth.saturating_sub(1)));
        }
        made.into()
    }

    /// Any JSON.
    fn anything(&mut self, depth: u32) -> Value {
        match self.dice.roll(if depth == 0 { 4 } else { 6 }) {
            0 => Value::Null,
            1 => self.hostile().into(),
            2 => json!(-7.5),
            3 => true.into(),
            4 => json!([self.anything(depth - 1)]),
            _ => {
                let name = self.hostile();
                json!({ name: self.anything(depth - 1) })
            }
        }
    }

    /// A path of an operation, with its parameters.
    fn path(&mut self, template: &str, operation: &Value) -> String {
        let parts = template.split('/').map(|part| match part {
            "{run}" if self.once_in(5) => encoded(&self.hostile()),
            "{run}" => {
                let all: Vec<&String> = self.runs.iter().collect();
                self.one_of(&all).clone()
            }
            "{agent}" if self.once_in(3) => encoded(&self.hostile()),
            "{agent}" => self.one_of(&["0", "1", "7"]).to_owned(),
            part => part.to_owned(),
        });
        let mut path = parts.collect::<Vec<_>>().join("/");
        let mut separator = '?';
        let parameters: Vec<Value> = operation["parameters"].as_array().cloned().unwrap_or_default();
        for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query") {
            let is_there = parameter["required"] == true || self.once_in(3);
            if !is_there || self.once_in(12) {
                continue;
            }
            let value = match self.value(&parameter["schema"], 1) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            path.extend([
                &separator.to_string(),
                parameter["name"].as_str().expect("a name"),
                "=",
                &encoded(&value),
            ]);
            separator = '&';
        }
        if self.once_in(10) {
            path.extend([&separator.to_string(), &encoded(&self.hostile()), "=", &encoded(&self.hostile())]);
        }
        path
    }

    /// The body of a request.
    fn body(&mut self, operation: &Value) -> String {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        match self.dice.roll(12) {
            1 => "{".to_owned(),
            2 => "[".repeat(5_000),
            3 => String::new(),
            4 => "{\"a\":1}{}".to_owned(),
            _ if schema.is_null() => self.anything(DEPTH_MAX).to_string(),
            _ => self.value(&schema.clone(), DEPTH_MAX).to_string(),
        }
    }
}

/// A text as a part of a URL.
fn encoded(text: &str) -> String {
    let mut all = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => all.push(char::from(byte)),
            byte => {
                let _ = write!(all, "%{byte:02X}");
            }
        }
    }
    all
}

/// The beginning of a response that may not end.
fn head(client: &Client, path: &str) -> Answer {
    let mut connection = TcpStream::connect(&client.address).expect("a connection");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        client.address, client.token
    );
    connection.write_all(request.as_bytes()).expect("sent");
    let mut lines = BufReader::new(connection).lines().map(|line| line.expect("a line"));
    let first = lines.next().expect("an answer");
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Answer { status, headers: headers.collect(), body: Vec::new() }
}

/// Holds values against schemas of the document.
struct Judge<'a> {
    document: &'a Value,
    known: BTreeMap<String, (Schemas, SchemaIndex)>,
}

impl Judge<'_> {
    fn conforms(&mut self, name: &str, value: &Value, request: &str) {
        let document = self.document;
        let (schemas, index) = self.known.entry(name.to_owned()).or_insert_with(|| {
            let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
            let address = "http://localhost/openapi.json";
            compiler.add_resource(address, document.clone()).expect("an address");
            let place = format!("{address}#/components/schemas/{name}");
            let index = compiler.compile(&place, &mut schemas).expect("a schema");
            (schemas, index)
        });
        if let Err(error) = schemas.validate(value, *index) {
            panic!("{request}: {error}\n{value}");
        }
    }
}

#[test]
fn whatever_is_sent_is_answered_as_the_document_says() {
    let home = Home::new();
    home.not_replayed("random requests start, end and remove what they can");
    home.write("script.yaml", SCRIPT);
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let client = Client::of(&server.line().expect("a URL"));
    let request = json!({ "request": "look", "settings": { "model": "scripted/script.yaml" } });
    let start =
        || client.post("/api/v1/runs", &request).has(201).json()["run"].as_str().expect("a run").to_owned();
    let ended = start();
    client.follow(&format!("/api/v1/runs/{ended}/events/stream"), None).until("run.completed");
    home.write("script.yaml", STUCK);
    let runs = [ended, start(), "aaaaaaaa".to_owned()];
    let document = client.get("/api/openapi.json").has(200).json();
    let mut judge = Judge { document: &document, known: BTreeMap::new() };
    let (mut accepted, mut refused) = (0, 0);
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, operations)| {
        operations
            .as_object()
            .expect("operations")
            .iter()
            .map(move |(method, operation)| (path, method, operation))
    });
    for (number, (template, method, operation)) in operations.enumerate() {
        let name = operation["operationId"].as_str().expect("a name");
        let mut maker = Maker { dice: Dice::of_part(SEED, number as u64), document: &document, runs: &runs };
        // An inspection of the machine takes a while, and is always the same.
        let cases = if name == "inspectMachine" { 1 } else { CASES };
        for _ in 0..cases {
            let path = maker.path(template, operation);
            let body = if method == "post" { maker.body(operation) } else { String::new() };
            let shown = format!("{name}: {method} {path} {}", &body[..body.len().min(300)]);
            let headers = [("Content-Type", "application/json")];
            let responses = &operation["responses"];
            let is_stream = responses["200"]["content"]["text/event-stream"].is_object();
            let answer = if is_stream {
                head(&client, &path)
            } else {
                client.send(
                    &method.to_uppercase(),
                    &path,
                    if body.is_empty() { &[] } else { &headers },
                    &body,
                )
            };
            assert_ne!(answer.status, 500, "{shown}: {}", String::from_utf8_lossy(&answer.body));
            let content = answer.headers.get("content-type").map(String::as_str).unwrap_or_default();
            assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{shown}");
            let described = &responses[answer.status.to_string()];
            if described.is_null() {
                refused += 1;
                assert!((400..500).contains(&answer.status) || answer.status == 503, "{shown}: {answer:?}");
                assert_eq!(content, "application/problem+json", "{shown}");
                if !is_stream {
                    judge.conforms("Problem", &answer.json(), &shown);
                }
                continue;
            }
            accepted += 1;
            let described = described["content"].as_object();
            if let Some(of) = described.and_then(|of| of.get("application/json")) {
                let reference = of["schema"]["$ref"].as_str().expect("a reference");
                assert_eq!(content, "application/json", "{shown}");
                judge.conforms(reference.rsplit('/').next().expect("a name"), &answer.json(), &shown);
            } else if let Some(of) = described {
                let media = content.split(';').next().unwrap_or_default();
                assert!(of.contains_key(media), "{shown}: {content}");
            }
        }
    }
    assert!(accepted > 60 && refused > 200, "{accepted} accepted, {refused} refused");
    client.get("/api/v1/session").has(200);
}
