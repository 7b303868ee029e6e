//! Settings of a project in more than one folder: each narrows, and none hides another.

use serde_json::Value;

use crate::support::{Done, Home, run_of};

const ROOT: &str = ".posse/settings.yaml";
const NEAR: &str = "packages/x/.posse/settings.yaml";
const SCRIPT: &str = "\
- when: {turn: 1}
  reply: {tool_calls: [{name: list, input: {path: .}}]}
- reply: {text: done}
";

/// A repository whose root is trusted and has limits, rules and a hook.
fn repository() -> Home {
    let home = Home::new();
    home.write(".git/HEAD", "ref: refs/heads/main\n");
    home.write("packages/x/code", "");
    home.write(
        ROOT,
        "model: scripted/roots.yaml\nagent: {max_turns: 7}\n\
         rules: [{pattern: 'bash:git push*', decision: deny}]\n\
         hooks: {PreToolUse: [{matcher: list, hooks: [{type: command, command: 'echo guarded >&2; exit 2'}]}]}\n",
    );
    home.write(".posse/roots.yaml", SCRIPT);
    home.posse(&["trust", "--yes"]).exits(0);
    home
}

/// The effective values of a key in the folder of the package, each with its origin.
fn counting(home: &Home, key: &str) -> Vec<(Value, String)> {
    let report = home.posse(&["settings", "--json", "packages/x"]).exits(0).json();
    let rows = report["settings"].as_array().expect("rows").iter().filter(|row| row["key"] == key);
    let short = |origin: &str| origin.rsplit("/project/").next().unwrap_or(origin).to_owned();
    rows.map(|row| (row["value"].clone(), short(row["origin"].as_str().expect("an origin")))).collect()
}

fn run_in_package(home: &Home) -> Done {
    let mut command = home.command(&["run", "--json", "--model", "scripted/../../.posse/roots.yaml", "x"]);
    command.current_dir(home.project().join("packages/x"));
    Done::of(command).exits(0)
}

#[test]
fn a_nearer_file_takes_nothing_away_from_those_above_it() {
    for near in ["", "# nothing\n", "agent: {max_dept: 1}\n", "model: [\n", "agent: {max_turns: 99}\n"] {
        let home = repository();
        home.write(NEAR, near);
        assert_eq!(counting(&home, "agent.max_turns"), [(7.into(), format!("{ROOT}:2"))], "{near:?}");
        assert_eq!(counting(&home, "hooks").len(), 1, "{near:?}");
        let done = run_in_package(&home);
        let run = run_of(&done.result());
        let pushing = home.posse(&["explain", &run, "bash:git push"]).stdout;
        assert!(
            pushing.contains("deny: rule `bash:git push*` of the project's settings"),
            "{near:?}: {pushing}"
        );
        let log = home.posse(&["logs", "--json", &run]).stdout;
        assert!(log.contains("guarded"), "{near:?}: the hook was not asked: {log}");
    }
}

#[test]
fn every_file_narrows_and_the_nearest_trusted_one_chooses() {
    let home = repository();
    let near = "\
model: scripted/near.yaml
agent: {max_turns: 5, max_agents: 3}
rules: [{pattern: 'bash:**', decision: allow}, {pattern: 'read:secret', decision: deny}]
hooks: {PreToolUse: [{hooks: [{type: command, command: 'true'}]}]}
";
    home.write(NEAR, near);
    let turns = [(5.into(), format!("{NEAR}:2"))];
    let origins = |key: &str| counting(&home, key).into_iter().map(|(_, origin)| origin).collect::<Vec<_>>();
    assert_eq!(counting(&home, "agent.max_turns"), turns, "an untrusted file narrows");
    assert_eq!(origins("model"), [format!("{ROOT}:1")], "and chooses nothing");
    assert_eq!(origins("rules"), [format!("{NEAR}:3"), format!("{ROOT}:3")]);
    assert_eq!(origins("hooks"), [format!("{ROOT}:4")]);
    let run = run_of(&run_in_package(&home).result());
    let explain = |operation: &str| home.posse(&["explain", &run, operation]).stdout;
    let pushing = explain("bash:git push");
    assert!(
        pushing.contains("deny: rule `bash:git push*` of the project's settings"),
        "not opened: {pushing}"
    );
    let reading = explain("read:secret");
    assert!(reading.contains("deny: rule `read:secret` of the project's settings"), "{reading}");

    home.posse(&["trust", "--yes", "packages/x"]).exits(0);
    assert_eq!(origins("model"), [format!("{NEAR}:1")]);
    assert_eq!(origins("hooks"), [format!("{ROOT}:4"), format!("{NEAR}:4")], "all are asked");
    assert_eq!(counting(&home, "agent.max_turns"), turns);
    home.write(NEAR, &near.replace("max_turns: 5", "max_turns: 9"));
    home.posse(&["trust", "--yes", "packages/x"]).exits(0);
    assert_eq!(counting(&home, "agent.max_turns"), [(7.into(), format!("{ROOT}:2"))], "the smallest counts");

    let shown = home.posse(&["settings", "packages/x"]).exits(0).stdout;
    for part in
        [format!("{NEAR} (trusted)"), format!("{ROOT} (trusted)"), format!("{ROOT}:2 is used instead")]
    {
        assert!(shown.contains(&part), "{part}: {shown}");
    }
}

#[test]
fn a_project_s_files_lower_the_depth_and_the_ceiling_and_raise_neither() {
    for trusted in [false, true] {
        for key in ["agent.max_depth", "agent.max_orchestration_depth"] {
            let home = Home::new();
            home.write(".git/HEAD", "ref: refs/heads/main\n");
            let name = key.rsplit('.').next().expect("a name");
            let value = |root: u32, near: u32| {
                home.write(ROOT, &format!("agent: {{{name}: {root}}}\n"));
                home.write(NEAR, &format!("agent: {{{name}: {near}}}\n"));
                if trusted {
                    home.posse(&["trust", "--yes", "packages/x"]).exits(0);
                }
                let (value, origin) = counting(&home, key).remove(0);
                (value.as_u64().expect("a depth"), origin)
            };
            let default = value(9, 9);
            assert_eq!(default.1, "default", "{key} {trusted}: neither raises it");
            assert_eq!(value(1, 9), (1, format!("{ROOT}:1")), "{key} {trusted}");
            assert_eq!(value(9, 1), (1, format!("{NEAR}:1")), "{key} {trusted}");
            assert_eq!(value(1, 0), (0, format!("{NEAR}:1")), "{key} {trusted}");
        }
    }
}
