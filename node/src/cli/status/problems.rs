//! What is wrong: what only this machine knows first. Pure.

use tasuki_broker::overview::problems::{self, Problem};
use tonic_health::pb::health_check_response::ServingStatus;

use super::{super::text::line, gather::Gathered};

pub(super) fn problems(it: &Gathered) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut add = |what: String, mend: &str| {
        found.push(Problem { what, mend: mend.to_owned(), ..Problem::default() })
    };
    if it.health == ServingStatus::NotServing {
        add(
            "The broker wrote nothing durably for some time.".to_owned(),
            "Look at its log and at its disk: is that full, or read-only?",
        );
    }
    if let Some(why) = &it.unlinked {
        let what = format!("The node here does not reach the broker: {}", line(why));
        add(what, "Its agents are told so until it does; it keeps trying.");
    }
    let others = problems::problems(&it.overview).into_iter();
    found.extend(others.map(|it| Problem { what: line(&it.what), mend: line(&it.mend), ..it }));
    found
}
