//! `grep`: searches text in files.

use futures::future::BoxFuture;
use posse_domain::event::EffectClass;
use posse_engine::ports::{CallContext, EffectTool, PreparedEffect, Tool, ToolFailure, ToolOutput};
use posse_files::{
    GLOB_PATTERN_MAX_BYTES, GREP_CONTEXT_MAX_LINES, GREP_PATTERN_MAX_BYTES, GREP_RESULTS_MAX, GrepFile,
    GrepLine, GrepOutput, GrepQuery, GrepResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use crate::answer::{Answer, count};
use crate::input::{Check, parse};
use crate::space::{Dirs, LOOK_TIMEOUT, blocking, failure, inspect, optional_path, optional_path_specifier};
use crate::spec::{Parts, effect};

const NAME: &str = "grep";

/// Default number of results.
const RESULTS_DEFAULT: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A regular expression in the syntax of Rust's regex crate, matched line by line.
    pattern: String,
    /// The file or directory to search, relative to the workspace. Default: the workspace itself.
    path: Option<String>,
    /// Search only files that match this, for example `*.rs`. Without a `/` it is about the name alone, with
    /// one about the path from `path` on.
    glob: Option<String>,
    /// Whether capital and small letters are the same. Default false.
    case_insensitive: Option<bool>,
    /// How many lines to show before and after each match, at most 20. Default 0.
    context: Option<usize>,
    /// How many results to show at most: lines for `content`, files otherwise. Default 100, most 2000.
    max_results: Option<usize>,
    /// `content` shows the lines, `files` only the paths of files with a match, `count` the number of
    /// matching lines of each file. Default `content`.
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Output {
    Content,
    Files,
    Count,
}

pub(crate) fn tool(dirs: Dirs) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Read,
        text: include_str!("grep.md"),
        specifier: optional_path_specifier,
    };
    effect::<Input>(&parts, Grep(dirs))
}

struct Grep(Dirs);

impl EffectTool for Grep {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let dirs = self.0.clone();
        Box::pin(async move {
            let query = query(&call, input)?;
            Ok(inspect(async move {
                blocking(&dirs, &call, NAME, move |beneath, stop| {
                    let found = beneath.grep(&query, stop).map_err(|error| failure(&error))?;
                    Ok(answer(&query, &found))
                })
                .await
            }))
        })
    }

    fn timeout(&self, _: &Value) -> Option<Duration> {
        Some(LOOK_TIMEOUT)
    }
}

fn query(call: &CallContext, input: Value) -> Result<GrepQuery, ToolFailure> {
    let check = Check::of(NAME);
    let input: Input = parse(NAME, input)?;
    if input.pattern.is_empty() {
        return Err(check.field("pattern", "must not be empty"));
    }
    check.size("pattern", &input.pattern, GREP_PATTERN_MAX_BYTES)?;
    check.size("glob", input.glob.as_deref().unwrap_or_default(), GLOB_PATTERN_MAX_BYTES)?;
    let max_results = check.at_least_one("max_results", input.max_results)?.unwrap_or(RESULTS_DEFAULT);
    Ok(GrepQuery {
        path: optional_path(check, call, input.path.as_deref())?,
        pattern: input.pattern,
        glob: input.glob.filter(|glob| !glob.is_empty()),
        case_insensitive: input.case_insensitive.unwrap_or(false),
        context: input.context.unwrap_or(0).min(GREP_CONTEXT_MAX_LINES),
        output: match input.output.unwrap_or(Output::Content) {
            Output::Content => GrepOutput::Content,
            Output::Files => GrepOutput::Files,
            Output::Count => GrepOutput::Count,
        },
        max_results: max_results.min(GREP_RESULTS_MAX),
    })
}

fn answer(query: &GrepQuery, found: &GrepResult) -> ToolOutput {
    let mut answer = Answer::default();
    let all_shown = found.files.iter().all(|file| show(&mut answer, query.output, file));
    let mut notes = vec![match (query.output, found.files.len()) {
        (_, 0) => format!("no match in {}", count(found.searched, "file")),
        (GrepOutput::Content, files) => {
            let matches = found.files.iter().flat_map(|file| &file.lines).filter(|line| line.matched).count();
            format!("{} in {}", count(matches, "match"), count(files, "file"))
        }
        (_, files) => count(files, "file"),
    }];
    if found.more || !all_shown {
        notes.push("there are more: narrow the search, or ask for `files` or `count`".to_owned());
    }
    if found.binary > 0 {
        notes.push(format!("{} skipped", count(found.binary, "binary file")));
    }
    if found.unread > 0 {
        notes.push(format!(
            "{} skipped (too large, too long a line for this pattern, or unreadable)",
            count(found.unread, "file")
        ));
    }
    if found.refused > 0 {
        notes.push(format!("{} skipped that you may not read", count(found.refused, "file")));
    }
    if found.cut {
        notes.push("the tree is too large to be searched in full: give a `path`".to_owned());
    }
    answer.close(&notes)
}

fn show(answer: &mut Answer, output: GrepOutput, file: &GrepFile) -> bool {
    match output {
        GrepOutput::Files => answer.line(&file.path.to_string()),
        GrepOutput::Count => answer.line(&format!("{}: {}", file.path, file.matches)),
        GrepOutput::Content => answer.line(&file.path.to_string()) && show_lines(answer, &file.lines),
    }
}

/// Adds the lines of a file, with a mark where lines between them are omitted.
fn show_lines(answer: &mut Answer, lines: &[GrepLine]) -> bool {
    let has_context = lines.iter().any(|line| !line.matched);
    let mut last = None;
    for line in lines {
        if has_context && last.is_some_and(|last| last + 1 < line.number) && !answer.line("--") {
            return false;
        }
        let mark = if line.matched { ':' } else { '-' };
        if !answer.line(&format!("{}{mark} {}", line.number, line.text)) {
            return false;
        }
        last = Some(line.number);
    }
    true
}
