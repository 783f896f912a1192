//! Machines that share nothing but a network.
//!
//! A machine is a network namespace with a thread inside it. What that thread opens, connects
//! or starts is inside too, so tests hand it their work ([`Machine::on`]). The namespace has no
//! name and nothing of it is on disk: it ends with its thread, and the thread takes the
//! processes along that it started, also when the test is killed.

use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    thread,
};

use rustix::{
    io::Errno,
    thread::{UnshareFlags, gettid},
};
use tokio::{
    io::AsyncWriteExt as _,
    process::Command,
    runtime::{Builder, Handle},
    sync::oneshot,
};
use tokio_util::task::AbortOnDropHandle;

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    /// Names its namespace to others.
    pub(crate) thread: i32,
    runtime: Handle,
    /// Its end ends the thread.
    _on: oneshot::Sender<()>,
}

impl Machine {
    /// One with nothing but loopback, or why the kernel gives none.
    pub(crate) async fn boot(name: &str) -> Result<Self, Errno> {
        let (on, off) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let run = move || {
            #[expect(deprecated, reason = "what it warns of is sharing file descriptors no more")]
            let entered = rustix::thread::unshare(UnshareFlags::NEWNET);
            if let Err(why) = entered {
                tell.send(Err(why)).unwrap();
                return;
            }
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let thread = gettid().as_raw_nonzero().get();
            tell.send(Ok((thread, runtime.handle().clone()))).unwrap();
            // It is never told anything, only forgotten.
            runtime.block_on(off).unwrap_err();
        };
        thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
        let (thread, runtime) = told.await.unwrap()?;
        let it = Self { name: name.to_owned(), thread, runtime, _on: on };
        it.ip("link set lo up").await;
        Ok(it)
    }

    /// Begins work on this machine, which ends when nobody waits for it any more.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        AbortOnDropHandle::new(self.runtime.spawn(work))
    }

    /// Has work done on this machine.
    pub(crate) async fn on<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.spawn(work).await {
            Ok(done) => done,
            Err(why) => std::panic::resume_unwind(why.into_panic()),
        }
    }

    /// Changes this machine's network.
    pub(crate) async fn ip(&self, line: &str) {
        let mut command = Command::new("ip");
        command.args(line.split_whitespace());
        self.must(command, "").await;
    }

    /// Replaces what its kernel does with packets.
    pub(crate) async fn nft(&self, rules: &str) {
        let mut command = Command::new("nft");
        command.args(["-f", "-"]);
        self.must(command, rules).await;
    }

    /// Sets a value of its kernel's network, named as a path.
    pub(crate) async fn set(&self, path: &str, value: &'static str) {
        let path = format!("/proc/sys/net/{path}");
        self.on(async move { std::fs::write(&path, value).unwrap() }).await;
    }

    async fn must(&self, mut command: Command, input: &str) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (said, input) = (format!("{command:?}\n{input}"), input.to_owned());
        let output: Output = self
            .on(async move {
                let mut child = match command.kill_on_drop(true).spawn() {
                    Ok(child) => child,
                    Err(why) => panic!("{command:?}: {why}; Debian has it in nftables, iproute2"),
                };
                child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
                child.wait_with_output().await.unwrap()
            })
            .await;
        assert!(output.status.success(), "{}: {said}{output:?}", self.name);
    }
}

/// A command that does not outlive the machine it is started on.
pub(crate) fn bound(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).kill_on_drop(true);
    command
}
