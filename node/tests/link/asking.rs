//! What tests ask of a link, and of a role, typed.

use std::time::Duration;

use tasuki_node::{
    link::{AnyRequest, Link},
    role::{Actions, HandOver, Refusal, Seen},
    wait::{Answer, MailFilter, Question},
};
use tasuki_proto::{
    id::{LoopId, RoleId},
    rpc::Rpc,
    wire,
};

/// A link, asked as any role.
pub(crate) trait AskLink {
    async fn ask<R: Rpc>(&self, role: &RoleId, request: R) -> Result<Seen<R::Response>, Refusal>;

    async fn await_turn(
        &self,
        role: &RoleId,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal>;

    async fn hand_over(
        &self,
        role: &RoleId,
        handover: &HandOver,
    ) -> Result<wire::HandOverResponse, Refusal>;

    async fn loop_status(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal>;
}

impl AskLink for Link {
    async fn ask<R: Rpc>(&self, role: &RoleId, request: R) -> Result<Seen<R::Response>, Refusal> {
        let Seen { what, ago } = self.call(role, AnyRequest::new(request), None).await?;
        Ok(Seen { what: *what.downcast().expect("its own response"), ago })
    }

    async fn await_turn(
        &self,
        role: &RoleId,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal> {
        let permit = self.admit_wait(role, hold).await?;
        turn(self.wait(role, Question::Turn(loop_id.clone()), hold, permit).await?)
    }

    async fn hand_over(
        &self,
        role: &RoleId,
        handover: &HandOver,
    ) -> Result<wire::HandOverResponse, Refusal> {
        self.ask(role, handover.clone().into_request().0).await.map(|seen| seen.what)
    }

    async fn loop_status(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        let request = wire::GetLoopRequest { r#loop: loop_id.to_string(), ..Default::default() };
        self.ask(&"A".parse().expect("an id"), request).await
    }
}

/// A role that waits.
pub(crate) trait Await {
    async fn await_turn(
        &self,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal>;

    async fn await_mail(
        &self,
        filter: &MailFilter,
        hold: Duration,
    ) -> Result<wire::MailAnswer, Refusal>;
}

impl Await for dyn Actions {
    async fn await_turn(
        &self,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal> {
        turn(self.wait(Question::Turn(loop_id.clone()), hold).await?)
    }

    async fn await_mail(
        &self,
        filter: &MailFilter,
        hold: Duration,
    ) -> Result<wire::MailAnswer, Refusal> {
        match self.wait(Question::Mail(filter.clone()), hold).await? {
            Answer::Mail(answer) => Ok(*answer),
            answer @ (Answer::Turn(_) | Answer::Swarm(_) | Answer::Board(_) | Answer::Run(_)) => {
                panic!("of another kind: {answer:?}")
            }
        }
    }
}

fn turn(answer: Answer) -> Result<wire::TurnAnswer, Refusal> {
    match answer {
        Answer::Turn(answer) => Ok(*answer),
        answer @ (Answer::Mail(_) | Answer::Swarm(_) | Answer::Board(_) | Answer::Run(_)) => {
            panic!("of another kind: {answer:?}")
        }
    }
}
