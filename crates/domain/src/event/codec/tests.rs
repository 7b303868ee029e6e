//! Round trips of every kind of event, and long, unknown and malformed payloads.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::budget::{Amount, Budget, Figures, Usage};
use crate::code::Code;
use crate::contract::Contract;
use crate::definition::{Definition, Mode, Trust};
use crate::event::{
    AnsweredBy, BaseSnapshot, CallError, CancelRequested, Change, CheckRecord, ChecksFailed, ChecksPassed,
    ContextCompacted, ContextTrimmed, EffectClass, FailedChild, FilesCommit, FinalStatus, HostNote,
    InputAnswered, InputRequested, IntegrationFailed, IntegrationPassed, MessageReceived, ModelCalled,
    ModelReplied, PermissionDecided, Preamble, ProviderWaitEnded, ProviderWaitStarted, Purpose,
    QuestionAnswer, QueuedFor, ReportCause, RunCancelled, RunCompleted, RunFailed, RunPlanned, RunResult,
    RunResumed, RunStarted, SeenFile, Sender, SubagentAttempt, SubagentClosed, SubagentCreated,
    SubagentFailed, SubagentQueued, SubagentRefused, SubagentStarted, SubagentWaitingForMerge, SummaryScope,
    TodoChanged, TodoItem, TodoStatus, ToolFinished, ToolIntended, ToolInterrupted, TurnLimited,
    WorkspaceMade, WorkspaceRemoved, WorkspaceSalvaged, WorktreeConflicted, WorktreeMerged, WriteIntent,
};
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::{AgentState, FailKind};
use crate::message::{Image, MediaType, RawReply, Reply, ToolCall};
use crate::object_id::ObjectId;
use crate::permission::{Decision, Rule};
use crate::plan::{Author, IntegrationOrder, OnFailure, Plan, Step, UnownedWriters};
use crate::request::{GivenBaseUrl, RunRequest, RunTerms};
use crate::skill::DiscoveredDefinitions;

fn agent() -> AgentId {
    "k3f9ab2c.2".parse().expect("id")
}

fn contract(text: &str) -> Contract {
    let value = json!({
        "version": 1,
        "context": {"depth": 1, "max_depth": 2, "parent_task_id": "k3f9ab2c", "root_task_id": "k3f9ab2c"},
        "parent": {"run_id": "k3f9ab2c", "agent_id": "k3f9ab2c", "message_id": "m7", "step_idx": 1,
            "task_prompt": text, "goal_summary": text, "continues": "k3f9ab2c.1", "repairs": null},
        "step": {"title": text, "description": text, "success_criteria": [text, {"command": "x", "timeout_ms": null}],
            "owns": ["src/**"], "required": true},
        "permissions": {"allowed_tools": ["read"], "rules": [{"pattern": "bash:*", "decision": "deny"}],
            "can_spawn_children": false, "max_delegation_depth": 0, "may_share_history": false, "on_ask": "deny"},
        "execution": {"definition": "general", "skill": null, "model": "a/b", "temperature": 0.5, "top_p": null,
            "max_turns": 20, "turn_timeout_ms": null, "attempt_timeout_ms": 1, "idle_timeout_ms": 2,
            "max_retries": 1, "max_retries_per_tool": 3, "close_on_completion": true, "share_history": false,
            "extra_context": text},
        "budget": {"tokens": 1, "usd": 1.5, "agents": null, "wall_ms": 0},
        "outputs": {"report_format": "markdown", "report_path_pattern": "x", "result_schema": {"type": "object"}},
    });
    serde_json::from_value(value).expect("a contract")
}

fn definition(text: &str) -> Definition {
    Definition {
        name: "general".to_owned(),
        display_name: text.to_owned(),
        description: text.to_owned(),
        prompt: text.into(),
        tools: vec!["read".to_owned()],
        spawns: Some(vec!["general".to_owned()]),
        max_turns: Some(3),
        model: None,
        temperature: Some(0.25),
        top_p: None,
        mode: Mode::Primary,
        trust: Trust::Untrusted,
        rules: vec![rule()],
        parallel: Some(2),
        background: false,
        may_share_history: false,
        skills: None,
    }
}

fn rule() -> Rule {
    Rule { pattern: "bash:git push*".parse().expect("pattern"), decision: Decision::Deny }
}

