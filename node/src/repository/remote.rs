//! What a remote's address says of which repository it is, without IO.
//!
//! Everything that differs between two clones of one repository is left out: how it is reached,
//! as whom, over which usual port, with or without `.git`. An address that means another thing on
//! another machine (a path, this machine itself, somebody's home) is none.

use std::fmt::Write as _;

use tasuki_proto::visible::shown;

/// Left out of an identity, whatever the scheme: over TLS, SSH and Git's own protocol a host shows
/// the same repositories.
const USUAL_PORTS: [u16; 4] = [22, 80, 443, 9418];

/// Hosts that are one with another: SSH where only the port of TLS is open.
const SAME_HOSTS: [(&str, &str); 4] = [
    ("ssh.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
    ("ssh.dev.azure.com", "dev.azure.com"),
];

/// Hosts that take `A` and `a` for the same in the names of repositories, and show whoever logs in
/// the same ones, under whatever name.
const FORGES: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", "dev.azure.com"];

/// Whom everybody logs in as where the host knows them by their keys.
const SHARED_USERS: [&str; 5] = ["git", "gitea", "forgejo", "gitlab", "hg"];

/// What an address is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remote {
    /// The same on every machine: `host/path`.
    Named(String),
    /// A repository on this machine, which may have a remote of its own.
    Local(String),
    /// A short name that Git's configuration may stand another address behind.
    Short,
    /// It names no repository that others could name, too.
    Useless,
}

/// What an address is. Never fails: what is not understood is [`Remote::Useless`].
pub(super) fn read(address: &str) -> Remote {
    let address = address.trim();
    if let Some((scheme, rest)) = address.split_once("://") {
        return of_url(&scheme.to_ascii_lowercase(), rest);
    }
    // `helper::address`: what it means is the helper's to know.
    let is_helper = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-+_".contains(c))
    };
    if address.split_once("::").is_some_and(|(name, _)| is_helper(name)) {
        return Remote::Useless;
    }
    match short_form(address) {
        Some((host, path)) => of_short_form(host, path),
        None if address.is_empty() => Remote::Useless,
        None => Remote::Local(address.to_owned()),
    }
}

fn of_url(scheme: &str, rest: &str) -> Remote {
    match scheme {
        "file" => {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            return Remote::Local(String::from_utf8_lossy(&decoded(path)).into_owned());
        }
        "ssh" | "git+ssh" | "ssh+git" | "git" | "http" | "https" | "ftp" | "ftps" | "rsync" => {}
        _ => return Remote::Useless,
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // A password may have an `@` in it, and is nobody's business.
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user.split(':').next().unwrap_or_default(), host),
        None => ("", authority),
    };
    let Some((host, port)) = host_and_port(host) else { return Remote::Useless };
    let path = path.split('#').next().unwrap_or_default();
    // What is asked for may be another repository, or somebody's secret.
    if path.contains('?') {
        return Remote::Useless;
    }
    let path = decoded(path);
    match path.strip_prefix(b"~/") {
        Some(path) if scheme.contains("ssh") => in_home(user, &host, port, path),
        Some(_) | None => named(&host, port, &path),
    }
}

fn of_short_form(host: &str, path: &str) -> Remote {
    let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
    // `C:\work` is a path.
    if host.len() == 1 {
        return Remote::Local(format!("{host}:{path}"));
    }
    let Some((host, None)) = host_and_port(host) else { return Remote::Useless };
    if !host.contains(['.', ':']) && host != "localhost" {
        return Remote::Short;
    }
    match path.strip_prefix("~/") {
        Some(path) => in_home(user, &host, None, path.as_bytes()),
        // What has no `/` in front is below the home of whom one logs in as.
        None if !path.starts_with(['/', '~']) && !user.is_empty() => {
            in_home(user, &host, None, path.as_bytes())
        }
        None => named(&host, None, path.as_bytes()),
    }
}

/// `user@host:path`: a colon before the first slash.
fn short_form(address: &str) -> Option<(&str, &str)> {
    let from = match address.find('[') {
        Some(at) if address[..at].ends_with('@') || at == 0 => address.find(']')?,
        Some(_) | None => 0,
    };
    let at = from + address[from..].find([':', '/'])?;
    let (host, path) = address.split_at(at);
    let path = path.strip_prefix(':')?;
    (!host.is_empty() && !path.is_empty()).then_some((host, path))
}

