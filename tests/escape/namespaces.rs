//! Namespaces, mounts and privileges, by programs and by plain system calls.

use super::case::{Case, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = by_programs();
    // The numbers belong to one architecture.
    if cfg!(target_arch = "x86_64") {
        cases.extend(by_calls());
    }
    cases
}

fn by_programs() -> Vec<Case> {
    vec![
        sh("new-user-namespace", "unshare -U true && breach; unshare -Ur id && breach; unshare -r -m true && breach; echo over").needs(&["unshare"]),
        sh("new-other-namespaces", "for f in -m -n -p -i -u -C -T; do unshare $f true && breach $f; done; unshare -fp --mount-proc true && breach; echo over").needs(&["unshare"]),
        sh("entering-namespaces", "nsenter -t 1 -a true && breach; nsenter -t @victim@ -m true && breach; nsenter --net=/proc/1/ns/net true && breach; ls -l /proc/1/ns && ls /proc/1/ns/* | xargs -n1 readlink | grep . && breach; echo over").needs(&["nsenter"]),
        sh("mounts", "mount -t tmpfs none /tmp && breach; mount -t proc none /proc && breach; mount --bind / /tmp && breach; mount -o remount,rw / && breach; mount -o remount,rw /usr && breach; mount -o remount,bind,rw,suid /usr && breach; mount -t overlay none /tmp && breach; echo over"),
        sh("unmounting", "umount /proc && breach; umount -l @ws@ && breach; umount -l @box@ && breach; umount -l /etc && breach; umount -R / && breach; umount @home@ && breach; echo over"),
        sh("images", "truncate -s 1M i; mkfs.ext4 -q i; mount -o loop i /tmp && breach; losetup -f i && breach; echo over"),
        sh("another-root", "chroot / true && breach; mkdir -p r; pivot_root r r && breach; echo over"),
        sh("becoming-another", "su -c id && breach; su nobody -s /bin/sh -c id && breach; sudo -n id && breach; runuser -u daemon id && breach; pkexec id && breach; doas id && breach; setpriv --reuid 1 id && breach; newgrp root < /dev/null; echo over"),
        sh("setuid-files", "find / -xdev -perm -4000 -type f 2>/dev/null | while read -r f; do timeout 1 \"$f\" --help </dev/null >/dev/null 2>&1; done; grep NoNewPrivs /proc/self/status; grep -q 'NoNewPrivs:.1' /proc/self/status || breach"),
        sh("own-setuid-file", "cp /bin/bash sb; chmod 6755 sb; ./sb -p -c 'id -u; grep CapEff /proc/self/status'; cp /bin/bash /tmp/sb; chmod 6755 /tmp/sb; /tmp/sb -p -c 'grep -q \"CapEff:.0*$\" /proc/self/status || echo BREACH'"),
        sh("capabilities", "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -v '0000000000000000' && breach; capsh --caps=all+ep -- -c true && breach; setcap cap_sys_admin+ep README.md && breach; setpriv --ambient-caps +sys_admin grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status | grep -v '0000000000000000' && breach; echo over"),
        sh("capabilities-to-get", "grep CapBnd /proc/self/status | grep -v '0000000000000000' && breach; setpriv --ambient-caps +sys_admin true && breach; echo over"),
        sh("the-filter-is-on", "grep -q 'Seccomp:.2' /proc/self/status || breach; grep -q 'NoNewPrivs:.1' /proc/self/status || breach; echo over"),
        sh("containers", "bwrap --dev-bind / / true && breach; docker run x && breach; podman run x && breach; systemd-run --user true && breach; systemd-nspawn true && breach; firejail true && breach; fusermount -u /tmp && breach; echo over"),
        sh("modules", "modprobe dummy && breach; insmod x.ko && breach; rmmod loop && breach; kexec -l /boot/vmlinuz && breach; echo over"),
        sh("low-ports-and-owners", "chown 1:1 README.md && breach; chgrp 2 README.md && breach; mkdir o; chmod 2777 o; echo over"),
    ]
}

