//! Lists, page by page.
//!
//! A page is a place and a length, and what is listed may grow meanwhile: what one page showed at
//! its end the next may show at its beginning. That is left out, so nothing is printed twice; what
//! comes to the front meanwhile is not shown.

use serde_json::json;
use tasuki_proto::limits::SWARM_PAGE_MAX;

use super::{Failure, Output};

/// How many are asked for at once.
pub(super) const PAGE: u32 = SWARM_PAGE_MAX;

/// A page of a list, and how many there are in all.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) things: Vec<T>,
    pub(super) total: u64,
    pub(super) now_ms: u64,
}

/// A thing that is listed: its id, the head of the list, and its row.
pub(super) trait Listed: serde::Serialize {
    /// Several of them.
    const NAME: &'static str;

    fn id(&self) -> &str;
    fn head() -> String;
    fn row(&self, now_ms: u64) -> String;
}

/// How much of a list is wanted.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Wanted {
    /// Most entries to show [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// Where a page begins.
pub(super) fn offset(at: u64) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Prints the head and a row for each thing. `ask` gets a page by its limit and offset; `nothing`
/// is for people, if there are none.
pub(super) async fn print<T: Listed>(
    wanted: Wanted,
    ask: impl AsyncFn(u32, u32) -> Result<Page<T>, Failure>,
    nothing: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut is_first = true;
    let (shown, total) = all(wanted, ask, |it, now_ms| {
        if std::mem::take(&mut is_first) {
            output.guide(T::head)?;
        }
        output.answer(|| json!(it), || it.row(now_ms))
    })
    .await?;
    match shown {
        0 => output.guide(|| format!("{nothing}\n")),
        _ if shown < total => {
            output.guide(|| format!("{shown} of {total} {} are shown.\n", T::NAME))
        }
        _ => Ok(()),
    }
}

/// The same for a list that comes whole.
pub(super) fn print_all<T: Listed>(
    things: &[T],
    now_ms: u64,
    nothing: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    if things.is_empty() {
        return output.guide(|| format!("{nothing}\n"));
    }
    output.guide(T::head)?;
    things.iter().try_for_each(|it| output.answer(|| json!(it), || it.row(now_ms)))
}

/// Calls `show` for each thing that is wanted. Returns how many these were, and how many there are.
async fn all<T: Listed>(
    wanted: Wanted,
    ask: impl AsyncFn(u32, u32) -> Result<Page<T>, Failure>,
    mut show: impl FnMut(&T, u64) -> Result<(), Failure>,
) -> Result<(u64, u64), Failure> {
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    let (mut at, mut shown) = (0_u64, 0_u64);
    let mut before: Vec<String> = Vec::new();
    loop {
        // Later pages are whole: one of a single thing might show nothing new for ever.
        let limit = if at == 0 { u32::try_from(left).unwrap_or(PAGE).min(PAGE) } else { PAGE };
        let page = ask(limit, offset(at)).await?;
        let ids: Vec<String> = page.things.iter().map(|it| it.id().to_owned()).collect();
        for thing in &page.things {
            if left == 0 || before.iter().any(|it| it == thing.id()) {
                continue;
            }
            show(thing, page.now_ms)?;
            shown += 1;
            left -= 1;
        }
        at += ids.len() as u64;
        // A page that leads nowhere would be asked for for ever.
        if ids.is_empty() || page.total <= at || left == 0 {
            return Ok((shown, page.total));
        }
        before = ids;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Listed for String {
        const NAME: &'static str = "texts";

        fn id(&self) -> &str {
            self
        }

        fn head() -> String {
            Self::new()
        }

        fn row(&self, _: u64) -> String {
            self.clone()
        }
    }

    /// What is shown of a list that grows at its front by one with every page.
    async fn shown(count: u32, limit: Option<u64>) -> (Vec<u32>, u64) {
        let asked = std::cell::Cell::new(0);
        let ask = async |limit: u32, offset: u32| {
            let grown = count + asked.get();
            asked.set(asked.get() + 1);
            // The newest first.
            let things: Vec<String> = (0..grown).rev().map(|it| it.to_string()).collect();
            let page = things.into_iter().skip(offset as usize).take(limit as usize);
            Ok(Page { things: page.collect(), total: grown.into(), now_ms: 0 })
        };
        let mut seen: Vec<u32> = Vec::new();
        let all = all(Wanted { limit }, ask, |it: &String, _| {
            seen.push(it.parse().unwrap());
            Ok(())
        });
        let (_, total) = all.await.unwrap();
        (seen, total)
    }

    #[tokio::test]
    async fn nothing_is_shown_twice_though_the_list_grows() {
        for count in [0, 1, 199, 200, 201, 500] {
            let (seen, _) = shown(count, None).await;
            let expected: Vec<u32> = (0..count).rev().collect();
            assert_eq!(seen, expected, "{count}");
        }
        let (seen, total) = shown(500, Some(3)).await;
        assert_eq!((seen, total), (vec![499, 498, 497], 500));
        let (seen, _) = shown(500, Some(300)).await;
        assert_eq!(seen.len(), 300);
    }
}