/// `None`: it is no host, or this machine itself, which is another one elsewhere.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (format!("[{host}]"), after.strip_prefix(':').unwrap_or_default())
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), port),
            None => (text.to_owned(), ""),
        },
    };
    let port: Option<u16> = if port.is_empty() { None } else { Some(port.parse().ok()?) };
    let host = host.trim_end_matches('.').to_lowercase();
    let same = SAME_HOSTS.iter().find(|(other, _)| *other == host);
    let host = same.map_or(host, |(_, host)| (*host).to_owned());
    let host = forge(&host).map_or(host, ToOwned::to_owned);
    let is_here = host == "localhost"
        || host.ends_with(".localhost")
        || host == "[::1]"
        || (host.starts_with("127.") && host.split('.').all(|part| part.parse::<u8>().is_ok()));
    let is_odd = host.is_empty() || host.contains(|c: char| c.is_whitespace() || is_hidden(c));
    let is_odd = is_odd || host.contains(['/', '\\', '%', '?', '#', '@']);
    (!is_here && !is_odd).then_some((host, port.filter(|it| !USUAL_PORTS.contains(it))))
}

/// The forge that a host is another name of: as a page is reached, or as people with two accounts
/// call it in their configuration of SSH (`github.com-work`), which no other host can be called.
fn forge(host: &str) -> Option<&'static str> {
    let bare = host.strip_prefix("www.").unwrap_or(host);
    let is_same = |forge: &&&str| {
        bare.strip_prefix(**forge).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    FORGES.iter().find(is_same).copied()
}

/// Below the home of a user, who is part of which repository it is, unless all log in as one.
fn in_home(user: &str, host: &str, port: Option<u16>, path: &[u8]) -> Remote {
    if SHARED_USERS.contains(&user) || FORGES.contains(&host) {
        return named(host, port, path);
    }
    if user.is_empty() {
        return Remote::Useless;
    }
    named(host, port, &[format!("~{user}/").as_bytes(), path].concat())
}

