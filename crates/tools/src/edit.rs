//! `edit`: replaces a piece of a file.

use futures::future::BoxFuture;
use posse_domain::event::{EffectClass, WriteIntent};
use posse_domain::hash::Hash;
use posse_engine::ports::{CallContext, EffectTool, PreparedEffect, RecoveredEffect, Tool, ToolFailure};
use posse_files::{RelPath, WRITE_MAX_BYTES};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

use crate::answer::count;
use crate::change::{Change, Plan, Trust, prepare, recover};
use crate::input::{Check, parse};
use crate::space::{Dirs, path, path_specifier};
use crate::spec::{Parts, effect};

const NAME: &str = "edit";

/// Maximum length of the old and the new text.
const TEXT_MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of line numbers in an answer.
const LINES_NAMED_MAX: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it stands in the file.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// Whether to replace every occurrence instead of exactly one. Default false.
    replace_all: Option<bool>,
}

pub(crate) fn tool(dirs: Dirs) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Write,
        text: include_str!("edit.md"),
        specifier: path_specifier,
    };
    effect::<Input>(&parts, Edit(dirs))
}

struct Edit(Dirs);

impl EffectTool for Edit {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let dirs = self.0.clone();
        Box::pin(async move {
            let plan = Replacement::read(&call, input)?;
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
            match Replacement::read(&call, input) {
                Ok(plan) => recover(dirs, call, plan, intent).await,
                Err(_) => RecoveredEffect::Unknown,
            }
        })
    }
}

/// A validated request: the file, the old text and its replacement.
struct Replacement {
    path: RelPath,
    old: String,
    new: String,
    all: bool,
}

impl Replacement {
    fn read(call: &CallContext, input: Value) -> Result<Self, ToolFailure> {
        let check = Check::of(NAME);
        let input: Input = parse(NAME, input)?;
        if input.old_text.is_empty() {
            return Err(check.field("old_text", "must not be empty: use `write` to make a file"));
        }
        check.size("old_text", &input.old_text, TEXT_MAX_BYTES)?;
        check.size("new_text", &input.new_text, TEXT_MAX_BYTES)?;
        if input.old_text == input.new_text {
            return Err(check.field("new_text", "must differ from `old_text`"));
        }
        Ok(Self {
            path: path(check, call, &input.path)?,
            old: input.old_text,
            new: input.new_text,
            all: input.replace_all.unwrap_or(false),
        })
    }

    fn fail(&self, problem: &str) -> ToolFailure {
        ToolFailure::failed(format!("`{}` was not changed: {problem}", self.path))
    }

    /// The offsets of the old text. Overlapping matches are ambiguous too, so they count unless all are to be replaced.
    fn places(&self, text: &str, old: &str) -> Result<Vec<usize>, ToolFailure> {
        let places: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
        let Some(first) = places.first() else {
            return Err(self.fail(&missing(text, old)));
        };
        let again = places.get(1).copied().or_else(|| overlapping(text, old, *first));
        if !self.all && again.is_some() {
            let mut all = places;
            all.extend(again);
            all.sort_unstable();
            let lines = lines_of(text, &all);
            return Err(self.fail(&format!(
                "`old_text` stands there more than once (lines {lines}). Include more of the lines around it, \
                 or set `replace_all`."
            )));
        }
        Ok(places)
    }
}

impl Plan for Replacement {
    fn tool(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &RelPath {
        &self.path
    }

    fn change(&self, before: Option<&[u8]>, _: Trust) -> Result<Change, ToolFailure> {
        // An agent that never read the file still knows what it replaces: the old text must match.
        let Some(bytes) = before else {
            return Err(self.fail("it does not exist. Use `write` to make a file."));
        };
        let Ok(text) = str::from_utf8(bytes) else {
            return Err(self.fail("it is not UTF-8 text."));
        };
        let (old, new) = (in_style_of(text, &self.old), in_style_of(text, &self.new));
        let places = self.places(text, &old)?;
        let grown = text.len() as u64 + places.len() as u64 * new.len() as u64;
        if grown > WRITE_MAX_BYTES {
            return Err(self.fail("it would become too large."));
        }
        let at = lines_of(text, &places);
        let place = if places.len() == 1 { "line" } else { "lines" };
        let done =
            format!("Edited `{}`: {} replaced, {place} {at}.", self.path, count(places.len(), "place"));
        Ok(Change { after: text.replace(&*old, &new).into_bytes(), done })
    }

    fn done(&self, _: Option<Hash>) -> String {
        format!("Edited `{}`.", self.path)
    }
}

/// A match of `old` that begins within the match at `first`.
fn overlapping(text: &str, old: &str, first: usize) -> Option<usize> {
    let next = first + old.chars().next()?.len_utf8();
    text[next..].find(old).map(|at| next + at)
}

/// Converts `part` to the line endings of `text`. Models write plain line feeds, and `read` shows no others.
fn in_style_of<'a>(text: &str, part: &'a str) -> Cow<'a, str> {
    let feeds = text.matches('\n').count();
    let is_crlf = feeds > 0 && text.matches("\r\n").count() == feeds;
    if is_crlf && !part.contains("\r\n") { part.replace('\n', "\r\n").into() } else { part.into() }
}

/// The line numbers of these offsets, which are sorted.
fn lines_of(text: &str, places: &[usize]) -> String {
    let named = places.len().min(LINES_NAMED_MAX);
    let (mut line, mut counted) = (1, 0);
    let mut numbers = Vec::new();
    for at in &places[..named] {
        line += text[counted..*at].matches('\n').count();
        counted = *at;
        numbers.push(line.to_string());
    }
    numbers.dedup();
    let more = if places.len() > named { ", …" } else { "" };
    format!("{}{more}", numbers.join(", "))
}

/// A hint why a text was not found.
fn missing(text: &str, old: &str) -> String {
    let start = "`old_text` is not in it.";
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let similar = text.lines().position(|line| !first.is_empty() && line.trim() == first);
    match similar {
        Some(line) => format!(
            "{start} A line like its first one is line {}; spaces, or the lines after it, differ. Read that \
             part again and copy it exactly.",
            line + 1
        ),
        None => format!("{start} Read the file again and copy the text exactly, without the line numbers."),
    }
}
