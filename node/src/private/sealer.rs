//! What this node sends and reads where mail is private: requests on their way out are sealed,
//! answers on their way in are opened, in one place for everybody who asks.
//!
//! Where mail never was private and nobody is trusted, nothing is asked and nothing changes.

mod opening;
mod refusing;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::{RoleId, WorkspaceId},
    limits::{RECEIVERS_MAX, SUBJECT_BYTES_MAX, TEXT_BYTES_MAX},
    mail::MessageId,
    private::{KeyId, Roster, SignedRoster},
    reason::Reason,
    wire,
};

pub use self::opening::{NO_SUBJECT, NOT_SEALED, Unopened, unopened};
use self::refusing::{failed, invalid, not_vouched, on_disk, parsed, private};
use super::{
    envelope::{self, Address, Recipient, SealError, Words},
    keys::NodeKeys,
    store,
    trust::Pin,
};
use crate::refusal::Refusal;

/// What sealing asks the broker for.
#[async_trait]
pub trait Ask: Send + Sync {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal>;

    /// A thread as `role` has it: only looks, and its newest entry is enough.
    async fn thread(&self, role: &str, message: &str) -> Result<wire::MailThread, Refusal>;
}

/// How mail stands in a workspace, as far as this machine believes it.
#[derive(Debug, Clone)]
pub enum Standing {
    /// It never was private, as far as anybody said.
    Open,
    /// The broker shows a roster by an owner that nobody here trusts.
    Stranger(KeyId),
    Private(Arc<SignedRoster>),
    /// Its trusted owner turned it off.
    Ended(Arc<SignedRoster>),
}

impl Standing {
    fn roster(&self) -> Option<&Roster> {
        match self {
            Self::Private(it) | Self::Ended(it) => Some(it.roster()),
            Self::Open | Self::Stranger(_) => None,
        }
    }
}

/// What cannot be sealed, and so stays on this machine where mail is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsealable {
    #[error(
        "files are not sealed, and mail here is private; nothing was sent; put what matters into \
         the text"
    )]
    Files,
    #[error(
        "what is taken over is not sealed, and mail here is private; nothing of it was sent, and \
         the files stay as they are"
    )]
    Mailboxes,
    #[error("outputs of agents are not sealed, and mail here is private; nothing was sent")]
    Outputs,
    #[error(
        "calls of tools on other machines are not sealed, and mail here is private; nothing was sent"
    )]
    ToolCalls,
}

const TRUST: &str = "compare its fingerprint with what `tasuki mail private status` says on the \
                     owner's machine, and run `tasuki mail private trust FINGERPRINT` here";

/// Seals and opens for one workspace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sealer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    data: PathBuf,
    workspace: WorkspaceId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: nobody was asked yet.
    standing: Option<Standing>,
    places: BTreeMap<[u8; 16], (MessageId, u32)>,
    oldest: VecDeque<[u8; 16]>,
}

impl Sealer {
    /// With what is kept in a node's data directory.
    pub fn new(data: &Path, workspace: &WorkspaceId) -> Self {
        let (data, workspace) = (data.to_owned(), workspace.clone());
        Self(Arc::new(Shared { data, workspace, state: Mutex::default() }))
    }

