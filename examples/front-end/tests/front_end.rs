//! A front end without the command line: a user's settings, discovered agents, trust and approvals through `posse` and
//! `posse-setup` alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use posse::{ApprovalError, ApprovalStore, Approvals, Pattern, Resume, RunStatus, StoredApproval};
use posse_front_end::{FrontEnd, ReadyRun, Refusal};
use posse_setup::detach::start_received;
use posse_setup::execution::last_interrupted;
use posse_setup::plan::planning::{PlanningSession, PlanningStep};
use posse_setup::project_files::ProjectFiles;
use posse_setup::settings::{Settings, WithOrigin};
use posse_setup::trust::Trust;
use posse_setup::{
    Environment, Note, OpenError, PreparedRun, Remedy, RunDirectory, RunDraft, RunExecution, Setup, Subject,
    WithNotes,
};

const SCRIPT: &str = r#"
- when: {turn: 1}
  reply: {text: "", tool_calls: [{name: list, input: {path: "."}}]}
- reply: {text: "done"}
"#;
const HELPER: &str = "---\nname: helper\ndescription: Looks around.\ntools: List\n---\nYou look around.\n";

/// A user with settings, and a project with its own definition and settings.
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
            &format!("model: scripted/{}\nagent: {{max_turns: 9, max_agents: 7}}\n", script.display()),
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

    /// A front end with its knowledge of the user: no variable of this process is read.
    fn front_end(&self) -> FrontEnd {
        let variables = [("HOME", self.home())].map(|(name, value)| (OsString::from(name), value.into()));
        FrontEnd::new(Environment::new(self.project.clone(), variables))
    }

    /// A request to look around, with more fields or others.
    fn request(&self, more: &serde_json::Value) -> String {
        let mut request = serde_json::json!({"text": "Look around.", "agent": "helper", "dir": self.project});
        let fields = request.as_object_mut().expect("an object");
        fields.extend(more.as_object().cloned().unwrap_or_default());
        request.to_string()
    }

    fn look_around(&self) -> String {
        self.request(&serde_json::Value::Null)
    }

    /// The note about the project's settings, which are not trusted.
    fn ignored_settings(&self) -> Note {
        let file = self.project.join(".posse/settings.yaml");
        Note::info(format!("{} is not trusted, so these are ignored: workspace.setup", file.display()))
            .remedy(Remedy::TrustProject)
    }

    /// The note about the project's definition, which is not trusted.
    fn limited_helper() -> Note {
        Note::info("not trusted yet: `helper` of this project must ask before every tool call")
            .remedy(Remedy::TrustProject)
    }
}

/// Converts a request as a server does, on any of its threads.
async fn prepare(front_end: &FrontEnd, json: &str) -> (Result<ReadyRun, Refusal>, Vec<Note>) {
    let WithNotes { value, notes } = is_send(front_end.prepare(json)).await;
    (value, notes.into_iter().collect())
}

fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn a_run_has_the_users_settings_and_the_projects_agent_and_an_answer_of_always_is_stored() {
    let user = User::new();
    let front_end = user.front_end();
    let (ready, notes) = prepare(&front_end, &user.look_around()).await;
    let ready = ready.expect("a run");
    let request = &ready.run.request;
    assert_eq!(request.terms.base_turns, Some(5), "the project narrows what the user's file sets");
    assert_eq!(request.budget.agents, Some(7), "the user's file");
    assert_eq!(request.definition, "helper");
    assert_eq!(request.model, format!("scripted/{}", user.home().join("script.yaml").display()));
    assert_eq!(notes, [user.ignored_settings(), User::limited_helper()]);

    let mut run = is_send(front_end.start(ready)).await.expect("started");
    let question = is_send(run.next_question()).await.expect("events").expect("a question");
    assert_eq!(question.operation, "list:.");
    let stored = is_send(run.allow_always(&question)).await.expect("answered");
    let StoredApproval::Stored { literal, dir } = stored else { panic!("{stored:?}") };
    assert_eq!((literal.as_str(), Path::new(&dir)), ("list:.", user.project.as_path()));
    assert_eq!(run.next_question().await.expect("events"), None, "the run ends");
    let outcome = run.posse.wait(run.handle.id()).await.expect("an outcome");
    assert_eq!((outcome.status, outcome.text.as_str()), (RunStatus::Completed, "done"));
    let explained = run.posse.explain(&run.handle.id().root(), "list:.").await.expect("an explanation");
    assert_eq!(
        explained.explanation.verdict.decision,
        posse::Decision::Allow,
        "the answer holds for its run"
    );

    let ready = prepare(&front_end, &user.look_around()).await.0.expect("a run");
    let mut again = front_end.start(ready).await.expect("started");
    assert_eq!(again.next_question().await.expect("events"), None, "no question is asked");
    let outcome = again.posse.wait(again.handle.id()).await.expect("an outcome");
    assert_eq!(outcome.status, RunStatus::Completed);
}

/// The approvals of a server that keeps everything in memory.
#[derive(Default)]
struct OwnApprovals(Arc<Mutex<BTreeMap<String, Vec<Pattern>>>>);

