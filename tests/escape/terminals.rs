//! The terminal of the user who started the run: no case types into it or draws on it.

use serde_json::json;

use super::case::{Case, py, sh};
use crate::support::Home;

/// The runtime has a terminal here; its programs have none.
pub(crate) fn cases() -> Vec<Case> {
    let typing = "import fcntl, glob\nfor path in ['/dev/tty', '/dev/console', '/dev/ptmx', '/dev/tty0', '/dev/pts/0'] + glob.glob('/dev/pts/*') + glob.glob('/proc/*/fd/0'):\n    try: fd = os.open(path, os.O_RDWR | os.O_NOCTTY)\n    except OSError as error: print(path, error); continue\n    if os.isatty(fd): breach(path)\nfor fd in range(0, 40):\n    for letter in b'echo BREACH\\n':\n        try: fcntl.ioctl(fd, 0x5412, bytes([letter])); breach(fd)\n        except OSError as error: pass";
    let mut cases = vec![
        sh("terminal-opened", "exec 2>&1; for t in /dev/tty /dev/pts/* /dev/ttyS0 /proc/1/fd/0; do echo x > $t && breach $t; done; tty && breach; ps -o tty= | grep -v '?' && breach; echo over").shows("over"),
        py("terminal-typed-into", typing),
        py("terminal-taken", "fails(os.open, '/dev/tty', os.O_RDWR)\nprint(os.getsid(0), os.getpgrp())\nfor request in (0x540E, 0x5410, 0x5422): \n    if libc.ioctl(0, request, 0) == 0: breach(request)"),
        sh("terminal-job-control", "set -m; fg; bg; stty -echo; stty sane; timeout 2 reset; echo over").shows("over"),
    ];
    for case in &mut cases {
        case.needs = &["script", "python3"];
    }
    cases
}

/// Output and call descriptions are shown without terminal escapes.
#[test]
fn what_a_command_prints_does_not_drive_a_terminal() {
    let home = Home::new();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}31m\u{202e}\r\u{8}";
    let calls = json!([
        {"name": "bash", "input": {"command": format!("echo '{evil}'"), "description": format!("{evil} harmless")}},
        {"name": "bash", "input": {"command": "printf '\\033]0;owned\\007\\033[2J\\r\\b'; exit 3"}},
        {"name": "read", "input": {"path": evil}},
        {"name": evil, "input": {}},
    ]);
    let script = json!([{"when": {"turn": 1}, "reply": {"text": evil, "tool_calls": calls}}, {"reply": {"text": "done"}}]);
    // YAML accepts most of these only as escapes.
    let plain = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    home.write("../script.yaml", &script.to_string().chars().map(plain).collect::<String>());
    let done = home.posse(&["run", "--model", "scripted/../script.yaml", "x"]).exits(0);
    let run = home.posse(&["ps", "--json"]).json()["run"].as_str().expect("an id").to_owned();
    for shown in [done, home.posse(&["logs", &run]).exits(0), home.posse(&["show", &run]).exits(0)] {
        let drives = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        let found: Vec<char> = format!("{}{}", shown.stdout, shown.stderr).chars().filter(drives).collect();
        assert!(found.is_empty(), "{found:?} in {shown:#?}");
    }
}
