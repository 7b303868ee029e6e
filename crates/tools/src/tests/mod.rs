//! Calls every tool as the engine does.

mod bad_input;
mod delegate;
mod edit;
mod find;
mod outside;
mod read;
mod recover;
mod rules;
mod skills;
mod specifier;
mod ssrf;
mod web;
mod webfetch;
mod websearch;
mod write;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use posse_domain::code::Code;
use posse_domain::contract::ExecutionContext;
use posse_domain::event::WriteIntent;
use posse_domain::hash::Hash;
use posse_domain::permission::{Approvals, PathRules};
use posse_engine::ports::{
    CallContext, EffectTool, EngineRequest, Handler, PreparedEffect, RecoveredEffect, SeenFiles, StopSignal,
    Tool, ToolFailure, ToolResult,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::builtin;

/// A workspace, an agent in it, and all tools.
struct Bench {
    top: TempDir,
    call: CallContext,
    runtime: tokio::runtime::Runtime,
}

#[derive(Debug, Default)]
struct RecordedViews(Mutex<HashMap<String, Hash>>);

impl SeenFiles for RecordedViews {
    fn seen(&self, path: &str) -> Option<Hash> {
        self.0.lock().unwrap().get(path).copied()
    }

    fn note(&self, path: &str, hash: Hash) {
        self.0.lock().unwrap().insert(path.to_owned(), hash);
    }
}

impl Bench {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("ws")).unwrap();
        fs::create_dir(top.path().join("ws-evil")).unwrap();
        fs::write(top.path().join("ws-evil/secret.txt"), "SECRET\n").unwrap();
        let call = CallContext {
            agent: "k3f9ab2c".parse().unwrap(),
            context: Arc::new(ExecutionContext::default()),
            call_id: "c1".into(),
            workspace: Arc::new(top.path().join("ws")),
            files: posse_engine::ports::CallFiles::Folder,
            seen: Arc::new(RecordedViews::default()),
            rules: PathRules::default(),
            approvals: Approvals::none(),
            network: false,
            limit: std::time::Duration::from_mins(1),
            idle: std::time::Duration::MAX,
            stop: StopSignal::never(),
            skills: Arc::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { top, call, runtime }
    }

    fn ws(&self, path: &str) -> PathBuf {
        self.top.path().join("ws").join(path)
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.ws(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.ws(path)).unwrap()
    }

    /// Forgets which files the agent has read, as a new process does.
    fn forget(&mut self) {
        self.call.seen = Arc::new(RecordedViews::default());
    }

    fn prepare(&self, name: &str, input: Value) -> Result<PreparedEffect, ToolFailure> {
        self.runtime.block_on(effect(name).prepare(self.call.clone(), input))
    }

    fn run(&self, prepared: PreparedEffect) -> ToolResult {
        self.runtime.block_on((prepared.run)())
    }

    fn call(&self, name: &str, input: Value) -> Result<String, ToolFailure> {
        let prepared = self.prepare(name, input)?;
        self.run(prepared).map(|output| output.text)
    }

    fn ok(&self, name: &str, input: Value) -> String {
        self.call(name, input).unwrap()
    }

    /// The text of a failure with this code.
    fn fails(&self, name: &str, input: Value, code: Code) -> String {
        let failure = self.call(name, input).unwrap_err();
        assert_eq!(failure.code, code, "{}", failure.text);
        failure.text
    }

    fn recover(&self, name: &str, input: Value, intent: WriteIntent) -> RecoveredEffect {
        self.runtime.block_on(effect(name).recover(self.call.clone(), input, intent))
    }
}

fn tool(name: &str) -> Tool {
    builtin(crate::ToolServices::default()).into_iter().find(|tool| tool.name == name).unwrap()
}

fn effect(name: &str) -> Arc<dyn EffectTool> {
    match tool(name).handler {
        Handler::Effect(effect) => effect,
        Handler::Request(_) => panic!("{name} asks the engine"),
    }
}

fn request(name: &str, input: Value) -> Result<EngineRequest, ToolFailure> {
    match tool(name).handler {
        Handler::Request(request) => request.request(input),
        Handler::Effect(_) => panic!("{name} touches the outside"),
    }
}
