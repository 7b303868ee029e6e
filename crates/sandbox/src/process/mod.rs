//! What programs print, kept within bounds.

mod capture;

pub use capture::{Capture, CapturedOutput, OutputLimits, Spill};
