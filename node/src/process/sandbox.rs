//! Takes away from this process what a command that is run again must not have. For good: what it
//! executes and starts has no more.
//!
//! Landlock decides about files, TCP and signals, a filter of system calls about everything that
//! Landlock does not know. What neither can keep a command from is told in `docs/accept.md`.

use std::{fs, io};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process_group, setrlimit,
    test_kill_process,
};

use super::policy::{FILE_BYTES_MAX, OPEN_FILES_MAX, PROCESSES_MAX, Policy, SINKS};

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum NoSandbox {
    #[error("this kernel has no Landlock that knows of truncated files (Linux 6.2 has): {0}")]
    Landlock(String),
    #[error("system calls cannot be filtered here: {0}")]
    Seccomp(String),
    #[error("there is a sandbox on Linux only")]
    Platform,
    #[error("root's rights cannot be given up: {0}")]
    Rights(rustix::io::Errno),
    #[error("a limit cannot be set: {0}")]
    Limit(rustix::io::Errno),
    #[error(
        "descriptor {number} ({what}) is open and would be in there: whoever started this left it open"
    )]
    Open { number: u32, what: String },
    #[error("open descriptors cannot be looked at: {0}")]
    Descriptors(io::Error),
}

/// Limits on what one process may take up. They hold without a sandbox, too.
///
/// The one on files is always lower than that of whoever started this: by it the processes of a
/// command are known when they have lost their keeper.
pub fn limit(policy: &Policy) -> Result<(), NoSandbox> {
    let lower = getrlimit(Resource::Fsize).maximum.map(|own| own.saturating_sub(1));
    let file_bytes = policy.file_bytes.map_or(FILE_BYTES_MAX, |it| it.min(FILE_BYTES_MAX));
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Fsize, Some(lower.map_or(file_bytes, |it| it.min(file_bytes)))),
        (Resource::Nofile, Some(OPEN_FILES_MAX)),
        (Resource::Nproc, Some(policy.processes.map_or(PROCESSES_MAX, |it| it.min(PROCESSES_MAX)))),
        (Resource::Data, policy.memory_bytes),
        (Resource::Cpu, policy.cpu_sec),
    ];
    for (resource, most) in limits {
        let Some(most) = most else { continue };
        let now = getrlimit(resource);
        let least = |it: Option<u64>| Some(it.map_or(most, |it| it.min(most)));
        let new = Rlimit { current: least(now.current), maximum: least(now.maximum) };
        setrlimit(resource, new).map_err(NoSandbox::Limit)?;
    }
    Ok(())
}

/// Refuses when files, sockets or directories are open besides the three that a command has: what
/// is open already, no sandbox closes. Pipes are let through, since programs that start others
/// (`make`) speak through them, and what leads nowhere.
pub fn check_descriptors() -> Result<(), NoSandbox> {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    for entry in fs::read_dir("/proc/self/fd").map_err(NoSandbox::Descriptors)? {
        let name = entry.map_err(NoSandbox::Descriptors)?.file_name();
        let Some(number) = name.to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        // What this loop itself has open is gone, or closed when something is executed.
        let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else { continue };
        let flags = info.lines().find_map(|it| it.strip_prefix("flags:"));
        let flags = flags.and_then(|it| u32::from_str_radix(it.trim(), 8).ok()).unwrap_or(0);
        let what = fs::read_link(format!("/proc/self/fd/{number}")).unwrap_or_default();
        let what = what.display().to_string();
        let is_harmless = ["pipe:[", "anon_inode:[eventfd]"].iter().any(|it| what.starts_with(it))
            || SINKS.contains(&what.as_str());
        if 2 < number && flags & CLOSED_ON_EXEC == 0 && !is_harmless {
            return Err(NoSandbox::Open { number, what });
        }
    }
    Ok(())
}

