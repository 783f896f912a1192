//! Invitations and tokens as stories.

use tasuki_proto::token::Secret;

use super::*;

fn hash(of: u8) -> SecretHash {
    Secret::new([of; 32]).hash()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

#[test]
fn a_code_makes_one_token_and_says_so_again_to_its_maker_alone() {
    use crate::rules::{Decision, Rejection, Reply};
    let mut access = Access::default();
    let run = |access: &mut Access, ms, command: Command| -> Result<Reply, Rejection> {
        let Decision { events, reply, .. } = access.decide(at(ms), &command)?;
        for event in events {
            let crate::rules::Event::Access(event) = event else { unreachable!("of access") };
            access.apply(at(ms), &event);
        }
        Ok(reply)
    };
    let invite = Command::Invite(Invite {
        code: hash(1),
        scope: Scope::all(),
        valid_ms: 100,
        token_valid_ms: Some(50),
        label: String::new(),
    });
    let join = |secret| Command::Join(Join { code: hash(1), secret, label: "l".to_owned() });
    run(&mut access, 0, invite).unwrap();
    let first = run(&mut access, 99, join(hash(2))).unwrap();
    assert_eq!(run(&mut access, 120, join(hash(2))), Ok(first));
    let second = run(&mut access, 120, join(hash(3))).unwrap_err();
    assert!(matches!(second, Rejection::InvitationSpent { .. }), "{second}");
    assert!(access.tokens.values().all(|it| it.is_good(at(148)) && !it.is_good(at(149))));
}
