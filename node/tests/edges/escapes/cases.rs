//! The table of scripts that try to get out. A script says `escaped` where it did, or changes what it
//! must not.

/// One script.
pub(super) struct Case {
    pub name: &'static str,
    pub script: &'static str,
    /// It gets out where nothing keeps it in: as any user, on any machine that has `sh` and `perl`. Else
    /// it is not run there.
    pub control: bool,
}

const fn case(name: &'static str, script: &'static str) -> Case {
    Case { name, script, control: true }
}

/// One that takes root, a kernel's option or a program that not every machine has, or that would leave
/// something behind.
const fn rare(name: &'static str, script: &'static str) -> Case {
    Case { name, script, control: false }
}

/// Files outside of the root, by every way to name them.
pub(super) const FILES: [Case; 24] = [
    case("a new file", "echo x > {outside}/new"),
    case("more in a file", "echo x >> {outside}/kept"),
    case("a truncated file", ": > {outside}/kept"),
    case("a removed file", "rm -f {outside}/kept"),
    case("a renamed file", "mv {outside}/kept {outside}/moved"),
    case("a file moved in", "mv {outside}/kept {root}/out/kept"),
    case("a file moved out", "echo x > out/a && mv out/a {outside}/a"),
    case("a hard link out", "echo x > out/b && ln out/b {outside}/b"),
    case("a hard link in", "ln {outside}/kept out/hard && echo x >> out/hard"),
    case("a link to a directory", "ln -s {outside} out/link && echo x > out/link/new"),
    case("a link to a file", "ln -s {outside}/kept out/file && echo x >> out/file"),
    case(
        "a chain of links",
        "ln -s {outside} out/c1; ln -s c1 out/c2; ln -s c2 out/c3; echo x > out/c3/new",
    ),
    case("dots", "echo x > {root}/out/../../outside/new"),
    case("a directory", "mkdir {outside}/d"),
    case("another current directory", "cd {outside} && echo x > new"),
    case("a write to HOME", "echo x > {home}/.profile"),
    case("a key in HOME", "grep -q private {home}/.ssh/id && echo escaped"),
    case(
        "a key by a link",
        "ln -s {home}/.ssh out/ssh; grep -q private out/ssh/id && echo escaped",
    ),
    case("a key by a copy", "cp {home}/.ssh/id out/stolen && echo escaped"),
    case("a key by /proc/self/root", "cat /proc/self/root{home}/.ssh/id && echo escaped"),
    case("a key by /proc/self/cwd", "cat /proc/self/cwd/../home/.ssh/id && echo escaped"),
    case("the data of the node", "cat {data}/node-identity.json && echo escaped"),
    case("names in HOME", "ls {home}/.ssh && echo escaped"),
    rare("the passwords of the machine", "head -c 1 /etc/shadow && echo escaped"),
];

/// What runs on its user's machine by itself.
pub(super) const PROTECTED: [Case; 19] = [
    case("a hook", "echo 'echo x' > .git/hooks/pre-commit"),
    case("the configuration of Git", "echo '[alias] st = !sh' >> .git/config"),
    case("a file system monitor", "perl -e 'open(F, \">>\", \".git/config\") && print F \"x\"'"),
    case("hooks elsewhere", "mkdir -p tools/hooks"),
    case("a filter", "echo '* filter=x' > .gitattributes"),
    case("a head", "echo x > .git/HEAD"),
    case("another repository in its place", "mv .git .git2"),
    case("a link in its place", "ln -sfn {outside} .git/hooks/x"),
    case("its mode by a link", "ln -s ../.git out/g; echo x > out/g/hooks/pre-push"),
    case("settings of an agent", "mkdir .claude"),
    case("servers of agents", "echo '{}' > .mcp.json"),
    case("settings of this program", "echo x > tasuki.toml"),
    case("tasks of an editor", "mkdir .vscode"),
    case("a workflow", "mkdir -p .github/workflows"),
    case("a build file", "echo x >> Makefile"),
    case("a source file", "echo x >> src/a.txt"),
    case("a new file of the project", "echo x > build.rs"),
    case("another directory in its place", "mv out out2"),
    case("a removed directory", "rm -r src"),
];

