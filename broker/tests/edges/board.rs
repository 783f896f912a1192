//! Results at checkpoints, and boards that are pruned, through a broker that is killed and compacted.

use std::net::SocketAddr;

use serde_json::Value;
use tasuki_proto::wire::{self, board_client::BoardClient};
use tonic::transport::Channel;

use crate::support::{Process, assert_whole, caller, channel, key, reason, run, soon};

struct Board {
    client: BoardClient<Channel>,
    counter: u64,
}

impl Board {
    fn new(address: SocketAddr, counter: u64) -> Self {
        Self { client: BoardClient::new(channel(address)), counter }
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        key("board", self.counter)
    }

    async fn update(&mut self, channel: &str, value_json: String, fork: Option<u64>) -> u64 {
        let request = wire::UpdateBoardRequest {
            caller: caller("default"),
            key: self.key(),
            role: "A".to_owned(),
            board: "plan".to_owned(),
            updates: vec![wire::ChannelUpdate { channel: channel.to_owned(), value_json }],
            expected_checkpoint: fork,
            fork: fork.is_some(),
            ..Default::default()
        };
        let updated = soon("an update", self.client.update_board(request)).await.unwrap();
        updated.into_inner().checkpoint
    }

    fn put(&mut self, checkpoint: u64, results: &[(&str, String)]) -> wire::PutBoardResultsRequest {
        let results = results.iter().map(|(name, value)| wire::BoardResultInput {
            name: (*name).to_owned(),
            value_json: value.clone(),
        });
        wire::PutBoardResultsRequest {
            caller: caller("default"),
            key: self.key(),
            role: "A".to_owned(),
            board: "plan".to_owned(),
            checkpoint,
            results: results.collect(),
            ..Default::default()
        }
    }

    async fn results(&mut self, checkpoint: u64) -> Vec<(String, String)> {
        let (caller, board) = (caller("default"), "plan".to_owned());
        let request = wire::ListBoardResultsRequest { caller, board, checkpoint };
        let listed = soon("results", self.client.list_board_results(request)).await.unwrap();
        let results = listed.into_inner().results.into_iter();
        results.map(|it| (it.name, it.value_json)).collect()
    }

    async fn read(&mut self, checkpoint: u64) -> Vec<(String, String)> {
        let (caller, board) = (caller("default"), "plan".to_owned());
        let request = wire::ReadBoardRequest { caller, board, checkpoint, ..Default::default() };
        let read = soon("a read", self.client.read_board(request)).await.unwrap().into_inner();
        read.channels.into_iter().map(|it| (it.channel, it.value_json)).collect()
    }
}

/// Holds BD5 and BD6.
#[tokio::test]
async fn results_and_what_remains_outlive_kills_and_compactions() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut board = Board::new(address, 0);
    let text = |size: usize| format!("\"{}\"", "x".repeat(size));
    for number in 1..=4 {
        let comments = format!("[\"{number}\", {}]", text(50_000));
        assert_eq!(board.update("review_comments", comments, None).await, number);
    }
    assert_eq!(board.update("current_phase", "\"code\"".to_owned(), Some(2)).await, 5);
    let request = board.put(5, &[("a", text(10_000)), ("b", "2".to_owned())]);
    let stored = board.client.put_board_results(request.clone()).await.unwrap().into_inner();
    assert_eq!((stored.stored, stored.repeated), (2, false));
    let request_of_old = board.put(1, &[("old", text(60_000))]);
    board.client.put_board_results(request_of_old).await.unwrap();

    // The answer to a key outlives the kill, and so do the results.
    broker.kill().await;
    let (broker, address) = Process::served(data.path()).await;
    let mut board = Board::new(address, board.counter);
    let again = board.client.put_board_results(request).await.unwrap().into_inner();
    assert_eq!(again, stored);
    let kept = board.put(5, &[("a", "7".to_owned()), ("c", "3".to_owned())]);
    let kept = board.client.put_board_results(kept).await.unwrap().into_inner();
    assert_eq!((kept.stored, kept.kept), (1, vec!["a".to_owned()]));
    let mut replacing = board.put(5, &[("b", "8".to_owned())]);
    replacing.replace = true;
    board.client.put_board_results(replacing).await.unwrap();
    let expected = [("a", text(10_000)), ("b", "8".to_owned()), ("c", "3".to_owned())];
    let expected = expected.map(|(name, value)| (name.to_owned(), value)).to_vec();
    assert_eq!(board.results(5).await, expected);
    for (request, why) in [
        (board.put(9, &[("a", "1".to_owned())]), "unknown_checkpoint"),
        (board.put(5, &[("a", "{".to_owned())]), "invalid_argument"),
        (board.put(5, &[("a\n", "1".to_owned())]), "invalid_argument"),
        (board.put(5, &[("a", "1".to_owned()), ("a", "1".to_owned())]), "invalid_argument"),
        (board.put(5, &[("d", text(1 << 20))]), "too_large"),
    ] {
        let refused = board.client.put_board_results(request).await.unwrap_err();
        assert_eq!(reason(&refused), why, "{refused}");
    }

    // Checkpoint 5 goes on from 2, which is forgotten.
    let before = (board.read(4).await, board.read(5).await);
    let prune = wire::PruneBoardRequest {
        caller: caller("default"),
        key: board.key(),
        person: "ann".to_owned(),
        board: "plan".to_owned(),
        keep: 2,
        ..Default::default()
    };
    let pruned = board.client.prune_board(prune.clone()).await.unwrap().into_inner();
    assert_eq!((pruned.forgotten, pruned.oldest), (3, 4));
    broker.kill().await;
    let ended = run(&["compact", "--json", "--older-than", "0s", "--yes"], data.path()).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let texts = &report["workspaces"]["default"]["texts"];
    // Of each forgotten checkpoint a value; the result of one, and the one that was replaced.
    assert_eq!(texts, 5, "{report}");
    assert_whole(data.path()).await;
    let (broker, address) = Process::served(data.path()).await;
    let mut board = Board::new(address, board.counter);
    assert_eq!((board.read(4).await, board.read(5).await), before);
    assert_eq!(board.results(5).await, expected);
    let again = board.client.prune_board(prune).await.unwrap().into_inner();
    assert_eq!(again, pruned);
    let (role, board_name) = ("A".to_owned(), "plan".to_owned());
    let request = wire::ListBoardResultsRequest {
        caller: caller("default"),
        board: board_name.clone(),
        checkpoint: 1,
    };
    let refused = board.client.list_board_results(request).await.unwrap_err();
    assert_eq!(reason(&refused), "unknown_checkpoint");
    let none = wire::PruneBoardRequest {
        caller: caller("default"),
        key: board.key(),
        role,
        board: board_name,
        ..Default::default()
    };
    let refused = board.client.prune_board(none).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument");
    assert_eq!(board.update("review_comments", "[\"5\"]".to_owned(), None).await, 6);
    broker.kill().await;
}
