//! Small tools whose effects a test can observe, delay and count.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::EffectClass;
use posse_engine::ports::{
    CallContext, EffectTool, Handler, PreparedEffect, Tool, ToolFailure, ToolOutput, ToolResult,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::power::Power;
use crate::workspaces::MemoryWorkspaces;

/// All effects of tools on the outside, in order: tool, agent (relative), call.
#[derive(Clone, Default)]
pub(crate) struct EffectLog(Arc<Mutex<Vec<(String, String, String)>>>);

impl EffectLog {
    fn add(&self, tool: &str, call: &CallContext) {
        let entry = (tool.to_owned(), call.agent.relative().to_owned(), call.call_id.to_string());
        self.0.lock().expect("no panic while it is held").push(entry);
    }

    pub(crate) fn all(&self) -> Vec<(String, String, String)> {
        self.0.lock().expect("no panic while it is held").clone()
    }

    /// How often a tool acted.
    pub(crate) fn count(&self, tool: &str) -> usize {
        self.all().iter().filter(|(name, ..)| name == tool).count()
    }
}

/// Makes each caller wait until the latch is opened.
#[derive(Clone)]
pub(crate) struct Latch(Arc<(watch::Sender<usize>, Semaphore)>);

impl Latch {
    pub(crate) fn closed() -> Self {
        Self(Arc::new((watch::Sender::new(0), Semaphore::new(0))))
    }

    pub(crate) async fn pass(&self) {
        self.0.0.send_modify(|waiting| *waiting += 1);
        drop(self.0.1.acquire().await);
    }

    /// Waits until this many callers have arrived.
    pub(crate) async fn reached(&self, count: usize) {
        drop(self.0.0.subscribe().wait_for(|waiting| *waiting >= count).await);
    }

    /// Lets all callers pass, now and later.
    pub(crate) fn open(&self) {
        self.0.1.close();
    }
}

type Step<T> = Arc<dyn Fn(CallContext, Value) -> BoxFuture<'static, T> + Send + Sync>;

/// A tool made of two closures: one prepares, one acts.
struct ClosureTool {
    prepare: Step<Result<(), ToolFailure>>,
    run: Step<ToolResult>,
    power: Option<Power>,
}

impl EffectTool for ClosureTool {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        if self.power.as_ref().is_some_and(|power| !power.is_on()) {
            return pending().boxed();
        }
        let (run, prepare) = (self.run.clone(), self.prepare.clone());
        async move {
            prepare(call.clone(), input.clone()).await?;
            Ok(PreparedEffect { write: None, sandbox: None, run: Box::new(move || run(call, input)) })
        }
        .boxed()
    }
}

fn made(name: &'static str, class: EffectClass, made: ClosureTool) -> Tool {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: format!("{name}, for tests"),
        input_schema: json!({"type": "object"}),
    };
    Tool {
        name,
        class,
        describe: Arc::new(move |_| spec.clone()),
        specifier: |input| Some(input.get("on")?.as_str()?.to_owned()),
        handler: Handler::Effect(Arc::new(made)),
    }
}

fn ready() -> Step<Result<(), ToolFailure>> {
    Arc::new(|_, _| async { Ok(()) }.boxed())
}

/// Records each of its executions in the effect log, and answers with its input.
pub(crate) fn trace(
    name: &'static str,
    class: EffectClass,
    outside: &EffectLog,
    power: Option<Power>,
) -> Tool {
    let outside = outside.clone();
    let alive = power.clone();
    let run: Step<ToolResult> = Arc::new(move |call, input| {
        let act = || outside.add(name, &call);
        let dead = if let Some(power) = &alive {
            power.act(act).is_none()
        } else {
            act();
            false
        };
        if dead {
            return pending().boxed();
        }
        async move { Ok(ToolOutput::text(format!("{name} {input}"))) }.boxed()
    });
    made(name, class, ClosureTool { prepare: ready(), run, power })
}

/// Changes a file of the caller's workspace in memory.
pub(crate) fn put(workspaces: Option<MemoryWorkspaces>) -> Tool {
    let run: Step<ToolResult> = Arc::new(move |call, input| {
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let done =
            workspaces.as_ref().is_some_and(|all| all.put(&call.workspace, &text("path"), &text("text")));
        async move {
            if done {
                Ok(ToolOutput::text("put".to_owned()))
            } else {
                Err(ToolFailure::failed("no workspace"))
            }
        }
        .boxed()
    });
    made("put", EffectClass::Exec, ClosureTool { prepare: ready(), run, power: None })
}

pub(crate) fn boom(outside: &EffectLog) -> Tool {
    let outside = outside.clone();
    let run: Step<ToolResult> = Arc::new(move |call, _| {
        outside.add("boom", &call);
        async { Err(ToolFailure::failed("it went off")) }.boxed()
    });
    made("boom", EffectClass::Read, ClosureTool { prepare: ready(), run, power: None })
}

/// Waits at `latch` while it prepares.
pub(crate) fn slow_to_prepare(
    name: &'static str,
    class: EffectClass,
    outside: &EffectLog,
    latch: &Latch,
) -> Tool {
    let latch = latch.clone();
    let prepare: Step<Result<(), ToolFailure>> = Arc::new(move |_, _| {
        let latch = latch.clone();
        async move {
            latch.pass().await;
            Ok(())
        }
        .boxed()
    });
    let outside = outside.clone();
    let run: Step<ToolResult> = Arc::new(move |call, _| {
        outside.add(name, &call);
        async { Ok(ToolOutput::text("done".to_owned())) }.boxed()
    });
    made(name, class, ClosureTool { prepare, run, power: None })
}

/// Records its execution, then waits at `latch`.
pub(crate) fn slow_to_act(
    name: &'static str,
    class: EffectClass,
    outside: &EffectLog,
    latch: &Latch,
) -> Tool {
    let (latch, outside) = (latch.clone(), outside.clone());
    let run: Step<ToolResult> = Arc::new(move |call, _| {
        outside.add(name, &call);
        let latch = latch.clone();
        async move {
            latch.pass().await;
            Ok(ToolOutput::text("done".to_owned()))
        }
        .boxed()
    });
    made(name, class, ClosureTool { prepare: ready(), run, power: None })
}
