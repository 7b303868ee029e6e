//! Definitions that are given to a run with `--agents`.

use posse::Definition;
use posse_agent::definition::{GivenDefinitions, Warning, parse_agents_among};

use crate::context::Context;
use crate::discovery::DiscoveryResult;
use crate::error::CliError;
use crate::output::note;
use crate::term;
use crate::text::plural;

/// Most notes that are told one by one.
const NOTES_SHOWN: usize = 10;

/// Reads `--agents`: JSON if it looks like it, else a file. What was found can be spawned too.
pub(crate) fn read(
    agents: &str,
    found: &DiscoveryResult,
    context: &Context,
) -> Result<GivenDefinitions, CliError> {
    let wrong = |problem: String| CliError::usage(format!("--agents: {problem}"));
    let found: Vec<Definition> = found.definitions().cloned().collect();
    let parse = |text: &str, file: &str| {
        let read = parse_agents_among(text, file, &context.tool_names(), &found);
        read.map_err(|error| wrong(error.to_string()))
    };
    if agents.trim_start().starts_with('{') {
        return parse(agents, "(inline)");
    }
    let path = context.environment.cwd.join(agents);
    let text = std::fs::read(path).map_err(|error| wrong(format!("{agents}: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| wrong(format!("{agents}: is not UTF-8 text")))?;
    parse(&text, agents)
}

/// Says what of the given definitions has no effect.
pub(crate) fn print_notes(notes: &[Warning]) {
    for warning in notes.iter().take(NOTES_SHOWN) {
        note(&format!("note: --agents: {}", term::line(&warning.to_string())));
    }
    if let Some(more) = notes.len().checked_sub(NOTES_SHOWN).filter(|more| *more > 0) {
        note(&format!("note: --agents: {} like these", plural(more as u64, "more note")));
    }
}
