//! How long it takes from one agent's handover to another's woken wait, near and far.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};

use crate::{
    agents::Transport,
    delay,
    net::Place,
    process::until,
    seat::{Seat, turn_in},
    world::{World, soon},
};

/// One way; a round trip is twice that.
const AWAY: Duration = Duration::from_millis(40);

/// Handovers measured, near and far each.
const TIMES: usize = 30;

/// What far may cost beside the round trip. Timers go by whole milliseconds, four on the way; one
/// more crossing would cost [`AWAY`].
const MARGIN: Duration = Duration::from_millis(20);

/// The least of them is the way itself; whatever else the machine does adds to the others.
fn least(of: Vec<Duration>) -> Duration {
    of.into_iter().min().expect("at least one was measured")
}

/// From a handover to the other's woken wait, with the wait parked before.
async fn wakes(world: &World, a: &Seat, b: &Seat) -> Duration {
    let mut took = Vec::new();
    let mut first = a.turn().await;
    for _ in 0..TIMES / 2 {
        for (from, to) in [(a, b), (b, a)] {
            let wait = to.wait();
            until(async || world.is_waiting(&to.role, 0).await).await;
            let began = Instant::now();
            let handed = from.hand_over(first, &crate::seat::words(&from.role, first));
            let answer = soon(wait).await.unwrap().facts();
            took.push(began.elapsed());
            first += 1;
            assert_eq!(turn_in(&answer), first);
            soon(handed).await.unwrap().facts();
        }
    }
    least(took)
}

/// A byte there and back, from one machine to another.
async fn round_trip(from: &Place, to: SocketAddr) -> Duration {
    let took = from.machine.on(async move {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut took = Vec::new();
        for _ in 0..TIMES {
            let began = Instant::now();
            stream.write_all(b"?").await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            took.push(began.elapsed());
        }
        least(took)
    });
    soon(took).await
}

#[tokio::test]
#[ignore = "needs network namespaces"]
async fn a_wake_across_machines_costs_one_round_trip_more() {
    let near = World::new(&["A", "B"]).await;
    let (a, b) =
        (near.seat(0, "A", Transport::Session).await, near.seat(1, "B", Transport::Session).await);
    let near_took = wakes(&near, &a, &b).await;
    drop(near);
    let far = World::far(&["A", "B"], AWAY).await;
    let (a, b) =
        (far.seat(0, "A", Transport::Session).await, far.seat(1, "B", Transport::Session).await);
    let far_took = wakes(&far, &a, &b).await;

    let host = far.host();
    let echo = (host.address(), 7).into();
    let listener = host.machine.on(async move { TcpListener::bind(echo).await.unwrap() }).await;
    let _echo = host.machine.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
    });
    let relay = &far.nodes[1].desk.place;
    let _way = delay::carry(&relay.machine, 8, echo, AWAY).await;
    let trip = round_trip(relay, ([127, 0, 0, 1], 8).into()).await;
    anstream::println!(
        "handover to woken wait: {near_took:.1?} near, {far_took:.1?} at a round trip of {trip:.1?}"
    );
    assert!(far_took <= near_took + trip + MARGIN, "{far_took:?} {near_took:?} {trip:?}");
}
