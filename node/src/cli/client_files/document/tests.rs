//! What stays when something is put into a file, and when it is taken out again.

use super::*;

fn keys(dotted: &str) -> Vec<String> {
    dotted.split('.').map(str::to_owned).collect()
}

fn server() -> Value {
    let url = ("url".to_owned(), Value::text("http://h/mcp/A"));
    let args = ("args".to_owned(), Value::texts(&["a".into(), "b".into()]));
    Value::Table(vec![url, ("timeout".to_owned(), Value::Number(600)), args])
}

fn put(format: Format, at: &str, before: &str) -> Result<String, EditError> {
    let mut document = Document::parse(format, before)?;
    document.set(&keys(at), &server())?;
    Ok(document.text())
}

fn check(format: Format, at: &str, before: &str, after: &str) {
    let put = put(format, at, before);
    assert_eq!(put.as_deref(), Ok(after), "{}", put.as_deref().unwrap_or_default());
    let again = Document::parse(format, after).unwrap();
    assert_eq!(again.get(&keys(at)), Ok(Some(server().to_json())));
    assert_eq!(again.text(), after);
}

fn refuse(format: Format, at: &str, before: &str, why: &str) {
    let put = put(format, at, before).expect_err(before);
    assert_eq!(put.to_string(), why, "{before}");
}

#[test]
fn json_begins_with_nothing() {
    let after = r#"{
  "servers": {
    "t": {
      "url": "http://h/mcp/A",
      "timeout": 600,
      "args": ["a", "b"]
    }
  }
}
"#;
    check(Format::Json, "servers.t", "", after);
    check(Format::Json, "servers.t", "{}\n", after);
}

#[test]
fn json_keeps_comments_order_indentation_and_commas() {
    check(
        Format::Json,
        "servers.t",
        r#"// mine
{
    /* first */ "z": 1.50,   // odd spacing
    "servers": {
        "b": { "command": "x" }, // last
        // after the last
    },
    "a": [1,2 , 3],
}"#,
        r#"// mine
{
    /* first */ "z": 1.50,   // odd spacing
    "servers": {
        "b": { "command": "x" }, // last
        "t": {
            "url": "http://h/mcp/A",
            "timeout": 600,
            "args": ["a", "b"],
        },
        // after the last
    },
    "a": [1,2 , 3],
}"#,
    );
}

#[test]
fn json_keeps_tabs_line_ends_and_the_mark() {
    check(
        Format::Json,
        "servers.t",
        "\u{feff}{\r\n\t\"servers\": {\r\n\t\t\"b\": {}\r\n\t}\r\n}\r\n",
        "\u{feff}{\r\n\t\"servers\": {\r\n\t\t\"b\": {},\r\n\t\t\"t\": {\r\n\t\t\t\"url\": \
         \"http://h/mcp/A\",\r\n\t\t\t\"timeout\": 600,\r\n\t\t\t\"args\": [\"a\", \
         \"b\"]\r\n\t\t}\r\n\t}\r\n}\r\n",
    );
}

#[test]
fn json_is_refused_where_a_client_would_refuse_it_or_it_is_not_clear() {
    for (before, why) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 2: Expected comma"),
        ("{\n\n\"servers\": {\n", "line 3: Unterminated object"),
        ("{'a': 1}", "line 1: Single-quoted strings are not allowed"),
        ("{a: 1}", "line 1: Expected string for object property"),
        ("[1]", "the top level is not a table"),
        ("{\"servers\": []}", "`servers` is not a table"),
        ("{\"servers\": {}, \"servers\": {}}", "`servers` appears twice"),
        ("{\"servers\": {\"t\": {}, \"t\": {}}}", "`servers.t` appears twice"),
    ] {
        refuse(Format::Json, "servers.t", before, why);
    }
}

#[test]
fn a_list_in_json_takes_an_item_and_gives_it_back() {
    let before = "{\n  \"p\": { \"allow\": [\"x\", /* two */ \"y\"] }\n}\n";
    let mut document = Document::parse(Format::Json, before).unwrap();
    let at = keys("p.allow");
    let item = Value::text("t");
    assert_eq!(document.insert(&at, 2, &item), Ok(vec![]));
    assert_eq!(document.text(), before.replace("\"y\"", "\"y\", \"t\""));
    assert_eq!(document.list(&at).unwrap(), ["x", "y", "t"]);
    document.remove(&keys("p.allow.2")).unwrap();
    assert_eq!(document.text(), before);
    let why = document.insert(&keys("p.allow.more"), 0, &item).unwrap_err().to_string();
    assert_eq!(why, "`p.allow` is not a table");
    let why = document.insert(&keys("p"), 0, &item).unwrap_err().to_string();
    assert_eq!(why, "`p` is not a list");
}

