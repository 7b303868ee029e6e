//! The tools a model can call.
//!
//! Each tool is one file, and what a model reads about it is beside it: `grep.rs` has the typed input, whose
//! doc comments become the schema's descriptions, and the work; `grep.md` says when and how to use it. What
//! the tools have in common is in a few modules without a text of their own: `input` reads and checks
//! arguments, `space` reaches the workspace, `answer` keeps results within limits, `change` is what
//! `write` and `edit` share.
//!
//! A tool knows only what its call hands it. It holds no state, so all agents of a process share one set.

mod answer;
mod change;
mod edit;
mod glob;
mod grep;
mod input;
mod list;
mod read;
mod space;
mod spec;
mod task;
mod task_cancel;
mod task_close;
mod task_send;
mod task_status;
mod todo;
mod write;

#[cfg(test)]
mod tests;

use posse_engine::ports::Tool;

/// Every tool there is, in the order in which models are told about them.
pub fn builtin() -> Vec<Tool> {
    vec![
        read::tool(),
        list::tool(),
        glob::tool(),
        grep::tool(),
        write::tool(),
        edit::tool(),
        todo::tool(),
        task::tool(),
        task_status::tool(),
        task_send::tool(),
        task_cancel::tool(),
        task_close::tool(),
    ]
}
