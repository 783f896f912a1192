//! What nobody changes through these tools: what runs on its user's machine by itself, or says what an
//! agent may do. Pure.
//!
//! Names are compared as the most lenient file system would: without regard to case, to dots and
//! blanks at the end, to characters that are not shown, to what follows a colon.

use std::path::Path;

use tasuki_proto::visible::is_visible;
use unicode_normalization::UnicodeNormalization as _;

/// Names that are protected with all that lies below them, wherever they are.
const NAMES: [&str; 42] = [
    // Version control, and what it runs.
    ".git",
    "git~1",
    ".hg",
    ".svn",
    ".jj",
    ".husky",
    ".githooks",
    ".lefthook",
    "lefthook.yml",
    ".pre-commit-config.yaml",
    // Tasuki's own.
    ".tasuki",
    ".filebox",
    "tasuki.toml",
    // What agents and editors are allowed and run.
    ".aider.conf.yml",
    ".claude",
    ".claude.json",
    ".cline",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".idea",
    ".junie",
    ".kiro",
    ".mcp.json",
    ".opencode",
    "opencode.json",
    ".pi",
    ".roo",
    ".vscode",
    ".windsurf",
    ".zed",
    // What build servers run.
    ".buildkite",
    ".ci",
    ".circleci",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "jenkinsfile",
];

/// The same of a name in a directory of another.
const PAIRS: [(&str, &str); 6] = [
    (".github", "workflows"),
    (".github", "actions"),
    (".forgejo", "workflows"),
    (".gitea", "workflows"),
    (".config", "tasuki"),
    (".config", "lefthook.yml"),
];

/// Of [`NAMES`] the last ones, and of [`PAIRS`] the first ones, that are of nothing but build
/// servers, which look at the top of a repository.
const OF_BUILD_SERVERS: usize = 7;
const PAIRS_OF_BUILD_SERVERS: usize = 4;

/// What `*` stands for in a pattern: any letters of one name.
const ANY: char = '*';

/// What the operator protects in addition: a name wherever it is, or a path from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// As it was written.
    text: String,
    names: Vec<String>,
    /// From the root; else wherever it is.
    is_path: bool,
}

impl Pattern {
    /// `secrets` and `*.pem` are names, `deploy/prod` and `/deploy` are paths.
    ///
    /// # Errors
    /// Says why it is none, to follow its text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_path = text.trim_end_matches('/').contains('/');
        let names: Vec<String> = text.split('/').filter(|it| !it.is_empty()).map(folded).collect();
        let is_odd = |name: &String| name.is_empty() || name.chars().all(|c| c == ANY);
        match names.as_slice() {
            [] => Err("names no file".to_owned()),
            names if names.iter().any(is_odd) => {
                Err("has a name of nothing but `*`, `.` or blanks".to_owned())
            }
            _ => Ok(Self { text: text.to_owned(), names, is_path }),
        }
    }

    /// A path from the root, whatever its names are.
    pub(super) fn of_path(path: &Path) -> Self {
        let names = path.iter().map(|it| folded(&it.to_string_lossy())).collect();
        Self { text: format!("{} of a Git repository", path.display()), names, is_path: true }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a path, of folded names, is it or lies below it.
    fn covers(&self, path: &[String]) -> bool {
        let begins = |path: &[String]| {
            self.names.len() <= path.len()
                && self.names.iter().zip(path).all(|(pattern, name)| fits(pattern, name))
        };
        match self.is_path {
            true => begins(path),
            false => path.windows(self.names.len()).any(begins),
        }
    }
}

/// Whether a name is of this form. Without recursion: at each `*` but the last, the first place that
/// fits is as good as any.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split(ANY);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// A name as the most lenient file system compares it.
pub fn folded(name: &str) -> String {
    let shown: String = name.chars().filter(|c| is_visible(*c) && !is_joiner(*c)).collect();
    let lower = shown.nfkc().collect::<String>().to_lowercase();
    // A stream of a file is the file's.
    let own = lower.split(':').next().unwrap_or_default();
    own.trim_end_matches(['.', ' ']).trim_start_matches(' ').to_owned()
}

/// Joiners and selectors, which scripts need and file systems pass over.
const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// What protects a path of these names below the root; `None`: nothing.
pub fn protected_by(path: &[&str], more: &[Pattern]) -> Option<String> {
    let path: Vec<String> = path.iter().flat_map(|name| name.split('\\')).map(folded).collect();
    if let Some(known) = path.iter().find_map(|name| NAMES.iter().find(|it| *it == name)) {
        return Some((*known).to_owned());
    }
    let is_pair =
        |names: &[String], (upper, lower): &(&str, &str)| names[0] == *upper && names[1] == *lower;
    if let Some((upper, lower)) =
        path.windows(2).find_map(|names| PAIRS.iter().find(|it| is_pair(names, it)))
    {
        return Some(format!("{upper}/{lower}"));
    }
    more.iter().find(|it| it.covers(&path)).map(|it| it.text.clone())
}

