//! The journal: SQLite and memory behind the engine's store port.
