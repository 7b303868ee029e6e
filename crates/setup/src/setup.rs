//! The context that a front end creates once: the environment of its user, and its additions to the library.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse::ports::{Faults, Model, TenantId, Tool};
use posse::remote::ServerClient;
use posse::sandbox::{Environment as Passed, Sandbox, SandboxOptions};
use posse::{
    ApprovalStore, Approvals, ModelRegistry, Posse, PosseBuilder, ProviderQueues, WorkspaceOptions,
    WorkspaceSettings,
};
use posse_domain::event::EffectClass;

use crate::approvals::FileApprovals;
use crate::discovery::SkillFolder;
use crate::environment::Environment;
use crate::error::{OpenError, SetupError};
use crate::settings::Settings;

/// The directory of what tenants other than the local one have of their own, in the state directory.
const TENANTS: &str = "tenants";

/// The environment of a user, with what a front end adds: tools, models, and test hooks.
#[derive(Clone)]
pub struct Setup {
    /// The user's environment, which all functions of this crate use.
    pub environment: Environment,
    tools: Vec<Tool>,
    models: Vec<(String, Arc<dyn Model>)>,
    faults: Faults,
    lease: Option<Duration>,
    tenant: TenantId,
    /// The server that has the runs, if that is not this machine.
    server: Option<ServerClient>,
    /// The front end's own store of approvals.
    approvals: Option<Arc<dyn ApprovalStore>>,
    /// Shared by all registries: a process may serve several projects, and a provider limits all its calls together.
    queues: ProviderQueues,
}

