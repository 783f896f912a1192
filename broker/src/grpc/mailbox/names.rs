//! What callers call threads, and which ones those are.
//!
//! A name is an id, the beginning of one, or a file's name. It is looked up as the role that
//! asks, so another's thread is as if it were not there. A command finds what its names mean in its
//! own turn of the workspace, once no answer is kept under its key: more threads may begin alike when
//! it is repeated. Only what a file is called is in the journal, and read before.

use tasuki_proto::{
    id::RoleId,
    mail::{MessageId, MessageName},
    reason::Reason,
};
use tonic::Status;

use super::{
    super::{LaterRefusal, WorkspaceSession},
    status,
};
use crate::{
    rules::{Rejection, mailbox::Mailboxes},
    workspace::View,
};

/// Candidates named in a refusal.
const CANDIDATES_MAX: usize = 5;

/// What a caller calls a thread, for the turn of a command.
#[derive(Debug, Clone)]
pub(super) struct ThreadName {
    text: String,
    target: NameTarget,
}

#[derive(Debug, Clone)]
enum NameTarget {
    Parsed(MessageName),
    /// The threads whose file has the name.
    File(Vec<MessageId>),
}

impl ThreadName {
    /// Threads of the role that it may mean.
    pub(super) fn find(&self, mail: &Mailboxes, role: &RoleId) -> Vec<MessageId> {
        match &self.target {
            NameTarget::Parsed(name) => find(mail, role, name),
            NameTarget::File(found) => found.clone(),
        }
    }

    /// The one thread of the role that it means, or why it means none.
    pub(super) fn find_one(
        &self,
        view: &View<'_>,
        role: &RoleId,
    ) -> Result<MessageId, LaterRefusal> {
        let found = self.find(&view.workspace.mail, role);
        if let [one] = found.as_slice() {
            return Ok(*one);
        }
        let (role, text) = (role.clone(), self.text.clone());
        Err(Box::new(move |session| session.not_one(&role, &text, &found)))
    }
}

impl WorkspaceSession {
    /// A name of a thread of the role, for a command.
    pub(super) async fn thread_name(
        &self,
        role: &RoleId,
        field: &str,
        text: &str,
    ) -> Result<ThreadName, Status> {
        let texts = [text.to_owned()];
        self.thread_names(role, field, &texts).await?.pop().expect("one for each text")
    }

    /// The same of several, each judged by itself; in the order of the texts.
    pub(super) async fn thread_names(
        &self,
        role: &RoleId,
        field: &str,
        texts: &[String],
    ) -> Result<Vec<Result<ThreadName, Status>>, Status> {
        self.check_role(role)?;
        let parsed: Vec<_> = texts.iter().map(|text| parse(field, text)).collect();
        let shorts = parsed.iter().filter_map(|it| match it {
            Ok(MessageName::File { short, .. }) => Some(*short),
            Ok(MessageName::Id(_) | MessageName::Prefix(_)) | Err(_) => None,
        });
        let shorts: Vec<u32> = shorts.collect();
        let mut found = Vec::new();
        if !shorts.is_empty() {
            let asker = role.clone();
            // Whether the caller may act as the role is part of the command's answer.
            let looked = self.query(None, move |view| {
                let mail = &view.workspace.mail;
                Ok(shorts.iter().map(|it| mail.find_short(&asker, *it)).collect::<Vec<_>>())
            });
            found = looked.await?;
        }
        let mut found = found.into_iter();
        let mut names = Vec::with_capacity(texts.len());
        for (text, parsed) in texts.iter().zip(parsed) {
            names.push(match parsed {
                Ok(MessageName::File { name, .. }) => {
                    let found = found.next().expect("one for each file");
                    let target = NameTarget::File(self.with_file_name(found, &name)?);
                    Ok(ThreadName { text: text.clone(), target })
                }
                Ok(name @ (MessageName::Id(_) | MessageName::Prefix(_))) => {
                    Ok(ThreadName { text: text.clone(), target: NameTarget::Parsed(name) })
                }
                Err(status) => Err(status),
            });
        }
        Ok(names)
    }

    /// What `query` says of the one thread of the role that `name` names: as a rule in one turn, in
    /// two where several threads have names that begin alike.
    pub(super) async fn query_named<T: Send + 'static>(
        &self,
        role: &RoleId,
        field: &str,
        name: &str,
        query: impl Fn(&View<'_>, MessageId) -> Result<T, Rejection> + Clone + Send + 'static,
    ) -> Result<T, Status> {
        let parsed = parse(field, name)?;
        let (asker, wanted, first) = (role.clone(), parsed.clone(), query.clone());
        let looked = self.query(Some(role), move |view| {
            let found = find(&view.workspace.mail, &asker, &wanted);
            let told = match found.as_slice() {
                [one] => Some(first(view, *one)?),
                _ => None,
            };
            Ok((found, told))
        });
        let (found, told) = looked.await?;
        let found = match &parsed {
            MessageName::File { name, .. } => self.with_file_name(found, name)?,
            MessageName::Id(_) | MessageName::Prefix(_) => found,
        };
        let [thread] = found[..] else { return Err(self.not_one(role, name, &found)) };
        match told {
            Some(told) => Ok(told),
            None => self.query(Some(role), move |view| query(view, thread)).await,
        }
    }

    /// Why a name is refused that means none of the role's threads, or several: those found.
    pub(super) fn not_one(&self, role: &RoleId, name: &str, found: &[MessageId]) -> Status {
        if found.is_empty() {
            return Reason::UnknownMessage.status(format!("{role} has no message {name}"));
        }
        let mut names = Vec::new();
        for id in found.iter().take(CANDIDATES_MAX) {
            match self.title(*id) {
                Ok(title) => names.push(format!("{id} ({})", title.file_name)),
                Err(status) => return status,
            }
        }
        Reason::AmbiguousMessage.status(format!(
            "{name} may be one of several messages of {role}; name more of it: {}{}",
            names.join(", "),
            if CANDIDATES_MAX < found.len() { ", …" } else { "" },
        ))
    }

    /// Those of the threads whose file is called so.
    fn with_file_name(&self, found: Vec<MessageId>, name: &str) -> Result<Vec<MessageId>, Status> {
        let mut same = Vec::new();
        for id in found {
            if self.title(id)?.file_name == name {
                same.push(id);
            }
        }
        Ok(same)
    }
}

fn parse(field: &str, name: &str) -> Result<MessageName, Status> {
    name.parse().map_err(|e| status::invalid(field, &e))
}

/// Threads that it may be.
fn find(mail: &Mailboxes, role: &RoleId, name: &MessageName) -> Vec<MessageId> {
    match name {
        MessageName::Id(id) => mail.find(role, *id).map(|_| vec![*id]).unwrap_or_default(),
        MessageName::Prefix(digits) => mail.find_prefix(role, digits, CANDIDATES_MAX + 1),
        MessageName::File { short, .. } => mail.find_short(role, *short),
    }
}
