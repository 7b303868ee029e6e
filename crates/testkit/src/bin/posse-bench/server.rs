//! The mock model server in its own process, so that neither its memory nor its time counts as Posse's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use posse_testkit::mock::{Answer, Mock, MockReply, MockRequest, Options, fanout};
use serde_json::{Value, json};

/// The argument that makes this program the server.
pub(crate) const SERVE: &str = "serve";
/// How long each event of a held answer is held.
const HELD_MS: u64 = 1_000;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Scene {
    /// A root with `width` children of two turns. Each answer takes `latency`.
    Fanout { width: usize, latency: Duration },
    /// The same tree, but the second answers of children begin at once and take seconds to end.
    Held { width: usize },
    /// One agent with this many turns.
    Turns(usize),
}

impl Scene {
    fn words(self) -> [String; 3] {
        let words = |name: &str, count: usize, ms: u128| [name.to_owned(), count.to_string(), ms.to_string()];
        match self {
            Scene::Fanout { width, latency } => words("fanout", width, latency.as_millis()),
            Scene::Held { width } => words("held", width, 0),
            Scene::Turns(count) => words("turns", count, 0),
        }
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let name = words.next()?;
        let count = words.next()?.parse().ok()?;
        let latency = Duration::from_millis(words.next()?.parse().ok()?);
        match name.as_str() {
            "fanout" => Some(Scene::Fanout { width: count, latency }),
            "held" => Some(Scene::Held { width: count }),
            "turns" => Some(Scene::Turns(count)),
            _ => None,
        }
    }
}

/// Serves until the process is ended. The first line of its output is its address.
pub(crate) fn serve(words: impl Iterator<Item = String>) {
    let options = Options { keep_bodies: false, ..Options::default() };
    let mock = match Scene::parse(words).expect("a scene, a count and a latency") {
        Scene::Fanout { width, latency } => Mock::with(fanout(width, latency), options),
        Scene::Held { width } => {
            let source = fanout(width, Duration::ZERO);
            Mock::with(
                move |asked: &MockRequest| {
                    let answer = posse_testkit::mock::ReplySource::answer(&source, asked);
                    let held = results(asked) > 0 && !asked.contains(posse_testkit::mock::FANOUT);
                    if held { answer.gap(Duration::from_millis(HELD_MS)) } else { answer }
                },
                options,
            )
        }
        Scene::Turns(count) => Mock::with(move |asked: &MockRequest| turn(asked, count), options),
    };
    let mock = mock.expect("a port on loopback");
    println!("{}", mock.url());
    mock.run();
}

fn turn(asked: &MockRequest, count: usize) -> Answer {
    if results(asked) + 1 < count {
        MockReply::text("Looking.").call("read", &json!({"path": "hello.txt"})).into()
    } else {
        Answer::text("Found it in hello.txt.")
    }
}

/// The number of tool results, without parsing the request as JSON, because that time would count as Posse's.
fn results(asked: &MockRequest) -> usize {
    const MARK: &[u8] = b"\"tool_call_id\"";
    asked.body.windows(MARK.len()).filter(|window| *window == MARK).count()
}

pub(crate) struct Server {
    process: Child,
    url: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stats {
    pub(crate) requests: u64,
    pub(crate) connections: u64,
    pub(crate) cpu: Duration,
}

impl Server {
    pub(crate) fn start(scene: Scene) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        let mut process =
            command.arg(SERVE).args(scene.words()).stdout(Stdio::piped()).spawn().expect("a server");
        let mut url = String::new();
        let said = process.stdout.take().expect("it was piped");
        BufReader::new(said).read_line(&mut url).expect("its address");
        Self { process, url: url.trim().to_owned() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn stats(&self) -> Stats {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("the server");
        let request = format!("GET /mock/stats HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the server listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let stats: Value = serde_json::from_str(body).expect("figures");
        let number = |name: &str| stats[name].as_u64().expect("a number");
        Stats {
            requests: number("requests"),
            connections: number("connections"),
            cpu: Duration::from_micros(number("cpu_us")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
