//! `cargo xtask web test`: runs the stories of the page in a real browser, against the real binary with scripted models.

use crate::{Failure, Outcome};

pub(crate) fn run(_: &[String]) -> Outcome {
    Err(Failure::new("the page has no stories in a browser yet"))
}
