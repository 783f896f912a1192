//! Results that are stored at checkpoints.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tasuki_proto::{
    board::ResultName,
    id::BoardName,
    limits::{CHANNEL_BYTES_MAX, CHECKPOINT_RESULTS_MAX, RESULTS_PER_CALL_MAX},
    wire,
};
use tonic::Status;

use super::{
    super::{
        Answer, Endpoint, WorkspaceSession, at_once,
        parse::{actor, check_count, check_size, id},
        render::text,
        status::{self, invalid},
    },
    parse::checkpoint,
};
use crate::rules::{
    self,
    board::{Command, Reply, ResultPlace, StoreResults},
};

/// How often results are looked up again that were replaced or removed while they were read.
const READS_MAX: u32 = 3;

impl Endpoint for wire::PutBoardResultsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        let board: BoardName = id("board", &self.board)?;
        let checkpoint = checkpoint(self.checkpoint)
            .ok_or_else(|| invalid("checkpoint", &"is 0; name the checkpoint"))?;
        let results = parse_results(self.results)?;
        let is_replacing = self.replace;
        let names: Vec<String> = results.iter().map(|(name, _)| name.to_string()).collect();
        let asked = StoreResults { by, board, checkpoint, results, is_replacing };
        session
            .execute(Command::StoreResults(asked), move |_, reply| {
                let rules::Reply::Board(Reply::ResultsStored(kept)) = reply else {
                    unreachable!("results are stored or refused")
                };
                let is_kept = |(index, _): &(usize, String)| kept & (1 << index) != 0;
                let stored = u32::try_from(names.len()).unwrap_or(u32::MAX) - kept.count_ones();
                let names = names.into_iter().enumerate();
                let kept = names.filter(is_kept).map(|(_, name)| name).collect();
                Ok(at_once(wire::PutBoardResultsResponse { stored, kept, ..Default::default() }))
            })
            .await
    }
}

fn parse_results(
    results: Vec<wire::BoardResultInput>,
) -> Result<Vec<(ResultName, String)>, Status> {
    check_count("results", results.len(), 1..=RESULTS_PER_CALL_MAX)?;
    let mut parsed = BTreeMap::new();
    for it in results {
        let name: ResultName = it.name.parse().map_err(|why| invalid("results.name", &why))?;
        let field = format!("results.{name}");
        check_size(&field, it.value_json.len(), CHANNEL_BYTES_MAX)?;
        serde_json::from_str::<Json>(&it.value_json)
            .map_err(|why| invalid(&field, &format!("is not JSON: {why}")))?;
        if parsed.insert(name, it.value_json).is_some() {
            return Err(invalid(&field, &"is named twice"));
        }
    }
    Ok(parsed.into_iter().collect())
}

impl Endpoint for wire::ListBoardResultsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let name: BoardName = id("board", &self.board)?;
        let mut reads = 1;
        loop {
            let (places, answer) = find(session, &name, self.checkpoint).await?;
            let read = move |session: &WorkspaceSession| {
                let read = |place| session.bodies().board_result(place);
                places
                    .iter()
                    .map(read)
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|e| status::reading(&e))
            };
            match session.reading(CHECKPOINT_RESULTS_MAX, read).await {
                Ok(values) => {
                    let mut answer = answer;
                    for (result, value) in answer.results.iter_mut().zip(values) {
                        result.value_json = value;
                    }
                    return Ok(answer);
                }
                Err(why) if reads == READS_MAX => return Err(why),
                Err(_) => reads += 1,
            }
        }
    }
}

/// Where the values of results are, and an answer without them.
async fn find(
    session: &WorkspaceSession,
    name: &BoardName,
    number: u64,
) -> Result<(Vec<ResultPlace>, wire::ListBoardResultsResponse), Status> {
    let name = name.clone();
    let find = move |view: &crate::workspace::View<'_>| {
        let (board, at) = view.workspace.boards.checkpoint(&name, checkpoint(number))?;
        let places = board.results_at(at).map(|(_, it)| ResultPlace {
            board: board.id,
            checkpoint: at,
            number: it.number,
        });
        let results = board.results_at(at).map(|(name, it)| wire::BoardResult {
            name: name.to_string(),
            value_json: String::new(),
            by_role: text(it.role.as_ref()),
            by_person: text(it.person.as_ref()),
            at_ms: it.at.as_millis(),
        });
        let answer =
            wire::ListBoardResultsResponse { checkpoint: at.get(), results: results.collect() };
        Ok((places.collect(), answer))
    };
    session.query(None, find).await
}
