//! The lanes as a picture. Pure.
//!
//! **WD4** However much happened, a picture has at most [`MARKS_MAX`] marks and [`BARS_MAX`] bars.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::event::{Bar, Kind, Timeline};
use super::plain;

const MARKS_MAX: usize = 400;
const BARS_MAX: usize = 200;

/// Lanes that are drawn: those of the busiest roles.
const LANES_MAX: usize = 24;

/// Of the picture, in its own units.
const WIDTH: u64 = 1200;
const LABEL: u64 = 110;
const LANE: u64 = 34;
const TOP: u64 = 22;

const TICKS_MAX: u64 = 7;

/// The narrowest that marks are gathered to.
const STEP_MIN: u64 = 6;

/// Marks of a lane and kind that lie close together.
#[derive(Debug, PartialEq, Eq)]
struct Cluster {
    x: u64,
    lane: usize,
    kind: Kind,
    count: usize,
    text: String,
    /// The newest record of it.
    sequence: u64,
}

#[derive(Debug, Clone, Copy)]
struct Scale {
    from: u64,
    length: u64,
}

impl Scale {
    fn new(from: u64, until: u64) -> Self {
        Self { from, length: until.saturating_sub(from).max(1) }
    }

    fn x(self, at: u64) -> u64 {
        let at = at.clamp(self.from, self.from + self.length) - self.from;
        let x = u128::from(at) * u128::from(WIDTH - LABEL - 10) / u128::from(self.length);
        LABEL + u64::try_from(x).unwrap_or(WIDTH)
    }
}

/// The busiest roles, by name.
fn drawn(shown: &Timeline) -> Vec<&str> {
    let mut counts: BTreeMap<&str, usize> = shown.lanes.iter().map(|it| (it.as_str(), 0)).collect();
    for mark in &shown.marks {
        for role in mark.roles() {
            if let Some(count) = counts.get_mut(role) {
                *count += 1;
            }
        }
    }
    let mut busiest: Vec<(&str, usize)> = counts.into_iter().collect();
    busiest.sort_by_key(|it| std::cmp::Reverse(it.1));
    busiest.truncate(LANES_MAX);
    let names: BTreeSet<&str> = busiest.into_iter().map(|it| it.0).collect();
    names.into_iter().collect()
}

fn clusters(shown: &Timeline, lanes: &[&str], scale: Scale) -> Vec<Cluster> {
    let mut step = STEP_MIN;
    loop {
        let mut found: BTreeMap<(usize, Kind, u64), Cluster> = BTreeMap::new();
        for mark in &shown.marks {
            let Some(lane) = lanes.iter().position(|it| *it == mark.lane) else { continue };
            let x = scale.x(mark.at_ms) / step * step + step / 2;
            let cluster = found.entry((lane, mark.kind, x)).or_insert_with(|| Cluster {
                x: x.clamp(LABEL, WIDTH - 8),
                lane,
                kind: mark.kind,
                count: 0,
                text: String::new(),
                sequence: 0,
            });
            cluster.count += 1;
            if cluster.sequence <= mark.sequence {
                cluster.sequence = mark.sequence;
                cluster.text.clone_from(&mark.text);
            }
        }
        if found.len() <= MARKS_MAX || WIDTH < step {
            let mut all: Vec<Cluster> = found.into_values().collect();
            all.truncate(MARKS_MAX);
            return all;
        }
        step *= 2;
    }
}

/// Bars that are wide enough to be seen, the longest where there are too many.
fn bars(shown: &Timeline, scale: Scale) -> Vec<&Bar> {
    let width = |bar: &Bar| scale.x(bar.until_ms).saturating_sub(scale.x(bar.from_ms));
    let mut all: Vec<&Bar> = shown.bars.iter().filter(|it| it.is_open || 0 < width(it)).collect();
    all.sort_by_key(|it| (!it.is_open, std::cmp::Reverse(width(it))));
    all.truncate(BARS_MAX);
    all
}

