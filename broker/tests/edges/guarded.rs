//! A broker that asks for tokens, and bearers that call it over TLS.

use std::{
    net::SocketAddr,
    path::Path,
    str::FromStr as _,
    sync::atomic::{AtomicU32, Ordering},
};

use bytes::{Buf as _, BufMut as _, Bytes};
use futures::{StreamExt as _, stream};
use hyper_util::rt::TokioIo;
use tasuki_proto::{
    host::admin::AdminFile,
    id::TokenId,
    invitation::Trust,
    net::tls::{self, ALPN_H2, Trusting},
    token::{Right, Secret, Token},
    wire::{self, access_client::AccessClient},
};
use tokio::net::TcpSocket;
use tonic::{
    Request, Response, Status, Streaming,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataValue,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint, Uri},
};

use crate::support::{Process, arguments, soon};

/// Of 127.77.0.0/16, handed out so far.
static ADDRESSES: AtomicU32 = AtomicU32::new(1);

/// A running `tasuki-broker serve --secure`.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) admin: AdminFile,
}

impl Guarded {
    pub(crate) async fn start(data: &Path) -> Self {
        Self::start_with(data, &[]).await
    }

    pub(crate) async fn start_with(data: &Path, more: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0", "--secure"], more].concat();
        let mut process = Process::spawn(&arguments(&words, data), &[]);
        let Some(address) = process.address().await else {
            panic!("the broker does not start: {}", process.log())
        };
        let admin = AdminFile::read(&data.join("broker")).unwrap().unwrap();
        Self { process, address, admin }
    }

    /// A connection of its own, from an address that nobody else here has: failures make answers
    /// to an address slower.
    pub(crate) fn channel(&self) -> Channel {
        let number = ADDRESSES.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = number.to_be_bytes();
        let from = SocketAddr::from(([127, 77, high, low.max(1)], 0));
        let pin = self.admin.fingerprint.as_deref().unwrap().parse().unwrap();
        let connector = Trusting::new(Trust::Pinned(pin)).connector(&[ALPN_H2]).unwrap();
        let address = self.address;
        let endpoint = Endpoint::from_str(&format!("https://{address}")).unwrap();
        endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            let connector = connector.clone();
            async move {
                let socket = TcpSocket::new_v4()?;
                socket.bind(from)?;
                let stream = socket.connect(address).await?;
                stream.set_nodelay(true)?;
                let opened = tls::connect(&connector, stream, &address.ip().to_string()).await;
                opened.map(TokioIo::new).map_err(std::io::Error::other)
            }
        }))
    }

    pub(crate) fn administrator(&self) -> Bearer {
        Bearer { channel: self.channel(), shows: Some(self.admin.token.clone()) }
    }

    /// Somebody on a connection of their own.
    pub(crate) fn bearer(&self, shows: Option<&str>) -> Bearer {
        Bearer { channel: self.channel(), shows: shows.map(str::to_owned) }
    }

    /// A token with this scope; `workspace` may be empty for all.
    pub(crate) async fn token(&self, workspace: &str, roles: &[&str], rights: &[Right]) -> Token {
        self.token_for(workspace, roles, rights, 0).await
    }

    /// The same, good for so many milliseconds; 0 for ever.
    pub(crate) async fn token_for(
        &self,
        workspace: &str,
        roles: &[&str],
        rights: &[Right],
        valid_ms: u64,
    ) -> Token {
        let secret = fresh();
        let request = wire::IssueTokenRequest {
            secret: secret.hash().as_bytes().to_vec(),
            scope: Some(scope(workspace, roles, rights)),
            valid_ms,
            label: "test".to_owned(),
        };
        let issued = self.administrator().access().issue_token(request).await.unwrap().into_inner();
        Token { id: issued.token_id.parse().unwrap(), secret }
    }

    pub(crate) async fn revoke(&self, token: &TokenId) {
        let request = wire::RevokeTokenRequest { token_id: token.to_string() };
        self.administrator().access().revoke_token(request).await.unwrap();
    }
}

pub(crate) fn fresh() -> Secret {
    tasuki_proto::host::admin::random_secret().unwrap()
}

/// `roles` with `*` in it are any.
pub(crate) fn scope(workspace: &str, roles: &[&str], rights: &[Right]) -> wire::Scope {
    let is_any_role = roles.contains(&"*");
    wire::Scope {
        workspace: workspace.to_owned(),
        roles: if is_any_role {
            Vec::new()
        } else {
            roles.iter().map(|it| (*it).to_owned()).collect()
        },
        is_any_role,
        rights: rights.iter().map(ToString::to_string).collect(),
    }
}

/// Somebody who calls, with a token or without.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) channel: Channel,
    shows: Option<String>,
}

impl Bearer {
    pub(crate) fn access(
        &self,
    ) -> AccessClient<InterceptedService<Channel, impl tonic::service::Interceptor + use<>>> {
        let bearer = self.clone();
        AccessClient::with_interceptor(
            self.channel.clone(),
            move |request| Ok(bearer.show(request)),
        )
    }

    pub(crate) fn show<T>(&self, mut request: Request<T>) -> Request<T> {
        if let Some(token) = &self.shows {
            let value = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    /// Any call by its path: one message there, a stream of messages back.
    pub(crate) async fn open(
        &self,
        path: &'static str,
        message: Bytes,
    ) -> Result<Response<Streaming<Bytes>>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        soon("the connection", client.ready())
            .await
            .map_err(|e| Status::unavailable(e.to_string()))?;
        // Where the caller streams, too, the end of its stream is a hang-up; elsewhere one message
        // and the end are what is waited for.
        let is_two_way = path.ends_with("/Park") || path.ends_with("/ServerReflectionInfo");
        let rest = if is_two_way { stream::pending().boxed() } else { stream::empty().boxed() };
        let messages = stream::iter([message]).chain(rest);
        let request = self.show(Request::new(messages));
        client.streaming(request, http::uri::PathAndQuery::from_static(path), Raw).await
    }

    /// A call whose message never comes.
    pub(crate) async fn begin(&self, path: &'static str) -> Result<(), Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let ready = soon("the connection", client.ready()).await;
        ready.map_err(|e| Status::unavailable(e.to_string()))?;
        let request = self.show(Request::new(stream::pending::<Bytes>()));
        let path = http::uri::PathAndQuery::from_static(path);
        client.streaming(request, path, Raw).await.map(|_| ())
    }

    /// The first message of the answer, or why there is none.
    pub(crate) async fn call(&self, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
        let asked = async {
            let mut answers = self.open(path, message).await?.into_inner();
            answers.message().await.map(Option::unwrap_or_default)
        };
        soon(path, asked).await
    }

    /// The same for calls that take one message: the stream there ends with it.
    pub(crate) async fn unary(&self, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        soon("the connection", client.ready())
            .await
            .map_err(|e| Status::unavailable(e.to_string()))?;
        let request = self.show(Request::new(message));
        let asked = client.unary(request, http::uri::PathAndQuery::from_static(path), Raw);
        soon(path, asked).await.map(Response::into_inner)
    }
}

/// Messages as the bytes they are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
