//! Every call of the broker, with a message that is as it should be.

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use tasuki_proto::{
    id::WorkspaceId,
    mail::MessageId,
    private::{NodeKey, OwnerKey, Roster},
    token::Right,
    wire,
};

use super::run_calls::no_node;
use crate::{
    guarded::{fresh, scope},
    support::{caller, key},
};

pub(super) struct Call {
    pub(super) path: &'static str,
    /// What it takes.
    pub(super) right: Option<Right>,
    pub(super) has_workspace: bool,
    /// It acts as a role.
    pub(super) has_role: bool,
    pub(super) is_stream: bool,
    /// What it says to who may make it.
    pub(super) answer: &'static str,
    /// What it says to who shows no token, unless that is what is wrong.
    pub(super) without_token: Option<&'static str>,
    /// For a workspace and a role.
    pub(super) message: fn(&str, &str) -> Bytes,
}

const fn plain(path: &'static str, message: fn(&str, &str) -> Bytes) -> Call {
    Call {
        path,
        right: None,
        has_workspace: false,
        has_role: false,
        is_stream: false,
        answer: "ok",
        without_token: None,
        message,
    }
}

const fn admin(path: &'static str, message: fn(&str, &str) -> Bytes) -> Call {
    Call { right: Some(Right::Admin), ..plain(path, message) }
}

pub(super) const fn inside(
    path: &'static str,
    right: Right,
    message: fn(&str, &str) -> Bytes,
) -> Call {
    Call { right: Some(right), has_workspace: true, ..plain(path, message) }
}

pub(super) const fn acting(
    path: &'static str,
    right: Right,
    message: fn(&str, &str) -> Bytes,
) -> Call {
    Call { has_role: true, ..inside(path, right, message) }
}

pub(super) const fn stream(call: Call) -> Call {
    Call { is_stream: true, ..call }
}

pub(super) const fn answers(answer: &'static str, call: Call) -> Call {
    Call { answer, ..call }
}

pub(super) fn bytes(message: impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}

fn hash() -> Vec<u8> {
    fresh().hash().as_bytes().to_vec()
}

/// The workspace that keys are for; of one that nobody can name another, since nothing is signed
/// for it.
fn roster_of(workspace: &str) -> WorkspaceId {
    workspace.parse().unwrap_or_else(|_| "another".parse().expect("a name"))
}

/// A key that no other message has.
pub(super) fn new_key() -> Option<wire::IdempotencyKey> {
    key(&format!("c{}", fresh().hash().short()), 1)
}

/// Names no thread.
const NO_MESSAGE: &str = "00000000-0000-4000-8000-000000000000";

/// An owner's or a node's secret.
fn signing() -> SigningKey {
    SigningKey::from_bytes(&[9; 32])
}

