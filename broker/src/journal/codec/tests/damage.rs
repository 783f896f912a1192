//! Damaged bytes: refused, or read as what they say. Never passed over, never a panic.

use proptest::prelude::*;

use super::*;

/// All goldens of records and snapshots.
fn goldens() -> Vec<(String, Vec<u8>)> {
    let mut goldens = Vec::new();
    for folder in ["src/journal/codec", "src/journal/codec/tests"] {
        let folder = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
        for file in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = file.file_name().into_string().unwrap();
            if name.ends_with("record.golden.txt") || name.ends_with("snapshot.golden.txt") {
                goldens.push((name, unhex(&std::fs::read(file.path()).unwrap())));
            }
        }
    }
    assert!(8 <= goldens.len());
    goldens
}

fn unhex(digits: &[u8]) -> Vec<u8> {
    let digits = digits.iter().filter_map(|digit| char::from(*digit).to_digit(16));
    let digits: Vec<u8> = digits.map(|digit| u8::try_from(digit).unwrap()).collect();
    digits.chunks(2).map(|it| it[0] << 4 | it[1]).collect()
}

/// Reads it, and says whether it is written as the same bytes again.
fn is_read(name: &str, bytes: &[u8]) -> Result<bool, CodecError> {
    let stored = Bytes::copy_from_slice(bytes);
    if name.ends_with("record.golden.txt") {
        let record = decode_record(stored)?;
        let written = encode_record(&record, &[3; 16]);
        // Which database it is of is not the record's.
        return Ok(written.len() == bytes.len() && written[20..] == bytes[20..]);
    }
    let state = decode_snapshot(stored)?;
    Ok(encode_snapshot(&state) == bytes)
}

#[test]
fn what_was_cut_off_or_goes_on_is_refused() {
    for (name, whole) in goldens() {
        assert_eq!(is_read(&name, &whole), Ok(true), "{name}");
        for end in 0..whole.len() {
            let is_item = name.ends_with("snapshot.golden.txt");
            let refused = is_read(&name, &whole[..end]);
            // A snapshot may end behind any item.
            assert!(refused.is_err() || is_item, "{name} of {end} bytes");
        }
        for byte in [0, 0x80, 0xf6, 0xff] {
            let longer = [&whole[..], &[byte]].concat();
            assert!(is_read(&name, &longer).is_err(), "{name} and {byte:x}");
        }
    }
}

/// Where the derived decoder alone would take a kind that it does not know for none at all: each
/// field of each golden gets such a kind in turn.
#[test]
fn no_unknown_kind_is_passed_over() {
    for (name, whole) in goldens().into_iter().filter(|(name, _)| name.contains("record")) {
        for at in 0..whole.len() {
            for unknown in [0x17, 0xf6, 0x80, 0x81] {
                let mut bad = whole.clone();
                bad[at] = unknown;
                let read = is_read(&name, &bad).unwrap_or(true);
                assert!(read, "{name}: {unknown:x} at {at} was passed over");
            }
        }
    }
    let body = |kind| EntryBody {
        loop_id: "main".parse().unwrap(),
        number: 2,
        summary: String::new(),
        instruction: String::new(),
        before: Some(EntryMeta { kind, ..facts() }),
    };
    let whole = encode(&body(EntryKind::Reclaim));
    let other = encode(&body(EntryKind::RoundStart));
    let mut bad = whole.clone();
    let at = whole.iter().zip(&other).position(|(one, other)| one != other).unwrap();
    bad[at] = 23;
    let alone: EntryBody = minicbor::decode(&bad).unwrap();
    assert_eq!(alone.before, None, "the derived decoder passes over it");
    let refused = decode_entry(&"main".parse().unwrap(), 2, &bad);
    assert_eq!(refused, Err(CodecError::Unknown("entry")));
}

#[test]
fn a_length_that_is_not_there_takes_no_memory() {
    // A list, a text and bytes of 2^62 each, where a list of events, a reason or a hash is due.
    for head in [0x9b, 0x7b, 0x5b, 0xbb] {
        let huge = [&[head][..], &(1_u64 << 62).to_be_bytes()].concat();
        assert!(decode::<Vec<Event>>("events", &huge).is_err());
        assert!(decode::<String>("text", &huge).is_err());
        assert!(decode::<Hash>("hash", &huge).is_err());
        assert!(decode::<Record>("record", &huge).is_err());
        assert!(decode_snapshot(huge.into()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let _ = decode_record(bytes.clone().into());
        let _ = decode_snapshot(bytes.into());
        let goldens = goldens();
        let (name, whole) = pick.get(&goldens);
        let mut bad = whole.clone();
        for (at, byte) in changes {
            *at.get_mut(&mut bad[..]) = byte;
        }
        prop_assert!(is_read(name, &bad).unwrap_or(true) || name.contains("snapshot"));
    }
}
