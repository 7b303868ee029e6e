//! A front end without the command line: what a server does between a user and a run, with `posse` and `posse-setup`
//! alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use posse::view::is_end;
use posse::{Answer, Posse, Resume, StoredApproval};
use posse_setup::draft::PlanInput;
use posse_setup::execution::last_interrupted;
use posse_setup::plan::planning::{PlanningSession, PlanningStep};
use posse_setup::project_files::ProjectFiles;
use posse_setup::settings::{Settings, WithOrigin};
use posse_setup::trust::Trust;
use posse_setup::{
    Environment, Notes, OpenError, PreparedRun, RunDirectory, RunDraft, RunExecution, Setup, SetupError,
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

    /// The front end's knowledge of the user: no variable of this process is read.
    fn setup(&self) -> Setup {
        let variables = [("HOME", self.home())].map(|(name, value)| (OsString::from(name), value.into()));
        Setup::new(Environment::new(self.project.clone(), variables))
    }
}

/// The strict request type of a server, as its clients send it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerRequest {
    text: String,
    agent: Option<String>,
    dir: PathBuf,
    max_depth: Option<u32>,
    plan: Option<String>,
}

impl ServerRequest {
    fn draft(self) -> RunDraft {
        let settings =
            Settings { max_depth: WithOrigin::request(self.max_depth, "max_depth"), ..Settings::default() };
        RunDraft {
            text: Some(self.text),
            agent: self.agent,
            dir: Some(self.dir),
            plan: self.plan.map(PlanInput::Text),
            settings,
            ..RunDraft::default()
        }
    }
}

/// What a client gets besides its run.
type NoteTexts = Vec<String>;

/// Converts a request as a server does: from JSON to a run that this process can start.
async fn prepare(
    setup: &Setup,
    json: serde_json::Value,
) -> (Result<(RunDirectory, PreparedRun), SetupError>, NoteTexts) {
    let request: ServerRequest = serde_json::from_value(json).expect("a request");
    let draft = request.draft();
    let mut notes = Notes::none();
    let directory = match notes.take(RunDirectory::load(&draft, setup)) {
        Ok(directory) => directory,
        Err(error) => return (Err(error), texts(&notes)),
    };
    // A server prepares runs on any of its threads.
    let prepared = is_send(draft.prepare(&directory, setup)).await;
    let prepared = notes.take(prepared).map(|prepared| (directory, prepared));
    (prepared, texts(&notes))
}

fn texts(notes: &Notes) -> NoteTexts {
    notes.iter().map(ToString::to_string).collect()
}

fn is_send<F: Future + Send>(future: F) -> F {
    future
}

fn look_around(user: &User) -> serde_json::Value {
    serde_json::json!({"text": "Look around.", "agent": "helper", "dir": user.project})
}

/// The kinds of a run's events, up to its end.
async fn kinds_to_end(posse: &Posse, run: &posse::RunId) -> Vec<String> {
    let mut events = posse.events(run, 0);
    let mut kinds = Vec::new();
    loop {
        let kind = events.next().await.expect("an event").kind.to_owned();
        let is_last = is_end(&kind);
        kinds.push(kind);
        if is_last {
            return kinds;
        }
    }
}

#[tokio::test]
async fn a_run_has_the_users_settings_and_the_projects_agent_and_an_answer_of_always_is_stored() {
    let user = User::new();
    let setup = user.setup();
    let (prepared, notes) = prepare(&setup, look_around(&user)).await;
    let (directory, prepared) = prepared.expect("a run");
    assert_eq!(prepared.request.terms.base_turns, Some(5), "the project narrows what the user's file sets");
    assert_eq!(prepared.request.budget.agents, Some(7), "the user's file");
    assert_eq!(prepared.request.definition, "helper");
    assert!(prepared.request.model.ends_with("/home/script.yaml"), "{}", prepared.request.model);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("these are ignored: workspace.setup"), "{notes:?}");
    assert!(notes[1].contains("not trusted yet: `helper`"), "{notes:?}");

    let posse = directory.open(&prepared.local, &setup).expect("opened");
    let run = posse.start_request(prepared.request, true).await.expect("started");
    let mut events = posse.events(run.id(), 0);
    while events.next().await.expect("an event").kind != "agent.input_requested" {}
    let questions = posse.pending_questions(run.id()).await.expect("questions");
    let stored = posse.answer(&questions[0], Answer::Always).await.expect("answered");
    let StoredApproval::Stored { literal, dir } = stored else { panic!("{stored:?}") };
    assert_eq!((literal.as_str(), Path::new(&dir)), ("list:.", user.project.as_path()));
    assert_eq!(posse.wait(run.id()).await.expect("an outcome").text, "done");
    let explained = posse.explain(&run.id().root(), "list:.").await.expect("an explanation");
    assert_eq!(explained.verdict.decision, posse::Decision::Allow, "the answer holds for its run");

    let (again, _) = prepare(&setup, look_around(&user)).await;
    let (_, again) = again.expect("a run");
    let run = posse.start_request(again.request, true).await.expect("started");
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

    let (prepared, notes) = prepare(&setup, look_around(&user)).await;
    let (directory, prepared) = prepared.expect("a run");
    assert_eq!(notes, [""; 0]);
    let posse = directory.open(&prepared.local, &setup).expect("opened");
    let run = posse.start_request(prepared.request, false).await.expect("started");
    let kinds = kinds_to_end(&posse, run.id()).await;
    assert!(!kinds.iter().any(|kind| kind == "agent.input_requested"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("run.completed"));
}

