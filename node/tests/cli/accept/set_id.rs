//! Programs that run as whoever ran the command, or with that user's group: none is made.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::Office;

/// Every call that makes a file or changes a mode, by every mode, and then the execute bits by an
/// access control list.
#[tokio::test]
#[ignore = "needs git, landlock and perl"]
async fn a_command_makes_no_program_that_runs_as_its_owner_or_group() {
    let mut office = Office::open().await;
    // What is left there outlives the run.
    let cache = office.path("cache");
    fs::create_dir(&cache).unwrap();
    office.operator(&format!("{}\nwrite = [\"{}\"]", super::ALLOW, cache.display()));
    let script = r#"
        use Errno; umask 0;
        my $cache = '@CACHE@'; my $made = 0;
        my ($cwd, $creates, $unnamed) = (-100, 0101, 020200001);
        # An access control list that says no more than the mode 0755.
        my $list = pack('L(SSL)3', 2, 1, 7, -1, 4, 5, -1, 32, 5, -1);
        my ($access, $default) = map "system.posix_acl_$_", qw(access default);
        my $link = sub {
            my ($fd, $path) = @_;
            my $from = "/proc/self/fd/$fd";
            return syscall(265, $cwd, $from, $cwd, $path, 0x400);
        };
        my %ways = (
            open => sub { syscall(2, $_[0], $creates, $_[1]) },
            openat => sub { syscall(257, $cwd, $_[0], $creates, $_[1]) },
            'openat, upper bits' => sub {
                syscall(257, $cwd, $_[0], (1 << 40) | $creates, (1 << 40) | $_[1])
            },
            'openat without a name' => sub {
                my $fd = syscall(257, $cwd, $cache, $unnamed, $_[1]);
                $fd < 0 ? $fd : $link->($fd, $_[0])
            },
            openat2 => sub {
                my $how = pack('Q3', $creates, $_[1], 0);
                syscall(437, $cwd, $_[0], $how, 24)
            },
            creat => sub { syscall(85, $_[0], $_[1]) },
            mknod => sub { syscall(133, $_[0], 0100000 | $_[1], 0) },
            mknodat => sub { syscall(259, $cwd, $_[0], 0100000 | $_[1], 0) },
            mkdir => sub { syscall(83, $_[0], $_[1]) },
            mkdirat => sub { syscall(258, $cwd, $_[0], $_[1]) },
            'x32 open' => sub { syscall(0x40000002, $_[0], $creates, $_[1]) },
        );
        my %changes = (
            chmod => sub { syscall(90, $_[0], $_[1]) },
            fchmod => sub { open(my $f, '<', $_[0]); syscall(91, fileno($f), $_[1]) },
            fchmodat => sub { syscall(268, $cwd, $_[0], $_[1]) },
            fchmodat2 => sub { syscall(452, $cwd, $_[0], $_[1], 0) },
        );
        my %lists = (
            setxattr => sub { syscall(188, $_[0], $_[1], $list, length $list, 0) },
            lsetxattr => sub { syscall(189, $_[0], $_[1], $list, length $list, 0) },
            fsetxattr => sub {
                open(my $f, '<', $_[0]); syscall(190, fileno($f), $_[1], $list, length $list, 0)
            },
            setxattrat => sub {
                my $value = pack('pLL', $list, length $list, 0);
                syscall(463, $cwd, $_[0], 0, $_[1], $value, 16)
            },
        );
        sub check {
            my ($what, $path) = @_;
            my @of = lstat $path;
            printf "could: $what makes %o\n", $of[2] if @of && $of[2] & 06000;
        }
        sub fill {
            open(my $from, '<', '/bin/true') or die; open(my $to, '+<', $_[0]) or return;
            local $/; print $to scalar <$from>; close $to;
        }
        for my $mode (04755, 02755, 02644, 06777, 04000) {
            for my $way (sort keys %ways) {
                my $path = "$cache/" . ++$made;
                $ways{$way}->($path, $mode);
                check(sprintf('%s %o', $way, $mode), $path);
                for my $set (sort keys %lists) {
                    next unless -f $path;
                    fill($path); $lists{$set}->($path, $access);
                    check(sprintf('%s %o, %s', $way, $mode, $set), $path);
                }
            }
            for my $change (sort keys %changes) {
                my $path = "$cache/" . ++$made;
                open(my $f, '>', $path) or die; close $f;
                $changes{$change}->($path, $mode);
                check(sprintf('%s %o', $change, $mode), $path);
            }
        }
        my $plain = "$cache/plain"; my $directory = "$cache/directory";
        open(my $f, '>', $plain) or die; mkdir $directory or die;
        for my $set (sort keys %lists) {
            for ([$plain, $access], [$directory, $access], [$directory, $default]) {
                print "could: $set\n" if $lists{$set}->(@$_) >= 0;
            }
        }
        my $how = pack('Q3', 0, 0, 0);
        print "openat2 is there\n" if syscall(437, $cwd, $plain, $how, 24) >= 0 || !$!{ENOSYS};
        my $user = 'user.a';
        for ([188, $plain, $user, $list, 1, 0], [197, $plain, $user], [198, $plain, $user]) {
            my ($number, @arguments) = @$_;
            print "$number: $!\n" if syscall($number, @arguments) >= 0 || !$!{EOPNOTSUPP};
        }
        # A program of the system's under another name keeps its mode.
        for my $program (grep -u, map glob("$_/*"), qw(/bin /usr/bin)) {
            print "could: link $program\n" if link $program, "$cache/linked";
        }
        print "done\n";
    "#;
    let script = script.replace("@CACHE@", &cache.display().to_string());
    office.repository.commit(&[("attack.pl", &script)]);
    let ran = office.tried(0, &["perl attack.pl"]).await.remove(0);
    assert_eq!(ran.output, "done\n");
    for entry in fs::read_dir(&cache).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{:?} has mode {mode:o}", entry.path());
    }
    assert!(fs::read_dir(&cache).unwrap().count() > 20, "it made files");
}

/// A directory hands its group down to directories in it by a bit that nothing in there may set.
#[tokio::test]
#[ignore = "needs git and landlock"]
async fn copies_keep_modes_also_where_directories_hand_down_their_group() {
    let mut office = Office::open().await;
    let place = office.path("tmp");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o2700)).unwrap();
    let script = "set -e; test ! -g . && test ! -g \"$TMPDIR\"\n\
                  mkdir -p a/b && echo x > a/b/f && chmod 755 a/b a/b/f && cp -a a c && cp -rp a d\n\
                  cp -p a/b/f e && install -m 755 a/b/f g && install -d -m 700 h\n\
                  tar -cf t.tar a && mkdir i && tar -C i -xpf t.tar && mv i/a \"$TMPDIR/a\"\n\
                  mktemp -d >/dev/null && sed -i s/x/y/ e && touch -d 2001-01-01 e\n\
                  test -x c/b/f && test -x d/b/f && test -x g && test -x i/../a/b/f\n\
                  git init --quiet r && cd r && cp ../e . && git add e\n\
                  git -c user.name=t -c user.email=t@t commit --quiet -m m && git gc --quiet\n\
                  git clone --quiet . ../s && git worktree add --quiet ../w && cat ../s/e ../w/e\n";
    let ran = office.script(0, script).await;
    assert_eq!(ran.output, "y\ny\n");
    office.check_clean();
}
