//! An agent that ends its turn at once, and looks into its inbox whenever it is spoken to.

use serde_json::{Value, json};

use super::{Call, Move, Part, Said, WAITING};

/// The role that the model plays.
pub const ROLE: &str = "B";

const RESOLVE: &str = "filebox_resolve_message";

/// What it says once it has put a letter away.
pub const RESOLVED: &str = "The letter is put away.";

#[derive(Debug)]
pub struct Idle;

impl Part for Idle {
    fn begin(&self) -> Call {
        Call::new("filebox_list_messages", json!({ "box_type": "inbox" }))
    }

    fn next(&self, said: &Said<'_>) -> Option<Move> {
        if said.to.is_some_and(|it| it.is_of(RESOLVE)) || said.text.contains("Message resolved") {
            return Some(Move::Say(RESOLVED));
        }
        // Some clients show a model the text alone, which is a list of file names.
        if let Some(message) = said.facts.text("message_id").or_else(|| file_name(said.text)) {
            return Some(Move::Call(Call::new(RESOLVE, json!({ "filename": message }))));
        }
        let is_list = said.to.is_some_and(|it| it.is_of(&self.begin().tool));
        (is_list || said.facts.get("total").is_some()).then_some(Move::Say(WAITING))
    }
}

/// The first of a list of file names.
fn file_name(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("[\"").or_else(|| text.split_once("[\\\""))?;
    let end = rest.find(['"', '\\'])?;
    Some(&rest[..end]).filter(|it| it.ends_with(".md"))
}

/// The letter that A sends.
pub fn letter(reference: &str) -> Value {
    json!({
        "receiver_id": ROLE, "title": "Something to do", "content": "Put this away.",
        "client_ref": reference,
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Heard,
            tests::{check, result},
        },
        *,
    };

    #[test]
    fn it_puts_letters_away_and_ends_its_turn() {
        let of = |text: &str, call: Call| Heard::Result(text.to_owned(), Some(call));
        let put = |name: &str| Move::Call(Call::new(RESOLVE, json!({ "filename": name })));
        let empty = json!({ "box": "inbox", "total": 0, "messages": [] }).to_string();
        let full = json!({ "total": 1, "messages": [{ "message_id": "20261125-1" }] }).to_string();
        check(&Idle, &Heard::Prompt, &Move::Call(Idle.begin()));
        check(&Idle, &of("[]", Idle.begin()), &Move::Say(WAITING));
        check(&Idle, &result(&empty), &Move::Say(WAITING));
        check(&Idle, &result(&full), &put("20261125-1"));
        check(&Idle, &of("[\"20261125_BR_a.md\"]", Idle.begin()), &put("20261125_BR_a.md"));
        let resolve = Call::new(RESOLVE, json!({}));
        check(&Idle, &of("Message resolved", resolve), &Move::Say(RESOLVED));
    }
}
