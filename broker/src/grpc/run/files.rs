//! Files that sub-agents hand over.

use bytes::Bytes;
use tasuki_proto::{run::RunId, wire};
use tonic::Status;

use super::{
    super::{Answer, Endpoint, Later, WorkspaceSession},
    parse, render,
    waits::OTHER_KIND,
};
use crate::{
    rules::{
        Rejection,
        run::{self, MessageKind, Text, Words},
    },
    workspace::View,
};

impl Endpoint for wire::GetRunFileRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (run, number) = (parse::run("run_id", &self.run_id)?, self.message);
        let show = move |view: &View<'_>| -> Result<Later<wire::GetRunFileResponse>, Rejection> {
            let mut messages = (1..).zip(&view.workspace.runs.get(run)?.messages);
            let is_it = |(it, message): (u32, &run::Message)| {
                it == number && message.kind == MessageKind::File
            };
            if !messages.any(is_it) {
                return Err(run::Rejection::UnknownFile { run, number }.into());
            }
            Ok(Box::new(move |session| session.run_file(run, number)))
        };
        session.show(None, show).await
    }
}

impl WorkspaceSession {
    /// The file of a report that is there.
    fn run_file(&self, run: RunId, number: u32) -> Result<wire::GetRunFileResponse, Status> {
        let place = Words::Message { run, number, text: Text::default(), file: None };
        let Words::Message { file, .. } = self.run_words(place)? else {
            unreachable!("{OTHER_KIND}")
        };
        let file = file.map(render::file);
        let place = Words::File { run, number, content: Bytes::new() };
        let Words::File { content, .. } = self.run_words(place)? else {
            unreachable!("{OTHER_KIND}")
        };
        Ok(wire::GetRunFileResponse { file, content: content.into(), ..Default::default() })
    }
}
