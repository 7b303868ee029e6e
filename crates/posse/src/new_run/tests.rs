//! The rights of discovered definitions and skills in a run request.

use posse_definitions::{ParseOptions, read_agent, read_skill};
use posse_domain::definition::Trust;
use posse_domain::permission::{Decision, NETWORK, Operation, Rule};
use posse_domain::skill::SKILL_TOOL;

use super::*;

const TOOLS: [&str; 3] = ["read", "bash", "skill"];

fn reading(trust: Trust) -> ParseOptions<'static> {
    ParseOptions { file: "x", known_tools: &TOOLS, trust, model: None }
}

fn decide(rules: &[Rule], tool: &str, specifier: Option<&str>) -> Option<Decision> {
    let rules: Rules = rules.to_vec().into();
    rules.last_match(&Operation::new(tool, specifier)).map(|rule| rule.decision)
}

#[test]
fn what_a_file_says_opens_no_network_and_asks_as_the_built_in_ones_do() {
    let text =
        "---\nname: wide\ndescription: d\ntools: Bash\nrules: [{pattern: '*', decision: allow}]\n---\nGo.";
    let wide = read_agent(text.as_bytes(), "wide", &reading(Trust::Trusted)).value.expect("a definition");
    let plain = "---\nname: plain\ndescription: d\ntools: Bash\n---\nGo.";
    let plain = read_agent(plain.as_bytes(), "plain", &reading(Trust::Trusted)).value.expect("a definition");
    let found = DiscoveredDefinitions { definitions: vec![wide, plain], ..DiscoveredDefinitions::default() };
    let RunDefinitions { catalogue, .. } = all_known(Vec::new(), found, "coder", None).expect("known");
    let wide = catalogue.definitions.iter().find(|found| found.name == "wide").expect("found");
    assert_eq!(decide(&wide.rules, NETWORK, None), Some(Decision::Ask));
    assert_eq!(decide(&catalogue.asks, "bash", Some("git push origin")), Some(Decision::Ask));
    assert_eq!(decide(&catalogue.asks, "bash", Some("git status")), None);
}

#[test]
fn an_untrusted_skill_needs_consent_and_commands_find_its_files() {
    let text = b"---\nname: notes\ndescription: d\n---\nSee x.md.";
    let read = |trust, dir| read_skill(text, "notes", Some(dir), &reading(trust)).value.expect("a skill");
    let inside = read(Trust::Untrusted, "/p/.claude/skills/notes");
    let inside = Skill { project: Some("/p".to_owned()), ..inside };
    let found = DiscoveredDefinitions { skills: vec![inside], ..DiscoveredDefinitions::default() };
    let RunDefinitions { catalogue, .. } = all_known(Vec::new(), found, "coder", Some("/p")).expect("known");
    assert_eq!(decide(&catalogue.consent_rules(), SKILL_TOOL, Some("notes")), Some(Decision::Ask));
    assert_eq!(decide(&catalogue.consent_rules(), SKILL_TOOL, Some("other")), None);
    assert_eq!(catalogue.skills[0].shown_dir.as_deref(), Some("/workspace/.claude/skills/notes"));
    for dir in ["/home/ann/.claude/skills/notes", "/p/.claude/skills/ignored"] {
        let own = read(Trust::Trusted, dir);
        let found = DiscoveredDefinitions { skills: vec![own], ..DiscoveredDefinitions::default() };
        let RunDefinitions { catalogue, .. } =
            all_known(Vec::new(), found, "coder", Some("/p")).expect("known");
        assert_eq!(catalogue.consent_rules(), []);
        assert_eq!(catalogue.skills[0].directory(true), "$POSSE_SKILL_NOTES", "no path of the machine");
        assert_eq!(catalogue.skills[0].directory(false), "skill://notes");
    }
}
