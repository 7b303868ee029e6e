//! Puts a `Posse` together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posse_engine::ports::{Faults, Hooks, Model, Models, Store, System, TenantId, Tool};
use posse_engine::{Parts, Runtime, RuntimeOptions};
use posse_models::{ModelRegistry, Prices, Providers};
use posse_sandbox::{Sandbox, SandboxOptions};
use posse_store::{MemoryStore, SqliteOptions, SqliteStore};
use posse_tools::hooks::{CommandHooks, Hook};
use posse_tools::{Outputs, Search, ToolServices};

use crate::approvals::ApprovalStore;
use crate::replay::ReplayHome;
use crate::system::ProcessSystem;
use crate::workspaces::{HostWorkspaces, WorkspaceSettings};
use crate::{Error, Posse};

/// The directory of what runs leave beside the journal.
const RUNS: &str = "runs";

enum StoreLocation {
    Memory,
    Directory(PathBuf),
    Existing(PathBuf),
    Given(Arc<dyn Store>),
}

/// Describes a [`Posse`] before it is opened.
pub struct PosseBuilder {
    place: StoreLocation,
    models: Vec<(String, Arc<dyn Model>)>,
    catalog: Option<Arc<dyn Models>>,
    script_dir: PathBuf,
    providers: Providers,
    prices: Prices,
    tools: Vec<Tool>,
    system: Option<Arc<dyn System>>,
    faults: Faults,
    lease: Option<Duration>,
    sandbox: SandboxOptions,
    workspaces: Option<WorkspaceSettings>,
    search: Search,
    hooks: Option<Arc<dyn Hooks>>,
    command_hooks: Vec<Hook>,
    approvals: Option<Arc<dyn ApprovalStore>>,
    options: RuntimeOptions,
}

impl Default for PosseBuilder {
    fn default() -> Self {
        Self {
            place: StoreLocation::Memory,
            models: Vec::new(),
            catalog: None,
            script_dir: PathBuf::from("."),
            providers: Providers::default(),
            prices: Prices::default(),
            tools: Vec::new(),
            system: None,
            faults: Faults::default(),
            lease: None,
            sandbox: SandboxOptions::default(),
            workspaces: Some(WorkspaceSettings::default()),
            search: Search::default(),
            hooks: None,
            command_hooks: Vec::new(),
            approvals: None,
            options: RuntimeOptions::default(),
        }
    }
}

