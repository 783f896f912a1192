//! How the commands for administrators reach the broker that serves their data directory, and
//! say what came of it.
//!
//! Each command asks and ends in an [`Answer`], or in [`No`]; both are printed here. A secret that
//! an answer carries is printed once, on stdout.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tasuki_broker::{backup::BackupError, journal::JournalError};
use tasuki_proto::{
    host::{admin::AdminFile, files::SecretFileError, unwritable::Unwritable},
    invitation::{Fingerprint, Trust},
    net::{
        dial::{Channel, DialError, dial, refused_later},
        tls::Trusting,
    },
    reason::Reason,
    token::Token,
    wire::{WhoAmIRequest, access_client::AccessClient, admin_client::AdminClient},
};
use tonic::{Response, Status};

use super::{
    Data, EXIT_DAMAGED, EXIT_OK, EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_USAGE, directory, exit_code,
    file, say, tell,
};

/// Where the broker's data is, and what to show it beside the token kept there.
#[derive(Debug, Args)]
pub(super) struct Administer {
    #[command(flatten)]
    data: Data,

    /// Client certificate, if the broker requires one (`--client-ca`)
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,

    /// Private key of that certificate
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

/// What a command has to say.
pub(super) struct Answer {
    /// For programs, instead of the rest.
    pub(super) value: Value,
    /// On stdout.
    pub(super) lines: String,
    /// On stderr: what a person should know beside it.
    pub(super) notes: String,
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(super) struct No {
    exit: u8,
    code: &'static str,
    message: String,
}

impl No {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { exit: EXIT_USAGE, code: "usage", message: message.into() }
    }

    /// Why it was not done was said already.
    pub(super) fn said(exit: u8) -> Self {
        Self { exit, code: "", message: String::new() }
    }

    /// Whether the broker gave this reason.
    pub(super) fn is(&self, reason: Reason) -> bool {
        self.code == reason.as_str()
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self { exit: EXIT_UNAVAILABLE, code: "unavailable", message: message.into() }
    }

    /// The same, and what else is to be known.
    pub(super) fn with(mut self, text: &str) -> Self {
        self.message.push_str(text);
        self
    }

    /// Why a directory cannot be opened, with what helps where its disk takes nothing.
    pub(super) fn opening(directory: &Path, why: JournalError) -> Self {
        let is_disk = matches!(why, JournalError::Storage(_));
        let found = if is_disk { Unwritable::find(directory) } else { None };
        Self::from(why).with(&found.map(|why| format!(" {why}.")).unwrap_or_default())
    }
}

impl From<JournalError> for No {
    fn from(why: JournalError) -> Self {
        let exit = exit_code(&why);
        let code = match exit {
            EXIT_DAMAGED => Reason::Damaged.as_str(),
            _ => "unavailable",
        };
        Self { exit, code, message: format!("{why}.") }
    }
}

impl From<BackupError> for No {
    fn from(why: BackupError) -> Self {
        match why {
            BackupError::Journal(why) => why.into(),
            BackupError::NoWorkspace(_) => Self::usage(sentence(&why.to_string())),
            BackupError::NotOne
            | BackupError::Newer(_)
            | BackupError::CutOff { .. }
            | BackupError::NotExport
            | BackupError::NewerExport(_)
            | BackupError::ExportCutOff(_)
            | BackupError::Line { .. }
            | BackupError::Damaged { .. } => Self {
                exit: EXIT_DAMAGED,
                code: Reason::Damaged.as_str(),
                message: sentence(&why.to_string()),
            },
            BackupError::Read(_)
            | BackupError::Write(_)
            | BackupError::Directory { .. }
            | BackupError::Restoring(_)
            | BackupError::Taken(_) => Self::unavailable(sentence(&why.to_string())),
        }
    }
}

/// Begins with a capital and ends with a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|it| it.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

impl From<SecretFileError> for No {
    fn from(why: SecretFileError) -> Self {
        Self::unavailable(format!("{why}. A broker that is started again makes itself a new one."))
    }
}

/// The broker of a data directory, with a token it knows.
pub(super) struct Broker {
    pub(super) directory: PathBuf,
    pub(super) file: AdminFile,
    pub(super) token: Token,
    /// ` --data DIR`, where it was said: for commands to be run next.
    pub(super) data_flag: String,
    channel: Channel,
}

/// Prints what came of a command.
pub(super) fn print(result: Result<Answer, No>, is_json: bool) -> u8 {
    match result {
        Ok(answer) if is_json => {
            say(&answer.value.to_string());
            EXIT_OK
        }
        Ok(answer) => {
            if !answer.lines.is_empty() {
                say(answer.lines.trim_end());
            }
            tell(answer.notes.trim_end());
            EXIT_OK
        }
        Err(No { exit, message, .. }) if message.is_empty() => exit,
        Err(No { exit, code, message }) => {
            if is_json {
                say(&json!({ "error": { "code": code, "message": message } }).to_string());
            } else {
                tell(&format!("error: {message} ({code})"));
            }
            exit
        }
    }
}

/// Does something, and prints what comes of it.
pub(super) fn run(is_json: bool, what: impl Future<Output = Result<Answer, No>>) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Err(why) => Err(No::unavailable(format!("The program cannot start: {why}."))),
        Ok(runtime) => runtime.block_on(what),
    };
    print(result, is_json)
}

