//! Reads definitions that are given with a request, beside the discovered ones.

use posse::Definition;
use posse_definitions::{GivenDefinitions, Warning, parse_agents_among};

use crate::Setup;
use crate::discovery::DiscoveryResult;
use crate::error::{SetupError, Subject};
use crate::notes::{Note, Notes};
use crate::text::plural;
use posse_domain::printable as term;

/// Definitions as JSON text.
const EXAMPLE: &str = "for example {\"reader\": {\"description\": \"Reads.\", \"prompt\": \"Read what is asked.\", \
                       \"tools\": [\"read\"]}}";
/// Limit of notes that are shown one by one.
const NOTES_SHOWN: usize = 10;

/// Reads given definitions: JSON text if `agents` looks like it, else the JSON file of that path. They may spawn
/// discovered definitions by name.
pub fn read(agents: &str, found: &DiscoveryResult, setup: &Setup) -> Result<GivenDefinitions, SetupError> {
    let wrong = |problem: String| SetupError::about(Subject::Agents, problem);
    let found: Vec<Definition> = found.definitions().cloned().collect();
    let parse = |text: &str, file: &str| {
        let read = parse_agents_among(text, file, &setup.tool_names(), &found);
        read.map_err(|error| wrong(error.to_string()))
    };
    if agents.trim_start().starts_with('{') {
        return parse(agents, "(inline)").map_err(|error| error.hint(EXAMPLE));
    }
    let path = setup.environment.cwd.join(agents);
    let text = std::fs::read(path).map_err(|error| wrong(format!("{agents}: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| wrong(format!("{agents}: is not UTF-8 text")))?;
    parse(&text, agents)
}

/// Notes about parts of the given definitions that have no effect.
pub fn notes(warnings: &[Warning]) -> Notes {
    let shown = warnings.iter().take(NOTES_SHOWN);
    let shown = shown.map(|warning| Note::info(term::line(&warning.to_string())));
    let more = warnings.len().checked_sub(NOTES_SHOWN).filter(|more| *more > 0);
    let more = more.map(|more| Note::info(format!("{} like these", plural(more as u64, "more note"))));
    shown.chain(more).map(|note| note.about(Subject::Agents)).collect()
}
