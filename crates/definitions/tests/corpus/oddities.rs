//! Oddities of real files. Each is one change to a generated file and to its expected result.

use posse_definitions::Severity::{Note, Problem};

use crate::made::{DESCRIPTION, GeneratedFile};
use crate::styles::{FileType, every_tool};

/// One oddity. `change` returns whether it fits the file.
pub(crate) struct Oddity {
    pub(crate) name: &'static str,
    pub(crate) change: fn(&mut GeneratedFile) -> bool,
}

macro_rules! oddities {
    ($($name:literal => |$made:ident| $change:block),* $(,)?) => {
        pub(crate) const ODDITIES: &[Oddity] =
            &[$(Oddity { name: $name, change: |$made: &mut GeneratedFile| $change }),*];
    };
}

oddities! {
    "nothing" => |_made| { true },

    // Encodings.
    "bom" => |made| { made.encode = |text| format!("\u{feff}{text}").into_bytes(); true },
    "crlf" => |made| { made.encode = |text| text.replace('\n', "\r\n").into_bytes(); true },
    "bom-and-crlf" => |made| {
        made.encode = |text| format!("\u{feff}{}", text.replace('\n', "\r\n")).into_bytes();
        true
    },
    "old-mac-lines" => |made| { made.encode = |text| text.replace('\n', "\r").into_bytes(); true },
    "utf-16-le" => |made| {
        made.encode = |text| text.encode_utf16().fold(vec![0xff, 0xfe], |mut bytes, unit| {
            bytes.extend(unit.to_le_bytes());
            bytes
        });
        made.warns(Problem, None, "UTF-16");
        true
    },
    "utf-16-be" => |made| {
        made.encode = |text| text.encode_utf16().fold(vec![0xfe, 0xff], |mut bytes, unit| {
            bytes.extend(unit.to_be_bytes());
            bytes
        });
        made.warns(Problem, None, "UTF-16");
        true
    },
    "no-utf-8" => |made| {
        made.instructs("caf\u{e9} au lait");
        made.expect().body = made.body.replace('\u{e9}', "\u{fffd}");
        made.encode = |text| text.chars().map(|c| if c == '\u{e9}' { 0xe9 } else { c as u8 }).collect();
        let line = made.lines.len() + if made.kind.is_markdown() { 4 } else { 2 };
        made.warns(Problem, line, "not UTF-8");
        true
    },
    "no-end-of-line" => |made| { made.encode = |text| text.trim_end().to_owned().into_bytes(); true },
    "blank-lines-first" => |made| {
        made.encode = |text| format!("\n\n{text}").into_bytes();
        true
    },
    "spaces-after-marks" => |made| {
        (made.open, made.close) = ("---  \n", "--- \t\n");
        made.kind.is_markdown()
    },
    "rules-in-the-body" => |made| {
        made.instructs("First.\n\n---\n\nname: not-a-key\n\n---\n\nLast.");
        made.kind.is_markdown()
    },
    "many-languages" => |made| {
        made.put("description", &["description: 审查代码 🚀 — проверка кода, مراجعة"]);
        made.described("审查代码 🚀 — проверка кода, مراجعة");
        true
    },

    // Marks of the front matter.
    "no-end" => |made| {
        made.close = "";
        made.warns(Problem, 1, "no end");
        // The body must not look like a key.
        made.instructs("You do it.");
        made.kind.is_markdown()
    },
    "no-beginning" => |made| {
        made.open = "";
        made.warns(Problem, 1, "no beginning");
        made.kind.is_markdown()
    },

    // Descriptions.
    "colon" => |made| {
        let line = made.put("description", &["description: Use when: the tests fail, or: it is slow"]);
        made.described("Use when: the tests fail, or: it is slow");
        made.warns(Problem, line, "description: the value is not valid YAML");
        true
    },
    "examples" => |made| {
        let text = "Use it often. Examples:\n<example>\nuser: \"Check: this\"\nassistant: \"I do\"\n</example>";
        let lines: Vec<String> = format!("description: {text}").lines().map(ToOwned::to_owned).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let line = made.put("description", &lines);
        made.described(text);
        made.warns(Problem, line, "description: the value is not valid YAML");
        true
    },
    "backslash-n" => |made| {
        let line = made.put("description", &[r"description: First: this.\nThen: that."]);
        made.described(r"First: this.\nThen: that.");
        made.warns(Problem, line, "not valid YAML");
        true
    },
    "half-quoted" => |made| {
        let line = made.put("description", &["description: \"Quick\" checks: now"]);
        made.described("\"Quick\" checks: now");
        made.warns(Problem, line, "not valid YAML");
        true
    },
    "at-sign" => |made| {
        let line = made.put("description", &["description: @reviewer for pull requests"]);
        made.described("@reviewer for pull requests");
        made.warns(Problem, line, "not valid YAML");
        true
    },
    "double-quotes" => |made| {
        made.put("description", &["description: \"Use when: it \\\"breaks\\\" # now\""]);
        made.described("Use when: it \"breaks\" # now");
        true
    },
    "single-quotes" => |made| {
        made.put("description", &["description: 'It''s for: this'"]);
        made.described("It's for: this");
        true
    },
    "block" => |made| {
        made.put("description", &["description: |", "  One: line.", "  Another."]);
        made.described("One: line.\nAnother.");
        true
    },
    "folded" => |made| {
        made.put("description", &["description: >-", "  One line", "  and: its end."]);
        made.described("One line and: its end.");
        true
    },
    "over-lines" => |made| {
        made.put("description", &["description: One line", "  and its end."]);
        made.described("One line and its end.");
        true
    },
    "comment" => |made| {
        let line = made.put("description", &["description: Fixes issue #12 at once"]);
        made.described("Fixes issue");
        made.warns(Problem, line, "is a comment");
        true
    },
    "too-long" => |made| {
        let long = "x".repeat(1_500);
        let line = made.put("description", &[&format!("description: {long}")]);
        made.expect().description = format!("{}…", "x".repeat(1_023));
        made.warns(Problem, line, "1500 characters, more than the 1024");
        true
    },
    "no-description" => |made| {
        made.put("description", &[]);
        let first = made.body.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_owned();
        made.expect().description = first;
        made.warns(Problem, None, "there is no description");
        true
    },
    "empty-description" => |made| {
        let line = made.put("description", &["description: \"\""]);
        let first = made.body.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_owned();
        made.expect().description = first;
        made.warns(Problem, line, "there is no description");
        true
    },

    // Names.
    "no-name" => |made| { made.put("name", &[]); true },
    "capitals" => |made| {
        let line = made.put("name", &[&format!("name: {}", made.name.to_uppercase().replace('-', " "))]);
        made.warns(Problem, line, "is written as a name should not be");
        true
    },
    "foreign-name" => |made| {
        let line = made.put("name", &["name: 审查"]);
        made.warns(Problem, line, "cannot be a name, so the file's name is used");
        true
    },
    "other-folder" => |made| {
        "elsewhere".clone_into(&mut made.stem);
        let line = made.line_of(0);
        made.warns(Problem, line, "and its folder `elsewhere`");
        made.kind == FileType::Skill
    },
    "no-possible-name" => |made| {
        made.put("name", &[]);
        "…".clone_into(&mut made.stem);
        made.expected = None;
        made.warns(Problem, None, "cannot be a name, and the text gives none");
        true
    },

    // Keys.
    "unknown-key" => |made| {
        let line = made.put("favourite", &["favourite: blue"]);
        made.warns(Note, line, "unknown key `favourite`");
        true
    },
    "unknown-map" => |made| {
        let line = made.put("x-config", &["x-config:", "  deep: [1, {a: b}]"]);
        made.warns(Note, line, "unknown key `x-config`");
        true
    },
    "slip" => |made| {
        let line = made.put("descripton", &["descripton: a slip"]);
        made.warns(Problem, line, "did you mean `description`?");
        true
    },
    "key-twice" => |made| {
        made.lines.push("description: The last one counts.".to_owned());
        made.described("The last one counts.");
        let line = made.line_of(made.lines.len() - 1);
        made.warns(Problem, line, "`description` is written twice; the last one is used");
        true
    },
    "other-spelling" => |made| {
        made.put("description", &["Description: Written otherwise."]);
        made.described("Written otherwise.");
        true
    },
    "comments" => |made| {
        made.lines.insert(1, "# what it is for".to_owned());
        made.lines.push("tags: [a] # more".to_owned());
        !made.lines.iter().any(|line| line.starts_with("tags:") && !line.ends_with("# more"))
    },
    "anchors" => |made| {
        made.put("metadata", &["metadata: {a: &one [x, y], b: *one}"]);
        true
    },
    "empty-keys" => |made| { made.put("color", &["color:", "icon:"]); true },
    "quoted-keys" => |made| {
        made.put("description", &["\"description\": Quoted."]);
        made.described("Quoted.");
        true
    },
    "foreign-keys" => |made| {
        let line = made.put("hooks", &["hooks:", "  PreToolUse: [{matcher: Bash, command: rm}]"]);
        made.warns(Note, line, "hooks come from the user's settings only");
        made.kind.is_markdown()
    },
    "wrong-limit" => |made| {
        let key = made.kind.limit_key();
        let line = made.put(key, &[&format!("{key}: many")]);
        made.warns(Problem, line, "expected a whole number from 1");
        true
    },
    "zero-limit" => |made| {
        let key = made.kind.limit_key();
        let line = made.put(key, &[&format!("{key}: 0")]);
        made.warns(Problem, line, "expected a whole number from 1");
        true
    },
    "limit-in-quotes" => |made| { let key = made.kind.limit_key(); made.put(key, &[&format!("{key}: \"9\"")]); true },

    // Models.
    "inherit" => |made| { made.put("model", &["model: inherit"]); true },
    "model" => |made| {
        made.put("model", &["model: anthropic/claude-sonnet-4-5"]);
        made.expect().model = Some("anthropic/claude-sonnet-4-5".to_owned());
        true
    },
    "short-model" => |made| {
        let line = made.put("model", &["model: sonnet"]);
        made.warns(Note, line, "is a short name of no model that can be used here");
        true
    },
    "model-as-list" => |made| {
        let line = made.put("model", &["model: {name: x}"]);
        made.warns(Problem, line, "expected text");
        true
    },

    // Tools.
    "tools-as-text" => |made| { tools(made, &["{}: Read, Write,Bash"], &["read", "write", "bash"]); true },
    "tools-with-spaces" => |made| { tools(made, &["{}: Read Write Bash"], &["read", "write", "bash"]); true },
    "tools-in-brackets" => |made| { tools(made, &["{}: [Read, \"Write\", 'Bash']"], &["read", "write", "bash"]); true },
    "tools-listed" => |made| { tools(made, &["{}:", "- Read", "- Bash"], &["read", "bash"]); true },
    "tools-as-map" => |made| {
        let off = ["write", "edit", "bash", "webfetch", "websearch", "todo", "skill"];
        let map: Vec<String> = off.iter().map(|tool| format!("{tool}: false")).collect();
        tools(made, &[&format!("{{}}: {{{}}}", map.join(", "))], &["read", "glob", "grep", "list"]);
        true
    },
    "tools-empty" => |made| { tools(made, &["{}: []"], &[]); true },
    "tools-null" => |made| {
        tools(made, &["{}:"], &[]);
        made.expect().tools = (made.kind == FileType::Agent).then(every_tool);
        true
    },
    "tools-twice" => |made| { tools(made, &["{}: Read, read, read_file, View"], &["read"]); true },
    "foreign-tools" => |made| {
        let ours = ["bash", "edit", "list", "todo"];
        tools(made, &["{}: run_shell_command, str_replace_editor, list_directory, TodoWrite"], &ours);
        true
    },
    "unknown-tool" => |made| {
        let line = tools(made, &["{}: Read, Teleport"], &["read"]);
        made.warns(Problem, line, "unknown tool \"Teleport\"");
        true
    },
    "tool-slip" => |made| {
        let line = tools(made, &["{}: Reed, Bash"], &["bash"]);
        made.warns(Problem, line, "did you mean `read`?");
        true
    },
    "tool-not-here" => |made| {
        let line = tools(made, &["{}: Read, AskUserQuestion"], &["read"]);
        made.warns(Note, line, "AskUserQuestion");
        true
    },
    "mcp-tools" => |made| {
        let line = tools(made, &["{}: Read, mcp__github__create_issue, mcp__docs__search"], &["read", "docs__search"]);
        made.warns(Note, line, "mcp__github__create_issue");
        true
    },
    "narrowed-tools" => |made| { tools(made, &["{}: Read, Bash(git diff:*), Bash(npm test)"], &["read", "bash"]); true },
    "tools-as-number" => |made| {
        let line = tools(made, &["{}: 7"], &[]);
        made.warns(Problem, line, "unknown tool \"7\"");
        true
    },
    "tabs" => |made| {
        let line = tools(made, &["{}:", "\t- Read", "\t- Bash"], &["read", "bash"]);
        made.warns(Problem, line, "tabs cannot indent YAML");
        true
    },

    // Refused files.
    "alias-bomb" => |made| {
        let line = made.line_of(made.lines.len());
        made.lines.push("a: &a [x, x, x, x, x, x, x, x, x, x]".to_owned());
        for (before, name) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")] {
            made.lines.push(format!("{name}: &{name} [{}]", vec![format!("*{before}"); 10].join(", ")));
        }
        refused(made, line, "larger than can be read safely")
    },
    "deep-nesting" => |made| {
        let line = made.put("metadata", &[&format!("metadata: {}{}", "[".repeat(200), "]".repeat(200))]);
        refused(made, line, "nested too deeply")
    },
    "giant-file" => |made| { made.body = "x ".repeat(300 * 1024); refused(made, None, "more than the 524288 accepted") },
    "giant-front-matter" => |made| {
        made.lines.push(format!("notes: {}", "x ".repeat(40 * 1024)));
        let line = made.line_of(0);
        made.kind.is_markdown() && refused(made, line, "more than the 65536 accepted")
    },
    "empty-file" => |made| { made.encode = |_| Vec::new(); refused(made, None, "the file is empty") },
    "blank-file" => |made| { made.encode = |_| b" \n\n\t\n".to_vec(); refused(made, None, "the file is empty") },
    "no-instructions" => |made| {
        made.body.clear();
        made.kind == FileType::Skill && refused(made, None, "there are no instructions")
    },
    "no-system-prompt" => |made| {
        made.body.clear();
        made.kind == FileType::Yaml && refused(made, None, "there is no `system_prompt`")
    },
    "no-prompt" => |made| {
        made.instructs(DESCRIPTION);
        made.body.clear();
        made.warns(Problem, None, "there is no prompt; the description is used");
        made.kind == FileType::Agent
    },
    "disabled" => |made| {
        made.lines.push("disable: true".to_owned());
        made.expected = None;
        made.warns(Note, None, "disabled by its file");
        made.kind == FileType::Agent
    },
}

/// Replaces the lines for tools. `{}` is the key. Returns their line.
fn tools(made: &mut GeneratedFile, lines: &[&str], expected: &[&str]) -> usize {
    let key = made.kind.tools_key();
    let lines: Vec<String> = lines.iter().map(|line| line.replacen("{}", key, 1)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let line = made.put(key, &lines);
    // A skill that lists others to delegate to gets the tool for it.
    let delegates = made.lines.iter().any(|line| line == "sub_agents:");
    let delegate = delegates.then_some(&"delegate_to_agent");
    made.expect().tools = Some(expected.iter().chain(delegate).map(ToString::to_string).collect());
    line
}

/// The file is refused with this warning.
fn refused(made: &mut GeneratedFile, line: impl Into<Option<usize>>, says: &'static str) -> bool {
    made.expected = None;
    made.warns(Problem, line, says);
    true
}
