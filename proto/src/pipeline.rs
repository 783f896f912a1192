//! What broker and node agree on about pipelines: which phases there are, and what follows what.
//!
//! A [`Definition`] is whole: every phase that it names is there and can be reached, and no gate is
//! passed by the role whose work it is about. The broker keeps it as it is; a node that reads a
//! pipeline's file checks it the same way.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    id::{PhaseName, RoleId},
    limits::{
        APPROVAL_MS_MAX, PHASE_ERROR_BYTES_MAX, PHASE_SPEC_BYTES_MAX, PHASE_TIMEOUT_MS,
        PHASE_TIMEOUT_MS_MAX, PIPELINE_PHASES_MAX, PIPELINE_RETRIES_MAX, PIPELINE_SPECS_BYTES_MAX,
    },
    nearest::did_you_mean,
    visible::is_visible,
    wire,
};

/// In the place of a phase's name: there is none after it.
pub const END: &str = "end";

/// In the place of a phase's name: the pipeline fails.
pub const FAIL: &str = "fail";

/// The place of a phase in its pipeline, from 0.
pub type PhaseIndex = u16;

/// The phases of a pipeline. The first is done first.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Definition {
    /// How often a phase that failed or was rejected may lead back.
    #[n(0)]
    pub max_retries: u32,
    #[n(1)]
    pub phases: Vec<Phase>,
}

/// What one role does in one go.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Phase {
    #[n(0)]
    pub name: PhaseName,
    #[n(1)]
    pub role: RoleId,
    /// What the role's node is to do, as nodes agreed on.
    #[n(2)]
    pub spec: String,
    /// `None`: the pipeline is completed.
    #[n(3)]
    pub next: Option<PhaseIndex>,
    /// Where a failure or a rejection leads; `None`: the pipeline fails.
    #[n(4)]
    pub on_failure: Option<PhaseIndex>,
    /// A gate, and the phase whose work it is about.
    #[n(5)]
    pub approves: Option<PhaseIndex>,
    /// How long a person has to approve what it did; `None`: nobody has to.
    #[n(6)]
    pub approval_ms: Option<u64>,
    /// How long one attempt may take.
    #[n(7)]
    pub timeout_ms: u64,
}

impl Phase {
    /// Whether its node may have to run an agent for it: what is no object with a service is taken
    /// for one that does, however a node reads it.
    pub fn may_run_agent(&self) -> bool {
        match serde_json::from_str(&self.spec) {
            Ok(Value::Object(spec)) => spec.get("agent").is_some_and(|it| !it.is_null()),
            Ok(_) | Err(_) => true,
        }
    }
}

/// What is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct InvalidDefinition {
    /// The phase that it is about, by its place.
    pub phase: Option<usize>,
    /// The field, as files and the API call it.
    pub field: &'static str,
    /// The end of a sentence about the field.
    pub why: String,
}

impl Definition {
    /// Reads what a call or a file says.
    ///
    /// # Errors
    /// What is wrong, the first of each phase and field first.
    pub fn read(it: &wire::PipelineDefinition) -> Result<Self, Vec<InvalidDefinition>> {
        let mut problems = Problems::default();
        if PIPELINE_RETRIES_MAX < it.max_retries {
            let why = format!("is {}; the limit is {PIPELINE_RETRIES_MAX}", it.max_retries);
            problems.add(None, "max_retries", why);
        }
        if it.phases.is_empty() || PIPELINE_PHASES_MAX < it.phases.len() {
            let why =
                format!("has {} phases; 1 to {PIPELINE_PHASES_MAX} are possible", it.phases.len());
            problems.add(None, "phase", why);
            return Err(problems.0);
        }
        let bytes: usize = it.phases.iter().map(|phase| phase.spec.len()).sum();
        if PIPELINE_SPECS_BYTES_MAX < bytes {
            let why =
                format!("say {bytes} bytes together; the limit is {PIPELINE_SPECS_BYTES_MAX}");
            problems.add(None, "phases", why);
        }
        let names: Vec<&str> = it.phases.iter().map(|phase| phase.name.as_str()).collect();
        let phases = (0..)
            .zip(&it.phases)
            .map(|(index, phase)| read_phase(index, phase, &names, &mut problems));
        let phases: Vec<Option<Phase>> = phases.collect();
        let phases: Option<Vec<Phase>> = phases.into_iter().collect();
        let Some(phases) = phases.filter(|_| problems.0.is_empty()) else {
            return Err(problems.0);
        };
        check_gates(&phases, &mut problems);
        check_reachable(&phases, &mut problems);
        check_ends(&phases, &mut problems);
        match problems.0.is_empty() {
            true => Ok(Self { max_retries: it.max_retries, phases }),
            false => Err(problems.0),
        }
    }