fn by_calls() -> Vec<Case> {
    vec![
        py(
            "call-unshare",
            "for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80): filtered(272, flag)\nfiltered(272, 0x7e020000)",
        ),
        py(
            "call-setns",
            "fd = os.open('/proc/self/ns/net', os.O_RDONLY)\nfiltered(308, fd, 0); filtered(308, -1, 0x40000000)",
        ),
        py(
            "call-clone",
            "for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x10000000 | 0x20000): \n    if call(56, flag | 17, 0, 0, 0, 0) >= 0: breach(hex(flag)); os._exit(0)\nif call(56, (1 << 40) | 0x10000000 | 17, 0, 0, 0, 0) >= 0: breach('high bits')",
        ),
        py(
            "call-clone3",
            "args = ctypes.create_string_buffer(struct.pack('<QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0))\nfiltered(435, args, 64)",
        ),
        py(
            "call-rings",
            "buffer = ctypes.create_string_buffer(256)\nfiltered(425, 8, buffer); filtered(426, 3, 1, 0, 0, 0, 0); filtered(427, 3, 0, 0, 0)",
        ),
        py(
            "call-bpf-and-perf",
            "buffer = ctypes.create_string_buffer(128)\nfiltered(321, 0, buffer, 128); filtered(321, 5, buffer, 128)\nfiltered(298, buffer, 0, -1, -1, 0); filtered(323, 0)",
        ),
        py(
            "call-keys",
            "filtered(248, b'user', b'x', b'y', 1, -5); filtered(249, b'user', b'x', 0, 0); filtered(250, 0, -3, 0, 0, 0)",
        ),
        py(
            "call-handles",
            "buffer = ctypes.create_string_buffer(struct.pack('<Ii', 8, 1) + b'\\x02\\0\\0\\0\\0\\0\\0\\0')\nfd = os.open('.', os.O_RDONLY)\nfiltered(304, fd, buffer, 0); filtered(303, fd, b'README.md', buffer, buffer, 0)",
        ),
        py(
            "call-mounts",
            "filtered(165, b'none', b'/tmp', b'tmpfs', 0, 0); filtered(166, b'/proc', 2); filtered(155, b'.', b'.'); filtered(161, b'/')",
        ),
        py(
            "call-new-mounts",
            "filtered(428, -100, b'/', 1); filtered(429, 3, b'', -100, b'/tmp', 4); filtered(430, b'tmpfs', 0); filtered(431, 3, 6, 0, 0, 0); filtered(432, 3, 0, 0); filtered(433, -100, b'/', 0); filtered(442, -100, b'/usr', 0, 0, 0)",
        ),
        py(
            "call-modules-and-kernels",
            "filtered(175, 0, 0, b''); filtered(313, -1, b'', 0); filtered(176, b'loop', 0); filtered(246, 0, 0, 0, 0); filtered(320, -1, -1, 0, b'', 0); filtered(169, 0, 0, 0, 0); filtered(103, 3, 0, 0)",
        ),
        py(
            "call-clocks-and-names",
            "filtered(164, 0, 0); filtered(227, 0, 0); filtered(159, 0); filtered(305, 0, 0); filtered(170, b'x', 1); filtered(171, b'x', 1)",
        ),
        py(
            "call-disks",
            "filtered(167, b'/x', 0); filtered(168, b'/x'); filtered(163, b'/x'); filtered(179, 0, 0, 0, 0); filtered(443, 0, 0, 0, 0); filtered(300, 0, 0)",
        ),
        py(
            "call-machine",
            "filtered(172, 3); filtered(173, 0, 1, 1); filtered(154, 0, 0, 0); filtered(135, 0x40000); filtered(153); filtered(134, b'x')",
        ),
        py(
            "call-memory-of-others",
            "filtered(279, 1, 0, 0, 0, 0, 0); filtered(256, 1, 0, 0, 0); filtered(212, 0, 0, 0)",
        ),
        py(
            "call-under-another-name",
            "for number in (272, 165, 41, 101, 304, 321, 56, 435): filtered(0x40000000 | number, 0x10000000, 1, 0)",
        ),
        py(
            "call-of-another-architecture",
            "import mmap\ncode = b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3'\npage = mmap.mmap(-1, 4096, prot=7)\npage.write(code)\nif os.fork() == 0:\n    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n    print('came back', run(), flush=True); breach('int 80'); os._exit(0)\nprint(os.wait())",
        ),
        py(
            "call-privileges",
            "filtered_or = lambda number, *args: call(number, *args) >= 0 and breach(number)\nfiltered_or(105, 1 if os.getuid() == 0 else 0); filtered_or(106, 1 if os.getgid() == 0 else 0); filtered_or(116, 0, 0)\nheader = ctypes.create_string_buffer(struct.pack('<Ii', 0x20080522, 0)); data = ctypes.create_string_buffer(b'\\xff' * 24)\nfiltered_or(126, header, data)\nfiltered_or(157, 47, 2, 21, 0, 0)\nif call(157, 39, 0, 0, 0, 0) != 1: breach('new privileges')",
        ),
        py(
            "call-filter-again",
            "if call(317, 1, 0, 0) >= 0: breach('another filter without one')\nif call(157, 22, 0, 0, 0, 0) >= 0: breach('no filter')\nprint(call(157, 21, 0, 0, 0, 0))",
        ),
        py(
            "call-terminals",
            "import fcntl\nfor request in (0x5412, 0x541C, 0x5412 | 1 << 40):\n    for fd in (0, 1, 2):\n        filtered(16, fd, request, b'x')",
        ),
    ]
}
