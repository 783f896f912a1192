//! W3C trace context: which call of an agent a call of ours belongs to, from its client over the
//! node to the broker.
//!
//! What comes from outside is taken as it is where it is well formed, and is not there otherwise:
//! nothing is refused because of it, and nothing is decided by it.

#[cfg(feature = "otlp")]
pub mod otlp;

use std::fmt;

use http::HeaderMap;
use tracing::Span;

/// The header, the key of a request's `_meta` and the gRPC metadata that say so.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// What of vendors' own state is passed on, in bytes: what the standard asks of everybody. Longer
/// state is left out, which the standard allows too.
const STATE_BYTES_MAX: usize = 512;

/// Version, trace, span and flags with the dashes between them, in bytes.
const PARENT_BYTES: usize = 55;

/// The flag that says that somebody records the trace.
const SAMPLED: u8 = 1;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// A place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    /// The span that calls.
    span: u64,
    flags: u8,
    state: Option<String>,
}

impl TraceContext {
    /// A trace that begins here, of random bytes.
    fn begin(random: [u8; 24]) -> Self {
        let (trace, span) = random.split_at(16);
        let trace = trace.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
        let span = span.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        // Zero is no id; one chance in 2^64 is not worth a second try.
        Self { trace: trace.max(1), span: span.max(1), flags: SAMPLED, state: None }
    }

    /// What `traceparent` says, with the `tracestate` beside it; `None`: it is not well formed.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let is_hex = |part: &str| part.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        let (known, rest) = parent.split_at_checked(PARENT_BYTES)?;
        let parts: Vec<&str> = known.split('-').collect();
        let &[version, trace, span, flags] = parts.as_slice() else { return None };
        let lengths = [version.len(), trace.len(), span.len(), flags.len()];
        let is_formed = lengths == [2, 32, 16, 2] && parts.iter().all(|part| is_hex(part));
        // Later versions may add to it, behind another dash.
        let is_whole = rest.is_empty() || (version != "00" && rest.starts_with('-'));
        if !is_formed || !is_whole || version == "ff" {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|it| *it != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|it| *it != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let state = state.filter(|it| (1..=STATE_BYTES_MAX).contains(&it.len()));
        let state = state.filter(|it| it.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        Some(Self { trace, span, flags, state: state.map(str::to_owned) })
    }

    /// What the headers of a request say, or a call's metadata; `None`: nothing that is well
    /// formed.
    pub fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = parents.next()?.to_str().ok()?;
        if parents.next().is_some() {
            return None;
        }
        let states = headers.get_all(TRACESTATE).iter().map(|state| state.to_str().ok());
        let state = states.collect::<Option<Vec<_>>>().map(|states| states.join(","));
        Self::parse(parent, state.as_deref())
    }

    /// What is called within `span`, which goes on with the trace of `caller` or begins one. The
    /// bytes are random.
    #[must_use]
    pub fn within(span: &Span, caller: Option<Self>, random: [u8; 24]) -> Self {
        if let Some(caller) = &caller {
            caller.link(span);
        }
        #[cfg(feature = "otlp")]
        if let Some(exported) = otlp::context(span, caller.as_ref().and_then(|it| it.state.clone()))
        {
            return exported;
        }
        let begun = Self::begin(random);
        match caller {
            Some(caller) => Self { span: begun.span, ..caller },
            None => begun,
        }
    }

    /// Has `span` go on with the trace, for whoever exports spans.
    pub fn link(&self, span: &Span) {
        #[cfg(feature = "otlp")]
        otlp::link(span, self);
        #[cfg(not(feature = "otlp"))]
        let _ = span;
    }

    /// The trace in 32 digits, as logs have it.
    pub fn trace_id(&self) -> impl fmt::Display {
        let trace = self.trace;
        fmt::from_fn(move |f| write!(f, "{trace:032x}"))
    }

    /// As `traceparent` has it.
    pub fn parent(&self) -> String {
        let Self { trace, span, flags, .. } = self;
        format!("00-{trace:032x}-{span:016x}-{flags:02x}")
    }

    /// As `tracestate` has it.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Runs `work` with this as what [`current`] answers.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, work)
    }
}

/// What this task works for; `None`: for no call that somebody made.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_well_formed_is_taken_and_nothing_else() {
        let taken = TraceContext::parse(PARENT, Some("a=1,b=2")).unwrap();
        assert_eq!((taken.parent().as_str(), taken.state()), (PARENT, Some("a=1,b=2")));
        assert_eq!(taken.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        let later = PARENT.replacen("00", "cc", 1);
        for later in [later.clone(), format!("{later}-what.is.new")] {
            assert_eq!(TraceContext::parse(&later, None).unwrap().parent(), PARENT, "{later}");
        }
        let none = |id: &str| PARENT.replace(id, &"0".repeat(id.len()));
        for wrong in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &format!("{PARENT}-more"),
            &format!("{later}more"),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.replace('-', "_"),
            &none("0af7651916cd43dd8448eb211c80319c"),
            &none("b7ad6b7169203331"),
            &PARENT.replacen('b', "g", 1),
            &PARENT.replacen("0a", "é", 1),
            &"-".repeat(PARENT_BYTES),
        ] {
            assert_eq!(TraceContext::parse(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn state_is_passed_on_within_its_limit() {
        let state = |text: &str| TraceContext::parse(PARENT, Some(text)).unwrap().state;
        let longest = "x".repeat(STATE_BYTES_MAX);
        assert_eq!(state(&longest).as_deref(), Some(longest.as_str()));
        for left_out in ["", "a=1\nb=2", "a=é", &format!("{longest}x")] {
            assert_eq!(state(left_out), None, "{left_out}");
        }
    }

    #[test]
    fn a_request_has_one_parent_and_may_have_several_states() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceContext::of_headers(&headers), None);
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        headers.append(TRACESTATE, "a=1".parse().unwrap());
        headers.append(TRACESTATE, "b=2".parse().unwrap());
        let taken = TraceContext::of_headers(&headers).unwrap();
        assert_eq!((taken.parent().as_str(), taken.state()), (PARENT, Some("a=1,b=2")));
        let child = TraceContext::within(&Span::none(), Some(taken.clone()), [7; 24]);
        assert_eq!(child.parent(), "00-0af7651916cd43dd8448eb211c80319c-0707070707070707-01");
        assert_eq!(child.state(), taken.state());
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        assert_eq!(TraceContext::of_headers(&headers), None);
    }

    #[tokio::test]
    async fn work_knows_what_it_belongs_to() {
        assert_eq!(current(), None);
        let trace = TraceContext::within(&Span::none(), None, [7; 24]);
        assert_eq!(trace.parent(), "00-07070707070707070707070707070707-0707070707070707-01");
        assert_eq!(trace.clone().scope(async { current() }).await, Some(trace));
    }
}
