//! `ledger`: a tool with an effect that cannot be undone, recorded outside of Posse's reach.
//!
//! Each call appends one line to a file outside of the workspace and the state directory. The checks compare the
//! journal with it: a repeated line is an effect that happened twice.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse::AgentId;
use posse::ports::{
    CallContext, EffectTool, Faults, Handler, PreparedEffect, Tool, ToolFailure, ToolOutput, ToolResult,
};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::EffectClass;
use serde::Deserialize;
use serde_json::{Value, json};

/// The fault points around the line, in the order in which a call passes them.
pub const FAULT_POINTS: &[&str] = &["ledger.before_line", "ledger.after_line"];

pub const NAME: &str = "ledger";
/// Longest delay. A call that takes longer would be aborted at its time limit.
const DELAY_MAX_MS: u64 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// How long the call takes around its line, so that a kill can happen during it.
    #[serde(default)]
    delay_ms: u64,
}

pub fn tool(file: PathBuf, faults: Faults) -> Tool {
    let spec = ToolSpec {
        name: NAME.to_owned(),
        description: "Appends one line to a ledger outside of the workspace. It cannot be undone.".to_owned(),
        input_schema: json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {"delay_ms": {"type": "integer", "minimum": 0}},
        }),
    };
    Tool {
        name: NAME,
        class: EffectClass::Exec,
        describe: Arc::new(move |_| spec.clone()),
        specifier: |_| None,
        handler: Handler::Effect(Arc::new(Ledger { file: file.into(), faults })),
    }
}

struct Ledger {
    file: Arc<Path>,
    faults: Faults,
}

impl EffectTool for Ledger {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let (file, faults) = (self.file.clone(), self.faults.clone());
        Box::pin(async move {
            let input: Input =
                serde_json::from_value(input).map_err(|error| ToolFailure::invalid(error.to_string()))?;
            let run = append(file, call, Duration::from_millis(input.delay_ms.min(DELAY_MAX_MS)), faults);
            Ok(PreparedEffect { write: None, sandbox: None, run: Box::new(|| Box::pin(run)) })
        })
    }
}

async fn append(file: Arc<Path>, call: CallContext, delay: Duration, faults: Faults) -> ToolResult {
    tokio::time::sleep(delay / 2).await;
    faults.hit("ledger.before_line");
    let line = format!("{} {} {}\n", call.agent, call.call_id, std::process::id());
    let written = tokio::task::spawn_blocking(move || {
        let mut file = OpenOptions::new().create(true).append(true).open(&file)?;
        // One write for the whole line, so that a kill leaves all of it or nothing.
        file.write_all(line.as_bytes())?;
        file.sync_all()
    });
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(ToolFailure::failed(format!("the ledger cannot be written: {error}"))),
        Err(error) => return Err(ToolFailure::failed(error.to_string())),
    }
    faults.hit("ledger.after_line");
    tokio::time::sleep(delay / 2).await;
    Ok(ToolOutput::text("Written.".to_owned()))
}

/// A call as both the ledger and the journal refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    pub agent: AgentId,
    /// The call's id. With a scripted model it is unique over the agent's attempts.
    pub call_id: String,
}

/// How often each call is in the ledger. A ledger that was never written is empty.
pub fn read(file: &Path) -> Result<HashMap<Entry, u32>, String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(format!("the ledger cannot be read: {error}")),
    };
    let mut entries = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (agent, call_id) = (words.next().and_then(|id| id.parse().ok()), words.next());
        let (Some(agent), Some(call_id)) = (agent, call_id) else {
            return Err(format!("the ledger has an unreadable line: {line:?}"));
        };
        *entries.entry(Entry { agent, call_id: call_id.to_owned() }).or_default() += 1;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_call() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger");
        assert_eq!(read(&file), Ok(HashMap::new()));
        std::fs::write(&file, "k3f9ab2c.1 call_1_1 9\nk3f9ab2c.1 call_1_1 8\nk3f9ab2c call_1_1 9\n").unwrap();
        let entries = read(&file).unwrap();
        let count = |agent: &str| {
            let entry = Entry { agent: agent.parse().unwrap(), call_id: "call_1_1".to_owned() };
            entries.get(&entry).copied()
        };
        assert_eq!((count("k3f9ab2c.1"), count("k3f9ab2c")), (Some(2), Some(1)));
        std::fs::write(&file, "what\n").unwrap();
        assert!(read(&file).is_err());
    }
}