fn figures() -> Figures {
    Figures {
        turns: 1,
        tool_calls: 2,
        wall_ms: 3,
        turn_limited: 4,
        refused: 5,
        files_changed: Some(6),
        usage: usage() + usage().as_cut_off(),
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: 4,
        output_tokens: 5,
        cached_tokens: 1,
        cache_write_tokens: 2,
        reasoning_tokens: 3,
        micro_usd: Some(6),
        ..Usage::ZERO
    }
}

fn failed(text: &str) -> Vec<FailedChild> {
    vec![FailedChild { id: agent(), code: Code::Timeout, reason: text.to_owned() }]
}

fn replied(reply: Option<Reply>, error: Option<CallError>) -> EventBody {
    let replied = ModelReplied {
        attempt: 1,
        turn: 2,
        call: 3,
        reply,
        reply_at: None,
        error,
        usage: usage(),
        estimated: true,
        tag: Some("rule:1".to_owned()),
        elapsed_ms: 9,
        cut_off: false,
        summary: true,
    };
    Box::new(replied).into()
}

/// At least one event of every kind, with `text` in every text field.
fn samples(text: &str) -> Vec<EventBody> {
    let mut all = run_samples(text);
    all.extend(child_samples(text));
    all.extend(call_samples(text));
    all.extend(conversation_samples(text));
    all
}

fn run_samples(text: &str) -> Vec<EventBody> {
    let contract = contract(text);
    let request = RunRequest {
        definition: text.to_owned(),
        model: text.to_owned(),
        dir: text.to_owned(),
        session_id: Some(text.to_owned()),
        prompt: Some(text.into()),
        definitions: vec![definition(text)],
        agents_md: Some(text.into()),
        terms: RunTerms {
            base_turns: None,
            parallel: 7,
            close_on_completion: false,
            operator_rules: vec![rule()].into(),
            approvals: std::iter::once(rule().pattern).collect(),
            unowned_writers: UnownedWriters::Parallel,
            base_url: Some(GivenBaseUrl { provider: text.to_owned(), url: text.to_owned() }),
            ..RunTerms::default()
        },
        ..RunRequest::new(text)
    };
    let started = RunStarted {
        request,
        contract_hash: contract.hash(),
        contract,
        base: Some(BaseSnapshot {
            commit: object(1),
            tree: object(2),
            head: Some(object(3)),
            compared_with: Some(object(4)),
            notes: vec![text.to_owned()],
        }),
    };
    vec![
        Box::new(started).into(),
        Box::new(RunPlanned { plan: plan(text) }).into(),
        RunResumed { epoch: 3, unowned_ms: 4 }.into(),
        RunCompleted {
            text: text.into(),
            failed: failed(text),
            figures: figures(),
            turns_exhausted: true,
            turn_limited: vec![TurnLimited { id: "k3f9ab2c.1".parse().expect("id"), required: true }],
            result: Some(result(text)),
        }
        .into(),
        RunFailed {
            kind: FailKind::Execution,
            code: Code::SubagentError,
            reason: text.to_owned(),
            text: Some(text.into()),
            failed: failed(text),
            figures: figures(),
            result: Some(result(text)),
        }
        .into(),
        RunCancelled { reason: text.to_owned(), failed: Vec::new(), figures: figures(), result: None }.into(),
    ]
}

fn plan(text: &str) -> Plan {
    let step = Step { title: text.to_owned(), description: text.to_owned(), ..Step::default() };
    Plan {
        goal: text.to_owned(),
        on_failure: OnFailure::Stop,
        integration: IntegrationOrder::AsFinished,
        unowned_writers: UnownedWriters::Parallel,
        steps: vec![step],
        author: Author::Model,
    }
}

fn object(byte: u8) -> ObjectId {
    ObjectId::from_bytes([byte; 20])
}

fn result(text: &str) -> RunResult {
    let problem = Some(text.to_owned());
    let left_out = vec![text.to_owned()];
    let instructions = vec![text.to_owned()];
    RunResult { commit: object(7), branch: Some(text.to_owned()), files: 3, problem, left_out, instructions }
}

fn check(text: &str, ok: bool) -> CheckRecord {
    let ended = "exit code 1".to_owned();
    CheckRecord { command: text.to_owned(), ok, ended, output: text.into(), elapsed_ms: 5 }
}

