//! The broker: reached, known by its certificate, with a token that is good, and its clock.

use std::time::Duration;

use tasuki_proto::{counted::counted, reason::Reason, wire};
use tokio::time::timeout;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    finding::{Area, Finding, or_ok},
    node::start_command,
};
use crate::{
    cli::{
        Exit, Failure,
        access::{Access, WARN_BEFORE_MS},
        broker::Broker,
        hosting,
        labels::long,
        shared_broker::RunningBroker,
        text::{line, time},
        wrong_port,
    },
    clock,
    config::Config,
    credentials::Joined,
    paths::NodeFile,
    projects,
};

/// For all answers of a broker together.
const ANSWERS_WITHIN: Duration = Duration::from_secs(4);

/// Clocks may differ by so much, in milliseconds: below it times in lists are off and nothing else.
const CLOCK_OFF_MS_MAX: u64 = 30_000;

/// What was found of the broker.
pub(super) struct Looked {
    pub findings: Vec<Finding>,
    /// `None`: it cannot be used.
    pub broker: Option<Broker>,
}

/// Whether a broker is to be there at all.
fn is_expected(config: &Config) -> bool {
    config.broker.value.is_some()
        || RunningBroker::find(config).is_some()
        || projects::running(&config.data.value).is_some()
        || Joined::read(&config.root).is_ok_and(|it| it.is_some())
}

pub(super) async fn look(config: &Config) -> Looked {
    if !is_expected(config) {
        let mend = "`tasuki up` runs one, `tasuki join` joins another machine's.";
        let skipped = Finding::skipped(Area::Broker, "None runs here and none was joined.", mend);
        return Looked { findings: vec![skipped], broker: None };
    }
    let broker = Broker::new(config);
    let before_ms = clock::wall_ms();
    let began = clock::now();
    let late = || {
        let secs = ANSWERS_WITHIN.as_secs();
        let what = format!("What is at {} did not answer within {secs} s.", broker.url);
        Failure::reason(Reason::Unavailable, what)
    };
    let asked = timeout(ANSWERS_WITHIN, ask(&broker)).await;
    match asked.unwrap_or_else(|_| Err(late())) {
        Ok(told) => {
            let took = clock::now().since(began).as_millis();
            let findings = told.findings(before_ms, clock::wall_ms());
            let ok = format!("{} answers in {took} ms, {}", broker.url, line(&told.software));
            Looked { findings: or_ok(findings, Area::Broker, ok), broker: Some(broker) }
        }
        // It answers, so letters can be tried.
        Err(why) if why.as_reason() == Some(Reason::UnknownWorkspace) => {
            let mend = format!("{} makes it; or correct `workspace`.", start_command(config));
            let findings = vec![Finding::warning(Area::Broker, why.message, mend)];
            Looked { findings, broker: Some(broker) }
        }
        Err(why) => {
            let findings = vec![unusable(&why, &broker, config).await];
            Looked { findings, broker: None }
        }
    }
}

/// What a broker said.
struct Told {
    health: ServingStatus,
    /// When this machine's token ends, by the broker's clock; 0: never, or there is none.
    expires_ms: u64,
    software: String,
    dead_letters: Vec<(String, u64)>,
    now_ms: u64,
}

async fn ask(broker: &Broker) -> Result<Told, Failure> {
    let service = String::new();
    let health = broker.ask(async |c| {
        HealthClient::new(c).check(HealthCheckRequest { service: service.clone() }).await
    });
    let health = health.await?.status();
    let access = Access::look(broker).await?;
    let software = broker.call(&wire::ListNodesRequest::default()).await?.software;
    let mailboxes = broker.call(&wire::ListMailboxesRequest::default()).await?.mailboxes;
    let dead = mailboxes.into_iter().filter(|it| it.dead != 0);
    let dead_letters = dead.map(|it| (it.role, it.dead)).collect();
    let request = wire::ListLocksRequest { limit: 1, ..Default::default() };
    let now_ms = broker.call(&request).await?.now_ms;
    let expires_ms = access.map_or(0, |it| it.expires_ms());
    Ok(Told { health, expires_ms, software, dead_letters, now_ms })
}

impl Told {
    /// `before_ms` and `after_ms`: of this machine, around the broker's answers.
    fn findings(&self, before_ms: u64, after_ms: u64) -> Vec<Finding> {
        let mut found = Vec::new();
        if self.health == ServingStatus::NotServing {
            let what = "The broker has written nothing durably for some time.";
            let mend = "Look at its disk and its log where it runs: is it full, or read-only?";
            found.push(Finding::error(Area::Broker, what, mend));
        }
        let own = env!("CARGO_PKG_VERSION");
        if let Some((_, version)) = self.software.rsplit_once(' ')
            && version != own
        {
            let what = format!("The broker runs {}, and this is {own}.", line(version));
            let mend = "Install the same release: the broker first, then the nodes.";
            found.push(Finding::warning(Area::Broker, what, mend));
        }
        if let Some(what) = clock_off(self.now_ms, before_ms, after_ms) {
            let mend = "Set the clock of the machine that is off: `timedatectl set-ntp true`.";
            found.push(Finding::warning(Area::Broker, what, mend));
        }
        let left = self.expires_ms.saturating_sub(self.now_ms.max(before_ms));
        if self.expires_ms != 0 && left < WARN_BEFORE_MS {
            let what = format!("This machine's token ends {}.", time(self.expires_ms));
            let mend = "Ask for an invitation (`tasuki-broker invite`) and `tasuki join` again.";
            found.push(Finding::warning(Area::Broker, what, mend));
        }
        for (role, letters) in &self.dead_letters {
            let letters = counted(*letters, "dead letter");
            let role = line(role);
            let what = format!("{role} has {letters}: handed again and again, and never seen.");
            let mend = format!("`tasuki mail dead --role {role}` shows them.");
            found.push(Finding::warning(Area::Work, what, mend));
        }
        found
    }
}

