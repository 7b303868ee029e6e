//! A front end without the command: what a server does between a user and a run, with `posse` and `posse-setup` alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use posse::{Answer, Definitions, NewRun, Posse, StoredApproval};
use posse_setup::discovery::DiscoveryResult;
use posse_setup::project_files::ProjectFiles;
use posse_setup::settings::{ResolvedSettings, Settings};
use posse_setup::trust::Trust;
use posse_setup::{Environment, Setup, approvals, hide_state_dir, models};

const SCRIPT: &str = r#"
- when: {turn: 1}
  reply: {text: "", tool_calls: [{name: list, input: {path: "."}}]}
- reply: {text: "done"}
"#;
const HELPER: &str = "---\nname: helper\ndescription: Looks around.\ntools: List\n---\nYou look around.\n";

/// A user with settings, and a project with a definition and settings of its own.
struct User {
    dir: tempfile::TempDir,
    project: PathBuf,
}

impl User {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().canonicalize().expect("a path").join("home");
        let user = Self { dir, project: home.join("project") };
        let script = home.join("script.yaml");
        user.write("script.yaml", SCRIPT);
        user.write(
            ".config/posse/settings.yaml",
            &format!("model: scripted/{}\nagent: {{max_turns: 9}}\n", script.display()),
        );
        user.write("project/.git/HEAD", "ref: refs/heads/main\n");
        user.write("project/.posse/settings.yaml", "agent: {max_turns: 5}\nworkspace: {setup: 'true'}\n");
        user.write("project/.posse/agents/helper.md", HELPER);
        user
    }

    fn home(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("a path").join("home")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    /// What the front end knows about the user: no variable of this process is read.
    fn setup(&self) -> Setup {
        let variables = [("HOME", self.home())].map(|(name, value)| (OsString::from(name), value.into()));
        Setup::new(Environment::new(self.project.clone(), variables))
    }
}

/// A run of the project's helper under the user's settings, as a front end asks for it.
fn request(setup: &Setup, settings: &Settings, dir: &Path, models: &posse::ModelRegistry) -> NewRun {
    let found = DiscoveryResult::load(dir, Some(models), setup).expect("definitions");
    let known = Definitions::builtin_and(found.and_given(&[]));
    let root = known.find("helper").expect("the project's definition");
    let model = settings.model.as_ref().expect("the user's model");
    let model = models::canonical_model(&model.value, dir, models).expect("a model");
    let state_dir = setup.state_dir().expect("a state directory");
    let text = dir.to_str().expect("UTF-8");
    NewRun::new("Look around.")
        .definition("helper")
        .catalogue(found.catalogue(&known, &[], root, None))
        .model(model)
        .dir(dir)
        .base_turns(settings.max_turns.as_ref().and_then(|turns| turns.value.as_u32()))
        .operator_rules(hide_state_dir::closed(settings.rules(), dir, state_dir))
        .project_rules(settings.project_rules())
        .approvals(approvals::load(state_dir, text).expect("approvals"))
}

/// The kinds of a run's events, up to its end.
async fn kinds_to_end(posse: &Posse, run: &posse::RunId) -> Vec<String> {
    let mut events = posse.events(run, 0);
    let mut kinds = Vec::new();
    loop {
        let kind = events.next().await.expect("an event").kind.to_owned();
        let is_end = ["run.completed", "run.failed", "run.cancelled"].contains(&kind.as_str());
        kinds.push(kind);
        if is_end {
            return kinds;
        }
    }
}

#[tokio::test]
async fn a_run_has_the_users_settings_and_the_projects_agent_and_an_answer_of_always_is_stored() {
    let user = User::new();
    let setup = user.setup();
    let resolved = ResolvedSettings::of(&setup, &user.project).expect("settings");
    let settings = resolved.settings;
    assert_eq!(settings.max_turns.as_ref().map(|turns| turns.value.as_u32()), Some(Some(5)), "it narrows");
    let notes = resolved.notes.as_slice();
    assert!(notes.len() == 1 && notes[0].contains("these do not count: workspace.setup"), "{notes:?}");

    let models = models::catalog(&settings, None, &setup).expect("models");
    let asking = request(&setup, &settings, &user.project, &models).attended(true);
    let posse = setup.open(models, &settings).expect("opened");
    let run = posse.start(asking).await.expect("started");
    let mut events = posse.events(run.id(), 0);
    while events.next().await.expect("an event").kind != "agent.input_requested" {}
    let requests = posse.requests(run.id()).await.expect("requests");
    let stored = posse.answer(&requests[0], Answer::Always).await.expect("answered");
    let StoredApproval::Stored { literal, dir } = stored else { panic!("{stored:?}") };
    assert_eq!((literal.as_str(), Path::new(&dir)), ("list:.", user.project.as_path()));
    assert_eq!(posse.wait(run.id()).await.expect("an outcome").text, "done");

    let models = models::catalog(&settings, None, &setup).expect("models");
    let again = request(&setup, &settings, &user.project, &models);
    let run = posse.start(again).await.expect("started");
    let kinds = kinds_to_end(&posse, run.id()).await;
    assert!(!kinds.iter().any(|kind| kind == "agent.input_requested"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("run.completed"));
}

#[tokio::test]
async fn what_the_user_trusts_counts_and_asks_no_more() {
    let user = User::new();
    let setup = user.setup();
    let project = ProjectFiles::find(&user.project, &setup).expect("files");
    let shown: Vec<_> = project.files.into_iter().map(|file| (file.path, file.hash)).collect();
    assert_eq!(shown.len(), 2, "settings and a definition: {shown:?}");
    Trust::add(setup.state_dir().expect("a state directory"), shown).expect("stored");

    let resolved = ResolvedSettings::of(&setup, &user.project).expect("settings");
    assert_eq!(resolved.notes.as_slice(), [""; 0]);
    let models = models::catalog(&resolved.settings, None, &setup).expect("models");
    let run = request(&setup, &resolved.settings, &user.project, &models);
    let posse = setup.open(models, &resolved.settings).expect("opened");
    let run = posse.start(run).await.expect("started");
    let kinds = kinds_to_end(&posse, run.id()).await;
    assert!(!kinds.iter().any(|kind| kind == "agent.input_requested"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("run.completed"));
}

#[test]
fn an_error_has_a_remedy_and_no_flag_of_the_command() {
    let setup = Setup::new(Environment::new(PathBuf::from("/nowhere"), []));
    let error = setup.state_dir().expect_err("no variable states one");
    assert_eq!(error.remedy, Some(posse_setup::Remedy::SetStateDir));
    let error = posse_setup::working_dir::working_dir(None, Path::new("/nowhere")).expect_err("no directory");
    assert_eq!(error.subject, Some(posse_setup::Subject::Dir));
    assert!(!error.message().contains("--"), "{error}");
}
