//! Skill files as Markdown and YAML: every key, defaults, and warnings.

use posse_domain::definition::Trust;
use posse_domain::permission::Decision;

use super::*;
use crate::agent_markdown::tests::reading;
use crate::parse_options::Severity;

fn load(text: &str) -> ParsedFile<Skill> {
    read_skill(text.as_bytes(), "folder", Some("/skills/folder"), &reading("SKILL.md"))
}

fn load_yaml(text: &str) -> ParsedFile<Skill> {
    read_yaml_skill(text.as_bytes(), "stem", &reading("stem.yaml"))
}

/// A skill with its folder's name and `extra` in its front matter.
fn with(extra: &str) -> String {
    format!("---\nname: folder\ndescription: d\n{extra}\n---\nDo it.")
}

fn one(text: &str) -> Skill {
    load(text).value.expect(text)
}

fn told<T>(loaded: &ParsedFile<T>) -> Vec<String> {
    loaded.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_skill_is_read_with_every_key() {
    let text = "---\nname: folder\ndescription: Reviews.\nlicense: MIT\ncompatibility: any\nmetadata: {a: {b: c}}\n\
                allowed-tools: Read Grep Bash(git diff:*)\ncontext: fork\nagent: Explore\nmodel: p/m\n\
                max-iterations: 5\nmax-depth: 1\nmax-retries-per-tool: 2\ntimeout-per-iteration: 90\n\
                include_sub_agent_events: true\ndisable-model-invocation: true\nuser-invocable: false\n\
                argument-hint: [file] [--all]\nbackground: true\ntags: [a, b]\n---\n# Review\n\nDo it.\n";
    let loaded = load(text);
    let read = loaded.value.clone().expect("skill");
    let rules: Vec<String> = read.rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["bash -> deny", "bash:git diff -> allow", "bash:git diff * -> allow"]);
    let expected = Skill {
        name: "folder".into(),
        description: "Reviews.".into(),
        instructions: "# Review\n\nDo it.".into(),
        fork: true,
        agent: Some("explore".into()),
        tools: Some(vec!["read".into(), "grep".into(), "bash".into()]),
        rules: read.rules.clone(),
        sub_agents: None,
        model: Some("p/m".into()),
        temperature: None,
        max_iterations: Some(5),
        max_depth: Some(1),
        max_retries_per_tool: Some(2),
        turn_timeout_ms: Some(90_000),
        include_sub_agent_events: true,
        for_models: false,
        for_people: false,
        argument_hint: Some("[file] [--all]".into()),
        background: true,
        trust: Trust::Trusted,
        dir: Some("/skills/folder".into()),
        project: None,
        shown_dir: None,
    };
    assert_eq!(read, expected);
    // `[file] [--all]` is not YAML, but its meaning is clear.
    assert_eq!(loaded.warnings.iter().map(|one| one.line).collect::<Vec<_>>(), [Some(18)]);
    assert_eq!(loaded.mentions.len(), 1);
}

#[test]
fn what_is_left_out_has_a_plain_meaning() {
    let loaded = load("---\nname: folder\ndescription: d\n---\nDo it.");
    assert_eq!(loaded.warnings, []);
    let read = loaded.value.expect("skill");
    assert!(!read.fork && !read.background && !read.include_sub_agent_events);
    assert!(read.for_models && read.for_people);
    assert_eq!((read.tools, read.agent, read.sub_agents, read.turn_timeout_ms), (None, None, None, None));
}

#[test]
fn keys_may_be_spelled_either_way() {
    let read = one(&with(
        "allowed_tools: [Read]\nmax_iterations: '4'\nuserInvocable: no\ninclude-sub-agent-events: true",
    ));
    assert_eq!((read.tools, read.max_iterations), (Some(vec!["read".to_owned()]), Some(4)));
    assert!(!read.for_people && read.include_sub_agent_events);
}