fn child_samples(text: &str) -> Vec<EventBody> {
    let contract = contract(text);
    let (from, to) = (AgentState::Created, AgentState::Running);
    let created = SubagentCreated {
        to: AgentState::Created,
        definition: "general".to_owned(),
        skill: None,
        depth: 1,
        parent_id: "k3f9ab2c".parse().expect("id"),
        root_id: "k3f9ab2c".parse().expect("id"),
        turn_limit: Some(7),
        call_id: text.to_owned(),
        background: true,
        writer: true,
        contract_hash: contract.hash(),
        contract,
    };
    vec![
        Box::new(created).into(),
        SubagentQueued { waits_for: QueuedFor::Ownership }.into(),
        SubagentStarted { from, to, base: None }.into(),
        SubagentAttempt {
            n: 2,
            kind: FailKind::Timeout,
            code: Code::Timeout,
            reason: text.to_owned(),
            in_place: true,
        }
        .into(),
        SubagentWaitingForMerge {
            from,
            to,
            report: text.into(),
            turns_exhausted: true,
            change: Some(object(4)),
        }
        .into(),
        SubagentFailed {
            from,
            to,
            kind: FailKind::Budget,
            code: Code::BudgetExhausted,
            reason: text.to_owned(),
            report: Some(text.into()),
        }
        .into(),
        SubagentFailed {
            from,
            to,
            kind: FailKind::Policy,
            code: Code::PermissionDenied,
            reason: text.to_owned(),
            report: None,
        }
        .into(),
        SubagentClosed {
            sub_agent_id: agent(),
            step_idx: 1,
            from,
            to,
            final_status: FinalStatus::Completed,
            close_reason: crate::lifecycle::CloseReason::Failed(FailKind::Policy),
            usage: figures(),
            subtree_usage: figures(),
        }
        .into(),
        SubagentRefused {
            call_id: text.to_owned(),
            definition: text.to_owned(),
            code: Code::MaxDepthExceeded,
            reason: text.to_owned(),
        }
        .into(),
        IntegrationPassed { from, to, change: Change::InPlace, kept: Vec::new() }.into(),
        IntegrationPassed { from, to, change: Change::Merged, kept: vec![text.to_owned()] }.into(),
        ChecksPassed { tree: object(5), checks: vec![check(text, true)] }.into(),
        ChecksFailed { tree: object(5), checks: vec![check("", true), check(text, false)] }.into(),
        WorktreeConflicted { ours: object(6), files: vec![text.to_owned()] }.into(),
        WorktreeMerged { ours: object(6), commit: object(7), tree: object(8), paths: 9 }.into(),
        WorkspaceMade { attempt: 1, base: object(9), notes: vec![text.to_owned()] }.into(),
        WorkspaceSalvaged {
            attempt: 2,
            commit: Some(object(10)),
            left_out: vec![text.to_owned()],
            left_out_count: 11,
            problem: None,
        }
        .into(),
        WorkspaceSalvaged {
            attempt: 2,
            commit: None,
            left_out: Vec::new(),
            left_out_count: 0,
            problem: Some(text.to_owned()),
        }
        .into(),
        WorkspaceRemoved { attempt: 1 }.into(),
        IntegrationFailed {
            from,
            to,
            kind: FailKind::Integration,
            code: Code::ChecksFailed,
            reason: text.to_owned(),
        }
        .into(),
        CancelRequested { by: text.to_owned(), reason: text.to_owned(), kill: true }.into(),
    ]
}

fn committed(text: &str) -> FilesCommit {
    let id = |byte| ObjectId::from_bytes([byte; 20]);
    let pack = Some(text.as_bytes().to_vec().into());
    FilesCommit { commit: id(1), follows: id(2), onto: Some(id(3)), pack }
}

