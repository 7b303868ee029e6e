//! The line that a user types, as a pure machine over keys.

use super::completion::{Candidate, Completer, Completions};
use super::history::History;
use crate::view::keys::Key;

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditStep {
    /// More is to be typed.
    Typing,
    /// The text is complete.
    Done(String),
    /// The user leaves.
    Quit,
}

/// Suggestions for the word at the cursor.
#[derive(Debug)]
pub(super) struct Menu {
    /// Where the word begins.
    start: usize,
    pub(super) items: Vec<Candidate>,
    /// The suggestion that was inserted last.
    pub(super) chosen: Option<usize>,
}

/// A search in the history.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) query: String,
    /// The entry that was found.
    found: Option<usize>,
}

/// A text that is being typed.
#[derive(Debug, Default)]
pub(super) struct Editor {
    pub(super) text: String,
    /// In bytes, at the beginning of a character.
    pub(super) cursor: usize,
    pub(super) menu: Option<Menu>,
    pub(super) search: Option<Search>,
    is_pasting: bool,
    /// The entry of the history that is shown, and the text that was typed before.
    recalled: Option<(usize, String)>,
    max_bytes: usize,
}

impl Editor {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Removes everything that was typed.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.max_bytes);
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: Key, history: &History, completer: &dyn Completer) -> EditStep {
        if let Some(search) = self.search.take()
            && self.search_key(search, key, history)
        {
            return EditStep::Typing;
        }
        match key {
            Key::PasteStart => self.is_pasting = true,
            Key::PasteEnd => self.is_pasting = false,
            Key::Enter if self.is_pasting => self.insert("\n"),
            Key::Enter if self.text[..self.cursor].ends_with('\\') => {
                self.remove(self.before());
                self.insert("\n");
            }
            Key::Enter => return EditStep::Done(std::mem::take(&mut self.text)),
            Key::Control('d') if self.text.is_empty() => return EditStep::Quit,
            Key::Control('r') => {
                self.menu = None;
                self.search = Some(Search::default());
                return EditStep::Typing;
            }
            Key::Tab => return self.complete(1, completer),
            Key::BackTab => return self.complete(-1, completer),
            Key::Up if !self.go_line(-1) => self.recall_older(history),
            Key::Down if !self.go_line(1) => self.recall_newer(history),
            key => self.edit(key),
        }
        self.suggest(completer);
        EditStep::Typing
    }

    /// A key that changes the text or moves the cursor.
    fn edit(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::AltEnter => self.insert("\n"),
            Key::Backspace => self.remove(self.before()),
            Key::Delete | Key::Control('d') => {
                let end = self.after();
                self.text.drain(self.cursor..end);
            }
            Key::Left | Key::Control('b') => self.cursor = self.before(),
            Key::Right | Key::Control('f') => self.cursor = self.after(),
            Key::Home | Key::Control('a') => self.cursor = self.line_start(),
            Key::End | Key::Control('e') => self.cursor = self.line_end(),
            Key::Control('u') => self.remove(self.line_start()),
            Key::Control('k') => {
                let end = self.line_end();
                self.text.drain(self.cursor..end);
            }
            Key::Control('w') => self.remove(self.word_start()),
            _ => {}
        }
    }

    fn insert(&mut self, text: &str) {
        if self.text.len() + text.len() <= self.max_bytes {
            self.text.insert_str(self.cursor, text);
            self.cursor += text.len();
        }
    }

    /// Removes the text between `from` and the cursor.
    fn remove(&mut self, from: usize) {
        self.text.drain(from..self.cursor);
        self.cursor = from;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn word_start(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))
    }

    /// Moves to the line above or below. `false` if there is none.
    fn go_line(&mut self, by: i32) -> bool {
        let column = self.text[self.line_start()..self.cursor].chars().count();
        let start = if by < 0 {
            let Some(above) = self.line_start().checked_sub(1) else { return false };
            self.text[..above].rfind('\n').map_or(0, |at| at + 1)
        } else {
            let end = self.line_end();
            if end == self.text.len() {
                return false;
            }
            end + 1
        };
        let line = self.text[start..].split('\n').next().unwrap_or("");
        let bytes: usize = line.chars().take(column).map(char::len_utf8).sum();
        self.cursor = start + bytes;
        true
    }

    fn recall_older(&mut self, history: &History) {
        let at = self.recalled.as_ref().map_or(history.len(), |(at, _)| *at);
        if let Some(older) = at.checked_sub(1) {
            let typed = self.recalled.take().map_or_else(|| self.text.clone(), |(_, typed)| typed);
            self.recall(history.get(older));
            self.recalled = Some((older, typed));
        }
    }

    fn recall_newer(&mut self, history: &History) {
        let Some((at, typed)) = self.recalled.take() else { return };
        if at + 1 < history.len() {
            self.recall(history.get(at + 1));
            self.recalled = Some((at + 1, typed));
        } else {
            self.recall(&typed);
        }
    }

    fn recall(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.cursor = self.text.len();
    }

    /// Handles a key of a search. `false` if the key ends the search and means something else.
    fn search_key(&mut self, mut search: Search, key: Key, history: &History) -> bool {
        let newest = history.len();
        match key {
            Key::Char(c) => {
                search.query.push(c);
                search.found = history.find(&search.query, newest);
            }
            Key::Backspace => {
                search.query.pop();
                search.found = history.find(&search.query, newest);
            }
            Key::Control('r') => {
                let before = search.found.unwrap_or(newest);
                search.found = history.find(&search.query, before).or(search.found);
            }
            Key::Escape => {
                self.clear();
                return true;
            }
            // What was found can be changed before it is used.
            Key::Enter => return true,
            _ => return false,
        }
        self.recall(search.found.map_or("", |at| history.get(at)));
        self.search = Some(search);
        true
    }

    fn suggest(&mut self, completer: &dyn Completer) {
        self.menu = None;
        if self.is_pasting {
            return;
        }
        let found = completer.complete(&self.text[..self.cursor]);
        self.menu = found
            .filter(|found| !found.candidates.is_empty())
            .map(|Completions { start, candidates }| Menu { start, items: candidates, chosen: None });
    }

    /// Inserts what all suggestions have in common, or else the next of them.
    fn complete(&mut self, by: isize, completer: &dyn Completer) -> EditStep {
        let Some(mut menu) = self.menu.take() else { return EditStep::Typing };
        let common = common_prefix(&menu.items);
        let is_longer = menu.chosen.is_none() && common.len() > self.cursor - menu.start;
        if is_longer {
            self.replace(menu.start, &common);
            self.suggest(completer);
            return EditStep::Typing;
        }
        let count = menu.items.len();
        let next = match menu.chosen {
            None if by < 0 => count - 1,
            None => 0,
            Some(at) => at.saturating_add_signed(by.rem_euclid(isize::try_from(count).unwrap_or(1))) % count,
        };
        self.replace(menu.start, &menu.items[next].text.clone());
        menu.chosen = Some(next);
        self.menu = Some(menu);
        EditStep::Typing
    }

    fn replace(&mut self, start: usize, text: &str) {
        self.remove(start);
        self.insert(text);
    }
}

