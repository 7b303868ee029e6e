//! A real terminal multiplexer: what a screen and its history show, and what keys do.

use std::process::{Command, Output};

use crate::support::Home;

/// How often the screen is read until it shows something; each time starts a process.
const LOOKS_MAX: usize = 6_000;

/// A terminal in tmux, with a shell in the project.
pub(crate) struct Tmux<'a> {
    home: &'a Home,
}

impl<'a> Tmux<'a> {
    pub(crate) fn open(home: &'a Home, columns: u16, rows: u16) -> Self {
        home.set("TERM", "tmux-256color");
        let tmux = Self { home };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let shell = "exec env PS1='$ ' bash --noprofile --norc";
        let opened = tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, shell]);
        assert!(opened.status.success(), "{opened:?}");
        tmux.until_prompt();
        tmux
    }

    /// Calls tmux with the environment of the home.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let posse = self.home.command(&[]);
        let folder = std::path::Path::new(posse.get_program()).parent().expect("a folder").to_owned();
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.home.project().with_file_name("tmux")).args(args);
        tmux.current_dir(self.home.project()).env_clear();
        tmux.envs(posse.get_envs().filter_map(|(name, value)| Some((name, value?))));
        tmux.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display())).env("LANG", "C.UTF-8");
        // The shell of a user who cannot log in starts no command.
        tmux.env("SHELL", "/bin/sh");
        // Without it nothing is shown, so a story that needs it is not skipped. Install the package `tmux`.
        tmux.output().expect("tmux is not installed")
    }

    pub(crate) fn types(&self, keys: &[&str]) {
        let typed = self.run(&[&["send-keys"], keys].concat());
        assert!(typed.status.success(), "{typed:?}");
    }

    /// Types a command, and presses Enter once the shell shows it.
    #[track_caller]
    pub(crate) fn enters(&self, command: &str) {
        self.types(&["-l", command]);
        let is_shown = |screen: &str| screen.replace('\n', "").ends_with(command);
        self.until_it(command, is_shown);
        self.types(&["Enter"]);
    }

    /// The rows of the screen, without those after the last text.
    pub(crate) fn screen(&self) -> String {
        self.capture(&["capture-pane", "-p"])
    }

    /// The screen and everything that has scrolled off it.
    pub(crate) fn history(&self) -> String {
        self.capture(&["capture-pane", "-p", "-S", "-"])
    }

    fn capture(&self, args: &[&str]) -> String {
        let text = String::from_utf8(self.run(args).stdout).expect("UTF-8");
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// A value of the terminal.
    pub(crate) fn value(&self, format: &str) -> String {
        String::from_utf8(self.run(&["display-message", "-p", format]).stdout)
            .expect("UTF-8")
            .trim()
            .to_owned()
    }

    /// Waits until the screen shows this text.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) -> String {
        self.until_it(text, |screen| screen.contains(text))
    }

    #[track_caller]
    pub(crate) fn until_it(&self, what: &str, is_shown: impl Fn(&str) -> bool) -> String {
        for _ in 0..LOOKS_MAX {
            let screen = self.screen();
            if is_shown(&screen) {
                return screen;
            }
        }
        panic!("the screen never showed {what}:\n{}", self.screen());
    }

    /// Waits until the shell asks for the next command.
    #[track_caller]
    pub(crate) fn until_prompt(&self) -> String {
        self.until_it("a prompt", |screen| screen.lines().last().is_some_and(|line| line == "$"))
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        drop(self.run(&["kill-server"]));
    }
}
