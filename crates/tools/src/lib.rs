//! The tools a model can call.
//!
//! Each tool is one file, and what a model reads about it is beside it: `grep.rs` has the typed input, whose
//! doc comments become the schema's descriptions, and the work; `grep.md` says when and how to use it. What
//! the tools have in common is in a few modules without a text of their own: `input` reads and checks
//! arguments, `space` reaches the workspace, `answer` keeps results within limits, `change` is what
//! `write` and `edit` share.
//!
//! A tool knows only what its call hands it, and the [`ToolServices`] of its process. It holds no state of an agent, so all
//! agents of a process share one set.

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
mod views;
mod webfetch;
mod websearch;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use outputs::{Outputs, records};
use posse_egress::Egress;
use posse_engine::ports::Tool;
use posse_sandbox::{Sandbox, SandboxOptions};
pub use views::{InPlace, ViewFuture, WorkspaceView, WorkspaceViews};
pub use webfetch::webfetch;
pub use websearch::{Search, websearch};

/// What tools reach the machine with.
#[derive(Debug, Clone)]
pub struct ToolServices {
    /// What commands run in.
    pub sandbox: Sandbox,
    /// Where long outputs are kept and processes written down; none keeps none.
    pub outputs: Option<Outputs>,
    /// How programs see the workspaces of agents.
    pub views: Arc<dyn WorkspaceViews>,
    /// The way to the network.
    pub egress: Egress,
    /// Who is asked when an agent searches the web.
    pub search: Search,
}

impl Default for ToolServices {
    fn default() -> Self {
        Self {
            sandbox: Sandbox::new(SandboxOptions::default()),
            outputs: None,
            views: Arc::new(InPlace),
            egress: Egress::default(),
            search: Search::default(),
        }
    }
}

/// Every tool there is, in the order in which models are told about them.
pub fn builtin(hands: ToolServices) -> Vec<Tool> {
    let ToolServices { egress, search, .. } = hands.clone();
    vec![
        read::tool(hands.outputs.clone()),
        list::tool(),
        glob::tool(),
        grep::tool(),
        write::tool(),
        edit::tool(),
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
