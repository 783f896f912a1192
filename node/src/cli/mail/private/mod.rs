//! `tasuki mail private …`: whose keys read mail, where the broker is not to.
//!
//! Two fingerprints are carried between machines by people: the owner's to each node (`trust`),
//! each node's to the owner (`approve`). Nothing here takes one from the broker without a person
//! having said it.

mod render;
mod session;

use serde_json::json;
use tasuki_proto::{
    id::NodeId,
    private::{KeyId, NodeKey, OwnerKey, Roster, SignedRoster},
    reason::Reason,
};

use self::session::Session;
use super::super::{Failure, Output};
use crate::{
    config::Config,
    private::{
        keys::NodeKeys,
        owning::{self, Unchanged},
        store::StoreError,
        trust::{self, Pin},
    },
};

/// Manage private mail.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Show whether mail is private, whose keys read it, and which wait for the owner
    Status,
    /// Turn private mail on: from then on only nodes that you approve can read new mail
    ///
    /// This machine gets the owner's key. Mail sent so far stays as it is. The cost: the
    /// broker can no longer search, show or moderate what is written; files cannot be attached; a
    /// node that is approved later, or takes over a role, cannot read what was written before;
    /// whoever loses the owner's key can approve nobody and cannot turn it off; and who gets hold
    /// of a node's keys reads all that was sealed for them (there is no forward secrecy). The
    /// broker still sees who writes to whom, when, and how much, and what is handed over in loops.
    On {
        /// Become the owner although another owner's key was used before; mail sealed then becomes
        /// unreadable
        #[arg(long)]
        new_owner: bool,
    },
    /// Trust an owner's key on this machine, and make this machine's own key known to the owner
    ///
    /// Compare the fingerprint with what `tasuki mail private status` says on the owner's machine.
    Trust {
        /// Fingerprint of the owner's key [default: the one that is trusted already]
        #[arg(value_name = "FINGERPRINT")]
        owner: Option<KeyId>,
    },
    /// Let a node read and write private mail as the roles it asked for; needs the owner's key
    Approve {
        /// Node
        #[arg(value_name = "NODE")]
        node: NodeId,
        /// Fingerprint of its key, as that machine shows it
        #[arg(value_name = "FINGERPRINT")]
        key: Option<KeyId>,
    },
    /// Remove a node: nothing more is sealed for it; needs the owner's key
    Remove {
        /// Node
        #[arg(value_name = "NODE")]
        node: NodeId,
    },
    /// Rotate this machine's key; the old one is kept to read older mail
    Rotate,
    /// Turn private mail off: from then on mail is sent unencrypted; needs the owner's key
    Off,
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let session = Session::new(config);
    match command {
        Command::Status => status(&session, output).await,
        Command::On { new_owner } => on(&session, new_owner, output).await,
        Command::Trust { owner } => trusted(&session, owner, output).await,
        Command::Approve { node, key } => approve(&session, &node, key, output).await,
        Command::Remove { node } => remove(&session, &node, output).await,
        Command::Rotate => rotate(&session, output).await,
        Command::Off => off(&session, output).await,
    }
}

async fn status(session: &Session, output: &mut Output) -> Result<(), Failure> {
    let shown = session.shown().await?;
    let seen = session.seen(&shown)?;
    output.answer(|| render::in_json(&seen), || render::in_text(&seen))
}

