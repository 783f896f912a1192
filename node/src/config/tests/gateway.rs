//! `[[gateway.server]]` and `[[role.NAME.export]]`: what they say, and what is wrong in them.

use std::fs;

use rmcp::model::ProtocolVersion;

use super::{
    super::{Config, FILE, Source},
    Layer, around,
};
use crate::gateway::settings::{CALL_TIMEOUT, GatewaySettings, ServerTransport};

/// A file as its gateway, or what is wrong with each line of it.
fn load(content: &str) -> Result<GatewaySettings, Vec<String>> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    fs::write(&path, content).unwrap();
    let config = Config::load(Layer::new(), Some(&path), &around(place.path(), &[]));
    config.map(|config| config.gateway.unwrap().value).map_err(|found| {
        let line = |at: &Source| match at {
            Source::File { line, .. } => *line,
            Source::Default | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
                panic!("{at}")
            }
        };
        found.iter().map(|it| format!("{}: {}", line(&it.at), it.message)).collect()
    })
}

#[test]
fn servers_and_exports_are_read_with_their_defaults() {
    let text = "[[gateway.server]]\nname = \"files\"\ncommand = [\"npx\", \"x\"]\n\
                [[gateway.server]]\nname = \"tracker\"\nurl = \"https://tracker.example.com/mcp\"\n\
                protocol = \"2025-11-25\"\ntimeouts = { build = 600 }\n\
                [[role.qa.export]]\ntools = [\"files__*\"]\n\
                [[role.qa.export]]\ntools = [\"tracker__get\"]\ncallers = [\"dev*\"]\nrecord = true\n";
    let settings = load(text).unwrap();
    let [files, tracker] = &settings.servers[..] else { panic!("{settings:?}") };
    assert!(matches!(&files.transport, ServerTransport::Stdio { words, .. } if words.len() == 2));
    assert_eq!((&files.protocol, files.timeout), (&None, CALL_TIMEOUT));
    assert_eq!(tracker.protocol, Some(ProtocolVersion::V_2025_11_25));
    assert_eq!(tracker.timeout_of("build").as_secs(), 600);
    let [all, one] = &settings.exports[..] else { panic!("{settings:?}") };
    assert!(all.callers.is_empty() && !all.record);
    assert_eq!((&one.callers[..], one.record), (&["dev*".to_owned()][..], true));
}

#[test]
fn what_is_wrong_with_a_server_or_an_export_is_said_with_its_line() {
    let server = |more: &str| format!("[[gateway.server]]\nname = \"files\"\n{more}\n");
    let command = server("command = [\"x\"]");
    let similar = |name: &str| {
        let other = format!("[[gateway.server]]\nname = \"{name}\"\ncommand = [\"y\"]\n");
        let named = "[[gateway.server]]\nname = \"my-files\"\ncommand = [\"x\"]\n";
        load(&format!("{named}{other}"))
    };
    for name in ["my_files", "My-Files", "my-files"] {
        let why = &similar(name).unwrap_err()[0];
        assert!(why.contains(&format!("the names my-files and {name} are too similar")), "{why}");
    }
    similar("myfiles").unwrap();
    for (text, why) in [
        (
            server("command = [\"x\"]\nprotocol = \"1\""),
            "4: `gateway.server` has `protocol`, which is",
        ),
        (
            server("command = [\"x\"]\nprotocol = 1"),
            "4: `gateway.server` has `protocol`, which takes",
        ),
        (server("command = [\"x\"]\nprotokol = \"1\""), "4: `gateway.server` has no setting"),
        (server("url = \"http://far.example.com/mcp\""), "3: `gateway.server` has `url`, which"),
        (server(""), "`gateway.server` files lacks `command` or `url`"),
        (
            format!("{command}[[role.qa.export]]\nrecord = 1\n"),
            "5: `role.NAME.export` has `record`",
        ),
        (format!("{command}[[role.qa.export]]\nrecord = true\n"), "lacks `tools`"),
    ] {
        let found = load(&text).unwrap_err();
        assert!(found[0].contains(why), "{text}: {found:?}");
    }
}
