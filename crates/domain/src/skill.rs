//! A skill as data: instructions that an agent loads, or that a new sub-agent executes. The crate `definitions` parses
//! skill files into this type, and `agent` renders its text for models.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{Definition, Trust};
use crate::permission::{BASH, Decision, Operation, Pattern, Rule};
use crate::plan::TITLE_MAX_CHARS;
use crate::text::clip;

pub const SKILL_NAME_MAX: usize = 64;
/// The definition of a forked sub-agent if the skill names none.
pub const DEFAULT_SKILL_AGENT: &str = "general";
/// Maximum length of a skill's or definition's description in a prompt. The rest is cut.
pub const DESCRIPTION_MAX_CHARS: usize = 1_024;

/// A skill and how it is used: an agent loads it, or a sub-agent executes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Skill {
    /// The name, `[a-z0-9_-]`.
    pub name: String,
    /// When to use it, as a model reads it.
    pub description: String,
    /// The instructions as written in the file.
    pub instructions: Arc<str>,
    /// Whether a new sub-agent executes it, instead of the agent that requests it.
    pub fork: bool,
    /// The definition of that sub-agent. None means `general`.
    pub agent: Option<String>,
    /// The tools of that sub-agent. None means those of its definition.
    pub tools: Option<Vec<String>>,
    /// Rules that narrow those tools: part of the sub-agent's contract, beside the rules of its definition.
    pub rules: Vec<Rule>,
    /// The skills that its agent may delegate to. None means every skill that its grant allows.
    pub sub_agents: Option<Vec<String>>,
    /// The model of that sub-agent. None means the definition's, or the parent's.
    pub model: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The turn limit of its sub-agent at the first level. It replaces the definition's.
    pub max_iterations: Option<u32>,
    /// Maximum depth of the tree. Below the root it can only lower the limit.
    pub max_depth: Option<u32>,
    /// How often in a row the same call may fail.
    pub max_retries_per_tool: Option<u32>,
    /// Limit of one turn.
    pub turn_timeout_ms: Option<u64>,
    /// Whether a subscriber of the parent's task receives the sub-agent's events too.
    pub include_sub_agent_events: bool,
    /// Whether models see it in their prompts and may ask for it.
    pub for_models: bool,
    /// Whether users may ask for it by `/name`.
    pub for_people: bool,
    /// A hint for users: the arguments after its name.
    pub argument_hint: Option<String>,
    /// Whether its sub-agent works in the background.
    pub background: bool,
    /// Decides calls of its sub-agent's tools that no rule matches.
    #[serde(rename = "default")]
    pub trust: Trust,
    /// The directory with its files. None if it is one file, or if the directory is on another machine.
    pub dir: Option<String>,
    /// The project that contains those files. Files that git ignores there are not read. None if they are the user's
    /// own, or in a folder that git ignores and the user trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The path of that directory for commands. None if they do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_dir: Option<String>,
}

impl Skill {
    /// The definition of a sub-agent that executes this skill: `base` with the skill's own values. The prompt comes
    /// from the skill alone, and also from the definition if the skill names one.
    pub fn definition(&self, base: &Definition) -> Definition {
        let tools = self.tools_of(base);
        let runs = tools.iter().any(|tool| tool == BASH);
        let instructions = format!(
            "You execute the skill `{}`. Do it on your own from start to finish, and report what came of it.\n\n\
             # Instructions of the skill\n\n{}{}{}",
            self.name,
            self.instructions.trim().replace(SKILL_DIRECTORY, &self.directory(runs)),
            self.about_arguments(),
            self.about_files(runs),
        );
        let prompt = match &self.agent {
            Some(_) => format!("{}\n\n{instructions}", base.prompt.trim()),
            None => instructions,
        };
        // A skill that lists tools without `task` gets no spawn rights.
        let spawns = self.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == TASK_TOOL));
        Definition {
            prompt: prompt.into(),
            tools,
            spawns: base.spawns.clone().filter(|_| spawns),
            max_turns: self.max_iterations.or(base.max_turns),
            model: self.model.clone().or_else(|| base.model.clone()),
            temperature: self.temperature.or(base.temperature),
            trust: self.trust.min(base.trust),
            background: self.background,
            ..base.clone()
        }
    }

    /// Whether an agent needs the user's consent to load the skill, because its content is not trusted. A forked skill
    /// asks with each of its calls instead.
    pub fn needs_consent(&self) -> bool {
        !self.fork && self.trust == Trust::Untrusted
    }

    /// The path under which `read` finds the skill's files.
    pub fn place(&self) -> String {
        format!("{SKILL_FILES}{}", self.name)
    }

    /// The tools of the skill, else of the definition. A skill that lists skills to delegate to gets the tool for it.
    fn tools_of(&self, base: &Definition) -> Vec<String> {
        let mut tools = self.tools.clone().unwrap_or_else(|| base.tools.clone());
        let delegates = self.sub_agents.as_ref().is_some_and(|names| !names.is_empty());
        if delegates && !tools.iter().any(|tool| tool == DELEGATE_TO_AGENT) {
            tools.push(DELEGATE_TO_AGENT.to_owned());
        }
        tools
    }

    /// Explains the placeholders for arguments instead of replacing them, because all sub-agents of a skill share one
    /// prompt.
    fn about_arguments(&self) -> String {
        let mut text = String::new();
        if self.instructions.contains(ARGUMENTS) {
            text.push_str("\n\n`$ARGUMENTS` above stands for the work that you are given.");
        }
        if self.instructions.contains("$1") || self.instructions.contains("$0") {
            text.push_str(
                "\n\nA `$` with a digit above stands for that word of the work that you are given.",
            );
        }
        text
    }

    /// The directory of the skill's files as an agent sees it: one that `runs` commands, or one that only uses `read`.
    pub fn directory(&self, runs: bool) -> String {
        self.shown_dir.clone().filter(|_| runs).unwrap_or_else(|| self.place())
    }

    /// The variable that gives commands the directory of a skill outside the workspace. A model never reads a path of
    /// the machine.
    pub fn variable(name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("POSSE_SKILL_{}", name.chars().map(plain).collect::<String>())
    }

    /// The part of a prompt about the skill's files. Empty if it has none. A replay on another machine has the same
    /// text although the files are missing, so that its requests match the recording.
    pub fn about_files(&self, runs: bool) -> String {
        if self.dir.is_none() && self.shown_dir.is_none() {
            return String::new();
        }
        let read = format!(
            "Files that these instructions speak of are read with `read`, as `{}/PATH`",
            self.place()
        );
        match self.shown_dir.as_ref().filter(|_| runs) {
            Some(shown) => {
                format!("\n\n{read}; commands find them in `{shown}`, whatever directory they run in.")
            }
            None => format!("\n\n{read}."),
        }
    }
}

