//! Rosters and keys of private mail.

use bytes::Bytes;
use tasuki_proto::{
    id::Timestamp,
    private::{NodeKey, SignedRoster},
    stored::{self, event::Kind, snapshot},
};

use super::{CodecError, id, ids, optional, text};
use crate::rules::privacy::{Event, Pending, Privacy, Published};

pub(super) fn encode_event(event: &Event) -> Kind {
    match event {
        Event::RosterSet(it) => Kind::RosterSet(encode_roster(it)),
        Event::KeyPublished(it) => Kind::KeyPublished(encode_published(it)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "whoever calls chose the kind")]
pub(super) fn decode_event(kind: Kind) -> Result<Event, CodecError> {
    match kind {
        Kind::RosterSet(it) => Ok(Event::RosterSet(decode_roster(&it)?)),
        Kind::KeyPublished(it) => Ok(Event::KeyPublished(decode_published(&it)?)),
        _ => Err(CodecError::Unknown("event of privacy")),
    }
}

pub(super) fn encode_roster(it: &SignedRoster) -> stored::RosterSet {
    stored::RosterSet {
        roster: it.roster().encode().into(),
        signature: Bytes::copy_from_slice(it.signature()),
    }
}

fn decode_roster(it: &stored::RosterSet) -> Result<SignedRoster, CodecError> {
    let invalid = |why: tasuki_proto::private::Unproven| CodecError::Invalid {
        field: "roster",
        value: why.to_string(),
    };
    SignedRoster::of_bytes(&it.roster, &it.signature).map_err(invalid)
}

fn encode_published(it: &Published) -> stored::KeyPublished {
    stored::KeyPublished {
        node: it.key.node.to_string(),
        roles: it.key.roles.iter().map(ToString::to_string).collect(),
        sign_key: Bytes::copy_from_slice(&it.key.sign),
        seal_key: Bytes::copy_from_slice(&it.key.seal),
        proof: Bytes::copy_from_slice(&it.key.proof),
        token_id: text(it.token.as_ref()),
    }
}

/// Its proof was looked at when it came in.
fn decode_published(it: &stored::KeyPublished) -> Result<Published, CodecError> {
    let key = NodeKey {
        node: id("node", &it.node)?,
        roles: ids("role", &it.roles)?,
        sign: sized("sign_key", &it.sign_key)?,
        seal: sized("seal_key", &it.seal_key)?,
        proof: sized("proof", &it.proof)?,
    };
    Ok(Published { key, token: optional("token_id", &it.token_id)? })
}

pub(super) fn encode_pending(it: &Pending) -> snapshot::PendingKey {
    let published = Published { key: it.key.clone(), token: it.token.clone() };
    snapshot::PendingKey {
        key: Some(encode_published(&published)),
        published_ms: it.published.as_millis(),
    }
}

pub(super) fn decode_privacy(
    roster: Option<stored::RosterSet>,
    pending: Vec<snapshot::PendingKey>,
) -> Result<Privacy, CodecError> {
    let roster = roster.as_ref().map(decode_roster).transpose()?;
    let mut privacy = Privacy { roster, ..Privacy::default() };
    for it in pending {
        let Published { key, token } =
            decode_published(&it.key.ok_or(CodecError::Unknown("pending key"))?)?;
        let published = Timestamp::from_millis(it.published_ms);
        privacy.pending.insert(key.node.clone(), Pending { key, published, token });
    }
    Ok(privacy)
}

fn sized<const N: usize>(field: &'static str, bytes: &[u8]) -> Result<[u8; N], CodecError> {
    let invalid = |_| CodecError::Invalid { field, value: format!("{} bytes", bytes.len()) };
    bytes.try_into().map_err(invalid)
}
