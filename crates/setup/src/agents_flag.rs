//! Definitions that are given with a request (`--agents`).

use posse::Definition;
use posse_agent::definition::{GivenDefinitions, Warning, parse_agents_among};

use crate::Setup;
use crate::discovery::DiscoveryResult;
use crate::error::{SetupError, Subject};
use crate::notes::Notes;
use crate::text::plural;
use posse_domain::printable as term;

/// Most notes that are told one by one.
const NOTES_SHOWN: usize = 10;

/// Reads `--agents`: JSON if it looks like it, else a file. What was found can be spawned too.
pub fn read(agents: &str, found: &DiscoveryResult, setup: &Setup) -> Result<GivenDefinitions, SetupError> {
    let wrong = |problem: String| SetupError::about(Subject::Agents, problem);
    let found: Vec<Definition> = found.definitions().cloned().collect();
    let parse = |text: &str, file: &str| {
        let read = parse_agents_among(text, file, &setup.tool_names(), &found);
        read.map_err(|error| wrong(error.to_string()))
    };
    if agents.trim_start().starts_with('{') {
        return parse(agents, "(inline)");
    }
    let path = setup.environment.cwd.join(agents);
    let text = std::fs::read(path).map_err(|error| wrong(format!("{agents}: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| wrong(format!("{agents}: is not UTF-8 text")))?;
    parse(&text, agents)
}

/// What of the given definitions has no effect.
pub fn notes(warnings: &[Warning]) -> Notes {
    let shown = warnings.iter().take(NOTES_SHOWN);
    let shown = shown.map(|warning| format!("note: --agents: {}", term::line(&warning.to_string())));
    let more = warnings.len().checked_sub(NOTES_SHOWN).filter(|more| *more > 0);
    let more = more.map(|more| format!("note: --agents: {} like these", plural(more as u64, "more note")));
    shown.chain(more).collect()
}
