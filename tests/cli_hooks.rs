//! A user's hooks: real scripts that are called on operations of agents, and that object, hang, flood, and try what
//! they may not.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Done, Home, run_of};

/// A root that makes these calls, one per turn, and ends; its children answer at once.
fn script(calls: &[(&str, Value)]) -> String {
    let mut rules = vec![json!({"when": {"depth": 1}, "reply": {"text": "found nothing"}})];
    for (turn, (tool, input)) in calls.iter().enumerate() {
        let call = json!({"name": tool, "input": input});
        rules.push(json!({"when": {"turn": turn + 1}, "reply": {"text": "next", "tool_calls": [call]}}));
    }
    rules.push(json!({"when": {}, "reply": {"text": "all done"}}));
    // JSON is YAML.
    Value::from(rules).to_string()
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({"path": path, "content": content}))
}

const RUN: [&str; 5] = ["run", "--json", "--model", "scripted/../script.yaml", "do it"];

/// A home whose settings have one hook, a script in the home directory.
fn home(calls: &[(&str, Value)], moment: &str, hook: &Value, text: &str) -> Home {
    let home = Home::new();
    home.write("../script.yaml", &script(calls));
    home.write("../hooks/hook.sh", text);
    let settings = json!({"hooks": {moment: [hook]}});
    home.write_settings(&settings.to_string());
    home
}

/// A hook for these tools or sub-agents, by the usual script.
fn hook(matcher: &str) -> Value {
    json!({"matcher": matcher, "hooks": [{"type": "command", "command": "bash ~/hooks/hook.sh", "timeout": 30}]})
}

fn events(done: &Done, kind: &str) -> Vec<Value> {
    done.json_lines().into_iter().filter(|event| event["kind"] == kind).collect()
}

/// The results of all calls: whether each succeeded, and its text.
fn results(done: &Done) -> Vec<(bool, String)> {
    let result = |event: &Value| {
        let detail = &event["detail"];
        (detail["ok"] == true, detail["output"].as_str().expect("an output").to_owned())
    };
    events(done, "agent.tool_finished").iter().map(result).collect()
}

/// The answer to the only call, which was denied.
fn refused(done: &Done) -> String {
    let (ok, text) = results(done).remove(0);
    assert!(!ok && text.starts_with("PERMISSION_DENIED: "), "{text}");
    text
}

/// Whether a process of this machine was started with such an argument.
fn is_alive(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.into_iter().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    })
}

#[test]
fn a_script_denies_one_command_and_lets_the_others_go() {
    let text = "input=$(cat)\n\
                case $input in *'\"tool_name\":\"Bash\"'*) ;; *) exit 1 ;; esac\n\
                case $input in *'git push'*) echo 'no pushing from here' >&2; exit 2 ;; esac\n";
    let calls = [bash("echo one"), bash("git push origin"), bash("echo two")];
    let done = home(&calls, "PreToolUse", &hook("Bash|Write"), text).posse(&RUN).exits(0);
    let results = results(&done);
    assert!(results[0].0 && results[2].0, "{results:?}");
    assert!(!results[1].0 && results[1].1.starts_with("PERMISSION_DENIED: "), "{results:?}");
    assert!(results[1].1.contains("no pushing from here"), "{results:?}");
    let decided = events(&done, "agent.permission_decided");
    assert_eq!(decided.len(), 1);
    assert_eq!(
        (&decided[0]["detail"]["layer"], &decided[0]["detail"]["operation"]),
        (&json!("hook"), &json!("bash:git push origin"))
    );
    assert_eq!(events(&done, "agent.tool_intended").len(), 2, "what was denied did not begin");
}

