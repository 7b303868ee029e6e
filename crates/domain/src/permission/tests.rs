//! Properties over random trees of agents, rules and operations.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::{Config, TestRunner};

use super::testing::run;
use super::*;

const TOOLS: [&str; 5] = ["bash", "read", "task", "webfetch", "write"];

/// The patterns overlap on purpose: rules that never conflict would prove nothing.
const PATTERNS: [&str; 22] = [
    "*",
    "bash",
    "bash:*",
    "bash:git *",
    "bash:git push*",
    "bash:*push*",
    "bash:rm \\*",
    "read",
    "read:**",
    "read:src/**",
    "read:src/*",
    "read:**/.env",
    "read:.env",
    "write",
    "write:src/**",
    "write:src/*.rs",
    "task",
    "task:explore",
    "task:gen*",
    "webfetch",
    "webfetch:docs.rs",
    "webfetch:*.rs",
];

const OPERATIONS: [&str; 20] = [
    "bash",
    "bash:ls",
    "bash:git log",
    "bash:git push origin",
    "bash:rm *",
    "bash:rm x",
    "read:.env",
    "read:a/.env",
    "read:src",
    "read:src/a.rs",
    "read:src/a/b.rs",
    "read:../x",
    "write:src/a.rs",
    "write:src/a/b.rs",
    "write:b",
    "task:explore",
    "task:general",
    "webfetch:docs.rs",
    "webfetch:evil.example",
    "other",
];

fn decisions() -> impl Strategy<Value = Decision> {
    select(vec![Decision::Deny, Decision::Ask, Decision::Allow])
}

fn patterns() -> impl Strategy<Value = Pattern> {
    select(&PATTERNS[..]).prop_map(|text| text.parse().expect(text))
}

fn rule_lists() -> impl Strategy<Value = Rules> {
    let rule = (patterns(), decisions()).prop_map(|(pattern, decision)| Rule { pattern, decision });
    vec(rule, 0..4).prop_map(Rules::from)
}

fn run_layers() -> impl Strategy<Value = RunLayers> {
    (rule_lists(), vec(rule_lists(), 0..3), rule_lists()).prop_map(|(operator, project, run)| RunLayers {
        operator,
        project: project.into_iter().collect(),
        run,
    })
}

fn definitions() -> impl Strategy<Value = DefinitionLayer> {
    (decisions(), rule_lists()).prop_map(|(default, rules)| DefinitionLayer {
        name: "some".into(),
        default,
        rules,
    })
}

fn grants() -> impl Strategy<Value = Grant> {
    let tools = subsequence(&TOOLS[..], 2..=TOOLS.len());
    (tools, rule_lists(), any::<(bool, bool, bool)>(), 0..6_u32).prop_map(|(tools, rules, flags, depth)| {
        Grant {
            allowed_tools: ToolSet::parse(tools).expect("tool names"),
            rules,
            can_spawn_children: flags.0,
            max_delegation_depth: depth,
            may_share_history: flags.1,
            on_ask: if flags.2 { OnAsk::Escalate } else { OnAsk::Deny },
        }
    })
}

/// A root and its descendants, each after its parent.
fn trees() -> impl Strategy<Value = Vec<Authority>> {
    let children = vec((any::<Index>(), definitions(), grants()), 1..8);
    (run_layers(), definitions(), grants(), children).prop_map(|(layers, definition, grant, children)| {
        let mut agents = vec![Authority::root(&run(), layers, definition, grant)];
        for (number, (parent, definition, requested)) in (1..).zip(children) {
            let child = parent.get(&agents).child(number, definition, &requested);
            agents.push(child);
        }
        agents
    })
}

fn approval_lists() -> impl Strategy<Value = Approvals> {
    vec(patterns(), 0..3).prop_map(|patterns| patterns.into_iter().collect())
}

fn reread(agent: &Authority) -> Authority {
    let text = serde_json::to_string(agent).expect("json");
    serde_json::from_str(&text).expect("what was written is read")
}

/// Asserts that no part of `child` is wider than `parent`.
fn assert_within(child: &Grant, parent: &Grant) {
    assert!(child.allowed_tools.is_within(&parent.allowed_tools));
    assert!(child.can_spawn_children <= parent.can_spawn_children);
    assert!(child.may_share_history <= parent.may_share_history);
    assert!(child.max_delegation_depth <= parent.max_delegation_depth.saturating_sub(1));
    assert!(child.on_ask == OnAsk::Deny || parent.on_ask == OnAsk::Escalate);
}

/// Checks every operation for one agent. Returns how many were checked.
fn check_agent(agent: &Authority, approvals: &Approvals) -> usize {
    let reread = reread(agent);
    assert_eq!(reread, *agent);
    if let Some(parent) = agent.parent() {
        assert_within(agent.grant(), parent.grant());
        assert_eq!(
            Grant::meet(parent.grant(), agent.grant()),
            *agent.grant(),
            "the meet changes nothing twice"
        );
    }
    for text in OPERATIONS {
        let operation = Operation::parse(text);
        let verdict = agent.decide(approvals, &operation);
        if let Some(parent) = agent.parent() {
            let above = parent.decide(approvals, &operation);
            assert!(verdict.decision <= above.decision, "{} {text}: {verdict}, but {above}", agent.agent());
        }
        assert_eq!(reread.decide(approvals, &operation), verdict, "{text} after a round trip");
    }
    OPERATIONS.len()
}

