//! Answers on their way in: which words are shown, and what is said of those that are not (Y7).

use std::collections::BTreeSet;

use tasuki_proto::{id::RoleId, mail::MessageId, private::KeyId, wire};

use super::{Ask, Sealer, Standing, TRUST, refusing::in_background};
use crate::private::{
    envelope::{Closed, Envelope, Words},
    keys::NodeKeys,
    store::StoreError,
};

/// Entries whose place is remembered, to notice one that is shown at two.
const PLACES_MAX: usize = 65_536;

/// Why an entry's words are not shown (Y7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    #[error("mail here is private, and this machine trusts no owner's key yet; {TRUST}")]
    NoTrust,
    #[error("whose keys read mail here is not to be had: {0}")]
    NoRoster(String),
    #[error("its bytes are not those of a sealed entry: {0}")]
    Malformed(String),
    #[error("its {0} is not the one it was sealed with: it was moved here from elsewhere")]
    Moved(&'static str),
    #[error("nobody that the owner vouched for signed it (key {0})")]
    Unknown(KeyId),
    #[error("it was signed by {node}, which the owner never vouched for as {role}")]
    NotTheirs { node: String, role: RoleId },
    #[error("it came after the key that signed it was withdrawn")]
    Retired,
    #[error("its signature does not hold: it was changed")]
    Signature,
    #[error("it is a copy of entry {number} of thread {thread}")]
    Copy { thread: MessageId, number: u32 },
    #[error("it was sealed before this node could read it, or for others; ask its sender again")]
    NotForUs,
    #[error("its sender sealed something that is no entry")]
    Broken,
    #[error("this node's keys cannot be read: {0}")]
    Keys(String),
}

/// What stands where words would.
pub fn unopened(why: &Unopened) -> String {
    format!("[This entry is sealed and is not shown: {why}.]")
}

/// What stands before words that came in the clear where mail is private.
pub const NOT_SEALED: &str = "[Not sealed: written before mail here was private, or by somebody \
                              who has the broker.]\n\n";

/// The subject of a thread whose first entry is not opened.
pub const NO_SUBJECT: &str = "(sealed)";

impl Sealer {
    /// Opens what a thread shows: its words, and its subject. What is still `sealed` after it has
    /// the reason for a text.
    pub async fn open_thread(
        &self,
        ask: &dyn Ask,
        thread: &mut wire::MailThread,
        entries: &mut [wire::MailEntry],
    ) {
        let sealed = |it: &wire::MailEntry| it.sealed.is_some();
        let is_sealed = thread.first.as_ref().is_some_and(sealed) || entries.iter().any(sealed);
        let standing = self.standing_to_read(ask, is_sealed, || {
            let all = thread.first.iter().chain(entries.iter());
            all.filter_map(signer).collect()
        });
        let Some(stand) = standing.await else { return };
        let this = self.clone();
        let (mut whole, mut opened) = (std::mem::take(thread), entries.to_vec());
        let work = move || {
            let keys = NodeKeys::read(&this.0.data);
            let by = By { stand: &stand, keys: &keys };
            this.open_one(&by, &mut whole, &mut opened);
            (whole, opened)
        };
        let (whole, opened) = in_background(work).await;
        *thread = whole;
        entries.clone_from_slice(&opened);
    }

    /// Opens what a list of threads shows: their subjects.
    pub async fn open_threads(&self, ask: &dyn Ask, threads: &mut Vec<wire::MailThread>) {
        let firsts = || threads.iter().filter_map(|it| it.first.as_ref());
        let is_sealed = firsts().any(|it| it.sealed.is_some());
        let standing =
            self.standing_to_read(ask, is_sealed, || firsts().filter_map(signer).collect());
        let Some(stand) = standing.await else { return };
        let this = self.clone();
        let mut whole = std::mem::take(threads);
        let work = move || {
            let keys = NodeKeys::read(&this.0.data);
            let by = By { stand: &stand, keys: &keys };
            for thread in &mut whole {
                this.open_one(&by, thread, &mut []);
            }
            whole
        };
        *threads = in_background(work).await;
    }

    /// By what to judge entries, and whether plain ones are remarked on; `None` where there is
    /// nothing to open or to remark on. Asks again, once, if somebody signed whom the last roster
    /// seen does not have, or if this machine was told since that mail is private.
    ///
    /// A broker that keeps the roster back, lies about it or is out of reach makes nobody believe
    /// plain words: what this machine was told counts (Y7).
    async fn standing_to_read(
        &self,
        ask: &dyn Ask,
        is_sealed: bool,
        signers: impl Fn() -> BTreeSet<KeyId>,
    ) -> Option<Stand> {
        let known = self.state().standing.clone();
        // Whoever cannot read what was told had better not believe.
        let is_pinned = match &known {
            Some(Standing::Private(_)) => true,
            Some(Standing::Open | Standing::Stranger(_) | Standing::Ended(_)) | None => {
                self.is_pinned().await.unwrap_or(true)
            }
        };
        let is_enough = match &known {
            None => false,
            Some(Standing::Open | Standing::Stranger(_)) if is_pinned => false,
            Some(standing) => {
                let roster = standing.roster();
                let has = |id: &KeyId| roster.is_some_and(|it| it.key(id).is_some());
                !is_sealed || (roster.is_some() && signers().iter().all(has))
            }
        };
        let stand = match known {
            Some(standing) if is_enough => Stand { standing, is_private: is_pinned, unseen: None },
            earlier => match self.look(ask).await {
                Ok(standing) => {
                    let is_private = matches!(standing, Standing::Private(_));
                    Stand { standing, is_private, unseen: None }
                }
                Err(refusal) => {
                    tracing::debug!(%refusal, "the roster cannot be had");
                    Stand {
                        standing: earlier.unwrap_or(Standing::Open),
                        is_private: is_pinned,
                        unseen: Some(refusal.message),
                    }
                }
            },
        };
        (is_sealed || stand.is_private).then_some(stand)
    }

