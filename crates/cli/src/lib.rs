//! The posse command.