/// How many trees of agents are tried, and how many decisions they have at least.
const TREES: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 1_200 } else { 300 };
const SAMPLES_MIN: usize = TREES as usize * 83;

#[test]
fn a_child_never_gets_what_its_parent_lacks_in_random_trees() {
    let samples = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: TREES, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&(trees(), approval_lists()), |(agents, approvals)| {
        let seen: usize = agents.iter().map(|agent| check_agent(agent, &approvals)).sum();
        samples.set(samples.get() + seen);
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(samples.get() >= SAMPLES_MIN, "{}", samples.get());
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn explain_gives_the_outcome_of_decide(agents in trees(), approvals in approval_lists()) {
        for agent in &agents {
            for operation in OPERATIONS.map(Operation::parse) {
                let explanation = agent.explain(&approvals, &operation);
                prop_assert_eq!(&explanation.verdict, &agent.decide(&approvals, &operation));
                let layers = agent.layers();
                prop_assert_eq!(explanation.layers.len(), layers.len());
                let explained = explain(&layers, &approvals, &operation).verdict;
                prop_assert_eq!(explained, decide(&layers, &approvals, &operation));
            }
        }
    }

    #[test]
    fn what_tools_ask_of_paths_has_the_outcome_of_the_layers(agents in trees(), approvals in approval_lists()) {
        for agent in &agents {
            let rules = agent.path_rules(&approvals, None);
            for operation in OPERATIONS.map(Operation::parse) {
                let Some(path) = operation.specifier().filter(|_| PATH_TOOLS.contains(&operation.tool())) else {
                    continue;
                };
                let verdict = decide(&agent.layers(), &approvals, &operation);
                let refusal = rules.refusal(operation.tool(), path);
                if operation.doubt().is_none() || !rules.allow_everything() {
                    let expected = Some(verdict).filter(|verdict| verdict.decision != Decision::Allow);
                    prop_assert_eq!(refusal, expected, "{}", operation);
                }
            }
        }
    }

    #[test]
    fn approvals_never_lift_a_deny(agents in trees(), approvals in approval_lists()) {
        for agent in &agents {
            for operation in OPERATIONS.map(Operation::parse) {
                let before = agent.decide(&Approvals::none(), &operation);
                let after = agent.decide(&approvals, &operation);
                if before.decision == Decision::Deny {
                    prop_assert_eq!(after.decision, Decision::Deny);
                }
                prop_assert!(after.decision >= before.decision);
                if after.decision > before.decision {
                    prop_assert!(approvals.find(&operation).is_some());
                }
            }
        }
    }

    #[test]
    fn an_answer_settles_every_ask_and_never_lifts_a_deny(agents in trees(), approvals in approval_lists()) {
        for agent in &agents {
            for operation in OPERATIONS.map(Operation::parse) {
                let before = agent.decide(&approvals, &operation);
                let after = before.clone().consented();
                let expected = if before.decision == Decision::Ask { Decision::Allow } else { before.decision };
                prop_assert_eq!(after.decision, expected);
                prop_assert_eq!(after.by(), before.by());
                // Layers that deny decide first: an approval never lifts a deny.
                let denied = agent.layers().iter().any(|layer| {
                    layer.decide(&approvals, &operation).is_some_and(|say| say.decision == Decision::Deny)
                });
                prop_assert!(!denied || after.decision == Decision::Deny);
            }
        }
    }

    #[test]
    fn always_allows_the_operation_it_names_and_widens_no_other(
        agents in trees(), approvals in approval_lists(), of in select(&OPERATIONS[..]),
    ) {
        for agent in &agents {
            let operation = Operation::parse(of);
            let before = agent.decide(&approvals, &operation);
            let Some(literal) = agent.literal_that_lifts(&approvals, &operation) else {
                prop_assert_ne!(before.decision, Decision::Allow);
                continue;
            };
            prop_assert_ne!(before.decision, Decision::Deny);
            let more = approvals.with(literal);
            prop_assert_eq!(agent.decide(&more, &operation).decision, Decision::Allow);
            for other in OPERATIONS.map(Operation::parse) {
                if other != operation {
                    prop_assert_eq!(agent.decide(&more, &other), agent.decide(&approvals, &other));
                }
            }
        }
    }

    #[test]
    fn no_layer_but_a_definition_is_lifted(agents in trees(), approvals in approval_lists()) {
        for layer in agents.iter().flat_map(Authority::layers) {
            let lifts = layer.default.is_some();
            for operation in OPERATIONS.map(Operation::parse) {
                let say = |given| layer.decide(given, &operation).map(|say| say.decision);
                let (before, after) = (say(&Approvals::none()), say(&approvals));
                prop_assert!(before == after || (lifts && before == Some(Decision::Ask)));
            }
        }
    }

    #[test]
    fn a_verdict_names_a_layer_that_says_it(agents in trees()) {
        for agent in &agents {
            for operation in OPERATIONS.map(Operation::parse) {
                let verdict = agent.decide(&Approvals::none(), &operation);
                let layers = agent.layers();
                // A project has a layer for each of its files.
                let said_by = |name: &LayerName| {
                    let named = layers.iter().filter(|layer| layer.name == *name);
                    let mut said = named.filter_map(|layer| layer.decide(&Approvals::none(), &operation));
                    said.any(|say| say.decision == verdict.decision)
                };
                prop_assert!(verdict.by().is_none_or(said_by));
            }
        }
    }
}

/// Texts with the special characters of patterns, and a few others.
fn texts(longest: usize) -> impl Strategy<Value = String> {
    let piece = select(vec!["a", "b", "/", "*", "**", "\\", "\\*", "\\\\", ".", ":", "ä", "\n"]);
    vec(piece, 0..longest).prop_map(|pieces| pieces.concat())
}

fn tool_names() -> impl Strategy<Value = &'static str> {
    select(vec!["bash", "read", "webfetch", "write"])
}