/// Whole moments within a time, at most [`TICKS_MAX`].
fn ticks(from: u64, until: u64) -> Vec<u64> {
    const S: u64 = 1000;
    const STEPS: [u64; 18] = [
        S,
        5 * S,
        15 * S,
        60 * S,
        120 * S,
        300 * S,
        600 * S,
        1800 * S,
        3600 * S,
        2 * 3600 * S,
        3 * 3600 * S,
        6 * 3600 * S,
        12 * 3600 * S,
        86_400 * S,
        2 * 86_400 * S,
        7 * 86_400 * S,
        30 * 86_400 * S,
        365 * 86_400 * S,
    ];
    let length = until.saturating_sub(from);
    let step = STEPS.into_iter().find(|it| length / it < TICKS_MAX).unwrap_or(length / 2 + 1);
    (from.div_ceil(step)..=until / step).map(|at| at * step).collect()
}

/// How far from the middle of a lane marks of a kind are: of those of one moment all are seen.
const fn lift(kind: Kind) -> i64 {
    match kind {
        Kind::Mail => -9,
        Kind::Lock => -5,
        Kind::Loop => 0,
        Kind::Run => 5,
        Kind::Task => 9,
        Kind::Board => 13,
    }
}

/// How marks of a kind look, around the origin.
const fn shape(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "M-5-6 L5 0 L-5 6Z",
        Kind::Mail => "M-6-4 H6 V4 H-6Z",
        Kind::Task => "M0-6 L6 0 L0 6 L-6 0Z",
        Kind::Lock => "M-4-4 H4 V4 H-4Z",
        Kind::Board => "M-6-4 H6 V-1 H-6Z M-6 1 H6 V4 H-6Z",
        Kind::Run => "M-5 0 A5 5 0 1 0 5 0 A5 5 0 1 0 -5 0Z",
    }
}

pub(super) fn lanes(
    shown: &Timeline,
    from: u64,
    until: u64,
    link: impl Fn(u64) -> String,
) -> Markup {
    let scale = Scale::new(from, until);
    let lanes = drawn(shown);
    let height = TOP + LANE * lanes.len() as u64 + 4;
    let middle = |lane: usize| TOP + LANE * lane as u64 + LANE / 2;
    let lane_of = |name: &str| lanes.iter().position(|it| *it == name);
    let hidden = shown.lanes.len() - lanes.len();
    html! {
        div.scroll.chart {
            svg.lanes role="img" aria-label="Lanes of roles" viewBox={ "0 0 " (WIDTH) " " (height) } {
                @for at in ticks(from, until) {
                    @let x = scale.x(at);
                    line.tick x1=(x) x2=(x) y1="14" y2=(height) {}
                    text.tick x=(x) y="10" data-ms=(at) data-form="clock" text-anchor=(if WIDTH - 60 < x { "end" } else { "middle" }) {}
                }
                @for (at, name) in lanes.iter().enumerate() {
                    rect.lane x="0" y=(TOP + LANE * at as u64 + 2) width=(WIDTH) height=(LANE - 4) rx="4" {}
                    @let name = plain(name).chars().take(14).collect::<String>();
                    text.name x="6" y=(middle(at) + 4) { (name) }
                    text.name.end x=(WIDTH - 6) y=(middle(at) - 4) text-anchor="end" { (name) }
                }
                @for bar in bars(shown, scale) {
                    @if let Some(lane) = lane_of(&bar.lane) {
                        rect.bar .open[bar.is_open] x=(scale.x(bar.from_ms)) y=(middle(lane) - 9) height="18" rx="3"
                            width=(scale.x(bar.until_ms).saturating_sub(scale.x(bar.from_ms)).max(2))
                            data-href=(link(bar.sequence))
                            data-tip={ (plain(&bar.lane)) " has turn " (bar.turn) " of " (plain(&bar.of_loop)) } {}
                    }
                }
                @for it in clusters(shown, &lanes, scale) {
                    path.mark.(it.kind.name()) .many[1 < it.count] d=(shape(it.kind))
                        transform={ "translate(" (it.x) " " (middle(it.lane).saturating_add_signed(lift(it.kind))) ")" }
                        data-href=(link(it.sequence))
                        data-tip=(if it.count == 1 { plain(&it.text) } else { format!("{} events, the newest: {}", it.count, plain(&it.text)) }) {}
                }
            }
        }
        p.legend.note {
            @for kind in Kind::ALL {
                svg.key viewBox="-8 -8 16 16" aria-hidden="true" { path.mark.(kind.name()) d=(shape(kind)) {} } (kind.name()) " "
            }
            "– A bar is a turn, a dark one is held now; a mark with an edge is several events. "
            @if hidden != 0 { "The busiest " (LANES_MAX) " roles are drawn; " (hidden) " more are in the list." }
        }
        p #tip .note aria-live="polite" {}
    }
}

