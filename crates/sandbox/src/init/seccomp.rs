//! Filters system calls as a third layer: refuses those that no build or test needs and that kernel exploits use.

use std::io;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long,
    sock_filter, sock_fprog,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// From here on, numbers belong to the x32 architecture.
const FOREIGN: u32 = 0x4000_0000;

/// Refused with `ENOSYS`.
const ABSENT: &[c_long] = &[
    // Its flags are in memory, which a filter cannot read. Programs fall back to `clone`.
    libc::SYS_clone3,
    // Reads and writes without passing the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Its mode is in memory too. Programs fall back to `openat`.
    libc::SYS_openat2,
];

/// Refused with `EPERM`.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_fanotify_init,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    // Keys, which belong to the user and not to the namespaces.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The clock and the host name.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Memory of other processes, and memory layouts that exploits need.
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_personality,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Calls that set a file's mode, and the index of that argument. A program with a set-user-id bit would stay in the
/// workspace after the call, where the user may run it.
const MODES: &[(c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
];
/// The same for calls that do so only with certain flags: the call, and the indexes of its flags and its mode.
const OPENS: &[(c_long, u32, u32)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];
const MAKES_A_FILE: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY).cast_unsigned();
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// The same number on every architecture.
const SYS_FCHMODAT2: c_long = 452;

/// Flags of `clone` that create a namespace.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();

/// The only socket families: those that a network namespace contains. Unix sockets are reached by path in any network
/// namespace: a key agent, a container engine, a desktop.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The only types of socket pairs. A connected pair leads nowhere else; datagrams can be sent to any path.
const PAIRS: [i32; 2] = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
/// The bits of a socket's type without its flags.
const TYPE_MASK: u32 = 0xf;

/// Requests that insert characters into a terminal's input.
const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541C];

/// `fcntl` commands for leases and directory notifications: a lease makes processes outside wait when they open a file,
/// and a notification reveals their activity. Ordinary file locks are allowed, because programs need them.
const FILE_HOLDS: [u32; 2] = [1024, 1026];

/// Offsets in the data that a filter sees of a call.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// What programs share with the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedResources {
    /// Nothing that their own namespaces contain.
    Nothing,
    /// Its network, its shared memory and its processes, because there are no namespaces.
    Machine,
}

impl SharedResources {
    fn families(self) -> &'static [i32] {
        match self {
            SharedResources::Nothing => &FAMILIES,
            SharedResources::Machine => &[],
        }
    }
}

