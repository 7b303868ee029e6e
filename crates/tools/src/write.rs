//! `write`: writes a whole file.

use futures::future::BoxFuture;
use posse_domain::event::{EffectClass, WriteIntent};
use posse_domain::hash::Hash;
use posse_engine::ports::{CallContext, EffectTool, PreparedEffect, RecoveredEffect, Tool, ToolFailure};
use posse_files::RelPath;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::count;
use crate::change::{Change, Plan, Trust, prepare, recover};
use crate::input::{Check, parse};
use crate::space::{Dirs, path, path_specifier};
use crate::spec::{Parts, effect};

const NAME: &str = "write";

const CONTENT_MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace. Directories that are missing are made.
    path: String,
    /// The whole new content.
    content: String,
}

pub(crate) fn tool(dirs: Dirs) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Write,
        text: include_str!("write.md"),
        specifier: path_specifier,
    };
    effect::<Input>(&parts, Write(dirs))
}

struct Write(Dirs);

impl EffectTool for Write {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let dirs = self.0.clone();
        Box::pin(async move {
            let plan = Content::read(&call, input)?;
            prepare(dirs, call, plan).await
        })
    }

    fn recover(
        &self,
        call: CallContext,
        input: Value,
        intent: WriteIntent,
    ) -> BoxFuture<'static, RecoveredEffect> {
        let dirs = self.0.clone();
        Box::pin(async move {
            match Content::read(&call, input) {
                Ok(plan) => recover(dirs, call, plan, intent).await,
                Err(_) => RecoveredEffect::Unknown,
            }
        })
    }
}

/// A validated request: the file and its new content.
struct Content {
    path: RelPath,
    content: String,
}

impl Content {
    fn read(call: &CallContext, input: Value) -> Result<Self, ToolFailure> {
        let check = Check::of(NAME);
        let input: Input = parse(NAME, input)?;
        check.size("content", &input.content, CONTENT_MAX_BYTES)?;
        Ok(Self { path: path(check, call, &input.path)?, content: input.content })
    }
}

impl Plan for Content {
    fn tool(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &RelPath {
        &self.path
    }

    fn change(&self, before: Option<&[u8]>, trust: Trust) -> Result<Change, ToolFailure> {
        if before.is_some() && trust == Trust::Unseen {
            return Err(ToolFailure::failed(format!(
                "`{}` exists and you have not read it. Read it first, so that nothing in it is lost by \
                 mistake.",
                self.path
            )));
        }
        let done = self.done(before.map(Hash::of));
        Ok(Change { after: self.content.clone().into_bytes(), done })
    }

    fn done(&self, before: Option<Hash>) -> String {
        let verb = if before.is_some() { "Replaced" } else { "Created" };
        let lines = count(self.content.lines().count(), "line");
        format!("{verb} `{}`: {lines}, {} bytes.", self.path, self.content.len())
    }
}