/// Whether a path, of folded names, may be in no directory that commands write to: its last name is
/// protected wherever it is, or `more` covers it. What build servers look for at the top of a
/// repository alone is nothing further down.
pub fn is_protected_in_depth(path: &[String], more: &[Pattern]) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let is_pair =
        |(upper, lower): &(&str, &str)| last == lower && above.last().is_some_and(|it| it == upper);
    NAMES[..NAMES.len() - OF_BUILD_SERVERS].contains(&last.as_str())
        || PAIRS[PAIRS_OF_BUILD_SERVERS..].iter().any(is_pair)
        || more.iter().any(|it| it.covers(path))
}

/// Whether Git takes a directory that has these names for a repository, whatever they stand for.
pub fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has(HEAD) && (has("objects") && has("refs") || has("commondir"))
}

/// The file without which nothing is a repository.
pub const HEAD: &str = "HEAD";

#[cfg(test)]
mod tests {
    use super::*;

    fn by(path: &str, more: &[&str]) -> Option<String> {
        let more: Vec<_> = more.iter().map(|it| Pattern::parse(it).unwrap()).collect();
        protected_by(&path.split('/').collect::<Vec<_>>(), &more)
    }

    #[test]
    fn what_runs_by_itself_is_protected_however_it_is_spelled() {
        for path in [
            ".git",
            ".git/hooks/pre-commit",
            "vendor/lib/.git/config",
            ".GIT/config",
            ".Git./config",
            ".git ./config",
            ".g\u{200c}it/config",
            ".g\u{ad}it",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION/config",
            ".ｇit/config",
            "a\\.git\\config",
            ".claude/settings.json",
            "Tasuki.TOML",
            ".github/workflows/ci.yml",
            "a/.GitHub/Workflows/x",
            "Jenkinsfile",
            ".vscode/tasks.json",
        ] {
            assert!(by(path, &[]).is_some(), "{path}");
        }
        for path in [
            "src/main.rs",
            ".gitignore",
            ".github/FUNDING.yml",
            "git",
            "a.git",
            "workflows/a",
            "..",
        ] {
            assert_eq!(by(path, &[]), None, "{path}");
        }
    }

    #[test]
    fn an_operator_protects_names_and_paths() {
        for (pattern, path, is_protected) in [
            ("*.pem", "a/b/key.PEM", true),
            ("*.pem", "a/b.pem/c", true),
            ("*.pem", "pem", false),
            ("secrets", "a/Secrets/x", true),
            ("deploy/prod", "deploy/prod/x.tf", true),
            ("deploy/prod", "a/deploy/prod", false),
            ("deploy/*-key", "deploy/the-key", true),
            ("/Makefile", "Makefile", true),
            ("/Makefile", "a/Makefile", false),
            ("a*b*c", "aXbXc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(by(path, &[pattern]).is_some(), is_protected, "{pattern} {path}");
        }
        for wrong in ["", "/", "*", "a/**", "."] {
            Pattern::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn build_servers_look_at_the_top_alone() {
        let is_it = |path: &str, more: &[&str]| {
            let more: Vec<_> = more.iter().map(|it| Pattern::parse(it).unwrap()).collect();
            let path: Vec<String> = path.split('/').map(folded).collect();
            is_protected_in_depth(&path, &more)
        };
        assert!(is_it("a/.GIT", &[]) && is_it(".zed", &[]) && is_it("a/.config/tasuki", &[]));
        assert!(!is_it(".travis.yml", &[]) && !is_it(".ci", &[]));
        assert!(!is_it("a/.github/workflows", &[]) && !is_it("tasuki", &[]));
        assert!(is_it("out/k.pem", &["*.pem"]) && is_it("out/prod", &["out/prod"]));
        assert!(!is_it("out/a/prod", &["out/prod"]));
    }

    #[test]
    fn a_repository_has_a_head_and_more() {
        for (names, expected) in [
            ("HEAD objects refs", true),
            ("HEAD objects refs config", true),
            ("HEAD commondir", true),
            ("objects refs config", false),
            ("HEAD refs config", false),
            ("HEAD", false),
        ] {
            let has = |name: &str| names.split(' ').any(|it| it == name);
            assert_eq!(is_repository(has), expected, "{names}");
        }
    }
}
