//! Other processes: signals, tracing, memory, priorities. A victim of the same user waits outside.

use super::case::{Case, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        sh("signals-by-number", "for s in 0 HUP INT QUIT USR1 USR2 TERM STOP CONT KILL; do kill -$s @victim@ && breach $s; done; echo over"),
        sh("signals-to-everybody", "trap '' TERM HUP USR1; kill -USR1 -1; kill -HUP -1; kill -TERM -1; echo over"),
        sh("kill-everybody", "kill -9 -1; echo over").ends(8_000),
        sh("signals-to-parents", "kill -9 $PPID; kill -9 1; kill -STOP 1; kill -INT 1; kill -TERM $PPID; echo over").shows("over"),
        sh("signals-to-groups", "trap '' TERM; kill -TERM 0; kill -TERM -@victim@ && breach; echo over").shows("over"),
        sh("signals-by-guess", "for p in $(seq 2 3000) $(seq $((@victim@ - 40)) $((@victim@ + 40))); do [ $p != $$ ] && [ $p != $BASHPID ] && kill -TERM $p 2>/dev/null && echo hit $p; done; echo over").shows("over"),
        sh("signals-by-name", "pkill -9 sleep; killall bash; pkill -9 posse; pkill -f escape; pgrep -a posse-init && breach; pgrep -a stories && breach; echo over").ends(8_000),
        sh("only-own-processes-are-seen", "n=$(ls -d /proc/[0-9]* | wc -l); [ $n -gt 12 ] && breach $n; ls -d /proc/@victim@ && breach; ps -ef | grep -F @top@/victim.log | grep -v grep && breach; echo over"),
        sh("memory-by-proc", "for f in mem environ maps cwd root exe stack syscall auxv smaps numa_maps io fd/0 fd/1 map_files; do cat /proc/@victim@/$f && breach $f; readlink /proc/@victim@/$f && breach $f; done; echo over"),
        sh("others-in-proc", "for f in mem environ fd cmdline status; do cat /proc/@victim@/$f && breach $f; ls /proc/@victim@/$f && breach $f; done; echo over"),
        sh("memory-of-the-first", "head -c1 /proc/1/mem && breach; cat /proc/1/maps | grep . && breach maps; for f in /proc/1/fd/* /proc/1/exe /proc/1/cwd /proc/1/root; do readlink $f && breach $f; head -c1 $f | grep . && breach $f; done; cat /proc/1/environ | grep . && breach; echo over"),
        sh("tracers", "strace -p @victim@ -o t -c & sleep 0.2; kill $!; gdb -p @victim@ --batch; strace true && breach; echo over").needs(&["strace"]),
        sh("priorities", "renice 19 -p @victim@ && breach; chrt -i -p 0 @victim@ && breach; taskset -p 1 @victim@ && breach; ionice -c3 -p @victim@ && breach; prlimit --pid @victim@ --nofile=1 && breach; nice -n -5 true; renice -5 -p $$ && breach; echo over"),
        sh("starving-the-first", "chrt --idle -p 0 1; renice 19 -p 1; for i in {1..60}; do (trap '' TERM HUP; while :; do :; done) & done; wait").cut(1_000),
        sh("limiting-the-first", "prlimit --pid 1 --nofile=0 --cpu=0 --as=4096; sleep 0.1; echo over").ends(5_000),
        py("signals-by-program", "v = @victim@\nfor s in (0, 1, 15, 9, 10, 19):\n    fails(os.kill, v, s); fails(os.killpg, v, s)\nfails(os.sched_setaffinity, v, {0}); fails(os.setpriority, os.PRIO_PROCESS, v, 19)"),
        py("others-by-descriptor", "fails(os.pidfd_open, @victim@)"),
        py("limits-by-program", "import resource\nfor limit in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE): fails(resource.prlimit, @victim@, limit, (0, 0))\nfor policy in (3, 5): fails(os.sched_setscheduler, @victim@, policy, os.sched_param(0))"),
        py("tracing-by-program", "fails(lambda: open('/proc/@victim@/mem', 'rb+'))\nfor request in (16, 0x4206): filtered(101, request, @victim@, 0, 0)\nfiltered(101, 0, 0, 0, 0)"),
        py("memory-by-program", "filtered(310, @victim@, 0, 0, 0, 0, 0)\nfiltered(311, @victim@, 0, 0, 0, 0, 0)\nfiltered(310, 1, 0, 0, 0, 0, 0)\nfiltered(312, 1, 1, 0, 0, 0)\nfiltered(438, 3, 0, 0)\nfiltered(440, 3, 0, 0, 0, 0)"),
        py("asynchronous-signals", "import fcntl\nr, w = os.pipe()\nfor target in (@victim@, 1, -@victim@):\n    try: fcntl.fcntl(r, fcntl.F_SETOWN, target); fcntl.fcntl(r, 10, signal.SIGTERM)\n    except OSError as error: print(error)\nfcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\nos.write(w, b'x')"),
        py("queued-signals", "info = ctypes.create_string_buffer(128)\nfor number, args in ((129, (@victim@, 15, info)), (297, (@victim@, @victim@, 15, info)), (234, (@victim@, @victim@, 15)), (200, (@victim@, 15))):\n    if call(number, *args) >= 0: breach(number)"),
        sh("everybody-of-the-user", "renice 19 -u $(id -u); ionice -c3 -u $(id -u); python3 -c 'import os; os.setpriority(os.PRIO_USER, os.getuid(), 19)'; echo over").shows("over"),
    ]
}
