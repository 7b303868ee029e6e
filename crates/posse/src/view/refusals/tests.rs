//! Each source of a refusal, by the events that the engine writes for it.

use posse_domain::event::{EffectClass, Event, ToolIntended};
use posse_domain::hash::Hash;
use posse_domain::permission::Rule;

use super::*;

/// The list after these events of one agent.
fn refused(agent: &str, bodies: Vec<EventBody>) -> RefusedOperations {
    let agent: AgentId = agent.parse().expect("an id");
    let mut list = RefusedOperations::default();
    for (seq, body) in (1..).zip(bodies) {
        list.take(&ViewEvent::new(seq, &Event { agent: agent.clone(), at_ms: 5, body }));
    }
    list
}

fn decided(decision: Decision, layer: Option<&str>, pattern: Option<&str>) -> EventBody {
    let rule = pattern.map(|pattern| Rule { pattern: pattern.parse().expect("a pattern"), decision });
    PermissionDecided {
        call_id: "c1".to_owned(),
        operation: "bash:git push".to_owned(),
        decision,
        layer: layer.map(str::to_owned),
        rule,
    }
    .into()
}

fn answered(by: AnsweredBy, reason: Option<&str>) -> EventBody {
    InputAnswered {
        call_id: "c1".to_owned(),
        approval: Hash::of(b"a question"),
        decision: QuestionAnswer::Deny,
        always: false,
        by,
        reason: reason.map(str::to_owned),
    }
    .into()
}

fn finished(code: Option<Code>, output: &str) -> EventBody {
    ToolFinished {
        call_id: "c1".to_owned(),
        tool: "bash".to_owned(),
        ok: code.is_none(),
        code,
        output: output.into(),
        images: Vec::new(),
        child: None,
        seen: Vec::new(),
        files: None,
        files_problem: None,
        elapsed_ms: 1,
    }
    .into()
}

const DENIED: Option<Code> = Some(Code::PermissionDenied);

#[test]
fn every_refusal_names_its_source() {
    let cases = [
        (
            vec![decided(Decision::Deny, Some("operator"), Some("bash:git push*")), finished(DENIED, "no")],
            RefusedBy::Rule,
            "denied by rule `bash:git push*` of your settings",
        ),
        (
            vec![
                decided(Decision::Ask, Some("definition general"), Some("bash:git push*")),
                finished(DENIED, "no"),
            ],
            RefusedBy::NoApprover,
            "it needs approval, and the run does not let sub-agents ask; approval is required by rule \
             `bash:git push*` of definition general",
        ),
        (
            vec![
                decided(Decision::Ask, Some("run"), None),
                answered(AnsweredBy::Person, Some("not now")),
                finished(DENIED, "no"),
            ],
            RefusedBy::User,
            "a user denied it: not now",
        ),
        (
            vec![
                decided(Decision::Deny, Some("hook"), None),
                finished(DENIED, "`bash:git push` is not allowed (deny: hook, it is Friday)"),
            ],
            RefusedBy::Hook,
            "a hook denied it: hook, it is Friday",
        ),
        (
            vec![
                decided(Decision::Deny, None, None),
                finished(
                    DENIED,
                    "`bash:git push` is not allowed (deny: the tool is not among the agent's tools)",
                ),
            ],
            RefusedBy::Grant,
            "the tool is not among the agent's tools",
        ),
        (
            vec![
                decided(Decision::Deny, None, None),
                finished(Some(Code::OwnershipViolation), "this agent may only change src"),
            ],
            RefusedBy::Ownership,
            "this agent may only change src",
        ),
        (
            vec![finished(DENIED, "`/etc` is outside the workspace.")],
            RefusedBy::Policy,
            "`/etc` is outside the workspace.",
        ),
        (
            vec![finished(
                Some(Code::Unsupported),
                "UNSUPPORTED: No command was run: the sandbox cannot be made.",
            )],
            RefusedBy::Sandbox,
            "No command was run: the sandbox cannot be made.",
        ),
    ];
    for (bodies, by, reason) in cases {
        let list = refused("k3f9ab2c.1", bodies);
        let found: Vec<(RefusedBy, &str)> = list.iter().map(|one| (one.by, one.reason.as_str())).collect();
        assert_eq!(found, [(by, reason)]);
        assert_eq!(list.count(), 1);
        assert!(list.pending.is_empty());
    }
}

#[test]
fn a_call_that_ran_is_not_refused() {
    let intended = || {
        EventBody::from(ToolIntended {
            call_id: "c1".to_owned(),
            tool: "webfetch".to_owned(),
            class: EffectClass::Net,
            specifier: Some("example.org".to_owned()),
            write: None,
            sandbox: None,
        })
    };
    let list = refused("k3f9ab2c", vec![decided(Decision::Ask, Some("run"), None), finished(None, "done")]);
    assert_eq!((list.count(), list.pending.len()), (0, 0));
    let list = refused("k3f9ab2c", vec![intended(), finished(Some(Code::ToolError), "it failed")]);
    assert_eq!(list.count(), 0);
    let list = refused("k3f9ab2c", vec![intended(), finished(DENIED, "no host may be reached")]);
    assert_eq!(list.iter().next().map(|one| one.operation.as_str()), Some("webfetch:example.org"));
}

#[test]
fn the_list_is_bounded_and_the_rest_is_counted() {
    let bodies = (0..REFUSED_LISTED_MAX + 7).map(|_| finished(DENIED, "no")).collect();
    let list = refused("k3f9ab2c", bodies);
    assert_eq!((list.iter().count(), list.count()), (REFUSED_LISTED_MAX, REFUSED_LISTED_MAX as u64 + 7));
}
