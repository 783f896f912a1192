//! The configuration, and the programs that it names.

use std::time::Duration;

use tokio::time::timeout;

use super::finding::{Area, Finding, or_ok};
use crate::{
    cli::{config_check, runners},
    config::{Config, Environment, Problem, Source},
};

/// For all agent CLIs to print their versions, side by side. Some take seconds.
const VERSIONS_WITHIN: Duration = Duration::from_secs(5);

/// What is wrong in the settings; `refused`: what keeps other commands from running at all.
pub(super) fn settings(config: &Config, refused: &[Problem], around: &Environment) -> Vec<Finding> {
    let problems = config_check::problems(config, refused);
    let problem = |it: &Problem| Finding::error(Area::Configuration, it.to_string(), mend(it));
    let warning = |what: String| {
        let mend = "Remove it, or correct its name; `tasuki config check` shows all settings.";
        Finding::warning(Area::Configuration, format!("{what}."), mend)
    };
    let warnings = config_check::warnings(config, around).into_iter().map(warning);
    let found = problems.iter().map(problem).chain(warnings).collect();
    let file = config.file.as_ref();
    let file = file.map_or_else(|| "the defaults".to_owned(), |it| it.path.display().to_string());
    or_ok(found, Area::Configuration, file)
}

/// The command in a problem's own words, where there is one.
fn mend(of: &Problem) -> String {
    let message = &of.message;
    if let Some((_, command)) = message.split_once("chmod ") {
        return format!("chmod {command}");
    }
    if message.contains("`tasuki trust`") {
        return "Read the file, then `tasuki trust`.".to_owned();
    }
    let place = match &of.at {
        Source::File { path, .. } | Source::Filebox(path) => {
            format!("Correct it in {}", path.display())
        }
        Source::Env(name) => format!("Set {name} to another value, or unset it"),
        Source::Flag(name) => format!("Give {name} another value"),
        Source::Default => "Correct it".to_owned(),
    };
    format!("{place}; `tasuki config check` shows all settings.")
}

/// The agent CLIs that the configuration names.
pub(super) async fn programs(config: &Config) -> Vec<Finding> {
    let Ok(missing) = timeout(VERSIONS_WITHIN, runners::unusable(config)).await else {
        let what = "An agent CLI under [runner.NAME] does not say its version.";
        return vec![Finding::warning(Area::Program, what, "`tasuki runners check` says which.")];
    };
    let finding = |(runner, why): (String, String)| {
        let mend = format!(
            "Install it, or correct `command` under [runner.{runner}]; `tasuki runners check`."
        );
        Finding::error(
            Area::Program,
            format!("The runner {runner} cannot be started: {why}."),
            mend,
        )
    };
    missing.into_iter().map(finding).collect()
}

/// What this program is, where nothing else was said of it.
pub(super) fn version() -> String {
    format!("tasuki {}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_mended_as_its_words_say_or_where_it_stands() {
        let at = Source::File { path: "/p/tasuki.toml".into(), line: 3 };
        for (at, message, expected) in [
            (Source::Flag("--data"), "others write; seen that: chmod go-w /d", "chmod go-w /d"),
            (at.clone(), "not taken; read it and run `tasuki trust`", "`tasuki trust`"),
            (at, "unknown key", "Correct it in /p/tasuki.toml;"),
            (Source::Env("TASUKI_HOLD"), "is no time", "Set TASUKI_HOLD to another value"),
            (Source::Flag("--broker"), "is no URL", "Give --broker another value"),
        ] {
            let mend = mend(&Problem { at, message: message.to_owned() });
            assert!(mend.contains(expected), "{mend}");
        }
    }
}
