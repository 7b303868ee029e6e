//! `glob`: finds files by a pattern of their path.

use futures::future::BoxFuture;
use posse_domain::event::EffectClass;
use posse_engine::ports::{CallContext, EffectTool, PreparedEffect, Tool, ToolFailure, ToolOutput};
use posse_files::{DirHandle, FileError, GlobPattern, GlobResult, RelPath, Stop, spelled};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use crate::answer::{Answer, count};
use crate::input::{Check, parse};
use crate::skill_files::not_of_skill;
use crate::space::{Dirs, LOOK_TIMEOUT, blocking, failure, inspect, optional_path, optional_path_specifier};
use crate::spec::{Parts, effect};

const NAME: &str = "glob";

/// Maximum number of files in one answer.
const FILES_MAX: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The pattern, for example `**/*.rs` or `src/**/test_*.{js,ts}`.
    pattern: String,
    /// The directory to search, relative to the workspace; the pattern is relative to it. Default: the
    /// workspace itself.
    path: Option<String>,
}

pub(crate) fn tool(dirs: Dirs) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Read,
        text: include_str!("glob.md"),
        specifier: base_specifier,
    };
    effect::<Input>(&parts, Glob(dirs))
}

struct Glob(Dirs);

impl EffectTool for Glob {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let dirs = self.0.clone();
        Box::pin(async move {
            let input: Input = parse(NAME, input)?;
            let path = optional_path(Check::of(NAME), &call, input.path.as_deref())?;
            not_of_skill("pattern", Check::of(NAME), &input.pattern)?;
            let pattern = GlobPattern::parse(&path, &input.pattern).map_err(|error| failure(&error))?;
            Ok(inspect(async move {
                blocking(&dirs, &call, NAME, move |beneath, stop| {
                    let found = search(beneath, &path, &pattern, stop).map_err(|error| failure(&error))?;
                    Ok(answer(&input.pattern, &found))
                })
                .await
            }))
        })
    }

    fn timeout(&self, _: &Value) -> Option<Duration> {
        Some(LOOK_TIMEOUT)
    }
}

/// Searches. If a directory that only the pattern names is missing, nothing matches.
fn search(
    beneath: &DirHandle,
    path: &RelPath,
    pattern: &GlobPattern,
    stop: &Stop,
) -> Result<GlobResult, FileError> {
    match beneath.glob(pattern, FILES_MAX, stop) {
        Err(FileError::NotFound { .. } | FileError::NotDirectory { .. }) if pattern.base() != path => {
            // Fails if the requested directory itself is missing.
            beneath.list(path)?;
            Ok(GlobResult { files: Vec::new(), total: 0, cut: false })
        }
        found => found,
    }
}

fn answer(pattern: &str, found: &GlobResult) -> ToolOutput {
    let mut answer = Answer::default();
    let shown = found.files.iter().take_while(|file| answer.line(&file.to_string())).count();
    let mut notes = vec![if found.total == 0 {
        "no file matches".to_owned()
    } else if shown < found.total {
        format!("{shown} of {}: narrow the pattern to see the others", count(found.total, "file"))
    } else {
        count(shown, "file")
    }];
    if found.total == 0 && !pattern.contains("**") {
        notes.push("`*` stays within one directory, `**/` goes through all".to_owned());
    }
    if found.cut {
        notes.push("the tree is too large to be searched in full: give a `path`".to_owned());
    }
    answer.close(&notes)
}

/// The directory where the search begins, from path and pattern: a rule for that directory must apply whichever of the
/// two names it.
fn base_specifier(input: &Value) -> Option<String> {
    let path = optional_path_specifier(input)?;
    let pattern = input.get("pattern")?.as_str()?;
    let base = RelPath::parse(&path).ok().and_then(|base| GlobPattern::parse(&base, pattern).ok());
    match base {
        Some(pattern) => Some(pattern.base().text()),
        // The call will be refused. Until then its specifier is everything that it names.
        None => Some(spelled(&format!("{path}/{pattern}"))),
    }
}
