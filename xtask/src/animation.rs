//! `cargo xtask animation`: records `posse demo` in a pseudo-terminal and writes `docs/demo.svg`, the animation of the
//! README.
//!
//! The recording is replayed on a [`screen`] of our own; the frames that differ become a film in an SVG ([`film`]), which
//! needs no script and no other program.

mod film;
mod screen;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use self::screen::{Frame, TerminalEmulator};
use crate::command::{FreshDir, Profile, Program, TMPDIR, build, root};
use crate::{Failure, Outcome};

const FILE: &str = "docs/demo.svg";
const COLUMNS: u16 = 100;
const ROWS: u16 = 26;
/// Frames that follow faster than this replace one another.
const FRAME_MIN: Duration = Duration::from_millis(180);
/// The largest animation that a README should load.
const MAX_BYTES: usize = 300_000;

pub(crate) fn run(_: &[String]) -> Outcome {
    let program = build(&Program::Binary("posse"), Profile::Dev)?;
    let fresh = FreshDir::for_tests()?;
    let failed = |error: std::io::Error| Failure::new(format!("recording the demo: {error}"));
    let (terminal, other) = pseudo_terminal().map_err(failed)?;
    // As if it was installed: the demo names its own program.
    let programs = program.parent().unwrap_or(&program).display();
    let mut demo = Command::new("posse");
    demo.arg("demo").current_dir(fresh.path()).env_clear();
    demo.env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"));
    demo.env("HOME", fresh.path()).env(TMPDIR, fresh.path());
    demo.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env("TZ", "UTC");
    demo.stdin(Stdio::null()).stdout(other.try_clone().map_err(failed)?).stderr(other);
    let mut process = demo.spawn().map_err(failed)?;
    // The command keeps copies of the other end; reading ends when the process closes its own.
    drop(demo);
    let home = format!("{}/", fresh.path().display());
    let frames = record(terminal, &home);
    let status = process.wait().map_err(failed)?;
    if !status.success() {
        return Err(Failure::new(format!("the demo ended with {status}")));
    }
    let svg = film::svg(&frames, usize::from(COLUMNS), usize::from(ROWS));
    if svg.len() > MAX_BYTES {
        return Err(Failure::new(format!("{FILE} would have {} bytes, more than {MAX_BYTES}", svg.len())));
    }
    std::fs::write(root().join(FILE), &svg).map_err(failed)?;
    println!("{FILE}: {} frames, {} bytes", frames.len(), svg.len());
    Ok(())
}

/// Both ends of a pseudo-terminal of the size of the animation.
fn pseudo_terminal() -> std::io::Result<(OwnedFd, std::fs::File)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size)?;
    let name = ptsname(&terminal, Vec::new())?;
    let path = name.to_string_lossy().into_owned();
    let other = std::fs::File::options().read(true).write(true).open(path)?;
    Ok((terminal, other))
}

/// The frames that the program draws until it ends, each with the time at which it appears. The home directory is
/// shown as `~/`.
fn record(terminal: OwnedFd, home: &str) -> Vec<(Duration, Frame)> {
    let mut input = std::fs::File::from(terminal);
    let mut screen = TerminalEmulator::new(usize::from(COLUMNS), usize::from(ROWS));
    let mut frames: Vec<(Duration, Frame)> = Vec::new();
    let began = Instant::now();
    let mut buffer = [0; 8192];
    let mut pending = Vec::new();
    // The end of the program is an error on Linux, as good as the end of a file.
    while let Ok(read @ 1..) = input.read(&mut buffer) {
        pending.extend_from_slice(&buffer[..read]);
        // A character may be cut at the end of a read.
        let whole = pending.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let text = String::from_utf8_lossy(&pending[..whole]).replace(home, "~/");
        pending.drain(..whole);
        screen.print(&text);
        let (at, frame) = (began.elapsed(), screen.frame());
        match frames.last_mut() {
            Some((_, last)) if *last == frame => {}
            Some((since, last)) if at.saturating_sub(*since) < FRAME_MIN => *last = frame,
            _ => frames.push((at, frame)),
        }
    }
    frames
}
