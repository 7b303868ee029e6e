//! Agent Markdown: front matter as Claude Code and opencode write it, and a prompt.

use posse_domain::definition::Definition;

use super::reading::{Loaded, Reading};

/// Reads a definition from Markdown. `stem` is the file's name without its ending: the definition's name, if the
/// front matter gives none.
pub fn read_agent(_bytes: &[u8], _stem: &str, _reading: &Reading<'_>) -> Loaded<Definition> {
    Loaded { value: None, warnings: Vec::new(), mentions: Vec::new() }
}
