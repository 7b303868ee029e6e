//! API types of the user's machine: settings, trust, and the findings of `doctor`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether the user trusts a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustState {
    /// The user trusts exactly its content.
    Trusted,
    /// The user trusted another content of it.
    Changed,
    /// The user was never asked.
    New,
}

/// Which layer a setting's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingLayer {
    /// No layer sets it.
    Default,
    /// The user's file.
    User,
    /// A file of the project.
    Project,
    /// An environment variable.
    Variable,
    /// A flag of the command.
    Flag,
}

/// A value of a setting that has no effect.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnusedValue {
    /// The value as a file would have it.
    pub value: Value,
    /// Where it is set.
    pub origin: String,
    /// Why it has no effect.
    pub why: String,
}

/// A setting with every value that was set for it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its key, with dots.
    pub key: String,
    /// The effective value, as a file would have it; for a secret where it is set, null for what is not one value.
    pub value: Value,
    /// The default in words, if it is not one value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Where the value is set.
    pub origin: String,
    /// The layer that sets it.
    pub from: SettingLayer,
    /// Values that have no effect.
    pub unused: Vec<UnusedValue>,
}

/// A settings file of the project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectSettingsFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether the user trusts it.
    pub trust: TrustState,
    /// Whether it can be read; a file that cannot is ignored.
    pub usable: bool,
}

/// All settings in effect for a directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SettingsList {
    /// The user's file, whether it exists or not.
    pub user_file: Option<PathBuf>,
    /// The project's files, the nearest first.
    pub project_files: Vec<ProjectSettingsFile>,
    /// Every key in the order of the documentation.
    pub settings: Vec<Setting>,
    /// Warnings about them.
    pub notes: Vec<String>,
}

/// What a file that needs trust is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectFileKind {
    /// Settings of the project.
    Settings,
    /// An agent definition.
    Agent,
    /// A skill.
    Skill,
    /// Servers that provide tools.
    Servers,
}

/// A file of the project that needs trust.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TrustedFile {
    /// Its path.
    pub path: PathBuf,
    /// What it is for.
    pub kind: ProjectFileKind,
    /// Whether the user trusts it.
    pub trust: TrustState,
    /// The hash of its content.
    pub hash: String,
    /// What it does once it is trusted.
    pub does: Vec<String>,
    /// Commands that may run files which trust does not cover, each with the reason.
    pub undetermined: Vec<String>,
}

/// The files of a project that need trust.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TrustList {
    /// The project's directory.
    pub root: PathBuf,
    /// The files that could run code or widen permissions.
    pub files: Vec<TrustedFile>,
    /// Files that are ignored, each with the reason.
    pub passed_over: Vec<String>,
}

/// The result of one check of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// Nothing is wrong.
    Ok,
    /// Posse works without it, with restrictions.
    Note,
    /// Operations that need it are refused.
    Missing,
}

/// One check of the machine.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MachineCheck {
    /// What was checked.
    pub name: String,
    /// Whether the check found something missing.
    pub status: CheckStatus,
    /// What was found.
    pub value: String,
    /// What the user can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What the machine offers to runs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MachineReport {
    /// Whether everything that commands of agents need is available.
    pub ok: bool,
    /// The version of Posse.
    pub posse: String,
    /// The version of the kernel.
    pub kernel: String,
    /// Whether Posse runs as root.
    pub root: bool,
    /// The isolation of the sandbox; null if none can be created.
    pub sandbox: Option<String>,
    /// The results of all checks.
    pub checks: Vec<MachineCheck>,
}
