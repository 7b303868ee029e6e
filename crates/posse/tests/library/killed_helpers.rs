//! Helpers that are killed while a child's finished work is integrated: the work survives, and no agent is blamed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{Budget, NewRun, Posse, WorkspaceOptions, WorkspaceSettings};
use serde_json::json;

/// Git commands that run between a child's first call and the branch in the user's repository.
const COMMANDS: &[&str] = &["pack-objects", "rev-list", "config"];
/// How often each command is killed before it may succeed.
const KILLS: usize = 3;

/// A git whose calls of one command are killed a few times: before they did anything, or after they have done it.
fn deadly_git(dir: &Path, command: &str, when: &str) -> PathBuf {
    let (kills, shim) = (dir.join("kills"), dir.join("git"));
    fs::write(&kills, "").unwrap();
    let text = format!(
        "#!/bin/bash\nwords=\" $* \"\nif [ -e {armed} ] && [[ $words == *\" {command} \"* ]] && [ $(wc -l < {kills}) -lt {KILLS} ]; then\n\
         echo x >> {kills}\n[ {when} = after ] && git \"$@\"\nkill -9 $$\nfi\nexec git \"$@\"\n",
        armed = dir.join("armed").display(),
        kills = kills.display(),
    );
    fs::write(&shim, text).unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    shim
}

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args).current_dir(dir);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn finished_work_survives(command: &'static str, when: &'static str) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let (project, armed) = (dir.path().join("project"), dir.path().join("armed"));
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("a"), "one\n").unwrap();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "one"]);
    let told = Arc::new(Mutex::new(String::new()));
    let heard = told.clone();
    let model =
        FnModel::new(move |request: &posse::ports::ModelRequest| match (request.depth, request.turn) {
            (0, 1) => {
                let input = json!({"subagent_type": "general", "description": "write it", "prompt": "write"});
                ScriptedAnswer::text("").calls([ScriptedCall::new("task", input)])
            }
            (1, 1) => {
                // From here on the work exists, and helpers are killed.
                fs::write(&armed, "").unwrap();
                ScriptedAnswer::text("").calls([
                    ScriptedCall::new("write", json!({"path": "b", "content": "two\n"})),
                    // This prepares what the command needs of git, whether or not a sandbox is available here.
                    ScriptedCall::new("bash", json!({"command": "true"})),
                ])
            }
            (1, 2) => {
                *heard.lock().unwrap() = format!("{request:?}");
                ScriptedAnswer::text("done")
            }
            _ => ScriptedAnswer::text("done"),
        });
    let options =
        WorkspaceOptions { git: deadly_git(dir.path(), command, when), ..WorkspaceOptions::default() };
    let posse = Posse::builder()
        .state_dir(dir.path().join("state"))
        .workspaces(WorkspaceSettings { options, ..WorkspaceSettings::default() })
        .model("mock/m", model)
        .open()
        .unwrap();
    let new = NewRun::new("Do it.").model("mock/m").dir(&project).budget(Budget::NONE);
    let run = posse.start(new).await.unwrap();
    let finished = posse.wait(run.id()).await.unwrap();
    let what = format!("{command}, killed {when}");
    assert_eq!(
        (finished.status, finished.failed.len()),
        (posse::RunStatus::Completed, 0),
        "{what}: {finished:?}"
    );
    let result = finished.result.unwrap_or_else(|| panic!("{what}: no result"));
    assert_eq!(result.problem, None, "{what}");
    assert_eq!(git(&project, &["show", &format!("posse/{}:b", run.id())]), "two\n", "{what}");
    let told = told.lock().unwrap().clone();
    assert!(told.contains("bash") && !told.contains("was killed"), "{what}: {told}");
    posse.verify(run.id()).await.unwrap();
    fs::read_to_string(dir.path().join("kills")).unwrap().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_git_that_is_killed_while_work_is_integrated_loses_none_of_it() {
    let mut runs = tokio::task::JoinSet::new();
    for command in COMMANDS {
        for when in ["before", "after"] {
            runs.spawn(finished_work_survives(command, when));
        }
    }
    let kills = runs.join_all().await;
    let killed = kills.iter().filter(|kills| **kills == KILLS).count();
    // A command that is never called proves nothing.
    assert!(killed == 2 * COMMANDS.len(), "{kills:?}");
}
