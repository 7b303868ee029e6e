//! A mock server in place of the provider, and the real binary in front of it, shared by the stories of real models.

use std::process::Command;
use std::time::Duration;

use posse_testkit::mock::{LogEntry, Mock, Options, ReplySource, WireFormat};
use serde_json::Value;

use crate::support::{Done, Home, RunningCommand, run_of};

/// The timeout for an event that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The key of every provider here.
pub(crate) const KEY: &str = "sk-canary-93b1f0c2a7d54e68";

/// A provider of each format, with a model.
pub(crate) const MODELS: [(WireFormat, &str); 3] = [
    (WireFormat::Messages, "anthropic/claude-sonnet-4-5"),
    (WireFormat::Responses, "openai/gpt-5.2"),
    (WireFormat::Chat, "openai-compatible/mock-large"),
];

/// A user with a key, and a provider on loopback.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) mock: Mock,
    model: &'static str,
}

impl World {
    /// A provider with this reply source. Its key and further settings are in the user's settings.
    pub(crate) fn new(model: &'static str, more: &str, source: impl ReplySource) -> Self {
        let options = Options { key: Some(KEY.to_owned()), ..Options::default() };
        let mock = Mock::with(source, options).expect("a server");
        let home = Home::new();
        let (provider, _) = model.split_once('/').expect("a provider");
        home.write_settings(&format!("providers:\n  {provider}:\n    key: {KEY}\n{more}"));
        home.write("hello.txt", "hello from the file\n");
        Self { home, mock, model }
    }

    /// The arguments of a run.
    fn args<'a>(&'a self, url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let mut args = vec!["run", "--model", self.model, "--base-url", url];
        args.extend_from_slice(more);
        args
    }

    /// Executes a run to its end.
    pub(crate) fn run(&self, more: &[&str]) -> Done {
        self.home.posse(&self.args(&self.mock.url(), more))
    }

    /// Starts a run that the story then watches.
    pub(crate) fn start(&self, more: &[&str]) -> RunningCommand {
        self.home.start(&self.args(&self.mock.url(), more))
    }

    /// The command of a run, ready to be started.
    pub(crate) fn command(&self, more: &[&str]) -> Command {
        self.home.command(&self.args(&self.mock.url(), more))
    }

    /// The events of the only run.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let ps = self.home.posse(&["ps", "--json", "-n", "1"]).exits(0).json();
        self.home.posse(&["logs", "--json", &run_of(&ps)]).exits(0).json_lines()
    }

    /// Waits until the server has received enough.
    #[track_caller]
    pub(crate) fn wait(&self, enough: impl Fn(&[LogEntry]) -> bool) {
        assert!(self.mock.wait(PATIENCE, enough), "{:#?}", self.mock.requests());
    }
}

/// The events of an agent; `agent` is the end of its id, `""` is the root.
pub(crate) fn of_agent<'a>(events: &'a [Value], agent: &'a str, kind: &'a str) -> Vec<&'a Value> {
    let fits = |event: &&Value| {
        event["kind"] == kind && event["agent_id"].as_str().and_then(|id| id.get(8..)) == Some(agent)
    };
    events.iter().filter(fits).collect()
}

/// The events of a kind.
pub(crate) fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// All tokens of a usage or of a reserve.
pub(crate) fn tokens(counted: &Value) -> u64 {
    counted["input_tokens"].as_u64().unwrap_or(0) + counted["output_tokens"].as_u64().unwrap_or(0)
}
