//! `tasuki lock-hook`: hooks of Git and of coding agents that refuse changes of files that another
//! role has locked.
//!
//! `install` installs and uninstalls them: `git_hook` is Git's, `agent_hook` what goes into the
//! agents' files. They call `pre_commit` and `edit`; `lock_check` asks the broker, `committer` says
//! whose locks are one's own.
//!
//! - **HK1** A hook that cannot check does what `hook_fail` says, and says so: nobody is locked out
//!   of their work by an unreachable broker, unless they chose that. A broker that answers and
//!   cannot say of a file whether it is locked lets nothing pass.
//! - **HK2** What others wrote stays, and is the same bytes after the hook was uninstalled.
//! - **HK3** A hook that an agent or Git calls answers within a bounded time.

mod agent_hook;
mod committer;
mod edit;
mod git_hook;
mod install;
mod lock_check;
mod pre_commit;

use std::{path::PathBuf, time::Duration};

use tasuki_proto::id::RoleId;

use super::{Failure, Output, target};
use crate::{
    config::{Config, HookFail, Problem},
    edit_guard::Client,
};

/// Manage hooks that refuse changes to files locked by others
///
/// They are hooks of Git and of coding agents. Programs that run when something happens are
/// `tasuki hook`.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Install hooks that refuse commits and edits of files that another role has locked
    ///
    /// Without --git, --claude, --cursor and --codex: Git's hook, and those of the agents that have
    /// a folder in the project. A hook that exists already stays and runs first. Installing again
    /// changes nothing.
    #[command(args(target()))]
    Install(InstallArgs),
    /// Uninstall what `tasuki lock-hook install` installed
    Uninstall(WhichArgs),
    /// Show which hooks are installed, and the roles they act as
    Status(WhichArgs),
    /// Called by Git before a commit
    #[command(hide = true, args(target()))]
    PreCommit(CalledArgs),
    /// Called by a coding agent before an edit, which it describes on standard input
    #[command(hide = true, args(target()))]
    Edit(EditArgs),
}

#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    called: CalledArgs,
}

/// Which hooks, of which project.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct WhichArgs {
    /// Git's pre-commit hook
    #[arg(long)]
    git: bool,
    /// Claude Code's hook before its editing tools
    #[arg(long)]
    claude: bool,
    /// Cursor's hook before its editing tools
    #[arg(long)]
    cursor: bool,
    /// Codex's hook before it applies a patch
    #[arg(long)]
    codex: bool,
    /// Project directory [default: this directory]
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
}

/// As whom a hook acts, and what it does when it cannot.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct CalledArgs {
    /// Role that commits and edits; its own locks never refuse it [default: TASUKI_ROLE, else this
    /// machine's only role]
    #[arg(long = "as", value_name = "ROLE")]
    role: Option<RoleId>,
    /// Allow commits and edits while locks cannot be checked
    #[arg(long, conflicts_with = "fail_closed")]
    fail_open: bool,
    /// Refuse commits and edits while locks cannot be checked [default: `hook_fail` in the
    /// configuration, else they are allowed]
    #[arg(long)]
    fail_closed: bool,
    /// Longest time that a check may take [default: 1s before an edit, 10s before a commit]
    #[arg(long, value_name = "DURATION", value_parser = within)]
    within: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub struct EditArgs {
    /// The coding agent that calls
    #[arg(long, value_enum)]
    client: Client,
    #[command(flatten)]
    called: CalledArgs,
}

/// The longest that a hook may take: whoever commits or edits waits for it.
const WITHIN_MAX: Duration = Duration::from_secs(60);

fn within(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if !time.is_zero() && time <= WITHIN_MAX => Ok(time),
        Ok(_) => Err(format!("it takes more than 0 s and at most {} s", WITHIN_MAX.as_secs())),
        Err(why) => Err(why.to_string()),
    }
}

impl CalledArgs {
    /// `None`: neither flag was given.
    fn fail_flag(&self) -> Option<HookFail> {
        match (self.fail_open, self.fail_closed) {
            (true, _) => Some(HookFail::Open),
            (false, true) => Some(HookFail::Closed),
            (false, false) => None,
        }
    }

    fn fail(&self, config: &Config) -> HookFail {
        self.fail_flag().unwrap_or(config.hook_fail.value)
    }
}

impl Command {
    /// What one that is called says where the configuration makes no sense: its exit code would
    /// else be taken for an answer. `None`: a person calls.
    pub(super) fn misconfigured(
        &self,
        config: &Config,
        problems: &[Problem],
        output: &mut Output,
    ) -> Option<Result<(), Failure>> {
        let why = Failure::configuration(problems);
        match self {
            Self::PreCommit(args) => Some(pre_commit::unknown(args.fail(config), &why, output)),
            Self::Edit(args) => {
                let (client, fail) = (args.client, args.called.fail(config));
                Some(edit::unknown(client, fail, &why.message, output))
            }
            Self::Install(_) | Self::Uninstall(_) | Self::Status(_) => None,
        }
    }
}

pub(super) use self::install::broken;

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Install(args) => install::install(&args, config, output).await,
        Command::Uninstall(args) => install::uninstall(&args, config, output).await,
        Command::Status(args) => install::status(&args, config, output),
        Command::PreCommit(args) => pre_commit::run(&args, config, output).await,
        Command::Edit(args) => edit::run(&args, config, output).await,
    }
}