#[test]
fn a_script_reads_what_it_would_elsewhere() {
    // Also from standard input as a file: some scripts read it by name.
    let text = "cat /dev/stdin >&2; echo \"$CLAUDE_PROJECT_DIR $PWD\" >&2; exit 2";
    let home = home(&[write("src/a.txt", "text")], "PreToolUse", &hook("Write"), text);
    home.not_replayed("its hook tells the model the run's id");
    let done = home.posse(&RUN).exits(0);
    let said = refused(&done);
    let told = &said[said.find('{').expect("JSON")..];
    let mut told = serde_json::Deserializer::from_str(told).into_iter::<Value>();
    let (told, rest) =
        (told.next().expect("a value").expect("JSON"), &said[said.rfind('}').expect("JSON")..]);
    let run = run_of(&done.json_lines()[0]);
    assert_eq!(told["session_id"], json!(run));
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!((&told["tool_name"], &told["posse_tool"]), (&json!("Write"), &json!("write")));
    assert_eq!(told["cwd"], "/workspace");
    assert_eq!(told["tool_input"]["file_path"], "/workspace/src/a.txt");
    assert_eq!((&told["tool_input"]["content"], &told["depth"]), (&json!("text"), &json!(0)));
    assert!(rest.contains("/workspace /workspace"), "{rest}");
}

#[test]
fn answers_in_json_deny_and_never_widen() {
    let text = r#"
case $(cat) in
  *'echo a'*) echo '{"decision": "block", "reason": "blocked"}' ;;
  *'echo b'*) echo '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "denied"}}' ;;
  *'echo c'*) echo '{"continue": false, "stopReason": "stopped"}' ;;
  *'echo d'*) echo '{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "asked"}}' ;;
  *'echo e'*) echo '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "false"}}}' ;;
  *'echo f'*) echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}' ;;
  *'echo g'*) echo 'I looked at it.' ;;
  *'echo h'*) exit 3 ;;
esac
"#;
    let calls: Vec<_> = "abcdefgh".chars().map(|name| bash(&format!("echo {name}"))).collect();
    let home = home(&calls, "PreToolUse", &hook("*"), text);
    let run = [&RUN[..4], &["--deny", "bash:echo f", "do it"]].concat();
    let results = results(&home.posse(&run).exits(0));
    for (number, reason) in ["blocked", "denied", "stopped", "asked"].into_iter().enumerate() {
        assert!(!results[number].0 && results[number].1.contains(reason), "{results:?}");
    }
    assert_eq!(results[4], (true, "e\n[exit code 0]".to_owned()), "its input stays what it was");
    assert!(!results[5].0 && results[5].1.contains("deny: run"), "a yes lifts no rule: {results:?}");
    assert!(results[6].0 && results[7].0, "{results:?}");
}

#[test]
fn a_hooks_question_is_answered_by_a_person_alone_and_with_what_the_hook_said() {
    let text = r#"echo '{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "is it Friday"}}'"#;
    let home = home(&[bash("echo x")], "PreToolUse", &hook("Bash"), text);
    let said = refused(&home.posse(&[&RUN[..4], &["--allow", "bash:echo x", "do it"]].concat()).exits(0));
    assert!(said.contains("is it Friday") && said.contains("in a run that escalates questions"), "{said}");
    assert!(!said.contains("in advance"), "an approval does not help: {said}");

    let mut going = home.start(&[&RUN[..4], &["--on-ask", "escalate", "--ask", "bash", "do it"]].concat());
    let asked = going.until_event("", "agent.input_requested");
    assert_eq!(asked["detail"]["reason"], "is it Friday", "{asked}");
    let approved = home.posse(&["approve", "--yes", &run_of(&asked)]).exits(0);
    assert!(approved.stderr.contains("approval required by hook: is it Friday"), "{}", approved.stderr);
    let done = going.finish().exits(0);
    assert_eq!(results(&done), [(true, "x\n[exit code 0]".to_owned())]);
}

#[test]
fn an_edit_after_a_hook_that_formats_says_what_to_do() {
    let edit = ("edit", json!({"path": "a.txt", "old_text": "TEXT", "new_text": "MORE"}));
    let calls = [write("a.txt", "text\n"), edit.clone(), ("read", json!({"path": "a.txt"})), edit];
    let text = "cat > /dev/null; tr a-z A-Z < a.txt > t && mv t a.txt";
    let done = home(&calls, "PostToolUse", &hook("Write"), text).posse(&RUN).exits(0);
    let results = results(&done);
    assert!(
        !results[1].0 && results[1].1.contains("a hook") && results[1].1.contains("Read it again"),
        "{results:?}"
    );
    assert!(results[3].0, "{results:?}");
}

