//! Removes terminal escapes from texts of models and tools: re-exports the common cleaning functions.

pub(crate) use posse::printable::{clean, is_plain, line, visible, visible_line};
