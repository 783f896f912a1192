//! What a sub-agent shows to prove which step it is: `RUN/STEP/SECRET`, the secret as 64 hexadecimal
//! digits. It is good while the step runs; the broker knows its hash only.

use std::{fmt, str::FromStr};

use tasuki_proto::{
    run::StepId,
    token::{SECRET_BYTES, SecretHash},
    wire,
};

use crate::hex::hex;

/// The variable that holds a sub-agent's key.
pub const STEP_TOKEN_VARIABLE: &str = "TASUKI_STEP_TOKEN";

/// A step and its secret. `Debug` does not show the secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    step: StepId,
    secret: [u8; SECRET_BYTES],
}

impl StepKey {
    /// A key that nobody can guess.
    ///
    /// # Errors
    /// When the system's random source fails.
    pub fn new(step: StepId) -> std::io::Result<Self> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        Ok(Self { step, secret })
    }

    pub const fn step(&self) -> StepId {
        self.step
    }

    /// What a claim carries and a key is compared with; the comparison takes the same time whatever is
    /// wrong.
    pub fn secret_hash(&self) -> SecretHash {
        SecretHash::of(&self.secret)
    }

    pub fn to_wire(&self) -> wire::StepKey {
        wire::StepKey {
            run_id: self.step.run.to_string(),
            step: self.step.number,
            secret: self.secret.to_vec(),
        }
    }
}

impl fmt::Debug for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepKey({})", self.step)
    }
}

/// The whole key: who has this text is the sub-agent.
impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.step, hex(&self.secret))
    }
}

/// Why a text is no key. Says nothing of what was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not the key of a sub-agent")]
pub struct InvalidStepKey;

impl FromStr for StepKey {
    type Err = InvalidStepKey;

    fn from_str(text: &str) -> Result<Self, InvalidStepKey> {
        let mut parts = text.splitn(3, '/');
        let run = parts.next().and_then(|run| run.parse().ok());
        let number = parts.next().and_then(|number| number.parse().ok());
        let secret = parts.next().and_then(|digits| blake3::Hash::from_hex(digits).ok());
        let (Some(run), Some(number), Some(secret)) = (run, number, secret) else {
            return Err(InvalidStepKey);
        };
        Ok(Self { step: StepId { run, number }, secret: *secret.as_bytes() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_and_read_and_not_shown() {
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let key = StepKey::new(step).unwrap();
        let text = key.to_string();
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_eq!(key.secret_hash(), SecretHash::of(&key.to_wire().secret));
        let shown = format!("{key:?}");
        assert!(shown.contains("00af") && !shown.contains(&text[text.len() - 8..]), "{shown}");
        let longer = format!("{text}0");
        for wrong in ["", "run_1_00af/2", "x/2/ff", &text[1..], &longer, &text[..text.len() - 1]] {
            assert_eq!(wrong.parse::<StepKey>(), Err(InvalidStepKey), "{wrong}");
        }
    }
}
