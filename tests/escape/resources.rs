//! Exhausting the machine. Each of these ends within its limit, and the runtime continues.

use serde_json::json;

use super::case::{Case, call, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        sh("fork-bomb", "b() { b | b & b; }; b").ends(1_500),
        sh("fork-bomb-that-stays", "for i in {1..3000}; do sleep 100 & done 2>/dev/null; wait").ends(2_500),
        py("threads", "import threading\ntry:\n    for i in range(5000): threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()\n    breach('as many threads as it likes')\nexcept RuntimeError as error: print(i, error)\nos._exit(0)"),
        py("memory-at-once", "try: block = bytearray(64 << 30); breach('64 GiB')\nexcept MemoryError: print('refused')"),
        py("memory-bit-by-bit", "held = []\ntry:\n    while True: held.append(b'x' * (64 << 20))\nexcept MemoryError: print('refused at', len(held) * 64, 'MiB')").ends(6_000),
        sh("memory-by-many", "for i in 1 2 3 4; do python3 -c 'x = [bytes([1]) * (1 << 28) for _ in range(12)]; print(len(x))' & done; wait").needs(&["python3"]).ends(6_000),
        sh("scratch-filled", "head -c 3G /dev/zero > /tmp/f; s=$(stat -c %s /tmp/f); [ $s -gt 1100000000 ] && breach $s; echo $s").ends(10_000),
        sh("many-files-in-scratch", "cd /tmp; for i in {1..40}; do mkdir d$i; (cd d$i; touch {1..500}); done; ls | wc -l"),
        sh("a-large-file", "head -c 6G /dev/zero > big; s=$(stat -c %s big); rm big; [ $s -gt 4294967296 ] && breach $s; echo $s").ends(1_500),
        sh("a-file-with-a-hole", "truncate -s 8T hole; dd if=/dev/zero of=hole2 bs=1 count=1 seek=6G; s=$(stat -c %s hole hole2 | sort -n | tail -1); rm -f hole hole2; [ ${s:-0} -gt 4294967296 ] && breach $s; echo $s"),
        py("descriptors", "held = []\ntry:\n    for i in range(200000): held.append(os.open('/dev/null', os.O_RDONLY))\n    breach('as many as it likes')\nexcept OSError as error: print(len(held), error)"),
        sh("endless-output", "yes").cut(1_000),
        sh("endless-output-from-many", "for i in {1..20}; do yes $i & done; wait").cut(1_000),
        sh("one-line-of-200-mb", "head -c 200000000 /dev/zero | tr '\\0' x").shows("bytes left out"),
        sh("bytes-of-any-kind", "head -c 3000000 /dev/urandom; printf '\\033]0;x\\007\\377\\376\\000'").shows("bytes left out"),
        sh("slow-drip", "for i in {1..40}; do echo $i; sleep 0.02; done").shows("40"),
        sh("spinning", "while :; do :; done").cut(1_000),
        sh("spinning-on-all-cores", "for i in {1..8}; do (while :; do :; done) & done; wait").cut(1_000),
        sh("dead-children", "python3 -c 'import os, time\nfor i in range(600):\n    if os.fork() == 0: os._exit(0)\ntime.sleep(0.2)'").needs(&["python3"]),
        sh("deep-shells", "f() { [ $1 -gt 0 ] && bash -c \"$(declare -f f); f $(($1 - 1))\"; }; f 40; echo over").shows("over"),
        sh("deep-recursion", "f() { f; }; f").ends(1_500),
        sh("deep-directories", "for i in {1..200}; do mkdir -p dddddddd && cd dddddddd || break; done; echo over").shows("over"),
        sh("endless-redirection", "cat < README.md > self; timeout 1 cat self >> self; ls -l self; rm self").ends(5_000),
        sh("large-environment", "export X=$(head -c 1000000 /dev/zero | tr '\\0' x); /bin/true; echo over").shows("over"),
        sh("queues-and-segments", "for i in {1..50}; do ipcmk -M 1G; ipcmk -Q; done | tail -1; echo over").shows("over"),
        sh("watches", "for i in {1..30}; do tail -f /dev/null & done 2>/dev/null; echo over").shows("over"),
        call("a-pattern-that-explodes", "grep", json!({"pattern": "(a+)+(a+)+(a+)+$"})),
        call("a-pattern-too-large", "grep", json!({"pattern": "(((a{1,1000}){1,1000}){1,1000}){1,1000}"})).refused(""),
        call("a-glob-that-explodes", "glob", json!({"pattern": "**/**/**/**/**/**/{a,b}{a,b}{a,b}*"})),
        call("a-huge-file-searched", "grep", json!({"pattern": "x", "path": "sparse"})),
        call("a-long-write", "write", json!({"path": "long.txt", "content": "x".repeat(3_000_000)})),
    ]
}
