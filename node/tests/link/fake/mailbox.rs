//! The fake broker's mail: what came in, and what is there to be read.

use std::{collections::BTreeMap, pin::Pin};

use tasuki_proto::{
    reason::Reason,
    wire::{
        self, mail_answer::Standing, mailbox_server, park_response::Outcome, put_attachment_request,
    },
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::{Service, refused};

#[derive(Debug, Clone, Default)]
pub(crate) struct Mail {
    /// Every letter and move that came in, repeats included.
    pub(crate) asked: Vec<Asked>,
    /// What was carried out, once each.
    pub(crate) letters: Vec<wire::SendRequest>,
    pub(crate) moves: Vec<wire::MoveRequest>,
    /// Answers, and what they were to: a sealed letter is known by its mark.
    sent: BTreeMap<(String, u64), (Vec<u8>, wire::SendResponse)>,
    /// While it is there, only sealed letters are taken.
    pub(crate) roster: Option<wire::SignedRoster>,
    /// Why a letter to this role is not taken, or anything when it is empty.
    pub(crate) refused: Option<(String, Reason)>,
    /// A client whose keys are all below the window.
    pub(crate) expired: Option<String>,
    /// Unseen, for everybody.
    pub(crate) unseen: Vec<wire::MailThread>,
    pub(crate) parked: BTreeMap<(u64, u64), wire::AwaitMailRequest>,
    pub(crate) marks: Vec<wire::MarkMailRequest>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Transfers that break off in the middle, from now on.
    pub(crate) to_break: u32,
    pub(crate) transfers: u32,
}

/// The key of a command, and what it would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) key: (String, u64),
    pub(crate) what: String,
}

impl Mail {
    fn asked(&mut self, key: Option<&wire::IdempotencyKey>, what: &str) -> (String, u64) {
        let key = key.expect("every command has a key");
        let key = (key.client_id.clone(), key.counter);
        self.asked.push(Asked { key: key.clone(), what: what.to_owned() });
        key
    }

    fn is_transfer_to_break(&mut self) -> bool {
        self.transfers += 1;
        let is_to_break = 0 < self.to_break;
        self.to_break = self.to_break.saturating_sub(1);
        is_to_break
    }

    /// The texts that were carried out, in order.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.letters.iter().map(|letter| letter.text.as_str()).collect()
    }
}