async fn on(session: &Session, is_new_owner: bool, output: &mut Output) -> Result<(), Failure> {
    let own_key = session.own_key_or_new()?;
    let shown = session.shown().await?;
    let before = shown.roster.as_ref().map(SignedRoster::roster);
    let known = trust::owner(&session.data, session.workspace()).map_err(kept)?;
    let is_ours = |it: &Roster| known.as_ref().is_some_and(|own| is_by(it, trust::public(own)));
    if let Some(before) = before.filter(|it| it.is_on && !is_ours(it)) {
        return Err(refused(format!(
            "Mail in {} is private already, by the owner's key {}, which is not this machine's. \
             To take part, compare that fingerprint on the owner's machine and run `tasuki mail \
             private trust {}` here.",
            session.workspace(),
            before.owner.id(),
            before.owner.id()
        )));
    }
    // The roster of an owner goes with the owner, and with it what was written with its keys.
    if let Some(before) = before.filter(|it| !is_new_owner && !is_ours(it)) {
        return Err(refused(format!(
            "Mail in {} was private before, by the owner's key {}, which is not this machine's. \
             Nothing changed. Turn it on where that key is, and what was sealed stays readable. \
             `tasuki mail private on --new-owner` makes this machine the owner: nobody can read \
             any more what was sealed, and every machine has to trust the new key.",
            session.workspace(),
            before.owner.id()
        )));
    }
    let owner = trust::owner_or_new(&session.data, session.workspace()).map_err(kept)?;
    let public = trust::public(&owner);
    let roster = match before {
        Some(before) if before.owner == public => {
            session.check_pin(before)?;
            let known = before.key(&own_key.id());
            let is_done = before.is_on
                && known.is_some_and(|it| own_key.roles.iter().all(|role| it.plays(role)));
            if is_done {
                trust_own(session, before)?;
                return told(session, "Mail was private already.", output);
            }
            before.clone()
        }
        other => Roster {
            workspace: session.workspace().clone(),
            owner: public,
            number: other.map_or(0, |it| it.number),
            is_on: true,
            keys: Vec::new(),
        },
    };
    let published = async {
        let next = owning::vouch(&roster, &own_key, shown.now_ms).map_err(|why| unchanged(&why))?;
        let next = Roster { is_on: true, ..next };
        session.set(next.clone(), &owner).await.map(|()| next)
    };
    let next = match published.await {
        Ok(next) => next,
        Err(failure) => {
            if known.is_none() {
                session.disown(&owner, &failure).await?;
            }
            return Err(failure);
        }
    };
    trust_own(session, &next)?;
    let lines = render::turned_on(session, &own_key, public);
    output.answer(
        || {
            json!({
                "is_on": true,
                "workspace": session.workspace().as_str(),
                "owner": public.id().to_string(),
                "owner_file": trust::owner_file(&session.data).display().to_string(),
                "key": own_key.id().to_string(),
                "roles": render::names(&own_key.roles),
                "costs": render::COSTS,
            })
        },
        || lines,
    )
}

/// Believes what was just signed here.
fn trust_own(session: &Session, roster: &Roster) -> Result<(), Failure> {
    Pin::trust(&session.data, session.workspace(), roster.owner.id()).map_err(kept)?;
    Pin::saw(&session.data, roster).map_err(kept)
}

async fn trusted(
    session: &Session,
    owner: Option<KeyId>,
    output: &mut Output,
) -> Result<(), Failure> {
    let shown = session.shown().await?;
    let by = shown.roster.as_ref().map(|it| it.roster().owner.id());
    let pin = Pin::read(&session.data, session.workspace()).map_err(kept)?;
    let owner = match (owner, pin, by) {
        (Some(said), _, Some(by)) if said != by => {
            return Err(refused(format!(
                "Nothing is trusted: you said {said}, and the broker shows a roster by {by}. Either \
                 it was mistyped, or the broker does not show what the owner signed."
            )));
        }
        (Some(said), _, _) => said,
        (None, Some(pin), _) => pin.owner,
        (None, None, Some(by)) => {
            return Err(Failure::usage(format!(
                "The broker shows a roster by the owner's key {by}. Compare that with what `tasuki \
                 mail private status` says on the owner's machine; if it is the same, run `tasuki \
                 mail private trust {by}`."
            )));
        }
        (None, None, None) => return Err(never_on(session)),
    };
    let own_key = session.own_key_or_new()?;
    Pin::trust(&session.data, session.workspace(), owner).map_err(kept)?;
    let roster = shown.roster.as_ref().map(SignedRoster::roster);
    let is_vouched_for = roster
        .and_then(|it| it.key(&own_key.id()))
        .is_some_and(|it| own_key.roles.iter().all(|role| it.plays(role)));
    if !is_vouched_for {
        session.publish(&own_key).await?;
    }
    published(&own_key, Some(owner), is_vouched_for, output)
}

async fn approve(
    session: &Session,
    node: &NodeId,
    said: Option<KeyId>,
    output: &mut Output,
) -> Result<(), Failure> {
    let owner = owner(session)?;
    let shown = session.shown().await?;
    let roster = session.owned(&shown, &owner)?;
    let Some(key) = shown.pending.iter().find(|it| it.node == *node) else {
        let waiting: Vec<_> = shown.pending.iter().map(|it| it.node.to_string()).collect();
        let waiting = if waiting.is_empty() { "none".to_owned() } else { waiting.join(", ") };
        return Err(refused(format!(
            "No key of {node} waits for approval; run `tasuki mail private trust` on its machine. \
             Nodes whose keys wait: {waiting}."
        )));
    };
    let roles = render::roles(&key.roles);
    match said {
        None => {
            return Err(Failure::usage(format!(
                "The broker shows the key {} for {node}, which asks to read and write as {roles}. \
                 Compare it with what `tasuki mail private status` says on that machine; if it is \
                 the same, run `tasuki mail private approve {node} {}`.",
                key.id(),
                key.id()
            )));
        }
        Some(said) if said != key.id() => {
            return Err(refused(format!(
                "Nothing is approved: you said {said}, and the broker shows the key {} for {node}. \
                 Either it was mistyped, or the broker does not show the key of that machine.",
                key.id()
            )));
        }
        Some(_) => {}
    }
    let next = owning::vouch(&roster, key, shown.now_ms).map_err(|why| unchanged(&why))?;
    session.set(next.clone(), &owner).await?;
    trust_own(session, &next)?;
    output.answer(
        || {
            json!({"node": node.to_string(), "key": key.id().to_string(), "roles": render::names(&key.roles),
                   "roster": next.number})
        },
        || {
            format!(
                "{node} reads and writes private mail as {roles} from now on, with the key {}. What \
                 was written before stays closed to it.\n",
                key.id()
            )
        },
    )
}

