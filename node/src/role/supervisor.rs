//! Starts the actors of a node's roles, and starts one anew that failed.
//!
//! What an actor keeps is worth little (which wait supersedes which, what was reported), so it
//! begins empty; the calls under way go on beside it.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use super::actor::{Msg, RoleActor, RoleContext};

/// For each role in the order given, its actor, whichever it is at the time.
pub type Actors = Vec<watch::Receiver<ActorRef<Msg>>>;

#[derive(Debug)]
pub struct Supervisor;

#[derive(Debug)]
struct Slot {
    around: RoleContext,
    actor: watch::Sender<ActorRef<Msg>>,
}

#[derive(Debug)]
pub struct Slots(Vec<Slot>);

impl Actor for Supervisor {
    /// Nobody tells a supervisor anything; it hears of its actors' ends.
    type Msg = ();
    type State = Slots;
    type Arguments = (Vec<RoleContext>, oneshot::Sender<Actors>);

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        (roles, started): Self::Arguments,
    ) -> Result<Slots, ActorProcessingErr> {
        let mut slots = Vec::with_capacity(roles.len());
        for around in roles {
            let actor = spawn(&myself, &around).await?;
            slots.push(Slot { around, actor: watch::Sender::new(actor) });
        }
        // Whoever starts a supervisor waits for its actors.
        drop(started.send(slots.iter().map(|slot| slot.actor.subscribe()).collect()));
        Ok(Slots(slots))
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        Slots(slots): &mut Slots,
    ) -> Result<(), ActorProcessingErr> {
        let (ended, why) = match event {
            SupervisionEvent::ActorFailed(ended, error) => (ended, error.to_string()),
            SupervisionEvent::ActorTerminated(ended, _, reason) => {
                (ended, reason.unwrap_or_else(|| "stopped".to_owned()))
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        let ended = ended.get_id();
        let Some(slot) = slots.iter_mut().find(|slot| slot.actor.borrow().get_id() == ended) else {
            return Ok(());
        };
        tracing::error!(role = %slot.around.role, why, "a role's actor ended and is started anew");
        let actor = spawn(&myself, &slot.around).await?;
        slot.actor.send_replace(actor);
        Ok(())
    }
}

async fn spawn(
    supervisor: &ActorRef<()>,
    around: &RoleContext,
) -> Result<ActorRef<Msg>, ActorProcessingErr> {
    let cell = supervisor.get_cell();
    let (actor, _running) = Actor::spawn_linked(None, RoleActor, around.clone(), cell).await?;
    Ok(actor)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tasuki_proto::{
        id::{LoopId, RoleId},
        reason::Reason,
        wire,
    };
    use tokio::task::JoinHandle;

    use super::*;
    use crate::{
        clock,
        identity::Identity,
        link::{self, AnyRequest, Link},
        presence::Presence,
        role::{Actions, handle::Handle},
        wait::{Answer, Question},
    };

    /// A role behind its handle, without a broker.
    struct Hosted {
        link: Link,
        supervisor: ActorRef<()>,
        supervision: JoinHandle<()>,
        actor: watch::Receiver<ActorRef<Msg>>,
        handle: Arc<Handle>,
        presence: Presence,
        _data: tempfile::TempDir,
    }

    impl Hosted {
        async fn new() -> Self {
            let data = tempfile::tempdir().expect("a directory");
            let identity = Arc::new(Identity::open(data.path()).expect("free"));
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            drop(listener);
            let settings = link::Settings {
                broker: format!("http://{address}"),
                carrier: None,
                workspace: "default".parse().expect("an id"),
                node: identity.node().clone(),
                roles: Vec::new(),
                take_over: false,
            };
            let link = Link::start(settings, identity).expect("an address");
            let role: RoleId = "A".parse().expect("an id");
            let presence = Presence::default();
            let around =
                RoleContext { role: role.clone(), presence: presence.clone(), link: link.clone() };
            let (started, actors) = oneshot::channel();
            let (supervisor, supervision) =
                Supervisor::spawn(None, Supervisor, (vec![around], started))
                    .await
                    .expect("started");
            let actor = actors.await.expect("started").remove(0);
            let handle = Arc::new(Handle::new(role, presence.clone(), &link, actor.clone()));
            Self { link, supervisor, supervision, actor, handle, presence, _data: data }
        }

        /// A wait of a minute, with the answer that comes when the node stops.
        fn wait(&self) -> JoinHandle<wire::TurnAnswer> {
            let handle = self.handle.clone();
            tokio::spawn(async move {
                let answer = handle.wait(Question::Turn(main()), Duration::from_secs(60)).await;
                match answer.expect("answered, whichever actor took it") {
                    Answer::Turn(answer) => *answer,
                    answer @ (Answer::Mail(_)
                    | Answer::Swarm(_)
                    | Answer::Board(_)
                    | Answer::Run(_)) => {
                        panic!("of another kind: {answer:?}")
                    }
                }
            })
        }

        async fn stop(self) {
            self.link.shutdown(Duration::from_secs(20)).await;
            self.supervisor.stop(None);
            self.supervision.await.expect("stopped");
        }
    }

    fn main() -> LoopId {
        "main".parse().expect("an id")
    }

    #[tokio::test]
    async fn an_actor_that_ends_is_started_anew_behind_the_same_handle() {
        let mut hosted = Hosted::new().await;
        let waiting = hosted.wait();
        let first = hosted.actor.borrow_and_update().clone();
        first.kill();
        hosted.actor.changed().await.expect("another actor");
        assert_ne!(hosted.actor.borrow().get_id(), first.get_id());
        hosted.handle.mark_seen(&main(), 1.into());
        hosted.stop().await;
        let answer = waiting.await.expect("ran");
        assert!(answer.still_waiting, "{answer:?}");
    }

    /// Whoever asks says itself whether that counts: another agent's look does not.
    #[tokio::test]
    async fn what_is_asked_is_no_sign_of_life_by_itself() {
        let hosted = Hosted::new().await;
        let mut asked = hosted.handle.wait(Question::Turn(main()), Duration::ZERO);
        assert!(futures::poll!(&mut asked).is_pending());
        drop(asked);
        assert_eq!(hosted.presence.report(clock::now()), None);
        hosted.stop().await;
    }

    #[tokio::test]
    async fn a_read_that_was_given_up_takes_no_room() {
        let hosted = Hosted::new().await;
        let read = || {
            let request = AnyRequest::new(wire::GetIssueRequest::default());
            hosted.handle.call(request, None)
        };
        let mut reads: Vec<_> = (0..1_000).map(|_| read()).collect();
        for read in &mut reads {
            assert!(futures::poll!(read).is_pending());
        }
        drop(reads);
        // Nobody is there to answer it, which takes longer than a call waits for room.
        let refusal = read().await.unwrap_err();
        assert_eq!(refusal.reason, Reason::Unavailable, "{refusal}");
        hosted.stop().await;
    }

    #[tokio::test]
    async fn of_more_waits_at_once_than_there_may_be_the_newest_stays() {
        let hosted = Hosted::new().await;
        // On one thread, all of them are begun before the actor sees the first.
        let mut waits: Vec<_> = (0..1_000).map(|_| hosted.wait()).collect();
        let newest = waits.pop().expect("some");
        for (number, wait) in waits.into_iter().enumerate() {
            let answer = wait.await.expect("ran");
            assert!(answer.superseded, "{number}: {answer:?}");
        }
        assert!(!newest.is_finished());
        hosted.stop().await;
        let answer = newest.await.expect("ran");
        assert!(answer.still_waiting, "{answer:?}");
    }
}
