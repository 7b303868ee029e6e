//! `posse doctor`: what a machine offers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Done, Home, run_of};

#[test]
fn a_machine_with_a_sandbox_is_well() {
    let home = Home::new();
    let done = home.posse(&["doctor", "--json"]).exits(0);
    let report = done.json();
    assert_eq!((&report["version"], &report["ok"]), (&json!(1), &json!(true)));
    assert!(report["sandbox"].as_str().is_some_and(|level| level.starts_with("namespaces")), "{report}");
    let names: Vec<&str> =
        report["checks"].as_array().expect("checks").iter().filter_map(|row| row["name"].as_str()).collect();
    for name in
        ["sandbox", "landlock", "seccomp", "cgroups", "git", "sqlite", "state directory", "model providers"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!home.state_dir().exists(), "looking makes nothing");
    let text = home.posse(&["doctor"]).exits(0).stdout;
    assert!(text.contains("ok       sandbox          namespaces"), "{text}");
}

#[test]
fn hooks_are_counted_by_where_they_are_written() {
    const ONE: &str = "{hooks: [{type: command, command: 'true'}]}";
    let home = Home::new();
    let row = || {
        let report = home.posse(&["doctor", "--json"]).json();
        let rows = report["checks"].as_array().expect("checks");
        rows.iter().find(|row| row["name"] == "hooks").expect("a row").clone()
    };
    assert_eq!((&row()["status"], &row()["value"]), (&json!("ok"), &json!("none")));
    home.write_settings(&format!("hooks: {{PreToolUse: [{ONE}], SubagentStop: [{ONE}]}}\n"));
    let project = home.write(".posse/settings.yaml", &format!("hooks: {{PostToolUse: [{ONE}]}}\n"));
    let project = project.canonicalize().expect("a path").display().to_string();
    let own = row()["value"].as_str().expect("text").to_owned();
    assert!(own.starts_with("2 of ") && own.contains("settings.yaml; not trusted"), "{own}");
    assert!(own.ends_with(&format!("; not trusted, so not run: 1 of {project}")), "{own}");
    home.posse(&["trust", "--yes"]).exits(0);
    let both = row()["value"].as_str().expect("text").to_owned();
    assert!(both.ends_with(&format!(", 1 of {project}")) && !both.contains("not trusted"), "{both}");
    home.write_settings("hooks: {PreToolUse: [{matcher: Bahs, hooks: [{type: command, command: x}]}]}\n");
    assert_eq!(row()["status"], "note");
    assert!(row()["remedy"].as_str().is_some_and(|told| told.contains("unknown tool `Bahs`")), "{}", row());
    home.write_settings("hooks: {PreToolUse: [{matcher: '(', hooks: [{type: command, command: x}]}]}\n");
    assert_eq!(row()["value"], "not checked: fix the settings first", "{}", row());
}

#[test]
fn keys_are_named_and_never_shown() {
    let home = Home::new();
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        let mut command = home.command(args);
        let output =
            command.env("ANTHROPIC_API_KEY", "sk-CANARY").env("OPENAI_API_KEY", "").output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("anthropic (ANTHROPIC_API_KEY, https://api.anthropic.com)"), "{text}");
        assert!(!text.contains("CANARY"), "{text}");
    }
}

/// The command on a machine without namespaces: inside one whose limit is zero. Its run makes the call `command`.
fn without_namespaces(home: &Home, command: &str, args: &[&str]) -> Done {
    let call = json!({"name": "bash", "input": {"command": command}});
    let script = json!([
        {"when": {"turn": 1}, "reply": {"text": "go", "tool_calls": [call]}},
        {"when": {}, "reply": {"text": "done"}},
    ]);
    home.write("../script.yaml", &script.to_string());
    home.without_namespaces(args)
}

const RUN: [&str; 5] = ["run", "--json", "--model", "scripted/../script.yaml", "x"];

/// The first tool result among the events of a run.
fn first_result(done: &Done) -> Value {
    let mut finished = done.json_lines().into_iter().filter(|event| event["kind"] == "agent.tool_finished");
    finished.next().unwrap_or_else(|| panic!("no result: {done:?}"))["detail"].clone()
}

#[test]
fn a_machine_without_namespaces_refuses_commands_and_says_what_to_do() {
    let home = Home::new();
    let doctor = without_namespaces(&home, "true", &["doctor"]).exits(1).stdout;
    let missing = "MISSING  sandbox          none, so `bash` is refused: making the namespaces failed";
    assert!(doctor.contains(missing), "{doctor}");
    let done = without_namespaces(&home, "echo made > made", &RUN).exits(0);
    let text = first_result(&done)["output"].to_string();
    assert!(text.contains("UNSUPPORTED: No command was run: the sandbox cannot be made"), "{text}");
    assert!(!done.stdout.contains("\"agent.tool_intended\""), "nothing was intended: {done:?}");
    assert!(!home.made(&run_of(&done.json_lines()[0]), "made"));
    // The run completed, but a command in it was not run: the last lines say so.
    let run = ["run", "--model", "scripted/../script.yaml", "x"];
    let said = without_namespaces(&home, "echo made > made", &run).exits(0).stderr;
    assert!(said.contains("1 operation was refused; posse logs "), "{said}");
    assert!(said.contains(": bash (No command was run: the sandbox cannot be made"), "{said}");
    assert!(said.contains("\n  posse doctor says what this machine lacks for commands\n"), "{said}");
}

