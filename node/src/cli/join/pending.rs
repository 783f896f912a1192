//! The secret of a join that is under way.
//!
//! **Invariant:** one line has one secret on one data directory, however often it is run.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tasuki_proto::{
    host::{admin::random_secret, checked, files},
    token::Secret,
};

use super::{Failure, Output};
use crate::credentials::Joined;

/// In the data directory, until the join is done.
const FILE: &str = "joined.json.pending";

#[derive(Serialize, Deserialize)]
pub(super) struct Pending {
    broker: String,
    /// Names the invitation without telling its code.
    invitation: String,
    secret: String,
}

impl Pending {
    /// The secret to join with, on disk: that of an earlier run of the same line, else a new one.
    pub(super) fn secret(
        data: &Path,
        broker: &str,
        code: &Secret,
        joined: Option<&Joined>,
        output: &mut Output,
    ) -> Result<Secret, Failure> {
        let invitation = code.hash().short();
        let is_same = |at: &str, with: &str| at == broker && with == invitation;
        let joined = joined.filter(|it| is_same(&it.broker, &it.invitation));
        if let Some(token) = joined.and_then(Joined::token) {
            return Ok(token.secret);
        }
        if let Some(earlier) = Self::read(data) {
            if is_same(&earlier.broker, &earlier.invitation)
                && let Ok(secret) = earlier.secret.parse()
            {
                return Ok(secret);
            }
            output.note(&format!(
                "An earlier join at {} was cut short; it is given up. If its line was used up, \
                 ask its administrator for a new one.",
                earlier.broker
            ));
        }
        let no_chance = |why| Failure::local(format!("The system's random source failed: {why}."));
        let secret = random_secret().map_err(no_chance)?;
        let pending = Self { broker: broker.to_owned(), invitation, secret: secret.expose() };
        let bytes = checked::to_vec(&pending).map_err(std::io::Error::from);
        let path = data.join(FILE);
        bytes.and_then(|bytes| files::replace(&path, &bytes)).map_err(|why| {
            Failure::local(format!(
                "Nothing was sent: the token's secret cannot be kept in {}: {why}. Make room \
                 there, or say --data DIR to use another directory.",
                data.display()
            ))
        })?;
        Ok(secret)
    }

    /// One that is not readable is no help.
    fn read(data: &Path) -> Option<Self> {
        let bytes = files::read_secret(&data.join(FILE)).ok()??;
        checked::from_slice(&bytes).ok()
    }

    /// The join is done, or can never be.
    pub(super) fn remove(data: &Path) {
        if let Err(why) = files::remove(&data.join(FILE)) {
            tracing::debug!(%why, "the secret stays in a second file");
        }
    }
}
