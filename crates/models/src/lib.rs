//! Models behind the engine's model port.
