//! Lists the files of a project that could run code or widen permissions, with their effects, for a user to read before
//! trusting them. They are in the directories that discovery searches.

use std::path::{Path, PathBuf};

use posse::api::{ProjectFileKind, TrustList, TrustedFile};
use posse::discovery::{self, Form, FoundFile};
use posse::{Decision, Definition, Rule};
use posse_definitions::{
    DEFINITION_MAX_BYTES, ParseOptions, ParsedFile, builtin_names, read_agent, read_skill, read_yaml_skill,
};
use posse_domain::definition;
use posse_domain::hash::Hash;
use posse_domain::skill::Skill;
use serde_json::Value;

use crate::Setup;
use crate::discovery::{DiscoveryResult, Origin};
use crate::error::SetupError;
use crate::project_dirs::{self, PROJECT_SERVERS};
use crate::settings::keys::{InProject, in_project};
use crate::settings::project::ProjectFile;
use crate::trust::{Trust, TrustState};
use crate::trust_scope;

/// One file with its effects.
#[derive(Debug)]
pub struct ShownFile {
    /// Its canonical path.
    pub path: PathBuf,
    /// Whether it is a settings, definition, skill or server file.
    pub kind: ProjectFileKind,
    /// The hash of the shown content.
    pub hash: Hash,
    /// Whether the user trusts it.
    pub standing: TrustState,
    /// Its effects, one line each. Not yet cleaned for a terminal.
    pub does: Vec<String>,
    /// Its commands that may run files that trust does not cover, each with the reason. Not yet cleaned for a terminal.
    pub undetermined: Vec<String>,
}

/// All such files of a project.
#[derive(Debug)]
pub struct ProjectFiles {
    /// The root of the project.
    pub root: PathBuf,
    /// The files, with their effects and trust.
    pub files: Vec<ShownFile>,
    /// Unreadable files with the reason. They are not used, so they need no trust.
    pub passed_over: Vec<String>,
}

impl ShownFile {
    fn entry(&self) -> TrustedFile {
        TrustedFile {
            path: self.path.clone(),
            kind: self.kind,
            trust: self.standing,
            hash: self.hash.to_string(),
            does: self.does.clone(),
            undetermined: self.undetermined.clone(),
        }
    }
}

impl ProjectFiles {
    /// The API type of the list.
    pub fn list(&self) -> TrustList {
        TrustList {
            root: self.root.clone(),
            files: self.files.iter().map(ShownFile::entry).collect(),
            passed_over: self.passed_over.clone(),
        }
    }

    /// Finds the files of the project that contains `dir`, a canonical path.
    pub fn find(dir: &Path, setup: &Setup) -> Result<Self, SetupError> {
        let dirs = project_dirs::project_dirs(dir, setup.environment.home.as_deref());
        let own = OwnNames::of(&DiscoveryResult::strictly(dir, setup)?);
        let Some(root) = dirs.last().cloned() else {
            return Err(SetupError::usage(format!(
                "{}: this is your home directory, not a project",
                dir.display()
            ))
            .hint("name the directory of a project"));
        };
        let trust = Trust::load(&setup.environment)?;
        let mut all = Self { root, files: Vec::new(), passed_over: Vec::new() };
        for dir in &dirs {
            all.add_settings(dir, &trust);
        }
        all.add_discovered(&dirs, &trust, &setup.tool_names(), &own);
        for dir in &dirs {
            all.add_servers(dir, &trust);
        }
        Ok(all)
    }

    fn add_settings(&mut self, dir: &Path, trust: &Trust) {
        if !ProjectFile::is_in(dir) {
            return;
        }
        let file = ProjectFile::read(dir, &self.root, trust);
        let does = match &file.settings {
            Ok(settings) => {
                let lines = settings.entries();
                let lines = lines.iter().filter_map(|entry| setting(&entry.key, &entry.value));
                lines.chain(file.further.clone()).collect()
            }
            Err(error) => vec![format!("cannot be used: {}", error.message())],
        };
        match file.hash {
            Some(hash) => self.files.push(ShownFile {
                path: file.path,
                kind: ProjectFileKind::Settings,
                hash,
                standing: file.standing,
                does,
                undetermined: file.undetermined,
            }),
            None => self.passed_over.push(format!("{}: {}", file.path.display(), does.concat())),
        }
    }

