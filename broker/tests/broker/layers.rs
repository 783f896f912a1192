//! Which module may use which: layers, and no circles between folders.
//!
//! A crate's modules stand from the bottom up. Each may use those before it and none after it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const PROTO: &[&str] = &[
    "counted",
    "enum_name",
    "disk",
    "limits",
    "visible",
    "nearest",
    "pattern",
    "echo",
    "wire",
    "review_terms",
    "stored",
    "json",
    "reason",
    "id",
    "token",
    "trace",
    "invitation",
    "mail",
    "swarm",
    "run",
    "board",
    "pipeline",
    "schema",
    "private",
    "rpc",
    "host",
    "net",
];

const BROKER: &[&str] = &[
    "canonical",
    "cbor",
    "hash",
    "clock",
    "disk",
    "metrics",
    "rules",
    "journal",
    "workspace",
    "backup",
    "compact",
    "search",
    "connection",
    "access",
    "grpc",
    "overview",
    "dashboard",
    "server",
    "cli",
];

const NODE: &[&str] = &[
    "hex",
    "json_size",
    "flips",
    "clock",
    "files",
    "dir",
    "os_user",
    "template",
    "beside",
    "holder",
    "probe",
    "paths",
    "projects",
    "mail_terms",
    "edit_guard",
    "refusal",
    "step_key",
    "wait",
    "limiter",
    "presence",
    "toolset",
    "credentials",
    "identity",
    "agent_tokens",
    "attached",
    "process",
    "accept",
    "file_access",
    "commands",
    "runner",
    "launch",
    "filebox",
    "repository",
    "client",
    "private",
    "outbox",
    "link",
    "gateway",
    "service_settings",
    "hooks",
    "mirror",
    "config",
    "runs",
    "services",
    "pipeline",
    "mail_directories",
    "role",
    "node",
    "wake",
    "mcp",
    "cli",
];

/// Code without comments and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that follow `crate::` in code, alone or in braces.
fn used(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut is_first) = (0, true);
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if is_first && !letter.is_whitespace() => {
                    is_first = false;
                    found.insert(word(&list[at..]));
                }
                _ => {}
            }
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}

/// The module of a crate that a file belongs to.
fn module(source: &Path, path: &Path) -> String {
    let first = path.strip_prefix(source).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// What `crate_name` does against its layers, a line each.
fn broken(crate_name: &str, layers: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = root.join(crate_name).join("src");
    let mut files: Vec<PathBuf> = Vec::new();
    super::tidy::sources(&source, &mut files);
    let mut broken = Vec::new();
    for path in files.iter().filter(|path| !is_test(path.strip_prefix(root).unwrap())) {
        let own = module(&source, path);
        if ["lib", "main"].contains(&own.as_str()) {
            continue;
        }
        let Some(level) = layers.iter().position(|layer| *layer == own) else {
            broken.push(format!("{own} has no layer"));
            continue;
        };
        for other in used(&code(path)) {
            if layers[level..].contains(&other.as_str()) && other != own {
                broken.push(format!("{} uses {other}", path.display()));
            }
        }
    }
    broken
}

#[test]
fn each_module_uses_only_what_is_below_it() {
    for (crate_name, layers) in [("proto", PROTO), ("broker", BROKER), ("node", NODE)] {
        let broken = broken(crate_name, layers);
        assert!(broken.is_empty(), "{crate_name}: {broken:#?}");
    }
}

#[test]
fn a_use_is_found_however_it_is_written() {
    let code = "use crate::{a::{b, c}, d, self::e};\nfn f() { crate::g::h() } use crate::i;";
    let found: Vec<String> = used(code).into_iter().collect();
    assert_eq!(found, ["a", "d", "g", "i", "self"]);
}
