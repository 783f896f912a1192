//! What is sealed opens for whom it is for, as it was, and for nobody else.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;

fn secret(seed: u8) -> SecretKey {
    SecretKey::new(&[seed; 32], &[seed + 100; 32], 0).unwrap()
}

fn recipient(of: &SecretKey) -> Recipient {
    let key = of.public(&"default".parse().unwrap(), "n".parse().unwrap(), Vec::new());
    Recipient { id: of.id(), seal: key.seal }
}

fn sign_key(of: &SecretKey) -> [u8; 32] {
    of.sign().verifying_key().to_bytes()
}

fn address(by: &SecretKey) -> Address {
    Address {
        workspace: "default".parse().unwrap(),
        owner: KeyId::from_bytes([9; 16]),
        thread: MessageId::from_bits(0xded6_6c6a_58c1_47f4_916e_1378_7156_f665),
        after: 2,
        sender: "A".parse().unwrap(),
        key: by.id(),
        kind: MessageType::Br,
        receivers: ["B", "C"].iter().map(|role| role.parse().unwrap()).collect(),
        nonce: [5; 16],
    }
}

fn words(text: &str) -> Words {
    Words { subject: "修复 login".to_owned(), text: text.to_owned() }
}

fn sealed(text: &str) -> Vec<u8> {
    let (by, to) = (secret(1), secret(2));
    seal(&address(&by), &words(text), &[recipient(&by), recipient(&to)], &by).unwrap()
}

fn keys(seeds: &[u8]) -> NodeKeys {
    NodeKeys::of(seeds.iter().map(|seed| secret(*seed)))
}

#[test]
fn it_opens_for_those_it_is_for_and_for_nobody_else() {
    let bytes = sealed("the words");
    let envelope = Envelope::parse(&bytes).unwrap();
    assert_eq!(envelope.address, address(&secret(1)));
    assert!(envelope.is_by(&sign_key(&secret(1))) && !envelope.is_by(&sign_key(&secret(2))));
    for readers in [&[1][..], &[2], &[3, 2]] {
        assert_eq!(envelope.open(&keys(readers)), Ok(words("the words")));
    }
    assert_eq!(envelope.open(&keys(&[3])), Err(Closed::NotForUs));
    assert_eq!(envelope.open(&keys(&[])), Err(Closed::NotForUs));
    let has = |what: &[u8]| bytes.windows(what.len()).any(|it| it == what);
    assert!(!has(b"the words") && !has(b"login"));
}

/// A reader knows the content's key. It can neither change the words nor put its name on them.
#[test]
fn a_reader_cannot_pass_it_on_as_its_own_or_from_another_thread() {
    let (bytes, thief) = (sealed("the words"), secret(2));
    let envelope = Envelope::parse(&bytes).unwrap();
    let rest = &envelope.signed[envelope.head.len()..];
    for change in [
        (|it: &mut Address, thief: &SecretKey| it.key = thief.id()) as fn(&mut Address, &SecretKey),
        |it, _| it.thread = MessageId::from_bits(1),
        |it, _| it.sender = "B".parse().unwrap(),
        |it, _| it.after = 0,
    ] {
        let mut changed = address(&secret(1));
        change(&mut changed, &thief);
        let mut forged = [&changed.encode()[..], rest].concat();
        let signature = thief.sign().sign(&[SIGNED, &forged].concat());
        forged.extend_from_slice(&signature.to_bytes());
        let forged = Envelope::parse(&forged).unwrap();
        assert!(forged.is_by(&sign_key(&thief)));
        assert_eq!(forged.open(&keys(&[2])), Err(Closed::Broken));
    }
}

#[test]
fn lengths_tell_little() {
    let length = |text: &str| sealed(text).len();
    assert_eq!(length("yes"), length(&"no, because ".repeat(18)));
    let mut lengths: Vec<usize> = (0..4096).map(padded_length).collect();
    for (bytes, padded) in lengths.iter().enumerate() {
        assert!(bytes <= *padded && *padded <= bytes.max(PADDED_BYTES_MIN) * 17 / 16, "{bytes}");
    }
    lengths.dedup();
    assert_eq!(lengths.len(), 65);
    let longest = sealed(&"x".repeat(256 * 1024));
    assert!(longest.len() <= SEALED_BYTES_MAX, "{}", longest.len());
}

#[test]
fn what_does_not_fit_is_refused() {
    let (by, address) = (secret(1), address(&secret(1)));
    let many = vec![recipient(&by); ROSTER_KEYS_MAX + 1];
    let refused = seal(&address, &words(""), &many, &by);
    assert!(matches!(refused, Err(SealError::Crowded(257))), "{refused:?}");
    let refused = seal(&address, &words(&"x".repeat(SEALED_BYTES_MAX)), &[], &by);
    assert!(matches!(refused, Err(SealError::TooLarge(_))), "{refused:?}");
    let broken = Recipient { id: by.id(), seal: [0; 32] };
    let refused = seal(&address, &words(""), &[broken], &by);
    assert!(matches!(refused, Err(SealError::Key(_))), "{refused:?}");
}

/// What the first release sealed is read for ever.
#[test]
fn an_envelope_of_the_first_release_opens() {
    let golden: String = include_str!("golden.txt").split_whitespace().collect();
    let bytes = STANDARD.decode(golden).unwrap();
    let envelope = Envelope::parse(&bytes).unwrap();
    assert_eq!(envelope.address, address(&secret(1)));
    assert_eq!(envelope.head, address(&secret(1)).encode());
    assert!(envelope.is_by(&sign_key(&secret(1))));
    assert_eq!(envelope.open(&keys(&[2])), Ok(words("the words")));
}

proptest! {
    #[test]
    fn any_words_come_back(subject in ".{0,40}", text in "(?s).{0,600}") {
        let (by, words) = (secret(1), Words { subject, text });
        let bytes = seal(&address(&by), &words, &[recipient(&by)], &by).unwrap();
        prop_assert_eq!(Envelope::parse(&bytes).unwrap().open(&keys(&[1])), Ok(words));
    }

    #[test]
    fn no_bit_of_it_can_be_changed(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = sealed("the words");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let holds = Envelope::parse(&bytes).is_ok_and(|it| it.is_by(&sign_key(&secret(1))));
        prop_assert!(!holds, "byte {at}");
    }

    #[test]
    fn none_of_it_can_be_cut_off_or_added(cut in 1..200_usize, more in 1..9_usize) {
        let mut bytes = sealed("the words");
        bytes.truncate(bytes.len() - cut);
        let holds = Envelope::parse(&bytes).is_ok_and(|it| it.is_by(&sign_key(&secret(1))));
        prop_assert!(!holds);
        let mut bytes = sealed("the words");
        bytes.extend(vec![0; more]);
        prop_assert!(Envelope::parse(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        if let Ok(envelope) = Envelope::parse(&bytes) {
            prop_assert!(!envelope.is_by(&sign_key(&secret(1))));
        }
    }
}
