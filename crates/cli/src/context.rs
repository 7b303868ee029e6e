//! What every verb needs: the environment, what a test binary adds, and the state directory.

use std::path::Path;
use std::sync::Arc;

use posse::sandbox::{Environment as Passed, SandboxOptions};
use posse::{ModelRegistry, Posse, PosseBuilder, WorkspaceOptions, WorkspaceSettings};
use posse_domain::event::EffectClass;

use crate::Extras;
use crate::discovery::SkillFolder;
use crate::env::Environment;
use crate::error::CliError;
use crate::settings::Settings;

/// The composition root's own part.
pub(crate) struct Context {
    /// The environment, read once.
    pub(crate) environment: Environment,
    /// What a person types to call this program again.
    pub(crate) program: String,
    extras: Extras,
}

impl Context {
    /// Reads the environment.
    pub(crate) fn new(program: String, extras: Extras) -> Result<Self, CliError> {
        let environment = Environment::read()?;
        if let Some(filter) = &environment.log {
            log_to_stderr(filter)?;
        }
        Ok(Self { environment, program, extras })
    }

    /// Where runs are kept.
    pub(crate) fn state_dir(&self) -> Result<&Path, CliError> {
        self.environment.state_dir()
    }

    /// The names of all tools, without opening anything.
    pub(crate) fn tool_names(&self) -> Vec<&'static str> {
        self.tool_classes().map(|(name, _)| name).collect()
    }

    /// All tools by name, each with what it does to the outside, without opening anything.
    pub(crate) fn tool_classes(&self) -> impl Iterator<Item = (&'static str, EffectClass)> {
        let built_in = posse::builtin_tools().into_iter().map(|tool| (tool.name, tool.class));
        built_in.chain(self.extras.tools.iter().map(|tool| (tool.name, tool.class)))
    }

    /// Opens the state directory to start or carry runs; makes it if need be.
    pub(crate) fn open(&self, models: ModelRegistry, settings: &Settings) -> Result<Posse, CliError> {
        self.open_with_skills(models, settings, &[])
    }

    /// The same for a run whose skills have files in these folders: commands may read them.
    pub(crate) fn open_with_skills(
        &self,
        models: ModelRegistry,
        settings: &Settings,
        folders: &[SkillFolder],
    ) -> Result<Posse, CliError> {
        let mut builder = self.builder().state_dir(self.state_dir()?).models(Arc::new(models));
        let search = settings.search.search(&self.environment.variables)?;
        let mut sandbox = self.sandbox(settings)?;
        show_skills(&mut sandbox, folders);
        builder = builder.sandbox(sandbox).search(search).workspaces(self.workspaces(settings)?);
        builder = builder.command_hooks(crate::hooks::runnable(settings, self.environment.home.as_deref())?);
        for tool in &self.extras.tools {
            builder = builder.tool(tool.clone());
        }
        Ok(builder.open()?)
    }

    /// How workspaces are made.
    fn workspaces(&self, settings: &Settings) -> Result<WorkspaceSettings, CliError> {
        settings.workspace.clone().settings(self.environment.home.as_deref())
    }

    /// The box that commands run in.
    pub(crate) fn sandbox(&self, settings: &Settings) -> Result<SandboxOptions, CliError> {
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
    pub(crate) fn open_to_post(&self) -> Result<Posse, CliError> {
        Ok(self.builder().state_dir(self.state_dir()?).workspaces(self.usual_workspaces()).open()?)
    }

    /// Opens the state directory to look only.
    pub(crate) fn open_read_only(&self) -> Result<Posse, CliError> {
        Ok(self.builder().open_read_only(self.state_dir()?).workspaces(self.usual_workspaces()).open()?)
    }

    /// Workspaces for verbs that make none: a mistake in the settings keeps nobody from looking.
    fn usual_workspaces(&self) -> WorkspaceSettings {
        let host = WorkspaceOptions { home: self.environment.home.clone(), ..WorkspaceOptions::default() };
        WorkspaceSettings { host, ..WorkspaceSettings::default() }
    }

    fn builder(&self) -> PosseBuilder {
        let builder = Posse::builder().faults(self.extras.faults.clone()).script_dir(&self.environment.cwd);
        match self.extras.lease {
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

fn log_to_stderr(filter: &str) -> Result<(), CliError> {
    // The crate logs whole answers, and a provider that refuses a key may repeat it.
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{filter},genai=off"))
        .map_err(|error| CliError::usage(format!("{}: {error}", crate::env::POSSE_LOG)))?;
    // Complaints about a log that cannot be written would go to the same place, and end the run with a panic.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false)
        .finish();
    // Only the first one counts; a test binary may have set its own.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}