/// The title of a skill's sub-agent: the first line of its work, so that several sub-agents of one skill differ.
pub fn title_of(skill: &str, work: &str) -> String {
    let line = work.lines().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| format!("skill {skill}"), |line| clip(line, TITLE_MAX_CHARS))
}

/// The placeholder for the skill's directory. Another program defined its name.
pub const SKILL_DIRECTORY: &str = "${CLAUDE_SKILL_DIR}";
/// The tool that delegates work to a skill's sub-agent.
pub const DELEGATE_TO_AGENT: &str = "delegate_to_agent";

/// The placeholder for the arguments of the skill's call.
pub const ARGUMENTS: &str = "$ARGUMENTS";

/// The prefix of the path of a skill's file. The skill's name follows.
pub const SKILL_FILES: &str = "skill://";

/// The tool that only starts children.
pub const TASK_TOOL: &str = "task";

/// The tool that loads or forks a skill.
pub const SKILL_TOOL: &str = "skill";
/// Maximum number of untrusted skills that rules ask about by name. Discovery omits the others: if there are more,
/// rules ask about every skill.
pub const UNTRUSTED_MAX: usize = 256;
/// Maximum number of unreachable definitions that a run remembers. They only make a refusal clearer.
pub const OUT_OF_REACH_MAX: usize = 256;
/// Approximate size of a definition or skill without its text.
const ENTRY_BYTES: usize = 1024;

/// The definitions and skills that discovery found beyond the built-in ones when a run started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoveredDefinitions {
    /// Rules that ask, which precede the rules of each definition with a shell. Stored once, because there are hundreds
    /// of definitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Rule>,
    pub definitions: Vec<Definition>,
    pub skills: Vec<Skill>,
    /// Names of discovered definitions that no agent of the run can use, [`OUT_OF_REACH_MAX`] at most. A refusal can
    /// then state that the definition exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_of_reach: Vec<String>,
}

impl DiscoveredDefinitions {
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty() && self.skills.is_empty() && self.out_of_reach.is_empty()
    }

    /// The rules, after all others of every agent, that ask about each [load that needs consent](Skill::needs_consent).
    pub fn consent_rules(&self) -> Vec<Rule> {
        let untrusted = self.skills.iter().filter(|skill| skill.needs_consent());
        let names: Vec<&str> = untrusted.map(|skill| skill.name.as_str()).collect();
        let patterns: Vec<Pattern> = if names.len() > UNTRUSTED_MAX {
            SKILL_TOOL.parse().into_iter().collect()
        } else {
            let literal = |name| Pattern::literal(&Operation::new(SKILL_TOOL, Some(name))).ok();
            names.into_iter().filter_map(literal).collect()
        };
        patterns.into_iter().map(|pattern| Rule { pattern, decision: Decision::Ask }).collect()
    }

    /// The JSON that the journal stores.
    pub fn to_json(&self) -> String {
        let prompts = self.definitions.iter().map(|definition| definition.prompt.len());
        let texts = prompts.chain(self.skills.iter().map(|skill| skill.instructions.len()));
        let mut json = Vec::with_capacity(texts.map(|text| text + ENTRY_BYTES).sum());
        // Cannot fail: the data has only string keys.
        let written = serde_json::to_writer(&mut json, self);
        written.ok().and_then(|()| String::from_utf8(json).ok()).unwrap_or_default()
    }
}
