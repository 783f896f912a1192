//! Calls by method and by what came of them.
//!
//! The methods are those of a table that never changes, and outcomes are the codes that a refusal
//! can have, so each pair has its place: to count a call is two additions, and three for its time.

use std::{fmt, sync::Arc, time::Duration};

use tasuki_proto::{
    reason::Reason,
    rpc::{Call, CallKind},
};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::{Counter, Histogram, Level, TIMES, Text, micros};

/// Outcomes without a reason of ours, by the number of their gRPC code; behind them are
/// [`Reason`]s, in their order, then [`DROPPED`].
const CODES: [&str; 17] = [
    "ok",
    "grpc_cancelled",
    "grpc_unknown",
    "grpc_invalid_argument",
    "grpc_deadline_exceeded",
    "grpc_not_found",
    "grpc_already_exists",
    "grpc_permission_denied",
    "grpc_resource_exhausted",
    "grpc_failed_precondition",
    "grpc_aborted",
    "grpc_out_of_range",
    "grpc_unimplemented",
    "grpc_internal",
    "grpc_unavailable",
    "grpc_data_loss",
    "grpc_unauthenticated",
];

/// The caller left before it was answered.
const DROPPED: &str = "dropped";

const OUTCOMES: usize = CODES.len() + Reason::ALL.len() + 1;

/// In the order of [`kind_index`].
const KINDS: [&str; 5] = ["command", "query", "page", "wait", "stream"];

const fn kind_index(kind: CallKind) -> usize {
    match kind {
        CallKind::Command => 0,
        CallKind::Query => 1,
        CallKind::Page => 2,
        CallKind::Wait => 3,
        CallKind::Stream => 4,
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome(usize);

impl Outcome {
    const DROPPED: Self = Self(OUTCOMES - 1);

    fn new(status: Option<&Status>) -> Self {
        let Some(status) = status else { return Self(Code::Ok as usize) };
        match Reason::of(status).and_then(|reason| Reason::ALL.iter().position(|it| *it == reason))
        {
            Some(reason) => Self(CODES.len() + reason),
            None => Self(status.code() as usize),
        }
    }

    fn as_str(self) -> &'static str {
        let reason = self.0.checked_sub(CODES.len()).and_then(|it| Reason::ALL.get(it));
        let code = CODES.get(self.0).copied();
        code.or_else(|| reason.map(|it| it.as_str())).unwrap_or(DROPPED)
    }
}

/// One method.
#[derive(Debug)]
struct Method {
    call: &'static Call,
    outcomes: [Counter; OUTCOMES],
    seconds: Histogram,
}

/// Calls so far, and those under way.
#[derive(Debug)]
pub struct CallMetrics {
    /// Ordered by path.
    methods: Vec<Method>,
    under_way: [Level; KINDS.len()],
}

impl CallMetrics {
    /// Of the calls that there are.
    pub fn new(calls: impl IntoIterator<Item = &'static Call>) -> Arc<Self> {
        let method = |call| Method {
            call,
            outcomes: std::array::from_fn(|_| Counter::default()),
            seconds: Histogram::new(&TIMES),
        };
        let mut methods: Vec<Method> = calls.into_iter().map(method).collect();
        methods.sort_by_key(|method| method.call.path);
        Arc::new(Self { methods, under_way: Default::default() })
    }

    /// A call begins. It counts when the result is dropped.
    pub fn begin(self: &Arc<Self>, call: &'static Call) -> Option<CallTimer> {
        let method = self.methods.binary_search_by_key(&call.path, |method| method.call.path);
        let method = method.ok()?;
        self.under_way[kind_index(call.kind)].enter();
        Some(CallTimer {
            metrics: Arc::clone(self),
            method,
            began: Instant::now(),
            outcome: Outcome::DROPPED,
        })
    }

    fn end(&self, method: usize, outcome: Outcome, took: Duration) {
        let Method { call, outcomes, seconds } = &self.methods[method];
        self.under_way[kind_index(call.kind)].leave(1);
        outcomes[outcome.0].add(1);
        // Waits and streams take as long as nothing happens.
        if has_time(call) && outcome != Outcome::DROPPED {
            seconds.observe(micros(took));
        }
    }

    pub fn encode(&self, text: &mut Text<'_>) -> fmt::Result {
        let names = self.methods.iter().map(|method| (name(method.call), method));
        let rows = names.clone().flat_map(|(name, method)| {
            let counts = method.outcomes.iter().map(Counter::get).enumerate();
            counts.filter(|(_, count)| *count != 0).map(move |(outcome, count)| {
                ([("method", name), ("outcome", Outcome(outcome).as_str())], count)
            })
        });
        let help = "Calls that ended, and streams that were opened, by the reason of the refusal";
        text.counters("tasuki_calls", help, rows)?;
        let called = names.filter(|(_, method)| !method.seconds.is_empty());
        let rows = called.map(|(name, method)| (name, &method.seconds));
        let help = "Time from the call to its answer, without waits and streams";
        text.histograms("tasuki_call_seconds", help, "method", rows)?;
        let levels = self.under_way.iter().map(Level::get);
        let help = "Calls that are not answered yet, by kind";
        text.gauges("tasuki_calls_in_flight", help, "kind", KINDS.into_iter().zip(levels))
    }
}

const fn has_time(call: &Call) -> bool {
    match call.kind {
        CallKind::Command | CallKind::Query | CallKind::Page => true,
        CallKind::Wait | CallKind::Stream => false,
    }
}

/// `Swarm/ClaimTask` of `/tasuki.v1.Swarm/ClaimTask`.
fn name(call: &Call) -> &'static str {
    let path = call.path.trim_start_matches('/');
    path.strip_prefix("tasuki.v1.").unwrap_or(path)
}