fn call_samples(text: &str) -> Vec<EventBody> {
    let calls = vec![ToolCall {
        id: "a".to_owned(),
        name: text.to_owned(),
        input: json!({"path": text, "n": [1, null]}),
    }];
    vec![
        ModelCalled {
            attempt: 1,
            turn: 2,
            call: 3,
            purpose: Purpose::Report,
            cause: Some(ReportCause::Time),
            reason: Some(text.to_owned()),
            trimmed: true,
            scope: Some(SummaryScope { messages: 3, input_tokens: 4 }),
            model: text.to_owned(),
            request_hash: Hash::of(b"x"),
            reserved: Amount { input_tokens: 1, output_tokens: 2, micro_usd: None },
            preamble: Some(Box::new(Preamble {
                system: Hash::of(b"s"),
                system_text: Some(text.into()),
                tools: Hash::of(b"t"),
                tools_text: Some(text.into()),
            })),
        }
        .into(),
        replied(Some(Reply { text: text.into(), calls: calls.clone(), raw: None }), None),
        replied(
            Some(Reply {
                text: text.into(),
                calls,
                raw: Some(Arc::new(RawReply {
                    model: text.to_owned(),
                    content: json!([{"thinking": text}]),
                })),
            }),
            None,
        ),
        ProviderWaitStarted { provider: text.to_owned(), reason: text.to_owned(), until_ms: 7 }.into(),
        ProviderWaitEnded { waited_ms: 7 }.into(),
        replied(
            None,
            Some(CallError {
                code: Code::ModelError,
                message: text.to_owned(),
                status: Some(529),
                again: true,
            }),
        ),
        ToolIntended {
            call_id: text.to_owned(),
            tool: text.to_owned(),
            class: EffectClass::Write,
            specifier: Some(text.to_owned()),
            write: Some(WriteIntent { path: text.to_owned(), before: None, after: Hash::of(b"y") }),
            sandbox: Some(text.to_owned()),
        }
        .into(),
        ToolFinished {
            call_id: text.to_owned(),
            tool: text.to_owned(),
            ok: false,
            code: Some(Code::ToolError),
            output: text.into(),
            images: vec![Image { media_type: MediaType::Png, base64: text.into() }],
            child: Some(agent()),
            seen: vec![SeenFile { path: text.to_owned(), hash: Hash::of(b"z") }],
            files: Some(committed(text)),
            files_problem: Some(text.to_owned()),
            elapsed_ms: 4,
        }
        .into(),
        ToolInterrupted {
            call_id: text.to_owned(),
            tool: text.to_owned(),
            output: text.into(),
            files: Some(committed(text)),
            elapsed_ms: 5,
        }
        .into(),
        PermissionDecided {
            call_id: text.to_owned(),
            operation: text.to_owned(),
            decision: Decision::Ask,
            layer: Some(text.to_owned()),
            rule: Some(rule()),
        }
        .into(),
        Box::new(InputRequested {
            call_id: text.to_owned(),
            operation: text.to_owned(),
            tool: text.to_owned(),
            arguments: text.into(),
            layer: Some(text.to_owned()),
            rule: Some(rule()),
            reason: Some(text.to_owned()),
            approval: Hash::of(b"q"),
        })
        .into(),
        InputAnswered {
            call_id: text.to_owned(),
            approval: Hash::of(b"q"),
            decision: QuestionAnswer::Allow,
            always: true,
            by: AnsweredBy::Person,
            reason: None,
        }
        .into(),
        InputAnswered {
            call_id: text.to_owned(),
            approval: Hash::of(b"q"),
            decision: QuestionAnswer::Deny,
            always: false,
            by: AnsweredBy::Host,
            reason: Some(text.to_owned()),
        }
        .into(),
        MessageReceived { from: Sender::Person, text: text.into() }.into(),
        MessageReceived { from: Sender::Agent(agent()), text: text.into() }.into(),
        MessageReceived { from: Sender::Child(agent()), text: text.into() }.into(),
        MessageReceived { from: Sender::Host(HostNote::SchemaMismatch), text: text.into() }.into(),
        TodoChanged { items: vec![TodoItem { text: text.to_owned(), status: TodoStatus::InProgress }] }
            .into(),
    ]
}

fn conversation_samples(text: &str) -> Vec<EventBody> {
    vec![
        ContextTrimmed { call_ids: vec![text.to_owned()], freed_bytes: 9 }.into(),
        ContextCompacted {
            attempt: 1,
            turn: 9,
            call: Some(2),
            replaced: 7,
            kept: 3,
            summary: text.into(),
            tokens_before: 900,
            tokens_after: 90,
        }
        .into(),
    ]
}

fn event(body: EventBody) -> Event {
    Event { agent: agent(), at_ms: 1_700_000_000_123, body }
}

