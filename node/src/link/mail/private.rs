//! Private mail on its way through the link: sealed as it leaves, opened as it comes in, so that
//! nobody further in has to know of it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire,
};
use tokio::{
    sync::{Mutex as AsyncMutex, oneshot},
    time,
};

use super::super::{Link, stopping};
use crate::{
    client::any::AnyResponse,
    private::{
        Ask, Fresh, Sealer, Unsealable,
        finding::{self, Own, own::Limits},
    },
    refusal::Refusal,
};

impl Link {
    pub(in crate::link) fn sealer(&self) -> &Sealer {
        &self.shared.sealer
    }

    /// Whether what cannot be sealed may leave this node.
    pub(in crate::link) async fn may_leave_plain(&self, what: Unsealable) -> Result<(), Refusal> {
        self.sealer().check_plain(self, what, Fresh::IfPrivate).await
    }

    /// Opens what a response shows of mail, where it is sealed.
    pub(in crate::link) async fn open(&self, response: &mut AnyResponse) {
        if let Some(it) = response.downcast_mut::<wire::ListBoxResponse>() {
            self.sealer().open_threads(self, &mut it.threads).await;
        } else if let Some(it) = response.downcast_mut::<wire::ListDeadLettersResponse>() {
            self.sealer().open_threads(self, &mut it.threads).await;
        } else if let Some(it) = response.downcast_mut::<wire::ReadThreadResponse>() {
            self.open_entries(it.thread.as_mut(), &mut it.entries).await;
        }
    }

    /// The same of a thread's entries.
    pub(crate) async fn open_entries(
        &self,
        thread: Option<&mut wire::MailThread>,
        entries: &mut [wire::MailEntry],
    ) {
        if let Some(thread) = thread {
            self.sealer().open_thread(self, thread, entries).await;
        }
    }
}

/// Roles whose mail is kept to be searched: it is in memory, words and index.
const SEARCHED_ROLES_MAX: usize = 4;

/// How long a search waits for mail to be read, in milliseconds: clients give up after a minute.
const SEARCH_MS_MAX: u64 = 40_000;

/// The mail of roles, as far as it was looked through.
#[derive(Debug, Clone, Default)]
pub(in crate::link) struct SearchIndexes(Arc<Mutex<Vec<Searched>>>);

/// A role, and what was looked through of its mail.
type Searched = (RoleId, Arc<AsyncMutex<Own>>);

impl SearchIndexes {
    /// The one that was asked for the longest time ago makes room.
    fn of(&self, role: &RoleId) -> Arc<AsyncMutex<Own>> {
        let mut all = self.0.lock();
        let own = match all.iter().position(|(of, _)| of == role) {
            Some(at) => all.remove(at).1,
            None => Arc::new(AsyncMutex::new(Own::new(role.clone(), Limits::default()))),
        };
        if SEARCHED_ROLES_MAX <= all.len() {
            all.remove(0);
        }
        all.push((role.clone(), own.clone()));
        own
    }
}

impl Link {
    /// Whether `role` may have mail that only this node can look through.
    pub(in crate::link) async fn searches_itself(&self) -> Result<bool, Refusal> {
        self.sealer().has_sealed(self).await
    }

    /// Looks through what this node can open. What was begun is ended even when nobody waits for
    /// it any more: whoever asks again finds it done.
    pub(in crate::link) async fn search_sealed(
        &self,
        role: &RoleId,
        request: wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Refusal> {
        let (link, own) = (self.clone(), self.indexes.of(role));
        let (answer, answered) = oneshot::channel();
        let closing = self.shared.closing.clone();
        self.spawn(async move {
            let search = async {
                let mut own = own.lock_owned().await;
                own.search(&link, &request).await
            };
            if let Some(found) = closing.run_until_cancelled(search).await {
                drop(answer.send(found));
            }
        });
        match time::timeout(Duration::from_millis(SEARCH_MS_MAX), answered).await {
            Ok(found) => found.unwrap_or_else(|_| Err(stopping())),
            Err(_) => Err(Refusal {
                reason: Reason::Unavailable,
                message: "Mail here is private, and this node is still reading and opening all of \
                          it to look through it. Nothing is wrong: ask again in a minute."
                    .to_owned(),
            }),
        }
    }
}

#[async_trait]
impl finding::Mail for Link {
    async fn sequence(&self, role: &RoleId) -> Result<u64, Refusal> {
        let request = wire::ListBoxRequest {
            role: role.to_string(),
            r#box: wire::Box::Inbox.into(),
            limit: 1,
            ..Default::default()
        };
        Ok(self.query(request).await?.sequence)
    }

    async fn list(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal> {
        self.query(finding::box_page(role, kind, after)).await
    }

    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        let request = wire::ReadThreadRequest {
            role: role.to_string(),
            message: id.to_string(),
            from,
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        let mut read = self.query(request).await?;
        self.open_entries(read.thread.as_mut(), &mut read.entries).await;
        Ok(read)
    }

    async fn follow(&self, from: u64) -> Result<finding::Items, finding::Ended> {
        self.subscribe(from).await
    }
}

#[async_trait]
impl Ask for Link {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal> {
        self.query(wire::GetRosterRequest::default()).await
    }

    async fn thread(&self, role: &str, message: &str) -> Result<wire::MailThread, Refusal> {
        let request = wire::ReadThreadRequest {
            role: role.to_owned(),
            message: message.to_owned(),
            last: 1,
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        Ok(self.query(request).await?.thread.unwrap_or_default())
    }
}
