//! What this node shows its broker, and how it knows that it is its broker.
//!
//! `tasuki join` writes it into the data directory as `joined.json`; `tasuki broker-token` changes
//! it. Whoever connects asks [`Credentials::find`] each time, so a token that was replaced is noticed
//! without a restart.
//!
//! - **U1** Credentials are used for the broker they were given for, and for no other.
//! - **U2** A secret is on disk before the broker hears of it: no crash loses the only copy.
//!
//! A rotation keeps its new secret in a file of its own until the broker is known to have taken
//! it. Where it was cut short nobody knows which of the two is good, so both are offered: see
//! [`Credentials::spare`].
//!
//! Not here: how a connection is opened.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{
        admin::AdminFile,
        checked,
        config::FOLDER,
        files::{self, SecretFileError},
    },
    id::{RoleId, TokenId},
    invitation::{Fingerprint, Trust},
    net::tls::Trusting,
    token::{Right, Token},
    wire,
};

use crate::{paths::is_running, projects};

/// What a node has joined with.
pub const FILE: &str = "joined.json";

/// The new secret of a rotation that is under way.
const ROTATING: &str = "joined.json.rotating";

/// The variable whose token counts before the one of [`FILE`].
pub const TOKEN_VARIABLE: &str = "TASUKI_TOKEN";

/// Why there are no credentials that can be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("the variable {TOKEN_VARIABLE} {0}")]
    Variable(tasuki_proto::token::InvalidToken),
}

/// What `joined.json` says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// URL of the broker.
    pub broker: String,
    /// Of the broker's certificate; `None`: authorities vouch for its name.
    pub fingerprint: Option<String>,
    /// A file of the authorities to trust; `None`: those of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// This node's own certificate and its key, where the broker asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    pub token: String,
    /// Empty: every workspace.
    pub workspace: String,
    pub roles: Vec<String>,
    #[serde(default)]
    pub is_any_role: bool,
    pub rights: Vec<String>,
    /// By the broker's clock; 0: it does not expire.
    #[serde(default)]
    pub expires_ms: u64,
    /// The invitation it was made with; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub invitation: String,
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.token().map(|token| token.id);
        f.debug_struct("Joined").field("broker", &self.broker).field("token", &id).finish()
    }
}

impl Joined {
    /// `None`: this data directory never joined a broker.
    ///
    /// # Errors
    /// When others can read it, or it is damaged.
    pub fn read(data: &Path) -> Result<Option<Self>, SecretFileError> {
        let path = data.join(FILE);
        let Some(bytes) = files::read_secret(&path)? else { return Ok(None) };
        let damaged = |what: &str| SecretFileError::Damaged {
            path: path.clone(),
            what: format!("{what}; join again with a new invitation, or restore the file"),
        };
        let joined: Self = checked::from_slice(&bytes).map_err(|why| damaged(&why.to_string()))?;
        if joined.token().is_none() {
            return Err(damaged("its token is none"));
        }
        if joined.fingerprint.as_ref().is_some_and(|it| it.parse::<Fingerprint>().is_err()) {
            return Err(damaged("its fingerprint is none"));
        }
        Ok(Some(joined))
    }

    /// # Errors
    /// When the directory cannot be written to, or the disk is full.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        files::replace(&data.join(FILE), &checked::to_vec(self)?)
    }

    /// `None` only for one that was not [read](Self::read).
    pub fn token(&self) -> Option<Token> {
        self.token.parse().ok()
    }

    pub fn trust(&self) -> Trust {
        let pinned = self.fingerprint.as_ref().and_then(|it| it.parse().ok());
        pinned.map_or(Trust::Authorities, Trust::Pinned)
    }

    /// Takes over what the broker says the token may do.
    pub fn set_scope(&mut self, scope: wire::Scope, expires_ms: u64) {
        self.workspace = scope.workspace;
        self.roles = scope.roles;
        self.is_any_role = scope.is_any_role;
        self.rights = scope.rights;
        self.expires_ms = expires_ms;
    }

    /// What the token may do.
    pub fn scope(&self) -> wire::Scope {
        wire::Scope {
            workspace: self.workspace.clone(),
            roles: self.roles.clone(),
            is_any_role: self.is_any_role,
            rights: self.rights.clone(),
        }
    }

    pub fn has_role(&self, role: &RoleId) -> bool {
        self.is_any_role || self.roles.iter().any(|own| own == role.as_str())
    }

    pub fn has_right(&self, right: Right) -> bool {
        self.rights.iter().any(|own| own == right.as_str())
    }

    /// Whether this is about the broker at `url`.
    pub fn is_of(&self, url: &str) -> bool {
        is_same_broker(&self.broker, url)
    }

    /// Keeps the new secret of a rotation before the broker hears of it (U2).
    ///
    /// # Errors
    /// When the directory cannot be written to, or the disk is full.
    pub fn begin_rotation(data: &Path, new: &Token) -> io::Result<()> {
        files::replace(&data.join(ROTATING), new.expose().as_bytes())
    }

    /// The new secret of a rotation that was begun and not ended.
    ///
    /// # Errors
    /// When others can read it, or it is damaged.
    pub fn rotating(data: &Path) -> Result<Option<Token>, SecretFileError> {
        let path = data.join(ROTATING);
        let Some(bytes) = files::read_secret(&path)? else { return Ok(None) };
        let token = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
        let damaged = || SecretFileError::Damaged {
            path,
            what: "it holds no token; remove it and rotate again".to_owned(),
        };
        token.ok_or_else(damaged).map(Some)
    }

    /// Ends a rotation: `token` is the one that is good.
    ///
    /// # Errors
    /// When the directory cannot be written to; the rotation is then still under way.
    pub fn end_rotation(&mut self, data: &Path, token: &Token) -> io::Result<()> {
        self.token = token.expose();
        self.write(data)?;
        files::remove(&data.join(ROTATING))
    }
}

