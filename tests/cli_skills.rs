//! Skills that delegate to skills: the shipped examples, their maximum depth, and how their runs end.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Done, Home, run_of};

/// The folder of a user's own skills, beneath their home.
const SKILLS: &str = ".config/posse/skills";

/// The directory of the examples.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A user who has the skills of the examples, and a project with the files that their scripts name.
fn home() -> Home {
    let home = Home::new();
    for file in fs::read_dir(examples().join("skills")).expect("examples").flatten() {
        let text = fs::read_to_string(file.path()).expect("a skill");
        home.write_own(&format!("{SKILLS}/{}", file.file_name().display()), &text);
    }
    home.write("notes.md", "# Ropes\nHemp.\n# Knots\nThe bowline is the knot that holds best.\n");
    home.write("greet.sh", "echo Hello $1\n");
    home.write("sales.csv", "month,sold\n1,2\n2,3\n");
    home
}

/// Runs an example with its script; returns its result, and the creation event of each sub-agent.
fn example(home: &Home, name: &str) -> (Value, Vec<Value>) {
    let script = fs::read_to_string(examples().join(format!("scripts/{name}.yaml"))).expect("a script");
    home.write("script.yaml", &script);
    let args = ["run", "--json", "--skill", name, "--model", "scripted/script.yaml", "Go."];
    let result = home.posse(&args).exits(0).result();
    let events = home.posse(&["logs", "--json", &run_of(&result)]).exits(0).json_lines();
    let finished = events.iter().filter(|event| event["kind"] == "agent.tool_finished");
    for call in finished {
        assert_eq!(call["detail"]["ok"], true, "{call:#}");
    }
    let created = events.into_iter().filter(|event| event["kind"] == "agent.subagent_created");
    (result, created.map(|event| event["detail"].clone()).collect())
}

/// The skills and depths of sub-agents, in the order of their creation.
fn tree(created: &[Value]) -> Vec<(&str, u64)> {
    created.iter().filter_map(|child| Some((child["skill"].as_str()?, child["depth"].as_u64()?))).collect()
}

#[test]
fn the_project_manager_delegates_two_parts_at_once_and_puts_them_together() {
    let (result, created) = example(&home(), "project_manager");
    let text = result["text"].as_str().expect("text");
    let run = run_of(&result);
    let expected = "Sub-agent completed: The notes have two chapters; they are about ropes and knots.";
    assert_eq!(text, format!("{expected}\n\nFull trace: {run}.1"));
    assert_eq!(tree(&created), [("project_manager", 1), ("general_assistant", 2), ("summarize_document", 2)]);
    let contract = &created[0]["contract"];
    assert_eq!(contract["execution"]["temperature"], 0.3);
    assert_eq!(contract["step"]["required"], true);
    assert_eq!(created[2]["contract"]["execution"]["extra_context"], "For a newcomer.");
}

#[test]
fn the_research_coordinator_delegates_what_it_found() {
    let (result, created) = example(&home(), "research_coordinator");
    assert!(
        result["text"].as_str().is_some_and(|text| text.contains("The bowline holds best")),
        "{result:#}"
    );
    let skills = tree(&created);
    assert_eq!(skills, [("research_coordinator", 1), ("summarize_document", 2), ("general_assistant", 2)]);
}

#[test]
fn the_code_reviewer_has_a_change_written_and_it_is_in_the_result() {
    let home = home();
    let (result, created) = example(&home, "code_reviewer");
    assert_eq!(tree(&created), [("code_reviewer", 1), ("code_assistant", 2)]);
    assert!(result["text"].as_str().is_some_and(|text| text.contains("was not quoted")), "{result:#}");
    let changed = home.result_file(&run_of(&result), "greet.sh");
    assert_eq!(changed.as_deref(), Some("echo \"Hello $1\"\n"));
}

#[test]
fn the_data_analyst_delegates_one_figure_after_the_other() {
    let (result, created) = example(&home(), "data_analyst");
    assert!(result["text"].as_str().is_some_and(|text| text.contains("two bars show that")), "{result:#}");
    let skills = tree(&created);
    assert_eq!(skills, [("data_analyst", 1), ("general_assistant", 2), ("general_assistant", 2)]);
}

/// Every agent delegates to a skill until it is refused.
const DEEPER: &str = r"
- when: {turn: 1}
  reply: {tool_calls: [{name: delegate_to_agent, input: {skill_name: deeper, task: go deeper}}]}
- reply: {text: back}
";
const DEEPER_SKILL: &str =
    "name: deeper\ndescription: goes deeper\ntools: [delegate_to_agent]\nsystem_prompt: Go deeper.\n";

