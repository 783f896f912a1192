//! `SearchMail`: what the index finds, as far as the role may read it at this moment.
//!
//! The index says where to look; the workspace says who may read and in which box a thread is, and
//! the journal what it says. A box changes with every move, so it is not in the index: a small one
//! narrows the search down beforehand, of a large one the best hits are looked through.

use std::sync::Arc;

use tasuki_proto::{
    id::{RoleId, Sequence, Timestamp},
    limits::{HITS, HITS_MAX},
    mail::{BoxKind, MessageId},
    wire,
};
use tonic::Status;

use super::{
    super::{Answer, Endpoint, WorkspaceSession, parse::limit, render::BoundedPage, status},
    optional,
};
use crate::{
    rules::mailbox::{ThreadNumber, ThreadSummary},
    search::{Found, Hit, Narrow, Query, SearchRequest, parse},
    workspace::View,
};

/// Threads that a search is narrowed down to beforehand: telling them holds the workspace up for
/// less than a millisecond.
const NARROW_THREADS_MAX: usize = 10_000;

/// Hits that are looked through for those in a large box: first so many, then so many.
const LOOKED_THROUGH: [usize; 2] = [1000, 10_000];

/// What the workspace says before the index is asked.
struct Before {
    narrow: Narrow,
    /// The box is too large to be told.
    is_large: bool,
    sequence: Sequence,
    now: Timestamp,
}

/// A hit that the role may read.
struct Readable {
    hit: Hit,
    facts: ThreadSummary,
}

impl Endpoint for wire::SearchMailRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let query = parse(&self.query).map_err(|error| status::invalid("query", &error))?;
        let kind = BoxKind::of_wire(self.r#box());
        let at = |ms: u64| (ms != 0).then(|| Timestamp::from_millis(ms));
        let narrow = Narrow {
            kind: (!self.r#type.is_empty()).then(|| self.r#type.clone()),
            sender: optional("sender", &self.sender)?,
            since: at(self.since_ms),
            until: at(self.until_ms),
            ..Narrow::default()
        };
        let limit = limit(self.limit, HITS, HITS_MAX);
        let (asker, asked) = (role.clone(), query.clone());
        let before = session
            .query(Some(&role), move |view| Ok(before(view, &asker, &asked, narrow, kind)))
            .await?;
        // What is not yet there need not be waited for.
        let include = Sequence::from(self.include_sequence).min(before.sequence);
        let ask = SearchRequest {
            reader: role.clone(),
            query: query.clone(),
            narrow: before.narrow,
            limit,
            now: before.now,
        };
        let (found, readable) = if let (Some(kind), true) = (kind, before.is_large) {
            in_large_box(session, ask, include, kind).await?
        } else {
            let found = session.search(ask, include).await?;
            let readable = readable(session, &role, found.hits.clone(), kind, limit).await?;
            (found, readable)
        };
        // Reading and marking a hundred long texts takes its time.
        let shown = session.aside(move |session| {
            let mut page = BoundedPage::default();
            for it in &readable {
                if !page.add(shown(session, &query, it)?) {
                    break;
                }
            }
            Ok(page.items)
        });
        let hits = shown.await?;
        Ok(wire::SearchMailResponse {
            hits,
            total: found.total,
            through_sequence: found.through.get(),
            left_out: String::new(),
        })
    }
}

/// What narrows the search down.
fn before(
    view: &View<'_>,
    role: &RoleId,
    query: &Query,
    mut narrow: Narrow,
    kind: Option<BoxKind>,
) -> Before {
    let mail = &view.workspace.mail;
    let mut is_large = false;
    let mut only: Option<Vec<ThreadNumber>> = None;
    let mut without = Vec::new();
    let mut restrict = |mut some: Vec<ThreadNumber>| {
        some.sort_unstable();
        if let Some(only) = &only {
            some.retain(|it| only.binary_search(it).is_ok());
        }
        only = Some(some);
    };
    for (is_without, digits) in query.threads() {
        let begins = mail.threads().with_prefix(digits);
        let own = begins.filter(|it| mail.box_of(role, *it).is_some());
        let own: Vec<_> = own.take(NARROW_THREADS_MAX).collect();
        if is_without {
            without.extend(own);
        } else {
            restrict(own);
        }
    }
    if let Some(kind) = kind {
        is_large = NARROW_THREADS_MAX < mail.count(role, kind);
        if !is_large {
            restrict(mail.threads_in(role, kind).collect());
        }
    }
    without.sort_unstable();
    narrow.only = only.map(Arc::new);
    narrow.without = (!without.is_empty()).then(|| Arc::new(without));
    Before { narrow, is_large, sequence: view.workspace.sequence, now: view.now }
}

/// The best hits in a box of which there is much, and how many were seen in it.
async fn in_large_box(
    session: &WorkspaceSession,
    mut ask: SearchRequest,
    include: Sequence,
    kind: BoxKind,
) -> Result<(Found, Vec<Readable>), Status> {
    let limit = ask.limit;
    for look_through in LOOKED_THROUGH {
        ask.limit = look_through;
        let mut found = session.search(ask.clone(), include).await?;
        let is_all = found.hits.len() < look_through;
        let (hits, role) = (found.hits.clone(), ask.reader.clone());
        let inside = session.query(Some(&ask.reader), move |view| {
            let mail = &view.workspace.mail;
            let is_inside = |hit: &Hit| mail.box_of(&role, hit.thread) == Some(kind);
            Ok(hits.into_iter().filter(is_inside).collect::<Vec<_>>())
        });
        let inside = inside.await?;
        if is_all || limit <= inside.len() || look_through == LOOKED_THROUGH[1] {
            found.total = inside.len() as u64;
            let readable = readable(session, &ask.reader, inside, Some(kind), limit).await?;
            return Ok((found, readable));
        }
    }
    unreachable!("the last look is final")
}

/// Those of the hits that the role has a copy of, in this box if one is asked for.
async fn readable(
    session: &WorkspaceSession,
    role: &RoleId,
    hits: Vec<Hit>,
    kind: Option<BoxKind>,
    limit: usize,
) -> Result<Vec<Readable>, Status> {
    let asker = role.clone();
    let looked = session.query(Some(role), move |view| {
        let mail = &view.workspace.mail;
        let readable = hits.into_iter().filter_map(|hit| {
            let found = mail.box_of(&asker, hit.thread)?;
            if kind.is_some_and(|kind| kind != found) {
                return None;
            }
            let thread: MessageId = mail.threads().get(hit.thread).id;
            let facts = mail.thread_facts(&asker, thread).ok()?;
            (hit.entry <= facts.entries).then_some(Readable { hit, facts })
        });
        Ok(readable.take(limit).collect())
    });
    looked.await
}

fn shown(
    session: &WorkspaceSession,
    query: &Query,
    it: &Readable,
) -> Result<wire::MailHit, Status> {
    let letter = session.letter(it.facts.id, it.hit.entry)?;
    let excerpt = query.excerpt(&letter.text);
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Ok(wire::MailHit {
        thread: Some(session.thread(&it.facts)?),
        entry: it.hit.entry,
        sender: letter.sender.to_string(),
        r#type: letter.kind,
        at_ms: letter.at.as_millis(),
        score: it.hit.score,
        excerpt: letter.text[excerpt.span].to_owned(),
        highlights: excerpt
            .highlights
            .iter()
            .flat_map(|it| [offset(it.start), offset(it.end)])
            .collect(),
    })
}