    fn add_discovered(&mut self, dirs: &[PathBuf], trust: &Trust, tools: &[&str], own: &OwnNames) {
        let found = discovery::discover(&project_dirs::project_places(dirs), DEFINITION_MAX_BYTES, |file| {
            let kind = if file.form == Form::Agent { ProjectFileKind::Agent } else { ProjectFileKind::Skill };
            let mut does = described(&file, tools, own);
            let covered = match (file.form, file.real.parent()) {
                (Form::SkillFolder, Some(folder)) => trust_scope::of_skill(&file.content, folder),
                _ => Ok(trust_scope::TrustScope { hash: Hash::of(&file.content), further: Vec::new() }),
            };
            let covered =
                covered.map_err(|why| format!("{}: it cannot be trusted: {why}", file.real.display()))?;
            does.extend(covered.line());
            let standing = trust.standing(&file.real, Some(covered.hash));
            Ok(ShownFile {
                kind,
                hash: covered.hash,
                standing,
                does,
                undetermined: Vec::new(),
                path: file.real,
            })
        });
        for file in found.found {
            match file {
                Ok(file) => self.files.push(file),
                Err(why) => self.passed_over.push(why),
            }
        }
        self.passed_over.extend(found.skipped.iter().map(ToString::to_string));
    }

    fn add_servers(&mut self, dir: &Path, trust: &Trust) {
        for name in PROJECT_SERVERS {
            let path = dir.join(name);
            match project_dirs::read(&path) {
                Ok(None) => {}
                Ok(Some(content)) => {
                    let path = path.canonicalize().unwrap_or(path);
                    let standing = trust.standing(&path, Some(Hash::of(&content)));
                    let (hash, does) = (Hash::of(&content), servers(&content));
                    let (kind, undetermined) = (ProjectFileKind::Servers, Vec::new());
                    self.files.push(ShownFile { path, kind, hash, standing, does, undetermined });
                }
                Err(problem) => self.passed_over.push(format!("{}: {problem}", path.display())),
            }
        }
    }
}

/// The effect of a key in a project's settings, if trust changes it.
fn setting(key: &str, value: &Value) -> Option<String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match (key, in_project(key)) {
        (_, InProject::Lowers) => None,
        (_, InProject::Never) => Some(format!("{key}: ignored, whether you trust it or not")),
        ("hooks", _) => Some(format!("{}: runs {}", text("moment"), text("command"))),
        ("workspace.setup", _) => Some(format!("{key}: runs {}", value.as_str().unwrap_or_default())),
        _ => Some(format!("{key}: {value}")),
    }
}

/// The names of the user's own definitions that a project's file would replace.
struct OwnNames {
    agents: Vec<String>,
    skills: Vec<String>,
}

impl OwnNames {
    fn of(found: &DiscoveryResult) -> Self {
        let is_own = |place: usize| found.origin(place) == Origin::User;
        let agents = found.agents.iter().filter(|entry| is_own(entry.place));
        let skills = found.skills.iter().filter(|entry| is_own(entry.place));
        Self {
            agents: agents.map(|entry| entry.value.name.clone()).collect(),
            skills: skills.map(|entry| entry.value.name.clone()).collect(),
        }
    }
}

/// Describes a definition or a skill, and what it would allow.
fn described(file: &FoundFile, tools: &[&str], own: &OwnNames) -> Vec<String> {
    let name = file.path.display().to_string();
    let reading =
        ParseOptions { file: &name, known_tools: tools, trust: definition::Trust::Trusted, model: None };
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    match file.form {
        Form::Agent => loaded(read_agent(&file.content, &stem, &reading), |agent| definition(&agent, own)),
        Form::YamlSkill => {
            loaded(read_yaml_skill(&file.content, &stem, &reading), |found| skill(&found, own))
        }
        Form::SkillFolder => {
            let folder = file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            loaded(read_skill(&file.content, &folder, None, &reading), |found| skill(&found, own))
        }
    }
}

fn loaded<T>(loaded: ParsedFile<T>, describe: impl FnOnce(T) -> Vec<String>) -> Vec<String> {
    let why = || loaded.warnings.first().map(|warning| warning.problem.clone()).unwrap_or_default();
    match loaded.value {
        Some(value) => describe(value),
        None => vec![format!("cannot be used: {}", why())],
    }
}