#[test]
fn a_time_is_seconds_or_has_its_unit() {
    let timeout = |value: &str| one(&with(&format!("timeout-per-iteration: {value}"))).turn_timeout_ms;
    for (value, ms) in [
        ("30", Some(30_000)),
        ("1.5", Some(1_500)),
        ("30s", Some(30_000)),
        ("\"5m\"", Some(300_000)),
        ("500ms", Some(500)),
        ("1h", Some(3_600_000)),
        ("2 minutes", Some(120_000)),
        ("0", None),
        ("-1", None),
        ("soon", None),
        ("5d", None),
        ("1e300", None),
        ("9999999999999999999999", None),
    ] {
        assert_eq!(timeout(value), ms, "{value}");
    }
    assert_eq!(
        told(&load(&with("timeout-per-iteration: soon"))),
        [
            "SKILL.md:4: timeout-per-iteration: expected a time such as `90` (seconds), `30s` or `5m`, a week at most, \
          found text (it is omitted)"
        ]
    );
}

#[test]
fn a_folder_and_a_name_that_differ_are_told_and_the_name_counts() {
    let loaded = load("---\nname: other\ndescription: d\n---\nDo it.");
    assert_eq!(
        told(&loaded),
        [
            "SKILL.md:2: the skill is named `other` and its folder `folder`; `other` is used (give both the same name)"
        ]
    );
    assert_eq!(loaded.value.expect("skill").name, "other");
}

#[test]
fn without_a_description_the_first_line_takes_its_place() {
    let loaded = load("---\nname: folder\n---\n\n# Review code\n\nDo it.");
    assert_eq!(
        told(&loaded),
        [
            "SKILL.md: there is no description; the first line of the text is used (write `description:` and when \
          to use it)"
        ]
    );
    assert_eq!(loaded.value.expect("skill").description, "Review code");
}

#[test]
fn oddities_are_told_and_nothing_is_hidden() {
    for (extra, warning) in [
        ("context: forked", "SKILL.md:4: context: `forked` is not known; the skill enters the conversation"),
        ("max-retries-per-tool: 0", "SKILL.md:4: max-retries-per-tool: expected a whole number from 1 to"),
        ("max-iterations: 0", "SKILL.md:4: max-iterations: expected a whole number from 1 to 1000000"),
        ("allowed-tools: Reed", "SKILL.md:4: unknown tool \"Reed\" (did you mean `read`?)"),
        ("alowed-tools: Read", "SKILL.md:4: unknown key `alowed-tools` (did you mean `allowed-tools`?)"),
        ("hooks: {x: y}", "SKILL.md:4: `hooks`: hooks come from the user's settings only"),
        ("name: Folder", "SKILL.md:4: the key `name` is written twice; the last one is used"),
        ("description: a: b", "SKILL.md:4: description: the value is not valid YAML"),
    ] {
        let loaded = load(&with(extra));
        assert!(loaded.value.is_some(), "{extra}");
        assert!(told(&loaded)[0].starts_with(warning), "{extra}: {:?}", told(&loaded));
    }
    assert_eq!(load("---\nname: folder\ndescription: d\n---\n").value, None, "nothing to do");
}

#[test]
fn when_to_use_stands_behind_the_description() {
    assert_eq!(one(&with("when_to_use: When asked.")).description, "d\nWhen asked.");
    assert_eq!(one("---\nname: folder\nwhen_to_use: When asked.\n---\nDo it.").description, "When asked.");
}

#[test]
fn a_hint_in_brackets_is_kept_as_it_is_written() {
    assert_eq!(one(&with("argument-hint: [pr-number]")).argument_hint.as_deref(), Some("[pr-number]"));
    assert_eq!(one(&with("argument-hint: <file>")).argument_hint.as_deref(), Some("<file>"));
}

#[test]
fn commands_in_the_text_stay_text_and_a_note_says_so() {
    let loaded = load("---\nname: folder\ndescription: d\n---\nState: !`git status`\n");
    assert_eq!(loaded.value.as_ref().map(|skill| &*skill.instructions), Some("State: !`git status`"));
    assert_eq!(loaded.warnings[0].level, Severity::Note);
    assert!(loaded.warnings[0].problem.contains("are not run"), "{}", loaded.warnings[0]);
    let harmless = "---\nname: folder\ndescription: d\n---\nSay `hi!` and `!` there.\n";
    assert_eq!(load(harmless).warnings, []);
}