#[test]
fn a_hook_that_breaks_down_is_passed_over_and_seen_once_in_a_run() {
    let calls = [bash("echo x"), bash("echo y")];
    for (moment, code) in [("PreToolUse", 3), ("PostToolUse", 127)] {
        let text = format!("echo 'jq: parse error' >&2; exit {code}");
        let done = home(&calls, moment, &hook("Bash"), &text).posse(&RUN).exits(0);
        assert!(results(&done).iter().all(|(ok, _)| *ok), "{done:#?}");
        let failed = format!("settings.yaml:1 ({moment}) failed and was passed over: exit code {code}");
        assert_eq!(done.stderr.matches(&failed).count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains("jq: parse error"), "{}", done.stderr);
    }
    let fine = home(&calls, "PreToolUse", &hook("Bash"), "exit 0").posse(&RUN).exits(0);
    assert!(!fine.stderr.contains("the hook of"), "{}", fine.stderr);
}

#[test]
fn a_hook_that_cannot_be_heard_at_a_gate_is_seen_once_in_a_run() {
    let task = json!({"subagent_type": "explore", "description": "look around", "prompt": "look"});
    let calls = [bash("echo x"), bash("echo y"), ("task", task)];
    for (moment, matcher, follows) in [
        ("PreToolUse", "Bash", "calls that it matches are refused"),
        ("SubagentStart", "Explore", "sub-agents that it matches do not start"),
        ("SubagentStop", "explore", "the work of sub-agents that it matches is not integrated"),
    ] {
        let done = home(&calls, moment, &hook(matcher), "exit 127").posse(&RUN).exits(0);
        let failed = format!("settings.yaml:1 ({moment}) gave no usable answer, so {follows}: exit code 127");
        assert_eq!(done.stderr.matches(&failed).count(), 1, "{}", done.stderr);
    }
}

#[test]
fn a_script_in_a_folder_with_a_blank_in_its_name_is_shown_to_its_hook() {
    for command in [r#""$HOME/my hooks/check.sh""#, r"~/my\ hooks/check.sh"] {
        let hook =
            json!({"matcher": "Bash", "hooks": [{"type": "command", "command": format!("bash {command}")}]});
        let home = home(&[bash("echo x")], "PreToolUse", &hook, "");
        home.write("../my hooks/check.sh", "echo 'looked at' >&2; exit 2");
        let said = refused(&home.posse(&RUN).exits(0));
        assert!(said.contains("looked at"), "{said}");
    }
}

#[test]
fn a_hook_for_task_hears_of_every_way_to_start_a_sub_agent() {
    let skill = |name: &str, more: &str| {
        (
            format!("../.config/posse/skills/{name}/SKILL.md"),
            format!("---\nname: {name}\ndescription: d\n{more}---\nDo it.\n"),
        )
    };
    let task = json!({"subagent_type": "explore", "description": "look around", "prompt": "look"});
    let calls = [
        ("skill", json!({"name": "inline"})),
        ("task", task),
        ("skill", json!({"name": "Forked", "arguments": "x"})),
        ("delegate_to_agent", json!({"skill_name": "forked", "task": "go"})),
    ];
    let text = "case $(cat) in *'\"tool_name\":\"Task\"'*'\"prompt\":'*) echo 'a task' >&2 ;;\n\
                *'\"tool_name\":\"Skill\"'*) echo 'a skill' >&2 ;; esac; exit 2";
    for matcher in ["Task", "Agent", "task", "^Ta.k$"] {
        let home = home(&calls, "PreToolUse", &hook(matcher), text);
        for (path, text) in [skill("inline", ""), skill("forked", "context: fork\n")] {
            home.write(&path, &text);
        }
        let done = home.posse(&RUN).exits(0);
        let results = results(&done);
        assert!(results[0].0, "one that is taken in starts nobody: {results:?}");
        for (at, said) in [(1, "a task"), (2, "a skill")] {
            assert!(!results[at].0 && results[at].1.contains(said), "{matcher}: {results:?}");
        }
        assert!(results[3].1.contains("a task"), "{matcher}: {results:?}");
        assert!(events(&done, "agent.subagent_created").is_empty());
    }
}

