//! Which stream a message leaves on, and what becomes of what is taken back or over.

use futures::StreamExt as _;
use serde_json::json;
use tasuki_proto::limits::HOLD_MS_MAX;

use super::{super::events::stream_name, *};

fn client(message: serde_json::Value) -> ClientJsonRpcMessage {
    serde_json::from_value(message).unwrap()
}

fn server(message: serde_json::Value) -> ServerJsonRpcMessage {
    serde_json::from_value(message).unwrap()
}

fn call(id: u64) -> ClientJsonRpcMessage {
    client(json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": "t", "_meta": { "progressToken": id + 100 } },
    }))
}

fn answer(id: u64) -> ServerJsonRpcMessage {
    server(json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } }))
}

fn progress(id: u64) -> ServerJsonRpcMessage {
    server(json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": id + 100, "progress": 1 },
    }))
}

fn changed() -> ServerJsonRpcMessage {
    server(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
}

fn open() -> (Arc<SessionStreams>, SessionTransport, Events) {
    let events = Events::default();
    let (streams, transport) = SessionStreams::open("s".into(), events.clone());
    (streams, transport, events)
}

async fn ask(
    streams: &SessionStreams,
    id: u64,
) -> Result<impl Stream<Item = ServerSseMessage> + Unpin + use<>, SessionEnded> {
    streams.ask(call(id), stream_name("s")).await
}

/// What is on a stream by now, and whether it has ended.
fn read(stream: &mut (impl Stream<Item = ServerSseMessage> + Unpin)) -> (Vec<String>, bool) {
    let mut read = Vec::new();
    loop {
        match futures::FutureExt::now_or_never(stream.next()) {
            Some(Some(event)) => read.push(event.event_id.unwrap()),
            Some(None) => return (read, true),
            None => return (read, false),
        }
    }
}

/// A silent wait must not be taken for a dead session.
#[test]
fn a_session_outlives_any_hold() {
    assert!(Duration::from_millis(HOLD_MS_MAX) < IDLE);
}

#[tokio::test]
async fn an_answer_ends_its_own_stream_and_no_other() {
    let (streams, mut transport, _) = open();
    let mut first = ask(&streams, 1).await.unwrap();
    let mut second = ask(&streams, 2).await.unwrap();
    let mut own = streams.listen().unwrap();
    for message in [progress(2), answer(1), changed(), progress(1)] {
        transport.send(message).await.unwrap();
    }
    let ((first, is_over), (second, is_open)) = (read(&mut first), read(&mut second));
    assert!(first.len() == 1 && is_over && first[0].ends_with("/1"), "{first:?}");
    assert!(second.len() == 1 && !is_open, "{second:?}");
    // Progress of what was answered is nobody's.
    let (own, _) = read(&mut own);
    assert_eq!(own, ["s:common/1", "s:common/2"]);
    assert!(own.iter().all(|it| is_of_own_stream(it)) && !is_of_own_stream(&first[0]));
    assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
}

#[tokio::test]
async fn what_is_taken_back_is_not_answered() {
    let (streams, mut transport, _) = open();
    let mut stream = ask(&streams, 1).await.unwrap();
    let mut own = streams.listen().unwrap();
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    });
    streams.say(client(cancelled)).await.unwrap();
    transport.send(answer(1)).await.unwrap();
    assert_eq!(read(&mut stream), (vec![], true));
    assert_eq!(read(&mut own), (vec![], false));
    assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
    assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Notification(_))));
}

/// What the server hears, as JSON.
async fn heard(transport: &mut SessionTransport) -> serde_json::Value {
    serde_json::to_value(transport.receive().await.unwrap()).unwrap()
}

#[tokio::test]
async fn an_id_that_is_used_again_has_an_answer_for_each() {
    let (streams, mut transport, events) = open();
    let (broken, name) = (streams.ask(call(7), stream_name("s")).await.unwrap(), "s:second");
    drop(broken);
    let mut second = Box::pin(streams.ask(call(7), name.into()).await.unwrap());
    let numbers = [heard(&mut transport).await, heard(&mut transport).await];
    let numbers = numbers.map(|it| it["id"].as_u64().unwrap());
    assert_ne!(numbers[0], numbers[1]);
    transport.send(answer(numbers[0])).await.unwrap();
    assert_eq!(read(&mut second), (vec![], false));
    transport.send(answer(numbers[1])).await.unwrap();
    assert_eq!(read(&mut second), (vec!["s:second/1".to_owned()], true));
    let told: Vec<_> = events.replay("s", "s:second/0").unwrap().collect().await;
    let told = serde_json::to_value(told[0].message.as_deref().unwrap()).unwrap();
    assert_eq!((told["id"].as_u64(), events.streams()), (Some(7), 2));
}

