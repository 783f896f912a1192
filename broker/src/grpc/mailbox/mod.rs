//! `Mailbox`: threads, boxes, receipts.
//!
//! `parse` reads what callers say of mail; `words` reads entries from the journal and says what a
//! thread is; `files` are those that are attached; `search` finds. Names of threads are looked up as the role that
//! asks, so another's thread is as if it were not there.

mod files;
mod parse;
mod search;
mod words;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{BOX_PAGE, BOX_PAGE_MAX},
    mail::{BoxKind, MessageId, MessageName},
    reason::Reason,
    wire::{self, mailbox_server::Mailbox},
};
use tonic::{Request, Response, Status, Streaming};

pub(super) use self::parse::question;
use super::{
    Service,
    entered::{Entered, grant},
    parse::{hold, id, key, optional},
    refuse,
};
use crate::{
    rules::{
        Command, Mark, Reply,
        mailbox::{self, MoveOutcome},
    },
    workspace::{Answer, Executed},
};

#[tonic::async_trait]
impl Mailbox for Service {
    async fn send(
        &self,
        request: Request<wire::SendRequest>,
    ) -> Result<Response<wire::SendResponse>, Status> {
        let grant = grant(&request)?;
        let mut it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.take().as_ref())?;
        let key = parse::key_of_letter(&mut it)?;
        let role = id("role", &it.role)?;
        let answered = match it.in_reply_to.as_str() {
            "" => None,
            name => Some(entered.thread_named(&role, "in_reply_to", name).await?),
        };
        let send = parse::send(it, role, answered)?;
        let to = send.to.clone();
        let command = Command::Mail(mailbox::Command::Send(send));
        let Executed { reply, is_repeat, sequence } = entered.execute(Some(key), command).await?;
        let Reply::Sent { thread, entry, kind } = reply else {
            unreachable!("mail is sent or refused")
        };
        let stored = entered.facts_of(thread, entry)?;
        let receipts = if is_repeat {
            entered.receipts(thread, entry).await?
        } else {
            to.into_iter().map(mailbox::EntryReceipts::none).collect()
        };
        let file_name = match &stored.title {
            Some(title) => title.file_name.clone(),
            None => entered.title(thread)?.file_name,
        };
        Ok(Response::new(wire::SendResponse {
            message_id: thread.to_string(),
            entry,
            file_name,
            receipts: words::receipts(&receipts, stored.at),
            repeated: is_repeat,
            sequence: sequence.get(),
            r#box: kind.to_wire().into(),
        }))
    }

    async fn r#move(
        &self,
        request: Request<wire::MoveRequest>,
    ) -> Result<Response<wire::MoveResponse>, Status> {
        let grant = grant(&request)?;
        let mut it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.take().as_ref())?;
        let key = key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        let to = parse::target(it.to())?;
        parse::names(&it.messages)?;
        let mut found = Vec::with_capacity(it.messages.len());
        for name in &it.messages {
            found.push(entered.thread_named(&role, "messages", name).await);
        }
        let threads = found.iter().filter_map(|found| found.as_ref().ok().copied()).collect();
        let moving = mailbox::Move { role: role.clone(), threads, to };
        let command = Command::Mail(mailbox::Command::Move(moving));
        let Executed { reply, sequence, .. } = entered.execute(Some(key), command).await?;
        let Reply::Moved { moved, .. } = reply else { unreachable!("a move tells of each") };
        let mut told = Vec::with_capacity(found.len());
        for (asked, found) in it.messages.into_iter().zip(found) {
            told.push(match found {
                Ok(thread) => {
                    let outcome = moved.iter().find(|it| it.thread == thread);
                    let outcome = outcome.map_or(MoveOutcome::Unknown, |it| it.outcome);
                    entered.moved(asked, thread, to, outcome)?
                }
                Err(status) if Reason::of(&status).is_some_and(parse::is_of_name) => {
                    let refusal = Some(parse::refusal(&status));
                    wire::Moved { asked, refusal, ..wire::Moved::default() }
                }
                Err(status) => return Err(status),
            });
        }
        Ok(Response::new(wire::MoveResponse { moved: told, sequence: sequence.get() }))
    }

    async fn list_box(
        &self,
        request: Request<wire::ListBoxRequest>,
    ) -> Result<Response<wire::ListBoxResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        let role: RoleId = id("role", &it.role)?;
        let Some(kind) = BoxKind::of_wire(it.r#box()) else {
            return Err(refuse::invalid("box", &"is missing; say inbox, outbox, done or cancel"));
        };
        let after = parse::after(&it.after)?;
        let limit = match it.limit {
            0 => BOX_PAGE,
            limit => limit.min(BOX_PAGE_MAX),
        } as usize;
        let filter = parse::list_filter(&it)?;
        let asker = role.clone();
        let seen = entered.look_as(&role, move |view| {
            let mail = &view.workspace.mail;
            let mut page: Vec<_> = mail
                .page(&asker, kind, after)
                .filter(|facts| filter.fits(facts))
                .take(limit + 1)
                .collect();
            let has_more = limit < page.len();
            page.truncate(limit);
            let total = mail.count(&asker, kind) as u64;
            Ok((page, has_more, total, view.workspace.sequence))
        });
        let (page, has_more, total, sequence) = seen.await?;
        let threads = entered.threads(&page)?;
        let is_cut = threads.len() < page.len();
        let last = threads.len().checked_sub(1).map(|last| &page[last]);
        let next = last.filter(|_| has_more || is_cut);
        let next = next.map_or_else(String::new, |facts| format!("{:x}", facts.place));
        let sequence = sequence.get();
        Ok(Response::new(wire::ListBoxResponse { threads, total, next, sequence }))
    }

    async fn read_thread(
        &self,
        request: Request<wire::ReadThreadRequest>,
    ) -> Result<Response<wire::ReadThreadResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        let role = id("role", &it.role)?;
        let wanted = BoxKind::of_wire(it.r#box());
        let thread = entered.thread_named(&role, "message", &it.message).await?;
        let asker = role.clone();
        let seen = entered.look_as(&role, move |view| {
            let facts = view.workspace.mail.thread_facts(&asker, thread)?;
            Ok((facts, view.workspace.sequence))
        });
        let (facts, sequence) = seen.await?;
        if let Some(kind) = wanted
            && kind != facts.kind
        {
            return Err(Reason::UnknownMessage.status(format!(
                "message {} is not in the {kind} of {role}; it is in {}",
                it.message, facts.kind
            )));
        }
        let from = match it.last {
            0 => it.from.max(1),
            last => facts.entries.saturating_sub(last) + 1,
        };
        let (mut entries, next) = entered.letters(thread, from, facts.entries)?;
        for entry in &mut entries {
            let receipts = entered.receipts(thread, entry.number).await?;
            let at = Timestamp::from_millis(entry.at_ms);
            entry.receipts = words::receipts(&receipts, at);
        }
        if let (Some(mark), Some(last)) = (entered.mark_of(it.mark(), Mark::Seen), entries.last()) {
            entered.mark(&role, thread, last.number, mark).await?;
        }
        let thread = Some(entered.thread(&facts)?);
        let sequence = sequence.get();
        Ok(Response::new(wire::ReadThreadResponse { thread, entries, next, sequence }))
    }

    async fn await_mail(
        &self,
        request: Request<wire::AwaitMailRequest>,
    ) -> Result<Response<wire::AwaitMailResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        let question = question(&it)?;
        let role = question.role().clone();
        let told = entered.wait_for(question, hold(it.hold_ms)).await?;
        let answer = entered.mail_answer(&told)?;
        if let (Some(mark), Answer::Mail(mailbox::Answer { mail: Some(facts), .. })) =
            (entered.mark_of(it.mark(), Mark::Handed), &told.answer)
            && let Some(last) = answer.entries.last()
        {
            entered.mark(&role, facts.id, last.number, mark).await?;
        }
        Ok(Response::new(wire::AwaitMailResponse { answer: Some(answer) }))
    }

    async fn mark_mail(
        &self,
        request: Request<wire::MarkMailRequest>,
    ) -> Result<Response<wire::MarkMailResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        let mark = match it.mark() {
            wire::MailMark::Handed => Mark::Handed,
            wire::MailMark::Seen => Mark::Seen,
            wire::MailMark::Unspecified | wire::MailMark::None => {
                return Err(refuse::invalid("mark", &"is missing; say handed or seen"));
            }
        };
        let thread: MessageId =
            it.message_id.parse().map_err(|e| refuse::invalid("message_id", &e))?;
        entered.mark(&id("role", &it.role)?, thread, it.through, mark).await?;
        Ok(Response::new(wire::MarkMailResponse {}))
    }

    async fn search_mail(
        &self,
        request: Request<wire::SearchMailRequest>,
    ) -> Result<Response<wire::SearchMailResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        Ok(Response::new(search::mail(entered, it).await?))
    }

    async fn list_mailboxes(
        &self,
        request: Request<wire::ListMailboxesRequest>,
    ) -> Result<Response<wire::ListMailboxesResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        let mailboxes = entered.look(words::mailboxes).await?;
        Ok(Response::new(wire::ListMailboxesResponse { mailboxes }))
    }

    async fn open_mailbox(
        &self,
        request: Request<wire::OpenMailboxRequest>,
    ) -> Result<Response<wire::OpenMailboxResponse>, Status> {
        let grant = grant(&request)?;
        let mut it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.take().as_ref())?;
        let key = key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        entered.may_act_as(&role)?;
        let command = Command::Mail(mailbox::Command::Open(role));
        let done = entered.execute(Some(key), command).await?;
        Ok(Response::new(wire::OpenMailboxResponse { repeated: done.is_repeat }))
    }

    async fn close_mailbox(
        &self,
        request: Request<wire::CloseMailboxRequest>,
    ) -> Result<Response<wire::CloseMailboxResponse>, Status> {
        let grant = grant(&request)?;
        let mut it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.take().as_ref())?;
        let key = key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        entered.may_act_as(&role)?;
        let command = Command::Mail(mailbox::Command::Close(role));
        let done = entered.execute(Some(key), command).await?;
        Ok(Response::new(wire::CloseMailboxResponse { repeated: done.is_repeat }))
    }

    async fn list_dead_letters(
        &self,
        request: Request<wire::ListDeadLettersRequest>,
    ) -> Result<Response<wire::ListDeadLettersResponse>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        let role: RoleId = id("role", &it.role)?;
        let asker = role.clone();
        let dead = entered.look_as(&role, move |view| {
            let dead = view.workspace.mail.dead_letters(&asker);
            Ok(dead.take(BOX_PAGE_MAX as usize).collect::<Vec<_>>())
        });
        let dead = dead.await?;
        let threads = entered.threads(&dead)?;
        Ok(Response::new(wire::ListDeadLettersResponse { threads }))
    }

    async fn hand_again(
        &self,
        request: Request<wire::HandAgainRequest>,
    ) -> Result<Response<wire::HandAgainResponse>, Status> {
        let grant = grant(&request)?;
        let mut it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.take().as_ref())?;
        let key = key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        let thread = entered.thread_named(&role, "message", &it.message).await?;
        let command = Command::Mail(mailbox::Command::HandAgain { role, thread });
        entered.execute(Some(key), command).await?;
        Ok(Response::new(wire::HandAgainResponse { message_id: thread.to_string() }))
    }

    async fn import_thread(
        &self,
        request: Request<wire::ImportThreadRequest>,
    ) -> Result<Response<wire::ImportThreadResponse>, Status> {
        let grant = grant(&request)?;
        let mut it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.take().as_ref())?;
        let key = key(it.key.take(), &it)?;
        let import = parse::import(it)?;
        for role in import.roles() {
            entered.may_act_as(role)?;
        }
        let command = Command::Mail(mailbox::Command::Import(import));
        let Executed { reply, is_repeat, sequence } = entered.execute(Some(key), command).await?;
        let Reply::Imported { thread, entries } = reply else {
            unreachable!("a thread is taken over or refused")
        };
        Ok(Response::new(wire::ImportThreadResponse {
            message_id: thread.to_string(),
            file_name: entered.title(thread)?.file_name,
            entries,
            repeated: is_repeat,
            sequence: sequence.get(),
        }))
    }

    async fn put_attachment(
        &self,
        request: Request<Streaming<wire::PutAttachmentRequest>>,
    ) -> Result<Response<wire::PutAttachmentResponse>, Status> {
        let grant = grant(&request)?;
        let repeated = files::put(&self.door, &grant, request.into_inner()).await?;
        Ok(Response::new(wire::PutAttachmentResponse { repeated }))
    }

    type GetAttachmentStream = files::Chunks;

    async fn get_attachment(
        &self,
        request: Request<wire::GetAttachmentRequest>,
    ) -> Result<Response<files::Chunks>, Status> {
        let grant = grant(&request)?;
        let it = request.into_inner();
        let entered = self.door.enter(&grant, it.caller.as_ref())?;
        Ok(Response::new(files::get(&entered, &it).await?))
    }
}

