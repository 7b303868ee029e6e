//! The ledger over the whole tree.
