//! The machine itself: its settings, its devices, its cgroups.

use super::case::{Case, py, sh};

/// Settings of the whole machine. Opening one is enough to know, and harmless.
const SETTINGS: &str = "for path in '''
/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hostname /proc/sys/kernel/sysrq
/proc/sys/kernel/randomize_va_space /proc/sys/kernel/yama/ptrace_scope /proc/sys/kernel/ns_last_pid
/proc/sys/kernel/pid_max /proc/sys/vm/drop_caches /proc/sys/vm/overcommit_memory /proc/sys/fs/suid_dumpable
/proc/sys/fs/binfmt_misc/register /proc/sys/fs/protected_symlinks /proc/sys/net/core/bpf_jit_enable
/proc/sys/user/max_user_namespaces'''.split():
    fails(os.open, path, os.O_WRONLY)";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        py("settings-of-the-kernel", SETTINGS),
        sh(
            "handler-of-crashes",
            "v=$(cat /proc/sys/kernel/core_pattern); echo \"$v\" > /proc/sys/kernel/core_pattern && breach; sysctl -w kernel.core_pattern=\"$v\" && breach",
        ),
        py(
            "switches-of-the-kernel",
            "import glob\nfor path in ['/proc/sysrq-trigger', '/proc/mtrr', '/proc/acpi/wakeup'] + glob.glob('/proc/irq/*/smp_affinity') + ['/proc/irq/default_smp_affinity'] + glob.glob('/proc/fs/**', recursive=True):\n    if not os.path.isdir(path): fails(os.open, path, os.O_WRONLY)",
        ),
        sh(
            "memory-of-the-kernel",
            "head -c1 /proc/kcore | grep -c . && breach kcore; timeout 1 head -c1 /proc/kmsg | grep -c . && breach kmsg; [ -s /proc/kpagecount ] && breach pages; cat /proc/kallsyms | grep -v '^0000000000000000' | head -1 | grep . && breach symbols",
        ),
        sh("nothing-in-sys", "ls /sys/* && breach; echo 1 > /sys/kernel/x; echo mem > /sys/power/state"),
        sh(
            "control-groups",
            "ls /sys/fs/cgroup && breach; find / -xdev -name cgroup.procs 2>/dev/null | grep . && breach; mount -t cgroup2 none /tmp && breach",
        ),
        sh(
            "devices",
            "for d in mem kmem port kmsg kvm fuse vda sda nvme0n1 loop0 loop-control tty console ptmx net/tun vhost-net dri mapper input snd hpet cuse vsock uinput; do [ -e /dev/$d ] && breach $d; done; ls /dev",
        ),
        py(
            "devices-are-opened",
            "for name in 'mem kmem port kmsg kvm fuse vda vda1 sda nvme0n1 loop0 loop-control tty tty0 console ptmx net/tun vhost-net vsock uinput hwrng snapshot btrfs-control autofs userfaultfd cpu_dma_latency'.split():\n    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR): fails(os.open, '/dev/' + name, flags | os.O_NONBLOCK | os.O_NOCTTY)",
        ),
        sh(
            "new-devices",
            "mknod m c 1 1 && breach; mknod /tmp/b b 8 0 && breach; mknod k c 1 11 && breach; mknod /dev/shm/t c 5 0 && breach; ls",
        ),
        sh(
            "own-importance",
            "echo -1000 > /proc/self/oom_score_adj && breach; echo -1 > /proc/self/oom_score_adj && breach; echo 1000 > /proc/self/oom_score_adj",
        ),
        sh(
            "own-limits",
            "ulimit -c unlimited && breach; ulimit -n 1000000 && breach; ulimit -f unlimited && breach; ulimit -l unlimited && breach; prlimit --pid $$ --fsize=unlimited && breach; echo over",
        ),
        sh(
            "own-user",
            "id; echo '0 0 4294967295' > /proc/self/uid_map && breach; echo allow > /proc/self/setgroups && breach; echo over",
        ),
        sh(
            "clock",
            "date -s '2001-01-01' && breach; hwclock --set --date 2001-01-01 && breach; hostname evil && breach; echo over",
        ),
        sh(
            "power",
            "shutdown -h now && breach; reboot && breach; halt && breach; systemctl reboot && breach; init 0 && breach; echo over",
        ),
        py(
            "setting-by-shared-memory",
            "fails(lambda: os.open('/dev/mqueue', os.O_RDONLY))\nid = libc.shmget(0x65736301, 4096, 0o1666)\nprint('segment', id)\nid = libc.shmget(0, 1 << 40, 0o1666)\nif id >= 0 and libc.shmat(id, None, 0) not in (-1,): print('mapped lazily')",
        ),
    ]
}
