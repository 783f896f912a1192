//! What a person does with mail, as the role of people.

use std::sync::Arc;

use axum::{Router, response::Response, routing::post};
use maud::{Markup, html};
use tasuki_proto::{mail::MessageType, token::Right, wire};

use super::super::{
    super::{
        App, HUMAN,
        form::{Act, Form, button, choice, dialog, hidden_field, line_field, text_field},
        visit::{Trouble, Visit},
    },
    done,
};
use crate::overview::Calls as _;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/w/{workspace}/mail/send", post(send))
        .route("/w/{workspace}/mail/seen", post(mark_seen))
        .route("/w/{workspace}/mail/move", post(move_thread))
        .route("/w/{workspace}/mail/again", post(hand_again))
}

pub(super) fn compose(visit: &Visit, mailboxes: &[wire::MailboxState]) -> Markup {
    if !visit.may_act(Right::Send) {
        return html! {};
    }
    let roles: Vec<&str> = mailboxes.iter().map(|it| it.role.as_str()).collect();
    let fields = html! {
        p.note { "From " code { (HUMAN) } ": you." }
        label { span { "To" }
            input type="text" name="to" required list="mail-roles" placeholder=(roles.join(", ")) autocomplete="off";
        }
        datalist id="mail-roles" { @for role in &roles { option value=(role) {} } }
        (line_field("subject", "Subject", "", true))
        (text_field("text", "Text (Markdown)", true))
        (types("INFO"))
    };
    dialog(visit, "compose", "Write a message", "/mail/send", &fields)
}

fn types(chosen: &str) -> Markup {
    html! {
        (choice("type", "Type", MessageType::ALL.iter().map(|it| it.as_str()), chosen))
        p.note { "BR: bug report, ACK: acknowledgement, ER: enhancement request, DIS: discussion. URGENT may reach an agent between two tool calls." }
    }
}

pub(super) fn of_thread(visit: &Visit, role: &str, thread: &wire::MailThread) -> Markup {
    let name = || hidden_field("thread", &thread.message_id);
    let shown = || {
        html! { (name()) (hidden_field("through", &thread.entries.to_string())) }
    };
    let takes_part = thread.participants.iter().any(|it| it == HUMAN);
    let in_inbox = thread.r#box() == wire::Box::Inbox;
    html! {
        div.actions id={ "actions-" (thread.message_id) } {
            @if takes_part && visit.may_act(Right::Send) {
                @let fields = html! {
                    (name())
                    (line_field("to", "To", &others(thread), true))
                    (text_field("text", "Text (Markdown)", true))
                    (types("INFO"))
                };
                (dialog(visit, &format!("reply-{}", thread.message_id), "Reply", "/mail/send", &fields))
                @if role == HUMAN && in_inbox {
                    (button(visit, "Resolve", "/mail/move", &html! { (shown()) (hidden_field("to", "done")) }))
                    (button(visit, "Reject", "/mail/move", &html! { (shown()) (hidden_field("to", "cancel")) }))
                    @if thread.unseen != 0 {
                        (button(visit, "Mark as seen", "/mail/seen", &shown()))
                    }
                }
            } @else if !takes_part {
                p.note { "Only its participants can answer in this thread, and you (" code { (HUMAN) } ") are none. Write to a role instead." }
            }
            @if thread.is_dead && visit.may(Right::Send) {
                (button(visit, "Hand it again", "/mail/again", &html! { (name()) (hidden_field("role", role)) }))
            }
        }
    }
}

/// Whom an answer goes to: everybody but oneself.
fn others(thread: &wire::MailThread) -> String {
    let others = thread.participants.iter().filter(|it| *it != HUMAN);
    others.cloned().collect::<Vec<_>>().join(", ")
}

async fn send(Act { visit, form }: Act) -> Result<Response, Trouble> {
    // A mailbox is there before the first letter; opening one that is open does nothing.
    let open = wire::OpenMailboxRequest { role: HUMAN.to_owned(), ..Default::default() };
    visit.command_after(&form, "mailbox", open).await?;
    let thread = form.text("thread");
    let request = wire::SendRequest {
        role: HUMAN.to_owned(),
        to: form.names("to"),
        r#type: form.text("type"),
        subject: if thread.is_empty() { form.text("subject") } else { String::new() },
        text: form.text("text"),
        in_reply_to: thread,
        // The same form is the same letter, after a restart of the broker, too.
        client_ref: format!("web/{}", form.key()),
        ..Default::default()
    };
    let sent = visit.command(&form, request).await?;
    let kind = if sent.r#box() == wire::Box::Inbox { "inbox" } else { "outbox" };
    Ok(done(&visit, &format!("/mail?role={HUMAN}&box={kind}&thread={}", sent.message_id)))
}

async fn mark_seen(Act { visit, form }: Act) -> Result<Response, Trouble> {
    mark(&visit, &form).await?;
    Ok(back(&visit, &form))
}

/// Says that the person saw what was on the page.
async fn mark(visit: &Visit, form: &Form) -> Result<(), Trouble> {
    let mut request = wire::MarkMailRequest {
        role: HUMAN.to_owned(),
        message_id: form.text("thread"),
        through: form.number("through")?,
        ..Default::default()
    };
    request.set_mark(wire::MailMark::Seen);
    visit.call(&request).await?;
    Ok(())
}

async fn move_thread(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let to = if form.text("to") == "cancel" { wire::Box::Cancel } else { wire::Box::Done };
    let thread = form.text("thread");
    // Whoever resolves a thread has seen what was shown; what came in since keeps it open.
    mark(&visit, &form).await?;
    let mut request =
        wire::MoveRequest { role: HUMAN.to_owned(), messages: vec![thread], ..Default::default() };
    request.set_to(to);
    let moved = visit.command(&form, request).await?.moved;
    if let Some(refusal) = moved.into_iter().find_map(|it| it.refusal) {
        return Err(Trouble::Invalid(super::super::super::view::sentence(&refusal.message)));
    }
    Ok(back(&visit, &form))
}

async fn hand_again(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let request = wire::HandAgainRequest {
        role: form.text("role"),
        message: form.text("thread"),
        ..Default::default()
    };
    let role = request.role.clone();
    visit.command(&form, request).await?;
    Ok(done(&visit, &format!("/mail?role={role}")))
}

fn back(visit: &Visit, form: &Form) -> Response {
    done(visit, &format!("/mail?role={HUMAN}&thread={}", form.text("thread")))
}
