//! Lists, page by page.
//!
//! A page is a place and a length, and what is listed may grow meanwhile: what one page showed at
//! its end the next may show at its beginning. That is left out, so nothing is printed twice; what
//! comes to the front meanwhile is not shown.

use tasuki_proto::limits::SWARM_PAGE_MAX;

use super::{Failure, Output};

/// How many are asked for at once.
pub(super) const PAGE: u32 = SWARM_PAGE_MAX;

/// Some of a list, and how many there are of it.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) things: Vec<T>,
    pub(super) total: u64,
    pub(super) now_ms: u64,
}

/// What a list came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) shown: u64,
    /// That fit.
    pub(super) total: u64,
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

/// Shows all that is wanted. `ask` gets a page by its limit and offset, `id` tells things apart,
/// `show` shows one, with what time it is at the broker.
pub(super) async fn all<T>(
    wanted: Wanted,
    ask: impl AsyncFn(u32, u32) -> Result<Page<T>, Failure>,
    id: impl Fn(&T) -> &str,
    mut show: impl FnMut(&T, u64) -> Result<(), Failure>,
) -> Result<Shown, Failure> {
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    let (mut at, mut shown) = (0_u64, 0_u64);
    let mut before: Vec<String> = Vec::new();
    loop {
        // Later pages are whole: one of a single thing might show nothing new for ever.
        let limit = if at == 0 { u32::try_from(left).unwrap_or(PAGE).min(PAGE) } else { PAGE };
        let page = ask(limit, offset(at)).await?;
        let ids: Vec<String> = page.things.iter().map(|it| id(it).to_owned()).collect();
        for thing in &page.things {
            if left == 0 || before.iter().any(|it| it == id(thing)) {
                continue;
            }
            show(thing, page.now_ms)?;
            shown += 1;
            left -= 1;
        }
        at += ids.len() as u64;
        // A page that leads nowhere would be asked for for ever.
        if ids.is_empty() || page.total <= at || left == 0 {
            return Ok(Shown { shown, total: page.total });
        }
        before = ids;
    }
}

impl Shown {
    /// What is said to people behind a list: that there is more, or why there is nothing.
    pub(super) fn tell(
        self,
        output: &mut Output,
        things: &str,
        nothing: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let Self { shown, total } = self;
        if shown == 0 {
            return output.guide(nothing);
        }
        if shown < total {
            return output.guide(|| format!("{shown} of {total} {things} are shown.\n"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let all = all(Wanted { limit }, ask, String::as_str, |it: &String, _| {
            seen.push(it.parse().unwrap());
            Ok(())
        });
        let told = all.await.unwrap();
        (seen, told.total)
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
