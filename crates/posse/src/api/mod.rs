//! The data types that leave the program: what `--json` prints, and what other front ends serve. They are one module
//! with one version, so that a program that can read one front end can read them all.
//!
//! They are a promise: fields are added, never renamed or removed, and a breaking change gets the next version. The
//! types of the facade are free to change, because none of them is serialised directly. Only types whose JSON is
//! already a stored format, such as definitions and results, are part of an object unchanged. The schema of every
//! object is published as `docs/schemas/api.schema.json`, and tests compare real output with it.
//!
//! Why it is like this: `docs/decisions/api-data-types.md`.

mod command;
mod contract;
mod conversation;
mod definitions;
mod diff;
mod event;
mod exit;
mod export;
mod files;
mod machine;
mod models;
mod pages;
mod permission;
mod plan;
mod progress;
mod report;
mod run;
mod schema;
mod server;
mod stats;
mod timeline;
mod verification;

pub use command::{CancelResult, CancelState, InitFile, InitResult, RevokedApprovals, SentMessage};
pub use contract::ContractDetail;
pub use conversation::{Conversation, ConversationEntry, EntryContent, RequestedCall};
pub use definitions::{
    AgentDetail, AgentList, DefinitionCheck, DefinitionEntry, DefinitionSource, DefinitionStanding,
    FileFinding, FindingLevel, SkillDetail, SkillList,
};
pub use diff::{ChangedFile, ChangedFileEntry, ChangedFileList, DiffResult, FileDiff, FileStatus};
pub use event::{Event, EventType};
pub use exit::RunExit;
pub use export::ExportResult;
pub use files::{
    ApplyCheck, ApplyResult, ConflictHunk, ConflictedFile, GcResult, KeptItem, MergeConflict, PlannedFile,
    PlannedWrite, Salvage,
};
pub use machine::{
    CheckStatus, MachineCheck, MachineReport, ProjectFileKind, ProjectSettingsFile, Setting, SettingLayer,
    SettingsList, TrustList, TrustState, TrustedFile, UnusedValue,
};
pub use models::{KnownModel, ModelAlias, ModelList, ModelProvider};
pub use pages::{EventPage, QuestionList, RunPage, SalvageList, StartedRun};
pub use permission::{
    Answer, AnswerDecision, BeyondRules, CommandLimits, Explanation, HookCommand, LayerDecision, Question,
    StoredApproval,
};
pub use plan::{PlanCheck, PlanProblem, WrittenPlan};
pub use progress::{AgentTaskEvent, Delta, DeltaPart, TaskEvent, TaskState};
pub use report::{CheckResult, ReportResult};
pub use run::{
    Agent, AgentOutcome, BlockedOn, CloseReason, Depth, FailedAgent, FilesOfRun, Outcome, OutcomeType,
    PlannedStep, RefusedBy, RefusedCall, ReplayVerdict, RunDetail, RunReference, RunStatus, RunSummary,
};
pub use schema::{Object, json_schema};
pub use server::{
    AuditEntry, AuditPage, ServerProject, ServerProjectList, ServerSession, TokenEntry, TokenList,
    TokenRight, WebhookMessage,
};
pub use stats::{AgentStats, AllStats, DepthStats, FigureValues, RunStats, Total};
pub use timeline::{Activity, ActivitySpan, AgentTrack, EffectSpan, EffectType, RunTimeline};
pub use verification::Verification;

use posse_domain::budget::Usd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of all objects.
pub const VERSION: u32 = 1;

/// An object with its version before its own fields. Every object that leaves the program is wrapped here, so that none
/// can lack the version.
#[derive(Serialize)]
pub struct VersionedObject<'a, T> {
    version: u32,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Object> VersionedObject<'a, T> {
    /// Wraps an object with the current version.
    pub fn new(object: &'a T) -> Self {
        Self { version: VERSION, object }
    }
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The input of all calls that were answered.
    pub input_tokens: u64,
    /// The output of all calls that were answered.
    pub output_tokens: u64,
    /// The part of the input that was read from a cache.
    pub cached_tokens: u64,
    /// The part of the input that was written to a cache.
    pub cache_write_tokens: u64,
    /// The part of the output that was reasoning.
    pub reasoning_tokens: u64,
    /// The cost in dollars of all calls that were answered and whose price is known.
    pub usd_known: f64,
    /// The maximum cost in dollars: `usd_known`, and the maximum of each call that was cut off; null if a price is unknown.
    pub usd_at_most: Option<f64>,
    /// The tokens of calls that were answered and whose price is unknown.
    pub unpriced_tokens: u64,
    /// How many calls were cut off before their reply, so that their usage is unknown.
    pub cut_off_calls: u64,
    /// The maximum of tokens that the calls that were cut off can have used.
    pub cut_off_tokens_at_most: u64,
}

impl Usage {
    /// Converts a usage. The maximum of a run or an agent whose first call is in progress at an unknown price is unknown.
    pub fn new(usage: &crate::Usage, is_cost_unknown: bool) -> Self {
        let usage = Self::from(usage);
        if is_cost_unknown { Self { usd_at_most: None, ..usage } } else { usage }
    }
}

impl From<&crate::Usage> for Usage {
    fn from(usage: &crate::Usage) -> Self {
        Self {
            input_tokens: usage.answered_input_tokens(),
            output_tokens: usage.answered_output_tokens(),
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            usd_known: Usd::from_micros(usage.known_micro_usd()).as_f64(),
            usd_at_most: usage.micro_usd_at_most().map(|micros| Usd::from_micros(micros).as_f64()),
            unpriced_tokens: usage.unpriced_tokens(),
            cut_off_calls: usage.cut_off.calls,
            cut_off_tokens_at_most: usage.cut_off.input_tokens.saturating_add(usage.cut_off.output_tokens),
        }
    }
}

/// A time for programs: RFC 3339, UTC, with milliseconds.
pub fn timestamp(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_700_000_000_050), "2023-11-14T22:13:20.050Z");
        assert_eq!(timestamp(i64::MAX), "1970-01-01T00:00:00.000Z");
    }
}