/// Protected names in a directory that may be written to: each of these must not stay there.
pub(super) const ASIDE: [(&str, &str); 8] = [
    ("mkdir -p out/x/.git/hooks && echo x > out/x/.git/hooks/post-checkout", "out/x/.git"),
    ("mkdir out/y && mv out/y out/.git", "out/.git"),
    ("mkdir -p out/z/.GIT", "out/z/.GIT"),
    ("mkdir -p out/a && ln -s {outside} out/a/.git", "out/a/.git"),
    ("mkdir -p out/b && echo 'gitdir: {outside}' > out/b/.git", "out/b/.git"),
    ("mkdir -p out/c/.claude && echo '{}' > out/c/.claude/settings.json", "out/c/.claude"),
    ("echo '{}' > out/.mcp.json", "out/.mcp.json"),
    ("mkdir -p out/d/.husky/_", "out/d/.husky"),
];

/// Programs that builds run.
pub(super) const BUILDS: [Case; 4] = [
    case(
        "a script of a package",
        "echo 'echo x > {outside}/new' > out/postinstall; sh out/postinstall",
    ),
    case(
        "a program that was made",
        "printf '#!/bin/sh\\necho x > {outside}/new\\n' > out/p; chmod +x out/p; out/p",
    ),
    case("another language", "perl -e 'open(F, \">\", \"{outside}/new\") && print F \"x\"'"),
    rare("a build file that is run", "OUT={outside} make -f {root}/Makefile"),
];

/// Other processes.
pub(super) const PROCESSES: [Case; 13] = [
    case("a signal to a process outside", "kill -CONT {victim} && echo escaped"),
    case("a signal to the node", "kill -CONT {node} && echo escaped"),
    case("a signal to the keeper", "kill -CONT $PPID && echo escaped"),
    case("the environment of the node", "grep -q hunter2 /proc/{node}/environ && echo escaped"),
    case("the environment of a process", "cat /proc/{victim}/environ > out/env && echo escaped"),
    rare(
        "the memory of a process",
        "perl -e 'open(F, \"+<\", \"/proc/{victim}/mem\") && print \"escaped\"'",
    ),
    case("where the memory is", "head -c 1 /proc/{victim}/maps | grep -q . && echo escaped"),
    case("the files of the node", "ls -l /proc/{node}/fd/ | grep -q socket && echo escaped"),
    case("the directory of the node", "ls /proc/{node}/cwd/ && echo escaped"),
    case("the root of the node", "cat /proc/{node}/root{home}/.ssh/id && echo escaped"),
    case(
        "its variables",
        "env | grep -q hunter2; [ \"$HOME\" = {home} ] && echo escaped; ls {home} && echo escaped",
    ),
    rare(
        "inherited descriptors",
        "perl -e 'for (3..255) { my $l = readlink(\"/proc/self/fd/$_\"); print \"escaped\" if defined $l && $l !~ m{^pipe:|^/dev/null} }'",
    ),
    rare("the terminal", "echo x > /dev/tty && echo escaped"),
];