#[cfg(test)]
mod tests {
    use super::{super::event::Mark, *};

    fn many(count: u64) -> Timeline {
        let kinds = Kind::ALL;
        let mark = |at: u64| Mark {
            at_ms: at * 997,
            sequence: at,
            kind: kinds[usize::try_from(at % 5).unwrap()],
            lane: format!("role-{}", at % 40),
            to: String::new(),
            of_loop: "main".into(),
            words: None,
            text: format!("event {at}"),
        };
        let bar = |at: u64| Bar {
            lane: format!("role-{}", at % 40),
            of_loop: "main".into(),
            turn: at,
            from_ms: at * 997,
            until_ms: (at + 1) * 997,
            is_open: false,
            sequence: at,
        };
        let marks: Vec<Mark> = (0..count).map(mark).collect();
        let lanes = marks.iter().map(|it| it.lane.clone()).collect();
        Timeline { marks, bars: (0..count).map(bar).collect(), lanes, loops: BTreeSet::new() }
    }

    #[test]
    fn a_time_is_divided_at_whole_moments() {
        let hour = 3_600_000;
        assert_eq!(ticks(hour / 2, 5 * hour), [1, 2, 3, 4, 5].map(|it| it * hour));
        for length in
            [1, 999, 60_000, 300_000, 86_400_000, 700 * 86_400_000, u64::from(u32::MAX) << 9]
        {
            let count = ticks(1_764_000_000_123, 1_764_000_000_123 + length).len() as u64;
            assert!(count <= TICKS_MAX + 1, "{count} of {length}");
        }
    }

    /// Holds WD4.
    #[test]
    fn ten_thousand_events_are_few_nodes() {
        for count in [1, 10, 300, 10_000, 100_000] {
            let timeline = many(count);
            let html = lanes(&timeline, 0, count * 997, |at| at.to_string()).into_string();
            let nodes = html.matches('<').count() - html.matches("</").count();
            assert!(nodes < 1_000, "{count} events are {nodes} nodes");
            assert!(html.contains("class=\"mark"), "{count}");
        }
    }

    #[test]
    fn no_event_is_left_out_of_its_cluster() {
        let timeline = many(2_000);
        let lanes = drawn(&timeline);
        let scale = Scale::new(0, 2_000 * 997);
        let drawn = timeline.marks.iter().filter(|it| lanes.contains(&it.lane.as_str())).count();
        let counted: usize = clusters(&timeline, &lanes, scale).iter().map(|it| it.count).sum();
        assert_eq!(counted, drawn);
    }

    #[test]
    fn a_moment_lies_where_it_belongs() {
        let scale = Scale::new(1_000, 2_000);
        assert_eq!((scale.x(0), scale.x(1_000)), (LABEL, LABEL));
        assert_eq!(scale.x(9_000), WIDTH - 10);
        assert!(scale.x(1_500) - LABEL == (WIDTH - LABEL - 10) / 2);
        assert_eq!(Scale::new(5, 5).x(5), LABEL);
    }
}
