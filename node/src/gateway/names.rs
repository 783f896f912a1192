//! How a server's tool is called where many servers meet: `server__tool`. Pure.
//!
//! Two underscores are the one separator that every client and model provider takes: a dot and a
//! slash are refused by providers, which allow `[A-Za-z0-9_-]{1,64}`, and one underscore is part of
//! most tools' names, so nobody could tell where the server ends. Clients put a prefix of their own
//! before it, which is why [`NAME_BYTES_MAX`] is less than 64.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// Between a server's name and a tool's.
pub const SEPARATOR: &str = "__";

/// A name as agents see it, in bytes.
pub const NAME_BYTES_MAX: usize = 48;

/// A server's name, in bytes.
pub const SERVER_BYTES_MAX: usize = 24;

/// Digits of a hash, of those names that do not stand as they are.
const HASH_DIGITS: usize = 8;

/// What one calls a server by: letters, digits, `-` and single `_`, not at its ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

impl ServerName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a disk or a client may take one for the other.
    pub fn is_confusable(&self, other: &Self) -> bool {
        respelled(&self.0).eq_ignore_ascii_case(&respelled(&other.0))
    }
}

/// A name as some clients write it: with `_` for `-`.
pub fn respelled(name: &str) -> String {
    name.replace('-', "_")
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for ServerName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || SERVER_BYTES_MAX < text.len() {
            return Err("has to have 1 to 24 letters");
        }
        if !text.chars().all(is_letter) || text.contains(SEPARATOR) {
            return Err("may have letters, digits, `-` and single `_` only");
        }
        if text.starts_with(['_', '-']) || text.ends_with(['_', '-']) {
            return Err("may not begin or end with `_` or `-`");
        }
        Ok(Self(text.to_owned()))
    }
}

/// The name of a server's tool or prompt, as agents see it. Where letters had to go or it is too
/// long, it ends with a hash of the whole, so that two tools never share one.
pub fn exposed(server: &ServerName, tool: &str) -> String {
    let plain = letters(tool);
    let name = format!("{server}{SEPARATOR}{plain}");
    if name.len() <= NAME_BYTES_MAX && plain == tool && !tool.is_empty() {
        return name;
    }
    with_hash(&name, tool)
}

/// Whether a tool's name stands in the exposed one as it is.
pub fn is_plain(exposed: &str, own: &str) -> bool {
    exposed.strip_suffix(own).is_some_and(|begin| begin.ends_with(SEPARATOR))
}

/// The same of a tool of a role. The name of a role that no server could have is changed to one that
/// a server could, and the hash is of both names.
pub fn exposed_of_role(role: &str, tool: &str) -> String {
    if let Ok(name) = role.parse::<ServerName>() {
        return exposed(&name, tool);
    }
    let prefix: String =
        role.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let prefix = prefix[..prefix.len().min(SERVER_BYTES_MAX)].trim_matches('-');
    let prefix = if prefix.is_empty() { "role" } else { prefix };
    let name = format!("{prefix}{SEPARATOR}{}", letters(tool));
    with_hash(&name, &format!("{role}\0{tool}"))
}

/// A text with `_` in place of what no name may have.
fn letters(text: &str) -> String {
    text.chars().map(|c| if is_letter(c) { c } else { '_' }).collect()
}

/// The begin of a name, and a hash of what it stands for.
fn with_hash(name: &str, whole: &str) -> String {
    let begin = &name[..name.len().min(NAME_BYTES_MAX - HASH_DIGITS - 1)];
    let hash = hex(&Sha256::digest(whole.as_bytes()));
    format!("{begin}_{}", &hash[..HASH_DIGITS])
}

/// The server that a name seen by agents begins with, and the rest.
pub fn split(name: &str) -> Option<(ServerName, &str)> {
    let (server, rest) = name.split_once(SEPARATOR)?;
    Some((server.parse().ok()?, rest))
}

const fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn server(name: &str) -> ServerName {
        name.parse().unwrap()
    }

    #[test]
    fn names_of_servers_leave_no_doubt_where_they_end() {
        for name in ["files", "my-files", "my_files", "A1", "twenty-four-letters-okay"] {
            assert_eq!(server(name).as_str(), name);
        }
        for name in
            ["", "_a", "a_", "-a", "a-", "a__b", "a.b", "a b", "ä", "twenty-five-letters-are-t"]
        {
            name.parse::<ServerName>().unwrap_err();
        }
        // An underscore that a tool begins with is the tool's.
        let seen = exposed(&server("a"), "_b");
        assert_eq!((seen.as_str(), split(&seen)), ("a___b", Some((server("a"), "_b"))));
        assert_eq!(split("handover_work"), None);
        for (other, is_confusable) in
            [("my-files", true), ("My_Files", true), ("my-file", false), ("myfiles", false)]
        {
            assert_eq!(server("my_files").is_confusable(&server(other)), is_confusable, "{other}");
        }
    }

    #[test]
    fn every_name_is_one_that_clients_take_and_no_two_are_one() {
        let long = "x".repeat(300);
        let longer = "x".repeat(301);
        let tools = ["read", "read.file", "read/file", "read_file", "läs", "", " ", &long, &longer];
        let server = server("twenty-four-letters-okay");
        let names: BTreeSet<String> = tools.iter().map(|it| exposed(&server, it)).collect();
        assert_eq!(names.len(), tools.len(), "{names:?}");
        for name in &names {
            assert!(name.len() <= NAME_BYTES_MAX && name.chars().all(is_letter), "{name}");
            assert_eq!(split(name).unwrap().0, server);
        }
        assert_eq!(exposed(&server, "read"), "twenty-four-letters-okay__read");
    }

    #[test]
    fn a_long_name_stays_the_same_for_ever() {
        let name = exposed(&server("files"), "a_tool_whose_name_is_longer_than_any_client_takes");
        assert_eq!(name, "files__a_tool_whose_name_is_longer_than_df603b8e");
    }
}
