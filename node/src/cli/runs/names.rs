//! What people call runs on a command line.
//!
//! An id is as the broker gives it. A run may be named by the last part of its id alone, and the
//! newest one by `latest`.

use std::str::FromStr;

use tasuki_proto::{reason::Reason, run::RunId, wire};

use super::{Failure, pages};
use crate::cli::broker::Broker;

/// Runs among which the last part of an id is looked for, the newest first: ten pages.
const LOOKED_AT_MAX: u64 = 2000;

/// Characters of the last part of an id.
const SHORT_CHARS_MIN: usize = 4;
const SHORT_CHARS_MAX: usize = 8;

/// What names the newest run.
const LATEST: &str = "latest";

/// How runs are called, for `--help`.
pub(super) const HELP: &str = "\
A run is named by its id, by the last part of it, or by `latest`: run_1700000000000_00af, 00af.";

/// A run as it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum RunName {
    Whole(RunId),
    /// The last part of its id.
    Short(String),
    Latest,
}

impl FromStr for RunName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == LATEST {
            return Ok(Self::Latest);
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Whole(id));
        }
        let is_hex = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        if (SHORT_CHARS_MIN..=SHORT_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_hex) {
            return Ok(Self::Short(text.to_owned()));
        }
        Err("a run is like run_1700000000000_00af, or the last part of that: 00af; `latest` is the \
             newest"
            .to_owned())
    }
}

impl RunName {
    /// The id that is meant.
    pub(in crate::cli) async fn find(&self, broker: &Broker) -> Result<String, Failure> {
        let (short, most) = match self {
            Self::Whole(id) => return Ok(id.to_string()),
            Self::Short(short) => (Some(short.as_str()), LOOKED_AT_MAX),
            Self::Latest => (None, 1),
        };
        let (mut found, mut looked_at): (Vec<String>, u64) = (Vec::new(), 0);
        pages::each(broker, wire::ListRunsRequest::default(), most, |run, _| {
            looked_at += 1;
            if short.is_none_or(|short| run.run_id.rsplit('_').next() == Some(short)) {
                found.push(run.run_id.clone());
            }
            Ok(())
        })
        .await?;
        let unknown = |why: String| Err(Failure::reason(Reason::UnknownRun, why));
        match (found.as_slice(), short) {
            ([one], _) => Ok(one.clone()),
            ([], None) => {
                unknown("There is no run; `tasuki run AGENT TASK` starts one.".to_owned())
            }
            ([], Some(short)) => unknown(format!(
                "None of the {looked_at} newest runs has an id that ends with _{short}; `tasuki \
                 runs list` shows them. Nothing changed."
            )),
            (several, _) => unknown(format!(
                "Several runs are meant: {}. Give the whole id; nothing changed.",
                several.join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_known_by_how_they_are_called() {
        let called = |text: &str| match text.parse::<RunName>() {
            Ok(RunName::Whole(id)) => id.to_string(),
            Ok(RunName::Short(short)) => format!("…{short}"),
            Ok(RunName::Latest) => "the newest".to_owned(),
            Err(why) => format!("no: {why}"),
        };
        for (text, expected) in [
            ("run_1700000000000_00af", "run_1700000000000_00af"),
            ("00af", "…00af"),
            ("latest", "the newest"),
        ] {
            assert_eq!(called(text), expected, "{text}");
        }
        for text in ["", "af", "00ag", "run_1", "issue_1700000000000_00af", "123456789", "00af/1"] {
            assert!(called(text).starts_with("no: "), "{text}: {}", called(text));
        }
    }
}