impl Entered {
    /// The one thread of the role that `name` names.
    async fn thread_named(
        &self,
        role: &RoleId,
        field: &str,
        name: &str,
    ) -> Result<MessageId, Status> {
        /// Candidates named in a refusal.
        const CANDIDATES_MAX: usize = 5;
        let parsed: MessageName = name.parse().map_err(|e| refuse::invalid(field, &e))?;
        let asker = role.clone();
        let wanted = parsed.clone();
        let found = self.look_as(role, move |view| {
            let mail = &view.workspace.mail;
            Ok(match wanted {
                MessageName::Id(id) => mail.find(&asker, id).map(|_| vec![id]).unwrap_or_default(),
                MessageName::Prefix(digits) => {
                    mail.find_prefix(&asker, &digits, CANDIDATES_MAX + 1)
                }
                MessageName::File { short, .. } => mail.find_short(&asker, short),
            })
        });
        let mut found = found.await?;
        if let MessageName::File { name, .. } = &parsed {
            let mut same = Vec::new();
            for id in found {
                if self.title(id)?.file_name == *name {
                    same.push(id);
                }
            }
            found = same;
        }
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(Reason::UnknownMessage.status(format!("{role} has no message {name}"))),
            many => {
                let mut names = Vec::new();
                for id in many.iter().take(CANDIDATES_MAX) {
                    names.push(format!("{id} ({})", self.title(*id)?.file_name));
                }
                Err(Reason::AmbiguousMessage.status(format!(
                    "{name} may be one of several messages of {role}; name more of it: {}{}",
                    names.join(", "),
                    if CANDIDATES_MAX < many.len() { ", …" } else { "" },
                )))
            }
        }
    }

    /// What a read or a wait marks: a node tells by itself what its agent got.
    fn mark_of(&self, asked: wire::MailMark, natural: Mark) -> Option<Mark> {
        match asked {
            wire::MailMark::Handed => Some(Mark::Handed),
            wire::MailMark::Seen => Some(Mark::Seen),
            wire::MailMark::None => None,
            wire::MailMark::Unspecified => self.node().is_none().then_some(natural),
        }
    }

    async fn mark(
        &self,
        role: &RoleId,
        thread: MessageId,
        through: u32,
        mark: Mark,
    ) -> Result<(), Status> {
        let mark = mailbox::MarkThread { role: role.clone(), thread, through, mark };
        self.execute(None, Command::Mail(mailbox::Command::Mark(mark))).await?;
        Ok(())
    }

    fn moved(
        &self,
        asked: String,
        thread: MessageId,
        to: BoxKind,
        outcome: MoveOutcome,
    ) -> Result<wire::Moved, Status> {
        let refused = |reason: Reason, message: String| {
            Some(wire::MailRefusal { reason: reason.to_string(), message })
        };
        let name = self.title(thread)?.file_name;
        let (kind, refusal) = match outcome {
            MoveOutcome::Moved | MoveOutcome::Already => (Some(to), None),
            MoveOutcome::NotInInbox(kind) => {
                let text = format!("{name} is in {kind}; only what is in the inbox is moved");
                (Some(kind), refused(Reason::NotInInbox, text))
            }
            MoveOutcome::Unseen(count) => {
                let text = format!(
                    "{count} newer {} came in since you read {name}; read it again, then decide. \
                     It stays in the inbox",
                    if count == 1 { "entry" } else { "entries" }
                );
                (Some(BoxKind::Inbox), refused(Reason::UnseenEntries, text))
            }
            MoveOutcome::Unknown => {
                (None, refused(Reason::UnknownMessage, format!("there is no message {asked}")))
            }
        };
        Ok(wire::Moved {
            asked,
            message_id: thread.to_string(),
            file_name: name,
            r#box: kind.map_or(wire::Box::Unspecified, BoxKind::to_wire).into(),
            refusal,
        })
    }
}