/// Shared memory, semaphores and queues of the user, which Landlock does not cover. Refused with `ENOSYS`.
const SHARED_OBJECTS: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that change another process of the user, and the index of the argument that names it; Landlock covers only
/// signals. Only zero, the caller itself, is allowed.
const OTHERS: &[(c_long, u32)] = &[
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];
/// The same for all processes of a user: the call, and the kind value that selects a user.
const ALL_OF_A_USER: &[(c_long, u32)] = &[(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Installs the filter for this process and all its descendants.
#[expect(unsafe_code, reason = "installing a filter has no safe form")]
pub(super) fn apply(shared: SharedResources) -> io::Result<()> {
    const SET_MODE_FILTER: c_long = 1;
    let mut filter = filter(shared);
    let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: the program points to `length` instructions, and both outlive the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, 0, &raw const program) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn filter(shared: SharedResources) -> Vec<sock_filter> {
    let mut code = vec![
        load(ARCH),
        jump(BPF_JEQ, ARCHITECTURE, 1, 0),
        end(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        jump(BPF_JGE, FOREIGN, 0, 1),
        refuse(libc::ENOSYS),
    ];
    for &call in ABSENT {
        on(&mut code, call, &[refuse(libc::ENOSYS)]);
    }
    for &call in REFUSED {
        on(&mut code, call, &[refuse(libc::EPERM)]);
    }
    for &(call, mode) in MODES {
        on(&mut code, call, &plain_mode(mode));
    }
    for &(call, flags, mode) in OPENS {
        let mut then = vec![load(argument(flags)), jump(BPF_JSET, MAKES_A_FILE, 1, 0), allow()];
        then.extend(plain_mode(mode));
        on(&mut code, call, &then);
    }
    let plain = [load(argument(0)), jump(BPF_JSET, NAMESPACES, 0, 1), refuse(libc::EPERM), allow()];
    on(&mut code, libc::SYS_clone, &plain);
    let mut known = vec![load(argument(0))];
    for &family in shared.families() {
        known.extend([jump(BPF_JEQ, family.cast_unsigned(), 0, 1), allow()]);
    }
    known.push(refuse(libc::EPERM));
    on(&mut code, libc::SYS_socket, &known);
    let mut connected = vec![load(argument(1)), instruction(BPF_ALU | BPF_AND | BPF_K, TYPE_MASK, 0, 0)];
    for pair in PAIRS {
        connected.extend([jump(BPF_JEQ, pair.cast_unsigned(), 0, 1), allow()]);
    }
    connected.push(refuse(libc::EPERM));
    on(&mut code, libc::SYS_socketpair, &connected);
    let mut harmless = vec![load(argument(1))];
    for request in TERMINAL_INPUT {
        harmless.extend([jump(BPF_JEQ, request, 0, 1), refuse(libc::EPERM)]);
    }
    harmless.push(allow());
    on(&mut code, libc::SYS_ioctl, &harmless);
    let mut released = vec![load(argument(1))];
    for command in FILE_HOLDS {
        released.extend([jump(BPF_JEQ, command, 0, 1), refuse(libc::EPERM)]);
    }
    released.push(allow());
    on(&mut code, libc::SYS_fcntl, &released);
    if shared == SharedResources::Machine {
        leave_others_alone(&mut code);
    }
    code.push(allow());
    code
}

/// Refuses access to objects and processes that namespaces would isolate.
fn leave_others_alone(code: &mut Vec<sock_filter>) {
    for &call in SHARED_OBJECTS {
        on(code, call, &[refuse(libc::ENOSYS)]);
    }
    for &(call, process) in OTHERS {
        let mut then = Vec::new();
        for &(_, user) in ALL_OF_A_USER.iter().filter(|(other, _)| *other == call) {
            then.extend([load(argument(0)), jump(BPF_JEQ, user, 0, 1), refuse(libc::EPERM)]);
        }
        then.extend([load(argument(process)), jump(BPF_JEQ, 0, 0, 1), allow(), refuse(libc::EPERM)]);
        on(code, call, &then);
    }
    // A limit can kill a process: one without CPU time left is killed. Reading the limits of others changes nothing.
    let mut then = vec![load(argument(0)), jump(BPF_JEQ, 0, 0, 1), allow()];
    let new = argument(2);
    for half in [new, new ^ 4] {
        then.extend([load(half), jump(BPF_JEQ, 0, 1, 0), refuse(libc::EPERM)]);
    }
    then.push(allow());
    on(code, libc::SYS_prlimit64, &then);
}

/// Refuses a mode with a set-id bit.
fn plain_mode(index: u32) -> [sock_filter; 4] {
    [load(argument(index)), jump(BPF_JSET, SET_ID, 0, 1), refuse(libc::EPERM), allow()]
}

/// Appends `then` for one system call. It must end in a decision.
fn on(code: &mut Vec<sock_filter>, call: c_long, then: &[sock_filter]) {
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    code.push(jump(BPF_JEQ, number, 0, u8::try_from(then.len()).unwrap_or(u8::MAX)));
    code.extend_from_slice(then);
}

/// The offset of an argument's lower half. No check needs the upper half.
fn argument(index: u32) -> u32 {
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    ARGUMENTS + 8 * index + half
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0)
}

fn jump(test: u32, value: u32, met: u8, unmet: u8) -> sock_filter {
    instruction(BPF_JMP | test | BPF_K, value, met, unmet)
}

fn end(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, action, 0, 0)
}

fn allow() -> sock_filter {
    end(libc::SECCOMP_RET_ALLOW)
}

fn refuse(errno: i32) -> sock_filter {
    end(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    // The codes of instructions are below 256.
    sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would.
    fn decide(arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        decide_with(SharedResources::Nothing, arch, number, arguments)
    }

    fn decide_with(shared: SharedResources, arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0_u64.to_le_bytes());
        for argument in arguments {
            data.extend(argument.to_le_bytes());
        }
        let code = filter(shared);
        let (mut at, mut held) = (0, 0_u32);
        loop {
            let sock_filter { code: op, jt, jf, k } = code[at];
            at += 1;
            let op = u32::from(op);
            let jump_if = |test: bool| usize::from(if test { jt } else { jf });
            match op {
                op if op == BPF_LD | BPF_W | BPF_ABS => {
                    let from = k as usize;
                    held = u32::from_le_bytes(data[from..from + 4].try_into().expect("four"));
                }
                op if op == BPF_ALU | BPF_AND | BPF_K => held &= k,
                op if op == BPF_JMP | BPF_JEQ | BPF_K => at += jump_if(held == k),
                op if op == BPF_JMP | BPF_JGE | BPF_K => at += jump_if(held >= k),
                op if op == BPF_JMP | BPF_JSET | BPF_K => at += jump_if(held & k != 0),
                op if op == BPF_RET | BPF_K => return k,
                op => panic!("no such instruction: {op}"),
            }
        }
    }

    fn own(call: c_long, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        decide(ARCHITECTURE, u32::try_from(call).expect("a number"), all)
    }

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

    fn errno(number: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
    }

    #[test]
    fn what_programs_need_is_allowed() {
        for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_wait4] {
            assert_eq!(own(call, &[]), ALLOWED, "{call}");
        }
        for pair in PAIRS {
            let pair = u64::from((pair | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).cast_unsigned());
            assert_eq!(own(libc::SYS_socketpair, &[1, pair, 0]), ALLOWED);
        }
        for family in FAMILIES {
            assert_eq!(own(libc::SYS_socket, &[u64::from(family.cast_unsigned()), 1, 0]), ALLOWED);
        }
        let thread = u64::from((libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).cast_unsigned());
        assert_eq!(own(libc::SYS_clone, &[thread]), ALLOWED);
        assert_eq!(own(libc::SYS_ioctl, &[0, 0x5401]), ALLOWED);
    }

    #[test]
    fn what_reaches_out_is_refused() {
        for &call in REFUSED {
            assert_eq!(own(call, &[]), errno(libc::EPERM), "{call}");
        }
        for &call in ABSENT {
            assert_eq!(own(call, &[]), errno(libc::ENOSYS), "{call}");
        }
        for family in
            [libc::AF_UNIX, libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH, 44, 255]
        {
            let family = u64::from(family.cast_unsigned());
            assert_eq!(own(libc::SYS_socket, &[family, 1, 0]), errno(libc::EPERM), "{family}");
            // Bits that the kernel ignores do not confuse the filter.
            assert_eq!(own(libc::SYS_socket, &[family | (1 << 32), 1, 0]), errno(libc::EPERM), "{family}");
        }
        for pair in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC]
        {
            let pair = u64::from(pair.cast_unsigned());
            assert_eq!(own(libc::SYS_socketpair, &[1, pair, 0]), errno(libc::EPERM), "{pair}");
        }
        for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWNS, libc::CLONE_NEWPID] {
            let flags = u64::from((flag | libc::SIGCHLD).cast_unsigned());
            assert_eq!(own(libc::SYS_clone, &[flags]), errno(libc::EPERM), "{flag}");
        }
        for request in TERMINAL_INPUT {
            assert_eq!(own(libc::SYS_ioctl, &[0, request.into()]), errno(libc::EPERM));
            assert_eq!(own(libc::SYS_ioctl, &[0, u64::from(request) | (7 << 32)]), errno(libc::EPERM));
        }
    }

    #[test]
    fn no_lease_is_taken_and_locks_are() {
        for command in [libc::F_SETLEASE, libc::F_NOTIFY] {
            let command = u64::from(command.cast_unsigned());
            assert_eq!(own(libc::SYS_fcntl, &[3, command, 1]), errno(libc::EPERM));
            assert_eq!(own(libc::SYS_fcntl, &[3, command | (1 << 32), 1]), errno(libc::EPERM));
        }
        for command in [libc::F_SETLK, libc::F_SETFD, libc::F_DUPFD, libc::F_GETLEASE, libc::F_OFD_SETLK] {
            assert_eq!(own(libc::SYS_fcntl, &[3, u64::from(command.cast_unsigned())]), ALLOWED, "{command}");
        }
    }

    #[test]
    fn no_file_gets_to_run_as_somebody_else() {
        for &(call, mode) in MODES {
            let with = |bits: u32| {
                let mut arguments = [0; 6];
                arguments[mode as usize] = u64::from(bits);
                own(call, &arguments)
            };
            assert_eq!((with(0o755), with(0o1777)), (ALLOWED, ALLOWED), "{call}");
            for bits in [0o4755, 0o2755, 0o6000] {
                assert_eq!(with(bits), errno(libc::EPERM), "{call}");
            }
        }
        for &(call, flags, mode) in OPENS {
            let with = |how: i32, bits: u32| {
                let mut arguments = [0; 6];
                arguments[flags as usize] = u64::from(how.cast_unsigned());
                arguments[mode as usize] = u64::from(bits);
                own(call, &arguments)
            };
            assert_eq!(with(libc::O_RDONLY, 0o4755), ALLOWED, "no file is made: the mode means nothing");
            assert_eq!(with(libc::O_DIRECTORY, 0o4755), ALLOWED);
            assert_eq!(with(libc::O_CREAT | libc::O_WRONLY, 0o644), ALLOWED);
            assert_eq!(with(libc::O_CREAT | libc::O_WRONLY, 0o4755), errno(libc::EPERM));
            assert_eq!(with(libc::O_TMPFILE | libc::O_RDWR, 0o2755), errno(libc::EPERM));
        }
    }

    /// The decision about a call of programs without namespaces.
    fn alone(call: c_long, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        decide_with(SharedResources::Machine, ARCHITECTURE, u32::try_from(call).expect("a number"), all)
    }

    #[test]
    fn without_a_namespace_there_is_no_socket() {
        for family in FAMILIES {
            let family = u64::from(family.cast_unsigned());
            assert_eq!(alone(libc::SYS_socket, &[family, 1, 0]), errno(libc::EPERM));
        }
    }

    #[test]
    fn without_namespaces_other_processes_are_left_alone() {
        const OTHER: u64 = 4_711;
        for &(call, process) in OTHERS {
            let mut arguments = [0; 6];
            assert_eq!(alone(call, &arguments), ALLOWED, "{call}: one may change oneself");
            arguments[process as usize] = OTHER;
            assert_eq!(alone(call, &arguments), errno(libc::EPERM), "{call}");
            assert_eq!(own(call, &arguments), ALLOWED, "{call}: in namespaces there are no others");
        }
        for &(call, user) in ALL_OF_A_USER {
            assert_eq!(alone(call, &[user.into(), 0, 19]), errno(libc::EPERM), "{call}");
        }
        for pointer in [1_u64, 1 << 40] {
            assert_eq!(alone(libc::SYS_prlimit64, &[OTHER, 0, pointer, 0]), errno(libc::EPERM));
            assert_eq!(alone(libc::SYS_prlimit64, &[0, 0, pointer, 0]), ALLOWED, "its own");
        }
        assert_eq!(alone(libc::SYS_prlimit64, &[OTHER, 0, 0, 1 << 40]), ALLOWED, "to look");
        for &call in SHARED_OBJECTS {
            assert_eq!((alone(call, &[]), own(call, &[])), (errno(libc::ENOSYS), ALLOWED), "{call}");
        }
    }

    #[test]
    fn another_architecture_is_no_way_around() {
        let i386 = 0x4000_0003;
        assert_eq!(decide(i386, 26, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
        for &call in REFUSED {
            let number = FOREIGN | u32::try_from(call).expect("a number");
            assert_eq!(decide(ARCHITECTURE, number, [0; 6]), errno(libc::ENOSYS));
        }
    }
}
