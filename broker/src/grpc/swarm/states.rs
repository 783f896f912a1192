//! States and kinds of the rules, and what the API calls them.

use tasuki_proto::wire;

use crate::rules::swarm::{
    DeliveryState, Difficulty, MessageState, SubmissionState, TaskStage, TaskState,
};

/// What the API has a name for.
pub(super) trait Named: Sized {
    type Name;

    /// `None` where nothing is specified.
    fn of_wire(name: Self::Name) -> Option<Self>;
}

/// Each variant with its name in the API.
macro_rules! names {
    ($($ours:ident is $theirs:ident { $($variant:ident: $name:ident),* })*) => {$(
        impl From<$ours> for wire::$theirs {
            fn from(it: $ours) -> Self {
                match it {
                    $($ours::$variant => Self::$name,)*
                }
            }
        }

        impl Named for $ours {
            type Name = wire::$theirs;

            fn of_wire(name: wire::$theirs) -> Option<Self> {
                match name {
                    wire::$theirs::Unspecified => None,
                    $(wire::$theirs::$name => Some(Self::$variant),)*
                }
            }
        }
    )*};
}

names! {
    Difficulty is Difficulty { Easy: Easy, Medium: Medium, Focus: Focus }
    TaskState is TaskStatus {
        Open: Open, InProgress: InProgress, WaitingForAnswer: WaitingForAnswer, Done: Done,
        Canceled: Canceled
    }
    TaskStage is TaskStage {
        Blocked: Blocked, Ready: Ready, Reserved: Reserved, InProgress: Working,
        WaitingForAnswer: WaitingForAnswer, Submitted: Submitted, InReview: InReview, Done: Done,
        Canceled: Canceled
    }
    SubmissionState is SubmissionStatus {
        Open: Open, Approved: Approved, Rejected: Rejected, Superseded: Superseded, Reset: Reset
    }
    MessageState is MessageStatus { Open: Open, Replied: Replied, Resolved: Resolved }
    DeliveryState is DeliveryStatus {
        Open: Open, InReview: InReview, Approved: Approved, Rejected: Rejected
    }
}