#[tokio::test]
async fn an_id_that_is_taken_back_is_taken_back_for_each() {
    let (streams, mut transport, _) = open();
    for id in [7, 8, 7] {
        let _ = ask(&streams, id).await.unwrap();
    }
    let mut numbers = Vec::new();
    for _ in 0..3 {
        numbers.push(heard(&mut transport).await["id"].clone());
    }
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7, "reason": "enough" },
    });
    streams.say(client(cancelled)).await.unwrap();
    for number in [&numbers[0], &numbers[2]] {
        let params = json!({ "requestId": number, "reason": "enough" });
        assert_eq!(heard(&mut transport).await["params"], params);
    }
    assert_eq!(streams.state().asked.len(), 1);
}

#[tokio::test]
async fn what_the_server_asks_and_takes_back_is_on_the_stream_of_its_request() {
    let (streams, mut transport, _) = open();
    let (mut first, mut second) =
        (ask(&streams, 1).await.unwrap(), ask(&streams, 2).await.unwrap());
    let question = |id: u64| {
        let mut question = server(json!({
            "jsonrpc": "2.0", "id": id, "method": "roots/list",
        }));
        let JsonRpcMessage::Request(it) = &mut question else { unreachable!() };
        let of = OriginatingRequestId(RequestId::Number(2));
        it.request.extensions_mut().insert(of);
        question
    };
    let taken_back = |id: u64| {
        server(json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id },
        }))
    };
    for message in [question(0), question(1), taken_back(1)] {
        transport.send(message).await.unwrap();
    }
    assert_eq!((read(&mut first).0.len(), read(&mut second).0.len()), (0, 3));
    let roots = json!({ "jsonrpc": "2.0", "id": 0, "result": { "roots": [] } });
    streams.say(client(roots)).await.unwrap();
    assert_eq!(streams.state().asked[&2].questions, [RequestId::Number(1)]);
}

#[tokio::test]
async fn what_a_broken_stream_missed_is_kept() {
    let (streams, mut transport, events) = open();
    let stream = ask(&streams, 1).await.unwrap();
    drop(stream);
    transport.send(progress(1)).await.unwrap();
    transport.send(answer(1)).await.unwrap();
    let own = streams.listen().unwrap();
    let mut later = streams.listen().unwrap();
    drop(own);
    transport.send(changed()).await.unwrap();
    // The next of its own takes over.
    assert_eq!(read(&mut later), (vec!["s:common/1".to_owned()], false));
    assert_eq!(events.streams(), 2);
}

#[tokio::test]
async fn the_introduction_is_answered_to_whoever_waits_for_it() {
    let (streams, mut transport, _) = open();
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" },
        },
    });
    let serve = async {
        assert!(transport.receive().await.is_some());
        transport.send(answer(0)).await.unwrap();
    };
    let (answered, ()) = tokio::join!(streams.introduce(client(hello)), serve);
    assert!(matches!(answered, Ok(JsonRpcMessage::Response(_))));
}

#[tokio::test]
async fn what_is_over_is_over_for_both_sides() {
    let (streams, mut transport, _) = open();
    let (mut stream, mut own) = (ask(&streams, 1).await.unwrap(), streams.listen().unwrap());
    streams.end();
    assert!(read(&mut stream).1 && read(&mut own).1);
    assert!(streams.say(call(2)).await.is_err() && streams.listen().is_err());
    // What was said before is still heard.
    assert!(transport.receive().await.is_some());
    assert!(transport.receive().await.is_none());
    // Nobody wants an answer any more; who asks or tells something learns that.
    assert!(transport.send(answer(1)).await.is_ok());
    assert!(transport.send(changed()).await.is_err());

    let (streams, transport, _) = open();
    drop(transport);
    assert!(ask(&streams, 1).await.is_err());
    assert!(streams.introduce(call(1)).await.is_err());
}

#[tokio::test]
async fn streams_of_its_own_are_bounded() {
    let (streams, _transport, _) = open();
    let mut all: Vec<_> = (0..=OWN_STREAMS_MAX).map(|_| streams.listen().unwrap()).collect();
    let over: Vec<_> = all.iter_mut().map(|it| read(it).1).collect();
    assert_eq!(over.iter().position(|it| *it), Some(1));
    assert_eq!(over.iter().filter(|it| **it).count(), 1);
}