pub(super) static CALLS: &[Call] = &[
    plain("/grpc.health.v1.Health/Check", |_, _| Bytes::new()),
    stream(plain("/grpc.health.v1.Health/Watch", |_, _| Bytes::new())),
    stream(plain("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", |_, _| {
        // list_services: "*"
        Bytes::from_static(b"\x3a\x01*")
    })),
    stream(plain("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", |_, _| {
        Bytes::from_static(b"\x3a\x01*")
    })),
    // These are about all workspaces, and the token is for one.
    answers("right_forbidden", stream(admin("/tasuki.v1.Admin/Backup", |_, _| Bytes::new()))),
    answers("right_forbidden", stream(admin("/tasuki.v1.Admin/Verify", |_, _| Bytes::new()))),
    answers("right_forbidden", stream(admin("/tasuki.v1.Admin/Compact", |_, _| Bytes::new()))),
    admin("/tasuki.v1.Access/Invite", |workspace, role| {
        bytes(wire::InviteRequest {
            code: hash(),
            scope: Some(scope(workspace, &[role], &[Right::Read])),
            ..wire::InviteRequest::default()
        })
    }),
    admin("/tasuki.v1.Access/IssueToken", |workspace, role| {
        bytes(wire::IssueTokenRequest {
            secret: hash(),
            scope: Some(scope(workspace, &[role], &[Right::Read])),
            ..wire::IssueTokenRequest::default()
        })
    }),
    Call {
        answer: "unknown_invitation",
        without_token: Some("unknown_invitation"),
        ..plain("/tasuki.v1.Access/Join", |_, _| {
            let code = fresh().expose_bytes().to_vec();
            bytes(wire::JoinRequest { code, secret: hash(), label: String::new() })
        })
    },
    admin("/tasuki.v1.Access/ListInvitations", |_, _| Bytes::new()),
    admin("/tasuki.v1.Access/ListTokens", |_, _| Bytes::new()),
    answers(
        "unknown_token",
        admin("/tasuki.v1.Access/RevokeToken", |_, _| {
            bytes(wire::RevokeTokenRequest { token_id: "none".to_owned() })
        }),
    ),
    answers(
        "unknown_token",
        admin("/tasuki.v1.Access/RotateToken", |_, _| {
            let token_id = "none".to_owned();
            bytes(wire::RotateTokenRequest { token_id, secret: hash(), overlap_ms: 0 })
        }),
    ),
    plain("/tasuki.v1.Access/ListWorkspaces", |_, _| Bytes::new()),
    plain("/tasuki.v1.Access/WhoAmI", |_, _| Bytes::new()),
    answers(
        "unknown_invitation",
        admin("/tasuki.v1.Access/WithdrawInvitation", |_, _| {
            bytes(wire::WithdrawInvitationRequest { invitation_id: "none".to_owned() })
        }),
    ),
    answers(
        "stale_epoch",
        acting("/tasuki.v1.Directory/Heartbeat", Right::Host, |workspace, role| {
            let sign = wire::RolePresence { role: role.to_owned(), ..Default::default() };
            let caller = wire::Caller {
                workspace: workspace.to_owned(),
                node: "no-such-node".to_owned(),
                epoch: 1,
            };
            bytes(wire::HeartbeatRequest { caller: Some(caller), roles: vec![sign] })
        }),
    ),
    inside("/tasuki.v1.Directory/ListNodes", Right::Read, |workspace, _| {
        bytes(wire::ListNodesRequest { caller: caller(workspace), ..Default::default() })
    }),
    inside("/tasuki.v1.Directory/ListRoles", Right::Read, |workspace, _| {
        bytes(wire::ListRolesRequest { caller: caller(workspace), ..Default::default() })
    }),
    acting("/tasuki.v1.Directory/Register", Right::Host, |workspace, role| {
        let spec =
            wire::RoleSpec { role: role.to_owned(), toolsets: Vec::new(), is_standby: false };
        bytes(wire::RegisterRequest {
            caller: caller(workspace),
            key: new_key(),
            node: "n1".to_owned(),
            roles: vec![spec],
            ..wire::RegisterRequest::default()
        })
    }),
    inside("/tasuki.v1.Relay/ListTools", Right::Read, |workspace, _| {
        bytes(wire::ListToolsRequest { caller: caller(workspace), ..Default::default() })
    }),
    stream(inside("/tasuki.v1.Relay/WatchTools", Right::Read, |workspace, _| {
        bytes(wire::WatchToolsRequest { caller: caller(workspace) })
    })),
    answers(
        "unavailable",
        stream(acting("/tasuki.v1.Relay/CallTool", Right::Call, |workspace, role| {
            bytes(wire::CallToolRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                target: "nobody".to_owned(),
                tool: "run_tests".to_owned(),
                ..Default::default()
            })
        })),
    ),
    answers(
        "stale_epoch",
        stream(inside("/tasuki.v1.Relay/ServeTools", Right::Host, |workspace, _| {
            let caller = no_node(workspace);
            bytes(wire::ServeToolsRequest { caller, ..Default::default() })
        })),
    ),
    stream(inside("/tasuki.v1.Feed/Subscribe", Right::Read, |workspace, _| {
        bytes(wire::SubscribeRequest {
            caller: caller(workspace),
            from_sequence: 1,
            ..Default::default()
        })
    })),
    acting("/tasuki.v1.Mailbox/AwaitMail", Right::Read, |workspace, role| {
        let (caller, role) = (caller(workspace), role.to_owned());
        bytes(wire::AwaitMailRequest { caller, role, ..Default::default() })
    }),
    acting("/tasuki.v1.Mailbox/CloseMailbox", Right::Send, |workspace, role| {
        let (caller, role) = (caller(workspace), role.to_owned());
        bytes(wire::CloseMailboxRequest { caller, key: new_key(), role })
    }),
    answers(
        "unknown_message",
        stream(acting("/tasuki.v1.Mailbox/GetAttachment", Right::Read, |workspace, role| {
            bytes(wire::GetAttachmentRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                message: NO_MESSAGE.to_owned(),
                hash: "0".repeat(64),
            })
        })),
    ),
    answers(
        "unknown_message",
        acting("/tasuki.v1.Mailbox/HandAgain", Right::Send, |workspace, role| {
            bytes(wire::HandAgainRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                message: NO_MESSAGE.to_owned(),
            })
        }),
    ),
    acting("/tasuki.v1.Mailbox/ImportThread", Right::Steer, |workspace, role| {
        let entry = wire::ImportedEntry {
            sender: role.to_owned(),
            receivers: vec![role.to_owned()],
            text: "t".to_owned(),
            ..Default::default()
        };
        let digits = fresh().hash().as_bytes()[..16].try_into().expect("16 bytes");
        bytes(wire::ImportThreadRequest {
            caller: caller(workspace),
            key: new_key(),
            message_id: MessageId::from_bits(u128::from_be_bytes(digits)).to_string(),
            entries: vec![entry],
            ..Default::default()
        })
    }),
    acting("/tasuki.v1.Mailbox/ListBox", Right::Read, |workspace, role| {
        let r#box = wire::Box::Inbox.into();
        let (caller, role) = (caller(workspace), role.to_owned());
        bytes(wire::ListBoxRequest { caller, role, r#box, ..Default::default() })
    }),
    acting("/tasuki.v1.Mailbox/ListDeadLetters", Right::Read, |workspace, role| {
        let (caller, role) = (caller(workspace), role.to_owned());
        bytes(wire::ListDeadLettersRequest { caller, role, ..Default::default() })
    }),
    inside("/tasuki.v1.Mailbox/ListMailboxes", Right::Read, |workspace, _| {
        bytes(wire::ListMailboxesRequest { caller: caller(workspace) })
    }),
    answers(
        "unknown_message",
        acting("/tasuki.v1.Mailbox/MarkMail", Right::Send, |workspace, role| {
            bytes(wire::MarkMailRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                message_id: NO_MESSAGE.to_owned(),
                through: 1,
                mark: wire::MailMark::Seen.into(),
            })
        }),
    ),
    acting("/tasuki.v1.Mailbox/Move", Right::Send, |workspace, role| {
        bytes(wire::MoveRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            messages: vec![NO_MESSAGE.to_owned()],
            to: wire::Box::Done.into(),
        })
    }),
    acting("/tasuki.v1.Mailbox/OpenMailbox", Right::Send, |workspace, role| {
        let (caller, role) = (caller(workspace), role.to_owned());
        bytes(wire::OpenMailboxRequest { caller, key: new_key(), role })
    }),
    acting("/tasuki.v1.Mailbox/PutAttachment", Right::Send, |workspace, role| {
        let head = wire::PutAttachmentHead {
            caller: caller(workspace),
            role: role.to_owned(),
            size: 0,
            hash: blake3::hash(b"").to_hex().to_string(),
        };
        let part = Some(wire::put_attachment_request::Part::Head(head));
        bytes(wire::PutAttachmentRequest { part })
    }),
    answers(
        "unknown_message",
        acting("/tasuki.v1.Mailbox/ReadThread", Right::Read, |workspace, role| {
            bytes(wire::ReadThreadRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                message: NO_MESSAGE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    acting("/tasuki.v1.Mailbox/SearchMail", Right::Read, |workspace, role| {
        let (caller, role) = (caller(workspace), role.to_owned());
        let query = "words".to_owned();
        bytes(wire::SearchMailRequest { caller, role, query, ..Default::default() })
    }),
    answers(
        "unknown_message",
        acting("/tasuki.v1.Mailbox/Send", Right::Send, |workspace, role| {
            bytes(wire::SendRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                to: vec![role.to_owned()],
                r#type: "INFO".to_owned(),
                text: "t".to_owned(),
                in_reply_to: NO_MESSAGE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    acting("/tasuki.v1.TurnLoop/AwaitTurn", Right::Read, |workspace, role| {
        let (caller, role) = (caller(workspace), role.to_owned());
        bytes(wire::AwaitTurnRequest { caller, r#loop: String::new(), role, hold_ms: 0 })
    }),
    inside("/tasuki.v1.TurnLoop/CreateLoop", Right::Steer, |workspace, role| {
        let participants = vec![role.to_owned()];
        let (caller, key) = (caller(workspace), new_key());
        bytes(wire::CreateLoopRequest {
            caller,
            key,
            r#loop: "l".to_owned(),
            participants,
            allow_new_roles: true,
        })
    }),
    inside("/tasuki.v1.TurnLoop/GetLoop", Right::Read, |workspace, _| {
        bytes(wire::GetLoopRequest { caller: caller(workspace), r#loop: String::new() })
    }),
    answers(
        "unknown_loop",
        acting("/tasuki.v1.TurnLoop/HandOver", Right::Send, |workspace, role| {
            bytes(wire::HandOverRequest {
                caller: caller(workspace),
                key: new_key(),
                r#loop: "none".to_owned(),
                role: role.to_owned(),
                summary: "s".to_owned(),
                instruction: "i".to_owned(),
                ..wire::HandOverRequest::default()
            })
        }),
    ),
    inside("/tasuki.v1.TurnLoop/History", Right::Read, |workspace, _| {
        let caller = caller(workspace);
        bytes(wire::HistoryRequest { caller, r#loop: String::new(), from: 0, limit: 0 })
    }),
    inside("/tasuki.v1.TurnLoop/ListLoops", Right::Read, |workspace, _| {
        bytes(wire::ListLoopsRequest { caller: caller(workspace), ..Default::default() })
    }),
    answers(
        "unknown_loop",
        acting("/tasuki.v1.TurnLoop/MarkTurn", Right::Send, |workspace, role| {
            bytes(wire::MarkTurnRequest {
                caller: caller(workspace),
                r#loop: "none".to_owned(),
                role: role.to_owned(),
                turn: 1,
                mark: wire::mark_turn_request::Mark::Seen.into(),
            })
        }),
    ),
    inside("/tasuki.v1.Guard/GetGuard", Right::Read, |workspace, _| {
        bytes(wire::GetGuardRequest { caller: caller(workspace) })
    }),
    acting("/tasuki.v1.Guard/ReportUsage", Right::Send, |workspace, role| {
        bytes(wire::ReportUsageRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            calls: 1,
            tokens: 1,
        })
    }),
    answers(
        "right_forbidden",
        acting("/tasuki.v1.Guard/ResumeRole", Right::Steer, |workspace, role| {
            bytes(wire::ResumeRoleRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                target: role.to_owned(),
                ..wire::ResumeRoleRequest::default()
            })
        }),
    ),
    answers(
        "right_forbidden",
        acting("/tasuki.v1.Guard/SetBudget", Right::Steer, |workspace, role| {
            bytes(wire::SetBudgetRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                target: role.to_owned(),
                ..wire::SetBudgetRequest::default()
            })
        }),
    ),
    answers(
        "right_forbidden",
        acting("/tasuki.v1.Guard/SetLimits", Right::Steer, |workspace, role| {
            bytes(wire::SetLimitsRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                max_turns: Some(9),
                ..wire::SetLimitsRequest::default()
            })
        }),
    ),
    answers(
        "unknown_loop",
        acting("/tasuki.v1.TurnLoop/PauseLoop", Right::Steer, |workspace, role| {
            bytes(wire::PauseLoopRequest {
                caller: caller(workspace),
                key: new_key(),
                r#loop: "none".to_owned(),
                role: role.to_owned(),
                reason: "r".to_owned(),
                ..wire::PauseLoopRequest::default()
            })
        }),
    ),
    answers(
        "unknown_loop",
        acting("/tasuki.v1.TurnLoop/ResumeLoop", Right::Steer, |workspace, role| {
            bytes(wire::ResumeLoopRequest {
                caller: caller(workspace),
                key: new_key(),
                r#loop: "none".to_owned(),
                role: role.to_owned(),
                ..wire::ResumeLoopRequest::default()
            })
        }),
    ),
    answers(
        "unknown_loop",
        acting("/tasuki.v1.TurnLoop/Reclaim", Right::Claim, |workspace, role| {
            bytes(wire::ReclaimRequest {
                caller: caller(workspace),
                key: new_key(),
                r#loop: "none".to_owned(),
                role: role.to_owned(),
                reason: "r".to_owned(),
                ..wire::ReclaimRequest::default()
            })
        }),
    ),
    answers(
        "unknown_loop",
        acting("/tasuki.v1.TurnLoop/StartRound", Right::Send, |workspace, role| {
            bytes(wire::StartRoundRequest {
                caller: caller(workspace),
                key: new_key(),
                r#loop: "none".to_owned(),
                role: role.to_owned(),
                ..wire::StartRoundRequest::default()
            })
        }),
    ),
    stream(acting("/tasuki.v1.Waits/Park", Right::Read, |workspace, role| {
        let turn = wire::TurnQuestion {
            caller: caller(workspace),
            r#loop: String::new(),
            role: role.to_owned(),
            hold_ms: 0,
        };
        bytes(wire::ParkRequest { wait: 1, ask: Some(wire::park_request::Ask::Turn(turn)) })
    })),
    // Last: mail in the clear is refused from then on.
    inside("/tasuki.v1.Privacy/GetRoster", Right::Read, |workspace, _| {
        bytes(wire::GetRosterRequest { caller: caller(workspace) })
    }),
    acting("/tasuki.v1.Privacy/PublishKey", Right::Host, |workspace, role| {
        let (secret, roles) = (signing(), vec![role.parse().unwrap()]);
        let node = "private".parse().unwrap();
        let made = NodeKey::proven(&roster_of(workspace), node, roles, &secret, [1; 32]);
        bytes(wire::PublishKeyRequest {
            caller: caller(workspace),
            key: new_key(),
            node_key: Some(made.to_wire(0)),
        })
    }),
    inside("/tasuki.v1.Privacy/SetRoster", Right::Steer, |workspace, _| {
        let owner = signing();
        let roster = Roster {
            workspace: roster_of(workspace),
            owner: OwnerKey(owner.verifying_key().to_bytes()),
            number: 1,
            is_on: true,
            keys: Vec::new(),
        };
        let roster = roster.signed(&owner).unwrap().to_wire();
        bytes(wire::SetRosterRequest {
            caller: caller(workspace),
            key: new_key(),
            roster: Some(roster),
        })
    }),
];
