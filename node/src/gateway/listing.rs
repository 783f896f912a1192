//! What a server offers: read page by page, and judged before it is shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rmcp::{
    model::{PaginatedRequestParams, Prompt, Resource, ResourceTemplate, Tool},
    service::ServiceError,
};
use serde::Serialize;
use tasuki_proto::visible;
use tokio::time::timeout;

use super::{
    clean, names,
    pins::{Pins, Verdict, digest},
};
use crate::json_size::json_size;

/// For each list of a server.
pub const LIST_MAX: Duration = Duration::from_secs(3);

/// Tools of one server; as many prompts, resources and templates.
pub(super) const ITEMS_PER_SERVER_MAX: usize = 1_000;

/// Pages of one list.
const PAGES_MAX: usize = 50;

/// One list, in bytes of JSON: what is more is left out.
const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a server offers, as it may be shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    pub tools: Vec<Tool>,
    pub prompts: Vec<Prompt>,
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    /// Tools that changed since they were approved.
    pub held: BTreeMap<String, Held>,
    /// Tools that are not shown, and why.
    pub refused: BTreeMap<String, String>,
}

/// A tool whose change waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// As its server lists it now.
    pub said: Tool,
    /// As it would be shown.
    pub shown: Tool,
    /// As it was approved.
    pub approved: Tool,
}

impl Held {
    /// Names this very change: whoever looked at it can say so.
    pub fn digest(&self) -> String {
        digest(&self.said)
    }

    /// Characters of what the server lists that are not shown.
    pub fn hidden(&self) -> usize {
        let texts = serde_json::to_string(&self.said).unwrap_or_default();
        visible::shown(&texts).1
    }
}

/// What of a server's tools may be shown, each under the name that `expose` makes of its own.
/// Blocks on the disk.
pub(super) fn judge(expose: impl Fn(&str) -> String, tools: Vec<Tool>, pins: &mut Pins) -> Offer {
    let mut offer = Offer::default();
    let mut names = BTreeSet::new();
    let mut fresh = Vec::new();
    // Names that stand as they are: no other tool is shown under one of them.
    let plain: BTreeSet<String> = tools
        .iter()
        .map(|it| (expose(&it.name), &it.name))
        .filter(|(exposed, own)| names::is_plain(exposed, own))
        .map(|(exposed, _)| exposed)
        .collect();
    let mut shown_as = BTreeSet::new();
    for said in tools {
        let name = said.name.to_string();
        let refuse = |offer: &mut Offer, why: String| {
            drop(offer.refused.insert(clean::text(&name, 256), why))
        };
        if !names.insert(name.clone()) {
            refuse(&mut offer, "the server lists two tools of this name".to_owned());
            offer.tools.retain(|it| it.name != said.name);
            offer.held.remove(&name);
            continue;
        }
        let exposed = expose(&name);
        let is_taken = plain.contains(&exposed) && !names::is_plain(&exposed, &name);
        if is_taken || !shown_as.insert(exposed) {
            refuse(&mut offer, "it would be shown under the name of another tool".to_owned());
            continue;
        }
        let shown = match clean::clean(&said) {
            Ok(shown) => shown,
            Err(why) => {
                refuse(&mut offer, why);
                continue;
            }
        };
        match pins.judge(&said, &shown) {
            Verdict::Approved => offer.tools.push(shown),
            Verdict::New => {
                fresh.push(name);
                offer.tools.push(shown);
            }
            Verdict::Changed(approved) => {
                offer.held.insert(name, Held { said, shown, approved: *approved });
            }
            Verdict::TooMany => refuse(
                &mut offer,
                "there is no room to remember it: the server has listed too many tools".to_owned(),
            ),
        }
    }
    if let Err(why) = pins.write() {
        tracing::warn!(%why, "new tools cannot be remembered, and are not offered");
        // What is not remembered would be new again after a restart, whatever it says by then.
        pins.forget(&fresh);
        offer.tools.retain(|it| !fresh.iter().any(|name| *name == it.name));
        let why = format!("it cannot be remembered: {why}");
        offer.refused.extend(fresh.into_iter().map(|it| (clean::text(&it, 256), why.clone())));
    }
    offer
}

/// All pages of a list; nothing where there is none.
pub(super) async fn pages<T, F>(
    what: &str,
    has: bool,
    mut page: impl FnMut(Option<PaginatedRequestParams>) -> F,
) -> Result<Vec<T>, String>
where
    T: Serialize,
    F: Future<Output = Result<(Vec<T>, Option<String>), ServiceError>>,
{
    if !has {
        return Ok(Vec::new());
    }
    let all = async {
        let (mut all, mut cursor) = (Vec::new(), None);
        let mut room = LIST_BYTES_MAX;
        for _ in 0..PAGES_MAX {
            let params = cursor.map(|it| PaginatedRequestParams::default().with_cursor(Some(it)));
            let (mut items, next): (Vec<T>, _) =
                page(params).await.map_err(|why| format!("its {what} cannot be listed: {why}"))?;
            items.truncate(ITEMS_PER_SERVER_MAX - all.len());
            for item in items {
                let bytes = json_size(&item).unwrap_or(usize::MAX);
                let Some(left) = room.checked_sub(bytes) else {
                    tracing::warn!("a server lists more {what} than are taken");
                    return Ok(all);
                };
                room = left;
                all.push(item);
            }
            cursor = next.filter(|it| !it.is_empty());
            if ITEMS_PER_SERVER_MAX <= all.len() {
                tracing::warn!(
                    "a server lists more {what} than the {ITEMS_PER_SERVER_MAX} that are taken"
                );
                break;
            }
            if cursor.is_none() {
                break;
            }
        }
        Ok(all)
    };
    let late = |_| Err(format!("it did not list its {what} within {} s", LIST_MAX.as_secs()));
    timeout(LIST_MAX, all).await.unwrap_or_else(late)
}