/// How far the broker's clock is from this machine's, if that is too far.
fn clock_off(broker_ms: u64, before_ms: u64, after_ms: u64) -> Option<String> {
    // One that was never asked before says no time.
    if broker_ms == 0 {
        return None;
    }
    let ahead = broker_ms.saturating_sub(after_ms);
    let behind = before_ms.saturating_sub(broker_ms);
    let (off, how) = if behind < ahead { (ahead, "ahead of") } else { (behind, "behind") };
    let is_off = CLOCK_OFF_MS_MAX < off;
    is_off.then(|| format!("The broker's clock is {} {how} this machine's.", long(off)))
}

/// Why it cannot be used.
async fn unusable(why: &Failure, broker: &Broker, config: &Config) -> Finding {
    if let Err(wrong) = wrong_port::check_broker(config).await {
        let mend = "Set `broker` (TASUKI_BROKER, --broker URL) to the broker's own address.";
        return Finding::error(Area::Broker, wrong.message, mend);
    }
    let flags = hosting::data_flag(config);
    let join = format!(
        "Where the broker runs: `tasuki-broker invite`; here the line `tasuki{flags} join …` that it \
         prints."
    );
    let url = &broker.url;
    let mend = match (why.as_reason(), why.exit()) {
        (Some(Reason::Unavailable), _) => {
            let is_own = url.starts_with("http://") && NodeFile::read(&config.data.value).is_none();
            // More than that nothing is there, where more is known: no TLS, no gRPC, no answer in time.
            let is_nobody = why.message == broker.unreachable().message;
            if !is_nobody {
                let mend = format!(
                    "Is {url} the address of a broker, with http:// or https:// as it prints it at \
                     its start? One that hangs is started again where it runs."
                );
                return Finding::error(Area::Broker, why.message.clone(), mend);
            }
            let what = format!("No broker answers at {url}.");
            let mend = if is_own {
                format!("`tasuki{flags} up` runs one here, or give its address with --broker URL.")
            } else {
                "Is it running, and does this network let you reach it?".to_owned()
            };
            return Finding::error(Area::Broker, what, mend);
        }
        (Some(Reason::Unauthenticated), _) => join,
        (_, Exit::Untrusted) => format!("Ask whether the broker was set up anew; if so: {join}"),
        (Some(Reason::RightForbidden | Reason::RoleForbidden), _) => {
            format!("`tasuki{flags} broker-token show` says what the token may do. {join}")
        }
        _ => format!("`tasuki{flags} status` shows more."),
    };
    Finding::error(Area::Broker, why.message.clone(), mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn told() -> Told {
        Told {
            health: ServingStatus::Serving,
            expires_ms: 0,
            software: format!("tasuki-broker {}", env!("CARGO_PKG_VERSION")),
            dead_letters: Vec::new(),
            now_ms: NOW,
        }
    }

    #[test]
    fn what_a_broker_says_is_judged() {
        let findings = |it: &Told| it.findings(NOW - 20, NOW + 20);
        assert_eq!(findings(&told()), []);
        for (it, expected, mend) in [
            (
                Told { health: ServingStatus::NotServing, ..told() },
                "written nothing durably",
                "disk",
            ),
            (
                Told { software: "tasuki-broker 0.0.1".to_owned(), ..told() },
                "The broker runs 0.0.1",
                "the broker first",
            ),
            (
                Told { now_ms: NOW + 3_600_000, ..told() },
                "clock is 59m 59s ahead of this machine's",
                "timedatectl",
            ),
            (
                Told { expires_ms: NOW + 3_600_000, ..told() },
                "This machine's token ends",
                "tasuki-broker invite",
            ),
            (
                Told { dead_letters: vec![("B".to_owned(), 2)], ..told() },
                "B has 2 dead letters",
                "`tasuki mail dead --role B`",
            ),
        ] {
            let found = findings(&it);
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert!(one.what.contains(expected) && one.mend.contains(mend), "{one:?}");
        }
    }

    #[test]
    fn clocks_that_differ_by_seconds_are_well() {
        for (broker_ms, is_off) in [
            (0, false),
            (NOW, false),
            (NOW + CLOCK_OFF_MS_MAX, false),
            (NOW + 2 * CLOCK_OFF_MS_MAX, true),
            (NOW - 2 * CLOCK_OFF_MS_MAX, true),
        ] {
            assert_eq!(clock_off(broker_ms, NOW, NOW + 100).is_some(), is_off, "{broker_ms}");
        }
    }
}
