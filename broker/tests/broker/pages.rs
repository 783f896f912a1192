//! Pages of threads, boxes and dead letters: what a read counts as seen, and how large an answer
//! may be whatever is in it.

use prost::Message as _;
use tasuki_proto::{
    limits::{BOX_PAGE_MAX, HANDED_MAX, LOOPS_PAGE_MAX, MESSAGE_BYTES_MAX, THREAD_PAGE_MAX},
    wire,
};

use crate::support::{Client, connect, start};

/// Room for the thread itself and for an entry that comes whole.
const PAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX * 3 / 4;

/// Roles with names as long as names may be.
fn roles(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("{number:03}-{}", "r".repeat(60))).collect()
}

impl Client {
    /// Takes over entries of a thread that A wrote.
    async fn take_over(
        &mut self,
        thread: u128,
        subject: &str,
        entries: Vec<(String, Vec<String>)>,
        copies: Vec<wire::ImportedCopy>,
    ) {
        let entry = |(text, receivers)| wire::ImportedEntry {
            sender: "A".to_owned(),
            receivers,
            r#type: "INFO".to_owned(),
            written_ms: 1,
            text,
        };
        let request = wire::ImportThreadRequest {
            key: self.key(),
            message_id: uuid::Uuid::from_u128(thread << 96).to_string(),
            subject: subject.to_owned(),
            entries: entries.into_iter().map(entry).collect(),
            copies,
            ..wire::ImportThreadRequest::default()
        };
        self.mail.import_thread(request).await.unwrap();
    }

    async fn mails(&mut self, from: &str, to: &str, thread: &str, text: &str) -> String {
        let request = wire::SendRequest {
            key: self.key(),
            role: from.to_owned(),
            to: vec![to.to_owned()],
            r#type: "BR".to_owned(),
            text: text.to_owned(),
            in_reply_to: thread.to_owned(),
            ..wire::SendRequest::default()
        };
        self.mail.send(request).await.unwrap().into_inner().message_id
    }

    async fn looks(
        &mut self,
        thread: &str,
        from: u32,
        last: u32,
        mark: wire::MailMark,
    ) -> wire::ReadThreadResponse {
        let request = wire::ReadThreadRequest {
            role: "B".to_owned(),
            message: thread.to_owned(),
            from,
            last,
            mark: mark.into(),
            ..wire::ReadThreadRequest::default()
        };
        let read = self.mail.read_thread(request).await.unwrap().into_inner();
        assert!(read.encoded_len() <= PAGE_BYTES_MAX, "{} bytes", read.encoded_len());
        read
    }

    /// Unseen entries, the first of them, and through which one the thread was handed and seen.
    async fn known(&mut self, thread: &str) -> (u32, u32, u32, u32) {
        let it = self.looks(thread, 0, 1, wire::MailMark::None).await.thread.unwrap();
        (it.unseen, it.first_unseen, it.handed_through, it.seen_through)
    }

    /// All entries, page by page, and how many pages that were.
    async fn all_of(&mut self, thread: &str) -> (Vec<wire::MailEntry>, usize) {
        let (mut entries, mut next, mut pages) = (Vec::new(), 1, 0);
        while next != 0 {
            let page = self.looks(thread, next, 0, wire::MailMark::None).await;
            assert!(!page.entries.is_empty() && page.entries.len() <= THREAD_PAGE_MAX as usize);
            entries.extend(page.entries);
            (next, pages) = (page.next, pages + 1);
        }
        (entries, pages)
    }
}