impl Setup {
    /// A context with only the environment.
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            tools: Vec::new(),
            models: Vec::new(),
            faults: Faults::default(),
            lease: None,
            tenant: TenantId::local(),
            server: None,
            approvals: None,
            queues: ProviderQueues::default(),
        }
    }

    /// Adds tools beside the built-in ones. A tool with the same name replaces it.
    pub fn with_tools(self, tools: Vec<Tool>) -> Self {
        Self { tools, ..self }
    }

    /// Adds models that the front end provides, by name.
    pub fn with_models(self, models: Vec<(String, Arc<dyn Model>)>) -> Self {
        Self { models, ..self }
    }

    /// Adds fault points.
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// Sets how long a silent lease holder keeps its runs; `None` for the usual time.
    pub fn with_lease(self, lease: Option<Duration>) -> Self {
        Self { lease, ..self }
    }

    /// Uses the runs of a server instead of those of this machine. They can be read and commanded.
    pub fn with_server(self, server: Option<ServerClient>) -> Self {
        Self { server, ..self }
    }

    /// The server whose runs are used.
    pub fn server(&self) -> Option<&ServerClient> {
        self.server.as_ref()
    }

    /// Uses another tenant than the local one: its runs, and approvals of its own.
    pub fn with_tenant(self, tenant: TenantId) -> Self {
        let own = self.approvals.is_none() && tenant != TenantId::local();
        let approvals = match self.environment.state_dir() {
            Ok(state_dir) if own => {
                let dir = state_dir.join(TENANTS).join(tenant.as_str());
                let approvals: Arc<dyn ApprovalStore> = Arc::new(FileApprovals::new(&dir));
                Some(approvals)
            }
            _ => self.approvals,
        };
        Self { tenant, approvals, ..self }
    }

    /// The tenant whose runs are used.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Stores and reads approvals here instead of in the state directory.
    pub fn with_approvals(self, approvals: Arc<dyn ApprovalStore>) -> Self {
        Self { approvals: Some(approvals), ..self }
    }

    /// The approvals that are stored for the runs of a directory, given by its whole path.
    pub async fn stored_approvals(&self, dir: &str) -> Result<Approvals, SetupError> {
        match &self.approvals {
            // What a user can do about it is known only to the front end.
            Some(own) => own.load(dir).await.map_err(|error| SetupError::failed(error.to_string())),
            None => Ok(FileApprovals::new(self.state_dir()?).load(dir).await?),
        }
    }

    pub(crate) fn models(&self) -> &[(String, Arc<dyn Model>)] {
        &self.models
    }

    /// The provider queues of all registries that are created from this value.
    pub(crate) fn provider_queues(&self) -> ProviderQueues {
        self.queues.clone()
    }

    /// The state directory, or an error with the remedy [`SetStateDir`](crate::Remedy::SetStateDir).
    pub fn state_dir(&self) -> Result<&Path, SetupError> {
        self.environment.state_dir()
    }

    /// The names of all tools, without opening anything.
    pub fn tool_names(&self) -> Vec<&'static str> {
        self.tool_classes().map(|(name, _)| name).collect()
    }

    /// All tools by name, each with its class of effects, without opening anything.
    pub fn tool_classes(&self) -> impl Iterator<Item = (&'static str, EffectClass)> {
        let built_in = posse::builtin_tools().into_iter().map(|tool| (tool.name, tool.class));
        built_in.chain(self.tools.iter().map(|tool| (tool.name, tool.class)))
    }

    /// Opens the state directory to start or continue runs, and creates it if needed.
    pub fn open(
        &self,
        models: impl Into<Arc<ModelRegistry>>,
        settings: &Settings,
    ) -> Result<Posse, OpenError> {
        self.open_with_skills(models, settings, &[])
    }

    /// Like [`Setup::open`], for a run whose commands may read these skill folders.
    pub fn open_with_skills(
        &self,
        models: impl Into<Arc<ModelRegistry>>,
        settings: &Settings,
        folders: &[SkillFolder],
    ) -> Result<Posse, OpenError> {
        if let Some(server) = &self.server {
            return Ok(Posse::on_server(server.clone())?);
        }
        let mut builder = self.writing_builder()?.models(models.into());
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

    /// How workspaces are created.
    fn workspaces(&self, settings: &Settings) -> Result<WorkspaceSettings, SetupError> {
        settings.workspace.clone().settings(self.environment.home.as_deref())
    }

    /// The options of the sandbox that commands run in.
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

    /// What the sandbox consists of on this machine, as `posse doctor` shows it; `None` if there is none, so that
    /// commands are refused.
    pub async fn sandbox_level(&self) -> Option<String> {
        let settings = Settings::own(&self.environment).unwrap_or_default();
        let sandbox = Sandbox::new(self.sandbox(&settings).unwrap_or_default());
        sandbox.level().await.ok().map(|level| level.to_string())
    }

    /// Opens an existing state directory to send commands. Without runs there is nothing to create.
    pub fn open_for_commands(&self) -> Result<Posse, OpenError> {
        if let Some(server) = &self.server {
            return Ok(Posse::on_server(server.clone())?);
        }
        Ok(self.writing_builder()?.workspaces(self.usual_workspaces()).open()?)
    }

    /// Opens the state directory to read only.
    pub fn open_read_only(&self) -> Result<Posse, OpenError> {
        if let Some(server) = &self.server {
            return Ok(Posse::on_server(server.clone())?);
        }
        Ok(self.builder().open_read_only(self.state_dir()?).workspaces(self.usual_workspaces()).open()?)
    }

    /// Workspaces for a front end that creates none: a mistake in the settings must not keep a user from reading.
    fn usual_workspaces(&self) -> WorkspaceSettings {
        let options = WorkspaceOptions { home: self.environment.home.clone(), ..WorkspaceOptions::default() };
        WorkspaceSettings { options, ..WorkspaceSettings::default() }
    }

    /// The builder of a `Posse` that writes to the state directory, including answers of "always".
    fn writing_builder(&self) -> Result<PosseBuilder, SetupError> {
        let state_dir = self.state_dir()?;
        let approvals = self.approvals.clone();
        let approvals = approvals.unwrap_or_else(|| Arc::new(FileApprovals::new(state_dir)));
        Ok(self.builder().state_dir(state_dir).approvals(approvals))
    }

    fn builder(&self) -> PosseBuilder {
        let builder = Posse::builder().faults(self.faults.clone()).script_dir(&self.environment.cwd);
        let builder = builder.tenant(self.tenant.clone());
        match self.lease {
            Some(lease) => builder.lease(lease),
            None => builder,
        }
    }
}

/// Lets commands read skill folders. If one is beside the user's settings, in a folder that is hidden as a whole,
/// everything else in that folder stays hidden.
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