fn stored(event: &Event, blobs: &mut Vec<Blob>) -> StoredEvent {
    let encoded = event.clone().encode(blobs).expect("encoded");
    StoredEvent {
        seq: 1,
        agent: encoded.agent,
        kind: encoded.kind.into(),
        at_ms: encoded.at_ms,
        version: encoded.version,
        payload: encoded.payload,
        hash: Hash::ZERO,
    }
}

/// Encodes and decodes the event, and fills in its blobs.
fn round_trip(event: &Event) -> Event {
    let mut blobs = Vec::new();
    let stored = stored(event, &mut blobs);
    let texts: HashMap<Hash, String> =
        blobs.iter().map(|blob| (blob.hash, String::from_utf8(blob.bytes.to_vec()).expect("text"))).collect();
    let mut back = Event::decode(&stored).expect("decoded");
    let mut asked = 0;
    back.body
        .fill(&mut |at| {
            asked += 1;
            let text = texts.get(&at.blob)?;
            assert_eq!(at.bytes, text.len() as u64);
            Some(text.clone())
        })
        .expect("filled");
    let packs = event.body.files().and_then(|files| files.pack.as_ref()).into_iter().count();
    assert_eq!(asked + packs, blobs.len(), "every blob but a pack is asked for, and nothing else");
    back
}

#[test]
fn a_pack_is_a_blob_that_no_reader_of_texts_fetches() {
    let body = samples("short").into_iter().find(|body| matches!(body, EventBody::ToolFinished(_)));
    let event = event(body.expect("a sample"));
    let mut blobs = Vec::new();
    let mut back = Event::decode(&stored(&event, &mut blobs)).expect("decoded");
    let [pack] = &blobs[..] else { panic!("the texts are short: {blobs:?}") };
    assert_eq!(&*pack.bytes, b"short");
    let at = back.body.files().and_then(|files| files.pack.as_ref()).map(crate::pack::Pack::at);
    assert_eq!(at, Some(BlobRef { blob: pack.hash, bytes: 5 }));
    assert!(back.body.missing().is_empty());
}