#[test]
fn a_hook_that_takes_too_long_or_is_not_there_denies() {
    let text = "(setsid sleep 7351.41 &); sleep 600";
    let mut slow = hook("bash");
    slow["hooks"][0]["timeout"] = json!(1);
    let done = home(&[bash("echo x")], "PreToolUse", &slow, text).posse(&RUN).exits(0);
    let said = refused(&done);
    assert!(said.contains("longer than 1 s") && said.contains("settings.yaml:1"), "{said}");
    assert!(!is_alive("7351.41"), "what it started goes with it");
    let mut absent = hook("bash");
    absent["hooks"][0]["command"] = json!("./nowhere/check.sh");
    let said = refused(&home(&[bash("echo x")], "PreToolUse", &absent, "").posse(&RUN).exits(0));
    assert!(said.contains("exit code 127") && said.contains("sandbox.read"), "{said}");
    let said =
        refused(&home(&[bash("echo x")], "PreToolUse", &hook("bash"), "kill -9 $$").posse(&RUN).exits(0));
    assert!(said.contains("signal 9"), "{said}");
}

#[test]
fn what_a_hook_leaves_running_dies_with_it() {
    let text = "setsid sleep 7352.42 > /dev/null 2>&1 & disown; exit 0";
    let done = home(&[bash("echo x")], "PreToolUse", &hook("bash"), text).posse(&RUN).exits(0);
    assert_eq!(results(&done), [(true, "x\n[exit code 0]".to_owned())]);
    assert!(!is_alive("7352.42"));
}

#[test]
fn a_hook_has_no_network_and_changes_no_files_before_a_call() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    let text = format!(
        "cat > /dev/null\n\
         (echo hi > /dev/tcp/127.0.0.1/{port}) 2> /dev/null && echo connected >&2\n\
         for file in ~/made /workspace/made /etc/made \"$(dirname \"$0\")/made\"; do (echo x > $file) 2> /dev/null; done\n\
         (echo x > kept.txt) 2> /dev/null && echo changed >&2\n\
         ls ~/.config ~/state >&2\n\
         cat kept.txt >&2; echo x > /tmp/own && echo 'scratch is its own' >&2; exit 2\n"
    );
    let home = home(&[bash("echo x")], "PreToolUse", &hook("bash"), &text);
    home.write("kept.txt", "as it was\n");
    let said = refused(&home.posse(&RUN).exits(0));
    assert!(said.contains("as it was") && said.contains("scratch is its own"), "{said}");
    assert!(
        !said.contains("connected") && !said.contains("changed") && !said.contains("settings.yaml"),
        "{said}"
    );
    assert!(listener.accept().is_err(), "nobody came");
    for made in ["made", "../made", "../hooks/made"] {
        assert!(!home.project().join(made).exists(), "{made}");
    }
    assert!(!std::path::Path::new("/etc/made").exists());
}

#[test]
fn without_namespaces_a_hook_reads_its_input_and_changes_nothing_either() {
    let text = "case $(cat) in *Bash*) ;; *) exit 0 ;; esac; (echo x > kept.txt) 2> /dev/null && echo changed >&2\n\
                cat kept.txt >&2; exit 2";
    let home = home(&[bash("echo x")], "PreToolUse", &hook("bash"), text);
    home.write("kept.txt", "as it was\n");
    // There programs have another home directory, so the script is named by its whole path.
    let mut whole = hook("bash");
    let script = home.project().join("../hooks/hook.sh").canonicalize().expect("a script");
    whole["hooks"][0]["command"] = json!(format!("bash {}", script.display()));
    let settings = json!({"sandbox": {"level": "landlock"}, "hooks": {"PreToolUse": [whole]}});
    home.write_settings(&settings.to_string());
    let said = refused(&home.without_namespaces(&RUN).exits(0));
    assert!(said.contains("as it was") && !said.contains("changed"), "{said}");
}