impl PosseBuilder {
    /// Keeps the journal in this directory. Several processes may share it.
    pub fn state_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.place = StoreLocation::Directory(dir.as_ref().to_owned());
        self
    }

    /// Looks at the journal in this directory and writes nothing, not even a missing directory: then there are no
    /// runs.
    pub fn open_read_only(mut self, dir: impl AsRef<Path>) -> Self {
        self.place = StoreLocation::Existing(dir.as_ref().to_owned());
        self
    }

    /// Keeps the journal in memory: for tests.
    pub fn in_memory(mut self) -> Self {
        self.place = StoreLocation::Memory;
        self
    }

    /// Keeps the journal in a store of the embedder's own.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.place = StoreLocation::Given(store);
        self
    }

    /// Adds a model under a name.
    pub fn model(mut self, name: &str, model: impl Model) -> Self {
        self.models.push((name.to_owned(), Arc::new(model)));
        self
    }

    /// Finds models in a catalogue of the embedder's own.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.catalog = Some(models);
        self
    }

    /// Reaches providers as this says: where they are, with which keys, within which limits. Nothing is read from the
    /// environment; without this only providers are reached that want no key.
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

    /// Prices that go before those of Posse's table.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Where relative `scripted/<file>` names are looked for.
    pub fn script_dir(mut self, dir: impl AsRef<Path>) -> Self {
        dir.as_ref().clone_into(&mut self.script_dir);
        self
    }

    /// Adds a tool to the built-in ones; one of the same name replaces it.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// How the boxes are made that commands run in. By default this program makes them, which needs
    /// [`init`](crate::init) first in its `main`.
    pub fn sandbox(mut self, options: SandboxOptions) -> Self {
        self.sandbox = options;
        self
    }

    /// How the workspaces are made that agents who can change files work in.
    pub fn workspaces(mut self, settings: WorkspaceSettings) -> Self {
        self.workspaces = Some(settings);
        self
    }

    /// Lets all agents work in the run's directory, one writer at a time, and merges nothing. So it is without a
    /// state directory too: there is nowhere to keep workspaces then.
    pub fn in_place(mut self) -> Self {
        self.workspaces = None;
        self
    }

    /// Who is asked when an agent searches the web. Without this, nobody is, and the agent is told how to change that.
    pub fn search(mut self, search: Search) -> Self {
        self.search = search;
        self
    }

    /// Another clock and another source of chance.
    pub fn system(mut self, system: Arc<dyn System>) -> Self {
        self.system = Some(system);
        self
    }

    /// Fault points, for tests that end the process.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// How long a silent owner keeps its runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self.options.heartbeat = lease / 3;
        self
    }

    /// Whose runs these are.
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.options.tenant = tenant;
        self
    }

    /// Programs that hear of what agents do, and may object.
    pub fn hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// The same as commands that run in the sandbox, unless there are [hooks](Self::hooks) of the embedder's own.
    pub fn command_hooks(mut self, hooks: Vec<Hook>) -> Self {
        self.command_hooks = hooks;
        self
    }

    /// Stores answers of "always" here ([`Posse::answer`]); without a store they count for their run alone.
    pub fn approvals(mut self, approvals: Arc<dyn ApprovalStore>) -> Self {
        self.approvals = Some(approvals);
        self
    }

    /// Opens it.
    pub fn open(self) -> Result<Posse, Error> {
        // What runs leave beside the journal: long outputs, and who is alive.
        let runs = match &self.place {
            StoreLocation::Directory(dir) => Some(dir.join(RUNS)),
            StoreLocation::Memory | StoreLocation::Existing(_) | StoreLocation::Given(_) => None,
        };
        let files = match (&self.place, &self.workspaces) {
            (StoreLocation::Directory(dir) | StoreLocation::Existing(dir), Some(settings)) => {
                Some(posse_workspace::Workspaces::new(dir, settings.host.clone()))
            }
            _ => None,
        };
        let replays = match (&runs, &self.workspaces) {
            (Some(runs), Some(settings)) => Some(ReplayHome {
                state: runs.parent().unwrap_or(runs).to_owned(),
                git: settings.host.git.clone(),
            }),
            _ => None,
        };
        let mut sandbox = self.sandbox;
        if let StoreLocation::Directory(dir) | StoreLocation::Existing(dir) = &self.place {
            // No command sees the journal, wherever it is kept.
            sandbox.hidden.push(dir.clone());
        }
        let store: Arc<dyn Store> = match self.place {
            StoreLocation::Memory => Arc::new(MemoryStore::default()),
            StoreLocation::Given(store) => store,
            StoreLocation::Directory(dir) => {
                let mut options = SqliteOptions { faults: self.faults.clone(), ..SqliteOptions::default() };
                options.lease = self.lease.unwrap_or(options.lease);
                Arc::new(SqliteStore::open(&dir, options)?)
            }
            StoreLocation::Existing(dir) => match SqliteStore::open_existing_read_only(&dir)? {
                Some(store) => Arc::new(store),
                None => Arc::new(MemoryStore::default()),
            },
        };
        let models = self.catalog.unwrap_or_else(|| {
            let catalog = ModelRegistry::new(self.script_dir).providers(self.providers).prices(self.prices);
            for (name, model) in self.models {
                catalog.insert(name, model);
            }
            Arc::new(catalog)
        });
        let outputs = runs.clone().map(Outputs::beneath);
        let sandbox = Sandbox::new(sandbox);
        let workspaces = match (self.workspaces, &runs) {
            (Some(mut settings), Some(runs)) => {
                let faults = self.faults.clone();
                settings.host.faults = Some(Arc::new(move |point| faults.hit(point)));
                let state = runs.parent().unwrap_or(runs).to_owned();
                Some(HostWorkspaces::new(&state, runs.clone(), sandbox.clone(), settings))
            }
            _ => None,
        };
        let mut hands = ToolServices { sandbox, outputs, search: self.search, ..ToolServices::default() };
        if let Some(workspaces) = &workspaces {
            hands.views = Arc::new(workspaces.clone());
        }
        let commands = self.command_hooks;
        // Without hooks there is nobody to ask whether they want to hear of anything.
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
        let system = self.system.unwrap_or_else(|| Arc::new(ProcessSystem::new(runs)));
        let workspaces = workspaces.map(|all| Arc::new(all) as Arc<dyn posse_engine::ports::Workspaces>);
        let parts = Parts { store, models, tools, system, workspaces, hooks, faults: self.faults };
        let posse = Posse::new(Runtime::new(parts, self.options), tenant, shared, files, replays);
        Ok(Posse { hook_failures: failures, approvals: self.approvals, ..posse })
    }
}
