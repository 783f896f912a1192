//! Files that are attached, and letters as they are: never shown by the browser, only saved.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures::StreamExt as _;
use http::{
    HeaderValue,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    uri::PathAndQuery,
};
use serde::Deserialize;
use tasuki_proto::wire;
use tonic::{Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

use super::super::super::{
    App,
    visit::{Query, Trouble, Visit},
};
use crate::overview::Calls as _;

pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.route("/w/{workspace}/file", get(file)).route("/w/{workspace}/letter", get(letter))
}

#[derive(Debug, Deserialize)]
struct WhichFile {
    role: String,
    thread: String,
    hash: String,
    name: String,
}

async fn file(visit: Visit, Query(which): Query<WhichFile>) -> Result<Response, Trouble> {
    let request = wire::GetAttachmentRequest {
        caller: Some(visit.caller()),
        role: which.role,
        message: which.thread,
        hash: which.hash,
    };
    let mut grpc = Grpc::new(visit.channel());
    grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
    let path = PathAndQuery::from_static("/tasuki.v1.Mailbox/GetAttachment");
    let codec = ProstCodec::<_, wire::GetAttachmentResponse>::default();
    let answer = grpc.server_streaming(Request::new(request), path, codec).await?;
    let chunks = answer.into_inner().map(|it| it.map(|it| it.chunk));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_DISPOSITION, disposition(&which.name)),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// A name that the file is saved under, whatever is in it.
fn disposition(name: &str) -> HeaderValue {
    let text = format!("attachment; filename*=UTF-8''{}", super::super::escaped(name));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

#[derive(Debug, Deserialize)]
struct WhichLetter {
    role: String,
    thread: String,
    entry: u32,
}

async fn letter(visit: Visit, Query(which): Query<WhichLetter>) -> Result<Response, Trouble> {
    let mut request = wire::ReadThreadRequest {
        role: which.role,
        message: which.thread,
        from: which.entry,
        ..Default::default()
    };
    request.set_mark(wire::MailMark::None);
    let entry = visit.call(&request).await?.entries.into_iter().next().ok_or(Trouble::NotFound)?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], entry.text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds WD2.
    #[test]
    fn a_files_name_says_nothing_to_a_browser() {
        let text = disposition("a\"; x=y\r\n<b>.html");
        assert_eq!(text, "attachment; filename*=UTF-8''a%22%3B%20x%3Dy%0D%0A%3Cb%3E.html");
    }
}