#[test]
fn what_was_found_is_kept_beside_the_event_however_little_it_is() {
    let EventBody::RunStarted(mut started) = samples("x").remove(0) else { panic!("it comes first") };
    started.request.catalogue = Some(Arc::new(DiscoveredDefinitions::default()).into());
    let event = Event { agent: agent(), at_ms: 1, body: started.into() };
    let mut blobs = Vec::new();
    assert!(stored(&event, &mut blobs).payload.contains(r#""catalogue":{"blob":"#));
    assert_eq!(blobs.len(), 1);
    assert_eq!(round_trip(&event), event);
}

#[test]
fn there_is_a_sample_of_every_kind() {
    let kinds: BTreeSet<&str> = samples("x").iter().map(EventBody::kind).collect();
    assert_eq!(kinds, EventBody::KINDS.iter().copied().collect());
    assert_eq!(kinds.len(), EventBody::KINDS.len(), "no kind is named twice");
}

#[test]
fn every_kind_comes_back_as_it_was() {
    let hostile = "first\nsecond\t\u{0}\u{1b}[31m \"quoted\" \\ ü 🙂 {\"blob\": \"x\"}";
    for text in ["", "short", hostile, &"long ".repeat(2_000), &"ü".repeat(3_000)] {
        for body in samples(text) {
            let event = event(body);
            assert_eq!(round_trip(&event), event, "{}", event.body.kind());
        }
    }
}

#[test]
fn a_text_moves_into_a_blob_exactly_beyond_the_limit() {
    for (bytes, blobs_expected) in [(INLINE_MAX_BYTES, 0), (INLINE_MAX_BYTES + 1, 1)] {
        let text = "x".repeat(bytes);
        let event = event(MessageReceived { from: Sender::Person, text: text.as_str().into() }.into());
        let mut blobs = Vec::new();
        let stored = stored(&event, &mut blobs);
        assert_eq!(blobs.len(), blobs_expected, "{bytes}");
        assert_eq!(stored.payload.contains(&text), blobs_expected == 0);
        assert!(blobs.iter().all(|blob| blob.hash == Hash::of(text.as_bytes())), "named by their content");
    }
}

#[test]
fn what_is_long_leaves_a_short_payload() {
    let long = "x".repeat(100_000);
    for body in [
        RunCompleted {
            text: long.as_str().into(),
            failed: Vec::new(),
            figures: figures(),
            turns_exhausted: false,
            turn_limited: Vec::new(),
            result: None,
        }
        .into(),
        SubagentWaitingForMerge {
            from: AgentState::Running,
            to: AgentState::WaitingForMerge,
            report: long.as_str().into(),
            turns_exhausted: false,
            change: None,
        }
        .into(),
        replied(Some(Reply { text: long.as_str().into(), calls: Vec::new(), raw: None }), None),
        MessageReceived { from: Sender::Person, text: long.as_str().into() }.into(),
    ] {
        let mut event = event(body);
        let mut blobs = Vec::new();
        let stored = stored(&event, &mut blobs);
        assert_eq!(blobs.len(), 1);
        assert!(stored.payload.len() < 1_000, "{}: {} bytes", stored.kind, stored.payload.len());
        // Before the blob is fetched, the text names the missing blob and its length.
        let mut thin = Event::decode(&stored).expect("decoded");
        assert_eq!(thin.body.missing().len(), 1);
        assert_eq!(event.body.missing().len(), 0);
        assert!(!thin.body.summary().contains("xxxx"));
    }
}

#[test]
fn a_wide_reply_is_stored_once_and_whole() {
    let calls: Vec<ToolCall> = (0..10_000)
        .map(|n| ToolCall {
            id: format!("call_{n}"),
            name: "task".to_owned(),
            input: json!({"prompt": n.to_string()}),
        })
        .collect();
    let event = event(replied(Some(Reply { text: "I split it.".into(), calls, raw: None }), None));
    let mut blobs = Vec::new();
    let stored = stored(&event, &mut blobs);
    assert_eq!(blobs.len(), 1);
    assert!(stored.payload.len() < 1_000, "{} bytes", stored.payload.len());
    assert_eq!(round_trip(&event), event);
}

#[test]
fn one_call_with_long_arguments_is_stored_as_a_blob_too() {
    let calls = vec![ToolCall {
        id: "a".to_owned(),
        name: "write".to_owned(),
        input: json!({"content": "x".repeat(1_000_000)}),
    }];
    let event = event(replied(Some(Reply { text: "".into(), calls, raw: None }), None));
    let mut blobs = Vec::new();
    assert!(stored(&event, &mut blobs).payload.len() < 1_000);
    assert_eq!(round_trip(&event), event);
}

#[test]
fn a_missing_or_broken_blob_is_an_error() {
    let long = "x".repeat(10_000);
    for body in [
        MessageReceived { from: Sender::Person, text: long.as_str().into() }.into(),
        replied(Some(Reply { text: long.as_str().into(), calls: Vec::new(), raw: None }), None),
    ] {
        let stored = stored(&event(body), &mut Vec::new());
        let mut lost = Event::decode(&stored).expect("decoded");
        let error = lost.body.fill(&mut |_| None).expect_err("missing");
        assert!(error.to_string().contains("is missing"), "{error}");
    }
    let stored = stored(
        &event(replied(Some(Reply { text: long.as_str().into(), calls: Vec::new(), raw: None }), None)),
        &mut Vec::new(),
    );
    for broken in ["", "no json", r#"{"text": 7}"#, r#"{"text": "x", "more": 1}"#] {
        let mut thin = Event::decode(&stored).expect("decoded");
        let error = thin.body.fill(&mut |_| Some(broken.to_owned())).expect_err("broken");
        assert!(matches!(error, CodecError::Malformed { .. }), "{broken}: {error}");
    }
}

#[test]
fn unknown_kinds_and_newer_versions_are_errors() {
    let good = stored(&event(RunResumed { epoch: 1, unowned_ms: 0 }.into()), &mut Vec::new());
    for kind in ["agent.teleported", "", "run.resumed ", "run.Resumed", "RunResumed"] {
        let odd = StoredEvent { kind: kind.into(), ..good.clone() };
        assert_eq!(Event::decode(&odd), Err(CodecError::UnknownKind { kind: kind.to_owned() }));
    }
    let newer = StoredEvent { version: EVENT_VERSION + 1, ..good.clone() };
    let error = Event::decode(&newer).expect_err("newer");
    assert_eq!(error, CodecError::Newer { kind: "run.resumed".to_owned(), found: EVENT_VERSION + 1 });
    assert!(error.to_string().contains("newer than this Posse understands"), "{error}");
}

#[test]
fn a_payload_that_is_not_what_its_kind_promises_is_an_error() {
    for body in samples("x") {
        let good = stored(&event(body), &mut Vec::new());
        let with_more = good.payload.replacen('{', "{\"surplus\": 1,", 1).replace(",}", "}");
        for payload in ["", "null", "[]", "7", "\"x\"", &good.payload[..good.payload.len() - 1], &with_more] {
            let bad = StoredEvent { payload: payload.to_owned(), ..good.clone() };
            let error = Event::decode(&bad).expect_err(payload);
            assert!(
                matches!(&error, CodecError::Malformed { kind, .. } if **kind == *good.kind),
                "{payload}: {error}"
            );
        }
    }
}

#[test]
fn a_summary_is_one_short_line_whatever_is_in_the_event() {
    let hostile = format!("\n\n  first\r\nsecond {}", "x".repeat(5_000));
    for body in samples(&hostile).into_iter().chain(samples("")) {
        let summary = body.summary();
        assert!(!summary.contains(['\n', '\r']), "{}: {summary:?}", body.kind());
        assert!(summary.chars().count() < 300, "{}: {} characters", body.kind(), summary.chars().count());
    }
}

const TIMELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/timeline.md");

/// The page with the line of one example of every kind, in every form that the examples have.
fn timeline() -> String {
    let mut page =
        "<!-- Generated by `cargo xtask reference`. -->\n\n# The timeline\n\nOne line of `posse logs` for \
                    each kind of [event](events.md), from an example in which every text is `some text`.\n\n\
                    | kind | line |\n|---|---|\n"
            .to_owned();
    let mut lines: Vec<String> = Vec::new();
    for body in samples("some text") {
        let line = format!("| `{}` | {} |\n", body.kind(), body.summary().replace('|', "\\|"));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    page.extend(lines);
    page
}

#[test]
fn the_published_timeline_is_current() {
    let published = std::fs::read_to_string(TIMELINE).unwrap_or_default();
    assert!(
        timeline() == published,
        "docs/reference/timeline.md is not current; run `cargo xtask reference`"
    );
}

#[test]
#[ignore = "writes docs/reference/timeline.md from the examples"]
fn write_the_reference() {
    std::fs::write(TIMELINE, timeline()).expect("written");
}

#[test]
fn times_and_ranks_read_as_people_write_them() {
    let resumed = |epoch| EventBody::from(crate::event::RunResumed { epoch, unowned_ms: 2_123 }).summary();
    assert_eq!(resumed(2), "run resumed after 2.1 s (2nd process)");
    for (epoch, rank) in [(3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st")] {
        assert_eq!(resumed(epoch), format!("run resumed after 2.1 s ({rank} process)"));
    }
}

#[test]
fn the_detail_has_everything_of_the_event() {
    for body in samples("x") {
        let detail = body.detail();
        let stored = stored(&event(body.clone()), &mut Vec::new());
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&stored.payload).expect("JSON"),
            detail,
            "{}",
            body.kind()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_comes_back_as_it_was(text in any::<String>(), times in prop_oneof![Just(1_usize), Just(700)]) {
        for body in samples(&text.repeat(times)) {
            let event = event(body);
            prop_assert_eq!(round_trip(&event), event);
        }
    }

    #[test]
    fn no_payload_makes_the_reader_panic(kind in prop::sample::select(EventBody::KINDS), payload in "[\\PC]{0,40}") {
        let odd = StoredEvent {
            seq: 1,
            agent: agent(),
            kind: kind.into(),
            at_ms: 0,
            version: EVENT_VERSION,
            payload,
            hash: Hash::ZERO,
        };
        prop_assert!(Event::decode(&odd).is_err());
    }
}

/// A budget's limits survive the round trip: none stays none, and zero stays zero.
#[test]
fn budgets_in_contracts_keep_none_and_zero_apart() {
    let body = child_samples("x").remove(0);
    let EventBody::SubagentCreated(created) = round_trip(&event(body)).body else { panic!("created") };
    assert_eq!(created.contract.budget.agents, None);
    assert_eq!(created.contract.budget.wall_ms, Some(0));
    assert_ne!(created.contract.budget, Budget::NONE);
}
