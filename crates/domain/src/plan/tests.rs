//! Plans without problems, plans with every problem, and random plans.

mod random;

use super::*;
use crate::budget::Usd;
use crate::contract::CommandCriterion;
use crate::event::EffectClass;
use crate::schema_check::schema_problem;

/// A context with a writer, a reader and a root that is never a child.
pub(super) fn context() -> PlanContext {
    let definition = |tools: &[&str], spawnable| StepDefinition {
        tools: tools.iter().map(ToString::to_string).collect(),
        spawnable,
    };
    PlanContext {
        definitions: [
            ("general", definition(&["read", "write", "bash"], true)),
            ("explore", definition(&["read"], true)),
            ("coder", definition(&["read", "write", "task"], false)),
        ]
        .map(|(name, definition)| (name.to_owned(), definition))
        .into(),
        tools: [
            ("read", EffectClass::Read),
            ("write", EffectClass::Write),
            ("bash", EffectClass::Exec),
            ("task", EffectClass::Delegate),
        ]
        .map(|(name, class)| (name.to_owned(), class))
        .into(),
        unusable_models: [("none/such".to_owned(), "there is no provider `none`".to_owned())].into(),
    }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

pub(super) fn step(title: &str, owns: &[&str], depends_on: &[&str]) -> Step {
    Step {
        title: title.to_owned(),
        description: format!("do {title}"),
        owns: texts(owns),
        depends_on: texts(depends_on),
        ..Step::default()
    }
}

pub(super) fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        goal: "a goal".to_owned(),
        on_failure: OnFailure::Continue,
        integration: IntegrationOrder::Ordered,
        unowned_writers: UnownedWriters::Queue,
        steps,
        author: Author::Person,
    }
}

fn problems(plan: &Plan) -> Vec<String> {
    check(plan, &context()).iter().map(ToString::to_string).collect()
}

/// The only problem of a plan with one changed step.
#[track_caller]
fn only_problem(change: impl FnOnce(&mut Step)) -> String {
    let mut step = step("a", &["src/**"], &[]);
    change(&mut step);
    let found = problems(&plan(vec![step]));
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().expect("one")
}

#[test]
fn a_plan_without_problems_has_an_order_and_waves() {
    let plan = plan(vec![
        step("last", &["c"], &["left", "right"]),
        step("right", &["b"], &["first"]),
        step("left", &["a"], &["first"]),
        step("first", &["a", "b"], &[]),
        step("alone", &["d"], &[]),
    ]);
    assert_eq!(problems(&plan), [""; 0]);
    assert_eq!(plan.order(), [3, 1, 2, 0, 4], "ties go by position");
    assert_eq!(plan.waves(), [vec![3, 4], vec![1, 2], vec![0]]);
    assert_eq!(plan.dependencies(), [vec![1, 2], vec![3], vec![3], vec![], vec![]]);
}

#[test]
fn all_problems_are_in_one_report() {
    let mut unknown = step("c", &["x"], &["b"]);
    unknown.agent = "genral".to_owned();
    let mut empty = step("d", &["y"], &[]);
    empty.success_criteria =
        vec![Criterion::Command(CommandCriterion { command: " ".to_owned(), timeout_ms: None })];
    let plan = plan(vec![
        step("a", &["src/**"], &["b"]),
        step("b", &["src/a.rs"], &["a"]),
        unknown,
        empty,
        step("e", &["y"], &[]),
    ]);
    assert_eq!(
        problems(&plan),
        [
            "step 1 `a`: depends_on: the steps depend on each other in a circle: `a` -> `b` -> `a`",
            "step 3 `c`: agent: unknown definition `genral` (did you mean `general`?); available: `explore`, \
             `general`",
            "step 4 `d`: success_criteria: the command is empty",
            "step 5 `e`: owns: could run at the same time as step 4 `d` and change the same files; order them \
             with `depends_on`, or give each its own paths in `owns`",
        ]
    );
}

#[test]
fn dependencies_must_lead_to_another_step() {
    let found = problems(&plan(vec![step("port auth", &[], &["port auth"]), step("b", &[], &["port aut"])]));
    assert_eq!(
        found,
        [
            "step 1 `port auth`: depends_on: a step cannot depend on itself",
            "step 2 `b`: depends_on: unknown step `port aut` (did you mean `port auth`?); steps are named by \
             title",
        ],
        "and no overlap is told where an order was meant"
    );
}

