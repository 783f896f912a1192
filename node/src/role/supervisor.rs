//! Starts the actors of a node's roles, and starts one anew that failed.
//!
//! What an actor keeps is worth little (which wait supersedes which, what was reported), so it
//! begins empty; the calls under way go on beside it.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use super::actor::{Msg, RoleActor, Surroundings};

/// For each role in the order given, its actor, whichever it is at the time.
pub type Actors = Vec<watch::Receiver<ActorRef<Msg>>>;

#[derive(Debug)]
pub struct Supervisor;

#[derive(Debug)]
struct Slot {
    around: Surroundings,
    actor: watch::Sender<ActorRef<Msg>>,
}

#[derive(Debug)]
pub struct Slots(Vec<Slot>);

impl Actor for Supervisor {
    /// Nobody tells a supervisor anything; it hears of its actors' ends.
    type Msg = ();
    type State = Slots;
    type Arguments = (Vec<Surroundings>, oneshot::Sender<Actors>);

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
    around: &Surroundings,
) -> Result<ActorRef<Msg>, ActorProcessingErr> {
    let cell = supervisor.get_cell();
    let (actor, _running) = Actor::spawn_linked(None, RoleActor, around.clone(), cell).await?;
    Ok(actor)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        identity::Identity,
        link::{self, Link},
        role::{Actions as _, handle::Handle, presence::Presence},
    };

    #[tokio::test]
    async fn an_actor_that_ends_is_started_anew_behind_the_same_handle() {
        let data = tempfile::tempdir().expect("a directory");
        let identity = Arc::new(Identity::open(data.path()).expect("free"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let settings = link::Settings {
            broker: format!("http://{address}"),
            workspace: "default".parse().expect("an id"),
            node: identity.node().clone(),
            roles: Vec::new(),
            take_over: false,
        };
        let link = Link::start(settings, identity).expect("an address");
        let role: tasuki_proto::id::RoleId = "A".parse().expect("an id");
        let presence = Presence::default();
        let around =
            Surroundings { role: role.clone(), presence: presence.clone(), link: link.clone() };
        let (started, actors) = oneshot::channel();
        let (supervisor, supervision) =
            Supervisor::spawn(None, Supervisor, (vec![around], started)).await.expect("started");
        let mut actor = actors.await.expect("started").remove(0);
        let handle = Arc::new(Handle::new(role, presence, actor.clone()));

        let main = "main".parse().expect("an id");
        let waiting = {
            let (handle, main) = (handle.clone(), tasuki_proto::id::LoopId::clone(&main));
            tokio::spawn(async move { handle.await_turn(&main, Duration::from_secs(60)).await })
        };
        let first = actor.borrow_and_update().clone();
        first.kill();
        actor.changed().await.expect("another actor");
        assert_ne!(actor.borrow().get_id(), first.get_id());
        handle.mark_seen(&main, 1.into());

        link.shutdown(Duration::from_secs(20)).await;
        let answer = waiting.await.expect("ran").expect("answered, whichever actor took it");
        assert!(answer.still_waiting, "{answer:?}");
        supervisor.stop(None);
        supervision.await.expect("stopped");
    }
}