    pub fn data(&self) -> &Path {
        &self.0.data
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// How mail stands by now.
    pub async fn look(&self, ask: &dyn Ask) -> Result<Standing, Refusal> {
        let shown = ask.roster().await?.roster;
        let this = self.clone();
        let judged = on_disk(move || this.judge(shown)).await?;
        self.state().standing = Some(judged.clone());
        Ok(judged)
    }

    /// What the broker shows, against what this machine trusts (Y6). Blocks on the disk.
    fn judge(&self, shown: Option<wire::SignedRoster>) -> Result<Standing, Refusal> {
        let Shared { data, workspace, .. } = &*self.0;
        let pin = Pin::read(data, workspace).map_err(|why| failed(&why))?;
        let Some(shown) = shown else {
            return match pin {
                None => Ok(Standing::Open),
                Some(Pin { number: 0, .. }) => Err(private(format!(
                    "mail in {workspace} is to be private, as this machine was told, and the \
                     broker has nothing of it yet"
                ))),
                Some(pin) => Err(private(format!(
                    "the broker shows no roster of {workspace}, of which this machine saw number \
                     {}: it lost it, or keeps it back",
                    pin.number
                ))),
            };
        };
        let signed = SignedRoster::of_wire(&shown).map_err(|why| {
            private(format!("the broker shows a roster that does not hold: {why}"))
        })?;
        let roster = signed.roster();
        let Some(pin) = pin else {
            return Ok(match roster.is_on {
                true => Standing::Stranger(roster.owner.id()),
                false => Standing::Open,
            });
        };
        if roster.workspace != *workspace {
            return Err(private(format!(
                "the broker shows the roster of {} as that of {workspace}",
                roster.workspace
            )));
        }
        if roster.owner.id() != pin.owner {
            return Err(private(format!(
                "the broker shows a roster by {}, and this machine trusts {}; if the owner \
                 changed, {TRUST}",
                roster.owner.id(),
                pin.owner
            )));
        }
        if roster.number < pin.number {
            return Err(private(format!(
                "the broker shows roster {} of {workspace}, and this machine saw number {}: it \
                 lost that, or keeps it back",
                roster.number, pin.number
            )));
        }
        if pin.number < roster.number {
            Pin::saw(data, roster).map_err(|why| failed(&why))?;
        }
        let signed = Arc::new(signed);
        Ok(if signed.roster().is_on { Standing::Private(signed) } else { Standing::Ended(signed) })
    }

    /// A request that was refused because mail is private by now, sealed; nothing of it was taken.
    pub async fn seal_again(
        &self,
        ask: &dyn Ask,
        request: wire::SendRequest,
        refusal: Refusal,
    ) -> Result<wire::SendRequest, Refusal> {
        if request.sealed.is_some() || refusal.reason != Reason::PrivateWorkspace {
            return Err(refusal);
        }
        let sealed = self.seal(ask, request, Fresh::Always).await?;
        if sealed.sealed.is_none() { Err(refusal) } else { Ok(sealed) }
    }

    /// How mail stood when it was last looked at, if it was not private then and nobody on this
    /// machine was told otherwise since.
    async fn known_as_open(&self) -> Result<Option<Standing>, Refusal> {
        let known = match self.state().standing.clone() {
            Some(known @ (Standing::Open | Standing::Ended(_))) => known,
            Some(Standing::Private(_) | Standing::Stranger(_)) | None => return Ok(None),
        };
        Ok((!self.is_pinned().await?).then_some(known))
    }

    /// Whether this machine was told that mail is private, whatever the broker says.
    async fn is_pinned(&self) -> Result<bool, Refusal> {
        if !Pin::may_be(self.data()) {
            return Ok(false);
        }
        let this = self.clone();
        let pin = on_disk(move || {
            let Shared { data, workspace, .. } = &*this.0;
            Pin::read(data, workspace).map_err(|why| failed(&why))
        });
        Ok(pin.await?.is_some_and(|pin| pin.is_on))
    }

    async fn standing(&self, ask: &dyn Ask, fresh: Fresh) -> Result<Standing, Refusal> {
        let known = match fresh {
            Fresh::IfPrivate => self.known_as_open().await?,
            Fresh::Always => None,
        };
        match known {
            Some(known) => Ok(known),
            None => self.look(ask).await,
        }
    }

    /// The roster to seal by; `None`: words may leave as they are.
    async fn sealing(
        &self,
        ask: &dyn Ask,
        fresh: Fresh,
    ) -> Result<Option<Arc<SignedRoster>>, Refusal> {
        match self.standing(ask, fresh).await? {
            Standing::Open | Standing::Ended(_) => Ok(None),
            Standing::Private(signed) => Ok(Some(signed)),
            Standing::Stranger(owner) => Err(private(format!(
                "mail in {} is private (owner's key {owner}), and this machine does not trust \
                 that key; {TRUST}",
                self.0.workspace
            ))),
        }
    }

    /// Whether there may be words that the broker cannot read, and this machine can.
    pub async fn has_sealed(&self, ask: &dyn Ask) -> Result<bool, Refusal> {
        let known = self.state().standing.clone();
        let standing = match known {
            Some(known @ (Standing::Private(_) | Standing::Ended(_))) => known,
            Some(known) if !self.is_pinned().await? => known,
            Some(_) | None => self.look(ask).await?,
        };
        Ok(standing.roster().is_some())
    }

    /// Refuses what can only leave in the clear, before any of it does, where mail is private
    /// (Y6).
    pub async fn check_plain(
        &self,
        ask: &dyn Ask,
        what: Unsealable,
        fresh: Fresh,
    ) -> Result<(), Refusal> {
        match self.sealing(ask, fresh).await? {
            None => Ok(()),
            Some(_) => Err(private(what.to_string())),
        }
    }

    /// A request as it may leave this node: sealed if mail is private.
    pub async fn seal(
        &self,
        ask: &dyn Ask,
        request: wire::SendRequest,
        fresh: Fresh,
    ) -> Result<wire::SendRequest, Refusal> {
        if request.sealed.is_some() {
            return Ok(request);
        }
        let Some(signed) = self.sealing(ask, fresh).await? else { return Ok(request) };
        let thread = match request.in_reply_to.as_str() {
            "" => None,
            message => Some(ask.thread(&request.role, message).await?),
        };
        let this = self.clone();
        on_disk(move || this.seal_for(signed.roster(), request, thread)).await
    }

    /// Blocks on the disk.
    fn seal_for(
        &self,
        roster: &Roster,
        mut request: wire::SendRequest,
        thread: Option<wire::MailThread>,
    ) -> Result<wire::SendRequest, Refusal> {
        if !request.attachments.is_empty() {
            return Err(private(Unsealable::Files.to_string()));
        }
        for (what, bytes, most) in [
            ("text", request.text.len(), TEXT_BYTES_MAX),
            ("subject", request.subject.len(), SUBJECT_BYTES_MAX),
        ] {
            if most < bytes {
                let message = format!("{what} is {bytes} bytes long; the limit is {most}");
                return Err(Refusal { reason: Reason::TooLarge, message });
            }
        }
        if request.text.trim().is_empty() {
            return Err(invalid("text is empty; say something".to_owned()));
        }
        let sender: RoleId = parsed("role", &request.role)?;
        let receivers: BTreeSet<RoleId> =
            request.to.iter().map(|role| parsed("to", role)).collect::<Result<_, _>>()?;
        if RECEIVERS_MAX < receivers.len() {
            return Err(invalid(format!("to has more than {RECEIVERS_MAX} roles")));
        }
        let (thread_id, after) = match &thread {
            Some(thread) => (parsed("message", &thread.message_id)?, thread.entries),
            None if request.message_id.is_empty() => {
                let chosen: [u8; 16] = store::chance().map_err(|why| failed(&why))?;
                let chosen = uuid::Builder::from_random_bytes(chosen).into_uuid();
                (MessageId::from_bits(chosen.as_u128()), 0)
            }
            None => (parsed("message_id", &request.message_id)?, 0),
        };
        let keys = NodeKeys::read(&self.0.data).map_err(|why| failed(&why))?;
        let secret = keys.in_use(roster, &sender).ok_or_else(|| not_vouched(&keys, &sender))?;
        if let Some(nobody) = receivers.iter().find(|role| roster.of_role(role).next().is_none()) {
            return Err(private(format!(
                "mail here is private, and the owner has vouched for no node that plays {nobody}, \
                 so nobody could read this; on the owner's machine, `tasuki mail private approve \
                 NODE` does"
            )));
        }
        let mut readers = receivers.clone();
        readers.insert(sender.clone());
        if let Some(thread) = &thread {
            readers.extend(thread.participants.iter().filter_map(|role| role.parse().ok()));
        }
        let mut recipients: BTreeMap<KeyId, Recipient> = BTreeMap::new();
        for role in &readers {
            for key in roster.of_role(role) {
                recipients.insert(key.id(), Recipient { id: key.id(), seal: key.seal });
            }
        }
        let recipients: Vec<Recipient> = recipients.into_values().collect();
        let address = Address {
            workspace: roster.workspace.clone(),
            owner: roster.owner.id(),
            thread: thread_id,
            after,
            sender,
            key: secret.id(),
            kind: request.r#type.parse().map_err(|why| invalid(format!("type {why}")))?,
            receivers,
            nonce: store::chance().map_err(|why| failed(&why))?,
        };
        let subject = if thread.is_some() { "" } else { request.subject.as_str() };
        let same = same_words(&keys, &request, &address, subject);
        let words = Words { subject: subject.to_owned(), text: std::mem::take(&mut request.text) };
        let envelope = envelope::seal(&address, &words, &recipients, secret);
        let envelope = envelope.map_err(|why| match why {
            SealError::Store(why) => failed(&why),
            SealError::Crowded(_) | SealError::TooLarge(_) => {
                Refusal { reason: Reason::TooLarge, message: why.to_string() }
            }
            SealError::Key(_) => private(why.to_string()),
        })?;
        request.subject = String::new();
        if thread.is_none() {
            request.message_id = thread_id.to_string();
        }
        request.sealed = Some(wire::Sealed { envelope, same });
        Ok(request)
    }
}

/// Whether what is known of the roster is enough to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// Where mail was not private when it was last looked at: the broker refuses if it is by now.
    IfPrivate,
    Always,
}

/// What tells the broker, and nobody else anything, that the same words are said again (16 bytes).
/// Keyed with the oldest key of the node, so that a rotation in between changes nothing.
fn same_words(
    keys: &NodeKeys,
    request: &wire::SendRequest,
    address: &Address,
    subject: &str,
) -> Vec<u8> {
    let Some(oldest) = keys.iter().next() else { return Vec::new() };
    let mut mark = oldest.marker();
    let mut field = |bytes: &[u8]| {
        mark.update(&(bytes.len() as u64).to_be_bytes());
        mark.update(bytes);
    };
    field(address.workspace.as_str().as_bytes());
    field(address.sender.as_str().as_bytes());
    field(address.kind.as_str().as_bytes());
    let thread = address.thread.bits().to_be_bytes();
    field(if address.after == 0 { &[] } else { &thread });
    field(subject.as_bytes());
    field(request.text.as_bytes());
    for role in &address.receivers {
        field(role.as_str().as_bytes());
    }
    mark.finalize().as_bytes()[..16].to_vec()
}

#[cfg(test)]
mod tests;