/// Whether this machine has one.
#[cfg(target_os = "linux")]
pub fn look() -> Result<(), NoSandbox> {
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    };

    super::syscalls::filters(false, false).map_err(NoSandbox::Seccomp)?;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))
        .and_then(Ruleset::create);
    ruleset.map(drop).map_err(|why| NoSandbox::Landlock(why.to_string()))
}

/// Closes it around this thread, which has to be the only one of the process.
#[cfg(target_os = "linux")]
pub fn enter(policy: &Policy) -> Result<(), NoSandbox> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset,
        RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
    };
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    // What every kernel that will do knows, and what is taken in addition where it is known.
    let (least, most) = (ABI::V3, ABI::V9);
    let all = AccessFs::from_all(least);
    // Devices and special files are the system's to make.
    let own = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let own = if policy.has_unix_sockets { own | AccessFs::ResolveUnix } else { own };
    let entered = (|| {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(all)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(most))?
            .scope(Scope::Signal)?;
        if !policy.has_unix_sockets {
            rules = rules.scope(Scope::AbstractUnixSocket)?;
        }
        if !policy.is_network_open {
            rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
        }
        let read = if policy.has_unix_sockets {
            AccessFs::from_read(least) | AccessFs::ResolveUnix
        } else {
            AccessFs::from_read(least)
        };
        rules
            .create()?
            .add_rules(path_beneath_rules(&policy.read, read))?
            .add_rules(path_beneath_rules(&policy.write, own))?
            .restrict_self()
    })();
    let entered = entered.map_err(|why| NoSandbox::Landlock(why.to_string()))?;
    if entered.ruleset == RulesetStatus::NotEnforced || !entered.no_new_privs {
        return Err(NoSandbox::Landlock("it was not enforced".to_owned()));
    }
    let filters = super::syscalls::filters(policy.is_network_open, policy.has_unix_sockets);
    for filter in filters.map_err(NoSandbox::Seccomp)? {
        seccompiler::apply_filter(&filter).map_err(|why| NoSandbox::Seccomp(why.to_string()))?;
    }
    // Whoever is root could look into others' memory all the same; without new privileges nothing
    // that is executed gets this back.
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, none).map_err(NoSandbox::Rights)
}

/// Shows that this process and what it starts can signal each other alone. Nothing of a command
/// gets out of it, however fast it starts itself over.
#[derive(Debug, Clone, Copy)]
pub struct SignalScope(());

impl SignalScope {
    /// Bounds the signals of this thread, which has to be the only one of the process, for good.
    /// `None`: this kernel cannot (Linux 6.12 can).
    #[cfg(target_os = "linux")]
    pub fn enter() -> Option<Self> {
        use landlock::{
            AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
            RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
        };

        let enter = || -> Result<_, landlock::RulesetError> {
            Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .scope(Scope::Signal)?
                // No ruleset lets a file go from one directory to another unless it says so.
                .handle_access(AccessFs::Refer)?
                .create()?
                .add_rules(path_beneath_rules(["/"], AccessFs::Refer))?
                .restrict_self()
        };
        let entered = enter().ok()?;
        (entered.ruleset == RulesetStatus::FullyEnforced).then_some(Self(())).filter(Self::holds)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn enter() -> Option<Self> {
        None
    }

    /// Whether the process that started this one cannot be signaled.
    fn holds(&self) -> bool {
        let Some(parent) = getppid() else { return false };
        test_kill_process(parent) == Err(rustix::io::Errno::PERM)
    }

    /// Kills all others in the scope at one stroke: the kernel starts none meanwhile.
    pub fn kill_others(&self) {
        if self.holds() {
            // The group of the first process stands for everything that may be signaled, except
            // this process itself.
            kill_process_group(Pid::INIT, Signal::KILL).ok();
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn look() -> Result<(), NoSandbox> {
    Err(NoSandbox::Platform)
}

#[cfg(not(target_os = "linux"))]
pub fn enter(_: &Policy) -> Result<(), NoSandbox> {
    Err(NoSandbox::Platform)
}
