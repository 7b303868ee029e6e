//! Outliving a call: none of its processes is alive when its answer arrives.

use super::case::{Case, py, sh};

const DAEMON: &str = "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.chdir('/')\n";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        sh("in-the-background", "sleep 300 & echo over").shows("over"),
        sh("holding-the-pipe", "(sleep 300; echo late) & (exec 3>&1; sleep 300) & echo over").shows("over"),
        sh("nohup", "nohup sleep 300 > /dev/null 2>&1 & echo over").shows("over"),
        sh("disowned", "sleep 300 & disown -a; (sleep 300 &) ; echo over").shows("over"),
        sh("own-session", "setsid sleep 300 & setsid -f sleep 300; setsid -f bash -c 'trap \"\" TERM HUP INT; sleep 300'; echo over").shows("over"),
        sh("without-environment", "env -i setsid -f bash -c ': @tag@.without-environment.; sleep 300 & wait'; echo over").shows("over"),
        sh("another-name", "(exec -a kworker/0:1 sleep 300) & (exec -a posse-init setsid sleep 300) & echo over").shows("over"),
        sh("coprocess", "coproc sleep 300; echo over").shows("over"),
        sh("that-comes-back", "p() { trap 'p &' TERM HUP; sleep 300 & wait; p; }; p & disown; echo over").shows("over"),
        sh("that-forks-on", "c() { sleep 0.01; c & }; c & echo over").shows("over"),
        sh("on-the-way-out", "trap 'setsid -f sleep 300; sleep 300 &' EXIT; echo over").shows("over"),
        sh("multiplexer", "tmux -L x new-session -d 'sleep 300'; echo over").needs(&["tmux"]).shows("over"),
        sh("jobs-for-later", "echo 'sleep 300' | at now; echo '* * * * * sleep 300' | crontab -; systemd-run --user sleep 300; systemctl --user start x; batch <<< 'sleep 300'; echo over").shows("over"),
        py("daemon", &format!("{DAEMON}import time\ntime.sleep(300)")),
        py("daemon-without-descriptors", &format!("{DAEMON}os.closerange(0, 256)\nsignal.pause()")),
        py("daemon-that-ignores-all", &format!("{DAEMON}for s in set(range(1, 65)) - {{9, 19, 32, 33}}: signal.signal(s, signal.SIG_IGN)\nimport time\ntime.sleep(300)")),
        py("reaper-of-its-own", "call(157, 36, 1, 0, 0, 0)\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: signal.pause()\n    os._exit(0)\nos.wait()"),
        sh("deaf-to-term", "trap '' TERM INT HUP QUIT; while :; do sleep 300; done").cut(500),
        sh("deaf-with-children", "trap '' TERM HUP; for i in 1 2 3; do (trap '' TERM; sleep 300 & wait; sleep 300) & done; wait; wait; sleep 300").cut(500),
        sh("slow-to-go", "trap 'echo going; sleep 300' TERM; sleep 300 & wait").cut(500),
        sh("stopped", "kill -STOP $$; echo woken").cut(500),
        sh("stopped-children", "sleep 300 & kill -STOP $!; (kill -STOP $BASHPID) & wait").cut(500),
        sh("waiting-for-nothing", "mkfifo f; cat f").cut(500),
        sh("polite", "trap 'echo goodbye; exit 0' TERM; sleep 300 & wait").cut(500),
    ]
}
