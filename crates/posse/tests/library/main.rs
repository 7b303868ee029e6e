//! The library as an embedder uses it. One program, because each further one is linked with everything again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod api_read_back;
mod delegation_docs;
mod ending;
mod facade;
mod file_ports;
mod following;
mod killed_helpers;
mod own_store;
mod published_schema;
mod reference;
mod replay;
mod reports;

use posse::{DiffForm, DiffOptions};

/// A coder that writes one file and is done.
const WRITES_A_FILE: &str = r#"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: "b.txt", content: "two\n"}}]}
- reply: {text: done}
"#;
const NAMES: DiffOptions = DiffOptions { form: DiffForm::NameStatus, colour: false };
