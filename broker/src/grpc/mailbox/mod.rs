//! `Mailbox`: threads, boxes, receipts.
//!
//! `parse` reads what callers say of mail, and `names` finds the threads they name; `words` reads
//! entries from the journal and says what a thread is; `files` are those that are attached;
//! `search` finds.
//!
//! A call asks the workspace as few questions as it can: each is a turn of its one actor.

mod files;
mod names;
mod parse;
mod search;
mod words;

use tasuki_proto::{
    id::RoleId,
    limits::{BOX_PAGE, BOX_PAGE_MAX, THREAD_PAGE_MAX},
    mail::{BoxKind, MessageId},
    reason::Reason,
    token::Right,
    wire::{self, mailbox_server::Mailbox},
};
use tonic::{Request, Response, Status, Streaming};

pub(super) use self::parse::question;
use super::{
    Service, auth,
    parse::{hold, id, optional},
    scan::Part,
    session::{Admitted, WorkspaceSession},
    status,
};
use crate::{
    rules::{
        Command, Mark, Reply,
        mailbox::{self, MoveOutcome, ThreadSummary},
    },
    workspace::{Answer, Executed},
};

#[tonic::async_trait]
impl Mailbox for Service {
    async fn send(
        &self,
        request: Request<wire::SendRequest>,
    ) -> Result<Response<wire::SendResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = parse::key_of_letter(&session, &mut it)?;
        let role = id("role", &it.role)?;
        let answered = match it.in_reply_to.as_str() {
            "" => None,
            name => Some(session.thread_named(&role, "in_reply_to", name).await?),
        };
        let send = parse::send(it, role, answered.as_ref().map(|it| it.thread))?;
        let (to, kind) = (send.to.clone(), send.kind);
        let begun = match &send.place {
            mailbox::Place::Begin(subject) => Some(subject.clone()),
            mailbox::Place::Answer(_) => None,
        };
        let command = Command::Mail(mailbox::Command::Send(send));
        let done = session.execute(Some(key), command).await?;
        let Reply::Mail(mailbox::Reply::Sent { thread, entry, kind: place }) = done.reply else {
            unreachable!("mail is sent or refused")
        };
        let (at, file_name) = match (done.recorded.filter(|_| !done.is_repeat), &begun, &answered) {
            // What was recorded just then need not be read back.
            (Some(at), Some(subject), _) => (at, subject.file_name(at, kind)),
            (Some(at), None, Some(named)) => (at, session.file_name(named)?),
            (Some(_), None, None) => unreachable!("mail begins a thread or answers in one"),
            (None, ..) => session.stored(thread, entry)?,
        };
        let receipts = if done.is_repeat {
            session.receipts(thread, entry).await?
        } else {
            to.into_iter().map(mailbox::EntryReceipts::none).collect()
        };
        Ok(Response::new(wire::SendResponse {
            message_id: thread.to_string(),
            entry,
            file_name,
            receipts: words::receipts(&receipts, at),
            repeated: done.is_repeat,
            sequence: done.sequence.get(),
            r#box: place.to_wire().into(),
        }))
    }

    async fn r#move(
        &self,
        request: Request<wire::MoveRequest>,
    ) -> Result<Response<wire::MoveResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        let to = parse::target(it.to())?;
        parse::names(&it.messages)?;
        let mut found = Vec::with_capacity(it.messages.len());
        for named in session.threads_named(&role, "messages", &it.messages).await? {
            found.push(match named {
                Ok(named) => Ok((session.file_name(&named)?, named.thread)),
                Err(status) if Reason::of(&status).is_some_and(parse::is_of_name) => Err(status),
                Err(status) => return Err(status),
            });
        }
        let threads = found.iter().filter_map(|it| it.as_ref().ok().map(|(_, it)| *it)).collect();
        let moving = mailbox::Move { role, threads, to };
        let command = Command::Mail(mailbox::Command::Move(moving));
        let Executed { reply, sequence, .. } = session.execute(Some(key), command).await?;
        let Reply::Mail(mailbox::Reply::Moved { moved, .. }) = reply else {
            unreachable!("a move tells of each")
        };
        let told = it.messages.into_iter().zip(found).map(|(asked, found)| match found {
            Ok((file_name, thread)) => {
                let outcome = moved.iter().find(|it| it.thread == thread);
                let outcome = outcome.map_or(MoveOutcome::Unknown, |it| it.outcome);
                words::moved(asked, thread, file_name, to, outcome)
            }
            Err(status) => {
                let refusal = Some(parse::refusal(&status));
                wire::Moved { asked, refusal, ..wire::Moved::default() }
            }
        });
        let moved = told.collect();
        Ok(Response::new(wire::MoveResponse { moved, sequence: sequence.get() }))
    }

    async fn list_box(
        &self,
        request: Request<wire::ListBoxRequest>,
    ) -> Result<Response<wire::ListBoxResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let role: RoleId = id("role", &it.role)?;
        let Some(kind) = BoxKind::of_wire(it.r#box()) else {
            return Err(status::invalid("box", &"is missing; say inbox, outbox, done or cancel"));
        };
        let after = parse::after(&it.after)?;
        let limit = match it.limit {
            0 => BOX_PAGE,
            limit => limit.min(BOX_PAGE_MAX),
        } as usize;
        let filter = parse::list_filter(&it)?;
        let (mut page, mut behind) = (Vec::new(), after);
        let (total, sequence) = loop {
            let (asker, filter, most) = (role.clone(), filter.clone(), limit + 1 - page.len());
            let seen = session.look_as(&role, move |view| {
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
                break (total, sequence);
            }
        };
        let read = session.reading(page.len(), move |it| it.page_of(page, limit));
        let (threads, next) = read.await?;
        let sequence = sequence.get();
        Ok(Response::new(wire::ListBoxResponse { threads, total, next, sequence }))
    }

    async fn read_thread(
        &self,
        request: Request<wire::ReadThreadRequest>,
    ) -> Result<Response<wire::ReadThreadResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let role: RoleId = id("role", &it.role)?;
        let wanted = BoxKind::of_wire(it.r#box());
        let mark = session.mark_of(it.mark(), Mark::Seen)?;
        let (asker, from, newest) = (role.clone(), it.from, it.last);
        let looked = session.look_at_named(&role, "message", &it.message, move |view, thread| {
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
        let (_, (facts, from, receipts, sequence)) = looked.await?;
        if let Some(kind) = wanted
            && kind != facts.kind
        {
            return Err(Reason::UnknownMessage.status(format!(
                "message {} is not in the {kind} of {role}; it is in {}",
                it.message, facts.kind
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
        Ok(Response::new(wire::ReadThreadResponse { thread, entries, next, sequence }))
    }

    async fn await_mail(
        &self,
        request: Request<wire::AwaitMailRequest>,
    ) -> Result<Response<wire::AwaitMailResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let question = question(&it)?;
        let role = question.role().clone();
        let mark = session.mark_of(it.mark(), Mark::Handed)?;
        let told = session.wait_for(question, hold(it.hold_ms)).await?;
        let answer = session.mail_answer(&told)?;
        if let (Some(mark), Answer::Mail(mailbox::Answer { mail: Some(facts), .. })) =
            (mark, &told.answer)
            && let Some(last) = answer.entries.last()
        {
            session.mark(&role, facts.id, last.number, mark).await?;
        }
        Ok(Response::new(wire::AwaitMailResponse { answer: Some(answer) }))
    }

    async fn mark_mail(
        &self,
        request: Request<wire::MarkMailRequest>,
    ) -> Result<Response<wire::MarkMailResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let mark = match it.mark() {
            wire::MailMark::Handed => Mark::Handed,
            wire::MailMark::Seen => Mark::Seen,
            wire::MailMark::Unspecified | wire::MailMark::None => {
                return Err(status::invalid("mark", &"is missing; say handed or seen"));
            }
        };
        let thread: MessageId =
            it.message_id.parse().map_err(|e| status::invalid("message_id", &e))?;
        session.mark(&id("role", &it.role)?, thread, it.through, mark).await?;
        Ok(Response::new(wire::MarkMailResponse {}))
    }

    async fn search_mail(
        &self,
        request: Request<wire::SearchMailRequest>,
    ) -> Result<Response<wire::SearchMailResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        Ok(Response::new(search::mail(session, it).await?))
    }

    async fn list_mailboxes(
        &self,
        request: Request<wire::ListMailboxesRequest>,
    ) -> Result<Response<wire::ListMailboxesResponse>, Status> {
        let (session, _) = self.services.enter(request, |it| it.caller.take())?;
        let mailboxes = session.look(words::mailboxes).await?;
        Ok(Response::new(wire::ListMailboxesResponse { mailboxes }))
    }

    async fn open_mailbox(
        &self,
        request: Request<wire::OpenMailboxRequest>,
    ) -> Result<Response<wire::OpenMailboxResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        session.may_act_as(&role)?;
        let command = Command::Mail(mailbox::Command::Open(role));
        let done = session.execute(Some(key), command).await?;
        Ok(Response::new(wire::OpenMailboxResponse { repeated: done.is_repeat }))
    }

    async fn close_mailbox(
        &self,
        request: Request<wire::CloseMailboxRequest>,
    ) -> Result<Response<wire::CloseMailboxResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        session.may_act_as(&role)?;
        let command = Command::Mail(mailbox::Command::Close(role));
        let done = session.execute(Some(key), command).await?;
        Ok(Response::new(wire::CloseMailboxResponse { repeated: done.is_repeat }))
    }

    async fn list_dead_letters(
        &self,
        request: Request<wire::ListDeadLettersRequest>,
    ) -> Result<Response<wire::ListDeadLettersResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        let role: RoleId = id("role", &it.role)?;
        let after = parse::after(&it.after)?;
        let limit = match it.limit {
            0 => BOX_PAGE_MAX,
            limit => limit.min(BOX_PAGE_MAX),
        } as usize;
        let asker = role.clone();
        let seen = session.look_as(&role, move |view| {
            let mail = &view.workspace.mail;
            let page = mail.dead_letters(&asker, after).take(limit + 1).collect::<Vec<_>>();
            Ok((page, mail.dead_count(&asker) as u64, view.workspace.sequence))
        });
        let (page, total, sequence) = seen.await?;
        let read = session.reading(page.len(), move |it| it.page_of(page, limit));
        let (threads, next) = read.await?;
        let sequence = sequence.get();
        Ok(Response::new(wire::ListDeadLettersResponse { threads, next, total, sequence }))
    }

    async fn hand_again(
        &self,
        request: Request<wire::HandAgainRequest>,
    ) -> Result<Response<wire::HandAgainResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let role = id("role", &it.role)?;
        let thread = session.thread_named(&role, "message", &it.message).await?.thread;
        let command = Command::Mail(mailbox::Command::HandAgain { role, thread });
        session.execute(Some(key), command).await?;
        Ok(Response::new(wire::HandAgainResponse { message_id: thread.to_string() }))
    }

    async fn import_thread(
        &self,
        request: Request<wire::ImportThreadRequest>,
    ) -> Result<Response<wire::ImportThreadResponse>, Status> {
        let (session, mut it) = self.services.enter(request, |it| it.caller.take())?;
        let key = session.key(it.key.take(), &it)?;
        let import = parse::import(it)?;
        for role in import.roles() {
            session.may_act_as(role)?;
        }
        let command = Command::Mail(mailbox::Command::Import(import));
        let Executed { reply, is_repeat, sequence, .. } =
            session.execute(Some(key), command).await?;
        let Reply::Mail(mailbox::Reply::Imported { thread, entries }) = reply else {
            unreachable!("a thread is taken over or refused")
        };
        Ok(Response::new(wire::ImportThreadResponse {
            message_id: thread.to_string(),
            file_name: session.title(thread)?.file_name,
            entries,
            repeated: is_repeat,
            sequence: sequence.get(),
        }))
    }

    async fn put_attachment(
        &self,
        request: Request<Streaming<wire::PutAttachmentRequest>>,
    ) -> Result<Response<wire::PutAttachmentResponse>, Status> {
        let admitted = Admitted::stream(&request)?;
        let repeated = files::put(&self.services, admitted, request.into_inner()).await?;
        Ok(Response::new(wire::PutAttachmentResponse { repeated }))
    }

    type GetAttachmentStream = files::Chunks;

    async fn get_attachment(
        &self,
        request: Request<wire::GetAttachmentRequest>,
    ) -> Result<Response<files::Chunks>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        Ok(Response::new(files::get(&session, &it).await?))
    }
}

impl WorkspaceSession {
    /// What a read or a wait marks: a node tells by itself what its agent got, and who may only
    /// read tells nothing (as `MarkMail`).
    fn mark_of(&self, asked: wire::MailMark, natural: Mark) -> Result<Option<Mark>, Status> {
        let may_tell = self.has_right(Right::Send);
        match asked {
            wire::MailMark::None => Ok(None),
            wire::MailMark::Unspecified => {
                Ok((may_tell && self.node().is_none()).then_some(natural))
            }
            wire::MailMark::Handed | wire::MailMark::Seen if !may_tell => {
                Err(auth::lacks(Right::Send))
            }
            wire::MailMark::Handed => Ok(Some(Mark::Handed)),
            wire::MailMark::Seen => Ok(Some(Mark::Seen)),
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
}
