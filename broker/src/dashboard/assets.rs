//! The one style sheet and the one script, both written for these pages.
//!
//! They are named by their content, so a browser keeps them for as long as they are what they were.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::App;

const STYLE: &str = include_str!("assets/app.css");
const SCRIPT: &str = include_str!("assets/app.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A year: the address changes with the content.
const KEPT: &str = "public, max-age=31536000, immutable";

/// How long a part of a hash is enough to tell two versions apart, in bytes.
const VERSION_BYTES: usize = 6;

/// Behind the address of each, as `?v=…`.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = blake3::Hasher::new();
    for part in [STYLE, SCRIPT, ICON] {
        hasher.update(part.as_bytes());
    }
    hasher.finalize().as_bytes()[..VERSION_BYTES].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
});

pub(super) fn router() -> Router<Arc<App>> {
    let asset = |kind: &'static str, content: &'static str| {
        get(move || std::future::ready(serve(kind, content)))
    };
    Router::new()
        .route("/assets/app.css", asset("text/css; charset=utf-8", STYLE))
        .route("/assets/app.js", asset("text/javascript; charset=utf-8", SCRIPT))
        .route("/assets/icon.svg", asset("image/svg+xml", ICON))
}

fn serve(kind: &'static str, content: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, KEPT)], content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page must load at once over a bad line, and what nobody reads in one sitting grows.
    #[test]
    fn what_a_page_loads_is_small() {
        assert!(SCRIPT.len() < 10 * 1024, "{}", SCRIPT.len());
        assert!(STYLE.len() + SCRIPT.len() + ICON.len() < 40 * 1024);
        assert!(!STYLE.contains("http") && !SCRIPT.contains("http"), "nothing from elsewhere");
    }
}