/// How to open a connection to one broker, and what to show on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub trust: Trust,
    /// A file of the authorities to trust; `None`: those of this machine.
    pub authorities: Option<PathBuf>,
    /// This node's own certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// `None`: the broker is asked without one.
    pub token: Option<Token>,
    /// To be tried where the broker knows no `token`; whoever finds it good says
    /// [`keep_spare`].
    pub spare: Option<Token>,
}

impl Credentials {
    /// For a broker that nothing is known of.
    pub const fn none() -> Self {
        Self {
            trust: Trust::Authorities,
            authorities: None,
            client: None,
            token: None,
            spare: None,
        }
    }

    /// What holds at this moment for the broker at `url` (U1): that of the variable
    /// [`TOKEN_VARIABLE`], else of the data directory. Reads files.
    ///
    /// # Errors
    /// When there are some that must not or cannot be used.
    pub fn find(data: &Path, url: &str) -> Result<Self, CredentialsError> {
        let variable = std::env::var(TOKEN_VARIABLE).ok();
        Self::choose(projects::root(data), url, variable.as_deref())
    }

    fn choose(data: &Path, url: &str, variable: Option<&str>) -> Result<Self, CredentialsError> {
        let joined = Joined::read(data)?.filter(|joined| joined.is_of(url));
        let rotating = || Ok::<_, CredentialsError>(Joined::rotating(data)?);
        let mut found = match joined {
            None => Self::of_own_broker(data, url).unwrap_or_else(Self::none),
            Some(joined) => {
                let token = joined.token();
                let id = token.as_ref().map(|token| token.id.clone());
                Self {
                    trust: joined.trust(),
                    authorities: joined.ca,
                    client: joined.client_cert.zip(joined.client_key),
                    token,
                    spare: rotating()?.filter(|spare| Some(&spare.id) == id.as_ref()),
                }
            }
        };
        if let Some(text) = variable.map(str::trim).filter(|text| !text.is_empty()) {
            found.token = Some(text.parse().map_err(CredentialsError::Variable)?);
            found.spare = None;
        }
        Ok(found)
    }

    /// For the broker of this very data directory, when it asks for tokens: whoever can read its
    /// administration token may use it.
    fn of_own_broker(data: &Path, url: &str) -> Option<Self> {
        let own = AdminFile::read(&data.join(FOLDER)).ok()??;
        let pin: Fingerprint = own.fingerprint.as_ref()?.parse().ok()?;
        let token = own.tokens().into_iter().next();
        let trust = Trust::Pinned(pin);
        is_same_broker(&own.url, url).then(|| Self { trust, token, ..Self::none() })
    }

    /// Whom a connection trusts, and what it answers when asked who it is.
    pub fn trusting(&self) -> Trusting {
        Trusting {
            trust: self.trust,
            authorities: self.authorities.clone(),
            client: self.client.clone(),
        }
    }

    /// The id of the token, which is no secret.
    pub fn token_id(&self) -> Option<&TokenId> {
        self.token.as_ref().map(|token| &token.id)
    }
}

/// Where the broker of this very data directory is reached from this machine: one that runs, or a
/// guarded one where it was last.
pub fn url_of_own_broker(data: &Path) -> Option<String> {
    let own = AdminFile::read(&data.join(FOLDER)).ok()??;
    let is_there = own.fingerprint.is_some() || own.pid.is_some_and(is_running);
    is_there.then_some(own.url)
}

/// The broker took [`Credentials::spare`] where it did not know the token: from here on it is
/// the token. A file that tells of something else by now stays as it is.
///
/// # Errors
/// When the data directory cannot be read or written to; then the spare stays what it was.
pub fn keep_spare(data: &Path, spare: &Token) -> io::Result<()> {
    let read = |why: SecretFileError| io::Error::other(why.to_string());
    let data = projects::root(data);
    let Some(mut joined) = Joined::read(data).map_err(read)? else { return Ok(()) };
    let is_current = Joined::rotating(data).map_err(read)?.as_ref() == Some(spare);
    if is_current && joined.token().is_some_and(|token| token.id == spare.id) {
        joined.end_rotation(data, spare)?;
    }
    Ok(())
}

