//! Commands that want more than they are given.

use std::fs;

use super::Office;

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_command_writes_nowhere_but_in_its_checkout_and_its_own_directories() {
    let mut office = Office::open().await;
    let outside = office.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    let at = outside.display();
    let script = format!(
        "no() {{ if \"$@\" 2>/dev/null; then echo \"could: $*\"; fi; }}\n\
         no touch {at}/new\n\
         no sh -c 'echo x > {at}/kept'\n\
         no truncate -s 0 {at}/kept\n\
         no mv {at}/kept {at}/moved\n\
         no rm {at}/kept\n\
         no ln {at}/kept hard\n\
         no mkdir {at}/d\n\
         ln -s {at} out && no touch out/new && no sh -c 'echo x > out/kept'\n\
         no touch /tmp/tasuki-accept-test /var/tmp/tasuki-accept-test /dev/shm/tasuki-accept-test\n\
         no chmod u+s script.sh\n\
         echo x > own && mv own moved && mkdir d && mv moved d/ && ln d/moved hard && rm -r d\n\
         echo y > \"$TMPDIR/z\" && mv \"$TMPDIR/z\" z && cp /bin/true run && ./run\n\
         echo x > /dev/null && chmod +x script.sh && echo fine\n"
    );
    let ran = office.script(0, &script).await;
    assert_eq!(ran.output, "fine\n");
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    office.check_clean();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_command_reads_no_keys_and_no_variables_of_the_operators() {
    let mut office = Office::open().await;
    let key = office.path("home/.ssh/id");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    fs::write(&key, "private").unwrap();
    let (data, clone) = (office.up.data.display(), office.repository.path.display());
    let script = format!(
        "no() {{ if \"$@\" 2>/dev/null; then echo \"could: $*\"; fi; }}\n\
         ln -s {key} link\n\
         no cat {key} || true\n\
         no cat link\n\
         no cat {data}/tasuki.toml\n\
         no ls {data}\n\
         no ls {data}/accept\n\
         no ls {clone}\n\
         no cat {clone}/.git/config\n\
         no ls /root\n\
         no ls /home\n\
         no ls /tmp\n\
         no cat /etc/shadow\n\
         no cat /proc/$PPID/environ\n\
         no cat /proc/{pid}/environ\n\
         no ls /proc/{pid}/cwd/\n\
         no cat /proc/{pid}/root{key}\n\
         no cat /proc/self/root{key}\n\
         no cp {key} stolen\n\
         no ln {key} stolen\n\
         env | grep -c hunter2\n\
         echo $HOME | grep -c '^{tmp}/tasuki-accept-[0-9a-f]*/tmp$'\n\
         exec <{key}\n",
        key = key.display(),
        pid = std::process::id(),
        tmp = office.path("tmp").canonicalize().unwrap().display(),
    );
    let ran = office.script(8, &script).await;
    assert_eq!(ran.output.lines().take(2).collect::<Vec<_>>(), ["0", "1"], "{}", ran.output);
    assert!(ran.output.contains("ermission denied") && ran.exit_code == 2, "{}", ran.output);
}

/// Each line is a system call that fails, or it is named.
#[tokio::test]
#[ignore = "needs git, landlock and perl"]
async fn a_command_opens_no_socket_and_reaches_no_other_process() {
    let mut office = Office::open().await;
    let script = r#"
        use Socket; use Errno;
        sub check { my ($what, $done) = @_; print "could: $what\n" if $done; }
        check('inet', socket(my $a, AF_INET, SOCK_STREAM, 0));
        check('udp', socket(my $b, AF_INET, SOCK_DGRAM, 0));
        check('inet6', socket(my $c, AF_INET6, SOCK_STREAM, 0));
        check('unix', socket(my $d, AF_UNIX, SOCK_STREAM, 0));
        check('netlink', socket(my $e, 16, SOCK_RAW, 0));
        check('vsock', socket(my $f, 40, SOCK_STREAM, 0));
        check('upper bits', syscall(41, (1 << 32) | 2, 1, 0) >= 0);
        check('datagram pair', socketpair(my $g, my $h, AF_UNIX, SOCK_DGRAM, 0));
        check('pair of another kind', socketpair(my $p, my $q, 30, SOCK_SEQPACKET, 0) || $! != Errno::EPERM);
        check('x32', syscall(0x40000000 | 41, 2, 1, 0) >= 0);
        check('x32 at all', syscall(0x40000000 | 39) >= 0);
        check('kill parent', kill(0, getppid()));
        check('kill parent group', kill(0, -getpgrp(getppid())));
        check('ptrace', syscall(101, 16, getppid(), 0, 0) >= 0);
        check('read parent', syscall(310, getppid(), 0, 0, 0, 0, 0) >= 0);
        check('io_uring', syscall(425, 1, 0) >= 0);
        check('user namespace', syscall(272, 0x10000000) >= 0);
        check('clone into one', syscall(56, 0x10000000 | 17, 0, 0, 0, 0) >= 0);
        check('clone3', syscall(435, 0, 0) >= 0 || $! != Errno::ENOSYS);
        check('mount', syscall(165, 0, 0, 0, 0, 0) >= 0 || $! != Errno::EPERM);
        check('keys', syscall(250, 0, -3, 0) >= 0);
        check('bpf', syscall(321, 0, 0, 0) >= 0);
        check('chroot', chroot('.'));
        check('mount attributes', syscall(442, -100, my $at = '.', 0, my $no = '', 0) >= 0 || $! != Errno::EPERM);
        check('tree', syscall(428, -100, $at, 0) >= 0 || $! != Errno::EPERM);
        check('tree with attributes', syscall(467, -100, $at, 0, 0, 0) >= 0 || $! != Errno::EPERM);
        check('file system', syscall(430, $at, 0) >= 0 || $! != Errno::EPERM);
        check('handle', syscall(304, -100, $no, 0) >= 0 || $! != Errno::EPERM);
        check('attributes of a file', syscall(469, -100, $at, $no, 0, 0) >= 0 || $! != Errno::ENOSYS);
        check('what is newer than this', syscall(499, 0) >= 0 || $! != Errno::ENOSYS);
        check('keys pressed', ioctl(STDIN, 0x5412, $no) || $! != Errno::EPERM);
        check('terminal', open(my $i, '<', '/dev/tty'));
        check('shared memory', syscall(29, 0, 4096, 0600) >= 0);
        check('message', syscall(69, 0, my $sent = pack('q', 1), 0, 04000) >= 0 || $! != Errno::EPERM);
        check('message of others', syscall(70, 0, my $got = ' ' x 64, 8, 0, 04000) >= 0 || $! != Errno::EPERM);
        check('semaphore', syscall(65, 0, my $op = pack('SsS', 0, 1, 04000), 1) >= 0 || $! != Errno::EPERM);
        check('semaphore in time', syscall(220, 0, $op, 1, 0) >= 0 || $! != Errno::EPERM);
        check('disk of parent', syscall(251, 1, getppid(), 2 << 13 | 7) >= 0 || $! != Errno::EPERM);
        check('disk of all', syscall(251, 3, 0, 2 << 13 | 7) >= 0 || $! != Errno::EPERM);
        check('its own disk', syscall(251, 1, 0, 2 << 13 | 7) != 0);
        check('pages of parent', syscall(256, getppid(), 0, 0, 0) >= 0 || $! != Errno::EPERM);
        check('places of pages', syscall(279, getppid(), 0, 0, 0, 0, 0) >= 0 || $! != Errno::EPERM);
        check('limits', syscall(302, getppid(), 7, my $limit = pack('QQ', 1, 1), 0) >= 0);
        check('stream pair', !socketpair(my $j, my $k, AF_UNIX, SOCK_STREAM, 0));
        check('threads and children', system('true') != 0);
        print "done\n";
    "#;
    office.repository.commit(&[("attack.pl", script)]);
    let ran = office.tried(0, &["perl attack.pl"]).await.remove(0);
    assert_eq!(ran.output, "done\n");

    office.operator("allow = [\"perl *\"]\nnetwork = true");
    let open = "use Socket; socket(my $a, AF_INET, SOCK_STREAM, 0) or die $!; \
                socket(my $b, AF_UNIX, SOCK_STREAM, 0) and die 'unix'; print 'open'";
    office.repository.commit(&[("open.pl", open)]);
    let ran = office.tried(0, &["perl open.pl"]).await.remove(0);
    assert_eq!(
        (ran.output.as_str(), &ran.all["sandbox"]),
        ("open", &"landlock+seccomp; network".into())
    );
}

/// Programs of 32 bits make other calls under the same numbers.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_call_of_another_architecture_ends_its_program() {
    let mut office = Office::open().await;
    let mut program = vec![];
    // The head of a program of 64 bits, and its one segment: all of it, at 0x400000.
    program.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0");
    program.extend([0x40_0078_u64, 64, 0].iter().flat_map(|it| it.to_le_bytes()));
    program.extend([0_u16, 0, 64, 56, 1, 0, 0, 0].iter().flat_map(|it| it.to_le_bytes()));
    program.extend([1_u32, 5].iter().flat_map(|it| it.to_le_bytes()));
    let segment = [0_u64, 0x40_0000, 0x40_0000, 134, 134, 0x1000];
    program.extend(segment.iter().flat_map(|it| it.to_le_bytes()));
    // mov eax, 1 (`exit` of 32 bits); mov ebx, 0; int 0x80; ud2
    program.extend([0xb8, 1, 0, 0, 0, 0xbb, 0, 0, 0, 0, 0xcd, 0x80, 0x0f, 0x0b]);
    let octal: String = program.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let script = format!(
        "printf '{octal}' > a && chmod +x a && sh -c ./a 2>/dev/null\n\
         case $? in 0) echo could;; 159|139) echo ended;; *) echo $?; esac\n"
    );
    assert_eq!(office.script(0, &script).await.output, "ended\n");
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_the_operator_names_is_open_and_nothing_around_it() {
    let mut office = Office::open().await;
    let [tools, cache] = ["tools", "cache"].map(|it| office.path(it));
    for made in [&tools, &cache] {
        fs::create_dir(made).unwrap();
        fs::write(made.join("file"), "inside").unwrap();
    }
    fs::write(office.path("home/.secret"), "x").unwrap();
    office.operator(&format!(
        "{}\nread = [\"{}\", \"/nowhere\"]\nwrite = [\"{}\"]\nenv = [\"A_SECRET\", \"CACHE={}\", \
         \"AT=~/x\"]",
        super::ALLOW,
        tools.display(),
        cache.display(),
        cache.display()
    ));
    let script = format!(
        "cat {tools}/file $CACHE/file; echo $A_SECRET $AT; touch $CACHE/new; \
         touch {tools}/new 2>/dev/null || echo no; cat {secret} 2>/dev/null || echo no",
        tools = tools.display(),
        secret = office.path("home/.secret").display(),
    );
    let ran = office.script(0, &script).await;
    let home = office.path("home/x");
    assert_eq!(ran.output, format!("insideinsidehunter2 {}\nno\nno\n", home.display()));
    assert!(cache.join("new").exists());

    let data = office.place.path().display().to_string();
    office.operator(&format!("{}\nread = [\"{data}\"]", super::ALLOW));
    let task = format!("{}/task-1", office.issue);
    let said = office.run(&["--task", &task]).await;
    assert!(said.code == 2 && said.err.contains("Tasuki's own data with its keys"), "{said:?}");
}

#[tokio::test]
#[ignore = "needs git, landlock and a linker"]
async fn a_crate_is_built_and_tested_in_there() {
    let mut office = Office::open().await;
    let cargo = std::path::PathBuf::from(std::env::var_os("CARGO").unwrap());
    let toolchain = cargo.parent().unwrap().parent().unwrap().display();
    office.operator(&format!(
        "allow = [\"cargo test *\"]\nread = [\"{toolchain}\"]\n\
         env = [\"PATH={toolchain}/bin:/usr/local/bin:/usr/bin:/bin\"]"
    ));
    office.repository.commit(&[
        ("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
        (
            "src/lib.rs",
            "#[test]\nfn one() {\n    let there = std::thread::spawn(|| 1).join().unwrap();\n    \
             assert_eq!(there, 1);\n    std::fs::write(\"f\", \"x\").unwrap();\n}\n\
             #[test]\n#[should_panic]\nfn two() {\n    \
             std::net::TcpListener::bind(\"127.0.0.1:0\").unwrap();\n}\n",
        ),
    ]);
    let ran = office.tried(0, &["cargo test --offline"]).await.remove(0);
    assert!(ran.output.contains("test result: ok. 2 passed"), "{}", ran.output);
}

#[tokio::test]
#[ignore = "needs git"]
async fn without_a_sandbox_nothing_runs_unless_the_operator_wants_none() {
    let mut office = Office::open().await;
    office.operator(&format!("{}\nsandbox = \"none\"", super::ALLOW));
    let marker = office.path("marker");
    let ran = office.script(0, &format!("touch {}; echo ran", marker.display())).await;
    assert_eq!(ran.output, "ran\n");
    assert_eq!(ran.all["sandbox"], "none: the operator's configuration says so");
    assert!(marker.exists());
    office.check_clean();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_program_that_is_not_there_failed() {
    let mut office = Office::open().await;
    office.operator("allow = [\"no-such-program\", \"./README\"]");
    let ran = office.tried(8, &["no-such-program", "./README"]).await;
    assert_eq!((ran[0].exit_code, ran[1].exit_code), (127, 126));
    assert!(ran[0].output.starts_with("tasuki: no-such-program cannot be run"), "{ran:?}");
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_was_left_open_is_not_carried_in() {
    let mut office = Office::open().await;
    office.submit(&office.repository.head(), &["true"]).await;
    let task = format!("{}/task-1", office.issue);
    let tasuki = office.command(&["--task", &task, "--json"]);
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", "exec 7<\"$0\"; exec \"$@\""]).arg(office.repository.path.join("README"));
    shell.arg(tasuki.as_std().get_program()).args(tasuki.as_std().get_args());
    for (name, value) in tasuki.as_std().get_envs() {
        shell.env(name, value.unwrap());
    }
    let said = super::Said::of(&crate::process::soon(shell.output()).await.unwrap());
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.out.contains("Nothing was run: descriptor 7 ("), "{said:?}");
}
