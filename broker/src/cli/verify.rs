//! `tasuki-broker verify` and `repair-mark`: a data directory nobody serves, looked through.

use std::path::Path;

use serde_json::json;
use tasuki_broker::journal::{
    JournalError,
    sled::{self, Report},
};

use super::{Data, EXIT_OK, exit_code, say, used_directory};

pub(super) fn verify(data: &Data) -> u8 {
    check(data, sled::verify)
}

pub(super) fn repair_mark(data: &Data) -> u8 {
    check(data, sled::repair_mark)
}

fn check(data: &Data, how: impl FnOnce(&Path) -> Result<Report, JournalError>) -> u8 {
    let directory = match used_directory(data) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    match how(&directory) {
        Ok(report) => {
            say(&if data.json { in_json(&report).to_string() } else { in_words(&report) });
            EXIT_OK
        }
        Err(error) => {
            if data.json {
                say(&json!({ "error": error.to_string() }).to_string());
            }
            tracing::error!("{error}");
            exit_code(&error)
        }
    }
}

fn in_json(report: &Report) -> serde_json::Value {
    let workspaces = report.workspaces.iter().map(|(id, it)| {
        let facts = json!({
            "records": it.records, "last": it.last, "snapshot": it.snapshot,
            "bodies": it.bodies, "bytes": it.bytes, "digest": hex(&it.digest),
        });
        (id.to_string(), facts)
    });
    json!({
        "incarnation": hex(&report.incarnation),
        "first_commit": report.first_commit,
        "last_commit": report.last_commit,
        "workspaces": workspaces.collect::<serde_json::Map<_, _>>(),
    })
}

fn in_words(report: &Report) -> String {
    let mut text = format!(
        "whole: commits {} to {}, {} records and {} bodies in {} workspaces",
        report.first_commit,
        report.last_commit,
        report.records(),
        report.bodies(),
        report.workspaces.len()
    );
    for (id, it) in &report.workspaces {
        text += &format!(
            "\n  {id}: {} records up to {}, snapshot at {}, {} bodies, digest {}",
            it.records,
            it.last,
            it.snapshot,
            it.bodies,
            &hex(&it.digest)[..16]
        );
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