/// Whether two URLs name one broker: host names have no case, and a `/` at the end means nothing.
fn is_same_broker(one: &str, other: &str) -> bool {
    one.trim_end_matches('/').eq_ignore_ascii_case(other.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use tasuki_proto::token::{SECRET_BYTES, Secret};

    use super::*;

    const URL: &str = "https://host:7420";

    fn token(fill: u8) -> Token {
        Token { id: "0011".parse().unwrap(), secret: Secret::new([fill; SECRET_BYTES]) }
    }

    fn joined(fill: u8) -> Joined {
        Joined {
            broker: URL.to_owned(),
            fingerprint: Some(Fingerprint([9; 32]).to_string()),
            ca: None,
            client_cert: None,
            client_key: None,
            token: token(fill).expose(),
            workspace: "default".to_owned(),
            roles: vec!["dev".to_owned()],
            is_any_role: false,
            rights: vec!["read".to_owned()],
            expires_ms: 0,
            invitation: String::new(),
        }
    }

    /// Holds U1.
    #[test]
    fn credentials_are_for_their_broker_alone() {
        let data = tempfile::tempdir().unwrap();
        joined(1).write(data.path()).unwrap();
        for same in [URL, "https://HOST:7420/"] {
            let found = Credentials::find(data.path(), same).unwrap();
            assert_eq!(found.token, Some(token(1)), "{same}");
            assert_eq!(found.trust, Trust::Pinned(Fingerprint([9; 32])));
        }
        for other in ["https://host:7421", "http://host:7420", "https://host2:7420"] {
            assert_eq!(Credentials::find(data.path(), other).unwrap(), Credentials::none());
        }
    }

    #[test]
    fn a_variable_counts_before_the_file_and_is_no_secret_in_its_refusal() {
        let data = tempfile::tempdir().unwrap();
        joined(1).write(data.path()).unwrap();
        let with = |text: &str| Credentials::choose(data.path(), URL, Some(text));
        assert_eq!(with(&token(2).expose()).unwrap().token, Some(token(2)));
        assert_eq!(with(" ").unwrap().token, Some(token(1)));
        let refused = with("tasuki_0011_hunter2").unwrap_err().to_string();
        assert!(!refused.contains("hunter2") && refused.contains(TOKEN_VARIABLE), "{refused}");
    }

    #[test]
    fn a_rotation_offers_both_secrets_until_it_is_known_which_is_good() {
        let data = tempfile::tempdir().unwrap();
        joined(1).write(data.path()).unwrap();
        Joined::begin_rotation(data.path(), &token(2)).unwrap();
        let both = Credentials::find(data.path(), URL).unwrap();
        assert_eq!((both.token, both.spare), (Some(token(1)), Some(token(2))));
        keep_spare(data.path(), &token(3)).unwrap();
        assert_eq!(Credentials::find(data.path(), URL).unwrap().token, Some(token(1)));
        keep_spare(data.path(), &token(2)).unwrap();
        let one = Credentials::find(data.path(), URL).unwrap();
        assert_eq!((one.token, one.spare), (Some(token(2)), None));
    }

    #[test]
    fn a_secret_of_another_token_is_no_spare() {
        let data = tempfile::tempdir().unwrap();
        joined(1).write(data.path()).unwrap();
        let other = Token { id: "0012".parse().unwrap(), ..token(2) };
        Joined::begin_rotation(data.path(), &other).unwrap();
        assert_eq!(Credentials::find(data.path(), URL).unwrap().spare, None);
    }

    #[test]
    fn a_flipped_bit_is_named_or_harmless() {
        let data = tempfile::tempdir().unwrap();
        let whole = joined(1);
        whole.write(data.path()).unwrap();
        let secret = token(1).secret.expose();
        crate::flips::each(&data.path().join(FILE), |what| match Joined::read(data.path()) {
            // No pin that is gone, no other broker, no wider scope.
            Ok(read) => assert_eq!(read.as_ref(), Some(&whole), "{what}"),
            Err(why) => {
                let why = why.to_string();
                assert!(why.contains(FILE) && !why.contains(&secret), "{why}");
            }
        });
    }

    #[test]
    fn a_damaged_file_is_named_and_its_token_is_not_quoted() {
        let data = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(&joined(1)).unwrap();
        let secret = token(1).secret.expose();
        for bad in [&text[..40], "", &text.replace("tasuki_0011", "tasuki_"), "[]"] {
            files::replace(&data.path().join(FILE), bad.as_bytes()).unwrap();
            let refused = Joined::read(data.path()).unwrap_err().to_string();
            assert!(refused.contains(FILE) && !refused.contains(&secret), "{refused}");
        }
        assert!(!format!("{:?}", joined(1)).contains(&secret));
    }
}