#[test]
fn a_flood_is_bounded_and_no_answer() {
    let text = "head -c 200000000 /dev/zero | tr '\\0' ' ' >&2; printf '{\"decision\": \"approve\", \"x\": \"'\n\
                head -c 200000000 /dev/zero | tr '\\0' 'y'; printf '\"}'";
    let home = home(&[bash("echo x")], "PreToolUse", &hook("bash"), text);
    let said = refused(&home.posse(&RUN).exits(0));
    assert!(said.contains("its answer is longer than 65536 bytes") && said.len() < 10_000, "{said}");
}

#[test]
fn a_hook_after_a_write_formats_the_file_and_tells_the_model_what_is_wrong() {
    let text = "cat > /dev/null; tr a-z A-Z < a.txt > t && mv t a.txt; echo 'write in capitals' >&2; exit 2";
    let home = home(&[write("a.txt", "text\n")], "PostToolUse", &hook("Write|Edit"), text);
    let done = home.posse(&RUN).exits(0);
    let results = results(&done);
    assert!(results[0].0 && !results[0].1.contains("capitals"), "the result stays what it was: {results:?}");
    let said = events(&done, "agent.message_received");
    assert_eq!(said.len(), 1);
    let text = said[0]["detail"]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("A hook objects to what `write` did") && text.ends_with("write in capitals"),
        "{text}"
    );
    let run = run_of(&said[0]);
    assert_eq!(home.result_file(&run, "a.txt").as_deref(), Some("TEXT\n"));
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_sub_agent_is_kept_from_starting_and_from_being_integrated() {
    let task = json!({"subagent_type": "explore", "description": "look around", "prompt": "look"});
    let calls = [("task", task)];
    // A replay has another id and folder, which the model does not see here.
    let text = r#"sed -E 's/"(session_id|agent_id|run_id|cwd)":"[^"]*"/"\1":""/g' >&2; exit 2"#;
    let starting = home(&calls, "SubagentStart", &hook("explore"), text);
    let done = starting.posse(&RUN).exits(0);
    let said = refused(&done);
    assert!(
        said.contains(r#""hook_event_name":"SubagentStart""#) && said.contains(r#""agent_type":"explore""#),
        "{said}"
    );
    let failed = &events(&done, "agent.subagent_failed")[0]["detail"];
    assert_eq!((&failed["kind"], &failed["code"]), (&json!("policy"), &json!("PERMISSION_DENIED")));
    assert!(events(&done, "agent.subagent_started").is_empty());

    let stopping = home(&calls, "SubagentStop", &hook(""), text);
    let done = stopping.posse(&RUN).exits(0);
    let (ok, said) = results(&done).remove(0);
    assert!(!ok && said.starts_with("CHECKS_FAILED: "), "{said}");
    assert!(said.contains("last_assistant_message") && said.contains("found nothing"), "{said}");
    assert_eq!(events(&done, "agent.integration_failed").len(), 1);

    let done = home(&calls, "SubagentStop", &hook("general"), text).posse(&RUN).exits(0);
    assert!(results(&done)[0].0, "a hook for other sub-agents does not hear of it");
}

#[test]
fn a_cancel_ends_a_hook_and_all_that_it_started() {
    let home =
        home(&[bash("echo x")], "PreToolUse", &hook("bash"), "(setsid sleep 7353.43 &); sleep 7353.43");
    home.not_replayed("how far a hook had come that somebody ended is not in the record");
    let mut going = home.start(&RUN);
    let run = run_of(&going.until_event("", "agent.model_replied"));
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !is_alive("7353.43") {
        assert!(std::time::Instant::now() < until, "the hook does not start");
        std::thread::yield_now();
    }
    home.posse(&["cancel", &run]).exits(0);
    let done = going.finish().exits(3);
    assert!(!is_alive("7353.43"));
    assert!(
        events(&done, "agent.tool_intended").is_empty()
            && events(&done, "agent.permission_decided").is_empty()
    );
}

#[test]
fn hooks_that_cannot_be_are_a_mistake_before_anything_starts() {
    for (hook, part) in [
        (json!({"matcher": "(", "hooks": [{"type": "command", "command": "x"}]}), "the matcher `(`"),
        (
            json!({"matcher": "|", "hooks": [{"type": "command", "command": "x"}]}),
            "the matcher `|` names nothing",
        ),
        (json!({"matcher": "Bash(*)", "hooks": [{"type": "command", "command": "x"}]}), "write `Bash`"),
        (json!({"hooks": [{"type": "command", "command": " "}]}), "the command is empty"),
        (
            json!({"hooks": [{"type": "command", "command": "x", "timeout": 60_000}]}),
            "in seconds, and at most 600",
        ),
    ] {
        let home = home(&[], "PreToolUse", &hook, "");
        let done = home.posse(&RUN).exits(2);
        assert!(
            done.stderr.contains(part) && done.stderr.contains("settings.yaml:1: hooks.PreToolUse"),
            "{done:#?}"
        );
        assert!(done.stdout.is_empty(), "no run began: {done:#?}");
        let shown = home.posse(&["settings"]).exits(2);
        assert!(shown.stderr.contains(part), "{shown:#?}");
        let looked = home.posse(&["doctor"]).exits(1);
        assert!(looked.stdout.contains("MISSING  settings") && looked.stdout.contains(part), "{looked:#?}");
    }
}

#[test]
fn a_matcher_that_names_nothing_is_a_warning_wherever_hooks_are_looked_at() {
    for (moment, matcher, warned) in [
        ("PreToolUse", "Bahs", Some("unknown tool `Bahs`")),
        ("PostToolUse", "Write | BASH", Some("unknown tool `BASH` (did you mean `bash`?)")),
        ("SubagentStart", "explorer", Some("unknown definition `explorer` (did you mean `explore`?)")),
        ("SubagentStop", "mine|explore", None),
        ("PreToolUse", "Edit|MultiEdit|Write|NotebookEdit|delegate_to_agent|mcp__github__get", None),
        ("PreToolUse", "Ba.*|x", None),
        ("PreToolUse", "mcp__.*", None),
        ("SubagentStart", "Explore|^gen", None),
        ("SubagentStop", "EXPLORE|Mine", None),
        ("SubagentStop", "^mien", Some("the expression `^mien` fits the name of no definition")),
        ("PostToolUse", "^Bsh$", Some("the expression `^Bsh$` fits the name of no tool")),
        (
            "PreToolUse",
            "Bash(git push:*)",
            Some(
                "the expression `Bash(git push:*)` fits the name of no tool, so the hook is never called; a matcher \
                 has names alone, with `|` between them: write `Bash`",
            ),
        ),
        (
            "PreToolUse",
            "Bash, Write",
            Some(
                "the expression `Bash, Write` fits the name of no tool, so the hook is never called; a matcher has \
                 names alone, with `|` between them: write `Bash|Write`",
            ),
        ),
        (
            "PreToolUse",
            "Bash(git push:*)|Write",
            Some("the expression `Bash(git push:*)` fits the name of no tool"),
        ),
    ] {
        let home = home(&[], moment, &hook(matcher), "exit 0");
        home.write("../.config/posse/agents/mine.md", "---\ndescription: mine\n---\nDo it.\n");
        let run = home.posse(&RUN).exits(0).stderr;
        let settings = home.posse(&["settings"]).exits(0).stderr;
        let doctor = home.posse(&["doctor"]).exits(0).stdout;
        for said in [run, settings, doctor] {
            match warned {
                Some(warned) => {
                    let whole = format!("settings.yaml:1: hooks.{moment}: {warned}");
                    assert_eq!(said.matches(&whole).count(), 1, "{matcher}: {said}");
                }
                None => assert!(!said.contains("never hears"), "{matcher}: {said}"),
            }
        }
    }
}
