//! What a front end sets up once: the environment of its user, and what it adds to the library.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse::ports::{Faults, Model, Tool};
use posse::sandbox::{Environment as Passed, SandboxOptions};
use posse::{ModelRegistry, Posse, PosseBuilder, WorkspaceOptions, WorkspaceSettings};
use posse_domain::event::EffectClass;

use crate::approvals::FileApprovals;
use crate::discovery::SkillFolder;
use crate::environment::Environment;
use crate::error::{OpenError, SetupError};
use crate::settings::Settings;

/// The environment of a user, with what a front end adds: tools, models, and what its tests need.
pub struct Setup {
    /// The environment.
    pub environment: Environment,
    tools: Vec<Tool>,
    models: Vec<(String, Arc<dyn Model>)>,
    faults: Faults,
    lease: Option<Duration>,
}

impl Setup {
    /// Nothing but the environment.
    pub fn new(environment: Environment) -> Self {
        Self { environment, tools: Vec::new(), models: Vec::new(), faults: Faults::default(), lease: None }
    }

    /// Adds tools beside the built-in ones; one of the same name replaces it.
    pub fn with_tools(self, tools: Vec<Tool>) -> Self {
        Self { tools, ..self }
    }

    /// Adds models of the front end's own, by name.
    pub fn with_models(self, models: Vec<(String, Arc<dyn Model>)>) -> Self {
        Self { models, ..self }
    }

    /// Adds fault points.
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// How long a silent lease holder keeps its runs; none for the usual time.
    pub fn with_lease(self, lease: Option<Duration>) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn models(&self) -> &[(String, Arc<dyn Model>)] {
        &self.models
    }

    /// Where runs are kept.
    pub fn state_dir(&self) -> Result<&Path, SetupError> {
        self.environment.state_dir()
    }

    /// The names of all tools, without opening anything.
    pub fn tool_names(&self) -> Vec<&'static str> {
        self.tool_classes().map(|(name, _)| name).collect()
    }

    /// All tools by name, each with what it does to the outside, without opening anything.
    pub fn tool_classes(&self) -> impl Iterator<Item = (&'static str, EffectClass)> {
        let built_in = posse::builtin_tools().into_iter().map(|tool| (tool.name, tool.class));
        built_in.chain(self.tools.iter().map(|tool| (tool.name, tool.class)))
    }

    /// Opens the state directory to start or carry runs; makes it if need be.
    pub fn open(&self, models: ModelRegistry, settings: &Settings) -> Result<Posse, OpenError> {
        self.open_with_skills(models, settings, &[])
    }

    /// The same for a run whose skills have files in these folders: commands may read them.
    pub fn open_with_skills(
        &self,
        models: ModelRegistry,
        settings: &Settings,
        folders: &[SkillFolder],
    ) -> Result<Posse, OpenError> {
        let mut builder = self.writing_builder()?.models(Arc::new(models));
        let search = settings.search.search(&self.environment.variables)?;
        let mut sandbox = self.sandbox(settings)?;
        show_skills(&mut sandbox, folders);
        builder = builder.sandbox(sandbox).search(search).workspaces(self.workspaces(settings)?);
        builder = builder.command_hooks(crate::hooks::runnable(settings, self.environment.home.as_deref())?);
        for tool in &self.tools {
            builder = builder.tool(tool.clone());
        }
        Ok(builder.open()?)
    }

    /// How workspaces are made.
    fn workspaces(&self, settings: &Settings) -> Result<WorkspaceSettings, SetupError> {
        settings.workspace.clone().settings(self.environment.home.as_deref())
    }

    /// The box that commands run in.
    pub fn sandbox(&self, settings: &Settings) -> Result<SandboxOptions, SetupError> {
        let Environment { home, variables, settings_file, .. } = &self.environment;
        let own = [self.state_dir().ok(), settings_file.as_deref().and_then(Path::parent)];
        let options = SandboxOptions {
            home: home.clone(),
            environment: Passed::from_variables(variables.iter().cloned(), settings.sandbox.variables()?),
            hidden: own.into_iter().flatten().map(Path::to_owned).collect(),
            ..SandboxOptions::default()
        };
        settings.sandbox.apply(home.as_deref(), options)
    }

    /// Opens the state directory to post commands, if there is one: without runs there is nothing to make.
    pub fn open_to_post(&self) -> Result<Posse, OpenError> {
        Ok(self.writing_builder()?.workspaces(self.usual_workspaces()).open()?)
    }

    /// Opens the state directory to look only.
    pub fn open_read_only(&self) -> Result<Posse, OpenError> {
        Ok(self.builder().open_read_only(self.state_dir()?).workspaces(self.usual_workspaces()).open()?)
    }

    /// Workspaces for verbs that make none: a mistake in the settings keeps nobody from looking.
    fn usual_workspaces(&self) -> WorkspaceSettings {
        let host = WorkspaceOptions { home: self.environment.home.clone(), ..WorkspaceOptions::default() };
        WorkspaceSettings { host, ..WorkspaceSettings::default() }
    }

    /// The builder of a `Posse` that writes to the state directory, answers of "always" among the rest.
    fn writing_builder(&self) -> Result<PosseBuilder, SetupError> {
        let state_dir = self.state_dir()?;
        Ok(self.builder().state_dir(state_dir).approvals(Arc::new(FileApprovals::new(state_dir))))
    }

    fn builder(&self) -> PosseBuilder {
        let builder = Posse::builder().faults(self.faults.clone()).script_dir(&self.environment.cwd);
        match self.lease {
            Some(lease) => builder.lease(lease),
            None => builder,
        }
    }
}

/// Lets commands read folders of skills. One may lie beside the person's settings, in a folder that is hidden as a
/// whole: then everything else in it is.
fn show_skills(sandbox: &mut SandboxOptions, folders: &[SkillFolder]) {
    let holds_one = |path: &Path| folders.iter().any(|folder| folder.path.starts_with(path));
    let hidden = std::mem::take(&mut sandbox.hidden);
    for hidden in hidden {
        if holds_one(&hidden) {
            let inside = std::fs::read_dir(&hidden).into_iter().flatten().flatten().map(|entry| entry.path());
            sandbox.hidden.extend(inside.filter(|path| !holds_one(path)));
        } else {
            sandbox.hidden.push(hidden);
        }
    }
    for SkillFolder { path, project } in folders {
        match project {
            Some(project) => sandbox.show_of_project(path, project),
            None => sandbox.read.push(path.clone()),
        }
    }
}
