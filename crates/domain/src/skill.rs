//! A skill, as data: instructions that an agent takes in, or that make an agent of their own. Reading skill files into
//! this type is the agent crate's work.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::permission::{Decision, Operation, Pattern, Rule};

/// Longest name of a skill.
pub const SKILL_NAME_MAX: usize = 64;
/// The definition of a sub-agent whose skill names none.
pub const DEFAULT_SKILL_AGENT: &str = "general";
/// Longest description of a skill or a definition that models are told; the rest is cut.
pub const DESCRIPTION_MAX_CHARS: usize = 1_024;

/// What a skill is, and how it is carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Skill {
    /// Its name, `[a-z0-9_-]`.
    pub name: String,
    /// When to use it, as a model reads it.
    pub description: String,
    /// What it says.
    pub instructions: Arc<str>,
    /// Whether it makes a sub-agent instead of entering the conversation that asks for it.
    pub fork: bool,
    /// The definition of that sub-agent; none is `general`.
    pub agent: Option<String>,
    /// The tools of that sub-agent; none means its definition's.
    pub tools: Option<Vec<String>>,
    /// Rules that narrow those tools: part of the sub-agent's contract, beside what its definition says.
    pub rules: Vec<Rule>,
    /// The skills that its agent may delegate to; none means every skill that its grant allows.
    pub sub_agents: Option<Vec<String>>,
    /// The model of that sub-agent; none is the definition's, or the parent's.
    pub model: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Its own turn limit, meant for the first level; takes the place of the definition's.
    pub max_iterations: Option<u32>,
    /// Deepest depth of the tree; below the root it only lowers.
    pub max_depth: Option<u32>,
    /// How often in a row the same call may fail.
    pub max_retries_per_tool: Option<u32>,
    /// Limit of one turn.
    pub turn_timeout_ms: Option<u64>,
    /// Whether who follows the parent's task hears the sub-agent's events too.
    pub include_sub_agent_events: bool,
    /// Whether models are told of it and may ask for it.
    pub for_models: bool,
    /// Whether people may ask for it by `/name`.
    pub for_people: bool,
    /// What to write after its name, for people.
    pub argument_hint: Option<String>,
    /// Whether its sub-agent works in the background.
    pub background: bool,
    /// What holds for the tools of its sub-agent where no rule matches: ask if nobody trusted its content.
    pub default: Decision,
    /// The directory with its files; none if it is one file, or if that directory is on somebody else's machine.
    pub dir: Option<String>,
    /// The project that those files are part of: what its git ignores is not read. None if they are the person's own, or
    /// in a folder that git ignores and the person trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Where commands see that directory; none if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_dir: Option<String>,
}

impl Skill {
    /// What a sub-agent of this skill is: a definition like `base`, with what the skill says in its place. The prompt is
    /// built from the skill alone, and from its definition's where the skill names one.
    pub fn definition(&self, base: &Definition) -> Definition {
        let tools = self.tools_of(base);
        let runs = tools.iter().any(|tool| tool == BASH);
        let instructions = format!(
            "You carry out the skill `{}`. Do it on your own from start to finish, and report what came of it.\n\n\
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
        // One that names its tools and not `task` among them does without what comes with the right to spawn.
        let spawns = self.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == "task"));
        Definition {
            prompt: prompt.into(),
            tools,
            spawns: base.spawns.clone().filter(|_| spawns),
            max_turns: self.max_iterations.or(base.max_turns),
            model: self.model.clone().or_else(|| base.model.clone()),
            temperature: self.temperature.or(base.temperature),
            default: self.default.min(base.default),
            background: self.background,
            ..base.clone()
        }
    }

    /// Whether a person decides who takes it in: nobody trusts it. A forked one asks with each of its calls instead.
    pub fn is_asked_for(&self) -> bool {
        !self.fork && self.default == Decision::Ask
    }

    /// Where `read` finds its files.
    pub fn place(&self) -> String {
        format!("{SKILL_FILES}{}", self.name)
    }

    /// The tools that it names, or else its definition's. Who names skills to delegate to can delegate.
    fn tools_of(&self, base: &Definition) -> Vec<String> {
        let mut tools = self.tools.clone().unwrap_or_else(|| base.tools.clone());
        let delegates = self.sub_agents.as_ref().is_some_and(|names| !names.is_empty());
        if delegates && !tools.iter().any(|tool| tool == DELEGATE_TO_AGENT) {
            tools.push(DELEGATE_TO_AGENT.to_owned());
        }
        tools
    }

    /// All sub-agents of a skill are told the same, so what a text leaves open for its arguments is explained instead
    /// of filled in.
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

    /// Where its files are: for whoever `runs` commands, or else for `read`.
    pub fn directory(&self, runs: bool) -> String {
        self.shown_dir.clone().filter(|_| runs).unwrap_or_else(|| self.place())
    }

    /// The variable in which commands find the directory of a skill that is outside the workspace. No path of the machine
    /// is part of what a model reads.
    pub fn variable(name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("POSSE_SKILL_{}", name.chars().map(plain).collect::<String>())
    }

    /// What an agent is told of its files; empty if it has none. In a recorded run that came from somebody else the same is
    /// told though there is nothing to open, so that its requests are the recorded ones.
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

