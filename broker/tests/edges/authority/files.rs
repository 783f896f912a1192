//! A file's hash is no key to it: neither to its bytes nor to whether somebody has it.

use tasuki_proto::{
    token::Right,
    wire::{self, mailbox_client::MailboxClient, put_attachment_request::Part},
};
use tonic::{Request, Status};

use crate::{
    guarded::{Bearer, Guarded},
    support::{caller, key, reason, soon},
};

/// A role of the workspace `w`, with a token for it alone.
struct Agent {
    role: &'static str,
    bearer: Bearer,
    counter: u64,
}

impl Agent {
    async fn of(broker: &Guarded, role: &'static str) -> Self {
        let token = broker.token("w", &[role], &[Right::Send, Right::Read]).await;
        let mut agent = Self { role, bearer: broker.bearer(Some(&token.expose())), counter: 0 };
        let request = wire::OpenMailboxRequest {
            caller: caller("w"),
            key: agent.key(),
            role: role.to_owned(),
        };
        let opened = agent.mail().open_mailbox(agent.bearer.show(Request::new(request))).await;
        opened.unwrap();
        agent
    }

    fn mail(&self) -> MailboxClient<tonic::transport::Channel> {
        MailboxClient::new(self.bearer.channel.clone())
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        key(self.role, self.counter)
    }

    /// Stores a file, or only says that it comes; whether it was known.
    async fn put(&self, of: &[u8], sent: &[u8]) -> Result<bool, Status> {
        let head = wire::PutAttachmentHead {
            caller: caller("w"),
            role: self.role.to_owned(),
            size: of.len() as u64,
            hash: blake3::hash(of).to_hex().to_string(),
        };
        let parts = [Part::Head(head), Part::Chunk(sent.to_vec())];
        let parts = parts.map(|it| wire::PutAttachmentRequest { part: Some(it) });
        let parts = self.bearer.show(Request::new(tokio_stream::iter(parts)));
        let put = soon("a file to be stored", self.mail().put_attachment(parts)).await;
        put.map(|it| it.into_inner().repeated)
    }

    /// Sends a letter with the file; its thread.
    async fn send(&mut self, to: &str, file: &[u8]) -> Result<String, Status> {
        let attachment = wire::Attachment {
            name: "f".to_owned(),
            media_type: "text/plain".to_owned(),
            size: file.len() as u64,
            hash: blake3::hash(file).to_hex().to_string(),
        };
        let letter = wire::SendRequest {
            caller: caller("w"),
            key: self.key(),
            role: self.role.to_owned(),
            to: vec![to.to_owned()],
            r#type: "INFO".to_owned(),
            subject: "s".to_owned(),
            text: "t".to_owned(),
            attachments: vec![attachment],
            ..wire::SendRequest::default()
        };
        let letter = self.bearer.show(Request::new(letter));
        let sent = soon("a letter to be sent", self.mail().send(letter)).await;
        sent.map(|it| it.into_inner().message_id)
    }

    async fn get(&self, message: &str, file: &[u8]) -> Result<Vec<u8>, Status> {
        let request = wire::GetAttachmentRequest {
            caller: caller("w"),
            role: self.role.to_owned(),
            message: message.to_owned(),
            hash: blake3::hash(file).to_hex().to_string(),
        };
        let request = self.bearer.show(Request::new(request));
        let mut chunks = self.mail().get_attachment(request).await?.into_inner();
        Ok(soon("the file", chunks.message()).await?.unwrap().chunk)
    }
}

fn told(status: &Status) -> (&'static str, String) {
    (reason(status), status.message().to_owned())
}

#[tokio::test]
async fn a_hash_tells_nothing_of_a_file_and_does_not_lead_to_it() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let mut owner = Agent::of(&broker, "A").await;
    let mut other = Agent::of(&broker, "X").await;
    // As long as the other, which is nowhere.
    let (file, nowhere) = (b"the owner's", b"of no owner");
    assert!(!owner.put(file, file).await.unwrap());
    assert!(owner.put(file, b"").await.unwrap(), "who stored it need not send it again");

    let [there, not_there] =
        [other.put(file, b"").await.unwrap_err(), other.put(nowhere, b"").await.unwrap_err()];
    assert_eq!(told(&there), told(&not_there));
    let [there, not_there] =
        [other.send("X", file).await.unwrap_err(), other.send("X", nowhere).await.unwrap_err()];
    assert_eq!(told(&there), told(&not_there));
    assert_eq!(reason(&there), "unknown_attachment");

    // Who was sent it reads it, and passes it on without its bytes.
    let message = owner.send("X", file).await.unwrap();
    assert_eq!(other.get(&message, file).await.unwrap(), file);
    assert!(other.put(file, b"").await.unwrap());
    let passed_on = other.send("A", file).await.unwrap();
    assert_eq!(owner.get(&passed_on, file).await.unwrap(), file);
    broker.process.kill().await;
}
