//! Whose answers are remembered, and for how long.

use super::*;

fn key(client: &str, counter: u64) -> IdempotencyKey {
    IdempotencyKey { client: client.parse().unwrap(), counter }
}

fn owner(name: &str) -> Owner {
    (!name.is_empty()).then(|| name.parse().unwrap())
}

/// What `key` is told at `ms`, remembered when it is new: `new`, `again` or the reason.
fn ask(clients: &mut Clients, of: &str, key: &IdempotencyKey, ms: u64) -> &'static str {
    let (now, request) = (Timestamp::from_millis(ms), Hash::of(b"request"));
    match clients.answer(&owner(of), key, request, now) {
        Ok(Some(_)) => return "again",
        Err(rejection) => return rejection.reason().as_str(),
        Ok(None) => {}
    }
    let sequence = Sequence::NONE.next();
    let answer = Answer { request, sequence, reply: Reply::Done, is_repeat: false };
    clients.remember(&owner(of), key, answer, now);
    check(clients);
    "new"
}

/// What is derived is what it should be, and no limit is passed.
fn check(clients: &Clients) {
    let mut restored = Clients::default();
    clients.items().for_each(|item| restored.restore(item).unwrap());
    assert!(*clients == restored, "what is derived differs");
    assert!(clients.active <= CLIENTS_MAX && clients.retired <= RETIRED_MAX);
}

#[test]
fn the_largest_counter_is_a_counter_like_any_other() {
    let mut clients = Clients::default();
    for counter in [1, u64::MAX - 1] {
        assert_eq!(ask(&mut clients, "", &key("a", counter), 1), "new");
        assert_eq!(ask(&mut clients, "", &key("a", counter), 1), "again");
    }
    assert_eq!(ask(&mut clients, "", &key("a", 1), 1), "key_expired");
}

#[test]
fn one_token_neither_reads_anothers_answers_nor_pushes_its_window() {
    let mut clients = Clients::default();
    for (of, counter, said) in [
        ("t1", 1, "new"),
        ("t2", 1, "new"),
        ("", 1, "new"),
        ("t2", u64::MAX - 1, "new"),
        ("t1", 2, "new"),
        ("t1", 1, "again"),
        ("t2", 1, "key_expired"),
        ("", 1, "again"),
    ] {
        assert_eq!(ask(&mut clients, of, &key("c", counter), 1), said, "{of} {counter}");
    }
}

#[test]
fn one_token_uses_up_its_own_room_alone_and_has_it_again_after_thirty_days() {
    let mut clients = Clients::default();
    assert_eq!(ask(&mut clients, "t2", &key("c", 1), 0), "new");
    let room = CLIENTS_PER_TOKEN_MAX + RETIRED_PER_TOKEN_MAX;
    let (now, request) = (Timestamp::from_millis(1), Hash::of(b"request"));
    for number in 0..room {
        let key = key(&format!("c{number}"), 5);
        assert_eq!(clients.answer(&owner("t1"), &key, request, now), Ok(None));
        let sequence = Sequence::NONE.next();
        let answer = Answer { request, sequence, reply: Reply::Done, is_repeat: false };
        clients.remember(&owner("t1"), &key, answer, now);
    }
    check(&clients);
    assert_eq!(clients.active, CLIENTS_PER_TOKEN_MAX + 1, "one's own are retired");
    let late = RETIRED_MS_MIN + 1;
    for (at, of, client, counter, said) in [
        (1, "t1", "one-more", 1, "overloaded"),
        (1, "t1", "c0", 5, "key_expired"),
        (2, "t1", "c0", 6, "new"), // who is known comes back
        (2, "t2", "c", 1, "again"),
        (2, "t2", "c0", 5, "new"),
        (2, "", "c0", 5, "new"),
        (late - 1, "t1", "one-more", 1, "overloaded"),
        (late, "t1", "one-more", 1, "new"),
        (late, "t1", "c0", 6, "again"), // it was not the quietest
    ] {
        let told = ask(&mut clients, of, &key(client, counter), at);
        assert_eq!(told, said, "{at} {of} {client}/{counter}");
    }
}

#[test]
fn when_all_room_is_used_the_quietest_of_all_is_retired() {
    let mut clients = Clients::default();
    for number in 0..CLIENTS_MAX {
        let of = format!("t{}", number / CLIENTS_PER_TOKEN_MAX);
        let (at, client) = (number as u64, key(&format!("c{number}"), 1));
        let (now, request) = (Timestamp::from_millis(at), Hash::of(b"request"));
        assert_eq!(clients.answer(&owner(&of), &client, request, now), Ok(None));
        let sequence = Sequence::NONE.next();
        let answer = Answer { request, sequence, reply: Reply::Done, is_repeat: false };
        clients.remember(&owner(&of), &client, answer, now);
    }
    assert_eq!(ask(&mut clients, "new", &key("c", 1), 5000), "new");
    assert_eq!(ask(&mut clients, "t0", &key("c0", 1), 5000), "key_expired");
    assert_eq!(ask(&mut clients, "t0", &key("c1", 1), 5000), "again");
    assert_eq!((clients.active, clients.retired), (CLIENTS_MAX, 1));
}

/// A window that is begun anew must not take what was answered in the one before for new.
#[test]
fn what_a_client_was_answered_before_it_was_retired_is_not_carried_out_again() {
    let mut clients = Clients::default();
    for counter in [1, 3] {
        assert_eq!(ask(&mut clients, "t", &key("a", counter), 1), "new");
    }
    clients.fence();
    check(&clients);
    for (counter, said) in [(3, "key_expired"), (4, "new"), (4, "again")] {
        assert_eq!(ask(&mut clients, "t", &key("a", counter), 2), said, "{counter}");
    }
    for counter in 1..4 {
        assert_eq!(ask(&mut clients, "t", &key("a", counter), 2), "key_expired", "{counter}");
    }
}
