//! `Mailbox`: threads, boxes, receipts.
//!
//! `parse` reads what callers say of mail, and `names` finds the threads they name; `render` reads
//! entries from the journal and says what a thread is; `files` are those that are attached;
//! `search` finds.
//!
//! A call asks the workspace as few questions as it can: each is a turn of its one actor.

mod files;
mod names;
mod parse;
mod render;
mod search;

use std::collections::BTreeSet;

use tasuki_proto::{
    id::RoleId,
    limits::{BOX_PAGE, BOX_PAGE_MAX, MOVES_MAX, THREAD_PAGE_MAX},
    mail::{BoxKind, MessageId},
    reason::Reason,
    token::Right,
    wire::{self, mail_event::Kind, park_response::Outcome},
};
use tonic::Status;

use self::names::ThreadName;
pub(super) use self::{
    files::{get as get_file, put as put_file},
    parse::question,
    render::outcome,
};
use super::{
    Answer, Endpoint, Later, LaterRefusal, WorkspaceSession, at_once, default_response,
    parse::{SAME_BYTES, check_count, id, limit, optional},
    render::cause,
    scan::Part,
    status,
};
use crate::{
    access::Grant,
    rules::{
        Command, ReceiptKind, Reply,
        mailbox::{self, Event, MoveOutcome, Moved as MovedThread, ThreadSummary},
    },
    workspace::{Executed, View},
};

impl Endpoint for wire::SendRequest {
    /// Sealed again, it is the same letter, though its bytes are others; so it is when its sender
    /// was started anew and knows less of the letters before it.
    fn intent(&mut self) -> Vec<u8> {
        let earlier = std::mem::take(&mut self.earlier);
        let marked = self.sealed.as_mut().filter(|it| it.same.len() == SAME_BYTES);
        let envelope = marked.map(|it| std::mem::take(&mut it.envelope));
        let bytes = prost::Message::encode_to_vec(self);
        self.earlier = earlier;
        if let (Some(sealed), Some(envelope)) = (&mut self.sealed, envelope) {
            sealed.envelope = envelope;
        }
        bytes
    }

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let answered = match self.in_reply_to.as_str() {
            "" => None,
            name => Some(session.thread_name(&role, "in_reply_to", name).await?),
        };
        // The turn of the command finds which thread it is.
        let mut send = parse::send(self, role, answered.as_ref().map(|_| MessageId::from_bits(0)))?;
        let (to, kind) = (send.to.clone(), send.kind);
        let begun = match &send.target {
            mailbox::ThreadTarget::Begin(subject) => Some(subject.clone()),
            mailbox::ThreadTarget::Answer(_) => None,
        };
        let prepare = move |view: &View<'_>| -> Result<(Command, ()), LaterRefusal> {
            if let Some(name) = answered {
                send.target = mailbox::ThreadTarget::Answer(name.find_one(view, &send.role)?);
            }
            Ok((mailbox::Command::Send(send).into(), ()))
        };
        let render = move |view: &View<'_>, done: Executed, _: Option<()>| {
            let Reply::Mail(mailbox::Reply::Sent { thread, entry, kind: place }) = done.reply
            else {
                unreachable!("mail is sent or refused")
            };
            let receipts: Vec<_> = match done.is_repeat {
                true => view.workspace.mail.receipts(thread, entry, entry).of(entry),
                false => to.into_iter().map(mailbox::EntryReceipts::none).collect(),
            };
            let recorded = done.recorded.filter(|_| !done.is_repeat);
            Ok(move |session: &WorkspaceSession| {
                let (at, file_name) = match (recorded, &begun) {
                    // What was recorded just then need not be read back.
                    (Some(at), Some(subject)) => (at, subject.file_name(at, kind)),
                    (Some(at), None) => (at, session.title(thread)?.file_name),
                    (None, _) => session.stored(thread, entry)?,
                };
                Ok::<_, Status>(wire::SendResponse {
                    message_id: thread.to_string(),
                    entry,
                    file_name,
                    receipts: render::receipts(&receipts, at),
                    repeated: done.is_repeat,
                    sequence: done.sequence.get(),
                    r#box: place.to_wire().into(),
                })
            })
        };
        let reserved = session.reserve_bytes()?;
        session.execute_prepared_within(reserved, prepare, render).await?(session)
    }
}

