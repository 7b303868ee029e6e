//! The built-in definitions.

use posse_domain::definition::{Definition, Mode, Trust};
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, DELEGATE_TOOLS, SKILL_TOOL};

use super::default_rules::default_rules;

/// Tools that only read files.
pub(super) const LOOK: [&str; 4] = ["read", "glob", "grep", "list"];
const CHANGE: [&str; 2] = ["write", "edit"];
const RUN: [&str; 1] = ["bash"];
const WEB: [&str; 2] = ["webfetch", "websearch"];
/// Tools for skills. An agent of a run without skills has none of them.
const SKILLS: [&str; 2] = [SKILL_TOOL, DELEGATE_TO_AGENT];

/// The built-in definitions: four for children, which may not spawn, and the primary `coder`, which may spawn each of
/// them. Tools that do not exist yet are not listed, and no prompt mentions them.
pub fn builtin() -> Vec<Definition> {
    let children = [general(), explore(), planner(), researcher()];
    let coder = coder(children.iter().map(|child| child.name.clone()).collect());
    children.into_iter().chain([coder]).collect()
}

fn general() -> Definition {
    Definition {
        name: "general".into(),
        display_name: "General Agent".into(),
        description:
            "Does a piece of work from start to finish: finds, changes and checks files. Use it for \
                      well-described work that stands on its own."
                .into(),
        prompt: include_str!("prompts/general.md").into(),
        tools: tools(&[&LOOK, &CHANGE, &RUN]),
        rules: default_rules().to_vec(),
        max_turns: Some(20),
        ..plain()
    }
}

fn explore() -> Definition {
    Definition {
        name: "explore".into(),
        display_name: "Codebase Explorer".into(),
        description:
            "Finds things out about a codebase and reports them with paths and lines; changes nothing. \
                      Use it for questions that need much reading, several at once for separate questions."
                .into(),
        prompt: include_str!("prompts/explore.md").into(),
        tools: tools(&[&LOOK]),
        max_turns: Some(15),
        ..plain()
    }
}

fn planner() -> Definition {
    Definition {
        name: "planner".into(),
        display_name: "Task Planner".into(),
        description:
            "Writes an implementation plan with steps, files and checks; implements nothing. Use it \
                      before work that spans many files or has several ways to do it."
                .into(),
        prompt: include_str!("prompts/planner.md").into(),
        tools: tools(&[&LOOK, &["todo"]]),
        max_turns: Some(10),
        ..plain()
    }
}

fn researcher() -> Definition {
    Definition {
        name: "researcher".into(),
        display_name: "Research Agent".into(),
        description:
            "Answers a question from the web and from documents in the workspace, with sources, and says \
                      how sure it is; changes nothing. Use it for what the codebase cannot tell."
                .into(),
        prompt: include_str!("prompts/researcher.md").into(),
        tools: tools(&[&["read"], &WEB]),
        max_turns: Some(10),
        ..plain()
    }
}

fn coder(spawns: Vec<String>) -> Definition {
    Definition {
        name: "coder".into(),
        display_name: "Coder".into(),
        description: "Takes a request about a codebase to its end, and gives parts of it to sub-agents."
            .into(),
        prompt: include_str!("prompts/coder.md").into(),
        tools: coder_tools(),
        rules: default_rules().to_vec(),
        spawns: Some(spawns),
        mode: Mode::Primary,
        ..plain()
    }
}

/// The tools of `coder`: the most that an untrusted definition gets.
pub(super) fn coder_tools() -> Vec<String> {
    tools(&[&LOOK, &CHANGE, &RUN, &WEB, &["todo"], &SKILLS, &DELEGATE_TOOLS])
}

/// The base of a definition: it may use the tools it lists, and may not spawn.
pub(super) fn plain() -> Definition {
    Definition {
        name: String::new(),
        display_name: String::new(),
        description: String::new(),
        prompt: "".into(),
        tools: Vec::new(),
        spawns: None,
        max_turns: None,
        model: None,
        temperature: None,
        top_p: None,
        mode: Mode::All,
        trust: Trust::Trusted,
        rules: Vec::new(),
        parallel: None,
        skills: None,
        background: false,
        may_share_history: false,
    }
}

/// The tools of several groups, in order.
pub(super) fn tools(groups: &[&[&str]]) -> Vec<String> {
    groups.iter().flat_map(|group| group.iter().map(ToString::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Definition {
        builtin().into_iter().find(|definition| definition.name == name).expect(name)
    }

    #[test]
    fn the_built_ins_are_what_the_documentation_says() {
        let table = [
            ("general", "General Agent", "read glob grep list write edit bash", Some(20)),
            ("explore", "Codebase Explorer", "read glob grep list", Some(15)),
            ("planner", "Task Planner", "read glob grep list todo", Some(10)),
            ("researcher", "Research Agent", "read webfetch websearch", Some(10)),
            (
                "coder",
                "Coder",
                "read glob grep list write edit bash webfetch websearch todo skill delegate_to_agent task task_status task_send task_cancel task_close",
                None,
            ),
        ];
        assert_eq!(builtin().len(), table.len());
        for (name, display_name, tools, max_turns) in table {
            let definition = named(name);
            assert_eq!(definition.display_name, display_name);
            assert_eq!(definition.tools.join(" "), tools, "{name}");
            assert_eq!(definition.max_turns, max_turns, "{name}");
            assert_eq!(definition.trust, Trust::Trusted);
        }
    }

    #[test]
    fn only_the_coder_may_spawn_and_it_is_never_a_child() {
        for definition in builtin() {
            let is_coder = definition.name == "coder";
            assert_eq!(definition.spawns.is_some(), is_coder, "{}", definition.name);
            assert_eq!(definition.mode == Mode::Primary, is_coder, "{}", definition.name);
        }
        let spawns = named("coder").spawns.expect("spawns");
        assert_eq!(spawns, ["general", "explore", "planner", "researcher"]);
    }

    /// A prompt that mentions a tool its agent lacks makes models call it.
    #[test]
    fn prompts_speak_only_of_tools_that_are_listed() {
        for definition in builtin() {
            for tool in
                tools(&[&LOOK, &CHANGE, &DELEGATE_TOOLS, &["todo", "bash", "webfetch", "websearch", "skill"]])
            {
                let spoken_of = definition.prompt.contains(&format!("`{tool}`"));
                assert!(!spoken_of || definition.tools.contains(&tool), "{}: {tool}", definition.name);
            }
        }
    }
}
