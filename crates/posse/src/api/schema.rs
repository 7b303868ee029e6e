//! Lists the objects that leave the program, and generates their published schema.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    AgentDetail, AgentList, AgentOutcome, AgentTaskEvent, AllStats, Answer, ApplyCheck, ApplyResult,
    AuditPage, CancelResult, ChangedFileList, ContractDetail, Conversation, DefinitionCheck, Delta,
    DiffResult, Event, EventPage, Explanation, ExportResult, FileDiff, GcResult, InitResult, MachineReport,
    ModelList, Outcome, PlanCheck, Question, QuestionList, ReportResult, RevokedApprovals, RunDetail,
    RunPage, RunReference, RunStats, RunSummary, RunTimeline, Salvage, SalvageList, SentMessage,
    ServerProjectList, ServerSession, SettingsList, SkillDetail, SkillList, StartedRun, StoredApproval,
    TokenList, TrustList, VERSION, Verification, WebhookMessage, WrittenPlan,
};

/// An object that leaves the program. Only this module implements it, so that front ends print and serve only objects
/// of the published schema.
pub trait Object: Serialize + JsonSchema + private::ApiObject {}

mod private {
    pub trait ApiObject {}
}

/// Lists every object once: each gets the trait and its definition in the schema.
macro_rules! objects {
    ($($object:ty),* $(,)?) => {
        $(
            impl private::ApiObject for $object {}
            impl Object for $object {}
        )*

        fn add_all(generator: &mut SchemaGenerator, objects: &mut Map<String, Value>) {
            $(add::<$object>(generator, objects);)*
        }
    };
}

objects! {
    RunSummary,
    RunDetail,
    AgentOutcome,
    RunReference,
    Outcome,
    Event<'_>,
    Question,
    Answer,
    StoredApproval,
    Explanation,
    RunStats,
    AllStats,
    ApplyResult,
    Salvage,
    GcResult,
    Verification<'_>,
    ExportResult,
    PlanCheck<'_>,
    AgentList<'_>,
    AgentDetail<'_>,
    SkillList<'_>,
    SkillDetail<'_>,
    DefinitionCheck<'_>,
    SettingsList,
    TrustList,
    MachineReport,
    ModelList,
    DiffResult,
    ReportResult,
    CancelResult,
    SentMessage,
    RevokedApprovals,
    InitResult,
    WrittenPlan,
    RunPage,
    EventPage,
    QuestionList,
    StartedRun,
    AgentTaskEvent,
    Delta,
    ServerSession,
    ServerProjectList,
    ContractDetail,
    Conversation,
    RunTimeline,
    ChangedFileList,
    FileDiff,
    ApplyCheck,
    SalvageList,
    AuditPage,
    TokenList,
    WebhookMessage,
}

/// The schema of every object that leaves the program, each as one definition with the name of its type.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut objects = Map::new();
    add_all(&mut generator, &mut objects);
    let any: Vec<Value> = objects.keys().map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
    // The component types of objects are definitions beside them.
    let mut definitions = generator.take_definitions(true);
    definitions.extend(objects);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The objects of Posse's API",
        "description": "What --json prints, one object on each line.",
        "anyOf": any,
        "$defs": definitions,
    })
}

/// Adds an object with its version, which [`VersionedObject`](super::VersionedObject) puts before its fields.
fn add<T: Object>(generator: &mut SchemaGenerator, objects: &mut Map<String, Value>) {
    let mut schema = T::json_schema(generator).to_value();
    schema["properties"]["version"] = json!({ "const": VERSION });
    match schema.get_mut("required").and_then(Value::as_array_mut) {
        Some(required) => required.push("version".into()),
        None => schema["required"] = json!(["version"]),
    }
    objects.insert(T::schema_name().into_owned(), schema);
}
