//! Every example of the README and of `docs`, typed as it stands there by somebody whose home is
//! empty.
//!
//! The first word behind a fence says what a block is: commands (`sh`, `console`), a user's
//! configuration (`toml`), something else to try, or a picture (`text`, `mermaid`). The second
//! names its scene ([`scenes`]): what is there before, and what stands for names in the text.
//! Blocks of one scene follow each other in the same world. `<!-- not run: WHY -->` before a
//! block keeps it from being run.
//!
//! What commands print isn't compared: it differs from run to run.

mod bare;
mod inline;
mod limits;
mod scenes;
mod world;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use self::world::World;

/// Scenes that other tests type, which read the same page.
const ELSEWHERE: [(&str, &str); 3] = [
    ("install", "examples/tests/docs/bare.rs"),
    ("machines", "node/tests/machines/readme.rs"),
    ("walk", "node/tests/cli/swarm_walk.rs"),
];

struct Block {
    /// Page and line.
    place: String,
    kind: String,
    scene: String,
    text: String,
    is_run: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|it| it.unwrap().path());
    let mut pages: Vec<_> = docs.filter(|it| it.extension().is_some_and(|it| it == "md")).collect();
    pages.sort();
    pages.insert(0, root().join("README.md"));
    pages
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap();
    let (mut blocks, mut before) = (Vec::new(), "");
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let mut words = info.split_whitespace().map(str::to_owned);
            let place = format!("{}:{}", page.display(), number + 1);
            let kind = words.next().unwrap_or_else(|| panic!("{place}: what is this block?"));
            let body = lines.by_ref().map(|it| it.1).take_while(|it| *it != "```");
            let text = body.map(|it| format!("{it}\n")).collect();
            let why = before.strip_prefix("<!-- not run: ").and_then(|it| it.strip_suffix(" -->"));
            let is_run = why.is_none_or(str::is_empty);
            blocks.push(Block {
                place,
                kind,
                scene: words.next().unwrap_or_default(),
                text,
                is_run,
            });
        }
        before = if line.is_empty() { before } else { line };
    }
    blocks
}

/// Types what a page shows.
async fn try_page(page: &Path) {
    let mut worlds = BTreeMap::new();
    for block in blocks(page).into_iter().filter(|it| it.is_run) {
        if let Some((_, test)) = ELSEWHERE.iter().find(|(scene, _)| *scene == block.scene) {
            let test = fs::read_to_string(root().join(test)).unwrap();
            assert!(test.contains(page.file_name().unwrap().to_str().unwrap()), "{}", block.place);
            continue;
        }
        // A block without a scene has a world of its own.
        let name = if block.scene.is_empty() { &block.place } else { &block.scene };
        let world = worlds.entry(name.clone()).or_insert_with(World::new);
        match block.kind.as_str() {
            "sh" | "console" => world.type_all(&block).await,
            "text" => {
                let shown = block.text.lines().find(|it| it.contains("$ "));
                assert_eq!(shown, None, "{}: this is `console`", block.place);
            }
            "mermaid" => {}
            "json" => drop(serde_json::from_str::<serde_json::Value>(&block.text).unwrap()),
            _ => scenes::use_file(&block, world).await,
        }
    }
}

#[tokio::test]
#[ignore = "needs git and python"]
async fn what_the_readme_shows_works() {
    try_page(&root().join("README.md")).await;
}

#[tokio::test]
#[ignore = "needs git and python"]
async fn what_the_docs_show_works() {
    for page in &pages()[1..] {
        try_page(page).await;
    }
}
