//! What one client wants to hear of, and how far it was told. Pure.

use std::collections::BTreeMap;

use tasuki_proto::id::RoleId;

use crate::{
    link::news::{Changes, Edition, ServerPart},
    mcp::resources::{ServerResource, Subject},
};

/// Loops and runs that one connection is told about: each is looked at whenever anything changes.
pub(in crate::mcp) const SUBSCRIPTIONS_MAX: usize = 64;

/// One notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    Updated(Subject),
}

/// There are [`SUBSCRIPTIONS_MAX`] already.
#[derive(Debug)]
pub(super) struct TooMany;

/// Each thing wanted, with the edition that was told.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) tools: Option<Edition>,
    pub(super) prompts: Option<Edition>,
    pub(super) resources: Option<Edition>,
    pub(super) subjects: BTreeMap<Subject, Edition>,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        let Self { tools, prompts, resources, subjects } = self;
        tools.is_none() && prompts.is_none() && resources.is_none() && subjects.is_empty()
    }

    /// One that is subscribed to already stays as it is.
    pub(super) fn subscribe(&mut self, subject: Subject, told: Edition) -> Result<(), TooMany> {
        if self.subjects.contains_key(&subject) {
            return Ok(());
        }
        if SUBSCRIPTIONS_MAX <= self.subjects.len() {
            return Err(TooMany);
        }
        self.subjects.insert(subject, told);
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, subject: &Subject) {
        self.subjects.remove(subject);
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.subjects.keys()
    }

    /// What was told may not have arrived.
    pub(super) fn doubt(&mut self) {
        let Self { tools, prompts, resources, subjects } = self;
        let lists = [tools, prompts, resources].into_iter().flatten();
        lists.chain(subjects.values_mut()).for_each(|told| *told = Edition::default());
    }

    /// What there is to tell a client that sees the loops of `roles`, or `server` alone; it counts as
    /// told.
    pub(super) fn due<'a>(
        &mut self,
        changes: &Changes,
        roles: impl Iterator<Item = &'a RoleId>,
        server: Option<&str>,
    ) -> Vec<Notice> {
        let newest = changes.newest();
        let loops = roles.map(|role| changes.of_list(role)).max().unwrap_or_default();
        // Tools that a person approves are among it.
        let all = changes.of_tools();
        let latest = |part, own: Edition| match server {
            Some(server) => all.max(changes.of_server(server, part)),
            None => own,
        };
        let resources = latest(ServerPart::Resources, all.max(loops));
        let lists = [
            (&mut self.tools, latest(ServerPart::Tools, all), Notice::ToolsChanged),
            (&mut self.prompts, latest(ServerPart::Prompts, all), Notice::PromptsChanged),
            (&mut self.resources, resources, Notice::ResourcesChanged),
        ];
        let mut due = Vec::new();
        for (told, changed, notice) in lists {
            if let Some(told) = told.as_mut().filter(|told| **told < changed) {
                *told = newest;
                due.push(notice);
            }
        }
        for (subject, told) in &mut self.subjects {
            let changed = match subject {
                Subject::Loop(loop_id) => changes.of_loop(loop_id),
                Subject::Run(run) => changes.of_run(*run),
                Subject::Server(ServerResource { server, own, .. }) => {
                    changes.of_server(server, ServerPart::Resource(own.clone()))
                }
            };
            if *told < changed {
                *told = newest;
                due.push(Notice::Updated(subject.clone()));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasuki_proto::wire::{self, event::Noun, turn_event::Kind};

    fn id<T: std::str::FromStr<Err = tasuki_proto::id::InvalidId>>(name: &str) -> T {
        name.parse().expect("an id")
    }

    fn main() -> Subject {
        Subject::Loop(id("main"))
    }

    fn opened(name: &str) -> wire::FeedItem {
        let opened =
            wire::LoopOpened { r#loop: name.to_owned(), participants: vec!["A".to_owned()] };
        let noun = Noun::Turn(wire::TurnEvent { kind: Some(Kind::LoopOpened(opened)) });
        wire::FeedItem { events: vec![wire::Event { noun: Some(noun) }], ..Default::default() }
    }

    #[test]
    fn each_change_is_told_once_and_a_burst_is_one() {
        let (mut changes, a, b) = (Changes::default(), id::<RoleId>("A"), id::<RoleId>("B"));
        let mut wanted = Wanted::default();
        assert!(wanted.is_empty());
        wanted.resources = Some(changes.newest());
        wanted.subscribe(main(), changes.newest()).unwrap();
        assert!(wanted.due(&changes, [&a].into_iter(), None).is_empty());
        changes.take(&opened("main"));
        changes.take(&opened("main"));
        changes.take(&opened("side"));
        assert_eq!(wanted.due(&changes, [&b].into_iter(), None), [Notice::Updated(main())]);
        assert_eq!(wanted.due(&changes, [&b, &a].into_iter(), None), [Notice::ResourcesChanged]);
        assert!(wanted.due(&changes, [&b, &a].into_iter(), None).is_empty());
        wanted.doubt();
        let all = [Notice::ResourcesChanged, Notice::Updated(main())];
        assert_eq!(wanted.due(&changes, [&a].into_iter(), None), all);
        wanted.unsubscribe(&main());
        changes.miss();
        assert_eq!(wanted.due(&changes, [&a].into_iter(), None), [Notice::ResourcesChanged]);
    }

    #[test]
    fn lists_that_changed_with_a_restart_are_told_to_whoever_outlived_it() {
        let changes = Changes::default();
        let before = Edition::default();
        let mut wanted = Wanted { tools: Some(before), prompts: Some(before), ..Wanted::default() };
        let all = [Notice::ToolsChanged, Notice::PromptsChanged];
        assert_eq!(wanted.due(&changes, std::iter::empty(), None), all);
        assert!(wanted.due(&changes, std::iter::empty(), None).is_empty());
    }

    #[test]
    fn subscriptions_are_bounded() {
        let mut wanted = Wanted::default();
        let subject = |name: &str| Subject::Loop(id(name));
        let told = Edition::default();
        for number in 0..SUBSCRIPTIONS_MAX {
            wanted.subscribe(subject(&format!("l{number}")), told).unwrap();
        }
        wanted.subscribe(subject("l0"), told).unwrap();
        wanted.subscribe(subject("more"), told).unwrap_err();
        wanted.unsubscribe(&subject("l0"));
        wanted.subscribe(subject("more"), told).unwrap();
        assert_eq!(wanted.subjects().count(), SUBSCRIPTIONS_MAX);
    }
}