impl ApprovalStore for OwnApprovals {
    fn load(&self, dir: &str) -> BoxFuture<'static, Result<Approvals, ApprovalError>> {
        let kept = self.0.lock().expect("no panic").get(dir).cloned().unwrap_or_default();
        Box::pin(async { Ok(kept.into_iter().collect()) })
    }

    fn keep(&self, dir: &str, literal: &Pattern) -> BoxFuture<'static, Result<(), ApprovalError>> {
        self.0.lock().expect("no panic").entry(dir.to_owned()).or_default().push(literal.clone());
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn an_answer_in_the_front_ends_own_store_is_read_for_the_next_run() {
    let user = User::new();
    let FrontEnd { setup } = user.front_end();
    let own = Arc::new(OwnApprovals::default());
    let front_end = FrontEnd { setup: setup.with_approvals(own.clone()) };
    let ready = prepare(&front_end, &user.look_around()).await.0.expect("a run");
    assert!(ready.run.request.terms.approvals.is_empty());
    let mut run = front_end.start(ready).await.expect("started");
    let question = run.next_question().await.expect("events").expect("a question");
    let stored = run.allow_always(&question).await.expect("answered");
    assert!(matches!(stored, StoredApproval::Stored { .. }), "{stored:?}");
    assert_eq!(run.next_question().await.expect("events"), None);
    let kept = own.0.lock().expect("no panic").values().flatten().map(Pattern::to_string).collect::<Vec<_>>();
    assert_eq!(kept, ["list:."]);
    let state_dir = front_end.setup.state_dir().expect("a state directory");
    assert!(!state_dir.join("approvals.json").exists(), "one store has it, not two");

    let ready = prepare(&front_end, &user.look_around()).await.0.expect("a run");
    let mut again = front_end.start(ready).await.expect("started");
    assert_eq!(again.next_question().await.expect("events"), None, "no question is asked");
}

#[tokio::test]
async fn what_the_user_trusts_counts_and_asks_no_more() {
    let user = User::new();
    let front_end = user.front_end();
    let project = ProjectFiles::find(&user.project, &front_end.setup).expect("files");
    let shown: Vec<_> = project.files.into_iter().map(|file| (file.path, file.hash)).collect();
    let paths: Vec<_> = shown.iter().map(|(path, _)| path.clone()).collect();
    let files = [".posse/agents/helper.md", ".posse/settings.yaml"].map(|name| user.project.join(name));
    assert!(paths.len() == 2 && files.iter().all(|file| paths.contains(file)), "{paths:?}");
    Trust::add(front_end.setup.state_dir().expect("a state directory"), shown).expect("stored");

    let (ready, notes) = prepare(&front_end, &user.look_around()).await;
    assert_eq!(notes, []);
    let mut run = front_end.start(ready.expect("a run")).await.expect("started");
    assert_eq!(run.next_question().await.expect("events"), None, "no question is asked");
    let outcome = run.posse.wait(run.handle.id()).await.expect("an outcome");
    assert_eq!((outcome.status, outcome.text.as_str()), (RunStatus::Completed, "done"));
}

#[tokio::test]
async fn a_prepared_run_survives_the_way_to_another_process() {
    let user = User::new();
    let front_end = user.front_end();
    let ready = prepare(&front_end, &user.look_around()).await.0.expect("a run");
    let json = serde_json::to_string(&ready.run).expect("JSON");
    let read: PreparedRun = serde_json::from_str(&json).expect("the same run");
    assert_eq!(read.request, ready.run.request);

    let WithNotes { value, notes } = RunExecution::of_prepared(&read, &front_end.setup);
    assert_eq!(notes.as_slice(), [user.ignored_settings()]);
    let posse = value.expect("settings and models").open(&front_end.setup).expect("opened");
    let run = posse.start_request(read.request, false).await.expect("started");
    assert_eq!(posse.wait(run.id()).await.expect("an outcome").text, "done");

    let started = is_send(start_received(&json, &front_end.setup)).await.expect("started");
    let outcome = started.posse.wait(started.handle.id()).await.expect("an outcome");
    assert_eq!((outcome.text.as_str(), started.local.apply), ("done", false));
}

#[tokio::test]
async fn a_stored_run_is_opened_with_what_its_directory_sets_now() {
    let user = User::new();
    let front_end = user.front_end();
    let ready = prepare(&front_end, &user.look_around()).await.0.expect("a run");
    let mut run = front_end.start(ready).await.expect("started");
    run.next_question().await.expect("events").expect("a question");
    let (posse, id, setup) = (&run.posse, run.handle.id(), &front_end.setup);
    assert_eq!(last_interrupted(posse).await.expect("runs"), None, "this process executes it");

    let stored = posse.runs(id.as_str(), 1).await.expect("runs").remove(0);
    let WithNotes { value, notes } = is_send(RunExecution::of_stored(&stored, posse, setup)).await;
    assert_eq!(notes.as_slice(), [user.ignored_settings()]);
    let other = value.expect("settings and models").open(setup).expect("opened");
    assert!(matches!(other.resume(id).await.expect("found"), Resume::Held(_)));

    std::fs::remove_file(user.home().join("script.yaml")).expect("removed");
    let lost = RunExecution::of_stored(&stored, posse, setup).await.value;
    let Err(OpenError::Setup(error)) = lost.map(drop) else { panic!("the model is gone") };
    assert!(error.message().starts_with(&format!("the model of run {id} cannot be used: ")), "{error}");
}

