//! A picture of the relay: the roles of a loop in order, who has the sash, and from whom.

use maud::{Markup, html};
use tasuki_proto::wire::{self, LoopStatus};

use super::plain;

/// Participants in the picture; a loop with more has none.
const DRAWN_MAX: usize = 12;

/// Of a name, in characters.
const NAME_CHARS_MAX: usize = 12;

const COLUMNS_MAX: usize = 4;

/// Of a row.
const HEIGHT: f64 = 120.0;
const SPACING: f64 = 110.0;
const RADIUS: f64 = 22.0;

/// Where a role stands, from the upper left.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    x: f64,
    y: f64,
}

/// In rows of at most four, one below the other.
fn places(count: usize) -> (f64, f64, Vec<Place>) {
    #[expect(clippy::cast_precision_loss, reason = "twelve at the most")]
    let number = |it: usize| it as f64;
    let columns = count.clamp(1, COLUMNS_MAX);
    let rows = count.div_ceil(columns).max(1);
    let place = |at: usize| Place {
        x: SPACING * (number(at % columns) + 0.5),
        y: HEIGHT * (number(at / columns) + 0.5),
    };
    (SPACING * number(columns), HEIGHT * number(rows), (0..count).map(place).collect())
}

/// The way of the sash from one role to another: bent, so that there and back differ.
fn bow(from: Place, to: Place) -> String {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = dx.hypot(dy).max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let bend = (length / 4.0).min(34.0);
    let start = Place { x: from.x + ux * RADIUS, y: from.y + uy * RADIUS };
    let end = Place { x: to.x - ux * (RADIUS + 5.0), y: to.y - uy * (RADIUS + 5.0) };
    let middle =
        Place { x: (start.x + end.x) / 2.0 + uy * bend, y: (start.y + end.y) / 2.0 - ux * bend };
    format!(
        "M{:.1} {:.1} Q{:.1} {:.1} {:.1} {:.1}",
        start.x, start.y, middle.x, middle.y, end.x, end.y
    )
}

/// The tip of the way, at the role that has the sash now.
fn head(from: Option<Place>, to: Option<Place>) -> String {
    let (Some(from), Some(to)) = (from, to) else { return String::new() };
    let way = (to.x - from.x, to.y - from.y);
    let length = way.0.hypot(way.1).max(1.0);
    let bend = (length / 4.0).min(34.0);
    // Towards the middle of the bow, from where it comes in.
    let (ux, uy) = (way.0 / length, way.1 / length);
    let tip = Place { x: to.x - ux * (RADIUS + 3.0), y: to.y - uy * (RADIUS + 3.0) };
    let half = length / 2.0 - RADIUS;
    let angle = uy.atan2(ux) + (bend / half.max(1.0)).atan();
    let side = |turn: f64| {
        let (x, y) = (tip.x - 11.0 * (angle + turn).cos(), tip.y - 11.0 * (angle + turn).sin());
        format!("{x:.1} {y:.1}")
    };
    format!("M{} L{:.1} {:.1} L{}", side(0.45), tip.x, tip.y, side(-0.45))
}

pub(super) fn picture(of: &wire::Loop, latest: Option<&wire::Entry>) -> Markup {
    let names = &of.participants;
    if names.is_empty() || DRAWN_MAX < names.len() {
        return html! {};
    }
    let (width, height, places) = places(names.len());
    let place = |name: &str| names.iter().position(|it| it == name).map(|at| places[at]);
    let from = latest.map(|it| it.from.as_str()).unwrap_or_default();
    let way = match (place(from), place(&of.holder)) {
        (Some(start), Some(end)) if from != of.holder => Some(bow(start, end)),
        _ => None,
    };
    let label = match of.holder.as_str() {
        "" => "nobody has the turn".to_owned(),
        holder => format!("{} has turn {}", plain(holder), of.turn),
    };
    let state = if of.status() == LoopStatus::Stalled { "stalled" } else { "" };
    html! {
        svg.relay.(state) role="img" aria-label=(label) viewBox={ "0 0 " (format!("{width:.0} {height:.0}")) } {
            @if let Some(way) = way {
                path.way d=(way) pathLength="100" {}
                path.head d=(head(place(from), place(&of.holder))) {}
            }
            @for (name, at) in names.iter().zip(&places) {
                @let holds = *name == of.holder;
                @let waits = of.waiting.contains(name);
                g.runner .holds[holds] .waits[waits] {
                    circle cx=(format!("{:.1}", at.x)) cy=(format!("{:.1}", at.y)) r=(RADIUS) {}
                    text x=(format!("{:.1}", at.x)) y=(format!("{:.1}", at.y + RADIUS + 16.0)) { (short(name)) }
                    title { (plain(name)) @if holds { " has the turn" } @if waits { " waits for it" } }
                }
            }
        }
    }
}

fn short(name: &str) -> String {
    let name = plain(name);
    if name.chars().count() <= NAME_CHARS_MAX {
        return name;
    }
    name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_stands_on_anybody() {
        for count in 1..=DRAWN_MAX {
            let (width, height, places) = places(count);
            for (at, one) in places.iter().enumerate() {
                assert!(RADIUS <= one.x && one.x + RADIUS <= width, "{count}: {one:?} of {width}");
                assert!(RADIUS <= one.y && one.y + RADIUS + 16.0 <= height, "{count}: {one:?}");
                for other in &places[at + 1..] {
                    let apart = (one.x - other.x).hypot(one.y - other.y);
                    assert!(2.0 * RADIUS + 8.0 < apart, "{count}: {one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn the_picture_says_who_has_the_turn() {
        let of = wire::Loop {
            participants: vec!["A".into(), "B".into()],
            holder: "B".into(),
            turn: 7,
            ..wire::Loop::default()
        };
        let latest = wire::Entry { from: "A".into(), ..wire::Entry::default() };
        let svg = picture(&of, Some(&latest)).into_string();
        assert!(svg.contains("B has turn 7") && svg.contains("class=\"way\""), "{svg}");
        assert!(picture(&wire::Loop::default(), None).into_string().is_empty());
    }
}
