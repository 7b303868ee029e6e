//! Agent files of Claude Code and opencode: every key, defaults, malformed front matter, and warnings.

use super::*;
use crate::parse_options::Severity;

pub(crate) const KNOWN_TOOLS: &[&str] = &[
    "read",
    "glob",
    "grep",
    "list",
    "write",
    "edit",
    "bash",
    "webfetch",
    "websearch",
    "todo",
    "skill",
    "task",
    "task_status",
    "task_send",
    "task_cancel",
    "task_close",
    "delegate_to_agent",
];

pub(crate) fn reading(file: &str) -> ParseOptions<'_> {
    ParseOptions { file, known_tools: KNOWN_TOOLS, trust: Trust::Trusted, model: None }
}

fn load(text: &str) -> ParsedFile<Definition> {
    read_agent(text.as_bytes(), "stem", &reading("a.md"))
}

fn one(text: &str) -> Definition {
    load(text).value.expect(text)
}

/// A file with `extra` in its front matter.
fn with(extra: &str) -> String {
    format!("---\ndescription: d\n{extra}\n---\nYou do it.")
}

fn warnings(text: &str) -> Vec<String> {
    load(text).warnings.iter().map(ToString::to_string).collect()
}

fn rules(definition: &Definition) -> String {
    definition.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_claude_code_agent_is_read_with_every_key() {
    let text = "---\nname: code-reviewer\ndescription: Reviews code.\ntools: Read, Grep, Bash(git diff:*)\n\
                disallowedTools: Grep\nmodel: anthropic/claude-x\npermissionMode: default\nmaxTurns: 12\n\
                skills: [style, security]\nbackground: true\nisolation: worktree\ncolor: red\n---\n\nYou review.\n";
    let loaded = load(text);
    assert_eq!(loaded.warnings, []);
    let read = loaded.value.expect("definition");
    assert_eq!((read.name.as_str(), read.display_name.as_str()), ("code-reviewer", "Code Reviewer"));
    assert_eq!((read.description.as_str(), &*read.prompt), ("Reviews code.", "You review."));
    assert_eq!(read.tools, ["read", "bash"]);
    assert_eq!(rules(&read), "bash -> deny; bash:git diff -> allow; bash:git diff * -> allow");
    assert_eq!((read.model.as_deref(), read.max_turns), (Some("anthropic/claude-x"), Some(12)));
    assert_eq!(read.skills.as_deref(), Some(["style".to_owned(), "security".to_owned()].as_slice()));
    assert!(read.background && read.spawns.is_none() && read.mode == Mode::All);
    let mentioned: Vec<_> =
        loaded.mentions.iter().map(|one| (one.role, one.name.as_str(), one.line)).collect();
    assert_eq!(mentioned, [(Role::Skill, "style", Some(9)), (Role::Skill, "security", Some(9))]);
}

#[test]
fn an_opencode_agent_is_read_with_every_key() {
    let text = "---\ndescription: Plans.\nmode: primary\nmodel: anthropic/claude-x\ntemperature: 0.1\ntop_p: 1\n\
                steps: 7\nhidden: true\ntools:\n  write: false\n  todowrite: true\npermission:\n  edit: deny\n  \
                bash:\n    \"*\": ask\n    \"git log*\": allow\n  webfetch: ask\n  task:\n    \"*\": deny\n    \
                explore: allow\n---\nYou plan.\n";
    let loaded = load(text);
    assert_eq!(loaded.warnings, []);
    let read = loaded.value.expect("definition");
    assert_eq!((read.name.as_str(), read.mode), ("stem", Mode::Primary));
    assert_eq!((read.temperature, read.top_p, read.max_turns), (Some(0.1), Some(1.0), Some(7)));
    assert_eq!(
        read.tools.join(" "),
        "read glob grep list bash webfetch websearch skill todo task task_status task_send task_cancel task_close"
    );
    assert_eq!(rules(&read), "task:explore -> allow; bash -> ask; bash:git log* -> allow; webfetch -> ask");
    assert_eq!(read.spawns.as_deref(), Some(["explore".to_owned()].as_slice()));
}

#[test]
fn what_is_left_out_has_a_plain_meaning() {
    let read = one("---\ndescription: d\n---\nYou do it.");
    assert_eq!(read.name, "stem");
    assert_eq!(read.tools, ToolList::every(&reading("a.md")));
    assert!(read.tools.iter().any(|tool| tool == "bash") && !read.tools.iter().any(|tool| tool == "task"));
    assert_eq!((read.spawns, read.model, read.skills, read.trust), (None, None, None, Trust::Trusted));
    assert!(!read.background && !read.may_share_history);
}

#[test]
fn front_matter_that_is_no_yaml_is_read_all_the_same() {
    for (value, description) in [
        ("Use when: the user asks", "Use when: the user asks"),
        ("@mention `code` 100%", "@mention `code` 100%"),
        ("*bold* start", "*bold* start"),
        ("- a dash", "- a dash"),
        ("[x] a box", "[x] a box"),
        ("{braces} first", "{braces} first"),
        ("%percent", "%percent"),
        ("\"one quote", "one quote"),
        ("say \"a: b\" and: c", "say \"a: b\" and: c"),
        ("'it's here'", "it's here"),
        ("& and !bang: x", "& and !bang: x"),
        ("two\n  lines: of\n  text", "two\nlines: of\ntext"),
        (
            "Examples:\n<example>\nuser: \"do: it\"\n</example>",
            "Examples:\n<example>\nuser: \"do: it\"\n</example>",
        ),
        ("|\nnot indented: at all\nx", "not indented: at all\nx"),
    ] {
        let text = format!("---\nname: x\ndescription: {value}\ntools: Read\n---\nBody.");
        let loaded = load(&text);
        let read = loaded.value.expect(&text);
        assert_eq!((read.name.as_str(), read.description.as_str()), ("x", description), "{text}");
        assert_eq!((read.tools.join(" ").as_str(), &*read.prompt), ("read", "Body."), "{text}");
        let [warning] = loaded.warnings.as_slice() else { panic!("{text}: {:?}", loaded.warnings) };
        assert_eq!((warning.line, warning.level), (Some(3), Severity::Problem), "{text}");
        assert!(warning.fix.as_ref().is_some_and(|fix| fix.contains("quotes")), "{warning}");
    }
}

#[test]
fn valid_yaml_of_every_shape_is_read_without_a_warning() {
    for (value, description) in [
        ("plain", "plain"),
        ("\"quoted: text # x\"", "quoted: text # x"),
        ("'single: quoted'", "single: quoted"),
        ("|\n  block: one\n  two", "block: one\ntwo"),
        (">-\n  folded\n  text", "folded text"),
        ("over\n  two lines", "over two lines"),
        ("12", "12"),
        ("true", "true"),
        ("no", "no"),
        ("Use it. # a comment", "Use it."),
        ("C# and F#", "C# and F#"),
    ] {
        let text = format!("---\ndescription: {value}\ntools: []\n---\nBody.");
        let loaded = load(&text);
        assert_eq!(loaded.warnings, [], "{text}");
        let read = loaded.value.expect(&text);
        assert_eq!((read.description.as_str(), read.tools.len()), (description, 0), "{text}");
    }
}

#[test]
fn a_text_cut_short_by_a_hash_is_told() {
    assert_eq!(
        warnings("---\ndescription: Fixes issue #12 and more\n---\nBody."),
        ["a.md:2: description: the text after ` #` is a comment (put the value in quotes)"]
    );
}

#[test]
fn only_the_broken_part_is_told() {
    let text = "---\nname: Code Reviewer\ndescription: Use when: asked\ntools:\n\t- Read\nmodel: inherit\ntoolz: x\n\
                name: second\n---\nBody.";
    assert_eq!(
        warnings(text),
        [
            "a.md:3: description: the value is not valid YAML and is used as plain text (put the value in quotes, or \
             write it indented below `key: |`)",
            "a.md:4: tools: tabs cannot indent YAML (use spaces)",
            "a.md:7: unknown key `toolz` (did you mean `tools`?); it is ignored (correct or remove it; until then it \
             narrows nothing)",
            "a.md:8: the key `name` is written twice; the last one is used (remove the one in line 2)",
        ]
    );
    assert_eq!(one(text).name, "second");
}

#[test]
fn the_marks_of_front_matter_may_be_missing() {
    for (text, prompt, warning) in [
        ("---\nname: x\ndescription: d\nYou do.\n", "You do.", "a.md:1: the front matter has no end"),
        (
            "---\nname: x\ndescription: d\n\n# You\n\nDo: it.\n",
            "# You\n\nDo: it.",
            "a.md:1: the front matter has no end",
        ),
        ("name: x\ndescription: d\n---\nYou do.\n", "You do.", "a.md:1: the front matter has no beginning"),
        (
            "\n\n---\nname:x\ndescription:d\n---\nYou do.",
            "You do.",
            "a.md:4: name: the value is not valid YAML",
        ),
    ] {
        let read = one(text);
        assert_eq!((read.name.as_str(), read.description.as_str()), ("x", "d"), "{text}");
        assert_eq!(&*read.prompt, prompt, "{text}");
        assert!(warnings(text)[0].starts_with(warning), "{text}: {:?}", warnings(text));
    }
    let plain = one("# Reviewer\n\nYou review.\n\n---\nx: y\n");
    assert_eq!((plain.name.as_str(), plain.description.as_str()), ("stem", "Reviewer"));
    assert_eq!(&*plain.prompt, "# Reviewer\n\nYou review.\n\n---\nx: y");
    let body = one("---\ndescription: d\n---\nOne\n---\ntwo: x\n---\n");
    assert_eq!(&*body.prompt, "One\n---\ntwo: x\n---");
}

#[test]
fn encodings_and_line_ends_change_nothing() {
    let text = "---\nname: x\ndescription: |\n  two\n  lines\ntools:\n  - Read\n---\n\nBody\nhere.\n";
    let expected = load(text);
    let utf_16: Vec<u8> =
        [0xfeff_u16].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for (bytes, told) in [
        (format!("\u{feff}{text}").into_bytes(), 0),
        (text.replace('\n', "\r\n").into_bytes(), 0),
        (text.replace('\n', "\r").into_bytes(), 0),
        (format!("\n\n{text}").into_bytes(), 0),
        (utf_16, 1),
    ] {
        let loaded = read_agent(&bytes, "stem", &reading("a.md"));
        assert_eq!(loaded.value, expected.value);
        assert_eq!(loaded.warnings.len(), told, "{:?}", loaded.warnings);
    }
    let latin = read_agent(b"---\ndescription: caf\xe9\n---\nBody.", "stem", &reading("a.md"));
    assert_eq!(
        latin.warnings[0].to_string(),
        "a.md:2: the file is not UTF-8; what cannot be read is replaced (save it as UTF-8)"
    );
    assert_eq!(latin.value.expect("definition").description, "caf\u{fffd}");
}

#[test]
fn what_cannot_be_used_says_why() {
    let bomb = "---\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n---\nBody.";
    let deep = format!("---\na: {}{}\n---\nBody.", "[".repeat(200), "]".repeat(200));
    let broken_and_deep =
        format!("---\ndescription: a: b\na: {}{}\n---\nBody.", "[".repeat(200), "]".repeat(200));
    let long_matter = format!("---\ndescription: {}\n---\nBody.", "x".repeat(70_000));
    let giant = "x".repeat(600_000);
    for (text, why) in [
        ("", "a.md: the file is empty"),
        (" \n\t\n", "a.md: the file is empty"),
        ("---\n---\n", "a.md: there is neither a description nor a prompt"),
        (bomb, "a.md:2: the front matter, with what its aliases stand for, is larger"),
        (&deep, "a.md:2: the front matter is nested too deeply"),
        (&broken_and_deep, "a.md:3: the front matter is nested too deeply"),
        (&long_matter, "a.md:2: the front matter has 70014 bytes, more than the 65536 accepted"),
        (&giant, "a.md: 600000 bytes, more than the 524288 accepted"),
        ("---\ndescription: d\ndisable: true\n---\nx", "a.md: the definition is disabled"),
    ] {
        let loaded = load(text);
        assert_eq!(loaded.value, None, "{why}");
        let last = loaded.warnings.last().expect(why).to_string();
        assert!(last.starts_with(why), "{last}");
    }
    let readme = read_agent(b"# Agents\n\nA list.", "README", &reading("README.md"));
    assert_eq!((readme.value, readme.warnings[0].level), (None, Severity::Note));
    let nameless = read_agent("---\nname: 审查\n---\nBody.".as_bytes(), "审查", &reading("a.md"));
    assert_eq!(nameless.value, None);
    assert_eq!(nameless.warnings.len(), 2);
}

#[test]
fn tools_are_read_as_text_list_and_map() {
    for (tools, expected) in [
        ("tools: Read, Grep,Bash", "read grep bash"),
        ("tools: Read Grep Bash", "read grep bash"),
        ("tools: \"Read\"", "read"),
        ("tools: [Read, read_file, WebFetch]", "read webfetch"),
        ("tools:\n  - Read\n  - 'Edit, Write'", "read edit write"),
        ("tools:\n- Read\n- Grep", "read grep"),
        ("tools: [Read, Agent(a, b)]", "read task"),
        ("tools: {'*': false, read: true, bash: true}", "read bash"),
        ("tools: []", ""),
        ("tools: [Read, AskUserQuestion, mcp__a__b]", "read"),
    ] {
        assert_eq!(one(&with(tools)).tools.join(" "), expected, "{tools}");
    }
    for everything in ["tools:", "tools: '*'", "tools: All tools", "tools: [\"*\"]", "tools: null"] {
        assert_eq!(one(&with(everything)).tools, ToolList::every(&reading("a.md")), "{everything}");
    }
}

#[test]
fn tools_that_are_not_here_are_named() {
    assert_eq!(
        warnings(&with("tools: Reed, mcp__github__get, LSP, Read(~/.ssh)")),
        [
            "a.md:3: unknown tool \"Reed\" (did you mean `read`?) (correct or remove it; it is omitted)",
            "a.md:3: `mcp__github__get` is a tool of an MCP server, and none is connected; it is omitted",
            "a.md:3: the tool `LSP` has no counterpart here; it is omitted",
            "a.md:3: tools: `Read`: `read:~/.ssh` is not a permission pattern: paths are relative to the workspace; any \
             other is always denied, so the pattern would never match (the entry is omitted)",
        ]
    );
}

#[test]
fn what_stands_in_brackets_narrows() {
    let both = one(&with("tools: Bash, Bash(git:*), Edit(docs/**)"));
    assert_eq!(
        (both.tools.join(" ").as_str(), rules(&both).as_str()),
        ("bash edit", "edit -> deny; edit:docs/** -> allow")
    );
    let denied = one(&with("tools: Read, Bash\ndisallowedTools: Bash(rm:*), Read(secrets/**), Write"));
    assert_eq!(denied.tools.join(" "), "read bash");
    assert_eq!(rules(&denied), "bash:rm -> deny; bash:rm * -> deny; read:secrets/** -> deny");
}

#[test]
fn spawning_is_allowed_by_whoever_says_so() {
    let spawns = |extra: &str| one(&with(extra)).spawns.map(|names| names.join(" "));
    assert_eq!(spawns("tools: Read"), None);
    assert_eq!(
        spawns("tools: Read, Task(Explore), Agent(code reviewer)").as_deref(),
        Some("explore code-reviewer")
    );
    assert_eq!(spawns("tools: Task").as_deref(), Some("*"));
    assert_eq!(spawns("spawns: [Explore, explore]").as_deref(), Some("explore"));
    assert_eq!(spawns("spawns: all").as_deref(), Some("*"));
    assert_eq!(spawns("permission: {task: allow}").as_deref(), Some("*"));
    assert_eq!(spawns("permission: {task: deny}"), None);
    assert_eq!(spawns("tools: Task(a, b)\ndisallowedTools: Task(b)").as_deref(), Some("a"));
    let tools = one(&with("tools: Read\nspawns: explore")).tools.join(" ");
    assert_eq!(tools, "read task task_status task_send task_cancel task_close");
}

#[test]
fn a_permission_that_is_not_understood_denies() {
    let read = one(&with("tools: Bash, Read\npermission: {bash: alow}"));
    assert_eq!(read.tools, ["read"]);
    assert_eq!(one(&with("tools: Bash, Read\npermission: [x]")).tools, [""; 0]);
    let some = one(&with("tools: Bash\npermission: {bash: {'*': allow, 'rm *': dney}, 'mcp_*': allow}"));
    assert_eq!(rules(&some), "bash:rm -> deny; bash:rm * -> deny");
    let last = one(&with("tools: Bash, Read\npermission: {bash: allow, '*': deny, read: ask}"));
    assert_eq!((last.tools.join(" ").as_str(), rules(&last).as_str()), ("read", "read -> ask"));
}

#[test]
fn permission_modes_only_narrow() {
    assert_eq!(one(&with("tools: Read, Edit, Bash\npermissionMode: plan")).tools, ["read"]);
    let text = with("tools: Read, Edit\npermissionMode: bypassPermissions");
    assert_eq!(one(&text).tools, ["read", "edit"]);
    assert_eq!(
        warnings(&text),
        [
            "a.md:4: permissionMode: `bypassPermissions` is ignored: a definition cannot grant itself more permissions"
        ]
    );
}

#[test]
fn a_rule_that_cannot_be_read_makes_everything_ask() {
    let good = one(&with("rules:\n  - {pattern: 'bash:git push*', decision: deny}"));
    assert_eq!((rules(&good).as_str(), good.trust), ("bash:git push* -> deny", Trust::Trusted));
    let bad = one(&with("rules: {bash: deny}"));
    assert_eq!((bad.rules.len(), bad.trust), (0, Trust::Untrusted));
    let text = with("rules:\n  - {pattern: 'read:.env', decision: deny}\n  - {pattern: bsh, decision: deny}");
    let typo = one(&text);
    assert_eq!((rules(&typo).as_str(), typo.trust), ("read:.env -> deny; bsh -> deny", Trust::Untrusted));
    let told = warnings(&text);
    assert!(told[0].contains("rules: unknown tool `bsh` (did you mean `bash`?)"), "{told:?}");
    let text = with(
        "rules:\n  - {pattern: 'bash:rm *', decision: deny}\n  - {pattern: bash, decision: allow}\n  - {pattern: 'bash:x', \
         decision: denny}\n  - {patern: read}",
    );
    let two = one(&text);
    assert_eq!((rules(&two).as_str(), two.trust), ("bash:rm * -> deny; bash -> ask", Trust::Untrusted));
    let told = warnings(&text);
    let first = text.lines().position(|line| line.contains("denny")).expect("a line") + 1;
    for (at, line) in [first, first + 1].into_iter().enumerate() {
        assert!(told[at].starts_with(&format!("a.md:{line}: rules: ")), "each at its own line: {told:?}");
    }
}

#[test]
fn nobody_trusted_means_nothing_is_allowed_by_itself() {
    let known: Vec<&str> = KNOWN_TOOLS.iter().copied().chain(["github__push"]).collect();
    let reading = ParseOptions { file: "a.md", known_tools: &known, trust: Trust::Untrusted, model: None };
    let text =
        with("tools: Read, Bash(git:*), mcp__github__push\nmodel: scripted/x.yaml\nmay_share_history: true");
    let loaded = read_agent(text.as_bytes(), "stem", &reading);
    let read = loaded.value.expect("definition");
    assert_eq!((read.tools.join(" ").as_str(), read.trust), ("read bash", Trust::Untrusted));
    assert_eq!(rules(&read), "bash -> deny; bash:git -> ask; bash:git * -> ask");
    assert_eq!((read.model, read.may_share_history), (None, false));
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    let trusted = ParseOptions { trust: Trust::Trusted, ..reading };
    let read = read_agent(text.as_bytes(), "stem", &trusted).value.expect("definition");
    assert_eq!(read.tools.join(" "), "read github__push bash");
    assert!(read.may_share_history && read.model.is_some());
}

#[test]
fn a_model_that_cannot_be_used_is_the_parents() {
    let check = |name: &str| match name {
        "gpt-x" => Ok("openai/gpt-x".to_owned()),
        other => Err(format!("unknown model `{other}`")),
    };
    let reading = ParseOptions { model: Some(&check), ..reading("a.md") };
    let read = |model: &str| read_agent(with(&format!("model: {model}")).as_bytes(), "stem", &reading);
    let model = |name: &str| read(name).value.expect("definition").model;
    assert_eq!(model("gpt-x").as_deref(), Some("openai/gpt-x"));
    for parents in ["inherit", "sonnet", "Opus", "haiku", "sonnet[1m]", "zzz", "''"] {
        assert_eq!(model(parents), None, "{parents}");
    }
    assert_eq!(read("inherit").warnings, []);
    assert_eq!(
        read("zzz").warnings[0].to_string(),
        "a.md:3: model: unknown model `zzz` (its parent's is used; write it as provider/model)"
    );
}

#[test]
fn values_of_the_wrong_kind_are_left_out_and_told() {
    let text =
        with("maxTurns: none\ntemperature: hot\nbackground: maybe\nmode: boss\nskills: {a: b}\nparallel: 0");
    let read = one(&text);
    assert_eq!((read.max_turns, read.temperature, read.parallel), (None, None, None));
    assert_eq!((read.background, read.mode, read.skills), (false, Mode::All, None));
    let told = warnings(&text);
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(
        told[0],
        "a.md:3: maxTurns: expected a whole number from 1 to 1000000, found text (it is omitted)"
    );
    let meant = one(&with("maxTurns: '12'\ntemperature: '0.5'\nbackground: yes"));
    assert_eq!((meant.max_turns, meant.temperature, meant.background), (Some(12), Some(0.5), true));
}

#[test]
fn a_long_description_is_cut() {
    let text = format!("---\ndescription: {}\n---\nBody.", "ä".repeat(2_000));
    assert_eq!(one(&text).description.chars().count(), posse_domain::skill::DESCRIPTION_MAX_CHARS);
    assert!(warnings(&text)[0].starts_with("a.md:2: description: 2000 characters, more than the 1024"));
}

#[test]
fn keys_and_names_have_a_limit() {
    let keys: Vec<String> = (0..300).map(|n| format!("key{n}: x")).collect();
    let loaded = load(&with(&keys.join("\n")));
    assert_eq!(loaded.value, None);
    assert_eq!(
        loaded.warnings[0].to_string(),
        "a.md: 301 keys, more than the 256 accepted (remove some of them)"
    );
    let names: Vec<String> = (0..2_000).map(|n| format!("n{n}")).collect();
    let read = one(&with(&format!("tools: Task({})\nskills: [{}]", names.join(", "), names.join(", "))));
    assert_eq!(read.spawns.map(|spawns| spawns.len()), Some(1_000));
    assert_eq!(read.skills.map(|skills| skills.len()), Some(1_000));
}

#[test]
fn warnings_have_a_limit_and_the_last_stays() {
    let keys: Vec<String> = (0..200).map(|n| format!("key{n}: x")).collect();
    let loaded = load(&format!("---\n{}\n---\n", keys.join("\n")));
    assert!(loaded.warnings.len() <= crate::WARNINGS_MAX);
    assert!(
        loaded.warnings.iter().any(|warning| warning.problem.contains("neither a description nor a prompt"))
    );
}