#[tokio::test]
async fn a_read_marks_nothing_behind_what_it_left_out() {
    use wire::MailMark::{Handed, None, Unspecified};
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let id = it.mails("A", "B", "", "m1").await;
    for number in 2..=5 {
        it.mails("A", "B", &id, &format!("m{number}")).await;
    }
    for (from, last) in [(0, 1), (0, 4), (3, 0)] {
        it.looks(&id, from, last, Unspecified).await;
        it.looks(&id, from, last, Handed).await;
        assert_eq!(it.known(&id).await, (5, 1, 0, 0), "read from {from}, last {last}");
    }
    it.looks(&id, 1, 0, Handed).await;
    assert_eq!(it.known(&id).await, (5, 1, 5, 0));
    it.mails("A", "B", &id, "m6").await;
    it.looks(&id, 6, 0, Handed).await;
    assert_eq!(it.known(&id).await, (6, 1, 6, 0), "those before were handed");
    it.looks(&id, 0, 1, Unspecified).await;
    assert_eq!(it.known(&id).await, (6, 1, 6, 0), "but not seen");
    it.looks(&id, 0, 6, Unspecified).await;
    assert_eq!(it.known(&id).await, (0, 0, 6, 6));
    // What B wrote itself is no gap.
    it.mails("B", "A", &id, "m7").await;
    it.mails("A", "B", &id, "m8").await;
    assert_eq!(it.known(&id).await, (1, 8, 6, 6));
    it.looks(&id, 0, 1, None).await;
    it.looks(&id, 0, 1, Unspecified).await;
    assert_eq!(it.known(&id).await, (0, 0, 8, 8));
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_page_with_many_receipts_fits_into_a_message() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let mut to = roles(0, 31);
    to.push("B".to_owned());
    for part in 0..2 {
        let texts = (1..=600).map(|number| (format!("{}", part * 600 + number), to.clone()));
        let copies = to.iter().filter(|_| part == 0);
        let copies = copies
            .map(|role| wire::ImportedCopy { role: role.clone(), r#box: wire::Box::Inbox.into() });
        it.take_over(1, "many read it", texts.collect(), copies.collect()).await;
    }
    for role in &to {
        let request = wire::MarkMailRequest {
            role: role.clone(),
            message_id: uuid::Uuid::from_u128(1 << 96).to_string(),
            through: 1200,
            mark: wire::MailMark::Seen.into(),
            ..wire::MarkMailRequest::default()
        };
        it.mail.mark_mail(request).await.unwrap();
    }
    let (entries, pages) = it.all_of("00000001").await;
    let bytes: usize = entries.iter().map(prost::Message::encoded_len).sum();
    assert!(MESSAGE_BYTES_MAX < bytes && pages == 3, "{bytes} bytes, {pages} pages");
    for (number, entry) in (1..).zip(&entries) {
        assert_eq!((entry.number, &entry.text), (number, &number.to_string()));
        let receipts: Vec<&str> = entry.receipts.iter().map(|it| it.role.as_str()).collect();
        let mut receivers: Vec<&str> = entry.receivers.iter().map(String::as_str).collect();
        receivers.sort_unstable_by_key(|role| receipts.iter().position(|it| it == role));
        assert_eq!(receipts, receivers);
        assert!(entry.receipts.iter().all(|it| it.stored_ms != 0 && it.seen_ms != 0));
    }
    // Small ones are bounded by their number.
    let texts = (0..600).map(|_| ("t".to_owned(), vec!["B".to_owned()])).collect::<Vec<_>>();
    for _ in 0..4 {
        it.take_over(2, "small", texts.clone(), Vec::new()).await;
    }
    let (entries, pages) = it.all_of("00000002").await;
    assert_eq!((entries.len(), pages), (2400, 3));
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_page_of_a_box_fits_into_a_message() {
    const THREADS: u32 = 700;
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut first = roles(0, 31);
    first.push("B".to_owned());
    let second = roles(31, 31);
    let writers = (0..10).map(|writer| {
        let (broker, first, second) = (&broker, &first, &second);
        async move {
            let mut it = connect(broker, &format!("w{writer}")).await;
            for number in (1..=THREADS).filter(|number| number % 10 == writer) {
                let entries =
                    vec![("1".to_owned(), first.clone()), ("2".to_owned(), second.clone())];
                let copy =
                    wire::ImportedCopy { role: "B".to_owned(), r#box: wire::Box::Inbox.into() };
                let copies = vec![copy];
                it.take_over(number.into(), &"s".repeat(1024), entries, copies).await;
            }
        }
    });
    futures::future::join_all(writers).await;
    let mut it = connect(&broker, "c").await;
    let mut request = wire::ListBoxRequest {
        role: "B".to_owned(),
        r#box: wire::Box::Inbox.into(),
        limit: BOX_PAGE_MAX,
        ..wire::ListBoxRequest::default()
    };
    let (mut ids, mut bytes, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page = it.mail.list_box(request.clone()).await.unwrap().into_inner();
        assert!(page.encoded_len() <= PAGE_BYTES_MAX && !page.threads.is_empty());
        assert_eq!(page.total, u64::from(THREADS));
        (bytes, pages) = (bytes + page.encoded_len(), pages + 1);
        ids.extend(page.threads.into_iter().map(|it| it.message_id));
        if page.next.is_empty() {
            break;
        }
        request.after = page.next;
    }
    assert!(MESSAGE_BYTES_MAX < bytes && pages == 3, "{bytes} bytes, {pages} pages");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), THREADS as usize);
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn dead_letters_are_listed_page_by_page() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = it.mails("A", "B", "", "poison").await;
        for _ in 0..HANDED_MAX {
            it.looks(&id, 1, 0, wire::MailMark::Handed).await;
        }
        ids.push(id);
    }
    let mut request = wire::ListDeadLettersRequest {
        role: "B".to_owned(),
        limit: 1,
        ..wire::ListDeadLettersRequest::default()
    };
    let mut listed = Vec::new();
    for is_last in [false, false, true] {
        let page = it.mail.list_dead_letters(request.clone()).await.unwrap().into_inner();
        assert_eq!((page.threads.len(), page.total, page.next.is_empty()), (1, 3, is_last));
        listed.extend(page.threads.into_iter().map(|it| it.message_id));
        request.after = page.next;
    }
    assert_eq!(listed, ids);
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_list_of_loops_comes_in_pages() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let many = 2 * LOOPS_PAGE_MAX as usize + 49;
    for number in 0..many {
        let request = wire::CreateLoopRequest {
            key: it.key(),
            r#loop: format!("loop-{number:04}"),
            participants: vec!["A".to_owned(), "B".to_owned()],
            allow_new_roles: true,
            ..wire::CreateLoopRequest::default()
        };
        it.turns.create_loop(request).await.unwrap();
    }
    // The largest page is what is told unless less is asked for.
    for (limit, pages) in [(0, 3), (u32::MAX, 3), (LOOPS_PAGE_MAX / 2, 5)] {
        let mut request = wire::ListLoopsRequest { limit, ..wire::ListLoopsRequest::default() };
        let (mut names, mut asked) = (Vec::new(), 0);
        while asked == 0 || !request.after.is_empty() {
            let page = it.turns.list_loops(request.clone()).await.unwrap().into_inner();
            assert!(!page.loops.is_empty() && page.encoded_len() <= PAGE_BYTES_MAX);
            names.extend(page.loops.into_iter().map(|it| it.r#loop));
            (request.after, asked) = (page.next, asked + 1);
        }
        assert_eq!((asked, names.len()), (pages, many + 1), "and `main`");
        assert!(names.is_sorted_by(|one, other| one < other));
    }
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_filter_finds_what_is_far_behind() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut it = connect(&broker, "c").await;
    let mut sending = Vec::new();
    for number in 0..2_100 {
        let kind = if number % 1_050 == 1_049 { "BR" } else { "INFO" };
        let letter = it.letter("A", &["B"], &format!("m{number}"));
        let (mut mail, letter) =
            (it.mail.clone(), wire::SendRequest { r#type: kind.to_owned(), ..letter });
        sending.push(async move { mail.send(letter).await.unwrap() });
        if sending.len() == 100 {
            futures::future::join_all(std::mem::take(&mut sending)).await;
        }
    }
    let mut request = wire::ListBoxRequest {
        role: "B".to_owned(),
        r#box: wire::Box::Inbox.into(),
        types: vec!["BR".to_owned()],
        limit: 1,
        ..wire::ListBoxRequest::default()
    };
    for is_last in [false, true] {
        let page = it.mail.list_box(request.clone()).await.unwrap().into_inner();
        assert_eq!((page.threads.len(), page.next.is_empty(), page.total), (1, is_last, 2_100));
        request.after = page.next;
    }
    request.types = vec!["ER".to_owned()];
    let none = it.mail.list_box(request).await.unwrap().into_inner();
    assert!(none.threads.is_empty() && none.next.is_empty());
    broker.stop().await.unwrap();
}
