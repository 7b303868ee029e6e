//! The tools that a model can call, for the engine.
//!
//! Each tool is one file, with its description for the model beside it: `grep.rs` has the implementation and the typed
//! input, whose doc comments become the schema's descriptions. `grep.md` explains when and how to use it. A few modules
//! have the shared code: `input` parses and checks arguments, `space` accesses the workspace, `answer` keeps results
//! within limits, `change` writes files for `write` and `edit`.
//!
//! A tool uses only its call's context and the [`ToolServices`] of its process. It holds no state of an agent, so all
//! agents of a process share one set of tools.

mod answer;
mod bash;
mod change;
mod delegate_to_agent;
mod edit;
mod glob;
mod grep;
pub mod hooks;
mod input;
mod list;
mod outputs;
mod picture;
mod read;
mod skill;
mod skill_files;
mod space;
mod spec;
mod task;
mod task_cancel;
mod task_close;
mod task_send;
mod task_status;
mod todo;
mod webfetch;
mod websearch;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use posse_egress::Egress;
use posse_engine::ports::{RunRecords, Tool};
use posse_files::{PlainDirs, WorkspaceDirs};
use posse_sandbox::{PlainViews, Sandbox, SandboxOptions, WorkspaceViews};
pub use webfetch::webfetch;
pub use websearch::{Search, websearch};

/// The services through which tools reach the machine.
#[derive(Debug, Clone)]
pub struct ToolServices {
    pub sandbox: Sandbox,
    /// Stores long outputs and records processes. Without it, neither is kept.
    pub records: Option<Arc<dyn RunRecords>>,
    /// Opens the workspaces of agents for file tools.
    pub dirs: Arc<dyn WorkspaceDirs>,
    /// How programs see the workspaces of agents.
    pub views: Arc<dyn WorkspaceViews>,
    /// The client for the network.
    pub egress: Egress,
    /// The provider of web searches.
    pub search: Search,
}

impl Default for ToolServices {
    fn default() -> Self {
        Self {
            sandbox: Sandbox::new(SandboxOptions::default()),
            records: None,
            dirs: Arc::new(PlainDirs),
            views: Arc::new(PlainViews),
            egress: Egress::default(),
            search: Search::default(),
        }
    }
}

/// All tools, in the order in which models see them.
pub fn builtin(hands: ToolServices) -> Vec<Tool> {
    let ToolServices { dirs, egress, search, .. } = hands.clone();
    vec![
        read::tool(dirs.clone(), hands.records.clone()),
        list::tool(dirs.clone()),
        glob::tool(dirs.clone()),
        grep::tool(dirs.clone()),
        write::tool(dirs.clone()),
        edit::tool(dirs),
        bash::tool(hands),
        webfetch(egress.clone()),
        websearch(egress, search),
        todo::tool(),
        skill::tool(),
        delegate_to_agent::tool(),
        task::tool(),
        task_status::tool(),
        task_send::tool(),
        task_cancel::tool(),
        task_close::tool(),
    ]
}
