//! Changes one file for `write` and `edit`, so that its state is known after a crash.
//!
//! The change is computed completely before it begins, so its intent has the content's hash before and after. Right
//! before the rename that installs the new content, the old content is read once more. If it is not the expected one,
//! nothing changes. After a crash the file's hash shows whether the change happened.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::WriteIntent;
use posse_domain::hash::Hash;
use posse_domain::permission::write_refusal;
use posse_engine::ports::{
    CallContext, PreparedEffect, RecoveredEffect, ToolFailure, ToolOutput, ToolResult,
};
use posse_files::{DirHandle, ExpectedFile, RelPath};

use crate::space::{Dirs, blocking, failure};

/// Whether the agent knows the present content of a file it wants to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The agent has seen the present content, or the change was accepted before a crash.
    Seen,
    /// The agent has never seen the file.
    Unseen,
}

/// A computed change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) after: Vec<u8>,
    /// The result for the model after the change.
    pub(crate) done: String,
}

/// A requested change of one file.
pub(crate) trait Plan: Send + Sync + 'static {
    /// The tool's name in permission rules.
    fn tool(&self) -> &'static str;

    fn path(&self) -> &RelPath;

    /// Computes the change from the present content. `before` is none if the file does not exist.
    fn change(&self, before: Option<&[u8]>, trust: Trust) -> Result<Change, ToolFailure>;

    /// The result for the model if recovery finds that the change was made before a crash.
    fn done(&self, before: Option<Hash>) -> String;
}

/// Reads the file and prepares the change, without changing anything.
pub(crate) async fn prepare(
    dirs: Dirs,
    call: CallContext,
    plan: impl Plan,
) -> Result<PreparedEffect, ToolFailure> {
    // Writes follow no link, so this is the real path, whatever path was decided on before.
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
    let (context, opened) = (call.clone(), dirs.clone());
    blocking(&dirs, &call, plan.tool(), move |beneath, _| {
        let before = inspect(beneath, plan.path())?;
        let trust = trust(&context, plan.path(), before.as_deref())?;
        let change = plan.change(before.as_deref(), trust)?;
        Ok(ready(opened, context, &plan, before.as_deref(), change))
    })
    .await
}

/// Finds out whether a change without a journalled result happened.
pub(crate) async fn recover(
    dirs: Dirs,
    call: CallContext,
    plan: impl Plan,
    intent: WriteIntent,
) -> RecoveredEffect {
    if plan.path().text() != intent.path {
        return RecoveredEffect::Unknown;
    }
    let (context, opened) = (call.clone(), dirs.clone());
    let recovered = blocking(&dirs, &call, plan.tool(), move |beneath, _| {
        // Removes temporary files of the crashed process. If that fails, they do no harm.
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
        // Equal input and content give an equal change, unless another version of Posse planned it.
        if Hash::of(&change.after) != intent.after {
            return Ok(RecoveredEffect::Unknown);
        }
        Ok(RecoveredEffect::Apply(ready(opened, context, &plan, now.as_deref(), change)))
    });
    recovered.await.unwrap_or(RecoveredEffect::Unknown)
}

fn inspect(beneath: &DirHandle, path: &RelPath) -> Result<Option<Vec<u8>>, ToolFailure> {
    beneath.inspect(path).map_err(|error| failure(&error))
}

/// Compares the present content with what the agent last saw.
fn trust(call: &CallContext, path: &RelPath, now: Option<&[u8]>) -> Result<Trust, ToolFailure> {
    let now = now.map(Hash::of);
    match call.seen.seen(&path.text()) {
        None => Ok(Trust::Unseen),
        seen if seen == now => Ok(Trust::Seen),
        // The file was removed since, so a new file replaces nothing.
        Some(_) if now.is_none() => Ok(Trust::Seen),
        Some(_) => Err(ToolFailure::failed(format!(
            "`{path}` has changed since you read or wrote it, by a command, a hook such as a formatter, or somebody else. \
             Nothing was written. Read it again before you change it."
        ))),
    }
}

fn ready(
    dirs: Dirs,
    call: CallContext,
    plan: &impl Plan,
    before: Option<&[u8]>,
    change: Change,
) -> PreparedEffect {
    let (tool, path) = (plan.tool(), plan.path().clone());
    let before = before.map(Hash::of);
    let intent = WriteIntent { path: path.text(), before, after: Hash::of(&change.after) };
    let run = apply(dirs, call, tool, path, intent.clone(), change);
    PreparedEffect { write: Some(intent), sandbox: None, run: Box::new(|| Box::pin(run)) }
}

async fn apply(
    dirs: Dirs,
    call: CallContext,
    tool: &'static str,
    path: RelPath,
    intent: WriteIntent,
    change: Change,
) -> ToolResult {
    let seen = Arc::clone(&call.seen);
    blocking(&dirs, &call, tool, move |beneath, stop| {
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