/// A call under way.
#[derive(Debug)]
pub struct CallTimer {
    metrics: Arc<CallMetrics>,
    method: usize,
    began: Instant,
    outcome: Outcome,
}

impl CallTimer {
    /// It was answered, with `status` where it was refused. Says how that is called.
    pub fn answered(mut self, status: Option<&Status>) -> &'static str {
        self.outcome = Outcome::new(status);
        self.outcome.as_str()
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        self.metrics.end(self.method, self.outcome, self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::rpc::CALLS;

    use super::*;

    fn call(path: &str) -> &'static Call {
        CALLS.iter().find(|call| call.path == path).unwrap()
    }

    #[test]
    fn each_outcome_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            (0..OUTCOMES).map(|it| Outcome(it).as_str()).collect();
        assert_eq!(names.len(), OUTCOMES);
        assert_eq!(Outcome::new(None).as_str(), "ok");
        assert_eq!(Outcome::new(Some(&Status::unimplemented("x"))).as_str(), "grpc_unimplemented");
        for reason in Reason::ALL {
            assert_eq!(Outcome::new(Some(&reason.status("x"))).as_str(), reason.as_str());
        }
        assert_eq!(Outcome::DROPPED.as_str(), DROPPED);
    }

    #[test]
    fn a_call_counts_once_by_how_it_ended() {
        let metrics = CallMetrics::new(CALLS);
        let claim = call("/tasuki.v1.Swarm/ClaimTask");
        let begin = |call| metrics.begin(call).unwrap();
        assert_eq!(begin(claim).answered(None), "ok");
        assert_eq!(begin(claim).answered(Some(&Reason::Overloaded.status("x"))), "overloaded");
        drop(begin(claim));
        let open = begin(claim);
        begin(call("/tasuki.v1.Feed/Subscribe")).answered(None);
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(Collected(Arc::clone(&metrics))));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "tasuki_calls_total{method=\"Swarm/ClaimTask\",outcome=\"ok\"} 1",
            "tasuki_calls_total{method=\"Swarm/ClaimTask\",outcome=\"overloaded\"} 1",
            "tasuki_calls_total{method=\"Swarm/ClaimTask\",outcome=\"dropped\"} 1",
            "tasuki_calls_total{method=\"Feed/Subscribe\",outcome=\"ok\"} 1",
            "tasuki_call_seconds_count{method=\"Swarm/ClaimTask\"} 2",
            "tasuki_calls_in_flight{kind=\"command\"} 1",
            "tasuki_calls_in_flight{kind=\"stream\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
        assert!(!text.contains("tasuki_call_seconds_count{method=\"Feed"), "{text}");
        drop(open);
    }

    #[derive(Debug)]
    struct Collected(Arc<CallMetrics>);

    impl prometheus_client::collector::Collector for Collected {
        fn encode(&self, to: prometheus_client::encoding::DescriptorEncoder<'_>) -> fmt::Result {
            self.0.encode(&mut Text::new(to))
        }
    }
}
