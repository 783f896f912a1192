//! Forgetting old checkpoints of a board.

use tasuki_proto::{
    id::{BoardName, CheckpointNumber},
    limits::BOARD_CHECKPOINTS_MAX,
    reason::Reason,
    wire,
};

use super::{
    super::{
        Answer, Endpoint, WorkspaceSession, at_once,
        parse::{actor, id},
        status::invalid,
    },
    check_actor,
    values::make_whole,
};
use crate::rules::{
    self,
    board::{Command, Prune, Reply},
};

/// How often it is begun again because somebody wrote to the board meanwhile.
const ATTEMPTS_MAX: u32 = 5;

impl Endpoint for wire::PruneBoardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = actor(&self.role, &self.person)?;
        check_actor(session, &by)?;
        let board: BoardName = id("board", &self.board)?;
        let keep = self.keep as usize;
        if !(1..=BOARD_CHECKPOINTS_MAX).contains(&keep) {
            let why = format!("is {keep}; 1 to {BOARD_CHECKPOINTS_MAX} checkpoints can be kept");
            return Err(invalid("keep", &why));
        }
        let mut attempt = 1;
        loop {
            let name = board.clone();
            let found = session.query(None, move |view| {
                let board = view.workspace.boards.get(&name)?;
                let oldest = board.oldest_of(keep);
                // Too many are refused below.
                let roots = board.parts_of_roots(&name, oldest).unwrap_or_default();
                Ok((board.id, oldest, roots))
            });
            // What was pruned before is answered as it was, whatever became of the board.
            let (id, oldest) = match found.await {
                Err(_) => (0, CheckpointNumber::NONE),
                Ok((id, oldest, roots)) => {
                    for (root, parts) in roots {
                        make_whole(session, id, root, parts).await?;
                    }
                    (id, oldest)
                }
            };
            let prune = Prune { by: by.clone(), board: board.clone(), id, oldest };
            let done = session.execute(Command::Prune(prune), |_, reply| {
                let rules::Reply::Board(Reply::Pruned(forgotten, oldest)) = reply else {
                    unreachable!("a board is pruned or that is refused")
                };
                let oldest = oldest.get();
                Ok(at_once(wire::PruneBoardResponse { forgotten, oldest, ..Default::default() }))
            });
            match done.await {
                Err(why)
                    if attempt < ATTEMPTS_MAX
                        && Reason::of(&why) == Some(Reason::StaleCheckpoint) =>
                {
                    attempt += 1;
                }
                done => return done,
            }
        }
    }
}