impl Endpoint for wire::MoveRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let to = parse::target(self.to())?;
        check_count("messages", self.messages.len(), 1..=MOVES_MAX)?;
        let names = session.thread_names(&role, "messages", &self.messages).await?;
        let (mover, wanted) = (role.clone(), names.clone());
        let prepare = move |view: &View<'_>| -> Result<(Command, ()), LaterRefusal> {
            let find = |name: &ThreadName| name.find_one(view, &mover).ok();
            let threads = wanted.iter().map(|it| it.as_ref().ok().and_then(find)).collect();
            Ok((mailbox::Command::Move(mailbox::Move { role: mover, threads, to }).into(), ()))
        };
        let render = move |view: &View<'_>, reply, _: Option<()>| {
            let Reply::Mail(mailbox::Reply::Moved { moved, .. }) = reply else {
                unreachable!("a move tells of each")
            };
            let mut each = Vec::with_capacity(moved.len());
            for ((asked, name), moved) in self.messages.into_iter().zip(names).zip(moved) {
                let found = name.map(|name| name.find(&view.workspace.mail, &role));
                each.push((asked, found, moved));
            }
            Ok::<Later<wire::MoveResponse>, _>(Box::new(move |session| {
                let mut response = wire::MoveResponse::default();
                for (asked, found, moved) in each {
                    response.moved.push(session.moved(&role, asked, found, &moved, to)?);
                }
                Ok(response)
            }))
        };
        session.execute_prepared(prepare, render).await
    }
}

impl Endpoint for wire::ListBoxRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let Some(kind) = BoxKind::of_wire(self.r#box()) else {
            return Err(status::invalid("box", &"is missing; say inbox, outbox, done or cancel"));
        };
        let after = parse::after(&self.after)?;
        let limit = limit(self.limit, BOX_PAGE, BOX_PAGE_MAX);
        let filter = parse::list_filter(&self)?;
        let (mut page, mut behind) = (Vec::new(), after);
        let (total, sequence) = loop {
            let (asker, filter, most) = (role.clone(), filter.clone(), limit + 1 - page.len());
            let seen = session.query(Some(&role), move |view| {
                let mail = &view.workspace.mail;
                let fits = |facts: ThreadSummary| filter.fits(&facts).then_some(facts);
                let found = mail.page(&asker, kind, behind);
                let part = Part::of(found, most, |facts| (facts.place, 1), fits);
                Ok((part, mail.count(&asker, kind) as u64, view.workspace.sequence))
            });
            let (Part { found, next }, total, sequence) = seen.await?;
            page.extend(found);
            behind = next;
            if behind.is_none() || limit < page.len() {
                break (total, sequence.get());
            }
        };
        let read = session.reading(page.len(), move |it| it.page_of(page, limit));
        let (threads, next) = read.await?;
        Ok(wire::ListBoxResponse { threads, total, next, sequence })
    }
}

impl Endpoint for wire::ReadThreadRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let wanted = BoxKind::of_wire(self.r#box());
        let mark = session.mark_of(self.mark(), ReceiptKind::Seen)?;
        let (asker, from, newest) = (role.clone(), self.from, self.last);
        let looked = session.query_named(&role, "message", &self.message, move |view, thread| {
            let mail = &view.workspace.mail;
            let facts = mail.thread_facts(&asker, thread)?;
            let from = match newest {
                0 => from.max(1),
                newest => facts.entries.saturating_sub(newest) + 1,
            };
            let last = facts.entries.min(from.saturating_add(THREAD_PAGE_MAX - 1));
            let receipts = mail.receipts(thread, from, last);
            Ok((facts, from, receipts, view.workspace.sequence))
        });
        let (facts, from, receipts, sequence) = looked.await?;
        if let Some(kind) = wanted
            && kind != facts.kind
        {
            return Err(Reason::UnknownMessage.status(format!(
                "message {} is not in the {kind} of {role}; it is in {}",
                self.message, facts.kind
            )));
        }
        let many = facts.entries.saturating_sub(from) as usize;
        let read = session.reading(many, move |it| {
            let (entries, next) = it.letters(&facts, from, Some(&receipts))?;
            Ok((it.thread(&facts)?, facts, entries, next))
        });
        let (thread, facts, entries, next) = read.await?;
        if let (Some(mark), [first, ..]) = (mark, entries.as_slice())
            && let Some(last) = entries.last()
            && facts.is_known_before(first.number, mark)
        {
            session.mark(&role, facts.id, last.number, mark).await?;
        }
        let (thread, sequence) = (Some(thread), sequence.get());
        Ok(wire::ReadThreadResponse { thread, entries, next, sequence })
    }
}

