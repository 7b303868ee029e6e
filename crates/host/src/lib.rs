//! What touches the machine: files beneath a workspace.
