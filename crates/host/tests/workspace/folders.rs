//! Folders of every kind that a person may have.