    fn open_one(
        &self,
        by: &By<'_>,
        thread: &mut wire::MailThread,
        entries: &mut [wire::MailEntry],
    ) {
        let By { stand, keys } = *by;
        let id: Option<MessageId> = thread.message_id.parse().ok();
        let mut subject = None;
        for entry in thread.first.iter_mut().chain(entries) {
            let Some(sealed) = entry.sealed.take() else {
                if stand.is_private {
                    entry.text.insert_str(0, NOT_SEALED);
                }
                continue;
            };
            let words = self.words(stand, keys, id, entry, &sealed.envelope);
            if entry.number == 1 {
                let shown = words.as_ref().map(|it| it.subject.clone());
                subject = Some(shown.unwrap_or_else(|_| NO_SUBJECT.to_owned()));
            }
            entry.text = match words {
                Ok(words) => words.text,
                Err(why) => {
                    entry.sealed = Some(sealed);
                    unopened(&why)
                }
            };
        }
        if let Some(subject) = subject {
            thread.subject = subject;
        }
    }

    /// The words of an entry that the broker shows in this place, if everything about it holds.
    fn words(
        &self,
        stand: &Stand,
        keys: &Result<NodeKeys, StoreError>,
        thread: Option<MessageId>,
        entry: &wire::MailEntry,
        bytes: &[u8],
    ) -> Result<Words, Unopened> {
        let roster = stand.standing.roster().ok_or_else(|| match &stand.unseen {
            Some(why) => Unopened::NoRoster(why.trim_end_matches('.').to_owned()),
            None => Unopened::NoTrust,
        })?;
        let envelope =
            Envelope::parse(bytes).map_err(|why| Unopened::Malformed(why.to_string()))?;
        let it = &envelope.address;
        let vouched = roster.key(&it.key).ok_or(Unopened::Unknown(it.key))?;
        if !envelope.is_by(&vouched.sign) {
            return Err(Unopened::Signature);
        }
        if !vouched.ever_played(&it.sender) {
            let (node, role) = (vouched.node.to_string(), it.sender.clone());
            return Err(Unopened::NotTheirs { node, role });
        }
        if !vouched.is_in_use() && vouched.retired_ms < entry.at_ms {
            return Err(Unopened::Retired);
        }
        let receivers: BTreeSet<&str> = entry.receivers.iter().map(String::as_str).collect();
        for (what, is_same) in [
            ("workspace", it.workspace == self.0.workspace),
            ("owner", it.owner == roster.owner.id()),
            ("thread", Some(it.thread) == thread),
            (
                "place in the thread",
                it.after < entry.number && (it.after == 0) == (entry.number == 1),
            ),
            ("sender", it.sender.as_str() == entry.sender),
            ("type", it.kind.as_str() == entry.r#type),
            ("list of receivers", it.receivers.iter().map(RoleId::as_str).eq(receivers)),
        ] {
            if !is_same {
                return Err(Unopened::Moved(what));
            }
        }
        self.place(it.nonce, it.thread, entry.number)?;
        let keys = keys.as_ref().map_err(|why| Unopened::Keys(why.to_string()))?;
        envelope.open(keys).map_err(|why| match why {
            Closed::NotForUs => Unopened::NotForUs,
            Closed::Broken => Unopened::Broken,
        })
    }

    /// Remembers where an entry was shown; the same at another place is a copy.
    fn place(&self, nonce: [u8; 16], thread: MessageId, number: u32) -> Result<(), Unopened> {
        let mut state = self.state();
        if let Some((thread, first)) = state.places.get(&nonce).copied() {
            let is_same = first == number;
            return if is_same { Ok(()) } else { Err(Unopened::Copy { thread, number: first }) };
        }
        if PLACES_MAX <= state.oldest.len()
            && let Some(oldest) = state.oldest.pop_front()
        {
            state.places.remove(&oldest);
        }
        state.oldest.push_back(nonce);
        state.places.insert(nonce, (thread, number));
        Ok(())
    }
}

/// How mail stands, for whoever reads.
struct Stand {
    standing: Standing,
    /// Whether plain words are remarked on.
    is_private: bool,
    /// Why what the broker shows by now does not count.
    unseen: Option<String>,
}

/// By what entries are judged.
struct By<'a> {
    stand: &'a Stand,
    keys: &'a Result<NodeKeys, StoreError>,
}

fn signer(entry: &wire::MailEntry) -> Option<KeyId> {
    let sealed = entry.sealed.as_ref()?;
    Some(Envelope::parse(&sealed.envelope).ok()?.address.key)
}
