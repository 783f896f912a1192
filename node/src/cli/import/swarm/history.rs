//! An issue's log as a document of it, which also tells of which reading the issue was made.

use prost::Message as _;
use tasuki_proto::{
    counted::{agreeing, counted},
    limits::DOC_BYTES_MAX,
    wire,
};

/// What the document is called, unless the issue has one of this name.
const NAME: &str = "history";

/// The document that is written with an issue.
#[derive(Debug)]
pub(super) struct History {
    pub name: String,
    /// The first line of it, which is another as soon as anything else was read.
    pub head: String,
}

impl History {
    /// Adds the document to the issue: the newest events that fit. Returns how many do not.
    pub(super) fn add(request: &mut wire::ImportIssueRequest, events: &[String]) -> (Self, usize) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&request.encode_to_vec());
        for event in events {
            hasher.update(event.as_bytes()).update(b"\n");
        }
        let head = format!("Swarm MCP, as it was read: BLAKE3 {}", hasher.finalize().to_hex());
        let is_taken = |name: &String| {
            let of_issue =
                |it: &&wire::Doc| it.place.as_ref().is_none_or(|it| it.task_id.is_empty());
            request.docs.iter().filter(of_issue).any(|it| it.name == *name)
        };
        let others = (2..).map(|number: usize| format!("{NAME}-{number}"));
        let mut names = std::iter::once(NAME.to_owned()).chain(others);
        let name = names.find(|it| !is_taken(it)).unwrap_or_default();
        // What is said of those that are left out fits as well.
        let mut bytes = head.len() + 100;
        let fits = |it: &&String| {
            bytes += it.len() + 1;
            bytes <= DOC_BYTES_MAX
        };
        let older = events.len() - events.iter().rev().take_while(fits).count();
        let mut content = format!("{head}\n");
        if older != 0 {
            let (events, stay) = (counted(older, "older event"), agreeing(older, "stays", "stay"));
            content += &format!("{events} {stay} with Swarm MCP.\n");
        }
        for event in &events[older..] {
            content += event;
            content.push('\n');
        }
        request.docs.push(wire::Doc { name: name.clone(), content, ..Default::default() });
        (Self { name, head }, older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(events: &[String], doc: &str) -> (History, usize, String) {
        let own = wire::Doc { name: doc.to_owned(), ..Default::default() };
        let mut request = wire::ImportIssueRequest { docs: vec![own], ..Default::default() };
        let (history, older) = History::add(&mut request, events);
        (history, older, request.docs.pop().unwrap().content)
    }

    #[test]
    fn the_newest_events_are_kept_and_the_first_line_tells_the_reading() {
        let events: Vec<String> = (0..4000).map(|it| format!("{it:0100}")).collect();
        let (all, older, content) = history(&events, "plan");
        assert!(content.len() <= DOC_BYTES_MAX && DOC_BYTES_MAX - 300 < content.len());
        let lines: Vec<&str> = content.lines().collect();
        assert_eq!((lines[0], lines.last()), (all.head.as_str(), Some(&events[3999].as_str())));
        assert_eq!(lines[1], format!("{older} older events stay with Swarm MCP."));
        assert_eq!((lines[2], lines.len()), (events[older].as_str(), 4000 - older + 2));
        assert_eq!(history(&events, "plan").0.head, all.head, "the same again");
        // Also what is left out is a part of what was read.
        assert_ne!(history(&events[1..], "plan").0.head, all.head);
        let (other, older, content) = history(&events[..2], "history");
        assert_eq!((other.name.as_str(), all.name.as_str(), older), ("history-2", "history", 0));
        assert_ne!(history(&events[..2], "plan").0.head, other.head);
        assert_eq!(content, format!("{}\n{}\n{}\n", other.head, events[0], events[1]));
    }
}
