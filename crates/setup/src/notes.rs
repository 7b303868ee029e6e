//! What a user should know about a value, beside the value: the library prints nothing, and each front end shows notes
//! where its user reads them.

/// Lines for the user, in the order in which they should be read. They may hold text of models and files, so a front end
/// cleans them for its screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes(Vec<String>);

impl Notes {
    /// No notes.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, line: impl Into<String>) {
        self.0.push(line.into());
    }

    /// All of them, in order.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The same, one after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, String> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Leaves only the first ones.
    pub fn truncate(&mut self, most: usize) {
        self.0.truncate(most);
    }
}

impl Extend<String> for Notes {
    fn extend<I: IntoIterator<Item = String>>(&mut self, lines: I) {
        self.0.extend(lines);
    }
}

impl FromIterator<String> for Notes {
    fn from_iter<I: IntoIterator<Item = String>>(lines: I) -> Self {
        Self(lines.into_iter().collect())
    }
}

impl IntoIterator for Notes {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Notes {
    type Item = &'a String;
    type IntoIter = std::slice::Iter<'a, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A value with what a user should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the notes are for the user"]
pub struct WithNotes<T> {
    /// The value.
    pub value: T,
    /// What to show.
    pub notes: Notes,
}

impl<T> WithNotes<T> {
    /// A value with these notes.
    pub fn new(value: T, notes: Notes) -> Self {
        Self { value, notes }
    }

    /// A value that needs no words.
    pub fn silent(value: T) -> Self {
        Self::new(value, Notes::none())
    }

    /// A value with one note.
    pub fn noted(value: T, note: impl Into<String>) -> Self {
        Self::new(value, Notes(vec![note.into()]))
    }
}
