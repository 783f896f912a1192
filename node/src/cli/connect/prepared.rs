//! What connecting one client changes, before and while it is written.

use super::{
    Args,
    client::Scope,
    config_paths::ConfigPaths,
    owner,
    plan::{self, FilePlan},
    refused,
    request::{self, Context, Request},
};
use crate::{
    cli::{
        Failure,
        client_files::{
            Apply, Installer, Target, Written,
            file_io::{self, NewMode},
            program,
        },
        node_address::TokenSource,
    },
    config::Config,
};

pub(super) struct Prepared {
    pub request: Request,
    pub plans: Vec<FilePlan>,
    /// What a person must know of the permissions.
    pub note: Option<&'static str>,
    paths: ConfigPaths,
}

impl Prepared {
    pub(super) async fn new(
        args: &Args,
        config: &Config,
        paths: ConfigPaths,
    ) -> Result<Self, Failure> {
        let program = program::path(&paths.directory)?;
        let running = config.running_node();
        let shown = TokenSource::of_process(None);
        let context = Context { config, running, paths: &paths, program: &program, shown: &shown };
        let mut request = request::request(args, &context)?;
        request.ask_for_tools().await;
        let (plans, note) = plan::plan(&request.connection, &paths);
        Ok(Self { request, plans, note, paths })
    }

    /// The files; `None`: the client keeps one where nobody else may write.
    pub(super) fn targets(&self) -> Option<Vec<Target>> {
        let is_private = self.request.connection.scope == Scope::User;
        let mode = if is_private { NewMode::Private } else { NewMode::Usual };
        let target =
            |plan: &FilePlan| Some(Target { path: plan.path.clone()?, format: plan.format, mode });
        self.plans.iter().map(target).collect()
    }

    pub(super) async fn write(
        &self,
        config: &Config,
        force: bool,
    ) -> Result<Vec<Written>, Failure> {
        let (connection, paths) = (&self.request.connection, &self.paths);
        let targets = self.targets().unwrap_or_default();
        let is_project = connection.scope == Scope::Project && paths.directory != paths.home;
        let in_project = |target: &&Target| is_project && target.path.starts_with(&paths.directory);
        for target in targets.iter().filter(in_project) {
            file_io::refuse_link(&paths.directory, &target.path).map_err(Failure::local)?;
        }
        if let Some((path, token)) = &self.request.keep {
            let kept = crate::paths::replace(path, token.expose().as_bytes());
            kept.map_err(|why| {
                Failure::local(format!("{} cannot be written: {why}.", path.display()))
            })?;
        }
        let name = &connection.name;
        let mut installer = Installer::open(&config.data.value, owner(name)).await?;
        let applies: Vec<Box<Apply<'_>>> = self
            .plans
            .iter()
            .map(|plan| -> Box<Apply<'_>> {
                Box::new(move |path, document, is_logged| {
                    plan::apply(plan, document, is_logged, force)
                        .map_err(|why| refused(path, &why, name))
                })
            })
            .collect();
        // What is refused is refused before the first file is written.
        for (target, apply) in targets.iter().zip(&applies) {
            installer.check(target, apply)?;
        }
        let mut written = Vec::new();
        for (target, apply) in targets.iter().zip(&applies) {
            written.push(installer.install(target, apply).await?);
        }
        Ok(written)
    }
}