impl Endpoint for wire::AwaitMailRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let question = question(&self)?;
        let role = session.role()?;
        let mark = session.mark_of(self.mark(), ReceiptKind::Handed)?;
        let Outcome::Mail(answer) = session.wait(question, self.hold_ms).await? else {
            unreachable!("a question about mail is answered with some")
        };
        if let (Some(mark), Some(thread), Some(last)) =
            (mark, &answer.thread, answer.entries.last())
        {
            let thread = thread.message_id.parse().expect("the broker names threads by their ids");
            session.mark(&role, thread, last.number, mark).await?;
        }
        Ok(wire::AwaitMailResponse { answer: Some(answer) })
    }
}

impl Endpoint for wire::MarkMailRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let mark = match self.mark() {
            wire::MailMark::Handed => ReceiptKind::Handed,
            wire::MailMark::Seen => ReceiptKind::Seen,
            wire::MailMark::Unspecified | wire::MailMark::None => {
                return Err(status::invalid("mark", &"is missing; say handed or seen"));
            }
        };
        let thread = self.message_id.parse().map_err(|e| status::invalid("message_id", &e))?;
        session.mark(&session.role()?, thread, self.through, mark).await
    }
}

impl Endpoint for wire::ListMailboxesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let list = |view: &View<'_>| {
            Ok(wire::ListMailboxesResponse { mailboxes: render::mailboxes(view) })
        };
        session.query(None, list).await
    }
}

impl Endpoint for wire::OpenMailboxRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        session.execute(mailbox::Command::Open(session.role()?), default_response).await
    }
}

impl Endpoint for wire::CloseMailboxRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        session.execute(mailbox::Command::Close(session.role()?), default_response).await
    }
}

impl Endpoint for wire::ListDeadLettersRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let after = parse::after(&self.after)?;
        let limit = limit(self.limit, BOX_PAGE_MAX, BOX_PAGE_MAX);
        let asker = role.clone();
        let seen = session.query(Some(&role), move |view| {
            let mail = &view.workspace.mail;
            let page = mail.dead_letters(&asker, after).take(limit + 1).collect::<Vec<_>>();
            Ok((page, mail.dead_count(&asker) as u64, view.workspace.sequence))
        });
        let (page, total, sequence) = seen.await?;
        let read = session.reading(page.len(), move |it| it.page_of(page, limit));
        let (threads, next) = read.await?;
        Ok(wire::ListDeadLettersResponse { threads, next, total, sequence: sequence.get() })
    }
}

impl Endpoint for wire::HandAgainRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let name = session.thread_name(&role, "message", &self.message).await?;
        let prepare = move |view: &View<'_>| -> Result<(Command, ()), LaterRefusal> {
            let thread = name.find_one(view, &role)?;
            Ok((mailbox::Command::HandAgain { role, thread }.into(), ()))
        };
        let render = move |_: &View<'_>, reply, _: Option<()>| {
            // An answer that an older record keeps does not say which it was.
            let message_id = if let Reply::Mail(mailbox::Reply::Revived { thread }) = reply {
                thread.to_string()
            } else {
                self.message
            };
            Ok(at_once(wire::HandAgainResponse { message_id }))
        };
        session.execute_prepared(prepare, render).await
    }
}

impl Endpoint for wire::ImportThreadRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let import = mailbox::Command::Import(parse::import(self)?);
        let render = |_: &View<'_>, reply| {
            let Reply::Mail(mailbox::Reply::Imported { thread, entries }) = reply else {
                unreachable!("a thread is taken over or refused")
            };
            Ok::<Later<wire::ImportThreadResponse>, _>(Box::new(move |session| {
                let (message_id, file_name) =
                    (thread.to_string(), session.title(thread)?.file_name);
                Ok(wire::ImportThreadResponse {
                    message_id,
                    file_name,
                    entries,
                    ..Default::default()
                })
            }))
        };
        session.execute(import, render).await
    }
}

impl WorkspaceSession {
    /// What became of one thread that was to be moved, `found` by what it was called.
    fn moved(
        &self,
        role: &RoleId,
        asked: String,
        found: Result<Vec<MessageId>, Status>,
        moved: &MovedThread,
        to: BoxKind,
    ) -> Result<wire::Moved, Status> {
        let status = match (found, moved.outcome) {
            (Err(status), _) => status,
            // In a repeat: the name means one by now.
            (Ok(found), MoveOutcome::Unknown) if found.len() == 1 => {
                Reason::UnknownMessage.status(format!(
                    "{asked} did not name one message of {role} when this call was first made; \
                     nothing was moved"
                ))
            }
            (Ok(found), MoveOutcome::Unknown) => self.not_one(role, &asked, &found),
            (
                Ok(_),
                outcome @ (MoveOutcome::Moved
                | MoveOutcome::Already
                | MoveOutcome::NotInInbox(_)
                | MoveOutcome::Unseen(_)),
            ) => {
                let file_name = self.title(moved.thread)?.file_name;
                return Ok(render::moved(asked, moved.thread, file_name, to, outcome));
            }
        };
        if Reason::of(&status).is_some_and(parse::is_of_name) {
            let refusal = Some(parse::refusal(&status));
            return Ok(wire::Moved { asked, refusal, ..wire::Moved::default() });
        }
        Err(status)
    }

