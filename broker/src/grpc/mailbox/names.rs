//! What callers call threads, and which ones those are.
//!
//! A name is an id, the beginning of one, or a file's name. It is looked up as the role that
//! asks, so another's thread is as if it were not there. All names of a call cost the workspace
//! one turn; only what a file is called is in the journal.

use tasuki_proto::{
    id::RoleId,
    mail::{MessageId, MessageName},
    reason::Reason,
};
use tonic::Status;

use super::{super::WorkspaceSession, status};
use crate::{
    rules::{Rejection, mailbox::Mailboxes},
    workspace::View,
};

/// Candidates named in a refusal.
const CANDIDATES_MAX: usize = 5;

/// The one thread that a name means.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) thread: MessageId,
    /// Where the name was that of its file.
    file_name: Option<String>,
}

impl WorkspaceSession {
    /// The one thread of the role that `name` names.
    pub(super) async fn thread_named(
        &self,
        role: &RoleId,
        field: &str,
        name: &str,
    ) -> Result<Named, Status> {
        let names = [name.to_owned()];
        self.threads_named(role, field, &names).await?.pop().expect("one for each name")
    }

    /// The same of several, each judged by itself; in the order of the names.
    pub(super) async fn threads_named(
        &self,
        role: &RoleId,
        field: &str,
        names: &[String],
    ) -> Result<Vec<Result<Named, Status>>, Status> {
        let parsed: Vec<_> = names.iter().map(|name| parse(field, name)).collect();
        let wanted: Vec<MessageName> =
            parsed.iter().filter_map(|it| it.as_ref().ok().cloned()).collect();
        let asker = role.clone();
        let found = self.query(Some(role), move |view| {
            let mail = &view.workspace.mail;
            Ok(wanted.iter().map(|name| find(mail, &asker, name)).collect::<Vec<_>>())
        });
        let mut found = found.await?.into_iter();
        let named = names.iter().zip(parsed).map(|(name, parsed)| {
            let parsed = parsed?;
            let found = found.next().expect("one for each that is a name");
            self.decide(role, name, &parsed, found)
        });
        Ok(named.collect())
    }

    /// The one thread of the role that `name` names, and what `query` says of it: as a rule in
    /// one turn, in two where several threads have names that begin alike.
    pub(super) async fn query_named<T: Send + 'static>(
        &self,
        role: &RoleId,
        field: &str,
        name: &str,
        query: impl Fn(&View<'_>, MessageId) -> Result<T, Rejection> + Clone + Send + 'static,
    ) -> Result<(Named, T), Status> {
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
        let named = self.decide(role, name, &parsed, found)?;
        let thread = named.thread;
        let told = match told {
            Some(told) => told,
            None => self.query(Some(role), move |view| query(view, thread)).await?,
        };
        Ok((named, told))
    }

    /// What the file of a thread is called.
    pub(super) fn file_name(&self, named: &Named) -> Result<String, Status> {
        match &named.file_name {
            Some(name) => Ok(name.clone()),
            None => Ok(self.title(named.thread)?.file_name),
        }
    }

    fn decide(
        &self,
        role: &RoleId,
        name: &str,
        parsed: &MessageName,
        mut found: Vec<MessageId>,
    ) -> Result<Named, Status> {
        let mut file_name = None;
        if let MessageName::File { name, .. } = parsed {
            let mut same = Vec::new();
            for id in found {
                if self.title(id)?.file_name == *name {
                    same.push(id);
                }
            }
            found = same;
            file_name = Some(name.clone());
        }
        match found.as_slice() {
            [one] => Ok(Named { thread: *one, file_name }),
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
