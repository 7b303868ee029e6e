//! The `permission` of opencode: a decision for each tool, or for what it is used on, the last match first.

use posse_domain::permission::{Decision, Rule};

use super::fields::Field;
use super::names::reference;
use super::notes::{Notes, quoted};
use super::reading::{Reading, Role};
use super::specifier::{Stars, patterns};
use super::tool_list::{EVERY, ToolList, all_of, resolve};
use crate::yaml::{Key, Node, Value};

/// What is decided for one tool.
struct Decided {
    tool: String,
    /// For what no pattern matches.
    otherwise: Decision,
    rules: Vec<Rule>,
}

impl Decided {
    /// Decides for all uses of it; what was decided before for some is overruled.
    fn decide(&mut self, decision: Decision) {
        self.otherwise = decision;
        self.rules.clear();
    }
}

fn decide_all(all: &mut [Decided], decision: Decision) {
    for one in all {
        one.decide(decision);
    }
}

/// Applies what `permission` says to a list: what is denied as a whole is not listed any more.
pub(super) fn apply(field: &Field, list: &mut ToolList, reading: &Reading<'_>, notes: &mut Notes<'_>) {
    let plain = |tool: &String| Decided { tool: tool.clone(), otherwise: Decision::Allow, rules: Vec::new() };
    let mut all: Vec<Decided> = list.tools.iter().map(plain).collect();
    if let Value::Map(entries) = &field.node.value {
        for (key, node) in entries {
            entry(key, node, &mut all, list, reading, notes);
        }
    } else {
        let whole = Key { line: field.line, name: field.key.clone() };
        decide_all(&mut all, understood(&whole, &field.node, notes));
    }
    list.tools.clear();
    for Decided { tool, otherwise, rules } in all {
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
    all: &mut [Decided],
    list: &mut ToolList,
    reading: &Reading<'_>,
    notes: &mut Notes<'_>,
) {
    if key.name == EVERY {
        decide_all(all, understood(key, node, notes));
        return;
    }
    if key.name.eq_ignore_ascii_case("task") {
        spawning(node, list, notes);
        return;
    }
    if key.name.contains('*') {
        // `server_*`: tools of MCP servers, of which none is here.
        return;
    }
    let Some(tool) = resolve(&key.name, key.line, reading, notes) else { return };
    // There, `edit` is every way of changing a file.
    let tools: &[&str] = if tool == "edit" { &["edit", "write"] } else { &[tool] };
    for one in all.iter_mut().filter(|one| tools.contains(&one.tool.as_str())) {
        match &node.value {
            Value::Map(entries) => uses(entries, one, notes),
            _ => one.decide(understood(key, node, notes)),
        }
    }
}

/// What is decided for the uses of one tool.
fn uses(entries: &[(Key, Node)], one: &mut Decided, notes: &mut Notes<'_>) {
    for (key, node) in entries {
        let decision = understood(key, node, notes);
        // `?` is any one character there and a question mark here: taken as more where that narrows.
        let specifier =
            if decision == Decision::Allow { key.name.clone() } else { key.name.replace('?', "*") };
        match patterns(&one.tool, &specifier, Stars::Anything) {
            Ok(None) => one.decide(decision),
            Ok(Some(patterns)) => {
                one.rules.extend(patterns.into_iter().map(|pattern| Rule { pattern, decision }));
            }
            Err(error) => notes.problem(key.line, error.to_string(), "the entry is left out"),
        }
    }
}

/// What may be spawned.
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
            list.rules.extend(all_of("task", decision));
        }
        if decision != Decision::Deny {
            notes.mention(Role::Spawns, &name, key.line);
            list.spawns.push(name);
        }
    }
}

/// What is decided; what is not understood is denied, as a slip must not widen anything.
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
