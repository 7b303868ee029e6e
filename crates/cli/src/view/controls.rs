//! What the user does with the tree: selects, folds and follows agents, and asks for something.

use std::collections::HashSet;

use posse::{AgentId, RunView};

use super::keys::Key;
use super::rows::{Row, Tint};
use super::width::text_columns;

/// Something that a user asked for with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Send a message to this agent.
    Message(AgentId),
    /// Answer the open questions.
    Answer,
    /// Cancel this agent and its subtree.
    Cancel(AgentId),
    /// Leave the terminal to the shell; the run continues.
    Detach,
}

/// The line below the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Bottom {
    /// The most important keys.
    #[default]
    Keys,
    /// All keys.
    Help,
    /// The choice after Ctrl-C.
    Interrupted,
    /// Whether to cancel this agent.
    Confirm(AgentId),
}

/// What the user selected in the tree.
#[derive(Debug, Default)]
pub(super) struct Controls {
    selected: Option<AgentId>,
    followed: Option<AgentId>,
    folded: HashSet<AgentId>,
    bottom: Bottom,
}

const HELP: [&str; 10] = [
    "↑ ↓ select an agent",
    "→ ← Enter show or hide its children",
    "t follow its text",
    "m send it a message",
    "a answer its question",
    "c cancel it",
    "C cancel the run",
    "d detach: the run continues in the background",
    "Ctrl-C cancel or detach",
    "Ctrl-Z suspend",
];
/// The choice after Ctrl-C.
const INTERRUPTED: [&str; 4] =
    ["c cancel the run", "d detach", "any other key keeps it running", "Ctrl-C again cancels"];

impl Controls {
    pub(super) fn folded(&self) -> &HashSet<AgentId> {
        &self.folded
    }

    pub(super) fn selected(&self) -> Option<&AgentId> {
        self.selected.as_ref()
    }

    /// The agent whose text is shown, if the user chose one.
    pub(super) fn followed(&self) -> Option<&AgentId> {
        self.followed.as_ref()
    }

    /// Shows the choice after Ctrl-C. `false` if it is shown already: a second Ctrl-C cancels.
    pub(super) fn interrupt(&mut self) -> bool {
        let is_new = self.bottom != Bottom::Interrupted;
        self.bottom = Bottom::Interrupted;
        is_new
    }

    /// Removes the choice after Ctrl-C.
    pub(super) fn end_choice(&mut self) {
        self.bottom = Bottom::Keys;
    }

    /// Handles a key. `shown` are the agents on the screen, from top to bottom.
    pub(super) fn key(&mut self, key: Key, shown: &[AgentId], run: &RunView) -> Option<Wish> {
        let root = run.agents().root().map(|root| root.id.clone());
        match (std::mem::take(&mut self.bottom), key) {
            (Bottom::Interrupted, Key::Char('c')) => root.map(Wish::Cancel),
            (Bottom::Interrupted | Bottom::Keys | Bottom::Help, Key::Char('d')) => Some(Wish::Detach),
            (Bottom::Confirm(agent), Key::Char('y')) => Some(Wish::Cancel(agent)),
            // Any other key keeps the run going.
            (Bottom::Interrupted | Bottom::Confirm(_), _) | (Bottom::Help, Key::Char('?')) => None,
            (Bottom::Keys | Bottom::Help, key) => self.tree_key(key, shown, root),
        }
    }

    fn tree_key(&mut self, key: Key, shown: &[AgentId], root: Option<AgentId>) -> Option<Wish> {
        let target = self.selected.clone().or_else(|| root.clone());
        match key {
            Key::Up => {
                self.select(shown, |at| at.map_or(shown.len().saturating_sub(1), |at| at.saturating_sub(1)));
            }
            Key::Down => self.select(shown, |at| at.map_or(0, |at| at + 1)),
            Key::Left => self.folded.extend(target),
            Key::Right => drop(target.map(|agent| self.folded.remove(&agent))),
            Key::Enter => {
                if let Some(agent) = target.filter(|agent| !self.folded.remove(agent)) {
                    self.folded.insert(agent);
                }
            }
            Key::Escape => (self.selected, self.followed) = (None, None),
            Key::Char('t') => {
                self.followed = if self.followed == target { None } else { target };
            }
            Key::Char('m') => return target.map(Wish::Message),
            Key::Char('a') => return Some(Wish::Answer),
            Key::Char('c') => self.bottom = target.map_or(Bottom::Keys, Bottom::Confirm),
            Key::Char('C') => self.bottom = root.map_or(Bottom::Keys, Bottom::Confirm),
            Key::Char('?') => self.bottom = Bottom::Help,
            _ => {}
        }
        None
    }

    fn select(&mut self, shown: &[AgentId], next: impl Fn(Option<usize>) -> usize) {
        let at = shown.iter().position(|agent| Some(agent) == self.selected.as_ref());
        self.selected = shown.get(next(at).min(shown.len().saturating_sub(1))).cloned();
    }

