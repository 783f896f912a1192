//! What agents say, as they say it.

use super::*;

/// The files of an edit, or what is odd about it.
fn check(said: &str, expected: &str) {
    let found = match read(said.as_bytes()) {
        Ok(edit) => {
            let directory = edit.directory.map(|it| format!("{}: ", it.display()));
            let files: Vec<_> = edit.files.iter().map(|it| it.display().to_string()).collect();
            directory.unwrap_or_default() + &files.join(" | ")
        }
        Err(why) => format!("no: {why}"),
    };
    assert_eq!(found, expected, "{said}");
}

#[test]
fn the_files_of_an_edit_are_found() {
    check(
        r#"{"session_id":"s","transcript_path":"/t","cwd":"/w","permission_mode":"default",
            "hook_event_name":"PreToolUse","tool_name":"Edit","tool_use_id":"u",
            "tool_input":{"file_path":"/w/a b.rs","old_string":"x","new_string":"y"}}"#,
        "/w: /w/a b.rs",
    );
    check(
        r#"{"cwd":"/w","tool_name":"Write","tool_input":{"file_path":"/w/\"q\"\nn","content":""}}"#,
        "/w: /w/\"q\"\nn",
    );
    check(
        r#"{"cwd":"/w","tool_name":"MultiEdit","tool_input":{"file_path":"/w/a","edits":[{"old_string":"x"}]}}"#,
        "/w: /w/a",
    );
    check(
        r#"{"cwd":"/w","tool_name":"NotebookEdit","tool_input":{"notebook_path":"/w/n.ipynb"}}"#,
        "/w: /w/n.ipynb",
    );
    check(
        r#"{"conversation_id":"c","generation_id":"g","hook_event_name":"preToolUse",
            "cursor_version":"2.4","workspace_roots":["/w","/v"],"tool_name":"Write",
            "tool_input":{"file_path":"/w/a.ts","content":"x"},"tool_use_id":"u"}"#,
        "/w: /w/a.ts",
    );
    check(r#"{"workspace_roots":["/w"],"tool_name":"Delete","tool_input":{"path":"a"}}"#, "/w: a");
    check(r#"{"tool_name":"Write","tool_input":"{\"path\":\"a\"}"}"#, "a");
    let patch = "*** Begin Patch\\n*** Update File: src/a.rs\\n*** Move to: src/b.rs\\n@@\\n-x\\n\
                 +*** Add File: not/this\\n*** Add File: new dir/c\\n+c\\n*** Delete File: d\\r\\n\
                 *** End Patch";
    let expected = "/w: src/a.rs | src/b.rs | new dir/c | d";
    for input in [
        format!(r#"{{"command":"{patch}"}}"#),
        format!(r#"{{"input":"{patch}"}}"#),
        format!(r#"{{"command":["apply_patch","{patch}"]}}"#),
        format!(r#""{patch}""#),
    ] {
        check(
            &format!(r#"{{"cwd":"/w","tool_name":"apply_patch","tool_input":{input}}}"#),
            expected,
        );
    }
}

#[test]
fn what_changes_no_file_is_let_through() {
    for tool in ["Read", "Bash", "Grep", "mcp__x__edit", "Task"] {
        check(
            &format!(r#"{{"cwd":"/w","tool_name":"{tool}","tool_input":{{"file_path":"/w/a"}}}}"#),
            "/w: ",
        );
    }
}

/// Holds RP3.
#[test]
fn input_that_cannot_be_read_is_refused() {
    check("", "no: the agent's input is not JSON: EOF while parsing a value at line 1 column 0");
    check("[]", "no: the agent's input names no tool");
    check(r#"{"tool_name":7}"#, "no: the agent's input names no tool");
    for input in
        ["", r#","tool_input":{}"#, r#","tool_input":{"file_path":""}"#, r#","tool_input":[1]"#]
    {
        check(
            &format!(r#"{{"tool_name":"Edit"{input}}}"#),
            "no: the agent's tool \"Edit\" names no file",
        );
    }
    let many: String = (0..=FILES_MAX).map(|n| format!("*** Add File: {n}\\n")).collect();
    check(
        &format!(r#"{{"tool_name":"apply_patch","tool_input":{{"command":"{many}"}}}}"#),
        "no: the agent's tool \"apply_patch\" names more than 4096 files",
    );
    assert!(read(b"{\"tool_name\":\"\xff\"}").is_err());
}

#[test]
fn each_agent_is_answered_in_its_own_way() {
    let why = "a.rs is locked by \"B\".";
    for (client, allowed, refused) in [
        (Client::Claude, "", ""),
        (Client::Codex, "", ""),
        (
            Client::Cursor,
            "{\"permission\":\"allow\"}\n",
            "{\"agent_message\":\"a.rs is locked by \\\"B\\\".\",\"permission\":\"deny\",\
             \"user_message\":\"a.rs is locked by \\\"B\\\".\"}\n",
        ),
    ] {
        let allowed = Answer { out: allowed.into(), message: String::new(), is_refused: false };
        assert_eq!(allow(client, None), allowed);
        assert_eq!(allow(client, Some("w")), Answer { message: "w".into(), ..allowed });
        let refused = Answer { out: refused.into(), message: why.into(), is_refused: true };
        assert_eq!(refuse(client, why), refused);
        assert_eq!(Client::ALL.iter().filter(|it| it.name() == client.name()).count(), 1);
        for tool in client.matcher().split('|') {
            assert!(TOOLS.contains(&tool), "{tool} is asked about and not known");
        }
    }
}
