//! Builds a `Posse`: connects the store, models, tools, sandbox and file ports.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posse_engine::ports::{
    Faults, Hooks, Model, Models, RunFiles, RunRecords, Store, System, TenantId, Tool, WorkspaceError,
    Workspaces,
};
use posse_engine::{Parts, Runtime, RuntimeOptions};
use posse_files::WorkspaceDirs;
use posse_models::{ModelRegistry, Prices, Providers};
use posse_sandbox::{LocalRecords, Sandbox, SandboxOptions, WorkspaceViews};
use posse_store::{MemoryStore, SqliteOptions, SqliteStore};
use posse_tools::hooks::{CommandHooks, Hook};
use posse_tools::{Search, ToolServices};
use posse_workspace::{LocalFiles, LocalWorkspaces, TemporaryState, WorkspaceSettings};

use crate::approvals::ApprovalStore;
use crate::replay::ReplayHome;
use crate::system::ProcessSystem;
use crate::{Error, Posse};

/// The directory of runs' files beside the journal.
const RUNS: &str = "runs";

/// The directory for everything but the journal: workspaces, outputs, process records, replays. It also has the
/// journal, unless the embedder supplies a store.
enum StateDir {
    /// A temporary directory is created.
    Absent,
    ReadWrite(PathBuf),
    ReadOnly(PathBuf),
}

impl StateDir {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Absent => None,
            Self::ReadWrite(dir) | Self::ReadOnly(dir) => Some(dir),
        }
    }

    /// Opens the journal that belongs to this directory.
    fn store(
        &self,
        faults: &Faults,
        lease: Option<Duration>,
        label: Option<String>,
    ) -> Result<Arc<dyn Store>, Error> {
        Ok(match self {
            Self::Absent => Arc::new(MemoryStore::default()),
            Self::ReadWrite(dir) => {
                let mut options = SqliteOptions { faults: faults.clone(), ..SqliteOptions::default() };
                options.lease = lease.unwrap_or(options.lease);
                options.label = label.unwrap_or(options.label);
                Arc::new(SqliteStore::open(dir, options)?)
            }
            Self::ReadOnly(dir) => match SqliteStore::open_existing_read_only(dir)? {
                Some(store) => Arc::new(store),
                None => Arc::new(MemoryStore::default()),
            },
        })
    }
}

/// An embedder's own storage of files, in place of directories of this machine.
#[derive(Clone)]
pub struct FilePorts {
    /// Creates workspaces and merges them.
    pub workspaces: Arc<dyn Workspaces>,
    /// Opens them for file tools.
    pub dirs: Arc<dyn WorkspaceDirs>,
    /// States how programs see them.
    pub views: Arc<dyn WorkspaceViews>,
    /// Serves results, salvage and cleaning.
    pub files: Arc<dyn RunFiles>,
    /// Stores outputs and records of processes.
    pub records: Arc<dyn RunRecords>,
}

/// Configures a [`Posse`] before it is opened.
pub struct PosseBuilder {
    state: StateDir,
    store: Option<Arc<dyn Store>>,
    models: Vec<(String, Arc<dyn Model>)>,
    registry: Option<Arc<dyn Models>>,
    script_dir: PathBuf,
    providers: Providers,
    prices: Prices,
    tools: Vec<Tool>,
    system: Option<Arc<dyn System>>,
    faults: Faults,
    lease: Option<Duration>,
    label: Option<String>,
    sandbox: SandboxOptions,
    workspaces: WorkspaceSettings,
    file_ports: Option<FilePorts>,
    search: Search,
    hooks: Option<Arc<dyn Hooks>>,
    command_hooks: Vec<Hook>,
    approvals: Option<Arc<dyn ApprovalStore>>,
    options: RuntimeOptions,
}

