//! Why a workspace refuses a command: what happened, what holds, what to do.

use super::{
    access::{INVITATIONS_MAX, TOKENS_MAX},
    board,
    clients::{CLIENTS_PER_TOKEN_MAX, RETIRED_PER_TOKEN_MAX},
    directory::{HOSTED_ROLES_MAX, NODES_MAX, NODES_PER_TOKEN_MAX},
    guard,
    mailbox::MAILBOXES_MAX,
    pipeline, run, swarm,
};
use tasuki_proto::{
    id::{Epoch, IdempotencyKey, InvitationId, LoopId, NodeId, RoleId, TokenId, Turn},
    limits::{
        ATTACHMENTS_BYTES_MAX, BUDGETS_MAX, KEY_WINDOW, LOOPS_MAX, ROLE_HUMAN, THREAD_ENTRIES_MAX,
        THREAD_PARTICIPANTS_MAX,
    },
    mail::MessageId,
    nearest::did_you_mean,
    private::KeyId,
    reason::Reason,
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Swarm(#[from] swarm::Rejection),
    #[error(transparent)]
    Run(#[from] run::Rejection),
    #[error(transparent)]
    Board(#[from] board::Rejection),
    #[error(transparent)]
    Pipeline(#[from] pipeline::Rejection),
    #[error("there is no loop {loop_id} in this workspace; known loops: {known}")]
    UnknownLoop { loop_id: LoopId, known: String },
    #[error("{role} is not a participant of loop {loop_id}; participants: {known}")]
    UnknownRole { role: RoleId, loop_id: LoopId, known: String },
    #[error(
        "unknown participants: {unknown}. No node hosts them, no loop names them, and they have no \
         mailbox; known roles: {known}. No loop was opened"
    )]
    UnknownParticipants { unknown: String, known: String },
    #[error(
        "it is not your turn: {holder} holds turn {turn} of loop {loop_id}; call await_my_turn \
         and start when it says can_start"
    )]
    NotYourTurn { loop_id: LoopId, holder: RoleId, turn: Turn },
    #[error(
        "loop {loop_id} was completed with turn {turn}; a person can open a new round with \
         'tasuki loop start'"
    )]
    LoopCompleted { loop_id: LoopId, turn: Turn },
    #[error("loop {loop_id} is not completed: {holder} holds turn {turn}")]
    LoopActive { loop_id: LoopId, holder: RoleId, turn: Turn },
    #[error("loop {loop_id} exists with other participants: {participants}")]
    LoopExists { loop_id: LoopId, participants: String },
    #[error(
        "{holder} holds turn {turn} of loop {loop_id} and its lease runs; a participant may \
         reclaim it once the loop shows stalled, a person at any time"
    )]
    TurnHeld { loop_id: LoopId, holder: RoleId, turn: Turn },
    #[error(
        "{role} is a role, and only a person lets go on what is paused; ask your user to do it"
    )]
    PersonRequired { role: RoleId },
    #[error(
        "{role} is paused: it {reason}. Nothing was done. {role} may still hand over its turn, \
         {}; a person lets it go on with \
         `tasuki budget resume {role}`. Tell your user and end your turn",
        .reason.allows()
    )]
    RolePaused { role: RoleId, reason: guard::PauseReason },
    #[error("there is no role {role} in this workspace; known roles: {known}")]
    NoSuchRole { role: RoleId, known: String },
    #[error(
        "the role {ROLE_HUMAN} is a person's own, and no node hosts it; choose another name, or \
         act as it with `--as {ROLE_HUMAN}`"
    )]
    RoleOfPerson,
    #[error("{BUDGETS_MAX} roles have a budget, which is the limit; clear some")]
    TooManyBudgets,
    #[error(
        "turn {presented} of loop {loop_id} is over; the latest is turn {current}. Nothing was \
         handed over; call await_my_turn for your next turn"
    )]
    StaleTurn { loop_id: LoopId, presented: Turn, current: Turn },
    #[error("node {node} with epoch {presented} is not registered; its latest epoch is {current}")]
    StaleEpoch { node: NodeId, presented: Epoch, current: Epoch },
    #[error(
        "node {node} does not host role {role}: another node took it over, or this one was started \
         without it; start it with --role {role} --take-over to take it back"
    )]
    RoleForbidden { node: NodeId, role: RoleId },
    #[error(
        "role {role} is hosted by node {node}, which is connected; stop it there, or start this \
         one with --take-over"
    )]
    RoleInUse { role: RoleId, node: NodeId },
    #[error(
        "node {node} was registered with another token, which is still good; give this node a data \
         directory of its own, or revoke the token {owner}"
    )]
    NodeForbidden { node: NodeId, owner: TokenId },
    #[error(
        "no open invitation has this code: it is mistyped, was withdrawn, or has expired; ask for \
         a new one"
    )]
    UnknownInvitation,
    #[error(
        "the code of invitation {invitation} was used already, for token {token}; ask for a new \
         one, and if that was not you, have that token revoked"
    )]
    InvitationSpent { invitation: InvitationId, token: TokenId },
    #[error("no token {token} is in use here")]
    UnknownToken { token: TokenId },
    #[error(
        "mail in this workspace is private (owner's key {owner}): it takes only messages encrypted \
         by a node that the owner approved; `tasuki mail private status` says what is missing"
    )]
    PrivateWorkspace { owner: KeyId },
    #[error(
        "mail in this workspace is private, and attached files are not encrypted, so it takes \
         none; put what matters into the text"
    )]
    PrivateFiles,
    #[error(
        "mail in this workspace is private, and boards are not encrypted, so none is written to; use another \
         workspace for them"
    )]
    PrivateBoards,
    #[error(
        "mail in this workspace is private, and only the owner's key {owner} says who may read it"
    )]
    NotOwner { owner: KeyId },
    #[error("roster {presented} is not newer than the current one, {current}; read that one first")]
    StaleRoster { presented: u64, current: u64 },
    #[error(
        "too many keys wait for approval; approve them with `tasuki mail private approve` first"
    )]
    TooManyKeys,
    #[error("{INVITATIONS_MAX} invitations are open, which is the limit; withdraw some")]
    TooManyInvitations,
    #[error("{TOKENS_MAX} tokens are in use, which is the limit; revoke some")]
    TooManyTokens,
    #[error("idempotency key {key} was used for another request")]
    KeyReused { key: IdempotencyKey },
    #[error(
        "idempotency key {key} is too old to be remembered (more than {KEY_WINDOW} below {highest}); \
         it was not executed now"
    )]
    KeyExpired { key: IdempotencyKey, highest: u64 },
    #[error("this workspace has reached its limit of clients; try again later")]
    TooManyClients,
    #[error(
        "token {token} came with {} clients within 30 days, which is the limit of one token; reuse \
         one of them, or ask for another token",
        CLIENTS_PER_TOKEN_MAX + RETIRED_PER_TOKEN_MAX
    )]
    TooManyClientsOfToken { token: TokenId },
    #[error("this workspace has reached its limit of open waits; try again later")]
    TooManyWaits,
    #[error("this workspace has {LOOPS_MAX} loops, which is the limit")]
    TooManyLoops,
    #[error(
        "this workspace knows {NODES_MAX} nodes, which is the limit; register under a name used \
         before"
    )]
    TooManyNodes,
    #[error(
        "token {token} has {NODES_PER_TOKEN_MAX} nodes that are there or host roles, which is the \
         limit of one token; register under a name used before, or ask for another token"
    )]
    TooManyNodesOfToken { token: TokenId },
    #[error(
        "the nodes of this workspace would host more than {HOSTED_ROLES_MAX} roles, which is the \
         limit; start nodes with fewer roles, or use another workspace"
    )]
    TooManyHostedRoles,
    #[error("{role} has no message {name}; filebox_list_messages shows what there is")]
    UnknownMessage { role: RoleId, name: String },
    #[error("there is no role {role} to write to; nothing was sent. Known roles: {known}")]
    UnknownReceiver { role: RoleId, known: String },
    #[error(
        "the mailbox of {role} takes in no more mail; nothing was sent. Open mailboxes: {known}"
    )]
    MailboxClosed { role: RoleId, known: String },
    #[error("there is a message {thread} already; nothing was sent")]
    MessageExists { thread: MessageId },
    #[error(
        "client_ref {name} named other words before; nothing was sent. Take another name for \
         another message"
    )]
    ClientRefReused { name: String },
    #[error(
        "the file {name} was not stored by its sender, or has another size; nothing was sent. \
         Store it first under the same role, then attach it"
    )]
    UnknownAttachment { name: String },
    #[error(
        "message {thread} has {THREAD_ENTRIES_MAX} entries, which is the limit; begin a new one"
    )]
    ThreadFull { thread: MessageId },
    #[error(
        "message {thread} would have more than {THREAD_PARTICIPANTS_MAX} participants, which is \
         the limit; begin a new one"
    )]
    TooManyParticipants { thread: MessageId },
    #[error("this workspace has {MAILBOXES_MAX} mailboxes, which is the limit")]
    TooManyMailboxes,
    #[error("this workspace has reached its limit of mail; use another workspace")]
    TooMuchMail,
    #[error(
        "the attached files of this workspace would be more than {ATTACHMENTS_BYTES_MAX} bytes, \
         which is the limit; nothing was stored"
    )]
    TooManyAttachments,
}