/// Sockets.
pub(super) const SOCKETS: [Case; 8] = [
    case(
        "TCP to the node",
        "perl -MIO::Socket::INET -e 'print \"escaped\" if IO::Socket::INET->new(\"127.0.0.1:{port}\")'",
    ),
    case(
        "a TCP listener",
        "perl -MIO::Socket::INET -e 'print \"escaped\" if IO::Socket::INET->new(Listen => 1)'",
    ),
    case("UDP", "perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0) && print \"escaped\"'"),
    rare("IPv6", "perl -MSocket -e 'socket(S, AF_INET6, SOCK_STREAM, 0) && print \"escaped\"'"),
    case("netlink", "perl -MSocket -e 'socket(S, 16, SOCK_RAW, 0) && print \"escaped\"'"),
    case(
        "a socket by its path",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un(\"{outside}/socket\")) && print \"escaped\"'",
    ),
    case(
        "an abstract socket",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack(\"Sa*\", AF_UNIX, \"\\0{abstract}\")) && print \"escaped\"'",
    ),
    case(
        "a pair of datagram sockets",
        "perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) && print \"escaped\"'",
    ),
];

/// System calls by their numbers on x86-64.
#[cfg(target_arch = "x86_64")]
pub(super) const CALLS: [Case; 21] = [
    rare("tracing", "perl -e 'print \"escaped\" if syscall(101, 0x4206, {victim}, 0, 0) >= 0'"),
    case(
        "reading memory",
        "perl -e 'print \"escaped\" if syscall(310, {victim}, 0, 0, 0, 0, 0) >= 0'",
    ),
    case(
        "limits of another process",
        "perl -e 'my $l = pack(\"QQ\", 1, 1); print \"escaped\" if syscall(302, {victim}, 7, $l, 0) >= 0'",
    ),
    rare(
        "descriptors of another process",
        "perl -e 'my $p = syscall(434, {victim}, 0); print \"escaped\" if syscall(438, $p, 0, 0) >= 0'",
    ),
    rare(
        "io_uring",
        "perl -e 'my $p = \"\\0\" x 120; print \"escaped\" if syscall(425, 1, $p) >= 0'",
    ),
    rare("keys", "perl -e 'print \"escaped\" if syscall(250, 0, -3, 0) >= 0'"),
    rare(
        "BPF",
        "perl -e 'my $a = pack(\"LLLL\", 2, 4, 4, 1) . \"\\0\" x 100; print \"escaped\" if syscall(321, 0, $a, 72) >= 0'",
    ),
    rare("a user namespace", "perl -e 'print \"escaped\" if syscall(272, 0x10000000) >= 0'"),
    rare("a namespace of mounts", "perl -e 'print \"escaped\" if syscall(272, 0x00020000) >= 0'"),
    rare("a namespace of networks", "perl -e 'print \"escaped\" if syscall(272, 0x40000000) >= 0'"),
    rare(
        "clone into a namespace",
        "perl -e 'my $p = syscall(56, 0x10000011, 0, 0, 0, 0); exit if $p == 0; print \"escaped\" if $p > 0'",
    ),
    rare(
        "another's namespace",
        "perl -e 'open(F, \"<\", \"/proc/{node}/ns/net\"); print \"escaped\" if syscall(308, fileno(F), 0) >= 0'",
    ),
    rare(
        "a mount",
        "perl -e 'my ($a, $b) = (\"tmpfs\", \"$ENV{TMPDIR}\"); print \"escaped\" if syscall(165, $a, $b, $a, 0, 0) >= 0'",
    ),
    rare("another root", "perl -e 'print \"escaped\" if chroot(\".\")'"),
    rare(
        "a file by its handle",
        "perl -e 'my $h = pack(\"LL\", 8, 1) . \"\\0\" x 8; print \"escaped\" if syscall(304, -100, $h, 0) >= 0'",
    ),
    rare(
        "events of the kernel",
        "perl -e 'my $a = pack(\"LLQ\", 1, 112, 0) . \"\\0\" x 96; print \"escaped\" if syscall(298, $a, 0, -1, -1, 0) >= 0'",
    ),
    case(
        "shared memory",
        "perl -e 'my $i = syscall(29, 0, 4096, 0600); print \"escaped\" if $i >= 0; syscall(31, $i, 0, 0)'",
    ),
    rare("page faults", "perl -e 'print \"escaped\" if syscall(323, 1) >= 0'"),
    rare(
        "a device",
        "perl -e 'my $p = \"out/device\"; print \"escaped\" if syscall(133, $p, 0020666, 0x105) >= 0'",
    ),
    case(
        "a program that runs as its owner",
        "cp /bin/true out/suid && chmod 4755 out/suid && [ -u out/suid ] && echo escaped",
    ),
    case(
        "the calls of x32",
        "perl -e 'print \"escaped\" if syscall(41, 2, 1, 0) >= 0 || syscall(0x40000000 | 41, 2, 1, 0) >= 0'",
    ),
];
