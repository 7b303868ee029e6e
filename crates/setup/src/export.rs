//! Finds the user's secrets, which a bundle of a run must not contain.

use serde_json::Value;

use crate::Setup;
use crate::error::SetupError;
use crate::project_dirs;

/// The user's keys: those in the settings file, and the values of variables that are secrets by name or that the
/// settings file names. For [`posse::ExportOptions::secrets`].
///
/// The file is not read by the table of settings: a key must be found even if another setting is wrong, unknown to this
/// version or overridden.
pub fn known_secrets(setup: &Setup) -> Result<Vec<String>, SetupError> {
    let (mut secrets, mut names) = (Vec::new(), Vec::new());
    if let Some(path) = &setup.environment.settings_file {
        // Keys of a file that cannot be read would be in the bundle, so that is an error.
        let unreadable = |problem: String| {
            SetupError::usage(format!("{} cannot be read: {problem}", path.display()))
                .hint("fix it first: the keys in it must not be in the bundle")
        };
        if let Some(bytes) = project_dirs::read(path).map_err(unreadable)? {
            let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
            let settings = serde_saphyr::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
            add_keys(&settings, &mut secrets, &mut names);
        }
    }
    for (name, value) in &setup.environment.variables {
        if posse::names_a_secret(name) || names.contains(name) {
            secrets.push(value.clone());
        }
        // A plain word as a password, such as `postgres`, occurs in many unrelated texts. In URLs it is found anyway.
        let is_word = |password: &String| password.bytes().all(|byte| byte.is_ascii_lowercase());
        secrets.extend(posse::url_passwords(value).into_iter().filter(|password| !is_word(password)));
    }
    Ok(secrets)
}

/// Adds the keys in the settings, and the names of the variables that contain keys.
fn add_keys(settings: &Value, keys: &mut Vec<String>, names: &mut Vec<String>) {
    match settings {
        Value::Object(map) => {
            for (name, value) in map {
                match (name.as_str(), value) {
                    ("key", Value::String(key)) => keys.push(key.clone()),
                    ("key_env", Value::String(variable)) => names.push(variable.clone()),
                    _ => add_keys(value, keys, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_keys(item, keys, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::Environment;

    /// The secrets of a user with this settings file and these variables.
    fn secrets(settings: Option<&str>, variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let home = tempfile::tempdir().expect("a directory");
        let folder = home.path().join("posse");
        std::fs::create_dir(&folder).expect("created");
        if let Some(text) = settings {
            std::fs::write(folder.join("settings.yaml"), text).expect("written");
        }
        let config = (OsString::from("XDG_CONFIG_HOME"), home.path().as_os_str().to_owned());
        let given = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let environment = Environment::new(home.path().to_owned(), given.chain([config]));
        known_secrets(&Setup::new(environment)).map_err(|error| error.text())
    }

    #[test]
    fn keys_in_the_settings_and_variables_that_they_name_are_secrets() {
        let settings = "
providers:
  acme: {key: from-the-file}
  other: {key_env: MY_PASS}
search: {provider: tavily, key: for-the-search}
no_such_setting: [{key: in-a-list}]
";
        let variables = [("MY_PASS", "named"), ("ACME_API_KEY", "by-its-name"), ("EDITOR", "vi")];
        let mut found = secrets(Some(settings), &variables).expect("secrets");
        found.sort();
        assert_eq!(found, ["by-its-name", "for-the-search", "from-the-file", "in-a-list", "named"]);
    }

    #[test]
    fn a_file_that_is_not_text_is_an_error_because_its_keys_are_unknown() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(home.path().join("posse")).expect("created");
        std::fs::write(home.path().join("posse/settings.yaml"), b"key: \xff\n").expect("written");
        let config = (OsString::from("XDG_CONFIG_HOME"), home.path().as_os_str().to_owned());
        let setup = Setup::new(Environment::new(home.path().to_owned(), [config]));
        let error = known_secrets(&setup).expect_err("not text").text();
        assert!(error.contains("settings.yaml cannot be read: it is not UTF-8 text"), "{error}");
    }

    #[test]
    fn a_password_in_a_url_is_a_secret_unless_it_is_a_plain_word() {
        let variables =
            [("DATABASE", "postgres://ann:Tr0ub4dor@db/x"), ("LOCAL", "postgres://ann:postgres@db/x")];
        assert_eq!(secrets(None, &variables), Ok(vec!["Tr0ub4dor".to_owned()]));
    }

    #[test]
    fn settings_that_are_not_yaml_are_an_error_because_they_may_contain_keys() {
        let error = secrets(Some("providers: {acme: {key: 'half"), &[]).expect_err("not YAML");
        assert!(error.contains("settings.yaml cannot be read: "), "{error}");
        assert!(error.ends_with("hint: fix it first: the keys in it must not be in the bundle\n"), "{error}");
        assert_eq!(secrets(Some("# nothing yet\n"), &[]), Ok(Vec::new()));
    }
}
