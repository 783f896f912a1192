//! Tells open pages that something happened: the kinds of events and nothing else, so a page asks
//! for what it shows, as its visitor may.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use futures::{Stream, StreamExt as _, stream};
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use tasuki_proto::wire::{self, event::Noun};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Status, Streaming, client::Grpc};
use tonic_prost::ProstCodec;

use super::{
    App,
    visit::{Bearing, Trouble, Visit},
};

/// What happens within it is told at once: pages need not be asked for more often.
const GATHERED_WITHIN: Duration = Duration::from_millis(100);

/// A comment to a quiet stream, so that both ends notice when the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A browser comes back after so long when a stream broke.
const RETRY: Duration = Duration::from_secs(2);

/// Streams at once of all visitors: pages and metrics have connections left beside them.
const STREAMS_MAX: usize = 768;

/// Those with one token.
const STREAMS_OF_TOKEN_MAX: usize = 64;

/// Streams that are open, by the token they came with; empty: none was asked for.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<BTreeMap<String, usize>>);

/// One of them.
struct OpenStream {
    app: Arc<App>,
    token: String,
}

impl OpenStream {
    fn new(visit: &Visit) -> Result<Self, Trouble> {
        let token = visit.login.as_ref().map(|it| it.token.token_id.clone()).unwrap_or_default();
        let mut open = visit.app.streams.0.lock();
        let of_token = open.get(&token).copied().unwrap_or_default();
        if STREAMS_MAX <= open.values().sum()
            || (!token.is_empty() && STREAMS_OF_TOKEN_MAX <= of_token)
        {
            let text = "too many pages are open; close some, or look again later";
            return Err(Status::resource_exhausted(text).into());
        }
        open.insert(token.clone(), of_token + 1);
        drop(open);
        Ok(Self { app: Arc::clone(&visit.app), token })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.app.streams.0.lock();
        let left = open.get(&self.token).map_or(0, |it| it - 1);
        if left == 0 {
            open.remove(&self.token);
        } else {
            open.insert(self.token.clone(), left);
        }
    }
}

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/w/{workspace}/events", get(events))
}

async fn events(visit: Visit) -> Result<Response, Trouble> {
    let open = OpenStream::new(&visit)?;
    let feed = subscribe(&visit, wire::SubscribeRequest::default()).await?;
    let stopping = visit.app.settings.stopping.clone();
    let hello = Event::default().event("hello").retry(RETRY).data("live");
    let told = stream::once(std::future::ready(Ok::<_, Infallible>(hello))).chain(kinds(feed));
    let told = told.take_until(stopping.cancelled_owned());
    let told = told.map(move |it| {
        let _is_open = &open;
        it
    });
    let sse = Sse::new(told).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok(visit.named(sse.into_response()))
}

/// The feed of the visitor's workspace.
pub(super) async fn subscribe(
    visit: &Visit,
    mut request: wire::SubscribeRequest,
) -> Result<Streaming<wire::FeedItem>, Status> {
    request.caller = Some(visit.caller());
    let mut grpc: Grpc<Bearing> = Grpc::new(visit.channel());
    grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
    let path = PathAndQuery::from_static("/tasuki.v1.Feed/Subscribe");
    let answer = grpc.server_streaming(Request::new(request), path, ProstCodec::default()).await?;
    Ok(answer.into_inner())
}

/// The kinds of what happened, gathered.
fn kinds(feed: Streaming<wire::FeedItem>) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(Some(feed), |feed| async move {
        let mut feed = feed?;
        let mut kinds = BTreeSet::new();
        let mut sequence = 0;
        // The stream ends with whatever ends the feed, and the browser comes back.
        let first = feed.message().await.ok().flatten()?;
        note(&first, &mut kinds, &mut sequence);
        let until = Instant::now() + GATHERED_WITHIN;
        let mut is_over = false;
        loop {
            match timeout_at(until, feed.message()).await {
                Ok(Ok(Some(item))) => note(&item, &mut kinds, &mut sequence),
                Ok(Ok(None) | Err(_)) => {
                    is_over = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let event =
            Event::default().event("changed").id(sequence.to_string()).data(kinds.join(" "));
        Some((Ok(event), (!is_over).then_some(feed)))
    })
}

fn note(item: &wire::FeedItem, kinds: &mut BTreeSet<&'static str>, sequence: &mut u64) {
    *sequence = item.sequence;
    kinds.extend(item.events.iter().filter_map(|it| it.noun.as_ref()).map(|noun| match noun {
        Noun::Directory(_) => "directory",
        Noun::Turn(_) => "turn",
        Noun::Mail(_) => "mail",
        Noun::Privacy(_) => "privacy",
        Noun::Swarm(_) => "swarm",
        Noun::Run(_) => "run",
        Noun::Guard(_) => "guard",
        Noun::Call(_) => "call",
        Noun::Board(_) => "board",
        Noun::Pipeline(_) => "pipeline",
    }));
}