#[tokio::test]
async fn the_planner_is_asked_twice_at_most_and_has_the_model_but_not_the_limits_of_a_run() {
    const PLAN: &str =
        "goal: Tidy up.\nsteps:\n  - {title: docs, description: Write them., owns: [docs/**]}\n";
    let user = User::new();
    let setup = user.front_end().setup;
    let draft = || RunDraft { dir: Some(user.project.clone()), ..RunDraft::default() };
    let session = || async { PlanningSession::prepare("Tidy up.", draft(), &setup).await.value };

    let mut planning = is_send(session()).await.expect("a session");
    let first = planning.request();
    assert_eq!(
        (first.definition.as_str(), first.max_depth),
        ("planner", 0),
        "a planner starts no sub-agents"
    );
    let step = planning.answered("steps: []");
    let PlanningStep::AskAgain { problems, request } = step else { panic!("{step:?}") };
    assert!(!problems.is_empty() && request.prompt != first.prompt);
    let step = planning.answered(PLAN);
    let PlanningStep::Planned(answer) = step else { panic!("{step:?}") };
    assert!(planning.file_text(&answer).ends_with(&answer));

    let mut failing = session().await.expect("a session");
    assert!(matches!(failing.answered("no plan"), PlanningStep::AskAgain { .. }));
    let step = failing.answered("no plan");
    assert!(matches!(&step, PlanningStep::Failed { answer, .. } if answer == "no plan"), "{step:?}");

    let model = format!("scripted/{}", user.home().join("script.yaml").display());
    let settings = Settings {
        model: WithOrigin::request(Some(model.clone()), "model"),
        on_ask: WithOrigin::request(Some(posse::OnAsk::Escalate), "on_ask"),
        max_depth: WithOrigin::request(Some(1), "max_depth"),
        ..Settings::default()
    };
    let run = RunDraft { text: Some("Tidy up.".to_owned()), settings, ..draft() };
    let directory = RunDirectory::load(&run, &setup).value.expect("a directory");
    let planning = PlanningSession::for_run(&run, &directory, &setup).await;
    assert_eq!(planning.notes.as_slice(), [], "those of the directory are not repeated");
    let planning = planning.value.expect("a session");
    let request = planning.request();
    assert_eq!((request.model, request.on_ask), (model, first.on_ask));
    assert_eq!(request.max_depth, 0, "the depth of the run is not the planner's");
    let plan = planning.unread_plan(PLAN, &directory).expect("a plan");
    assert_eq!(plan.steps.len(), 1);
    let without_goal = PlanningSession::for_run(&draft(), &directory, &setup).await.value.map(drop);
    assert_eq!(without_goal.expect_err("no goal").subject, Some(Subject::Text));
}

#[tokio::test]
async fn mistakes_and_notes_name_parts_of_the_request_as_the_front_end_does() {
    let user = User::new();
    let front_end = user.front_end();
    let prepare = async |more: serde_json::Value| prepare(&front_end, &user.request(&more)).await;
    let refused = |refused: Result<ReadyRun, Refusal>| match refused.map(drop) {
        Err(Refusal::Setup(error)) => error,
        other => panic!("{other:?}"),
    };
    let (unknown, notes) = prepare(serde_json::json!({"agent": "helpr"})).await;
    assert_eq!(refused(unknown).subject, Some(Subject::Agent));
    assert_eq!(notes, [user.ignored_settings()], "the notes about the settings are there also with an error");

    let (deep, notes) = prepare(serde_json::json!({"max_depth": 9})).await;
    assert_eq!(deep.expect("a run").run.request.max_depth, 3);
    let ceiling = "max_depth 9 is more than agent.max_orchestration_depth allows: 3 is used";
    assert_eq!(notes, [user.ignored_settings(), User::limited_helper(), Note::info(ceiling)]);

    let (bad, _) = prepare(serde_json::json!({"plan": "goal: x\nsteps: []\n"})).await;
    let error = refused(bad);
    assert!(error.message().contains("steps"), "{error}");

    let (misspelled, notes) = prepare(serde_json::json!({"max_deph": 1})).await;
    assert!(matches!(misspelled, Err(Refusal::Unreadable(_))));
    assert_eq!(notes, []);
}

#[test]
fn an_error_has_a_remedy_and_no_flag_of_the_command() {
    let setup = Setup::new(Environment::new(PathBuf::from("/nowhere"), []));
    let error = setup.state_dir().expect_err("no variable states one");
    assert_eq!(error.remedy, Some(Remedy::SetStateDir));
    let error = posse_setup::working_dir::working_dir(None, Path::new("/nowhere")).expect_err("no directory");
    assert_eq!(error.subject, Some(Subject::Dir));
    assert!(!error.message().contains("--"), "{error}");
}
