//! What `write` and `edit` share: changing one file so that a crash leaves no doubt.
//!
//! The change is computed completely before it begins, so its intent names the content's hash before and
//! after. Right before the new content takes the file's name, the old content is looked at once more; if it
//! is not the expected one, nothing happens. After a crash one look at the file tells which of the two is
//! there.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::WriteIntent;
use posse_domain::hash::Hash;
use posse_domain::permission::write_refusal;
use posse_engine::ports::{
    CallContext, PreparedEffect, RecoveredEffect, ToolFailure, ToolOutput, ToolResult,
};
use posse_files::{DirHandle, ExpectedFile, RelPath};

use crate::space::{blocking, failure};

/// What the agent knows of a file it wants to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It has seen the present content, or the change was accepted before a crash.
    Seen,
    /// It has never seen any.
    Unseen,
}

/// A change that was computed.
#[derive(Debug)]
pub(crate) struct Change {
    /// The new content.
    pub(crate) after: Vec<u8>,
    /// What the model reads once it is done.
    pub(crate) done: String,
}

/// A change of one file, as an input asks for it.
pub(crate) trait Plan: Send + Sync + 'static {
    /// The tool, as rules name it.
    fn tool(&self) -> &'static str;

    /// The file.
    fn path(&self) -> &RelPath;

    /// Computes the change from the present content; none if the file does not exist.
    fn change(&self, before: Option<&[u8]>, trust: Trust) -> Result<Change, ToolFailure>;

    /// What the model reads if the change turns out to have been made before a crash.
    fn done(&self, before: Option<Hash>) -> String;
}

/// Looks at the file and gets the change ready, without changing anything.
pub(crate) async fn prepare(call: CallContext, plan: impl Plan) -> Result<PreparedEffect, ToolFailure> {
    // No link is followed for writing, so this is where it is written, whatever was decided on before.
    let (tool, path) = (plan.tool(), plan.path());
    if path.text().starts_with(crate::outputs::PREFIX) {
        let problem =
            format!("begins with `{}`, which means a kept output to `read`", crate::outputs::PREFIX);
        return Err(crate::input::Check::of(tool).field("path", problem));
    }
    if let Some(verdict) = write_refusal(&call.approvals, tool, &path.text()) {
        let text = format!("`{tool}:{path}` is not allowed ({verdict})");
        return Err(ToolFailure { code: Code::PermissionDenied, text });
    }
    let context = call.clone();
    blocking(&call, plan.tool(), move |beneath, _| {
        let before = inspect(beneath, plan.path())?;
        let trust = trust(&context, plan.path(), before.as_deref())?;
        let change = plan.change(before.as_deref(), trust)?;
        Ok(ready(context, &plan, before.as_deref(), change))
    })
    .await
}

/// Finds out what became of a change whose result is not in the journal.
pub(crate) async fn recover(call: CallContext, plan: impl Plan, intent: WriteIntent) -> RecoveredEffect {
    if plan.path().text() != intent.path {
        return RecoveredEffect::Unknown;
    }
    let context = call.clone();
    let recovered = blocking(&call, plan.tool(), move |beneath, _| {
        // What the crash left behind is nobody's any more. If it stays, it is in nobody's way.
        let _ = beneath.sweep(plan.path());
        let now = inspect(beneath, plan.path())?;
        let hash = now.as_deref().map(Hash::of);
        if hash == Some(intent.after) {
            context.seen.note(&intent.path, intent.after);
            return Ok(RecoveredEffect::Done(ToolOutput::text(plan.done(intent.before))));
        }
        if hash != intent.before {
            return Ok(RecoveredEffect::Unknown);
        }
        let change = plan.change(now.as_deref(), Trust::Seen)?;
        // The same input and the same content give the same change, unless another version planned it.
        if Hash::of(&change.after) != intent.after {
            return Ok(RecoveredEffect::Unknown);
        }
        Ok(RecoveredEffect::Apply(ready(context, &plan, now.as_deref(), change)))
    });
    recovered.await.unwrap_or(RecoveredEffect::Unknown)
}

fn inspect(beneath: &DirHandle, path: &RelPath) -> Result<Option<Vec<u8>>, ToolFailure> {
    beneath.inspect(path).map_err(|error| failure(&error))
}

/// Compares what is there with what the agent last saw.
fn trust(call: &CallContext, path: &RelPath, now: Option<&[u8]>) -> Result<Trust, ToolFailure> {
    let now = now.map(Hash::of);
    match call.seen.seen(&path.text()) {
        None => Ok(Trust::Unseen),
        seen if seen == now => Ok(Trust::Seen),
        // It was removed since: what is made now replaces nothing.
        Some(_) if now.is_none() => Ok(Trust::Seen),
        Some(_) => Err(ToolFailure::failed(format!(
            "`{path}` has changed since you read or wrote it, by a command, a hook such as a formatter, or somebody else. \
             Nothing was written. Read it again before you change it."
        ))),
    }
}

fn ready(call: CallContext, plan: &impl Plan, before: Option<&[u8]>, change: Change) -> PreparedEffect {
    let (tool, path) = (plan.tool(), plan.path().clone());
    let before = before.map(Hash::of);
    let intent = WriteIntent { path: path.text(), before, after: Hash::of(&change.after) };
    let run = apply(call, tool, path, intent.clone(), change);
    PreparedEffect { write: Some(intent), sandbox: None, run: Box::new(|| Box::pin(run)) }
}

async fn apply(
    call: CallContext,
    tool: &'static str,
    path: RelPath,
    intent: WriteIntent,
    change: Change,
) -> ToolResult {
    let seen = Arc::clone(&call.seen);
    blocking(&call, tool, move |beneath, stop| {
        let expected = match intent.before {
            Some(hash) => ExpectedFile::Hash(*hash.as_bytes()),
            None => ExpectedFile::Absent,
        };
        beneath.replace(&path, &change.after, expected, stop).map_err(|error| failure(&error))?;
        seen.note(&intent.path, intent.after);
        Ok(ToolOutput::text(change.done))
    })
    .await
}
