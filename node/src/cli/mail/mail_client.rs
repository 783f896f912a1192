//! One role's mail at the broker: which role, and the calls that several commands make.

use tasuki_proto::{
    id::RoleId,
    limits::ROLE_HUMAN,
    wire::{self, MailMark},
};

use super::Failure;
use crate::{
    cli::{
        broker::Broker,
        mail_crypto::{Asking, Opening},
        role_args,
    },
    config::Config,
    private::{
        Fresh, Sealer, Unsealable,
        finding::{Own, own::Limits},
    },
};

/// How to see which roles there are.
const ROLES_HINT: &str = "`tasuki mail mailboxes` shows the roles that have a mailbox";

#[derive(Debug, clap::Args)]
pub(super) struct MailboxArgs {
    /// Whose mail [default: TASUKI_ROLE, else the only role in the settings, else
    /// `current_agent` of `.filebox`, else the only role of the running node]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
}

/// One role's mail at the broker.
#[derive(Debug)]
pub(super) struct MailClient {
    pub(super) broker: Broker,
    pub(super) role: RoleId,
    sealer: Sealer,
}

impl MailboxArgs {
    pub(super) fn client(&self, config: &Config) -> Result<MailClient, Failure> {
        let role = role_args::role(self.role.as_ref(), config, ROLES_HINT)?;
        let broker = Broker::new(config);
        let sealer = Sealer::new(&config.data.value, broker.workspace());
        Ok(MailClient { broker, role, sealer })
    }

    /// The same of a role that the workspace knows: a name mistyped is no empty mailbox.
    pub(super) async fn known_client(&self, config: &Config) -> Result<MailClient, Failure> {
        let client = self.client(config)?;
        client.check_known().await.map(|()| client)
    }
}

impl MailClient {
    /// Whether the workspace knows the role.
    pub(super) async fn check_known(&self) -> Result<(), Failure> {
        let role = self.role.as_str();
        let Some(known) = role_args::known_roles(&self.broker).await? else { return Ok(()) };
        if known.contains(role) || role == ROLE_HUMAN {
            return Ok(());
        }
        let not = "it has no mailbox, no node hosts it and no loop names it. Nothing was sent or \
                   changed";
        let next = "send as it with `tasuki mail send --new-role`";
        Err(role_args::unknown_role(&self.broker, role, &known, not, next))
    }

    /// A page of a thread; marks nothing.
    pub(super) async fn read(
        &self,
        message: &str,
        from: u32,
        last: u32,
    ) -> Result<wire::ReadThreadResponse, Failure> {
        let request = wire::ReadThreadRequest {
            role: self.role.to_string(),
            message: message.to_owned(),
            from,
            last,
            mark: MailMark::None.into(),
            ..Default::default()
        };
        let read = self.broker.call(&request);
        let mut read = read.await?;
        if let Some(thread) = &mut read.thread {
            self.open(thread, &mut read.entries).await;
        }
        Ok(read)
    }

    /// What leaves this machine: sealed where mail is private.
    pub(super) async fn sealed(
        &self,
        request: wire::SendRequest,
    ) -> Result<wire::SendRequest, Failure> {
        let asking = Asking::new(&self.broker);
        let sealed = self.sealer.seal(&asking, request, Fresh::Always).await;
        sealed.map_err(|refusal| asking.failure(refusal))
    }

    /// Whether files may leave this machine, which are not sealed.
    pub(super) async fn check_files(&self) -> Result<(), Failure> {
        let asking = Asking::new(&self.broker);
        let may = self.sealer.check_plain(&asking, Unsealable::Files, Fresh::Always).await;
        may.map_err(|refusal| asking.failure(refusal))
    }

    /// Whether there may be mail that only this machine can look through.
    pub(super) async fn has_sealed(&self) -> Result<bool, Failure> {
        let asking = Asking::new(&self.broker);
        let has = self.sealer.has_sealed(&asking).await;
        has.map_err(|refusal| asking.failure(refusal))
    }

    /// Looks through what this machine can open. All of it is read for that, each time.
    pub(super) async fn search_sealed(
        &self,
        request: &wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Failure> {
        let asking = Asking::new(&self.broker);
        let opening = Opening { asking: &asking, sealer: &self.sealer };
        let found = Own::new(self.role.clone(), Limits::default()).search(&opening, request).await;
        found.map_err(|refusal| asking.failure(refusal))
    }

    /// Opens what a thread shows, where it is sealed.
    pub(super) async fn open(
        &self,
        thread: &mut wire::MailThread,
        entries: &mut [wire::MailEntry],
    ) {
        self.sealer.open_thread(&Asking::new(&self.broker), thread, entries).await;
    }

    /// The same of a list of threads.
    pub(super) async fn open_all(&self, threads: &mut Vec<wire::MailThread>) {
        self.sealer.open_threads(&Asking::new(&self.broker), threads).await;
    }

    /// Says that entries up to `through` got to the role.
    pub(super) async fn mark(
        &self,
        message_id: &str,
        through: u32,
        mark: MailMark,
    ) -> Result<(), Failure> {
        let request = wire::MarkMailRequest {
            role: self.role.to_string(),
            message_id: message_id.to_owned(),
            through,
            mark: mark.into(),
            ..Default::default()
        };
        self.broker.call(&request).await?;
        Ok(())
    }
}

/// Whether nothing unseen was left out before entry `first`: what is shown from there on may count
/// as seen.
pub(super) fn is_all_seen_before(thread: &wire::MailThread, first: u32) -> bool {
    thread.unseen == 0 || first <= thread.first_unseen
}