    /// The phase at a place that this definition names.
    pub fn phase(&self, index: PhaseIndex) -> &Phase {
        &self.phases[usize::from(index)]
    }

    /// As the API has it.
    pub fn write(&self, schema: &str) -> wire::PipelineDefinition {
        let name = |index: PhaseIndex| self.phase(index).name.to_string();
        let phases = self.phases.iter().map(|it| wire::PipelinePhase {
            name: it.name.to_string(),
            role: it.role.to_string(),
            spec: it.spec.clone(),
            next: it.next.map_or_else(|| END.to_owned(), name),
            on_failure: it.on_failure.map_or_else(|| FAIL.to_owned(), name),
            approves: it.approves.map(name).unwrap_or_default(),
            approval_ms: it.approval_ms.unwrap_or_default(),
            timeout_ms: it.timeout_ms,
        });
        wire::PipelineDefinition {
            schema: schema.to_owned(),
            max_retries: self.max_retries,
            phases: phases.collect(),
        }
    }
}

#[derive(Default)]
struct Problems(Vec<InvalidDefinition>);

impl Problems {
    fn add(&mut self, phase: Option<usize>, field: &'static str, why: String) {
        self.0.push(InvalidDefinition { phase, field, why });
    }
}

fn read_phase(
    index: usize,
    it: &wire::PipelinePhase,
    names: &[&str],
    problems: &mut Problems,
) -> Option<Phase> {
    let at = Some(index);
    let before = problems.0.len();
    let name: Option<PhaseName> = match it.name.parse() {
        _ if [END, FAIL].contains(&it.name.as_str()) => {
            problems.add(at, "name", format!("is {}, which has a meaning of its own", it.name));
            None
        }
        _ if names[..index].contains(&it.name.as_str()) => {
            problems.add(at, "name", format!("is {} of two phases", it.name));
            None
        }
        Ok(name) => Some(name),
        Err(why) => {
            problems.add(at, "name", format!("{why}"));
            None
        }
    };
    let role: Option<RoleId> = match it.role.parse() {
        Ok(role) => Some(role),
        Err(why) => {
            problems.add(at, "role", format!("{why}"));
            None
        }
    };
    if PHASE_SPEC_BYTES_MAX < it.spec.len() {
        let why = format!("is {} bytes long; the limit is {PHASE_SPEC_BYTES_MAX}", it.spec.len());
        problems.add(at, "spec", why);
    }
    let mut find = |field: &'static str, name: &str, none: Option<&str>| -> Option<PhaseIndex> {
        let found = names.iter().position(|it| *it == name);
        if found.is_none() {
            let known = names.iter().copied().chain(none);
            let near = did_you_mean(name, known.clone());
            let known = known.collect::<Vec<_>>().join(", ");
            problems.add(
                at,
                field,
                format!("is {name:?}, which is no phase; there are {known}{near}"),
            );
        }
        found.and_then(|it| it.try_into().ok())
    };
    let next = match it.next.as_str() {
        "" if index + 1 < names.len() => (index + 1).try_into().ok(),
        "" | END => None,
        name => find("next", name, Some(END)),
    };
    let on_failure = match it.on_failure.as_str() {
        "" => index.try_into().ok(),
        FAIL => None,
        name => find("on_failure", name, Some(FAIL)),
    };
    let approves = match it.approves.as_str() {
        "" => None,
        name => find("approves", name, None),
    };
    if APPROVAL_MS_MAX < it.approval_ms {
        let why = format!("is {} ms; the limit is {APPROVAL_MS_MAX} ms, 30 days", it.approval_ms);
        problems.add(at, "approval", why);
    }
    if PHASE_TIMEOUT_MS_MAX < it.timeout_ms {
        let why =
            format!("is {} ms; the limit is {PHASE_TIMEOUT_MS_MAX} ms, 24 hours", it.timeout_ms);
        problems.add(at, "timeout", why);
    }
    if before < problems.0.len() {
        return None;
    }
    Some(Phase {
        name: name?,
        role: role?,
        spec: it.spec.clone(),
        next,
        on_failure,
        approves,
        approval_ms: (it.approval_ms != 0).then_some(it.approval_ms),
        timeout_ms: if it.timeout_ms == 0 { PHASE_TIMEOUT_MS } else { it.timeout_ms },
    })
}