#[test]
fn each_knot_of_steps_is_told_once_with_its_way() {
    let plan = plan(vec![
        step("a", &["a"], &["c"]),
        step("b", &["b"], &["a"]),
        step("c", &["c"], &["b", "d"]),
        step("d", &["d"], &["c"]),
        step("behind", &["e"], &["a"]),
        step("x", &["x"], &["y"]),
        step("y", &["y"], &["x"]),
    ]);
    let found = problems(&plan);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("`a` -> `c` -> `b` -> `a`"), "{found:?}");
    assert!(found[1].ends_with("`x` -> `y` -> `x`"), "{found:?}");
    assert_eq!(plan.order(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn writers_meet_only_if_nothing_orders_them() {
    let two = |a: Step, b: Step| problems(&plan(vec![a, b])).len();
    assert_eq!(two(step("a", &["src/**"], &[]), step("b", &["src/x"], &[])), 1);
    assert_eq!(two(step("a", &["src/**"], &[]), step("b", &["src/x"], &["a"])), 0);
    assert_eq!(two(step("a", &["src/**"], &[]), step("b", &["doc/**"], &[])), 0);
    assert_eq!(two(step("a", &[], &[]), step("b", &["doc/**"], &[])), 1, "no `owns` is everything");
    let reader = Step { agent: "explore".to_owned(), ..step("b", &[], &[]) };
    assert_eq!(two(step("a", &[], &[]), reader), 0);
    let narrowed = Step { tools: Some(texts(&["read"])), ..step("b", &[], &[]) };
    assert_eq!(two(step("a", &[], &[]), narrowed), 0, "without its tools for writing a step is a reader");
    let through = vec![step("a", &["x"], &[]), step("m", &["y"], &["a"]), step("b", &["x"], &["m"])];
    assert_eq!(problems(&plan(through)), [""; 0], "an order may lead over other steps");
}

#[test]
fn unowned_writers_may_meet_if_the_plan_says_so() {
    let mut plan = plan(vec![step("a", &[], &[]), step("b", &[], &[]), step("c", &["x"], &[])]);
    let found = problems(&plan);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("step 1 `a`, step 2 `b`") && found[1].contains("owns everything"), "{found:?}");
    plan.unowned_writers = UnownedWriters::Parallel;
    assert_eq!(problems(&plan), [""; 0]);
    plan.steps.push(step("d", &["x"], &[]));
    assert_eq!(problems(&plan).len(), 1, "owned paths still may not overlap");
}

/// A change to a valid step.
type Change = Box<dyn FnOnce(&mut Step)>;

#[test]
fn a_step_is_looked_at_in_every_field() {
    let long = "x".repeat(TITLE_MAX_CHARS + 1);
    let zero = Budget { tokens: Some(0), ..Budget::NONE };
    let command = |timeout_ms| {
        vec![Criterion::Command(CommandCriterion {
            command: "true".to_owned(),
            timeout_ms: Some(timeout_ms),
        })]
    };
    let table: Vec<(&str, Change)> = vec![
        ("step 1: title: is empty", Box::new(|s| s.title = " ".to_owned())),
        ("title: has more than the 120", Box::new(move |s| s.title = long)),
        ("title: must be one line", Box::new(|s| s.title = "a\nb".to_owned())),
        ("title: must not begin or end", Box::new(|s| s.title = "a ".to_owned())),
        ("description: is empty", Box::new(|s| s.description = "\n".to_owned())),
        ("owns: `*.rs` must be a literal path", Box::new(|s| s.owns = texts(&["a", "*.rs"]))),
        ("owns: `/etc` must be a path relative", Box::new(|s| s.owns = texts(&["/etc"]))),
        ("owns: 101 entries", Box::new(|s| s.owns = vec!["a".to_owned(); 101])),
        ("the criterion is empty", Box::new(|s| s.success_criteria = vec![Criterion::Words(String::new())])),
        ("success_criteria: timeout_ms is 0", Box::new(move |s| s.success_criteria = command(0))),
        ("max_turns: must be at least 1", Box::new(|s| s.max_turns = Some(0))),
        ("timeout_ms: is 0", Box::new(|s| s.timeout_ms = Some(0))),
        ("max_retries: is 11", Box::new(|s| s.max_retries = Some(11))),
        ("budget: tokens is 0", Box::new(move |s| s.budget = zero)),
        ("agent: unknown definition `nobody`; available: ", Box::new(|s| s.agent = "nobody".to_owned())),
        ("agent: `coder` cannot execute a step", Box::new(|s| s.agent = "coder".to_owned())),
        ("tools: `general` does not have `task`", Box::new(|s| s.tools = Some(texts(&["task"])))),
        ("unknown tool `raad` (did", Box::new(|s| s.tools = Some(texts(&["raad"])))),
        ("model: there is no provider", Box::new(|s| s.model = Some("none/such".to_owned()))),
        ("model: is empty", Box::new(|s| s.model = Some(String::new()))),
    ];
    for (expected, change) in table {
        let found = only_problem(change);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn what_is_allowed_at_the_edge_is_no_problem() {
    let edge = Step {
        title: "ä".repeat(TITLE_MAX_CHARS),
        agent: "General".to_owned(),
        tools: Some(texts(&["read"])),
        budget: Budget { usd: Some(Usd::from_micros(0)), ..Budget::NONE },
        max_retries: Some(0),
        timeout_ms: Some(1),
        max_turns: Some(1),
        ..step("", &["**"], &[])
    };
    assert_eq!(problems(&plan(vec![edge])), [""; 0]);
}

#[test]
fn a_plan_as_a_whole_is_looked_at_too() {
    let nothing = Plan { goal: String::new(), ..plan(Vec::new()) };
    let found = problems(&nothing);
    assert!(
        found[0].starts_with("goal: is empty") && found[1].starts_with("steps: there are none"),
        "{found:?}"
    );
    let many = plan((0..=STEPS_MAX).map(|n| step(&n.to_string(), &[], &[])).collect());
    assert_eq!(problems(&many), ["steps: there are more than the 200 accepted"]);
    let same = problems(&plan(vec![step("a", &["x"], &[]), step("a", &["y"], &[])]));
    assert_eq!(same, ["step 2 `a`: title: step 1 has the same; titles must differ"]);
}

#[test]
fn nothing_is_told_that_follows_from_a_field_that_was_not_read() {
    let plan = plan(vec![step("", &["x"], &[]), step("b", &["x"], &["a"])]);
    let mut unread = UnreadFields::default();
    unread.add(Some(0), "title");
    let found: Vec<String> = check_read(&plan, &context(), &unread).iter().map(ToString::to_string).collect();
    // A dependency on a step that no title names is reported: it would be the next thing to correct.
    let unknown = "step 2 `b`: depends_on: unknown step `a` (step 1 has no title); steps are named by title";
    assert_eq!(found, [unknown]);
}

#[test]
fn a_plan_goes_through_json_and_is_read_strictly() {
    let plan = plan(vec![step("a", &["x"], &[])]);
    let text = serde_json::to_string(&plan).expect("json");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("plan"), plan);
    let short: Plan = serde_json::from_str(r#"{"goal": "g", "steps": [{"title": "a", "description": "b"}]}"#)
        .expect("plan");
    assert_eq!((short.steps[0].agent.as_str(), short.steps[0].required), (DEFAULT_STEP_AGENT, true));
    let error =
        serde_json::from_str::<Plan>(r#"{"goal": "g", "steps": [], "step": 1}"#).expect_err("unknown");
    assert!(error.to_string().contains("unknown field `step`"), "{error}");
}

#[test]
fn the_schema_accepts_what_the_type_accepts() {
    let is_valid = |value: &serde_json::Value| schema_problem(&Plan::json_schema(), value).is_none();
    let plan = plan(vec![step("a", &["x"], &[])]);
    assert!(is_valid(&serde_json::to_value(&plan).expect("json")));
    for bad in [
        serde_json::json!({"goal": "g", "steps": []}),
        serde_json::json!({"goal": "g", "steps": [{"title": "a"}]}),
        serde_json::json!({"goal": "g", "steps": [{"title": "a", "description": "b", "max_turns": 0}]}),
        serde_json::json!({"goal": "g", "steps": [{"title": "a", "description": "b", "owner": []}]}),
        serde_json::json!({"goal": "g", "on_failure": "retry", "steps": [{"title": "a", "description": "b"}]}),
    ] {
        assert!(!is_valid(&bad), "{bad}");
    }
}
