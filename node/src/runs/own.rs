//! The agents and runners of this machine, looked up anew each time: files come and go, and programs
//! are installed while a node runs.
//!
//! Nothing is started to find out what there is.
//!
//! Not here: whether a project's agents may run, what version a runner has (`tasuki runners check`).

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use directories::BaseDirs;

use crate::{
    hooks::command::runnable,
    runner::{
        discovery::{Agents, Scope, project_dirs, user_dirs},
        runners::{Runner, RunnerTable},
    },
};

/// Where pi has its files, if it was told to have them elsewhere.
const PI_DIRECTORY_VARIABLE: &str = "PI_CODING_AGENT_DIR";

/// What this machine can run, and where.
#[derive(Debug, Clone)]
pub struct OwnRunners {
    pub table: RunnerTable,
    /// Absolute: agents work here, or in a directory below.
    pub project: PathBuf,
}

impl OwnRunners {
    /// The agents of this scope. Those of a project are looked for at `from`, which may be relative
    /// to the project, and above.
    pub fn agents(&self, scope: Scope, from: &Path) -> Agents {
        let base = BaseDirs::new();
        let pi_dir = env::var_os(PI_DIRECTORY_VARIABLE).filter(|dir| !dir.is_empty());
        let pi_dir = pi_dir.as_deref().map(Path::new);
        self.agents_of(base.as_ref().map(BaseDirs::home_dir), pi_dir, scope, from)
    }

    fn agents_of(
        &self,
        home: Option<&Path>,
        pi_dir: Option<&Path>,
        scope: Scope,
        from: &Path,
    ) -> Agents {
        let users = home.map_or_else(Vec::new, |home| user_dirs(home, pi_dir));
        let start = self.project.join(from);
        // What is above `web/..` is not `web`.
        let start = fs::canonicalize(&start).unwrap_or(start);
        Agents::find(&users, &project_dirs(&start, &users), scope)
    }

    /// Names of runners whose program can be found: on the `PATH`, or where the configuration says.
    pub fn installed(&self) -> BTreeSet<String> {
        self.installed_on(env::var_os("PATH").as_deref())
    }

    fn installed_on(&self, path: Option<&OsStr>) -> BTreeSet<String> {
        let is_there = |runner: &&Runner| self.has_program(runner.program(), path);
        self.table.iter().filter(is_there).map(|runner| runner.name.clone()).collect()
    }

    fn has_program(&self, program: &str, path: Option<&OsStr>) -> bool {
        if program.contains(std::path::is_separator) {
            return runnable(&self.project.join(program)).is_ok();
        }
        // What a relative entry means depends on where one stands.
        let directories = path.map(env::split_paths).into_iter().flatten();
        let mut absolute = directories.filter(|directory| directory.is_absolute());
        absolute.any(|directory| runnable(&directory.join(program)).is_ok())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

    use tempfile::TempDir;

    use super::*;
    use crate::runner::runners::RunnerConfig;

    struct Machine(TempDir);

    impl Machine {
        fn new() -> Self {
            Self(TempDir::new().expect("a directory"))
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, text: &str, mode: u32) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        }

        fn agent(&self, path: &str, name: &str) {
            self.write(path, &format!("---\nname: {name}\ndescription: d\n---\n"), 0o644);
        }

        fn own(&self, commands: &[(&str, &str)]) -> OwnRunners {
            let config = |(name, program): &(&str, &str)| {
                let command = Some(vec![(*program).to_owned()]);
                ((*name).to_owned(), RunnerConfig { command, stream: Some("pi".to_owned()) })
            };
            let configs: BTreeMap<_, _> = commands.iter().map(config).collect();
            let table = RunnerTable::new(&configs).expect("runners");
            OwnRunners { table, project: self.path("project") }
        }
    }

    #[test]
    fn agents_are_those_of_the_user_and_those_above_the_directory() {
        let machine = Machine::new();
        machine.agent("home/.pi/agent/agents/scout.md", "scout");
        machine.agent("elsewhere/agents/miner.md", "miner");
        machine.agent("project/.tasuki/agents/lead.md", "lead");
        machine.agent("project/web/.tasuki/agents/painter.md", "painter");
        let found = |home: Option<&str>, pi_dir: Option<&str>, scope, from: &str| {
            let (home, pi_dir) =
                (home.map(|it| machine.path(it)), pi_dir.map(|it| machine.path(it)));
            let own = machine.own(&[]);
            own.agents_of(home.as_deref(), pi_dir.as_deref(), scope, Path::new(from)).available()
        };
        for (home, pi_dir, scope, from, available) in [
            (Some("home"), None, Scope::User, "", "scout (user)"),
            (Some("home"), Some("elsewhere"), Scope::User, "", "miner (user)"),
            (Some("home"), None, Scope::Both, "", "lead (project), scout (user)"),
            (Some("home"), None, Scope::Project, "web", "painter (project)"),
            (Some("home"), None, Scope::Project, "web/..", "lead (project)"),
            (None, None, Scope::Both, "", "lead (project)"),
        ] {
            assert_eq!(found(home, pi_dir, scope, from), available, "{scope:?} {from}");
        }
        // They are looked up anew.
        fs::remove_file(machine.path("project/.tasuki/agents/lead.md")).expect("it was there");
        assert_eq!(found(Some("home"), None, Scope::Both, ""), "scout (user)");
    }

    #[test]
    fn a_runner_is_installed_where_its_program_can_be_found() {
        let machine = Machine::new();
        machine.write("bin/pi", "", 0o755);
        machine.write("bin/claude", "no program", 0o644);
        fs::create_dir_all(machine.path("bin/gemini")).expect("a directory");
        machine.write("more/wrapped", "", 0o755);
        machine.write("project/tools/mine", "", 0o755);
        let absolute = machine.path("more/wrapped").display().to_string();
        let own = machine.own(&[
            ("codex", "wrapped"),
            ("absolute", &absolute),
            ("relative", "tools/mine"),
            ("gone", "/no/such/program"),
            ("below", "bin/pi"),
        ]);
        let path = env::join_paths([machine.path("bin"), "tools".into(), machine.path("more")]);
        let on =
            |path: Option<&OsStr>| own.installed_on(path).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(on(path.ok().as_deref()), "absolute codex pi relative");
        assert_eq!(on(None), "absolute relative");
    }
}