fn check_gates(phases: &[Phase], problems: &mut Problems) {
    for (index, phase) in phases.iter().enumerate() {
        let Some(author) = phase.approves.map(|it| &phases[usize::from(it)]) else { continue };
        if author.role == phase.role {
            let why = format!(
                "is {}, which {} does, too; what a role did is approved by another role",
                author.name, author.role
            );
            problems.add(Some(index), "approves", why);
        }
    }
}

fn check_reachable(phases: &[Phase], problems: &mut Problems) {
    let (mut reached, mut open) = (BTreeSet::new(), vec![0]);
    while let Some(index) = open.pop() {
        if reached.insert(index) {
            let phase = &phases[index];
            open.extend(phase.next.into_iter().chain(phase.on_failure).map(usize::from));
        }
    }
    for (index, phase) in phases.iter().enumerate() {
        if !reached.contains(&index) {
            let why = format!("is {}, which no other phase leads to", phase.name);
            problems.add(Some(index), "name", why);
        }
    }
}

/// Whether phases that all pass come to an end. Of each ring the last phase in the file is named.
fn check_ends(phases: &[Phase], problems: &mut Problems) {
    let mut named = BTreeSet::new();
    for start in 0..phases.len() {
        let (mut passed, mut at) = (Vec::new(), Some(start));
        while let Some(index) = at.filter(|it| !passed.contains(it)) {
            passed.push(index);
            at = phases[index].next.map(usize::from);
        }
        let ring = at.and_then(|again| passed.iter().position(|it| *it == again));
        named.extend(ring.and_then(|from| passed[from..].iter().max().copied()));
    }
    for index in named {
        let next = phases[index].next.map(|it| &phases[usize::from(it)].name);
        let next = next.map_or(END, PhaseName::as_str);
        let why = format!("is {next}, so that `{END}` is never reached");
        problems.add(Some(index), "next", why);
    }
}