async fn remove(session: &Session, node: &NodeId, output: &mut Output) -> Result<(), Failure> {
    let owner = owner(session)?;
    let shown = session.shown().await?;
    let roster = session.owned(&shown, &owner)?;
    let next = owning::let_go(&roster, node, shown.now_ms).map_err(|why| unchanged(&why))?;
    session.set(next.clone(), &owner).await?;
    trust_own(session, &next)?;
    output.answer(
        || json!({"node": node.to_string(), "roster": next.number}),
        || {
            format!(
                "Nothing more is sealed for {node}, and nothing that it signs from now on counts. \
                 What it could read before it can read still.\n"
            )
        },
    )
}

async fn rotate(session: &Session, output: &mut Output) -> Result<(), Failure> {
    // Session first, so that no key is made that nobody can hear of.
    session.shown().await?;
    let node = session.node()?;
    NodeKeys::rotate(&session.data).map_err(kept)?;
    let own_key = session.own_key(node)?;
    if let Some(owner) = trust::owner(&session.data, session.workspace()).map_err(kept)? {
        let shown = session.shown().await?;
        let roster = session.owned(&shown, &owner)?;
        let next = owning::vouch(&roster, &own_key, shown.now_ms).map_err(|why| unchanged(&why))?;
        session.set(next.clone(), &owner).await?;
        trust_own(session, &next)?;
        return published(&own_key, None, true, output);
    }
    session.publish(&own_key).await?;
    published(&own_key, None, false, output)
}

async fn off(session: &Session, output: &mut Output) -> Result<(), Failure> {
    let owner = owner(session)?;
    let shown = session.shown().await?;
    let roster = session.owned(&shown, &owner)?;
    if !roster.is_on {
        return told(session, "Mail was not private.", output);
    }
    let next = owning::turned(&roster, false);
    session.set(next.clone(), &owner).await?;
    trust_own(session, &next)?;
    output.answer(
        || json!({"is_on": false, "roster": next.number}),
        || {
            "Mail is sent in the clear from now on, and the broker can read it. What was sealed \
             stays sealed; nodes that could read it still can, as long as nobody else becomes the \
             owner (`tasuki mail private on --new-owner`).\n"
                .to_owned()
        },
    )
}

fn told(session: &Session, what: &str, output: &mut Output) -> Result<(), Failure> {
    output.answer(
        || json!({"workspace": session.workspace().to_string(), "is_repeat": true}),
        || format!("{what} Nothing changed.\n"),
    )
}

fn published(
    key: &NodeKey,
    owner: Option<KeyId>,
    is_vouched_for: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let (id, owner) = (key.id().to_string(), owner.map(|it| it.to_string()));
    output.answer(
        || {
            json!({"node": key.node.to_string(), "key": id, "owner": owner, "roles": render::names(&key.roles),
                   "is_approved": is_vouched_for})
        },
        || render::published(key, owner.as_deref(), is_vouched_for),
    )
}

/// The owner's secret key, which only some machine has.
fn owner(session: &Session) -> Result<ed25519_dalek::SigningKey, Failure> {
    let owner = trust::owner(&session.data, session.workspace()).map_err(kept)?;
    owner.ok_or_else(|| {
        refused(format!(
            "This takes the owner's key for {}, and it is not on this machine (data in {}). Run it \
             on the machine that turned private mail on.",
            session.workspace(),
            session.data.display()
        ))
    })
}

fn never_on(session: &Session) -> Failure {
    refused(format!(
        "Mail in {} never was private; `tasuki mail private on` makes it so.",
        session.workspace()
    ))
}

fn refused(message: String) -> Failure {
    Failure::reason(Reason::PrivateWorkspace, message)
}

fn unchanged(why: &Unchanged) -> Failure {
    refused(format!("Nothing changed: {why}."))
}

fn kept(why: StoreError) -> Failure {
    Failure::local(format!("{}.", why.to_string().trim_end_matches('.')))
}

/// Whether a key is the owner's.
fn is_by(roster: &Roster, owner: OwnerKey) -> bool {
    roster.owner == owner
}