impl Rejection {
    /// What a caller's program sees.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) => Reason::InvalidArgument,
            Self::Swarm(it) => it.reason(),
            Self::Run(it) => it.reason(),
            Self::Board(it) => it.reason(),
            Self::Pipeline(it) => it.reason(),
            Self::UnknownLoop { .. } => Reason::UnknownLoop,
            Self::UnknownRole { .. } | Self::UnknownParticipants { .. } => Reason::UnknownRole,
            Self::NotYourTurn { .. } => Reason::NotYourTurn,
            Self::LoopCompleted { .. } => Reason::LoopCompleted,
            Self::LoopActive { .. } => Reason::LoopActive,
            Self::LoopExists { .. } => Reason::LoopExists,
            Self::TurnHeld { .. } => Reason::TurnHeld,
            Self::StaleTurn { .. } => Reason::StaleToken,
            Self::StaleEpoch { .. } => Reason::StaleEpoch,
            Self::RoleForbidden { .. } | Self::RoleOfPerson => Reason::RoleForbidden,
            Self::RolePaused { .. } => Reason::Paused,
            Self::RoleInUse { .. } => Reason::RoleInUse,
            Self::KeyReused { .. } => Reason::KeyReused,
            Self::KeyExpired { .. } => Reason::KeyExpired,
            Self::NodeForbidden { .. } => Reason::NodeForbidden,
            Self::UnknownInvitation => Reason::UnknownInvitation,
            Self::InvitationSpent { .. } => Reason::InvitationSpent,
            Self::UnknownToken { .. } => Reason::UnknownToken,
            Self::PrivateWorkspace { .. } | Self::PrivateFiles | Self::PrivateBoards => {
                Reason::PrivateWorkspace
            }
            Self::NotOwner { .. } | Self::PersonRequired { .. } => Reason::RightForbidden,
            Self::StaleRoster { .. } => Reason::StaleToken,
            Self::UnknownMessage { .. } => Reason::UnknownMessage,
            Self::UnknownReceiver { .. } | Self::NoSuchRole { .. } => Reason::UnknownRole,
            Self::MailboxClosed { .. } => Reason::MailboxClosed,
            Self::MessageExists { .. } => Reason::MessageExists,
            Self::ClientRefReused { .. } => Reason::KeyReused,
            Self::UnknownAttachment { .. } => Reason::UnknownAttachment,
            Self::ThreadFull { .. }
            | Self::TooManyParticipants { .. }
            | Self::TooManyMailboxes
            | Self::TooMuchMail
            | Self::TooManyAttachments
            | Self::TooManyClients
            | Self::TooManyClientsOfToken { .. }
            | Self::TooManyLoops
            | Self::TooManyNodes
            | Self::TooManyNodesOfToken { .. }
            | Self::TooManyHostedRoles
            | Self::TooManyInvitations
            | Self::TooManyTokens
            | Self::TooManyKeys
            | Self::TooManyBudgets
            | Self::TooManyWaits => Reason::Overloaded,
        }
    }
}

/// Names for a sentence: `A, B, C`.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const NAMES_MAX: usize = 20;
    let mut names: Vec<&str> = names.take(NAMES_MAX + 1).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = NAMES_MAX < names.len();
    names.truncate(NAMES_MAX);
    let mut text = names.join(", ");
    if more {
        text += ", …";
    }
    text
}

/// The same names, and which of them was meant by another.
pub(crate) fn listed_for<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = did_you_mean(name, names.clone());
    listed(names) + &near
}
