//! Parses opencode's `permission`: a decision for each tool, or for each specifier, where the last match wins.

use posse_domain::lifecycle::TASK_TOOL;
use posse_domain::permission::{Decision, Rule};

use super::definitions::fits;
use super::fields::Field;
use super::names::reference;
use super::notes::{Notes, quoted};
use super::parse_options::{ParseOptions, Role};
use super::specifier::{Stars, patterns};
use super::tool_list::{EVERY, ToolList, all_of, resolve};
use crate::yaml::{Key, Node, Value};

/// The decisions for one tool.
struct ToolPermission {
    tool: String,
    /// The decision where no pattern matches.
    otherwise: Decision,
    rules: Vec<Rule>,
}

impl ToolPermission {
    /// Decides for all uses of the tool. Earlier decisions about some uses are discarded.
    fn decide(&mut self, decision: Decision) {
        self.otherwise = decision;
        self.rules.clear();
    }
}

fn decide_all(all: &mut [ToolPermission], decision: Decision) {
    for one in all {
        one.decide(decision);
    }
}

/// Applies `permission` to a list. A tool that is denied as a whole is removed from the list.
pub(super) fn apply(field: &Field, list: &mut ToolList, reading: &ParseOptions<'_>, notes: &mut Notes<'_>) {
    let plain =
        |tool: &String| ToolPermission { tool: tool.clone(), otherwise: Decision::Allow, rules: Vec::new() };
    let mut all: Vec<ToolPermission> = list.tools.iter().map(plain).collect();
    if let Value::Map(entries) = &field.node.value {
        for (key, node) in entries {
            entry(key, node, &mut all, list, reading, notes);
        }
    } else {
        let whole = Key { line: field.line, name: field.key.clone() };
        decide_all(&mut all, understood(&whole, &field.node, notes));
    }
    list.tools.clear();
    for ToolPermission { tool, otherwise, rules } in all {
        if otherwise == Decision::Deny && !rules.iter().any(|rule| rule.decision > Decision::Deny) {
            continue;
        }
        if otherwise != Decision::Allow {
            list.rules.extend(all_of(&tool, otherwise));
        }
        list.rules.extend(rules);
        list.tools.push(tool);
    }
}

fn entry(
    key: &Key,
    node: &Node,
    all: &mut [ToolPermission],
    list: &mut ToolList,
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) {
    if key.name == EVERY {
        decide_all(all, understood(key, node, notes));
        return;
    }
    if key.name.eq_ignore_ascii_case(TASK_TOOL) {
        spawning(node, list, notes);
        return;
    }
    let mut tools = if key.name.contains('*') {
        fitting(key, reading, notes)
    } else {
        resolve(&key.name, key.line, reading, notes).into_iter().collect()
    };
    // In opencode, `edit` means every way of changing a file.
    if tools.contains(&"edit") {
        tools.push("write");
    }
    if tools.contains(&TASK_TOOL) && !matches!(node.value, Value::Map(_)) {
        narrow_spawning(understood(key, node, notes), list);
    }
    for one in all.iter_mut().filter(|one| tools.contains(&one.tool.as_str())) {
        match &node.value {
            Value::Map(entries) => uses(entries, one, notes),
            _ => one.decide(understood(key, node, notes)),
        }
    }
}

/// The tools that match a pattern. `server_*` are tools of an MCP server, and no server is connected here.
fn fitting<'a>(key: &Key, reading: &ParseOptions<'a>, notes: &mut Notes<'_>) -> Vec<&'a str> {
    let pattern = key.name.to_ascii_lowercase();
    let tools: Vec<&str> = reading.known_tools.iter().copied().filter(|tool| fits(&pattern, tool)).collect();
    if tools.is_empty() {
        let problem = format!("permission: no tool has a name like {}; it is ignored", quoted(&key.name));
        notes.note(key.line, problem, "");
    }
    tools
}

/// A pattern that matches `task` among others does not allow new spawning.
fn narrow_spawning(decision: Decision, list: &mut ToolList) {
    match decision {
        Decision::Deny => list.spawns.clear(),
        Decision::Ask => list.rules.extend(all_of(TASK_TOOL, decision)),
        Decision::Allow => {}
    }
}

