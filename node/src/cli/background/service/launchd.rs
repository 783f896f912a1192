//! An agent of launchd, on macOS.

use std::path::{Path, PathBuf};

use super::{Service, Unwritable};
use crate::cli::background::log_file::LOG;

/// The text of a service's property list. `mark` is a comment that tells whose file it is.
pub(super) fn plist(service: &Service, name: &str, mark: &str) -> Result<String, Unwritable> {
    let strings = service.words().map(|word| Ok(format!("    <string>{}</string>\n", xml(&word)?)));
    let words = strings.collect::<Result<String, _>>()?;
    let directory = match &service.directory {
        Some(directory) => format!(
            "  <key>WorkingDirectory</key>\n  <string>{}</string>\n",
            xml(&directory.to_string_lossy())?
        ),
        None => String::new(),
    };
    let (label, mark) = (xml(&label(name))?, xml(mark)?.replace("--", "- -"));
    let log = xml(&service.data.join(LOG).to_string_lossy())?;
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!-- {mark} -->
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
{directory}  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"
    ))
}

/// Text in an element.
fn xml(text: &str) -> Result<String, Unwritable> {
    if text.chars().any(char::is_control) {
        return Err(Unwritable);
    }
    Ok(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

pub(super) fn label(name: &str) -> String {
    format!("local.{name}")
}

/// Where this user's agents are.
pub(super) fn path(home: &Path, name: &str) -> PathBuf {
    home.join("Library/LaunchAgents").join(format!("{}.plist", label(name)))
}

/// The commands that turn a service on, and off again.
pub(super) fn turn_on(file: &Path, user: u32) -> Vec<Vec<String>> {
    let file = file.to_string_lossy().into_owned();
    vec![vec!["launchctl".to_owned(), "bootstrap".to_owned(), format!("gui/{user}"), file]]
}

pub(super) fn turn_off(name: &str, user: u32) -> Vec<String> {
    ["launchctl".to_owned(), "bootout".to_owned(), target(name, user)].to_vec()
}

pub(super) fn ask(name: &str, user: u32) -> Vec<String> {
    ["launchctl".to_owned(), "print".to_owned(), target(name, user)].to_vec()
}

fn target(name: &str, user: u32) -> String {
    format!("gui/{user}/{}", label(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_list_has_the_command_and_its_paths_as_they_are() {
        let service = Service {
            program: "/opt/R&D/tasuki".into(),
            command: "up",
            data: "/data/a b".into(),
            config: Some("/etc/<x>.toml".into()),
            directory: None,
        };
        let plist = plist(&service, "tasuki", "made by `tasuki service install`").unwrap();
        let strings = plist
            .lines()
            .filter_map(|line| line.trim().strip_prefix("<string>")?.strip_suffix("</string>"));
        assert_eq!(
            strings.collect::<Vec<_>>(),
            [
                "local.tasuki",
                "/opt/R&amp;D/tasuki",
                "up",
                "--data",
                "/data/a b",
                "--config",
                "/etc/&lt;x&gt;.toml",
                "/data/a b/tasuki.log",
            ]
        );
        assert!(plist.contains("<!-- made by `tasuki service install` -->"), "{plist}");
        let odd = Service { data: "/a\nb".into(), ..service };
        assert!(super::plist(&odd, "tasuki", "mine").is_err());
    }
}