#[tokio::test]
async fn a_prepared_run_survives_the_way_to_another_process() {
    let user = User::new();
    let setup = user.setup();
    let (_, prepared) = prepare(&setup, look_around(&user)).await.0.expect("a run");
    let json = serde_json::to_string(&prepared).expect("JSON");
    let read: PreparedRun = serde_json::from_str(&json).expect("the same run");
    assert_eq!(read.request, prepared.request);

    let WithNotes { value, notes } = RunExecution::of_prepared(&read, &setup);
    assert_eq!(texts(&notes).len(), 1, "the project's settings: {notes:?}");
    let posse = value.expect("settings and models").open(&setup).expect("opened");
    let run = posse.start_request(read.request, false).await.expect("started");
    assert_eq!(posse.wait(run.id()).await.expect("an outcome").text, "done");
}

#[tokio::test]
async fn a_stored_run_is_opened_with_what_its_directory_sets_now() {
    let user = User::new();
    let setup = user.setup();
    let (directory, prepared) = prepare(&setup, look_around(&user)).await.0.expect("a run");
    let posse = directory.open(&prepared.local, &setup).expect("opened");
    let run = posse.start_request(prepared.request, true).await.expect("started");
    let mut events = posse.events(run.id(), 0);
    while events.next().await.expect("an event").kind != "agent.input_requested" {}
    let held = last_interrupted(&posse).await.expect("runs");
    assert!(held.is_none(), "this process executes it");

    let stored = posse.runs(run.id().as_str(), 1).await.expect("runs").remove(0);
    let WithNotes { value, notes } = is_send(RunExecution::of_stored(&stored, &posse, &setup)).await;
    assert_eq!(texts(&notes).len(), 1, "the project's settings: {notes:?}");
    let other = value.expect("settings and models").open(&setup).expect("opened");
    assert!(matches!(other.resume(run.id()).await.expect("found"), Resume::Held(_)));

    std::fs::remove_file(user.home().join("script.yaml")).expect("removed");
    let lost = RunExecution::of_stored(&stored, &posse, &setup).await.value;
    let Err(OpenError::Setup(error)) = lost.map(drop) else { panic!("the model is gone") };
    assert!(error.message().starts_with(&format!("the model of run {} cannot", run.id())), "{error}");
}

#[tokio::test]
async fn the_planner_is_asked_twice_at_most_and_has_the_model_but_not_the_limits_of_a_run() {
    const PLAN: &str =
        "goal: Tidy up.\nsteps:\n  - {title: docs, description: Write them., owns: [docs/**]}\n";
    let user = User::new();
    let setup = user.setup();
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
    assert_eq!(texts(&planning.notes), [""; 0], "those of the directory are not repeated");
    let planning = planning.value.expect("a session");
    let request = planning.request();
    assert_eq!((request.model, request.on_ask), (model, first.on_ask));
    assert_eq!(request.max_depth, 0, "the depth of the run is not the planner's");
    let plan = planning.unread_plan(PLAN, &directory).expect("a plan");
    assert_eq!(plan.steps.len(), 1);
    let without_goal = PlanningSession::for_run(&draft(), &directory, &setup).await.value.map(drop);
    assert_eq!(without_goal.expect_err("no goal").subject, Some(posse_setup::Subject::Text));
}

#[tokio::test]
async fn mistakes_and_notes_name_parts_of_the_request_as_the_front_end_does() {
    let user = User::new();
    let setup = user.setup();
    let request = |more: serde_json::Value| {
        let mut request = look_around(&user);
        let fields = request.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        request
    };
    let (unknown, notes) = prepare(&setup, request(serde_json::json!({"agent": "helpr"}))).await;
    let error = unknown.map(drop).expect_err("no such agent");
    assert_eq!(error.subject, Some(posse_setup::Subject::Agent));
    assert_eq!(notes.len(), 1, "the notes about the settings are there also with an error: {notes:?}");

    let (deep, notes) = prepare(&setup, request(serde_json::json!({"max_depth": 9}))).await;
    assert_eq!(deep.expect("a run").1.request.max_depth, 3);
    let ceiling = "note: max_depth 9 is more than agent.max_orchestration_depth allows: 3 is used";
    assert!(notes.iter().any(|note| note == ceiling), "{notes:?}");

    let (bad, _) = prepare(&setup, request(serde_json::json!({"plan": "goal: x\nsteps: []\n"}))).await;
    let error = bad.map(drop).expect_err("a plan without steps");
    assert!(error.message().contains("steps"), "{error}");
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
