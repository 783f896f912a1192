//! All mail that a broker has, asked for over gRPC by a client that has seen none of it before.

use std::{collections::BTreeMap, net::SocketAddr};

use tasuki_proto::wire::{
    self, Box, MailEntry, MailMark, directory_client::DirectoryClient,
    mailbox_client::MailboxClient,
};
use tonic::transport::Channel;

const BOXES: [Box; 4] = [Box::Inbox, Box::Outbox, Box::Done, Box::Cancel];

pub(crate) struct Book(Channel);

/// A thread, and in which boxes each role has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thread {
    pub(crate) entries: Vec<MailEntry>,
    pub(crate) boxes: BTreeMap<String, Vec<Box>>,
}

impl Thread {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.entries.iter().map(|it| it.text.as_str()).collect()
    }
}

impl Book {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let address = format!("http://{address}");
        Self(Channel::from_shared(address).unwrap().connect().await.unwrap())
    }

    pub(crate) fn mail(&self) -> MailboxClient<Channel> {
        MailboxClient::new(self.0.clone()).max_decoding_message_size(8 * 1024 * 1024)
    }

    /// Threads of a box, in its order.
    pub(crate) async fn listed(&self, role: &str, place: Box) -> Vec<wire::MailThread> {
        let (mut threads, mut after) = (Vec::new(), String::new());
        loop {
            let request = wire::ListBoxRequest {
                role: role.to_owned(),
                r#box: place.into(),
                limit: 1000,
                after,
                ..Default::default()
            };
            let listed = self.mail().list_box(request).await.unwrap().into_inner();
            threads.extend(listed.threads);
            after = listed.next;
            if after.is_empty() {
                assert_eq!(listed.total, threads.len() as u64);
                return threads;
            }
        }
    }

    pub(crate) async fn read(&self, role: &str, id: &str) -> Vec<MailEntry> {
        let (mut entries, mut from) = (Vec::new(), 1);
        while from != 0 {
            let request = wire::ReadThreadRequest {
                role: role.to_owned(),
                message: id.to_owned(),
                from,
                mark: MailMark::None.into(),
                ..Default::default()
            };
            let read = self.mail().read_thread(request).await.unwrap().into_inner();
            entries.extend(read.entries);
            from = read.next;
        }
        entries
    }

    /// All that these roles have, by the threads' ids. Whoever has a thread reads the same in it.
    pub(crate) async fn all(&self, roles: &[&str]) -> BTreeMap<String, Thread> {
        let mut all: BTreeMap<String, Thread> = BTreeMap::new();
        for (role, place) in roles.iter().flat_map(|role| BOXES.map(|place| (*role, place))) {
            for listed in self.listed(role, place).await {
                assert_eq!(listed.r#box(), place, "{listed:?}");
                let entries = self.read(role, &listed.message_id).await;
                assert_eq!(entries.len(), listed.entries as usize, "{listed:?}");
                let known = all.entry(listed.message_id.clone());
                let thread = known
                    .or_insert_with(|| Thread { entries: entries.clone(), boxes: BTreeMap::new() });
                let later = entries.iter().zip(&mut thread.entries);
                later.for_each(|(read, known)| known.receipts = later_receipts(known, read));
                assert_eq!(thread.entries, entries, "{role} reads {} otherwise", listed.message_id);
                thread.boxes.entry(role.to_owned()).or_default().push(place);
            }
        }
        all
    }

    /// Waits parked, of all roles.
    pub(crate) async fn waits(&self) -> usize {
        let caller = Some(wire::Caller::default());
        let mut directory = DirectoryClient::new(self.0.clone());
        let roles = directory
            .list_roles(wire::ListRolesRequest { caller, ..Default::default() })
            .await
            .unwrap();
        roles.into_inner().roles.iter().map(|role| role.waits.len()).sum()
    }
}

/// How far an entry got, as it was read later: nodes still report that between two reads, and what
/// they reported once is never taken back.
fn later_receipts(known: &MailEntry, read: &MailEntry) -> Vec<wire::MailReceipt> {
    let stages = |it: &wire::MailReceipt| {
        [it.stored_ms, it.handed_ms, it.seen_ms, it.acted_ms, it.lapsed_ms, it.dead_ms]
    };
    assert_eq!(known.receipts.len(), read.receipts.len(), "{known:?} {read:?}");
    for (earlier, later) in known.receipts.iter().zip(&read.receipts) {
        assert_eq!(earlier.role, later.role, "{known:?} {read:?}");
        let mut both = stages(earlier).into_iter().zip(stages(later));
        assert!(both.all(|(was, is)| was == 0 || was == is), "{known:?} {read:?}");
    }
    read.receipts.clone()
}
