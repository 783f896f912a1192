//! Tells our entries in a client's configuration from others'.

use serde_json::Value as Json;

/// An entry that leads to a node of Tasuki.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ours {
    pub role: String,
    /// `None`: the agent without an id.
    pub instance: Option<String>,
    pub reached: Reached,
}

/// How an entry reaches its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Reached {
    Url(String),
    /// A program and its arguments.
    Command(Vec<String>),
}

impl Reached {
    /// How long it has a wait held, in seconds; `None`: it does not say.
    pub(super) fn hold_secs(&self) -> Option<u64> {
        match self {
            Self::Url(url) => {
                let (_, query) = url.split_once('?')?;
                query.split('&').find_map(|pair| pair.strip_prefix("hold="))?.parse().ok()
            }
            Self::Command(words) => {
                words.iter().skip_while(|word| *word != "--hold").nth(1)?.parse().ok()
            }
        }
    }
}

/// `None`: the entry is somebody else's.
pub(super) fn ours(entry: &Json) -> Option<Ours> {
    let reached = entry.get("transport").filter(|inner| inner.is_object()).unwrap_or(entry);
    let text = |key: &str| reached.get(key).and_then(Json::as_str);
    if let Some(url) = text("url").or_else(|| text("httpUrl")) {
        return in_url(url);
    }
    let words = |key: &str| match reached.get(key) {
        Some(Json::String(word)) => vec![word.clone()],
        Some(Json::Array(words)) => {
            words.iter().filter_map(Json::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    in_command(&[words("command"), words("args")].concat())
}

/// `http://HOST:PORT/mcp/ROLE?as=ID`: the path is ours on this machine, the `as` anywhere.
fn in_url(url: &str) -> Option<Ours> {
    let (_, rest) = url.split_once("://")?;
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = address.split_once('/')?;
    let role = path.strip_prefix("mcp/").or_else(|| path.strip_prefix("sse/"))?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_here = ["127.0.0.1", "localhost", "[::1]"].contains(&name);
    let instance = query.split('&').find_map(|pair| pair.strip_prefix("as=")).map(str::to_owned);
    let is_one = !role.is_empty() && !role.contains('/');
    (is_one && (is_here || instance.is_some())).then(|| {
        let reached = Reached::Url(url.to_owned());
        Ours { role: role.to_owned(), instance, reached }
    })
}

/// `…/tasuki mcp --role ROLE …`, the program under any name when it says `--as ID` too.
fn in_command(words: &[String]) -> Option<Ours> {
    let (program, arguments) = words.split_first()?;
    let file = program.rsplit(['/', '\\']).next()?;
    let is_program = file == "tasuki" || file.eq_ignore_ascii_case("tasuki.exe");
    let instance = arguments.iter().skip_while(|word| *word != "--as").nth(1).cloned();
    let mut arguments = arguments.iter();
    if !(is_program || instance.is_some()) || !arguments.any(|word| word == "mcp") {
        return None;
    }
    arguments.find(|word| *word == "--role")?;
    let reached = Reached::Command(words.to_vec());
    Some(Ours { role: arguments.next()?.clone(), instance, reached })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(entry: &Json) -> Option<String> {
        ours(entry).map(|ours| ours.role)
    }

    #[test]
    fn our_entries_are_known_in_every_form() {
        let url = "http://127.0.0.1:7421/mcp/A?as=codex-1a2b3c&hold=1500";
        for entry in [
            json!({"url": url}),
            json!({"type": "http", "url": url, "timeout": 1}),
            json!({"httpUrl": "http://localhost:1/mcp/A"}),
            json!({"url": "http://[::1]:7421/sse/A"}),
            json!({"url": "https://box.example/mcp/A?hold=1&as=x"}),
            json!({"transport": {"type": "streamableHttp", "url": url}}),
            json!({"command": "/usr/bin/tasuki", "args": ["mcp", "--role", "A"]}),
            json!({"command": ["C:\\bin\\Tasuki.exe", "--data", "d", "mcp", "--role", "A"]}),
            json!({"transport": {"command": "tasuki", "args": ["mcp", "--role", "A"]}}),
            json!({"command": "/b/tasuki-0.1", "args": ["mcp", "--role", "A", "--as", "x"]}),
        ] {
            assert_eq!(role(&entry).as_deref(), Some("A"), "{entry}");
        }
    }

    #[test]
    fn an_entry_says_which_agent_its_client_is() {
        for (entry, instance) in [
            (json!({"url": "http://127.0.0.1:7421/mcp/A?hold=1&as=codex-1a2b3c"}), "codex-1a2b3c"),
            (json!({"command": "tasuki", "args": ["mcp", "--role", "A", "--as", "x"]}), "x"),
            (json!({"url": "http://127.0.0.1:7421/mcp/A?hold=1"}), ""),
            (json!({"command": "tasuki", "args": ["mcp", "--role", "A"]}), ""),
        ] {
            let ours = ours(&entry).unwrap().instance;
            assert_eq!(ours.unwrap_or_default(), instance, "{entry}");
        }
    }

    #[test]
    fn an_entry_says_how_long_its_waits_are_held() {
        for (entry, secs) in [
            (json!({"url": "http://127.0.0.1:7421/mcp/A?as=x&hold=1500"}), Some(1500)),
            (json!({"url": "http://127.0.0.1:7421/mcp/A"}), None),
            (json!({"url": "http://127.0.0.1:7421/mcp/A?hold=x"}), None),
            (
                json!({"command": "tasuki", "args": ["mcp", "--role", "A", "--hold", "45"]}),
                Some(45),
            ),
            (json!({"command": "tasuki", "args": ["mcp", "--role", "A", "--hold"]}), None),
        ] {
            assert_eq!(ours(&entry).unwrap().reached.hold_secs(), secs, "{entry}");
        }
    }

    #[test]
    fn entries_of_others_are_not_ours() {
        for entry in [
            json!({}),
            json!("http://127.0.0.1:7421/mcp/A"),
            json!({"url": "http://127.0.0.1:7421/mcp"}),
            json!({"url": "http://127.0.0.1:7421/mcp/"}),
            json!({"url": "http://127.0.0.1:7421/mcp/A/B"}),
            json!({"url": "http://127.0.0.1:7421/api/A?as=x"}),
            json!({"url": "https://box.example/mcp/A"}),
            json!({"url": 7}),
            json!({"command": "npx", "args": ["tasuki", "mcp", "--role", "A"]}),
            json!({"command": "tasuki", "args": ["status"]}),
            json!({"command": "tasuki", "args": ["mcp"]}),
            json!({"command": "nottasuki", "args": ["mcp", "--role", "A"]}),
        ] {
            assert_eq!(role(&entry), None, "{entry}");
        }
    }
}