fn definition(agent: &Definition, own: &OwnNames) -> Vec<String> {
    let spawns = match &agent.spawns {
        Some(names) if !names.is_empty() => format!("; spawns {}", names.join(", ")),
        _ => String::new(),
    };
    let model = agent.model.as_ref().map(|model| format!("; model {model}")).unwrap_or_default();
    let mut lines = vec![format!("definition `{}`: uses {}{spawns}{model}", agent.name, list(&agent.tools))];
    lines.extend(allowed(&agent.rules));
    if agent.may_share_history {
        lines.push("may_share_history: may give its conversation to sub-agents".to_owned());
    }
    let is_built_in = || builtin_names().contains(&agent.name);
    if own.agents.contains(&agent.name) {
        lines.push(format!("replaces your own agent `{}`", agent.name));
    } else if is_built_in() {
        lines.push(format!("replaces the built-in agent `{}`", agent.name));
    }
    lines
}

fn skill(skill: &Skill, own: &OwnNames) -> Vec<String> {
    let how = if skill.fork { "runs in a sub-agent" } else { "is loaded by an agent" };
    let agent = skill.agent.as_ref().map(|agent| format!(" of the definition `{agent}`")).unwrap_or_default();
    let tools = skill.tools.as_ref().map(|tools| format!("; uses {}", list(tools))).unwrap_or_default();
    let model = skill.model.as_ref().map(|model| format!("; model {model}")).unwrap_or_default();
    let mut lines = vec![format!("skill `{}`: {how}{agent}{tools}{model}", skill.name)];
    lines.extend(allowed(&skill.rules));
    if let Some(depth) = skill.max_depth {
        lines.push(format!("max-depth: a run of it may go {depth} deep, up to your ceiling"));
    }
    if own.skills.contains(&skill.name) {
        lines.push(format!("replaces your own skill `{}`", skill.name));
    }
    lines
}

/// What rules allow, one line each.
fn allowed(rules: &[Rule]) -> impl Iterator<Item = String> {
    let opening = rules.iter().filter(|rule| rule.decision == Decision::Allow);
    opening.map(|rule| format!("allows {}", rule.pattern))
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no tools".to_owned() } else { names.join(", ") }
}

/// The servers that a file names. Posse starts none of a project's.
fn servers(content: &[u8]) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<Value>(content) else {
        return vec!["cannot be used: it is not JSON".to_owned()];
    };
    let servers = value.get("mcpServers").or_else(|| value.get("servers")).and_then(Value::as_object);
    let described = |(name, server): (&String, &Value)| {
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let words = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let words: Vec<&str> = text("command").into_iter().chain(words.filter_map(Value::as_str)).collect();
        match (text("command"), text("url")) {
            (Some(_), _) => format!("server `{name}`: would run {}; not started yet", words.join(" ")),
            (None, Some(url)) => format!("server `{name}`: would be reached at {url}; not used yet"),
            (None, None) => format!("server `{name}`: has neither `command` nor `url`"),
        }
    };
    servers.map(|servers| servers.iter().map(described).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_shown_with_what_they_would_run_or_reach() {
        let text = r#"{"mcpServers": {"a": {"command": "sh", "args": ["-c", "evil"]}, "b": {"url": "http://x"}, "c": {}}}"#;
        assert_eq!(
            servers(text.as_bytes()),
            [
                "server `a`: would run sh -c evil; not started yet",
                "server `b`: would be reached at http://x; not used yet",
                "server `c`: has neither `command` nor `url`",
            ]
        );
        assert_eq!(servers(b"{"), ["cannot be used: it is not JSON"]);
        assert!(servers(b"{}").is_empty());
    }

    #[test]
    fn only_what_trust_makes_a_difference_to_is_shown_of_settings() {
        let value = serde_json::json!({"moment": "PreToolUse", "command": "./evil.sh"});
        assert_eq!(setting("hooks", &value).as_deref(), Some("PreToolUse: runs ./evil.sh"));
        assert_eq!(setting("workspace.setup", &"make".into()).as_deref(), Some("workspace.setup: runs make"));
        assert_eq!(setting("agent.max_usd", &5.into()).as_deref(), Some("agent.max_usd: 5"));
        assert_eq!(setting("rules", &value), None);
        let ignored = setting("providers.lab", &value).expect("a line");
        assert!(ignored.contains("ignored"), "{ignored}");
    }
}