/// A naive reference matcher. `before` is the pattern up to here, which decides the meaning of a `**`.
fn naive(path: bool, before: &str, pattern: &str, text: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return text.is_empty() };
    let on = |consumed: usize, rest: &str| {
        let (head, tail) = pattern.split_at(consumed);
        naive(path, &format!("{before}{head}"), tail, rest)
    };
    let tails = || text.char_indices().map(|(at, _)| at).chain([text.len()]);
    if first == '\\' {
        let literal = pattern[1..].chars().next().expect("no lone backslash");
        return text.strip_prefix(literal).is_some_and(|rest| on(1 + literal.len_utf8(), rest));
    }
    if path
        && !before.is_empty()
        && first == '/'
        && pattern[1..].len() >= 2
        && pattern[1..].bytes().all(|b| b == b'*')
    {
        return text.is_empty() || text.starts_with('/');
    }
    let stars = pattern.bytes().take_while(|&b| b == b'*').count();
    let starts_name = before.is_empty() || before.ends_with('/');
    match stars {
        0 => text.strip_prefix(first).is_some_and(|rest| on(first.len_utf8(), rest)),
        1 if path => tails().any(|at| !text[..at].contains('/') && on(1, &text[at..])),
        _ if path && starts_name && pattern[stars..].starts_with('/') => {
            on(stars + 1, text) || text.match_indices('/').any(|(at, _)| on(stars + 1, &text[at + 1..]))
        }
        _ => tails().any(|at| on(stars, &text[at..])),
    }
}

proptest! {
    #![proptest_config(Config { cases: 4000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_matcher_agrees_with_a_naive_one(
        tool in tool_names(), specifier in texts(8), texts in vec(texts(8), 8),
    ) {
        let Ok(pattern) = format!("{tool}:{specifier}").parse::<Pattern>() else { return Ok(()) };
        let plain = &pattern.as_str()[tool.len() + 1..];
        let path = PATH_TOOLS.contains(&tool);
        for text in &texts {
            let operation = Operation::new(tool, Some(text));
            let text = operation.specifier().unwrap_or_default();
            let expected = if plain == "\\" { text.is_empty() } else { naive(path, "", plain, text) };
            prop_assert_eq!(pattern.matches(&operation), expected, "{} on {:?}", pattern, text);
        }
    }

    #[test]
    fn a_literal_survives_its_text_and_matches_only_itself(
        tool in tool_names(), text in any::<String>(), close in texts(8), others in vec(texts(8), 4),
    ) {
        for text in [&text, &close] {
            let operation = Operation::new(tool, Some(text));
            if operation.doubt().is_some() {
                prop_assert!(Pattern::literal(&operation).is_err());
                continue;
            }
            let literal = Pattern::literal(&operation).expect("a literal of a decidable operation");
            prop_assert!(literal.matches(&operation));
            let json = serde_json::to_string(&literal).expect("json");
            let again: Pattern = serde_json::from_str(&json).expect("a literal is a pattern");
            prop_assert_eq!(&again, &literal);
            for other in &others {
                let other = Operation::new(tool, Some(other));
                prop_assert_eq!(again.matches(&other), other == operation, "{} on {}", again, other);
            }
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic_or_change_its_mind(text in any::<String>(), close in texts(12)) {
        for text in [text, format!("read:{close}"), format!("bash:{close}"), close] {
            if let Ok(pattern) = text.parse::<Pattern>() {
                let again: Pattern = pattern.as_str().parse().expect("a pattern's text is a pattern");
                prop_assert_eq!(again, pattern);
            }
        }
    }
}
