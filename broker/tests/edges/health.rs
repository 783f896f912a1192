//! Health and reflection.

use std::path::Path;

use tasuki_broker::config::FOLDER;
use tasuki_proto::wire;
use tokio_stream::StreamExt as _;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::{
    power_cut::shim,
    support::{Process, arguments, channel, soon, turns},
};

fn database(image: &Path) -> Vec<u8> {
    std::fs::read(image.join(FOLDER).join("db/db")).unwrap()
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
    for service in ["", "tasuki.v1.TurnLoop"] {
        let before = database(&image);
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = soon("an answer", health.check(request)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
        assert!(before != database(&image), "the disk has something new");
    }
    let unknown = HealthCheckRequest { service: "nope".to_owned() };
    let refused = health.check(unknown).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);

    let watch = health.watch(HealthCheckRequest::default()).await.unwrap();
    let first = soon("a status", watch.into_inner().next()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    turns(address).get_loop(wire::GetLoopRequest::default()).await.unwrap();
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
    broker.kill().await;
}
