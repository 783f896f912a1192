//! Calls about boards.

use tasuki_proto::{token::Right, wire};

use super::calls::{Call, acting, answers, bytes, inside, new_key};
use crate::support::caller;

pub(super) static CALLS: &[Call] = &[
    acting("/tasuki.v1.Board/UpdateBoard", Right::Send, |workspace, role| {
        let value_json = "1".to_owned();
        bytes(wire::UpdateBoardRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            board: "plan".to_owned(),
            updates: vec![wire::ChannelUpdate { channel: "retry_count".to_owned(), value_json }],
            ..Default::default()
        })
    }),
    answers(
        "unknown_board",
        acting("/tasuki.v1.Board/ForkBoard", Right::Send, |workspace, role| {
            bytes(wire::ForkBoardRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_board",
        inside("/tasuki.v1.Board/DeleteBoard", Right::Steer, |workspace, _| {
            bytes(wire::DeleteBoardRequest {
                caller: caller(workspace),
                key: new_key(),
                person: "p".to_owned(),
                board: "nowhere".to_owned(),
            })
        }),
    ),
    answers(
        "unknown_board",
        acting("/tasuki.v1.Board/PruneBoard", Right::Steer, |workspace, role| {
            bytes(wire::PruneBoardRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                keep: 1,
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_board",
        acting("/tasuki.v1.Board/PutBoardResults", Right::Send, |workspace, role| {
            let (name, value_json) = ("x".to_owned(), "1".to_owned());
            bytes(wire::PutBoardResultsRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                board: "nowhere".to_owned(),
                checkpoint: 1,
                results: vec![wire::BoardResultInput { name, value_json }],
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_board",
        inside("/tasuki.v1.Board/ListBoardResults", Right::Read, |workspace, _| {
            let (caller, board) = (caller(workspace), "nowhere".to_owned());
            bytes(wire::ListBoardResultsRequest { caller, board, ..Default::default() })
        }),
    ),
    answers(
        "unknown_board",
        inside("/tasuki.v1.Board/ReadBoard", Right::Read, |workspace, _| {
            let (caller, board) = (caller(workspace), "nowhere".to_owned());
            bytes(wire::ReadBoardRequest { caller, board, ..Default::default() })
        }),
    ),
    answers(
        "unknown_board",
        inside("/tasuki.v1.Board/DiffBoard", Right::Read, |workspace, _| {
            let (caller, board) = (caller(workspace), "nowhere".to_owned());
            bytes(wire::DiffBoardRequest { caller, board, ..Default::default() })
        }),
    ),
    inside("/tasuki.v1.Board/ListBoards", Right::Read, |workspace, _| {
        bytes(wire::ListBoardsRequest { caller: caller(workspace), ..Default::default() })
    }),
    answers(
        "unknown_board",
        inside("/tasuki.v1.Board/ListCheckpoints", Right::Read, |workspace, _| {
            let (caller, board) = (caller(workspace), "nowhere".to_owned());
            bytes(wire::ListCheckpointsRequest { caller, board, ..Default::default() })
        }),
    ),
    acting("/tasuki.v1.Board/AwaitBoard", Right::Read, |workspace, role| {
        let (caller, role, board) = (caller(workspace), role.to_owned(), "plan".to_owned());
        bytes(wire::BoardQuestion { caller, role, board, ..Default::default() })
    }),
];