/// Why a phase failed, as the broker takes it: of at most [`PHASE_ERROR_BYTES_MAX`] bytes, and with
/// nothing that steers a terminal.
pub fn error_text(text: &str) -> String {
    let is_shown = |it: &char| matches!(it, '\n' | '\t') || is_visible(*it);
    let shown: String = text.chars().filter(is_shown).collect();
    let cut = shown.floor_char_boundary(PHASE_ERROR_BYTES_MAX);
    let text = shown[..cut].trim();
    if text.is_empty() { "it failed and did not say why".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, role: &str) -> wire::PipelinePhase {
        wire::PipelinePhase { name: name.to_owned(), role: role.to_owned(), ..Default::default() }
    }

    fn usual() -> wire::PipelineDefinition {
        let mut review = phase("review", "arch");
        review.approves = "code".to_owned();
        review.on_failure = "code".to_owned();
        let mut test = phase("test", "qa");
        test.on_failure = "code".to_owned();
        let phases = vec![phase("plan", "pm"), phase("code", "dev"), test, review];
        wire::PipelineDefinition { schema: String::new(), max_retries: 3, phases }
    }

    #[test]
    fn phases_follow_one_another_unless_said_otherwise() {
        let read = Definition::read(&usual()).unwrap();
        let next: Vec<_> = read.phases.iter().map(|it| it.next).collect();
        assert_eq!(next, [Some(1), Some(2), Some(3), None]);
        let back: Vec<_> = read.phases.iter().map(|it| it.on_failure).collect();
        assert_eq!(back, [Some(0), Some(1), Some(1), Some(1)]);
        assert_eq!(read.phase(3).approves, Some(1));
        assert_eq!(read.phase(0).timeout_ms, PHASE_TIMEOUT_MS);
        // What was read is read again as the same.
        assert_eq!(Definition::read(&read.write("")).unwrap(), read);
    }

    #[test]
    fn only_what_plainly_calls_a_service_runs_no_agent() {
        for (spec, expected) in [
            (r#"{"service":"s"}"#, false),
            (r#"{"service":"s","agent":null}"#, false),
            (r#"{"agent":"a","prompt":"p"}"#, true),
            (r#"{"agent":0}"#, true),
            // Fields by their places.
            (r#"[null,null,"a","p",null,null,null,"x"]"#, true),
            ("", true),
            ("{", true),
        ] {
            let mut it = usual();
            it.phases[0].spec = spec.to_owned();
            let phase = &Definition::read(&it).unwrap().phases[0];
            assert_eq!(phase.may_run_agent(), expected, "{spec}");
        }
    }

    #[test]
    fn what_cannot_work_is_said() {
        type Change = fn(&mut wire::PipelineDefinition);
        let all: [(Change, &str); 14] = [
            (|it| it.phases.clear(), "phase has 0 phases; 1 to 32 are possible"),
            (|it| it.max_retries = 101, "max_retries is 101; the limit is 100"),
            (
                |it| {
                    it.phases = (0..5).map(|index| phase(&format!("p{index}"), "pm")).collect();
                    it.phases.iter_mut().for_each(|it| it.spec = "x".repeat(32 * 1024));
                },
                "phases say 163840 bytes together; the limit is 131072",
            ),
            (|it| it.phases[1].name = "plan".to_owned(), "name is plan of two phases"),
            (
                |it| it.phases[1].name = "end".to_owned(),
                "name is end, which has a meaning of its own",
            ),
            (|it| it.phases[0].role = "a b".to_owned(), "role contains ' '; an id is made of"),
            (
                |it| it.phases[2].on_failure = "cod".to_owned(),
                "on_failure is \"cod\", which is no phase",
            ),
            (|it| it.phases[0].next = "fail".to_owned(), "next is \"fail\", which is no phase"),
            (|it| it.phases[3].role = "dev".to_owned(), "approves is code, which dev does, too"),
            (|it| it.phases[0].next = "test".to_owned(), ""),
            (
                |it| it.phases[1].next = "end".to_owned(),
                "name is test, which no other phase leads to",
            ),
            (
                |it| it.phases[3].next = "code".to_owned(),
                "next is code, so that `end` is never reached",
            ),
            (
                |it| {
                    it.phases[1].next = "code".to_owned();
                    it.phases[1].on_failure = "test".to_owned();
                },
                "next is code, so that `end` is never reached",
            ),
            (|it| it.phases[0].approval_ms = u64::MAX, "approval is 18446744073709551615 ms"),
        ];
        for (change, wanted) in all {
            let mut it = usual();
            change(&mut it);
            let said: Vec<String> = match Definition::read(&it) {
                Ok(_) => Vec::new(),
                Err(all) => all.iter().map(|it| format!("{} {}", it.field, it.why)).collect(),
            };
            let first = said.first().map(String::as_str).unwrap_or_default();
            assert!(first.starts_with(wanted) && first.is_empty() == wanted.is_empty(), "{said:?}");
        }
    }
}