    /// The rows below the tree. Without a keyboard there are no keys to name.
    pub(super) fn bottom(&self, has_keys: bool, columns: usize) -> Vec<Row> {
        if !has_keys {
            return vec![];
        }
        match &self.bottom {
            Bottom::Keys => vec![Row::tinted(Tint::Dim, "? keys · d detach · Ctrl-C cancel")],
            Bottom::Help => {
                let mut rows = in_rows(&HELP, "   ", columns, Tint::Dim);
                rows.push(Row::tinted(Tint::Dim, "? close this help"));
                rows
            }
            Bottom::Interrupted => in_rows(&INTERRUPTED, " · ", columns, Tint::Warning),
            Bottom::Confirm(agent) if agent.is_root() => {
                vec![Row::tinted(Tint::Warning, "cancel the run? y yes · any other key no")]
            }
            Bottom::Confirm(agent) => vec![Row::tinted(
                Tint::Warning,
                format!("cancel agent {}? y yes · any other key no", agent.relative()),
            )],
        }
    }
}

/// Short texts in as few rows as they fit into, none of them broken.
fn in_rows(texts: &[&str], between: &str, columns: usize, tint: Tint) -> Vec<Row> {
    let mut lines: Vec<String> = Vec::new();
    for text in texts {
        match lines.last_mut() {
            Some(line) if text_columns(line) + text_columns(between) + text_columns(text) <= columns => {
                line.push_str(between);
                line.push_str(text);
            }
            _ => lines.push((*text).to_owned()),
        }
    }
    lines.into_iter().map(|line| Row::tinted(tint, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents() -> (RunView, Vec<AgentId>) {
        let root: AgentId = "k3f9ab2c".parse().expect("an id");
        let child = |n: &str| format!("k3f9ab2c.{n}").parse().expect("an id");
        (RunView::default(), vec![root, child("1"), child("2")])
    }

    #[test]
    fn arrows_select_within_the_tree() {
        let (run, shown) = agents();
        let mut controls = Controls::default();
        for (key, at) in [(Key::Down, 0), (Key::Down, 1), (Key::Down, 2), (Key::Down, 2), (Key::Up, 1)] {
            assert_eq!(controls.key(key, &shown, &run), None);
            assert_eq!(controls.selected(), Some(&shown[at]));
        }
        assert_eq!(controls.key(Key::Char('m'), &shown, &run), Some(Wish::Message(shown[1].clone())));
    }

    #[test]
    fn a_cancel_is_confirmed() {
        let (run, shown) = agents();
        let mut controls = Controls::default();
        controls.key(Key::Up, &shown, &run);
        for (answer, wish) in [('n', None), ('c', None), ('y', Some(Wish::Cancel(shown[2].clone())))] {
            assert_eq!(controls.key(Key::Char('c'), &shown, &run), None);
            assert_eq!(controls.key(Key::Char(answer), &shown, &run), wish, "{answer}");
        }
        assert_eq!(controls.key(Key::Char('y'), &shown, &run), None, "the question is gone");
    }

    #[test]
    fn a_key_after_ctrl_c_chooses_and_another_ctrl_c_cancels() {
        let (run, shown) = agents();
        let mut controls = Controls::default();
        assert!(controls.interrupt());
        assert!(!controls.interrupt(), "the second one");
        assert_eq!(controls.key(Key::Char('k'), &shown, &run), None);
        assert!(controls.interrupt(), "kept running: the next one asks again");
        assert_eq!(controls.key(Key::Char('d'), &shown, &run), Some(Wish::Detach));
    }

    #[test]
    fn all_keys_can_be_read_at_every_width() {
        let (run, shown) = agents();
        for columns in [30, 59, 79, 119] {
            let mut controls = Controls::default();
            controls.key(Key::Char('?'), &shown, &run);
            let rows: Vec<String> = controls.bottom(true, columns).iter().map(Row::text).collect();
            let text = rows.join("\n");
            assert!(HELP.iter().all(|key| text.contains(key)), "{text}");
            assert!(rows.iter().all(|row| text_columns(row) <= columns.max(45)), "{columns}: {text}");
            controls.interrupt();
            let rows: Vec<String> = controls.bottom(true, columns).iter().map(Row::text).collect();
            assert!(rows.iter().all(|row| text_columns(row) <= columns), "{columns}: {rows:?}");
            assert!(rows.join("\n").contains("Ctrl-C again cancels"), "{rows:?}");
        }
    }

    #[test]
    fn enter_and_arrows_fold() {
        let (run, shown) = agents();
        let mut controls = Controls::default();
        controls.key(Key::Down, &shown, &run);
        controls.key(Key::Enter, &shown, &run);
        assert!(controls.folded().contains(&shown[0]));
        controls.key(Key::Right, &shown, &run);
        assert!(controls.folded().is_empty());
        controls.key(Key::Left, &shown, &run);
        assert!(controls.folded().contains(&shown[0]));
    }
}
