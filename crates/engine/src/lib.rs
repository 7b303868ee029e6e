//! Executes runs: trees of agents, each under a contract.
//!
//! The engine always decides without side effects, commits the decision, and only then starts an effect or answers a
//! caller. It depends on no provider, database or operating system. Adapters for these implement the traits in
//! [`ports`].

mod deltas;
mod driver;
mod history;
pub mod integrate;
pub mod ports;
mod projection;
mod recording;
mod runtime;
mod scheduler;
mod skill_report;
mod task_view;
mod verify;

pub use deltas::{Delta, DeltaCall, DeltaPart};
pub use driver::Replay;
pub use history::{HistoryError, conversation_json, decode, fill, fill_readable, read_events};
pub use posse_domain::request::{Continuation, ContinuedFiles, GivenBaseUrl, RunRequest, RunTerms};
pub use projection::rows_of;
pub use recording::{RecordedCall, RecordedRequest, Recording, RecordingError};
pub use runtime::{
    Parts, REQUEST_MAX_BYTES, RequestField, ResumeOutcome, RunEnded, RunHandle, Runtime, RuntimeError,
    RuntimeOptions, StopKind,
};
pub use task_view::{TaskEvent, TaskState, TaskView};
pub use verify::{VerifiedJournal, VerifyError, verify};

/// Every fault point of the engine, in the order in which a call passes them.
pub const FAULT_POINTS: &[&str] = &[
    "engine.commit.before",
    "engine.commit.after",
    "engine.model.before_send",
    "engine.model.after_reply",
    "engine.read.before_run",
    "engine.read.after_run",
    "engine.tool.before_prepare",
    "engine.tool.after_prepare",
    "engine.write.before_run",
    "engine.write.after_run",
    "engine.exec.before_run",
    "engine.exec.after_run",
    "engine.call.after_files",
    "engine.workspace.before_make",
    "engine.workspace.after_make",
    "engine.workspace.before_snapshot",
    "engine.workspace.after_snapshot",
    "engine.workspace.before_salvage",
    "engine.workspace.after_salvage",
    "engine.merge.before",
    "engine.merge.after",
    "engine.check.before",
    "engine.check.after",
    "engine.update.before",
    "engine.update.after",
    "engine.publish.before",
    "engine.publish.after",
    "engine.history.after_read",
    "engine.recover.after_claim",
    "engine.recover.after_fold",
    "engine.recover.before_look",
    "engine.recover.after_look",
    "engine.run.after_snapshot",
    "engine.run.before_release",
    "engine.run.after_release",
];
