//! Knows when an answer was written to the agent's connection, and only then reports the turn it
//! gave as handed.
//!
//! Each request carries a [`Probe`]. The tool leaves in it what becomes true once its answer is
//! written; the transport fires it when the answer left for the socket, and drops it when the
//! connection went first. A probe also keeps the server from stopping before its answer is out.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use rmcp::{
    RoleServer,
    model::{ClientNotification, GetExtensions, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use tasuki_proto::id::{LoopId, Turn};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::role::Actions;

/// Requests of one connection that are not answered yet; more are refused.
const IN_FLIGHT_MAX: usize = 256;

/// A turn that an answer gives.
#[derive(Debug)]
pub(super) struct Mark {
    pub actions: Arc<dyn Actions>,
    pub loop_id: LoopId,
    pub turn: Turn,
}

#[derive(Debug, Clone)]
pub(super) struct Probe(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    marks: Mutex<Vec<Mark>>,
    _unwritten: TaskTrackerToken,
}

impl Probe {
    /// A probe that `unwritten` counts until it is gone.
    pub(super) fn new(unwritten: &TaskTracker) -> Self {
        Self(Arc::new(Inner { marks: Mutex::default(), _unwritten: unwritten.token() }))
    }

    pub(super) fn when_written(&self, mark: Mark) {
        self.0.marks.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
    }

    pub(super) fn written(&self) {
        let marks =
            std::mem::take(&mut *self.0.marks.lock().unwrap_or_else(PoisonError::into_inner));
        for mark in marks {
            mark.actions.mark_handed(&mark.loop_id, mark.turn);
        }
    }
}

/// A response body that fires its probe when the connection took all of it.
#[derive(Debug)]
pub(super) struct Watched {
    body: Body,
    probe: Option<Probe>,
}

impl Watched {
    pub(super) fn new(body: Body, probe: Probe) -> Self {
        Self { body, probe: Some(probe) }
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None))
            && let Some(probe) = self.probe.take()
        {
            probe.written();
        }
        polled
    }

    // The end is told by `poll_frame` alone, so that the connection asks until it is there.
    fn is_end_stream(&self) -> bool {
        self.probe.is_none()
    }
}

/// The probes of the requests on one connection that carries many.
#[derive(Debug)]
pub(super) struct Probes {
    unwritten: TaskTracker,
    open: Mutex<HashMap<RequestId, Probe>>,
}

/// The connection has [`IN_FLIGHT_MAX`] requests open.
#[derive(Debug)]
pub(super) struct TooMany(pub RequestId);

impl Probes {
    pub(super) fn new(unwritten: TaskTracker) -> Self {
        Self { unwritten, open: Mutex::default() }
    }

    /// Puts a probe into a request that came in.
    pub(super) fn received(
        &self,
        message: &mut RxJsonRpcMessage<RoleServer>,
    ) -> Result<(), TooMany> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) => {
                if IN_FLIGHT_MAX <= open.len() {
                    return Err(TooMany(request.id.clone()));
                }
                let probe = Probe::new(&self.unwritten);
                request.request.extensions_mut().insert(probe.clone());
                open.insert(request.id.clone(), probe);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(())
    }

    /// The probe of the request that `message` answers.
    pub(super) fn answered(&self, message: &TxJsonRpcMessage<RoleServer>) -> Option<Probe> {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => error.id.as_ref()?,
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return None,
        };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}
