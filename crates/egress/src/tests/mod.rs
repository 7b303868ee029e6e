//! The client against local servers: what it refuses, what it follows, and where it stops.

mod body;
mod limits;
mod pinned;
mod redirects;
mod secure;
mod server;
mod target;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;

use super::*;
use server::{Server, ServerReply};

/// A public address that no machine has: fetches that get this far fail without leaving the machine.
const NOBODY: &str = "3ffe::1";

/// A resolver that returns each of its answers once, and then repeats the last one.
#[derive(Clone, Default)]
struct ScriptedResolver {
    answers: Arc<Mutex<VecDeque<Vec<IpAddr>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ScriptedResolver {
    fn new(answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Self { answers: Arc::new(Mutex::new(answers.iter().map(parse).collect())), asked: Arc::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for ScriptedResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(std::future::ready(Ok(answer.unwrap_or_default())))
    }
}

/// A client that resolves every name to this machine.
fn here() -> Egress {
    Egress::resolving(ScriptedResolver::new(&[&["127.0.0.1"]]))
}

fn get(url: &str) -> Request {
    Request::get(Target::parse(url).unwrap())
}

/// A request with short timeouts.
fn brief(url: &str) -> Request {
    let short = Duration::from_millis(200);
    Request { limits: Limits { total: short, connect: short, body_max_bytes: 1 << 20 }, ..get(url) }
}

/// Opens everything on this host.
fn opened(host: &'static str) -> Openings {
    Openings::by(move |target| target.host() == host)
}

fn answer(reply: Result<Reply, EgressError>) -> Answer {
    match reply.unwrap() {
        Reply::Answer(answer) => answer,
        Reply::Elsewhere { to, .. } => panic!("redirected to {to}"),
    }
}