fn named(host: &str, port: Option<u16>, path: &[u8]) -> Remote {
    let path = encoded(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    if let ("dev.azure.com", ["v3", organisation, project, repository]) = (host, &segments[..]) {
        segments = vec![organisation, project, "_git", repository];
    }
    let Some(last) = segments.last_mut() else { return Remote::Useless };
    while let Some(bare) = last.strip_suffix(".git").filter(|bare| !bare.is_empty()) {
        *last = bare;
    }
    let path = segments.join("/");
    let path = if FORGES.contains(&host) { path.to_lowercase() } else { path };
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Remote::Named(format!("{host}{port}/{path}"))
}

/// The bytes that `%20` and the like stand for.
pub(super) fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|it| char::from(*it).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if let (b'%', Some(high), Some(low)) = (bytes[at], digit(at + 1), digit(at + 2)) {
            out.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits are a byte"));
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Whether it is not shown wherever it stands. A broker takes no name that has one.
fn is_hidden(c: char) -> bool {
    shown(c.encode_utf8(&mut [0; 4])).1 != 0
}

/// One way to write each path: what would not survive in an address, or in a line, as `%20`.
pub(super) fn encoded(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_whitespace() || is_hidden(c) || "%?#\"<>\\^`{|}".contains(c) {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    write!(out, "%{byte:02X}").expect("a String takes everything");
                }
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            write!(out, "%{byte:02X}").expect("a String takes everything");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_repository_has_one_name_however_it_is_reached() {
        for (addresses, name) in [
            (
                &[
                    "https://github.com/Tasuki/Work.git",
                    "https://github.com/tasuki/work",
                    "https://github.com/tasuki/work/",
                    "http://GitHub.com:80/tasuki/work.git/",
                    "https://me:p@ss@github.com/tasuki/work.git",
                    "https://me:p%40ss@github.com:443/tasuki/work.git",
                    "git@github.com:tasuki/work.git",
                    "git@github.com:/tasuki/work",
                    "github.com:tasuki/work",
                    "ssh://git@github.com/tasuki/work.git",
                    "ssh://git@github.com:22/tasuki/work.git",
                    "ssh://git@ssh.github.com:443/tasuki/work.git",
                    "git://github.com/tasuki/work",
                    "git+ssh://git@github.com//tasuki/./work",
                    "  https://github.com./tasuki/work.git\n",
                    "https://www.github.com/tasuki/work",
                    "org-123@github.com:Tasuki/Work.git",
                    "ssh://org-123@github.com/Tasuki/Work.git",
                    "git@github.com-work:tasuki/work.git",
                    "me@github.com-work:tasuki/work",
                    "ssh://git@github.com-my.own/tasuki/work",
                    "https://github.com/tasuki/work#readme",
                ][..],
                "github.com/tasuki/work",
            ),
            (
                &[
                    "https://git.example/A/b%20c.git",
                    "git@git.example:A/b c",
                    "ssh://git.example/A/b c",
                ],
                "git.example/A/b%20c",
            ),
            (
                &["ssh://git@git.example:2222/a", "https://git.example:2222/a.git"],
                "git.example:2222/a",
            ),
            (&["ssh://git@[2001:db8::1]/a.git", "git@[2001:db8::1]:a"], "[2001:db8::1]/a"),
            (
                &["al@git.example:w", "ssh://al@git.example/~/w.git", "ssh://x@git.example/~al/w"],
                "git.example/~al/w",
            ),
            (
                &["git@ssh.dev.azure.com:v3/Org/p/r", "https://Org@dev.azure.com/org/p/_git/r"],
                "dev.azure.com/org/p/_git/r",
            ),
            (&["https://git.example/日本/工.git"], "git.example/日本/工"),
            (&["https://git.example/a\u{202e}b\u{200d}.git"], "git.example/a%E2%80%AEb%E2%80%8D"),
            (&["https://git.example/a/../b/%2e%2e/c"], "git.example/c"),
        ] {
            for address in addresses {
                assert_eq!(read(address), Remote::Named(name.to_owned()), "{address}");
            }
        }
    }

    #[test]
    fn different_repositories_have_different_names() {
        let all = [
            "https://git.example/a/b",
            "https://git.example/A/b",
            "https://git.example/a",
            "https://git.example:8443/a/b",
            "https://other.example/a/b",
            "al@git.example:a/b",
            "bo@git.example:a/b",
            "https://git.example/a/b.github",
            "https://www.git.example/a/b",
            "git@git.example-work:a/b",
            "https://github.com/a/b",
            "https://github.community/a/b",
            "https://gist.github.com/a/b",
            "https://my-github.com/a/b",
        ];
        let names: std::collections::BTreeSet<String> =
            all.iter().map(|it| format!("{:?}", read(it))).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
    }

    /// Holds RP2.
    #[test]
    fn what_means_another_thing_elsewhere_is_no_name() {
        for (address, remote) in [
            ("/srv/git/a.git", Remote::Local("/srv/git/a.git".into())),
            ("../a", Remote::Local("../a".into())),
            ("./a:b", Remote::Local("./a:b".into())),
            ("C:\\work\\a", Remote::Local("C:\\work\\a".into())),
            ("C:/code/a", Remote::Local("C:/code/a".into())),
            ("file:///srv/a%20b", Remote::Local("/srv/a b".into())),
            ("gh:tasuki/work", Remote::Short),
            ("git@work:tasuki/work", Remote::Short),
            ("", Remote::Useless),
            ("http://localhost:3000/a/b", Remote::Useless),
            ("http://127.0.0.1/a/b", Remote::Useless),
            ("git@localhost:a", Remote::Useless),
            ("ssh://[::1]/a", Remote::Useless),
            ("https://github.com/", Remote::Useless),
            ("https://github.com/..", Remote::Useless),
            ("https:///a/b", Remote::Useless),
            ("https://host:port/a", Remote::Useless),
            ("ext::sh -c 'x'", Remote::Useless),
            ("codecommit::eu-west-1://a", Remote::Useless),
            ("ssh://git.example/~/a", Remote::Useless),
            ("s3://bucket/a", Remote::Useless),
            ("https://git.example/scm?project=a", Remote::Useless),
            ("https://git.example/a.git?private_token=x", Remote::Useless),
        ] {
            assert_eq!(read(address), remote, "{address}");
        }
    }

    proptest! {
        /// A name, taken for an address, names itself.
        #[test]
        fn a_name_stays_as_it_is(
            scheme in "(https://|ssh://|git@|me@|)",
            host in "[A-Za-z0-9.\\-]{1,12}",
            colon in "(/|:|:7/|:22/)",
            path in "[ -~é日\\n]{0,24}",
        ) {
            if let Remote::Named(name) = read(&format!("{scheme}{host}{colon}{path}")) {
                prop_assert_eq!(read(&format!("https://{name}")), Remote::Named(name.clone()));
                prop_assert!(!name.contains(|c: char| c.is_control() || c == ' '), "{}", name);
            }
        }

        #[test]
        fn nothing_is_too_odd_to_be_read(address in "\\PC{0,40}") {
            read(&address);
        }
    }
}
