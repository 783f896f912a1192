//! Why a service has no result.

use std::time::Duration;

/// Why a call of a service, or a run of an agent, did not give a result. Each says what happened in
/// words for whoever called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// Nothing was started.
    #[error("The input does not match the service's schema: {0}. Nothing was started.")]
    InvalidInput(String),
    /// What came out does not match the schema of the output.
    #[error("{}", invalid_output(first, second.as_deref()))]
    InvalidOutput {
        /// What was wrong.
        first: String,
        /// The same of an agent's second answer, after it was told that.
        second: Option<String>,
    },
    /// An agent or a tool failed, or a step could not be put together.
    #[error("{0}")]
    Failed(String),
    /// What was started was told to end.
    #[error("Not finished within {} s, so it was canceled. It may or may not have taken effect.", .0.as_secs_f64())]
    TimedOut(Duration),
    /// Somebody canceled the run of its agent.
    #[error("Canceled: {0}")]
    Canceled(String),
    /// It cannot be done at present, and nothing was started.
    #[error("{0}")]
    Unavailable(String),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    OutcomeUnknown(String),
}

impl ServiceError {
    /// For programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InvalidInput(_) => "invalid_input",
            Self::InvalidOutput { .. } => "invalid_output",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "timed_out",
            Self::Canceled(_) => "canceled",
            Self::Unavailable(_) => "unavailable",
            Self::OutcomeUnknown(_) => "outcome_unknown",
        }
    }

    /// The same, said of one step of several.
    #[must_use]
    pub(super) fn of_step(self, number: usize, total: usize) -> Self {
        if total == 1 {
            return self;
        }
        let said = |text: &str| format!("Step {number} of {total}: {text}");
        match self {
            Self::InvalidOutput { first, second } => {
                Self::InvalidOutput { first: said(&first), second }
            }
            Self::Failed(text) => Self::Failed(said(&text)),
            Self::Canceled(text) => Self::Canceled(said(&text)),
            // Of a later step this is no promise any more that nothing was started.
            Self::Unavailable(text) if 1 < number => Self::Failed(said(&text)),
            Self::Unavailable(text) => Self::Unavailable(said(&text)),
            Self::OutcomeUnknown(text) => Self::OutcomeUnknown(said(&text)),
            whole @ (Self::InvalidInput(_) | Self::TimedOut(_)) => whole,
        }
    }
}

fn invalid_output(first: &str, second: Option<&str>) -> String {
    match second {
        None => format!("The result does not match the service's schema. {first}"),
        Some(second) => format!(
            "The agent's answers do not match the service's schema. The first: {first} The second, \
             after it was told that: {second}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_step_and_promises_nothing_of_what_was_done_before() {
        let away = || ServiceError::Unavailable("x is away.".to_owned());
        assert_eq!(away().of_step(1, 1), away());
        assert_eq!(away().of_step(1, 2).kind(), "unavailable");
        let later = away().of_step(2, 2);
        assert_eq!((later.kind(), later.to_string()), ("failed", "Step 2 of 2: x is away.".into()));
        let late = ServiceError::TimedOut(Duration::from_millis(1500));
        assert!(late.to_string().starts_with("Not finished within 1.5 s"));
    }
}