/// The depth of a run with these settings and variables, and the prompt of the deepest agent.
fn depth(settings: &str, variables: &[(&str, &str)]) -> (u64, String) {
    let home = Home::new();
    home.write("script.yaml", DEEPER);
    home.write_own(&format!("{SKILLS}/deeper.yaml"), DEEPER_SKILL);
    home.write_settings(settings);
    let mut command = home.command(&["run", "--json", "--model", "scripted/script.yaml", "go"]);
    command.envs(variables.iter().copied());
    let done = Done::of(command).exits(0);
    let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
    let created = events.iter().filter(|event| event["kind"] == "agent.subagent_created");
    let deepest = created.filter_map(|event| event["detail"]["depth"].as_u64()).max().unwrap_or(0);
    let refused = events.iter().find(|event| event["kind"] == "agent.subagent_refused").expect("a refusal");
    assert_eq!(refused["detail"]["code"], "MAX_DEPTH_EXCEEDED");
    (deepest, refused["detail"]["reason"].as_str().expect("a reason").to_owned())
}

#[test]
fn delegation_has_a_default_limit_of_depth() {
    let (deepest, reason) = depth("", &[]);
    assert_eq!(deepest, 2);
    assert_eq!(reason, "maximum depth 2 reached: an agent at depth 2 cannot spawn");
}

#[test]
fn the_limit_of_depth_is_raised_and_lowered_by_the_settings_file() {
    assert_eq!(depth("agent: {max_orchestration_depth: 5}", &[]).0, 5);
    assert_eq!(depth("agent: {max_orchestration_depth: 1}", &[]).0, 1);
}

#[test]
fn the_limit_of_depth_is_raised_and_lowered_by_the_environment() {
    let variable = "POSSE_AGENT__MAX_ORCHESTRATION_DEPTH";
    assert_eq!(depth("agent: {max_orchestration_depth: 1}", &[(variable, "4")]).0, 4);
    assert_eq!(depth("agent: {max_orchestration_depth: 5}", &[(variable, "1")]).0, 1);
}

#[test]
fn a_run_of_a_skill_that_cannot_go_so_deep_fails_and_says_so() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: never}\n");
    home.write_own(&format!("{SKILLS}/deeper.yaml"), DEEPER_SKILL);
    let args =
        ["run", "--json", "--skill", "deeper", "--max-depth", "0", "--model", "scripted/script.yaml", "go"];
    let result = home.posse(&args).exits(1).result();
    let text = result["text"].as_str().expect("text");
    assert_eq!(text, "maximum depth 0 reached: an agent at depth 0 cannot spawn (MAX_DEPTH_EXCEEDED)");
}

#[test]
fn the_whole_report_of_a_forked_skill_is_found_by_the_id_in_its_summary() {
    let home = Home::new();
    let long = format!("{} the end of it", "word ".repeat(200));
    home.write("script.yaml", &format!("- reply: {{text: \"{long}\"}}\n"));
    home.write_own(
        &format!("{SKILLS}/teller/SKILL.md"),
        "---\nname: teller\ndescription: tells\ncontext: fork\n---\nTell.\n",
    );
    let args = ["run", "--json", "--skill", "teller", "--model", "scripted/script.yaml", "go"];
    let result = home.posse(&args).exits(0).result();
    let text = result["text"].as_str().expect("text");
    assert!(text.contains("... (truncated)") && !text.contains("the end of it"), "{text}");
    let (_, trace) = text.split_once("Full trace: ").expect("a trace");
    let whole = home.posse(&["trace", trace.trim()]).exits(0).stdout;
    assert!(whole.contains("the end of it"), "{whole}");
}

#[test]
fn a_resumed_run_still_reads_the_files_of_its_skills() {
    let script = |latency_ms: u32| {
        format!(
            "- when: {{turn: 1}}
  latency_ms: {latency_ms}
  reply:
    tool_calls:
      - {{name: skill, input: {{name: guide}}}}
      - {{name: read, input: {{path: 'skill://guide/notes.md'}}}}
      - {{name: list, input: {{path: 'skill://guide'}}}}
      - {{name: bash, input: {{command: cat ~/{SKILLS}/guide/notes.md}}}}
- reply: {{text: done}}
"
        )
    };
    let home = Home::new();
    home.write_own(
        &format!("{SKILLS}/guide/SKILL.md"),
        "---\nname: guide\ndescription: d\n---\nAs it was.\n",
    );
    home.write_own(&format!("{SKILLS}/guide/notes.md"), "the notes of the guide\n");
    home.write("script.yaml", &script(3_600_000));
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "go"]);
    let run = run_of(&going.until_event("", "agent.model_called"));
    going.kill();
    home.write("script.yaml", &script(0));
    let changed = "---\nname: guide\ndescription: d\n---\nAs it is now.\n";
    home.write_own(&format!("{SKILLS}/guide/SKILL.md"), changed);
    let done = home.posse(&["resume", "--json", &run]).exits(0);
    let finished = done.json_lines().into_iter().filter(|event| event["kind"] == "agent.tool_finished");
    let results: Vec<Value> = finished.map(|event| event["detail"].clone()).collect();
    assert_eq!(results.len(), 4, "{results:#?}");
    for (tool, said) in [
        ("skill", "As it was."),
        ("read", "the notes of the guide"),
        ("list", "skill://guide/notes.md"),
        ("bash", "the notes of the guide"),
    ] {
        let result = results.iter().find(|result| result["tool"] == tool).expect("a result");
        let shown = result["output"].as_str().is_some_and(|output| output.contains(said));
        assert!(result["ok"] == true && shown, "{result:#}");
    }
}