fn fits(question: &wire::AwaitMailRequest, thread: &wire::MailThread) -> bool {
    (question.r#type.is_empty() || question.r#type == thread.latest_type)
        && (question.sender.is_empty() || question.sender == thread.latest_sender)
}

impl Service {
    pub(super) fn take_mail(
        &self,
        stream: u64,
        wait: u64,
        question: wire::AwaitMailRequest,
    ) -> Option<wire::ParkResponse> {
        if let Err(status) = self.check(question.caller.clone()) {
            return refused(wait, &status);
        }
        self.with(|world| {
            world.parks += 1;
            world.mail.parked.insert((stream, wait), question);
        });
        None
    }

    /// Answers to the waits for mail of a stream that need wait no longer.
    pub(super) fn due_mail(&self, stream: u64) -> Vec<wire::ParkResponse> {
        let world = self.0.borrow().clone();
        let answer = |(&(of, wait), question): (&(u64, u64), &wire::AwaitMailRequest)| {
            let thread = world.mail.unseen.iter().find(|thread| fits(question, thread)).cloned();
            let standing = match &thread {
                _ if of != stream => return None,
                _ if world.superseded.contains(&wait) => Standing::Superseded,
                Some(_) => Standing::Mail,
                None if world.is_stopping || question.hold_ms == 0 => Standing::StillWaiting,
                None => return None,
            };
            let answer =
                wire::MailAnswer { standing: standing.into(), thread, ..Default::default() };
            Some(wire::ParkResponse { wait, outcome: Some(Outcome::Mail(answer)) })
        };
        let due: Vec<_> = world.mail.parked.iter().filter_map(answer).collect();
        if !due.is_empty() {
            self.with(|world| {
                for answer in &due {
                    world.mail.parked.remove(&(stream, answer.wait));
                }
            });
        }
        due
    }

    /// Says nothing more, if that is what this broker does.
    async fn unless_mute(&self) {
        if self.0.borrow().is_mute {
            std::future::pending::<()>().await;
        }
    }
}

#[tonic::async_trait]
impl mailbox_server::Mailbox for Service {
    async fn send(
        &self,
        request: Request<wire::SendRequest>,
    ) -> Result<Response<wire::SendResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller.clone())?;
        let answer = self.with(|world| {
            let mail = &mut world.mail;
            let key = mail.asked(request.key.as_ref(), &request.text);
            if mail.expired.as_ref() == Some(&key.0) {
                return Err(Reason::KeyExpired.status("the key is too old"));
            }
            let sealed = request.sealed.as_ref();
            let content = sealed.map_or(request.text.as_bytes(), |it| &it.same).to_vec();
            if let Some((to, answer)) = mail.sent.get(&key) {
                let reused = || Reason::KeyReused.status("the key had other content");
                return if *to == content { Ok(answer.clone()) } else { Err(reused()) };
            }
            if mail.roster.is_some() && sealed.is_none() {
                return Err(Reason::PrivateWorkspace.status("only sealed words are taken"));
            }
            if let Some((to, reason)) = &mail.refused
                && (to.is_empty() || request.to.contains(to))
            {
                return Err(reason.status(format!("no mail to {:?}", request.to)));
            }
            mail.letters.push(request.clone());
            let answer = wire::SendResponse {
                message_id: request.message_id,
                entry: 1,
                ..wire::SendResponse::default()
            };
            mail.sent.insert(key, (content, answer.clone()));
            Ok(answer)
        })?;
        self.unless_mute().await;
        Ok(Response::new(answer))
    }

    async fn r#move(
        &self,
        request: Request<wire::MoveRequest>,
    ) -> Result<Response<wire::MoveResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller.clone())?;
        let moved = |asked: &String| {
            let is_refused = asked.starts_with("unseen");
            let refusal = is_refused.then(|| wire::MailRefusal {
                reason: Reason::UnseenEntries.to_string(),
                message: format!("{asked} has entries you were not handed"),
            });
            wire::Moved { asked: asked.clone(), r#box: request.to, refusal, ..Default::default() }
        };
        let moved = request.messages.iter().map(moved).collect();
        self.with(|world| {
            world.mail.asked(request.key.as_ref(), &request.messages.join(" "));
            world.mail.moves.push(request);
        });
        self.unless_mute().await;
        Ok(Response::new(wire::MoveResponse { moved, sequence: 1 }))
    }

    async fn list_box(
        &self,
        request: Request<wire::ListBoxRequest>,
    ) -> Result<Response<wire::ListBoxResponse>, Status> {
        self.check(request.into_inner().caller)?;
        let threads = self.0.borrow().mail.unseen.clone();
        let total = threads.len() as u64;
        Ok(Response::new(wire::ListBoxResponse { threads, total, ..Default::default() }))
    }

    async fn read_thread(
        &self,
        request: Request<wire::ReadThreadRequest>,
    ) -> Result<Response<wire::ReadThreadResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller.clone())?;
        assert_eq!(request.mark(), wire::MailMark::None, "a node tells by itself");
        let world = self.0.borrow();
        let mut threads = world.mail.unseen.iter();
        let thread = threads.find(|it| it.message_id == request.message).cloned();
        if thread.is_none() {
            return Err(Reason::UnknownMessage.status("there is no such thread"));
        }
        Ok(Response::new(wire::ReadThreadResponse { thread, ..Default::default() }))
    }

    async fn await_mail(
        &self,
        _: Request<wire::AwaitMailRequest>,
    ) -> Result<Response<wire::AwaitMailResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn mark_mail(
        &self,
        request: Request<wire::MarkMailRequest>,
    ) -> Result<Response<wire::MarkMailResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller.clone())?;
        self.with(|world| world.mail.marks.push(request));
        Ok(Response::new(wire::MarkMailResponse {}))
    }

    async fn search_mail(
        &self,
        _: Request<wire::SearchMailRequest>,
    ) -> Result<Response<wire::SearchMailResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_mailboxes(
        &self,
        request: Request<wire::ListMailboxesRequest>,
    ) -> Result<Response<wire::ListMailboxesResponse>, Status> {
        self.check(request.into_inner().caller)?;
        let of = |role: &str| wire::MailboxState { role: role.to_owned(), ..Default::default() };
        let mailboxes = vec![of("A"), of("B")];
        Ok(Response::new(wire::ListMailboxesResponse { mailboxes }))
    }

    async fn open_mailbox(
        &self,
        request: Request<wire::OpenMailboxRequest>,
    ) -> Result<Response<wire::OpenMailboxResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller)?;
        let what = format!("open {}", request.role);
        self.with(|world| world.mail.asked(request.key.as_ref(), &what));
        Ok(Response::new(wire::OpenMailboxResponse { repeated: false }))
    }

    async fn close_mailbox(
        &self,
        request: Request<wire::CloseMailboxRequest>,
    ) -> Result<Response<wire::CloseMailboxResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller)?;
        let what = format!("close {}", request.role);
        self.with(|world| world.mail.asked(request.key.as_ref(), &what));
        Ok(Response::new(wire::CloseMailboxResponse { repeated: false }))
    }

    async fn list_dead_letters(
        &self,
        _: Request<wire::ListDeadLettersRequest>,
    ) -> Result<Response<wire::ListDeadLettersResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn hand_again(
        &self,
        _: Request<wire::HandAgainRequest>,
    ) -> Result<Response<wire::HandAgainResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn import_thread(
        &self,
        _: Request<wire::ImportThreadRequest>,
    ) -> Result<Response<wire::ImportThreadResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn put_attachment(
        &self,
        request: Request<Streaming<wire::PutAttachmentRequest>>,
    ) -> Result<Response<wire::PutAttachmentResponse>, Status> {
        use put_attachment_request::Part;
        let mut parts = request.into_inner();
        let first = parts.message().await?.and_then(|it| it.part);
        let Some(Part::Head(head)) = first else {
            return Err(Status::invalid_argument("no head"));
        };
        self.check(head.caller)?;
        let is_to_break = self.with(|world| world.mail.is_transfer_to_break());
        let mut content = Vec::new();
        while let Some(part) = parts.message().await? {
            let Some(Part::Chunk(chunk)) = part.part else {
                return Err(Status::invalid_argument("two heads"));
            };
            content.extend(chunk);
            if is_to_break {
                return Err(Status::internal("the connection broke"));
            }
        }
        self.with(|world| world.mail.files.insert(head.hash, content));
        Ok(Response::new(wire::PutAttachmentResponse { repeated: false }))
    }

    type GetAttachmentStream =
        Pin<Box<dyn Stream<Item = Result<wire::GetAttachmentResponse, Status>> + Send>>;

    async fn get_attachment(
        &self,
        request: Request<wire::GetAttachmentRequest>,
    ) -> Result<Response<Self::GetAttachmentStream>, Status> {
        let request = request.into_inner();
        self.check(request.caller)?;
        let (content, is_to_break) = self.with(|world| {
            let content = world.mail.files.get(&request.hash).cloned();
            (content, world.mail.is_transfer_to_break())
        });
        let content =
            content.ok_or_else(|| Reason::UnknownAttachment.status("there is no such file"))?;
        let mut pieces: Vec<_> = content
            .chunks(100_000)
            .map(|chunk| Ok(wire::GetAttachmentResponse { chunk: chunk.to_vec() }))
            .collect();
        if is_to_break {
            pieces.truncate(1);
            pieces.push(Err(Status::internal("the connection broke")));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
    }
}