    /// What a read or a wait marks: a node tells by itself what its agent got, and who may only
    /// read tells nothing (as `MarkMail`).
    fn mark_of(
        &self,
        asked: wire::MailMark,
        natural: ReceiptKind,
    ) -> Result<Option<ReceiptKind>, Status> {
        let may_tell = self.has_right(Right::Send);
        match asked {
            wire::MailMark::None => Ok(None),
            wire::MailMark::Unspecified => {
                Ok((may_tell && self.node().is_none()).then_some(natural))
            }
            wire::MailMark::Handed => {
                self.check_right(Right::Send).map(|()| Some(ReceiptKind::Handed))
            }
            wire::MailMark::Seen => self.check_right(Right::Send).map(|()| Some(ReceiptKind::Seen)),
        }
    }

    async fn mark(
        &self,
        role: &RoleId,
        thread: MessageId,
        through: u32,
        mark: ReceiptKind,
    ) -> Result<wire::MarkMailResponse, Status> {
        let mark = mailbox::MarkThread { role: role.clone(), thread, through, mark };
        self.execute(mailbox::Command::Mark(mark), default_response).await
    }
}

/// What the feed tells of mail, to whoever may act as a role that it concerns.
pub(super) fn event(event: &Event, grant: &Grant) -> Option<Kind> {
    let roles = event.roles();
    if !roles.is_empty() && !roles.iter().any(|role| grant.has_role(role)) {
        return None;
    }
    let marked = |message_id: String, role: &RoleId, through, receipt: &str| {
        let (role, receipt) = (role.to_string(), receipt.to_owned());
        Kind::MailMarked(wire::MailMarked { message_id, role, through, receipt })
    };
    Some(match event {
        Event::Sent(it) => Kind::MailSent(wire::MailSent {
            message_id: it.thread.to_string(),
            entry: it.entry,
            sender: it.sender.to_string(),
            receivers: it.to.iter().map(ToString::to_string).collect(),
            r#type: mailbox::kind_name(it.kind).to_owned(),
            hops: it.hops.unwrap_or_default(),
            cause: it.cause.as_ref().map(cause),
        }),
        Event::Moved(it) => Kind::MailMoved(wire::MailMoved {
            message_id: it.thread.to_string(),
            role: it.role.to_string(),
            r#box: it.to.to_wire().into(),
        }),
        Event::Handed(it) if it.is_dead => Kind::MailDied(wire::MailDied {
            message_id: it.thread.to_string(),
            role: it.role.to_string(),
            is_revived: false,
            unseen: {
                let unseen = it.unseen.iter().map(|(sender, entry)| wire::MailUnseen {
                    sender: sender.to_string(),
                    entry: *entry,
                });
                unseen.collect()
            },
        }),
        Event::Handed(it) => marked(it.thread.to_string(), &it.role, it.through, "handed"),
        Event::Seen(it) => marked(it.thread.to_string(), &it.role, it.through, "seen"),
        Event::Lapsed(it) => Kind::MailLapsed(wire::MailLapsed {
            message_id: it.thread.to_string(),
            roles: it.roles.iter().map(ToString::to_string).collect(),
            entry: it.entry,
            sender: it.sender.to_string(),
        }),
        Event::Revived(it) => Kind::MailDied(wire::MailDied {
            message_id: it.thread.to_string(),
            role: it.role.to_string(),
            is_revived: true,
            unseen: Vec::new(),
        }),
        Event::Imported(it) => Kind::MailImported(wire::MailImported {
            message_id: it.thread.to_string(),
            entries: it.first + u32::try_from(it.entries.len()).unwrap_or(u32::MAX) - 1,
            participants: {
                let roles: BTreeSet<&RoleId> = roles.into_iter().collect();
                roles.into_iter().map(ToString::to_string).collect()
            },
        }),
        Event::Opened(role) => Kind::MailboxOpened(wire::MailboxOpened { role: role.to_string() }),
        Event::Closed(role) => Kind::MailboxClosed(wire::MailboxClosed { role: role.to_string() }),
        Event::Kept(_) | Event::Compacted(_) => return None,
    })
}
