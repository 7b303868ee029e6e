//! Opens a page in the user's browser.
//!
//! The arguments of a process can be read by every user of the machine, so the browser gets the path of a file that only its
//! user can read, and the file leads to the URL with the token.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use posse::atomic_file::{self, ExistingFile, PRIVATE};

/// The variable with the user's browser: a command, in which `%s` is the page. Several are separated by colons.
const BROWSER: &str = "BROWSER";
/// What opens a page in the browser of the desktop.
const DESKTOP: &str = "xdg-open";
/// The file in the state directory that leads to the URL.
const FILE: &str = "serve.html";

/// Opens a URL. The browser is not waited for.
pub(crate) fn open(url: &str, state_dir: &Path, variables: &[(String, String)]) -> io::Result<()> {
    let file = state_dir.join(FILE);
    atomic_file::write(&file, PRIVATE, ExistingFile::Replace, |file| file.write_all(page(url).as_bytes()))?;
    let set = variables.iter().find(|(name, value)| name == BROWSER && !value.trim().is_empty());
    let words = words(set.map_or(DESKTOP, |(_, value)| value), &file.to_string_lossy());
    let (program, args) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut browser =
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    // It may be open for hours.
    std::thread::spawn(move || browser.wait());
    Ok(())
}

/// The words of the first command, with the page.
fn words(commands: &str, page: &str) -> Vec<String> {
    let first = commands.split(':').find(|command| !command.trim().is_empty()).unwrap_or(DESKTOP);
    let mut words: Vec<String> = first.split_whitespace().map(|word| word.replace("%s", page)).collect();
    if !first.contains("%s") {
        words.push(page.to_owned());
    }
    words
}

/// A page that leads to a URL, which has no letter that means something in HTML.
fn page(url: &str) -> String {
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Posse</title>\n<meta http-equiv=\"refresh\" content=\"0; url={url}\">\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_command_gets_the_page_where_it_wants_it() {
        for (commands, expected) in [
            ("firefox", &["firefox", "/a.html"][..]),
            ("firefox --new-tab %s:lynx", &["firefox", "--new-tab", "/a.html"]),
            (":lynx", &["lynx", "/a.html"]),
            ("open=%s", &["open=/a.html"]),
        ] {
            assert_eq!(words(commands, "/a.html"), expected, "{commands}");
        }
    }
}