/// What the sub-agent of a skill is called: the first line of its work, so that several of one skill can be told apart.
pub fn title_of(skill: &str, work: &str) -> String {
    let line = work.lines().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| format!("skill {skill}"), |line| line.chars().take(TITLE_MAX_CHARS).collect())
}

/// Most characters of such a title.
const TITLE_MAX_CHARS: usize = 120;
/// The tool that runs commands.
const BASH: &str = "bash";
/// What stands in a skill's text for its directory, as another program calls it.
pub const SKILL_DIRECTORY: &str = "${CLAUDE_SKILL_DIR}";
/// The tool that hands work to a skill's sub-agent.
pub const DELEGATE_TO_AGENT: &str = "delegate_to_agent";

/// What stands in a skill's text for what it is called with.
pub const ARGUMENTS: &str = "$ARGUMENTS";

/// What the path of a skill's file begins with; the skill's name follows.
pub const SKILL_FILES: &str = "skill://";

/// The tool that takes a skill in.
pub const SKILL_TOOL: &str = "skill";
/// Most skills that nobody trusts and that are asked about by name. Whoever makes a catalogue leaves further ones out:
/// if there are more, every skill is asked about.
pub const UNTRUSTED_MAX: usize = 256;
/// Most definitions out of reach that a run remembers: they only make a refusal clearer.
pub const OUT_OF_REACH_MAX: usize = 256;
/// What a definition or a skill comes to beside its text, about.
const ENTRY_BYTES: usize = 1024;

/// Everything that was found beyond the built-in definitions, as it was when a run started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoveredDefinitions {
    /// What definitions with a shell ask about before their own rules count; said once, because there are hundreds of
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Rule>,
    /// The definitions.
    pub definitions: Vec<Definition>,
    /// The skills.
    pub skills: Vec<Skill>,
    /// The names of definitions that were found and that no agent of the run can be, [`OUT_OF_REACH_MAX`] at most: whoever
    /// asks for one is told that it exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_of_reach: Vec<String>,
}

impl DiscoveredDefinitions {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty() && self.skills.is_empty() && self.out_of_reach.is_empty()
    }

    /// What every agent of the run asks about after all its rules: an inline skill that nobody trusts is only taken in by
    /// whom a person lets.
    pub fn unasked(&self) -> Vec<Rule> {
        let untrusted = self.skills.iter().filter(|skill| skill.is_asked_for());
        let names: Vec<&str> = untrusted.map(|skill| skill.name.as_str()).collect();
        let patterns: Vec<Pattern> = if names.len() > UNTRUSTED_MAX {
            SKILL_TOOL.parse().into_iter().collect()
        } else {
            let literal = |name| Pattern::literal(&Operation::new(SKILL_TOOL, Some(name))).ok();
            names.into_iter().filter_map(literal).collect()
        };
        patterns.into_iter().map(|pattern| Rule { pattern, decision: Decision::Ask }).collect()
    }

    /// As a journal keeps it.
    pub fn to_json(&self) -> String {
        let prompts = self.definitions.iter().map(|definition| definition.prompt.len());
        let texts = prompts.chain(self.skills.iter().map(|skill| skill.instructions.len()));
        let mut json = Vec::with_capacity(texts.map(|text| text + ENTRY_BYTES).sum());
        // Plain data with text keys: it always has a JSON form, which is text.
        let written = serde_json::to_writer(&mut json, self);
        written.ok().and_then(|()| String::from_utf8(json).ok()).unwrap_or_default()
    }
}
