//! Tells keepers which threads changed, as the broker tells of it.
//!
//! **Z6** A change is told of, or its keeper lists all: a feed that could not go on where it was
//! has every keeper list its boxes.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::RoleId,
    wire::{self, event::Noun, mail_event::Kind},
};
use tokio::time;

use super::{dirty_set::DirtySet, source::Source};
use crate::client::{
    feed::{self, Ended, Last},
    retry::{Backoff, chance},
};

/// What each role's keeper is told with.
#[derive(Debug, Clone, Default)]
pub(super) struct DirtySets(Arc<Mutex<BTreeMap<RoleId, Arc<DirtySet>>>>);

impl DirtySets {
    pub(super) fn get(&self) -> MutexGuard<'_, BTreeMap<RoleId, Arc<DirtySet>>> {
        self.0.lock()
    }

    fn all_mail(&self) {
        self.get().values().for_each(|dirty| dirty.all_mail());
    }

    fn take(&self, item: &wire::FeedItem) {
        for event in &item.events {
            match &event.noun {
                Some(Noun::Mail(wire::MailEvent { kind: Some(kind) })) => self.take_mail(kind),
                Some(
                    Noun::Directory(_)
                    | Noun::Turn(_)
                    | Noun::Swarm(_)
                    | Noun::Run(_)
                    | Noun::Guard(_)
                    | Noun::Call(_)
                    | Noun::Board(_)
                    | Noun::Pipeline(_),
                ) => {}
                // What was sealed may be read now; or of a newer broker.
                Some(Noun::Privacy(_) | Noun::Mail(wire::MailEvent { kind: None })) | None => {
                    self.all_mail();
                }
            }
        }
    }

    fn take_mail(&self, kind: &Kind) {
        match kind {
            // Whoever has a copy reads all of the thread, addressed or not.
            Kind::MailSent(it) => {
                self.thread(&it.message_id, it.receivers.iter().chain([&it.sender]), true);
            }
            Kind::MailImported(it) => self.thread(&it.message_id, &it.participants, true),
            Kind::MailMoved(it) => self.thread(&it.message_id, [&it.role], false),
            Kind::MailLapsed(it) => self.thread(&it.message_id, &it.roles, false),
            Kind::MailMarked(_)
            | Kind::MailDied(_)
            | Kind::MailboxOpened(_)
            | Kind::MailboxClosed(_) => {}
        }
    }

    /// `with_others`: roles that have a copy and are not named are concerned too.
    fn thread<'a>(&self, id: &str, roles: impl IntoIterator<Item = &'a String>, with_others: bool) {
        let Ok(id) = id.parse() else { return };
        let keepers = self.get();
        for role in roles {
            let role: Option<RoleId> = role.parse().ok();
            if let Some(dirty) = role.and_then(|role| keepers.get(&role)) {
                dirty.thread(id, true);
            }
        }
        if with_others {
            keepers.values().for_each(|dirty| dirty.thread(id, false));
        }
    }
}

/// Runs until it is dropped.
pub(super) async fn run(source: Arc<dyn Source>, told: DirtySets) {
    let mut backoff = Backoff::default();
    // The record that was told last.
    let mut last: Option<Last> = None;
    loop {
        source.ready().await;
        let before = last;
        match listen(&*source, &told, &mut last).await {
            Ended::Broken(why) => tracing::debug!(why, "the mirror's feed is to be opened again"),
            ended @ (Ended::Compacted { .. } | Ended::Lost(_)) => {
                tracing::debug!(?ended, "the mirror's feed begins anew");
                last = None;
            }
        }
        if last != before {
            backoff.reset();
        }
        time::sleep(backoff.pause(chance())).await;
    }
}

async fn listen(source: &dyn Source, told: &DirtySets, last: &mut Option<Last>) -> Ended {
    let from = last.map_or(0, |last| last.sequence);
    let mut items = match source.follow(from).await {
        Ok(items) => items,
        Err(ended) => return ended,
    };
    match last {
        Some(last) => match feed::resume(items, *last).await {
            Ok(resumed) => items = resumed,
            Err(ended) => return ended,
        },
        // What came before is not told.
        None => told.all_mail(),
    }
    loop {
        match items.next().await {
            Some(Ok(item)) => {
                *last = Some(Last::of(&item));
                told.take(&item);
            }
            Some(Err(ended)) => return ended,
            None => return Ended::silently(),
        }
    }
}
