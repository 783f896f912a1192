//! Tokens: what a bearer shows, and what it is compared with.
//!
//! A token is `tasuki_ID_SECRET`. The id is public and finds the token; the secret is 256 random
//! bits in base64url, of which only the BLAKE3 hash is kept anywhere but at its bearer's. A secret
//! that long needs no slow hash: guessing it is hopeless.
//!
//! Not here: what a token may do where (`broker/src/rules/access`), where randomness comes from.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    disk::{as_bytes, as_text},
    id::TokenId,
    json::{as_displayed, digits},
};

/// Every token begins so; it lets scanners find one that leaked.
pub const PREFIX: &str = "tasuki_";

/// A secret, in bytes.
pub const SECRET_BYTES: usize = 32;

/// Why a text is no token. Says nothing of what was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a token: one looks like tasuki_ID_SECRET")]
pub struct InvalidToken;

/// 256 bits that only their bearer knows. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// Of random bytes.
    pub const fn new(random: [u8; SECRET_BYTES]) -> Self {
        Self(random)
    }

    /// As it is written down and sent.
    pub fn expose(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub const fn expose_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl FromStr for Secret {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidToken)?;
        bytes.try_into().map(Self).map_err(|_| InvalidToken)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is kept of a secret. Comparing takes the same time whatever differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretHash(blake3::Hash);

impl SecretHash {
    pub fn of(secret: &[u8]) -> Self {
        Self(blake3::hash(secret))
    }

    pub const fn from_bytes(bytes: [u8; blake3::OUT_LEN]) -> Self {
        Self(blake3::Hash::from_bytes(bytes))
    }

    pub const fn as_bytes(&self) -> &[u8; blake3::OUT_LEN] {
        self.0.as_bytes()
    }

    const fn to_bytes(self) -> [u8; blake3::OUT_LEN] {
        *self.0.as_bytes()
    }

    /// The first 64 bits in hexadecimal: names what the secret is for without telling it.
    pub fn short(&self) -> String {
        self.0.to_hex().chars().take(16).collect()
    }
}

as_bytes!(SecretHash);

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        digits::serialize(self.as_bytes(), to)
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        digits::deserialize(from).map(Self::from_bytes)
    }
}

/// A token whole, as its bearer has it. `Debug` does not show the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub secret: Secret,
}

impl Token {
    /// As it is written down and sent.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret.expose())
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let rest = text.strip_prefix(PREFIX).ok_or(InvalidToken)?;
        // A secret may contain `_`, the id of a token does not.
        let (id, secret) = rest.split_once('_').ok_or(InvalidToken)?;
        Ok(Self { id: id.parse().map_err(|_| InvalidToken)?, secret: secret.parse()? })
    }
}

macro_rules! rights {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// One thing that a token may be good for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Right { $($(#[$doc])* $variant,)* }

        impl Right {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

rights! {
    /// See loops, their history, roles, nodes and events; wait.
    Read "read";
    /// Register a node and say which of its roles are there.
    Host "host";
    /// Pass on work as a role: hand over, mark, begin a new round, write mail and documents, open
    /// issues, plan tasks, deliver.
    Send "send";
    /// Take charge as a role: reclaim a turn whose lease lapsed, claim tasks and submit them, lock
    /// files.
    Claim "claim";
    /// Judge others' work as a role: verdicts, next steps, replies, resets; claim deliveries.
    Review "review";
    /// What a person may do over the heads of roles: make loops, take turns, begin rounds.
    Steer "steer";
    /// Invite, issue, revoke.
    Admin "admin";
    /// Start runs of agents on other machines.
    Run "run";
    /// Call the tools of roles on other machines.
    Call "call";
}

impl Right {
    /// What an invitation grants unless it says otherwise: all that a node needs for its roles.
    pub const OF_A_NODE: &[Self] = &[Self::Read, Self::Host, Self::Send, Self::Claim, Self::Review];

    /// For people.
    pub fn names(rights: &[Self]) -> String {
        rights.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for Right {
    type Err = UnknownRight;

    fn from_str(text: &str) -> Result<Self, UnknownRight> {
        let found = Self::ALL.iter().copied().find(|right| right.as_str() == text);
        found.ok_or_else(|| UnknownRight(text.to_owned()))
    }
}

as_text!(Right);
as_displayed!(Right);

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no right's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a right; possible: {names}", names = Right::names(Right::ALL))]
pub struct UnknownRight(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_right_is_told_every_one_there_is() {
        let why = "rule".parse::<Right>().unwrap_err().to_string();
        let all = "read, host, send, claim, review, steer, admin, run, call";
        assert_eq!(why, format!("\"rule\" is not a right; possible: {all}"));
    }

    #[test]
    fn a_token_survives_being_written_down() {
        for fill in [0, 0x5f, 0xff] {
            let secret = Secret::new([fill; SECRET_BYTES]);
            let id = secret.hash().short().parse().unwrap();
            let token = Token { id, secret };
            assert_eq!(token.expose().parse(), Ok(token));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let good = "tasuki_0011_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert!(good.parse::<Token>().is_ok());
        for bad in ["", "tasuki_", "tasuki__", "tasuki_a", &good[1..], &good[..good.len() - 1]] {
            assert_eq!(bad.parse::<Token>(), Err(InvalidToken), "{bad}");
        }
    }

    #[test]
    fn nothing_that_is_printed_for_programmers_shows_a_secret() {
        let token = "tasuki_0011_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE".parse::<Token>();
        let shown = format!("{token:?}");
        assert!(!shown.contains("QUFB") && !shown.contains("65"), "{shown}");
    }
}
