//! Keeps what models and tools wrote from steering a terminal: the one cleaning of texts, under the name it has here.

pub(crate) use posse_domain::printable::{clean, is_plain, line, visible, visible_line};
