//! Notes for the user beside a returned value. The library prints nothing; each front end shows notes where its user
//! reads them.

use std::fmt;

use crate::error::{Remedy, Subject};

/// One fact that the user should know. It may contain text of models and files, so a front end cleans it for its
/// screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How important the note is.
    pub level: NoteLevel,
    /// The part of the request that it is about, if any.
    pub subject: Option<Subject>,
    /// The text, without the words of one front end.
    pub text: String,
    /// What the user can do; each front end has its own words for it.
    pub remedy: Option<Remedy>,
}

/// The importance of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteLevel {
    /// A choice that was made for the user.
    Choice,
    /// Something the user may not expect.
    Note,
    /// Something that is ignored or does not work.
    Warning,
}

impl Note {
    fn new(level: NoteLevel, text: impl Into<String>) -> Self {
        Self { level, subject: None, text: text.into(), remedy: None }
    }

    /// A note about a choice that was made for the user.
    pub fn choice(text: impl Into<String>) -> Self {
        Self::new(NoteLevel::Choice, text)
    }

    /// A note about something the user may not expect.
    pub fn info(text: impl Into<String>) -> Self {
        Self::new(NoteLevel::Note, text)
    }

    /// A note about something that is ignored or does not work.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(NoteLevel::Warning, text)
    }

    /// Sets the part of the request that the note is about.
    pub fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// Adds a remedy.
    pub fn remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

/// The prefix of a line with a note of this level.
impl fmt::Display for NoteLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoteLevel::Choice => "",
            NoteLevel::Note => "note: ",
            NoteLevel::Warning => "warning: ",
        })
    }
}

/// Without the remedy.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        if let Some(subject) = self.subject {
            write!(f, "{subject}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// Notes in reading order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// An empty list.
    pub fn none() -> Self {
        Self::default()
    }

    /// Appends a note.
    pub fn push(&mut self, note: Note) {
        self.0.push(note);
    }

    /// Adds the notes of a value to these and returns the value.
    pub fn take<T>(&mut self, noted: WithNotes<T>) -> T {
        self.0.extend(noted.notes.0);
        noted.value
    }

    /// All notes, in order.
    pub fn as_slice(&self) -> &[Note] {
        &self.0
    }

    /// Iterates over the notes in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Note> {
        self.0.iter()
    }

    /// The number of notes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps only the first `most` notes.
    pub fn truncate(&mut self, most: usize) {
        self.0.truncate(most);
    }
}

impl Extend<Note> for Notes {
    fn extend<I: IntoIterator<Item = Note>>(&mut self, notes: I) {
        self.0.extend(notes);
    }
}

impl FromIterator<Note> for Notes {
    fn from_iter<I: IntoIterator<Item = Note>>(notes: I) -> Self {
        Self(notes.into_iter().collect())
    }
}

impl IntoIterator for Notes {
    type Item = Note;
    type IntoIter = std::vec::IntoIter<Note>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Notes {
    type Item = &'a Note;
    type IntoIter = std::slice::Iter<'a, Note>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A value with notes for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the notes are for the user"]
pub struct WithNotes<T> {
    /// The returned value itself.
    pub value: T,
    /// The notes to show.
    pub notes: Notes,
}

impl<T> WithNotes<T> {
    /// A value with these notes.
    pub fn new(value: T, notes: Notes) -> Self {
        Self { value, notes }
    }

    /// A value without notes.
    pub fn silent(value: T) -> Self {
        Self::new(value, Notes::none())
    }

    /// A value with one note.
    pub fn noted(value: T, note: Note) -> Self {
        Self::new(value, Notes(vec![note]))
    }
}
