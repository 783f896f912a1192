//! Numbers at their ends, in every call: refused or taken, and never a panic.

use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};
use tasuki_proto::{DESCRIPTORS, token::Right};

use super::{all, named};
use crate::guarded::Guarded;

/// Of a letter.
const IN_REPLY_TO: u32 = 8;

/// The numbers of a call's fields that are numbers, and the largest that is written for each. As
/// a signed one that is the lowest.
fn numbers(path: &str) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap().file {
        let methods = file.service.iter().flat_map(|service| {
            let place = format!("/{}.{}/", file.package(), service.name());
            service.method.iter().map(move |it| (format!("{place}{}", it.name()), it))
        });
        for (_, method) in methods.filter(|(name, _)| name == path) {
            let name = method.input_type().rsplit('.').next().unwrap();
            let message = file.message_type.iter().find(|it| it.name() == name).unwrap();
            // How long a call may be held is bounded elsewhere, and would be waited for here.
            for field in message.field.iter().filter(|it| it.name() != "hold_ms") {
                let kind = field.r#type();
                let is_short = matches!(kind, Type::Uint32 | Type::Int32 | Type::Sint32);
                let is_long = matches!(kind, Type::Uint64 | Type::Int64 | Type::Sint64);
                let most = match is_short {
                    true => u32::MAX.into(),
                    false if is_long || kind == Type::Enum => u64::MAX,
                    false => continue,
                };
                found.push((u32::try_from(field.number()).unwrap(), most));
            }
        }
    }
    found
}

#[tokio::test]
async fn numbers_at_their_ends_reach_no_panic() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w1", &["A", "B"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    let (mut asked, mut wrong) = (0, Vec::new());
    for call in all().filter(|call| !call.is_stream) {
        for (field, most) in numbers(call.path) {
            for value in [most, most - 1, 1 << 31] {
                let mut message = (call.message)("w1", "A").to_vec();
                encode_key(field, WireType::Varint, &mut message);
                encode_varint(value, &mut message);
                // A letter that begins a thread, so that none has to be found first.
                if call.path.ends_with("/Send") {
                    encode_key(IN_REPLY_TO, WireType::LengthDelimited, &mut message);
                    encode_varint(0, &mut message);
                }
                asked += 1;
                // Without a reason: refused by no rule of ours.
                if let Err(status) = bearer.unary(call.path, message.into()).await
                    && tasuki_proto::reason::Reason::of(&status).is_none()
                {
                    wrong.push(format!("{} {field}={value}: {}", call.path, named(&status)));
                }
            }
        }
    }
    assert!(100 < asked && wrong.is_empty(), "{asked}: {wrong:#?}");
    let log = broker.process.log();
    assert!(!log.contains("panicked at"), "{log}");
}
