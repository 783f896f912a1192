//! The mailboxes on disk of a node that is started from the command line.

use std::path::Path;

use tasuki_proto::id::RoleId;
use tokio::{sync::watch, task::JoinHandle};

use super::{
    Failure,
    text::{line, word},
};
use crate::{
    config::{Config, Environment, Key},
    dir::resolved,
    filebox,
    mail_directories::{Directories, Registered},
    mirror::{Mirror, Roots, is_within, roots},
    node::Node,
};

/// Kept until [`Mirroring::shutdown`].
pub(super) struct Mirroring {
    pub(super) mirror: Mirror,
    following: JoinHandle<()>,
}

/// Takes no project from a `.filebox` that came with a directory unless it lies in there: mail would
/// be written there, and what lies in its outbox sent. The user's own says what it wants.
fn refuse_strays(
    filebox: &filebox::Settings,
    roles: &[RoleId],
    around: &Environment,
) -> Result<(), Failure> {
    let own = filebox.path.parent().unwrap_or_else(|| Path::new("."));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_of_home = around.home.as_ref().is_some_and(|home| real(home) == real(own));
    let mut strays = filebox
        .agents
        .iter()
        .filter(|(role, at)| roles.contains(role) && !is_within(Some(own), at));
    let Some((role, stray)) = strays.next() else { return Ok(()) };
    if is_of_home || around.trusted.distrust(own, filebox::FILE, &filebox.content).is_none() {
        return Ok(());
    }
    let where_it_is =
        if stray.is_dir() { "outside of its own directory" } else { "no directory that is there" };
    Err(Failure::usage(format!(
        "{} keeps the mailbox of {role} in {}, which is {where_it_is}, and may be \
         somebody else's file. Read it and run `tasuki trust {}`, or name the project with {}.",
        line(&filebox.path.to_string_lossy()),
        line(&stray.to_string_lossy()),
        word(&own.to_string_lossy()),
        Key::MirrorRoot.env(),
    )))
}

impl Mirroring {
    /// `None`: nobody wants any.
    pub(super) fn start(
        config: &Config,
        node: &Node,
        directories: &Directories,
    ) -> Result<Option<Self>, Failure> {
        if !config.mirror.value {
            return Ok(None);
        }
        let mut around = Environment::of_process();
        let mut filebox = filebox::Settings::find(&around.directory, around.home.as_deref())
            .map_err(|bad| Failure::usage(format!("Mailboxes cannot be kept on disk: {bad}.")))?;
        let roles: Vec<_> = node.roles().iter().map(|spec| spec.role.clone()).collect();
        // Once: a link that somebody puts there while this runs leads no mail elsewhere.
        around.directory = resolved(&around.directory);
        for agent in filebox.iter_mut().flat_map(|it| it.agents.values_mut()) {
            *agent = resolved(agent);
        }
        let root = config.mirror_root.value.as_deref().map(resolved);
        if let (None, Some(filebox)) = (&root, &filebox) {
            refuse_strays(filebox, &roles, &around)?;
        }
        let within = root.clone();
        let mut registered = directories.watch();
        let all = move |registered: &watch::Receiver<Vec<_>>| -> Roots {
            let of = registered.borrow();
            let (root, filebox) = (root.as_deref(), filebox.as_ref());
            // They may have been registered while another project was named, or none.
            let of = of.iter().filter(|it: &&Registered| is_within(root, &it.directory));
            let of = of.map(|it| (it.role.clone(), it.directory.clone()));
            roots(&roles, &of.collect(), root, &around.directory, filebox)
        };
        let (changes, told) = watch::channel(all(&registered));
        let following = tokio::spawn(async move {
            while registered.changed().await.is_ok() {
                changes.send_replace(all(&registered));
            }
        });
        let mirror = node.start_mirror(told, within, config.groups.clone());
        Ok(Some(Self { mirror, following }))
    }

    pub(super) async fn shutdown(self) {
        self.following.abort();
        self.mirror.shutdown().await;
    }
}
