//! Health and reflection.

use std::path::Path;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tasuki_proto::{DESCRIPTORS, host::config::FOLDER, stored::LogHead, wire};
use tokio_stream::StreamExt as _;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

/// What older clients call, Python's among them.
mod v1alpha {
    pub(super) use tonic_reflection::pb::v1alpha::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
}

use crate::{
    power_cut::shim,
    support::{Process, arguments, channel, soon, turns},
};

fn segments(data: &Path) -> [Vec<u8>; 2] {
    ["log/0", "log/1"].map(|it| std::fs::read(data.join(FOLDER).join(it)).unwrap())
}

#[tokio::test]
async fn serving_means_that_a_write_reached_the_disk() {
    let base = tempfile::tempdir().unwrap();
    let shim = shim(base.path());
    let (seen, image) = (base.path().join("seen"), base.path().join("image"));
    std::fs::create_dir(&seen).unwrap();
    std::fs::create_dir(&image).unwrap();
    let environment = [
        ("LD_PRELOAD", shim.into()),
        ("CUT_FROM", seen.clone().into()),
        ("CUT_TO", image.clone().into()),
    ];
    let words = arguments(&["serve", "--listen", "127.0.0.1:0"], &seen);
    let mut broker = Process::spawn(&words, &environment);
    let address = broker.address().await.unwrap();
    let mut health = HealthClient::new(channel(address));
    let before = segments(&image);
    let answer = soon("an answer", health.check(HealthCheckRequest::default())).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    assert!(before != segments(&image), "the disk has something new");
    let unknown = HealthCheckRequest { service: "nope".to_owned() };
    let refused = health.check(unknown).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);

    let watch = health.watch(HealthCheckRequest::default()).await.unwrap();
    let first = soon("a status", watch.into_inner().next()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    turns(address).get_loop(wire::GetLoopRequest::default()).await.unwrap();
    broker.kill().await;
}

/// The number of the newest frame of the log.
fn frames(data: &Path) -> u64 {
    const SECTOR: usize = 512;
    let newest = segments(data).map(|segment| {
        let length = usize::from(u16::from_be_bytes([segment[0], segment[1]]));
        let head = LogHead::decode(&segment[6..6 + length]).unwrap_or_default();
        let sectors = segment.chunks(SECTOR).skip(1);
        let numbers = sectors.map(|it| u64::from_be_bytes(it[8..16].try_into().unwrap()));
        // Frames of a sector each, and a few that are larger.
        numbers.fold(head.number, |last, it| if it == last + 1 { it } else { last })
    });
    newest.into_iter().max().unwrap()
}

#[tokio::test]
async fn many_who_ask_at_once_make_one_write_a_second() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut named = vec![String::new()];
    for bytes in [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET] {
        for file in FileDescriptorSet::decode(bytes).unwrap().file {
            let services =
                file.service.iter().map(|it| format!("{}.{}", file.package(), it.name()));
            named.extend(services);
        }
    }
    assert!(named.len() > 9, "{named:?}");
    let channel = channel(address);
    turns(address).get_loop(wire::GetLoopRequest::default()).await.unwrap();
    let (before, began) = (frames(data.path()), tokio::time::Instant::now());
    let mut asking = tokio::task::JoinSet::new();
    for service in named.iter().cycle().take(256).cloned() {
        let mut health = HealthClient::new(channel.clone());
        asking.spawn(async move { health.check(HealthCheckRequest { service }).await });
    }
    while let Some(answer) = soon("an answer", asking.join_next()).await {
        let answer = answer.unwrap().unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
    let writes = frames(data.path()) - before;
    assert_ne!(writes, 0);
    // One, unless this machine takes longer than a second for all of them.
    assert!(writes <= 1 + began.elapsed().as_secs(), "{writes} writes in {:?}", began.elapsed());
    broker.kill().await;
}

#[tokio::test]
async fn reflection_lists_every_service() {
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(channel(address));
    let answers = reflection.server_reflection_info(tokio_stream::iter([request])).await.unwrap();
    let answer = soon("an answer", answers.into_inner().next()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<&str> = list.service.iter().map(|it| it.name.as_str()).collect();
    for name in ["Directory", "Feed", "TurnLoop", "Waits"] {
        assert!(names.contains(&format!("tasuki.v1.{name}").as_str()), "{names:?}");
    }
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");

    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::MessageRequest::ListServices(String::new())),
    };
    let mut reflection = v1alpha::ServerReflectionClient::new(channel(address));
    let answers = reflection.server_reflection_info(tokio_stream::iter([request])).await.unwrap();
    let answer = soon("an answer", answers.into_inner().next()).await.unwrap().unwrap();
    let Some(v1alpha::MessageResponse::ListServicesResponse(older)) = answer.message_response
    else {
        panic!("{answer:?}");
    };
    let tasuki = |name: &str| name.starts_with("tasuki.").then(|| name.to_owned());
    let older: Vec<String> = older.service.iter().filter_map(|it| tasuki(&it.name)).collect();
    assert_eq!(older, names.iter().filter_map(|name| tasuki(name)).collect::<Vec<_>>());
    broker.kill().await;
}
