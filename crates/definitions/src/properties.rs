//! Properties that hold for every text, however odd.

use posse_agent::prompts::render;
use proptest::prelude::*;

use super::agent_markdown::AGENT;
use super::agent_markdown::tests::reading;
use super::{ParsedFile, Warning, parse_agents, read_agent, read_skill, read_yaml_skill};
use super::{front_matter, plain_lines};
use crate::yaml::YamlError;

/// Typical lines of users, valid and invalid.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "name",
        "description",
        "tools",
        "allowed-tools",
        "model",
        "permission",
        "spawns",
        "skills",
        "system_prompt",
        "mode",
        "rules",
        "timeout-per-iteration",
        "maxTurns",
        "context",
        "zzz",
        "- x",
        "  bash",
        "\tedit",
        "? k",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec![
            "x",
            "Use when: asked",
            "\"open",
            "[Read, Bash(git:*)",
            "{a: b}",
            "|",
            ">-",
            "*x",
            "&a b",
            "*a",
            "!tag x",
            "@x",
            "`x`",
            "- a",
            "# c",
            "1e999",
            ".nan",
            "~",
            "true",
            "Task(a, b)",
            "Bash(",
            "((",
            "\u{0}",
            "---",
            "<<: *a",
            "'it's'",
            "sonnet[1m]",
            "5m",
            "[a, b-c]",
            "[a,b ]",
            "[no, x]",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,24}",
        "[a-zA-Z0-9 :#,.'\"(){}_/-]{1,24}",
    ];
    (key, value).prop_map(|(key, value)| format!("{key}: {value}"))
}

fn file() -> impl Strategy<Value = String> {
    let mark = prop::sample::select(vec!["---\n", "--- \n", "", "----\n"]);
    let body = prop::sample::select(vec!["Body.\n", "", "---\nx: y\n", "$ARGUMENTS !`x`\n"]);
    (mark.clone(), prop::collection::vec(line(), 0..8), mark, body)
        .prop_map(|(open, lines, close, body)| format!("{open}{}\n{close}{body}", lines.join("\n")))
}

/// A file that cannot be used has a warning with the reason.
fn says_why<T>(loaded: &ParsedFile<T>) -> bool {
    loaded.value.is_some() || !loaded.warnings.is_empty()
}

fn all_loaded(bytes: &[u8]) -> Result<(), TestCaseError> {
    let reading = reading("x");
    let agent = read_agent(bytes, "stem", &reading);
    let skill = read_skill(bytes, "stem", None, &reading);
    let yaml = read_yaml_skill(bytes, "stem", &reading);
    prop_assert!(says_why(&agent) && says_why(&skill) && says_why(&yaml));
    for loaded in [&skill, &yaml] {
        if let Some(skill) = &loaded.value {
            prop_assert!(!render(skill, "a $1 \"b", true).is_empty());
            prop_assert!(!skill.name.is_empty() && !skill.instructions.is_empty());
        }
    }
    if let Some(agent) = &agent.value {
        prop_assert!(!agent.name.is_empty() && !agent.prompt.is_empty());
    }
    let _ = parse_agents(&String::from_utf8_lossy(bytes), "x", &["read"]);
    Ok(())
}

fn problems(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        all_loaded(&bytes)?;
    }

    #[test]
    fn no_front_matter_makes_a_reader_panic(text in file()) {
        all_loaded(text.as_bytes())?;
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_change_nothing(text in file()) {
        let reading = reading("x");
        let plain = read_agent(text.as_bytes(), "stem", &reading);
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let windows = read_agent(windows.as_bytes(), "stem", &reading);
        prop_assert_eq!(&plain.value, &windows.value);
        prop_assert_eq!(problems(&plain.warnings), problems(&windows.warnings));
    }

    #[test]
    fn a_description_in_quotes_is_read_as_it_is(text in "[ -~äöü→]{1,80}") {
        prop_assume!(!text.trim().is_empty());
        let quoted = serde_json::to_string(&text).expect("text");
        let file = format!("---\ndescription: {quoted}\n---\nBody.");
        let loaded = read_agent(file.as_bytes(), "stem", &reading("x"));
        prop_assert_eq!(problems(&loaded.warnings), Vec::<String>::new());
        prop_assert_eq!(loaded.value.expect("definition").description, text.trim());
    }

    /// A part of the description may be lost, but never the rest of the file.
    #[test]
    fn an_odd_description_never_hides_the_definition(text in "[ -~]{0,60}") {
        let file = format!("---\nname: one\ndescription: {text}\ntools: Read\n---\nBody.");
        let loaded = read_agent(file.as_bytes(), "stem", &reading("x"));
        let read = loaded.value.expect("definition");
        prop_assert_eq!((read.name.as_str(), &*read.prompt), ("one", "Body."));
        prop_assert_eq!(read.tools, ["read"]);
    }

    /// Also tests each line by itself, so that many texts are plain.
    #[test]
    fn plain_lines_are_read_as_the_yaml_reader_reads_them(lines in prop::collection::vec(line(), 1..4)) {
        for text in lines.iter().map(String::as_str).chain([lines.join("\n").as_str()]) {
            let Some(plain) = plain_lines::read(text) else { continue };
            let yaml = front_matter::yaml(text, &AGENT);
            prop_assert_eq!(format!("{:?}", Ok::<_, YamlError>(plain)), format!("{:?}", yaml), "{}", text);
        }
    }
}
