//! `tasuki lock-hook …` against a real broker, with a real Git.

mod agents;
mod git;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;
use tasuki_proto::wire::{self, swarm_client::SwarmClient};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{
    Said,
    process::{Process, soon, tasuki},
};

/// A broker with the roles A and B, and a project.
struct Office {
    place: tempfile::TempDir,
    up: Process,
    locks: u64,
}

impl Said {
    /// Whether it was refused, with these words.
    fn is_no(&self, words: &[&str]) -> bool {
        self.code != 0 && words.iter().all(|it| self.err.contains(it))
    }
}

impl Office {
    async fn open() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::create_dir(place.path().join("work")).unwrap();
        let up = Process::up(&data, "").await;
        Self { place, up, locks: 0 }
    }

    /// With a repository of one commit.
    async fn with_repository() -> Self {
        let office = Self::open().await;
        office.git(&["init", "-q", "-b", "main"]).await;
        office.git(&["remote", "add", "origin", "git@git.example:a/b.git"]).await;
        office.write("src/a.rs", "a");
        office.write("src/b.rs", "b");
        let done = office.commit("first").await;
        assert_eq!(done.code, 0, "{done:?}");
        office
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join("work").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git_in(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(directory).stdin(Stdio::null());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("NO_COLOR", "1").env_remove("TASUKI_ROLE");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "T").env(format!("GIT_{who}_EMAIL"), "t@t");
        }
        command
    }

    /// Calls Git, which must not fail, and gives what it printed.
    async fn git(&self, arguments: &[&str]) -> String {
        let said = self.try_git(arguments).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.out
    }

    async fn try_git(&self, arguments: &[&str]) -> Said {
        Said::of(&soon(self.git_in(&self.at(""), arguments).output()).await.unwrap())
    }

    /// Commits all there is.
    async fn commit(&self, message: &str) -> Said {
        self.git(&["add", "-A"]).await;
        self.try_git(&["commit", "-q", "-m", message]).await
    }

    fn tasuki(&self, arguments: &[&str]) -> Command {
        let mut command = tasuki(&self.up.data);
        command.args(arguments).arg("--data").arg(&self.up.data).current_dir(self.at(""));
        command.env_remove("TASUKI_ROLE");
        command
    }

    async fn hook(&self, arguments: &[&str]) -> Said {
        Said::of(&soon(self.tasuki(&[&["lock-hook"], arguments].concat()).output()).await.unwrap())
    }

    /// Git's hook, with all the time that a busy machine may take.
    async fn install(&self, more: &[&str]) -> Value {
        self.hook_json(&[&["install", "--git", "--within", "60s"], more].concat()).await
    }

    async fn hook_json(&self, arguments: &[&str]) -> Value {
        let said = self.hook(&[arguments, &["--json"]].concat()).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        serde_json::from_str(&said.out).unwrap()
    }

    /// What an agent is told that says this before an edit.
    async fn asks(&self, arguments: &[&str], said: &str) -> Said {
        let mut command = self
            .tasuki(&[&["lock-hook", "edit", "--within", "60s", "--client"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(said.as_bytes()).await.unwrap();
        Said::of(&soon(child.wait_with_output()).await.unwrap())
    }

    /// Has a role lock files of a repository; gives the lease.
    async fn lock(&mut self, role: &str, repository: &str, patterns: &[&str]) -> wire::Lock {
        let mut client = self.swarm().await;
        self.locks += 1;
        let request = wire::LockFilesRequest {
            caller: caller(),
            key: Some(wire::IdempotencyKey { client_id: "test".into(), counter: self.locks }),
            role: role.to_owned(),
            files: Some(wire::FileSet {
                repository: repository.to_owned(),
                patterns: patterns.iter().map(|it| (*it).to_owned()).collect(),
                is_case_folded: false,
            }),
            for_ms: 600_000,
            ..wire::LockFilesRequest::default()
        };
        client.lock_files(request).await.unwrap().into_inner().lock.unwrap()
    }

    async fn unlock(&mut self, lock: &wire::Lock) {
        let mut client = self.swarm().await;
        self.locks += 1;
        let request = wire::UnlockRequest {
            caller: caller(),
            key: Some(wire::IdempotencyKey { client_id: "test".into(), counter: self.locks }),
            role: lock.holder.clone(),
            lease_id: lock.lease_id.clone(),
            lock_token: lock.lock_token,
        };
        client.unlock(request).await.unwrap();
    }

    async fn swarm(&self) -> SwarmClient<tonic::transport::Channel> {
        SwarmClient::connect(self.broker()).await.unwrap()
    }

    fn broker(&self) -> String {
        format!("http://{}", self.up.broker.unwrap())
    }
}

fn caller() -> Option<wire::Caller> {
    Some(wire::Caller { workspace: "default".into(), node: String::new(), epoch: 0 })
}

const REPOSITORY: &str = "git.example/a/b";