/// The beginning that all candidates have.
fn common_prefix(items: &[Candidate]) -> String {
    let mut common = items.first().map(|item| item.text.clone()).unwrap_or_default();
    for item in items {
        let same: usize = common
            .chars()
            .zip(item.text.chars())
            .take_while(|(a, b)| a == b)
            .map(|(a, _)| a.len_utf8())
            .sum();
        common.truncate(same);
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes words that begin with a slash.
    struct Words;

    impl Completer for Words {
        fn complete(&self, before: &str) -> Option<Completions> {
            let fits = |word: &&str| before.starts_with('/') && word.starts_with(before);
            let candidates = ["/model ", "/models ", "/new "].into_iter().filter(fits);
            let candidates = candidates.map(|text| Candidate { text: text.to_owned(), about: String::new() });
            Some(Completions { start: 0, candidates: candidates.collect() })
        }
    }

    fn history() -> History {
        History::of(["one", "two\nlines", "three"])
    }

    /// The text and the cursor after these keys, with `|` for the cursor.
    fn typed(keys: &[Key]) -> String {
        let mut editor = Editor::new(100);
        for key in keys {
            assert_eq!(editor.key(*key, &history(), &Words), EditStep::Typing, "{key:?}");
        }
        let mut text = editor.text;
        text.insert(editor.cursor, '|');
        text
    }

    fn chars(text: &str) -> Vec<Key> {
        text.chars().map(|c| if c == '\n' { Key::Enter } else { Key::Char(c) }).collect()
    }

    #[test]
    fn keys_edit_the_line() {
        let after = |text: &str, keys: &[Key]| typed(&[chars(text), keys.to_vec()].concat());
        assert_eq!(after("fix it", &[Key::Left, Key::Backspace]), "fix |t");
        assert_eq!(after("fix it", &[Key::Home, Key::Delete, Key::Right]), "i|x it");
        assert_eq!(after("fix it now", &[Key::Control('w'), Key::Control('w')]), "fix |");
        assert_eq!(after("fix it", &[Key::Left, Key::Left, Key::Control('k')]), "fix |");
        assert_eq!(after("fix it", &[Key::Left, Key::Control('u')]), "|t");
        assert_eq!(after("é世", &[Key::Left, Key::Backspace]), "|世");
        assert_eq!(after(&"x".repeat(150), &[]), format!("{}|", "x".repeat(100)), "the limit");
    }

    #[test]
    fn a_backslash_alt_enter_and_a_paste_make_several_lines() {
        assert_eq!(typed(&chars("one\\\ntwo")), "one\ntwo|");
        assert_eq!(typed(&[Key::Char('a'), Key::AltEnter, Key::Char('b'), Key::Up, Key::End]), "a|\nb");
        let pasted = [vec![Key::PasteStart], chars("a\nb\n"), vec![Key::PasteEnd]].concat();
        assert_eq!(typed(&pasted), "a\nb\n|", "a paste does not start a run");
        let mut editor = Editor::new(100);
        for key in pasted {
            editor.key(key, &history(), &Words);
        }
        assert_eq!(editor.key(Key::Enter, &history(), &Words), EditStep::Done("a\nb\n".to_owned()));
    }

    #[test]
    fn the_history_is_recalled_and_what_was_typed_is_not_lost() {
        assert_eq!(typed(&[Key::Char('x'), Key::Up]), "three|");
        assert_eq!(typed(&[Key::Char('x'), Key::Up, Key::Up]), "two\nlines|");
        assert_eq!(typed(&[Key::Up, Key::Up, Key::Up]), "two|\nlines", "within its lines first");
        assert_eq!(typed(&[Key::Char('x'), Key::Up, Key::Down]), "x|");
        assert_eq!(typed(&[Key::Up; 9]), "one|");
    }

    #[test]
    fn the_history_is_searched() {
        let search = |keys: &[Key]| typed(&[vec![Key::Control('r')], keys.to_vec()].concat());
        assert_eq!(search(&chars("e")), "three|");
        assert_eq!(search(&[Key::Char('e'), Key::Control('r')]), "two\nlines|");
        assert_eq!(search(&[Key::Char('o'), Key::Char('n'), Key::Enter]), "one|", "it can be changed");
        assert_eq!(search(&[Key::Char('e'), Key::Escape]), "|");
        assert_eq!(search(&chars("nothing like it")), "|");
        assert_eq!(search(&[Key::Char('t'), Key::Home]), "|three", "another key ends the search");
    }

    #[test]
    fn tab_completes_what_is_common_and_then_each_suggestion() {
        let tabs = |text: &str, count: usize| typed(&[chars(text), vec![Key::Tab; count]].concat());
        assert_eq!(tabs("/m", 1), "/model|");
        assert_eq!([tabs("/m", 2), tabs("/m", 3), tabs("/m", 4)], ["/model |", "/models |", "/model |"]);
        assert_eq!(tabs("/ne", 1), "/new |");
        assert_eq!(tabs("no", 1), "no|");
        assert_eq!(typed(&[chars("/m"), vec![Key::Tab, Key::BackTab]].concat()), "/models |");
    }

    #[test]
    fn ctrl_d_quits_only_an_empty_line() {
        let mut editor = Editor::new(100);
        assert_eq!(editor.key(Key::Control('d'), &history(), &Words), EditStep::Quit);
        assert_eq!(typed(&[Key::Char('a'), Key::Home, Key::Control('d')]), "|");
    }
}
