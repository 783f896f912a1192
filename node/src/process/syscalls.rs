//! System calls that a command that is run again does not get: what looks into other processes,
//! changes the system, makes namespaces in which rights come back, speaks to others.
//!
//! Whatever is not named here is allowed: a list of what compilers and test runners need would be
//! wrong on each next machine. Files are Landlock's.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

/// The highest number of a call that was judged for these lists: `file_setattr` of Linux 6.17. A
/// newer kernel's calls are answered as by one that does not know them. So are the second ways to
/// make each call on x86-64 (x32), whose numbers are higher still.
const NEWEST: u32 = 469;

/// Calls that not every version of the list of calls has; from 424 on their numbers are the same on
/// all architectures.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// Always refused, whatever it is called with.
const REFUSED: &[c_long] = &[
    // Other processes' memory, files and limits.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // A way to make calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The kernel's own programs, events and keys.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    // Files by other ways than their paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // What is where.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    // Memory and messages that all processes of a user share. Their numbers can be guessed, so what
    // works on a number alone is refused, too.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Answered as by a kernel that does not know them: what they do is said in memory that no filter
/// sees, and whoever is told so takes the older call.
const UNKNOWN: [c_long; 3] = [libc::SYS_clone3, libc::SYS_openat2, FILE_SETATTR];

/// Answered as by a file system without extended attributes. Access control lists are set by these
/// calls under names that no filter sees, and with them modes of files wherever they are; programs
/// that copy files go on without.
const ATTRIBUTES: [c_long; 8] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
];

/// The bits of `clone` that begin a namespace. (One of time is begun by `unshare` alone.)
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Modes of files that run as their owner, or as their group.
const SET_ID: [u64; 2] = [0o4000, 0o2000];

