//! Plans as users and models write them.

mod random;

use posse_domain::contract::Criterion;
use posse_domain::plan::{IntegrationOrder, OnFailure, UnownedWriters};

use super::*;

const GOOD: &str = r#"# A plan of two writers and a reader.
goal: Port the service.
on_failure: stop
integration: as_finished
unowned_writers: parallel
steps:
  - title: survey
    description: Find all callers.
    agent: explore
    required: false
  - title: port auth
    description: |
      Port it.
      All of it.
    owns: [src/auth/**, "src/auth.rs"]
    depends_on: [survey]
    success_criteria:
      - the callers are unchanged
      - {command: "cargo test -q", timeout_ms: 120000}
    budget: {tokens: 400000, usd: 1.5, agents: none}
    tools: [read, edit]
    max_turns: 12
    timeout_ms: 600000
    max_retries: 0
    result_schema: {type: object, required: [n]}
  - {title: docs, description: Write them., owns: [docs/**]}
"#;

/// The context of a run with the built-in definitions.
pub(super) fn world() -> PlanContext {
    let definitions = Definitions::builtin();
    let root = definitions.get("coder").expect("the coder").clone();
    let class = |name: &str| match name {
        "write" | "edit" => EffectClass::Write,
        "bash" => EffectClass::Exec,
        "webfetch" | "websearch" => EffectClass::Net,
        "todo" => EffectClass::Journal,
        _ if name.starts_with("task") => EffectClass::Delegate,
        _ => EffectClass::Read,
    };
    let tools: Vec<&str> = root.tools.iter().map(String::as_str).collect();
    context(&definitions, &root, tools.into_iter().map(|name| (name, class(name))))
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).check(&world()).expect_err("problems");
    let line = |problem: &PlanProblem| problem.line.map_or("-".to_owned(), |line| line.to_string());
    problems.iter().map(|problem| format!("{}: {problem}", line(problem))).collect()
}

#[test]
fn a_plan_is_read_with_all_it_says() {
    let plan = parse(GOOD).check(&world()).expect("a plan");
    assert_eq!(plan.goal, "Port the service.");
    assert_eq!(
        (plan.on_failure, plan.integration, plan.unowned_writers),
        (OnFailure::Stop, IntegrationOrder::AsFinished, UnownedWriters::Parallel)
    );
    let [survey, port, docs] = &plan.steps[..] else { panic!("three steps: {plan:?}") };
    assert_eq!((survey.agent.as_str(), survey.required), ("explore", false));
    assert_eq!(port.description, "Port it.\nAll of it.\n");
    assert_eq!(port.owns, ["src/auth/**", "src/auth.rs"]);
    assert_eq!(port.success_criteria.len(), 2);
    let Criterion::Command(command) = &port.success_criteria[1] else { panic!("a command") };
    assert_eq!((command.command.as_str(), command.timeout_ms), ("cargo test -q", Some(120_000)));
    assert_eq!((port.budget.tokens, port.budget.agents), (Some(400_000), None));
    assert_eq!((port.max_turns, port.timeout_ms, port.max_retries), (Some(12), Some(600_000), Some(0)));
    assert!(port.result_schema.as_ref().is_some_and(|schema| schema.contains_key("required")));
    assert_eq!((docs.agent.as_str(), docs.required), ("general", true));
    let json = serde_json::to_string(&plan).expect("json");
    assert_eq!(parse(&json).check(&world()).expect("JSON is YAML"), plan);
}

#[test]
fn all_problems_are_told_with_step_and_line() {
    let text = "goal: g
on_failure: contineu
steps:
  - title: one
    description: a
    owns: [src/**]
    depends_on: [two]
  - title: two
    description: b
    agent: explorer
    depends_on:
      - one
  - title: three
    descripton: c
    owns:
      - docs/**
      - '*.md'
    success_criteria:
      - {timeout_ms: 5}
      - {command: ''}
  - title: 4
    description: d
    max_turns: many
    budget: {token: 5}
  - title: five
    description: e
    owns: [docs/a.md]
";
    assert_eq!(
        problems(text),
        [
            "2: on_failure: `contineu` is not one of continue, stop (did you mean `continue`?)",
            "7: step 1 `one`: depends_on: the steps depend on each other in a circle: `one` -> `two` -> `one`",
            "10: step 2 `two`: agent: unknown definition `explorer` (did you mean `explore`?); available: \
             `explore`, `general`, `planner`, `researcher`",
            "13: step 3 `three`: description: is missing",
            "14: step 3 `three`: unknown key `descripton` (did you mean `description`?); known keys: title, \
             description, agent, owns, depends_on, success_criteria, required, budget, tools, model, max_turns, \
             timeout_ms, max_retries, result_schema",
            "17: step 3 `three`: owns: `*.md` must be a literal path or `dir/**`",
            "19: step 3 `three`: success_criteria: a criterion that is a map needs a `command`; words are written \
             as text",
            "20: step 3 `three`: success_criteria: the command is empty",
            "21: step 4: title: expected text (write it in quotes), found a number",
            "23: step 4: max_turns: expected a whole number, found text",
            "24: step 4: budget: unknown key `token` (did you mean `tokens`?); known keys: tokens, usd, agents, \
             wall_ms",
        ]
    );
}

/// A plan with four problems: all of them are reported at once.
#[test]
fn a_cycle_an_unknown_agent_an_overlap_and_an_empty_check_are_one_report() {
    let text = "goal: g
steps:
  - {title: a, description: a, owns: [a], depends_on: [b]}
  - {title: b, description: b, owns: [b], depends_on: [a]}
  - {title: c, description: c, agent: generl, owns: [c]}
  - {title: d, description: d, owns: [d/**]}
  - title: e
    description: e
    owns:
      - d/x
  - title: f
    description: f
    owns: [f]
    success_criteria: [{timeout_ms: 1}]
";
    let found = problems(text);
    let starts = [
        "3: step 1 `a`: depends_on: a cycle",
        "5: step 3 `c`: agent: unknown definition `generl`",
        "9: step 5 `e`: owns: could",
        "14: step 6 `f`: success_criteria: a criterion that is a map needs",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (problem, start) in found.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

#[test]
fn a_text_that_is_no_plan_is_told_in_one_sentence() {
    let bomb = format!(
        "a: &a [{}]\nb: &b [{}]\nc: &c [{}]\nd: [{}]\n",
        ["x"; 50].join(","),
        ["*a"; 50].join(","),
        ["*b"; 50].join(","),
        ["*c"; 50].join(",")
    );
    let nested = |depth| format!("goal: {}{}", "[".repeat(depth), "]".repeat(depth));
    let (deep, deepest) = (nested(100), nested(100_000));
    let table = [
        ("", "the plan is empty"),
        ("# nothing\n", "the plan is empty"),
        ("just words", "a plan is a map"),
        ("- a\n- b\n", "a plan is a map with `goal` and `steps`; here is a list"),
        ("goal: g\ngoal: h\n", "the key `goal` is written twice"),
        ("goal: g\n---\ngoal: h\n", "a plan is one YAML document"),
        (&bomb, "larger than can be read safely"),
        (&deep, "nested too deeply"),
        (&deepest, ""),
        (&"x".repeat(PLAN_MAX_BYTES + 1), "more than the 1048576 bytes accepted"),
        ("goal: [unclosed", ""),
    ];
    for (text, expected) in table {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{found:?}");
    }
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(problems("on_failure: stop\n"), ["1: goal: is missing", "1: steps: is missing"]);
    assert_eq!(problems("goal: g\nsteps: []\n"), ["2: steps: there are none: a plan has at least one"]);
    assert_eq!(
        problems("goal: g\nsteps:\n  - words\n"),
        ["3: step 1: a step is a map with `title` and `description`; here is text"]
    );
}

#[test]
fn an_unknown_dependency_is_told_beside_a_missing_title() {
    let text =
        "goal: g\nsteps:\n  - {description: a}\n  - {title: b, description: b, depends_on: [nowhere]}\n";
    assert_eq!(
        problems(text),
        [
            "3: step 1: title: is missing",
            "4: step 2 `b`: depends_on: unknown step `nowhere` (step 1 has no title); steps are named by title",
        ]
    );
}

#[test]
fn a_schema_of_an_answer_must_be_one() {
    let text = "goal: g\nsteps:\n  - {title: a, description: b, result_schema: {type: nothing}}\n";
    let found = problems(text);
    assert!(found[0].starts_with("3: step 1 `a`: result_schema: is not a JSON Schema"), "{found:?}");
}

#[test]
fn a_model_that_cannot_be_used_is_told_where_it_stands() {
    let text = "goal: g\nsteps:\n  - title: a\n    description: b\n    model: x/y\n";
    let parsed = parse(text);
    assert_eq!(parsed.models().into_iter().collect::<Vec<_>>(), ["x/y"]);
    let unusable_models = [("x/y".to_owned(), "there is no provider `x`".to_owned())].into();
    let found = parsed.check(&PlanContext { unusable_models, ..world() }).expect_err("a problem");
    assert_eq!((found[0].line, found[0].problem.as_str()), (Some(5), "there is no provider `x`"));
}

#[test]
fn the_document_is_found_in_an_answer() {
    for (answer, expected) in [
        ("goal: g\nsteps: []\n", "goal: g\nsteps: []\n"),
        ("```yaml\ngoal: g\n```\n", "goal: g\n"),
        ("Here it is:\n\n```yaml\ngoal: g\n```\nThat is all.", "goal: g\n"),
        ("I ran:\n```\nls\n```\nso:\n```yml\nsteps: []\n```\n", "steps: []\n"),
        ("Here is the plan.\n\ngoal: g\nsteps: []\n", "goal: g\nsteps: []\n"),
        (
            "```yaml\ngoal: g\nsteps:\n  - description: |\n      ```\n      x\n      ```\n",
            "goal: g\nsteps:\n  - description: |\n      ```\n      x\n      ```\n",
        ),
        ("```json\n{\"goal\": 1}\n```", "{\"goal\": 1}\n"),
        ("no plan", "no plan"),
        ("```", ""),
    ] {
        assert_eq!(document(answer), expected, "{answer}");
    }
}

#[test]
fn the_planner_is_told_the_format_the_agents_and_later_its_mistakes() {
    let definitions = Definitions::builtin();
    let root = definitions.get("coder").expect("the coder");
    let first = first_request(" Port it. ", &definitions, root);
    assert!(first.ends_with("The goal:\n\nPort it.\n"), "{first}");
    assert!(first.contains("- `general`: ") && !first.contains("- `coder`"), "{first}");
    let example = document(&first);
    let plan = parse(example).check(&world()).expect("the example in the prompt is a plan");
    assert_eq!(plan.steps.len(), 2);
    let problems = parse("goal: g\n").check(&world()).expect_err("problems");
    let second = second_request(&first, "goal: g\n", &problems);
    assert!(second.starts_with(&first) && second.contains("- line 1: steps: is missing\n"), "{second}");
}