/// The decisions for the uses of one tool.
fn uses(entries: &[(Key, Node)], one: &mut ToolPermission, notes: &mut Notes<'_>) {
    for (key, node) in entries {
        let decision = understood(key, node, notes);
        // In opencode `?` is any character, here it is a question mark. Where it narrows, it becomes a star.
        let specifier =
            if decision == Decision::Allow { key.name.clone() } else { key.name.replace('?', "*") };
        match patterns(&one.tool, &specifier, Stars::Anything) {
            Ok(None) => one.decide(decision),
            Ok(Some(patterns)) => {
                one.rules.extend(patterns.into_iter().map(|pattern| Rule { pattern, decision }));
            }
            Err(error) => notes.problem(key.line, error.to_string(), "the entry is omitted"),
        }
    }
}

fn spawning(node: &Node, list: &mut ToolList, notes: &mut Notes<'_>) {
    let every = Key { line: node.line, name: EVERY.to_owned() };
    let entries: Vec<(&Key, &Node)> = match &node.value {
        Value::Map(entries) => entries.iter().map(|(key, node)| (key, node)).collect(),
        _ => vec![(&every, node)],
    };
    for (key, node) in entries {
        let decision = understood(key, node, notes);
        let name = reference(&key.name);
        list.spawns.retain(|spawned| *spawned != name && name != EVERY);
        if name != EVERY {
            list.rules.extend(all_of(&format!("task:{name}"), decision));
        } else if decision == Decision::Ask {
            list.rules.extend(all_of(TASK_TOOL, decision));
        }
        if decision != Decision::Deny {
            notes.mention(Role::Spawns, &name, key.line);
            list.spawns.push(name);
        }
    }
}

/// The decision. One that cannot be parsed denies, because a typo must not widen anything.
fn understood(key: &Key, node: &Node, notes: &mut Notes<'_>) -> Decision {
    decision(node).unwrap_or_else(|| {
        wrong(&key.name, key.line, notes);
        Decision::Deny
    })
}

fn decision(node: &Node) -> Option<Decision> {
    match &node.value {
        Value::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "allow" => Some(Decision::Allow),
            "ask" => Some(Decision::Ask),
            "deny" => Some(Decision::Deny),
            _ => None,
        },
        Value::Bool(true) => Some(Decision::Allow),
        Value::Bool(false) => Some(Decision::Deny),
        _ => None,
    }
}

fn wrong(key: &str, line: u64, notes: &mut Notes<'_>) {
    let problem = format!("permission: {}: expected allow, ask or deny", quoted(key));
    notes.problem(line, problem, "until then it is denied");
}

#[cfg(test)]
mod tests {
    use super::super::agent_markdown::tests::reading;
    use super::super::{ParsedFile, Severity, read_agent};
    use posse_domain::definition::Definition;

    fn load(front_matter: &str) -> ParsedFile<Definition> {
        let text = format!("---\ndescription: d\n{front_matter}\n---\nYou do it.");
        read_agent(text.as_bytes(), "stem", &reading("a.md"))
    }

    fn tools(front_matter: &str) -> Vec<String> {
        load(front_matter).value.expect("a definition").tools
    }

    #[test]
    fn a_pattern_decides_for_every_tool_that_fits() {
        assert_eq!(tools("tools: Read, Write, WebFetch\npermission: {'W*': deny}"), ["read"]);
        assert_eq!(tools("tools: Read, Write, Edit\npermission: {'edit*': deny}"), ["read"]);
        assert_eq!(
            tools("tools: {'w*': false, 'r*': true}\npermission: {'*b*': deny, 'e*': deny}"),
            ["read", "grep", "list", "todo", "skill"]
        );
        let asks = load("tools: Read, Bash\npermission: {'ba*': ask}").value.expect("a definition");
        assert_eq!(asks.rules.iter().map(ToString::to_string).collect::<Vec<_>>(), ["bash -> ask"]);
        assert_eq!(load("tools: Read, Task(x)\npermission: {'ta*': deny}").value.expect("one").spawns, None);
        assert_eq!(load("tools: Read\npermission: {'ta*': allow}").value.expect("one").spawns, None);
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_told() {
        let loaded = load("tools: Read\npermission: {'db_*': deny}");
        let told: Vec<_> = loaded.warnings.iter().map(|one| (one.level, one.to_string())).collect();
        let expected = "a.md:4: permission: no tool has a name like `db_*`; it is ignored";
        assert_eq!(told, [(Severity::Note, expected.to_owned())]);
    }
}