/// Flags of `open` with which it makes a file, of a name or of none.
const MAKES: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// The filters, in the order in which they are applied.
pub(super) fn filters(
    is_network_open: bool,
    has_unix_sockets: bool,
) -> Result<Vec<BpfProgram>, String> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED {
        rules.insert(*call, Vec::new());
    }
    some(&mut rules, libc::SYS_clone, namespaces()?);
    // Keys that are pressed, as if they came from the terminal's user.
    let pressed = [libc::TIOCSTI, libc::TIOCLINUX];
    let pressed = pressed.iter().map(|it| rule(&[is(1, *it)])).collect::<Result<_, _>>()?;
    some(&mut rules, libc::SYS_ioctl, pressed);
    // `mkdir` needs no rule: it takes none of these bits from its caller.
    for (call, argument) in [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
    ] {
        let cases = SET_ID.iter().map(|it| rule(&[has(argument, *it)]));
        some(&mut rules, call, cases.collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in [
        (libc::SYS_openat, 2, 3),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1, 2),
    ] {
        // Whoever makes no file may leave anything where the mode would be.
        let cases = MAKES.iter().flat_map(|made| {
            SET_ID
                .iter()
                .map(move |it| rule(&[has(flags, made.unsigned_abs().into()), has(mode, *it)]))
        });
        some(&mut rules, call, cases.collect::<Result<_, _>>()?);
    }
    // Another process's limits: not asked for, and not this one's.
    let not_own = (0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0);
    let new = (2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    some(&mut rules, libc::SYS_prlimit64, vec![rule(&[not_own, new])?]);
    // Another process's pages. Which processors it has and how it is scheduled stay open: threads
    // set these of each other by numbers that are not 0, as those of other processes are.
    for call in [libc::SYS_migrate_pages, libc::SYS_move_pages] {
        some(&mut rules, call, vec![rule(&[is_not(0, 0)])?]);
    }
    // And how its files wait for the disk: 1 stands for one process, 0 for the calling one; a group
    // and all of a user have 0, too.
    let others = vec![rule(&[is_not(0, 1)])?, rule(&[is_not(1, 0)])?];
    some(&mut rules, libc::SYS_ioprio_set, others);
    sockets(&mut rules, is_network_open, has_unix_sockets)?;
    let all = |calls: &[c_long]| calls.iter().map(|it| (*it, Vec::new())).collect();
    Ok(vec![
        newer(),
        program(all(&UNKNOWN), libc::ENOSYS)?,
        program(all(&ATTRIBUTES), libc::EOPNOTSUPP)?,
        program(rules, libc::EPERM)?,
    ])
}

/// Calls that are newer than these lists. Rules know single numbers only.
fn newer() -> BpfProgram {
    let step = |code: u32, jf, k| {
        let code = u16::try_from(code).expect("an instruction's code has 16 bits");
        sock_filter { code, jt: 0, jf, k }
    };
    let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        // The number is the first of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, NEWEST),
        step(libc::BPF_RET | libc::BPF_K, 0, no_such_call),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// The argument, of 32 bits, is this. Its upper half is nothing to the kernel, so nothing may hang
/// on it.
fn is(argument: u8, value: impl TryInto<u64>) -> Condition {
    let value = value.try_into().unwrap_or_default();
    (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// The same, and the argument is not this.
fn is_not(argument: u8, value: impl TryInto<u64>) -> Condition {
    let value = value.try_into().unwrap_or_default();
    (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// The argument has these bits.
fn has(argument: u8, bits: u64) -> Condition {
    (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
}

/// What holds when all conditions hold.
fn rule(conditions: &[Condition]) -> Result<SeccompRule, String> {
    let all = conditions.iter().cloned().map(|(argument, length, op, value)| {
        SeccompCondition::new(argument, length, op, value).map_err(|why| why.to_string())
    });
    SeccompRule::new(all.collect::<Result<_, _>>()?).map_err(|why| why.to_string())
}

/// Refuses a call in some cases, unless it is refused in all.
fn some(rules: &mut BTreeMap<c_long, Vec<SeccompRule>>, call: c_long, cases: Vec<SeccompRule>) {
    assert!(!cases.is_empty(), "AC3: without a case the call would be refused in all");
    rules.insert(call, cases);
}

fn namespaces() -> Result<Vec<SeccompRule>, String> {
    NAMESPACES.iter().map(|it| rule(&[has(0, u64::from(it.unsigned_abs()))])).collect()
}

fn sockets(
    rules: &mut BTreeMap<c_long, Vec<SeccompRule>>,
    is_network_open: bool,
    has_unix_sockets: bool,
) -> Result<(), String> {
    let mut open: Vec<i32> = Vec::new();
    if is_network_open {
        // The third says which addresses the machine has: names are looked up by it.
        open.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if has_unix_sockets {
        open.push(libc::AF_UNIX);
    }
    if open.is_empty() {
        rules.insert(libc::SYS_socket, Vec::new());
    } else {
        let other: Vec<Condition> = open.iter().map(|it| is_not(0, *it)).collect();
        some(rules, libc::SYS_socket, vec![rule(&other)?]);
    }
    // Pairs of other families can be sent to others from.
    let mut pairs = vec![rule(&[is_not(0, libc::AF_UNIX)])?];
    if !has_unix_sockets {
        // Of a pair, streams reach each other alone; datagrams can be sent to any name.
        const KIND: u64 = 0xf;
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            let value = u64::from(kind.unsigned_abs());
            pairs.push(rule(&[(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(KIND), value)])?);
        }
    }
    some(rules, libc::SYS_socketpair, pairs);
    Ok(())
}

fn program(rules: BTreeMap<c_long, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH.try_into();
    let architecture = architecture.map_err(|why: seccompiler::BackendError| why.to_string())?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
    filter.and_then(TryInto::try_into).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile_whatever_is_open() {
        for network in [false, true] {
            for unix in [false, true] {
                assert_eq!(filters(network, unix).unwrap().len(), 4);
            }
        }
    }
}
