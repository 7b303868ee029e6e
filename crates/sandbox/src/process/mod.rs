//! Captures what programs print, within limits.

mod capture;

pub use capture::{Capture, CapturedOutput, OutputLimits, Spill};