#[test]
fn nobody_trusted_means_ask() {
    let reading = ParseOptions { trust: Trust::Untrusted, ..reading("SKILL.md") };
    let text = with("allowed-tools: Bash(git:*)\nmodel: scripted/x.yaml\nmax-depth: 3");
    let read = read_skill(text.as_bytes(), "folder", None, &reading).value.expect("skill");
    assert_eq!((read.trust, read.model, read.max_depth), (Trust::Untrusted, None, None));
    let decisions: Vec<Decision> = read.rules.iter().map(|rule| rule.decision).collect();
    assert_eq!(decisions, [Decision::Deny, Decision::Ask, Decision::Ask]);
}

#[test]
fn nobody_trusted_means_no_more_retries_than_usual() {
    let retries = |number: u32, trust| {
        let reading = ParseOptions { trust, ..reading("SKILL.md") };
        let text = with(&format!("max-retries-per-tool: {number}"));
        read_skill(text.as_bytes(), "folder", None, &reading).value.expect("skill").max_retries_per_tool
    };
    assert_eq!(retries(1_000, Trust::Untrusted), Some(3));
    assert_eq!(retries(1, Trust::Untrusted), Some(1));
    assert_eq!(retries(1_000, Trust::Trusted), Some(1_000));
}

#[test]
fn a_yaml_skill_is_read_with_every_key() {
    let text = "name: project_manager\ndescription: Leads.\nsystem_prompt: |\n  You lead.\n  Ask: others.\nmodel: p/m\n\
                temperature: 0.3\ntools: [read_file, delegate_to_agent]\nsub_agents: [general_assistant, Summarize]\n\
                max_iterations: 9\nmax_depth: 3\nagent: general\n";
    let loaded = load_yaml(text);
    assert_eq!(loaded.warnings, []);
    let read = loaded.value.expect("skill");
    assert_eq!((read.name.as_str(), &*read.instructions), ("project_manager", "You lead.\nAsk: others."));
    assert_eq!((read.temperature, read.max_iterations, read.max_depth), (Some(0.3), Some(9), Some(3)));
    assert_eq!(read.tools.as_deref(), Some(["read".to_owned(), "delegate_to_agent".to_owned()].as_slice()));
    let sub_agents = read.sub_agents.expect("sub_agents");
    assert_eq!(sub_agents, ["general_assistant", "summarize"]);
    assert!(read.fork && read.for_models && read.for_people);
    let lines: Vec<_> = loaded.mentions.iter().map(|one| (one.role, one.line)).collect();
    assert_eq!(lines, [(Role::SubAgent, Some(9)), (Role::SubAgent, Some(9)), (Role::Agent, Some(12))]);
}

#[test]
fn whoever_lists_sub_agents_has_the_tool_for_it() {
    let tools = |sub_agents: &str| {
        let text = format!("description: d\nsystem_prompt: x\ntools: [read]\nsub_agents: {sub_agents}\n");
        load_yaml(&text).value.expect("skill").tools.map(|tools| tools.join(" "))
    };
    assert_eq!(tools("[other]").as_deref(), Some("read delegate_to_agent"));
    assert_eq!(tools("[]").as_deref(), Some("read"));
}

#[test]
fn a_yaml_skill_may_list_no_one() {
    let of = |value: &str| {
        let text = format!("description: d\nsystem_prompt: x\nsub_agents: {value}\n");
        load_yaml(&text).value.expect("skill").sub_agents
    };
    assert_eq!(of("[]"), Some(Vec::new()));
    assert_eq!(of(""), None);
    assert_eq!(of("'*'"), None);
}

#[test]
fn a_yaml_skill_that_is_none_says_why() {
    for (text, why) in [
        ("name: x\ndescription: d\n", "stem.yaml: there is no `system_prompt`"),
        ("- a\n- b\n", "stem.yaml: there is no `system_prompt`"),
        ("", "stem.yaml: the file is empty"),
    ] {
        let loaded = load_yaml(text);
        assert_eq!(loaded.value, None, "{text}");
        assert!(told(&loaded).iter().any(|told| told.starts_with(why)), "{text}: {:?}", told(&loaded));
    }
    let colon = load_yaml("description: When: asked\nsystem_prompt: |\n  You do.\n").value.expect("skill");
    assert_eq!((colon.description.as_str(), &*colon.instructions), ("When: asked", "You do."));
}