impl Default for PosseBuilder {
    fn default() -> Self {
        Self {
            state: StateDir::Absent,
            store: None,
            models: Vec::new(),
            registry: None,
            script_dir: PathBuf::from("."),
            providers: Providers::default(),
            prices: Prices::default(),
            tools: Vec::new(),
            system: None,
            faults: Faults::default(),
            lease: None,
            label: None,
            sandbox: SandboxOptions::default(),
            workspaces: WorkspaceSettings::default(),
            file_ports: None,
            search: Search::default(),
            hooks: None,
            command_hooks: Vec::new(),
            approvals: None,
            options: RuntimeOptions::default(),
        }
    }
}

impl PosseBuilder {
    /// Stores workspaces, outputs, process records and replays in this directory, and the journal too unless the
    /// embedder supplies a [store](Self::store). Several processes may share it.
    pub fn state_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.state = StateDir::ReadWrite(dir.as_ref().to_owned());
        self
    }

    /// Reads this state directory and writes nothing. If the directory is missing, it has no runs.
    pub fn open_read_only(mut self, dir: impl AsRef<Path>) -> Self {
        self.state = StateDir::ReadOnly(dir.as_ref().to_owned());
        self
    }

    /// Keeps the journal in memory, whatever the state directory.
    pub fn in_memory(self) -> Self {
        self.store(Arc::new(MemoryStore::default()))
    }

    /// Keeps the journal in the embedder's own store. This does not affect files: everything beside the journal is in
    /// the [state directory](Self::state_dir), with any store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds a model under a name.
    pub fn model(mut self, name: &str, model: impl Model) -> Self {
        self.models.push((name.to_owned(), Arc::new(model)));
        self
    }

    /// Resolves models with the embedder's own registry.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.registry = Some(models);
        self
    }

    /// Sets where providers are, with which keys and limits. Nothing is read from the environment. Without this, only
    /// providers that need no key are reachable.
    ///
    /// ```
    /// use posse::{Key, Posse, ProviderWords, Providers};
    ///
    /// let key = Some(Key::new("sk-...", "the vault"));
    /// let words = ProviderWords { key, ..ProviderWords::default() };
    /// let providers = Providers::new([("anthropic".to_owned(), words)], []);
    /// assert_eq!(providers.key_origin("anthropic"), Ok(Some("the vault".to_owned())));
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let posse = Posse::builder().providers(providers).in_memory().open()?;
    /// # Ok::<_, posse::Error>(posse) }).unwrap();
    /// ```
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// Sets prices that take precedence over Posse's table.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Sets the directory that relative `scripted/<file>` names refer to.
    pub fn script_dir(mut self, dir: impl AsRef<Path>) -> Self {
        dir.as_ref().clone_into(&mut self.script_dir);
        self
    }

    /// Adds a tool to the built-in ones. A tool with the same name replaces it.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets how the sandboxes of commands are created. By default this program creates them, which requires
    /// [`init`](crate::init) first in its `main`.
    pub fn sandbox(mut self, options: SandboxOptions) -> Self {
        self.sandbox = options;
        self
    }

    /// Sets how workspaces are created for agents that can change files.
    pub fn workspaces(mut self, settings: WorkspaceSettings) -> Self {
        self.workspaces = settings;
        self
    }

    /// Keeps workspaces, results and outputs with these ports. [Workspace settings](Self::workspaces) have no effect
    /// then.
    pub fn file_ports(mut self, ports: FilePorts) -> Self {
        self.file_ports = Some(ports);
        self
    }

    /// Sets the service that searches the web for agents. Without it, a search fails with a text that says how to set
    /// it.
    pub fn search(mut self, search: Search) -> Self {
        self.search = search;
        self
    }

    /// Replaces the clock and the source of random numbers.
    pub fn system(mut self, system: Arc<dyn System>) -> Self {
        self.system = Some(system);
        self
    }

    /// Sets fault points, for tests that kill the process.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the label by which users recognise this process when it executes a run, such as `host:pid`; default: its
    /// process id. An embedder's own [store](Self::store) sets it in its own way.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets how long a lease lasts without renewal.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self.options.heartbeat = lease / 3;
        self
    }

    /// Sets the namespace of the runs; default: `local`.
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.options.tenant = tenant;
        self
    }

    /// Sets hooks that are called before and after operations of agents, and may deny them.
    pub fn hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Sets hooks as commands that run in the sandbox. They have no effect if the embedder sets its own
    /// [hooks](Self::hooks).
    pub fn command_hooks(mut self, hooks: Vec<Hook>) -> Self {
        self.command_hooks = hooks;
        self
    }

    /// Stores answers of "always" here ([`Posse::answer`]). Without a store they apply to their run alone.
    pub fn approvals(mut self, approvals: Arc<dyn ApprovalStore>) -> Self {
        self.approvals = Some(approvals);
        self
    }

    /// Opens the state directory and returns the `Posse`.
    pub fn open(self) -> Result<Posse, Error> {
        if !posse_files::can_open_beneath() {
            return Err(Error::OldKernel);
        }
        let (state, temporary) = if let Some(dir) = self.state.path() {
            (dir.to_owned(), None)
        } else {
            let dir = TemporaryState::new().map_err(WorkspaceError::from)?;
            (dir.path().to_owned(), Some(dir))
        };
        let mut settings = self.workspaces;
        let writes = !matches!(self.state, StateDir::ReadOnly(_));
        let replays = writes.then(|| ReplayHome { state: state.clone(), git: settings.options.git.clone() });
        let mut sandbox = self.sandbox;
        // No command sees the state directory, wherever it is.
        sandbox.hidden.push(state.clone());
        let store = match self.store {
            Some(store) => store,
            None => self.state.store(&self.faults, self.lease, self.label)?,
        };
        let models = self.registry.unwrap_or_else(|| {
            let registry = ModelRegistry::new(self.script_dir).providers(self.providers).prices(self.prices);
            for (name, model) in self.models {
                registry.insert(name, model);
            }
            Arc::new(registry)
        });
        let sandbox = Sandbox::new(sandbox);
        let file_ports = self.file_ports.unwrap_or_else(|| {
            let files = Arc::new(LocalFiles::new(&state, settings.options.clone()));
            let faults = self.faults.clone();
            settings.options.faults = Some(Arc::new(move |point| faults.hit(point)));
            let workspaces = match temporary {
                Some(state) => LocalWorkspaces::temporary(state, sandbox.clone(), settings),
                None => LocalWorkspaces::new(&state, sandbox.clone(), settings),
            };
            let workspaces = Arc::new(workspaces);
            let (dirs, views) = (workspaces.clone(), workspaces.clone());
            FilePorts {
                workspaces,
                dirs,
                views,
                files,
                records: Arc::new(LocalRecords::new(&state.join(RUNS))),
            }
        });
        let FilePorts { workspaces, dirs, views, files, records } = file_ports;
        let workspaces = Some(workspaces).filter(|_| writes);
        let hands = ToolServices {
            sandbox,
            records: Some(records.clone()),
            search: self.search,
            dirs,
            views,
            ..ToolServices::default()
        };
        let commands = self.command_hooks;
        // Without hooks, `None` lets the engine skip the check which operations need a hook.
        let own = self.hooks.is_none() && !commands.is_empty();
        let own = own.then(|| CommandHooks::new(hands.clone(), commands));
        let failures = own.as_ref().map(CommandHooks::failures);
        let hooks = self.hooks.or_else(|| Some(Arc::new(own?) as Arc<dyn Hooks>));
        let mut tools = posse_tools::builtin(hands);
        for tool in self.tools {
            tools.retain(|known| known.name != tool.name);
            tools.push(tool);
        }
        let shared: Arc<[Tool]> = tools.clone().into();
        let tenant = self.options.tenant.clone();
        let system = self.system.unwrap_or_else(|| Arc::new(ProcessSystem::new(Some(records))));
        let parts = Parts { store, models, tools, system, workspaces, hooks, faults: self.faults };
        let posse =
            Posse::new(Runtime::new(parts, self.options), tenant, shared, Some(files), state, replays);
        Ok(Posse { hook_failures: failures, approvals: self.approvals, ..posse })
    }
}