impl Administer {
    /// Asks whoever serves the data directory, and prints what comes of it.
    pub(super) fn ask(self, what: impl AsyncFnOnce(Broker) -> Result<Answer, No>) -> u8 {
        self.run(async |administer| what(administer.connect().await?).await)
    }

    /// Does something with the data directory, and prints what comes of it.
    pub(super) fn run(self, what: impl AsyncFnOnce(Self) -> Result<Answer, No>) -> u8 {
        run(self.data.json, what(self))
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    /// The broker that has the directory, which is in use: `held` says by which process. A command
    /// that reads or compacts it has it as well, and answers nobody.
    pub(super) async fn connect_to_holder(self, held: &str) -> Result<Broker, No> {
        let settings = file(&self.data).ok_or_else(|| No::said(EXIT_USAGE))?;
        let directory = directory(&self.data, &settings).ok_or_else(|| No::said(EXIT_USAGE))?;
        let serves = |it: AdminFile| it.pid.is_none_or(|pid| held.ends_with(&process(pid)));
        if !held.ends_with(')') || AdminFile::read(&directory)?.is_some_and(serves) {
            return self.connect().await;
        }
        Err(No::unavailable(format!(
            "{held} is in use, and not by a broker that serves: another command such as `verify`, \
             `backup` or `compact` has it, or a broker that is starting. Run the same command again \
             when it is done."
        )))
    }

    pub(super) async fn connect(self) -> Result<Broker, No> {
        let settings = file(&self.data)
            .ok_or_else(|| No::usage("The configuration file cannot be used; the log says why."))?;
        let directory = directory(&self.data, &settings)
            .ok_or_else(|| No::usage("The data directory cannot be used; the log says why."))?;
        let file = AdminFile::read(&directory)?.ok_or_else(|| {
            No::unavailable(format!(
                "No broker has served {} yet, or it is another user's. Start one with \
                 `tasuki-broker serve`, or say --data DIR.",
                directory.display()
            ))
        })?;
        let trust = match &file.fingerprint {
            None => Trust::Authorities,
            Some(text) => Trust::Pinned(text.parse::<Fingerprint>().map_err(|_| {
                No::unavailable("admin.json names no fingerprint; start the broker again.")
            })?),
        };
        let data_flag = match &self.data.data {
            Some(data) => format!(" --data {}", data.display()),
            None => String::new(),
        };
        let client = self.client_cert.zip(self.client_key);
        let trusting = Trusting { client, ..Trusting::new(trust) };
        let mut unknown = None;
        for token in file.tokens() {
            let channel = dial(&file.url, &trusting, Some(&token)).await;
            let channel = channel.map_err(|why| not_there(&file.url, &why))?;
            let known = AccessClient::new(channel.clone()).who_am_i(WhoAmIRequest {}).await;
            match known {
                Ok(_) => return Ok(Broker { directory, file, token, data_flag, channel }),
                Err(status) if Reason::of(&status) == Some(Reason::Unauthenticated) => {
                    unknown = Some(status);
                }
                Err(status) => return Err(refused(&file.url, &status)),
            }
        }
        let why = unknown.map_or_else(|| "it holds none".to_owned(), |it| it.message().to_owned());
        Err(No {
            exit: EXIT_REFUSED,
            code: Reason::Unauthenticated.as_str(),
            message: format!(
                "The broker does not take the token of admin.json any more: {why} Started again, \
                 it makes itself a new one."
            ),
        })
    }
}

impl Broker {
    /// Sends one call about the data.
    pub(super) async fn administrate<T>(
        &self,
        send: impl AsyncFnOnce(AdminClient<Channel>) -> Result<T, Status>,
    ) -> Result<T, No> {
        let sent = send(AdminClient::new(self.channel.clone())).await;
        sent.map_err(|status| refused(&self.file.url, &status))
    }

    /// Sends one call about who may do what. These calls name what they make, so whoever runs the
    /// command again after a lost answer does nothing twice.
    pub(super) async fn call<T>(
        &self,
        send: impl AsyncFnOnce(AccessClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, No> {
        match send(AccessClient::new(self.channel.clone())).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(refused(&self.file.url, &status)),
        }
    }
}

/// As the lock on the data names who has it.
fn process(pid: u32) -> String {
    format!("(process {pid})")
}

fn not_there(url: &str, why: &DialError) -> No {
    match why {
        DialError::Unreachable { .. } => No::unavailable(format!(
            "The broker of this data directory does not answer at {url}: is it running? {why}."
        )),
        DialError::Url(_)
        | DialError::Plain(_)
        | DialError::Files(_)
        | DialError::Name { .. }
        | DialError::Tls(_)
        | DialError::Http { .. } => No::unavailable(format!("{why}.")),
    }
}

fn refused(url: &str, status: &Status) -> No {
    if let Some(why) = refused_later(url, status) {
        return No::unavailable(format!(
            "{why}. Name one with --client-cert FILE --client-key FILE."
        ));
    }
    match Reason::of(status) {
        Some(reason) => {
            let is_damage = reason == Reason::Damaged;
            let exit = if is_damage { EXIT_DAMAGED } else { EXIT_REFUSED };
            No { exit, code: reason.as_str(), message: status.message().to_owned() }
        }
        None => No::unavailable(format!(
            "The broker at {url} gave no answer ({}). Run the same command again.",
            status.message()
        )),
    }
}
