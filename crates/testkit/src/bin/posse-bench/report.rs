//! Figures with their limits, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    limit: Option<f64>,
    holds: Option<bool>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Adds a figure that must not exceed a limit.
    pub(crate) fn at_most(&mut self, name: impl Into<String>, value: f64, unit: &'static str, limit: f64) {
        let holds = Some(value <= limit);
        self.push(Figure { name: name.into(), value, unit, limit: Some(limit), holds });
    }

    /// Adds a figure without a limit.
    pub(crate) fn plain(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.push(Figure { name: name.into(), value, unit, limit: None, holds: None });
    }

    fn push(&mut self, figure: Figure) {
        eprintln!("{}: {:.3} {}", figure.name, figure.value, figure.unit);
        self.figures.push(figure);
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<58} {:>12} {:>12}  {}\n", "figure", "measured", "limit", "holds");
        for figure in &self.figures {
            let limit = figure.limit.map_or_else(String::new, |limit| format!("{limit:.3}"));
            let holds = figure.holds.map_or("", |holds| if holds { "yes" } else { "NO" });
            let name = format!("{} [{}]", figure.name, figure.unit);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<58} {:>12.3} {limit:>12}  {holds}", figure.value);
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("figures are JSON")
    }
}

/// Resident memory of this process, in KiB.
pub(crate) fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0.0)
}