#[test]
fn tables_made_on_the_way_are_returned() {
    for (format, before) in [(Format::Json, "{\"a\": {}}"), (Format::Toml, "[a]\n")] {
        let mut document = Document::parse(format, before).unwrap();
        let made = document.set(&keys("a.b.c.d"), &Value::Yes);
        assert_eq!(made, Ok(vec![keys("a.b"), keys("a.b.c")]));
        document.remove(&keys("a.b.c.d")).unwrap();
        assert!(document.is_empty(&keys("a.b.c")), "{}", document.text());
        assert!(!document.is_empty(&keys("a.b")) && !document.is_empty(&keys("a.x")));
    }
}

#[test]
fn toml_begins_with_nothing() {
    let after = r#"[mcp_servers.t]
url = "http://h/mcp/A"
timeout = 600
args = ["a", "b"]
"#;
    check(Format::Toml, "mcp_servers.t", "", after);
}

#[test]
fn toml_keeps_comments_order_and_spacing() {
    let before = r#"# mine
model = "x"   # why
[mcp_servers.b]   # another
  command = 'y'

[tui]
theme = "dark"
"#;
    let after = r#"# mine
model = "x"   # why
[mcp_servers.b]   # another
  command = 'y'

[mcp_servers.t]
url = "http://h/mcp/A"
timeout = 600
args = ["a", "b"]

[tui]
theme = "dark"
"#;
    check(Format::Toml, "mcp_servers.t", before, after);
    let mut document = Document::parse(Format::Toml, after).unwrap();
    document.remove(&keys("mcp_servers.t")).unwrap();
    assert_eq!(document.text(), before);
}

#[test]
fn toml_goes_on_as_it_was_begun() {
    check(
        Format::Toml,
        "mcp_servers.t",
        "a = 1",
        "a = 1\n\n[mcp_servers.t]\nurl = \"http://h/mcp/A\"\ntimeout = 600\nargs = [\"a\", \
         \"b\"]\n",
    );
    check(
        Format::Toml,
        "mcp_servers.t",
        "mcp_servers = { b = { command = \"y\" } }\n",
        "mcp_servers = { b = { command = \"y\" } , t = { url = \"http://h/mcp/A\", timeout = 600, \
         args = [\"a\", \"b\"] } }\n",
    );
    check(
        Format::Toml,
        "mcp_servers.t",
        "a = 1\r\n# two\r\n",
        "a = 1\r\n# two\r\n\r\n[mcp_servers.t]\r\nurl = \"http://h/mcp/A\"\r\ntimeout = \
         600\r\nargs = [\"a\", \"b\"]\r\n",
    );
}

#[test]
fn toml_keeps_each_line_end_of_what_others_wrote() {
    for before in [
        "a = 1\r\nb = 2\nc = 3\r\n",
        "a = 1\nb = 2\r\n",
        "a = 1\r\nb = \"\"\"\ntwo\n\"\"\"\r\n",
        "a = 1\r\nb = \"\"\"\ntwo\n\"\"\"\r\n[mcp_servers.b]\r\nc = 1\n\r\n[z]\nd = 1\r\ne = 1\n",
    ] {
        let mut document = Document::parse(Format::Toml, before).unwrap();
        document.set(&keys("mcp_servers.t"), &server()).unwrap();
        let with = document.text();
        let end = if before.starts_with("a = 1\r") { "\r\n" } else { "\n" };
        let section =
            "[mcp_servers.t]~url = \"http://h/mcp/A\"~timeout = 600~args = [\"a\", \"b\"]~";
        let (above, below) = with.split_once(&section.replace('~', end)).unwrap();
        let rest = format!("{}{below}", above.strip_suffix(end).unwrap());
        assert_eq!(rest, before);
        let mut document = Document::parse(Format::Toml, &with).unwrap();
        document.remove(&keys("mcp_servers.t")).unwrap();
        assert_eq!(document.text(), before);
    }
}

#[test]
fn comments_at_the_end_of_toml_stay_where_they_are() {
    let before = "a = 1\n\n# [off]\n# b = 2\n";
    let mut document = Document::parse(Format::Toml, before).unwrap();
    document.set(&keys("mcp_servers.t"), &server()).unwrap();
    let text = document.text();
    assert!(text.starts_with(&format!("{before}\n[mcp_servers.t]\n")), "{text}");
    let mut document = Document::parse(Format::Toml, &text).unwrap();
    document.remove(&keys("mcp_servers.t")).unwrap();
    assert_eq!(document.text(), before);
}

#[test]
fn toml_is_refused_where_a_client_would_refuse_it() {
    for (before, why) in [
        ("a = 1\nb = \n", "line 2: string values must be quoted, expected literal string"),
        ("a = 1\na = 2\n", "line 2: duplicate key"),
        ("mcp_servers = 3\n", "`mcp_servers` is not a table"),
        ("[[mcp_servers]]\n", "`mcp_servers` is not a table"),
    ] {
        refuse(Format::Toml, "mcp_servers.t", before, why);
    }
}

#[test]
fn one_value_of_toml_changes_and_its_comment_stays() {
    let before = "[s.t]\nurl = \"old\" # here\ntimeout = 1\n";
    let mut document = Document::parse(Format::Toml, before).unwrap();
    document.set(&keys("s.t.url"), &Value::text("new")).unwrap();
    assert_eq!(document.text(), before.replace("old", "new"));
}
