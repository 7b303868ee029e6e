//! Posse for embedders: start runs of sub-agents under contract, watch them, cancel them.
