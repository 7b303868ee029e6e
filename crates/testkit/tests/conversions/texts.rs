//! Parses plans, definitions and front matter, which models and repositories write.

use std::fmt::Write as _;

use posse_setup::plan;

use crate::bounded::rows;

rows! {
    aliases_of_aliases: || {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let entries = vec![format!("*a{}", level - 1); 9].join(", ");
            writeln!(text, "a{level}: &a{level} [{entries}]").expect("text");
        }
        format!("{:?}", plan::parse(&text))
    } => "larger than can be read safely";
    a_glob_of_a_script_with_braces_within_braces: || {
        let glob = format!("{}a{}", "{".repeat(400), "}".repeat(400));
        let script = format!("- when: {{agent: '{glob}'}}\n  reply: {{}}\n");
        match posse_models::scripted::ScriptedModel::from_yaml(&script, "script.yaml") {
            Ok(_) => "read".to_owned(),
            Err(error) => error.to_string(),
        }
    } => "too deeply nested";
    lists_within_lists: || format!("{:?}", plan::parse(&"[".repeat(500_000))) => "recursion limit exceeded";
    entries_within_entries: || format!("{:?}", plan::parse(&"- ".repeat(400_000))) => "nested too deeply";
    keys_of_keys: || format!("{:?}", plan::parse(&"? ".repeat(400_000))) => "nested too deeply";
}
