//! `tasuki runs runners`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::wire;

use super::{Failure, Output, client};
use crate::{
    cli::{
        broker::Broker,
        text::{column, line},
    },
    config::Config,
};

/// Show which nodes run agents, with which runners.
///
/// A node that is not listed takes no steps: it is not connected, or was not told to. PLACES are
/// steps that it takes in at present, FOR whose they may be. With --json each node is one line.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(_: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let offers = client::offers(&Broker::new(config)).await?;
    if offers.is_empty() {
        return output.guide(|| {
            "No connected node runs agents. `tasuki up` does, and `tasuki node` with [runs] in its \
             configuration.\n"
                .to_owned()
        });
    }
    output.guide(head)?;
    offers.iter().try_for_each(|offer| output.answer(|| json!(offer), || row(offer)))
}

fn head() -> String {
    let head = format!("{:<24} {:<40} {:>6} {:<8} LABELS", "NODE", "RUNNERS", "PLACES", "FOR");
    format!("{}\n", head.dimmed())
}

fn row(offer: &wire::RunnerOffer) -> String {
    let whose = if offer.accepts_elsewhere { "all" } else { "itself" };
    let listed = |names: &[String]| match names {
        [] => "-".to_owned(),
        names => line(&names.join(", ")),
    };
    format!(
        "{} {} {:>6} {whose:<8} {}\n",
        column(&offer.node, 24).bold(),
        column(&listed(&offer.runners), 40),
        offer.places,
        listed(&offer.labels),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_line() {
        let offer = wire::RunnerOffer {
            node: "desk-1".to_owned(),
            runners: vec!["claude".to_owned(), "pi".to_owned()],
            labels: Vec::new(),
            places: 4,
            accepts_elsewhere: false,
            stopping: Vec::new(),
        };
        let shown = anstream::adapter::strip_str(&row(&offer)).to_string();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&shown), "desk-1 claude, pi 4 itself -");
        let offer = wire::RunnerOffer {
            labels: vec!["gpu".to_owned()],
            runners: Vec::new(),
            accepts_elsewhere: true,
            ..offer
        };
        let shown = anstream::adapter::strip_str(&row(&offer)).to_string();
        assert_eq!(words(&shown), "desk-1 - 4 all gpu");
    }
}