/// A variable with a wrong name is no problem of a file.
#[test]
fn the_doctor_says_which_variable_is_wrong() {
    let home = Home::new();
    home.set("POSSE_STATE_DIR", "/somewhere");
    let doctor = home.posse(&["doctor"]).exits(1).stdout;
    assert!(doctor.contains("MISSING  settings         POSSE_STATE_DIR: unknown setting"), "{doctor}");
    assert!(!doctor.contains("fix or remove the file"), "{doctor}");
}

/// A user who requests weaker isolation gets it, with a list of what is missing.
#[test]
fn landlock_alone_is_for_those_who_ask_and_the_doctor_lists_what_it_lacks() {
    let home = Home::new();
    home.write_settings("sandbox: {level: landlock}\n");
    let secret = home.write("../secret", "secret\n");
    let open = home.write("../open/kept", "").parent().expect("a folder").to_owned();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("open to all");
    let doctor = without_namespaces(&home, "true", &["doctor"]).exits(0).stdout;
    assert!(doctor.contains("note     sandbox          no-namespaces landlock-"), "{doctor}");
    assert!(doctor.contains("- protected names that exist in the workspace can be changed"), "{doctor}");
    // A program that exists nowhere else on the machine.
    let sleeper = format!("sleep 1000.{}", std::process::id());
    let command = format!(
        "echo made > made; echo x > $TMPDIR/mine && cat $TMPDIR/mine; cat {}; echo x > {}/out; echo x > ../out; ls /tmp; \
         echo y > /dev/tcp/127.0.0.1/9; setsid -f {sleeper}; ({sleeper} &); exit 4",
        secret.display(),
        open.display()
    );
    let done = without_namespaces(&home, &command, &RUN).exits(0);
    assert!(done.stdout.contains("\"sandbox\":\"no-namespaces landlock-"), "{done:?}");
    let result = first_result(&done);
    let text = result["output"].as_str().expect("an output");
    assert!(text.starts_with("x\n") && text.ends_with("[exit code 4]"), "{text}");
    assert_eq!(text.matches("Permission denied").count(), 4, "{text}");
    assert!(text.contains("Operation not permitted") && !text.contains("secret\n"), "{text}");
    // Files were created only in the workspace, nothing is left, and no program continues.
    assert!(home.made(&run_of(&done.json_lines()[0]), "made"));
    assert_eq!(fs::read_dir(&open).expect("a folder").count(), 1);
    let beside = fs::read_dir(home.project().parent().expect("a folder")).expect("a folder").flatten();
    let names: Vec<String> = beside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.starts_with("posse-")), "{names:?}");
    let running = fs::read_dir("/proc").expect("processes").flatten();
    let goes_on = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(&sleeper)
    };
    assert_eq!(running.filter(goes_on).count(), 0);
}

/// The row of a check.
fn row(home: &Home, name: &str) -> Value {
    let report = home.posse(&["doctor", "--json"]).json();
    let rows = report["checks"].as_array().expect("checks");
    rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null).clone()
}

#[test]
fn settings_that_cannot_work_are_found() {
    let home = Home::new();
    let note = |name: &str, field: &str, part: &str| {
        let row = row(&home, name);
        assert_eq!(row["status"], "note", "{row}");
        assert!(row[field].as_str().is_some_and(|text| text.contains(part)), "{part}: {row}");
    };
    home.write_settings("providers: {own: {key: abc}}\n");
    note("model providers", "remedy", "`own` has no base URL");
    home.write_settings("providers: {own: {base_url: 'http://127.0.0.1:9/v1', key_env: OWN_KEY}}\n");
    note("model providers", "remedy", "own needs an API key");
    home.write_settings("sandbox: {read: [/nowhere/at/all, /usr]}\n");
    note("sandbox.read", "value", "these paths do not exist: /nowhere/at/all");
    home.write_settings("hooks: {PreToolUse: [{hooks: [{type: command, command: './none.sh --all'}]}]}\n");
    note("hooks", "remedy", "`./none.sh` does not exist");
    home.write_settings(
        "hooks: {PreToolUse: [{hooks: [{type: command, command: 'cat | bash hooks/none.sh --all'}]}]}\n",
    );
    note("hooks", "remedy", "`hooks/none.sh` does not exist");
    home.write_settings("search: {provider: searxng, url: 'http://127.0.0.1:9'}\n");
    note("web search", "value", "http://127.0.0.1:9 does not answer");
    home.write_settings("sandbox: {env: [DEPLOY_TOKEN]}\n");
    let settings = row(&home, "settings");
    assert_eq!(settings["status"], "missing", "{settings}");
    assert!(
        settings["value"]
            .as_str()
            .is_some_and(|text| text.contains("`DEPLOY_TOKEN` is the name of a secret"))
    );
    home.write_settings("");
    home.set("OPENAI_API_KEY", "");
    note("model providers", "remedy", "OPENAI_API_KEY is set, but empty");
}
