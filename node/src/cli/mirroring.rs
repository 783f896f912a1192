//! The mailboxes on disk of a node that is started from the command line.

use tokio::{sync::watch, task::JoinHandle};

use super::Failure;
use crate::{
    config::{Config, Surroundings},
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
        let around = Surroundings::of_process();
        let filebox = filebox::Settings::find(&around.directory, around.home.as_deref())
            .map_err(|bad| Failure::usage(format!("Mailboxes cannot be kept on disk: {bad}.")))?;
        let roles: Vec<_> = node.roles().iter().map(|spec| spec.role.clone()).collect();
        let root = config.mirror_root.value.clone();
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
