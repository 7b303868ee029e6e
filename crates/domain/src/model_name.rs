//! The names of models as users read them.

use std::borrow::Cow;

/// The prefixes of models that are files: scripts, and bundles that are replayed.
const OF_FILES: [&str; 2] = ["scripted/", "replay/"];

/// A model's name for a line of text. One that is a file is named by the file's name: in a run, it has an absolute path.
pub fn shown_model(name: &str) -> Cow<'_, str> {
    let of_file = OF_FILES.iter().find_map(|prefix| {
        let path = name.strip_prefix(prefix).filter(|path| path.starts_with('/'))?;
        let (_, file) = path.rsplit_once('/')?;
        (!file.is_empty()).then(|| Cow::Owned(format!("{prefix}{file}")))
    });
    of_file.unwrap_or(Cow::Borrowed(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_by_its_file_and_every_other_model_as_it_is() {
        for (name, shown) in [
            ("scripted//home/ada/project/script.yaml", "scripted/script.yaml"),
            ("scripted/demo", "scripted/demo"),
            ("scripted/scripts/one.yaml", "scripted/scripts/one.yaml"),
            ("scripted//", "scripted//"),
            ("replay//tmp/k3f9ab2c.posse", "replay/k3f9ab2c.posse"),
            ("replay/k3f9ab2c", "replay/k3f9ab2c"),
            ("anthropic/claude-sonnet-5", "anthropic/claude-sonnet-5"),
            ("openrouter/vendor//model", "openrouter/vendor//model"),
        ] {
            assert_eq!(shown_model(name), shown);
        }
    }
}
