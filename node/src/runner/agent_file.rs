//! One agent: a Markdown file with front matter; its body is the system prompt.
//!
//! `name` and `description` are required; `tools` (a list, or one text with commas), `model`,
//! `runner`, `cwd`, `timeout` (seconds, or with a unit: `90s`, `10m`, `1h`), `env` (names of
//! variables that the agent gets beside the usual ones) and `sandbox` are optional. Other keys are
//! left to other programs. `tools` that names none is refused: an agent without tools and an agent
//! with all of them are too different to guess.
//!
//! Not here: where files lie (`discovery`), which runners there are, whether `cwd` may be used.

use std::time::Duration;

use super::front_matter::{self, Field, Problem, Value};

/// One agent's file: a system prompt of some ten pages.
pub const AGENT_FILE_BYTES_MAX: usize = 128 << 10;

/// A name stands in command lines, tables and error messages.
pub const NAME_CHARS_MAX: usize = 64;

/// One tool, rules in parentheses included.
const TOOL_CHARS_MAX: usize = 256;
const TOOLS_MAX: usize = 128;

const ENV_MAX: usize = 64;
const ENV_CHARS_MAX: usize = 128;

/// A model, a directory, a description.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// The longest that a run may take: what takes longer than a day hangs.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What `model` says when the agent's model is the caller's.
const INHERIT: &str = "inherit";

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Agent {
    pub name: String,
    pub description: String,
    /// None: whatever the runner gives. Never empty.
    pub tools: Option<Vec<String>>,
    /// None: the runner's own choice.
    pub model: Option<String>,
    pub runner: Option<String>,
    pub cwd: Option<String>,
    pub timeout: Option<Duration>,
    /// Sorted, each once. None: there is no list, which is not an empty one.
    pub env: Option<Vec<String>>,
    pub sandbox: bool,
    /// The body, without blank lines around it; may be empty.
    pub system_prompt: String,
}

impl Agent {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// With the line, for whatever is missing or wrong.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > AGENT_FILE_BYTES_MAX {
            let text = format!("larger than {} KiB", AGENT_FILE_BYTES_MAX >> 10);
            return Err(Problem::new(1, text));
        }
        if let Some(at) = text.find('\0') {
            let line = text[..at].matches('\n').count() + 1;
            return Err(Problem::new(line, "contains a NUL character"));
        }
        let document = front_matter::parse(text)?;
        let fields = &document.fields;
        let name = required(fields, "name")?;
        let find = |key: &str| fields.iter().find(|field| field.key == key);
        let optional = |key: &str| find(key).map_or(Ok(None), one_text);
        Ok(Self {
            name: checked_name(&name.0, "name").map_err(|text| Problem::new(name.1, text))?,
            description: required(fields, "description")?.0,
            tools: find("tools").map_or(Ok(None), tools)?,
            model: optional("model")?.filter(|model| model != INHERIT),
            runner: match (optional("runner")?, find("runner")) {
                (Some(runner), Some(field)) => {
                    let checked = checked_name(&runner, "runner");
                    Some(checked.map_err(|text| Problem::new(field.line, text))?)
                }
                (_, _) => None,
            },
            cwd: optional("cwd")?,
            timeout: find("timeout").map_or(Ok(None), timeout)?,
            env: find("env").map_or(Ok(None), env)?,
            sandbox: find("sandbox").map_or(Ok(false), flag)?,
            system_prompt: document.body.trim().to_owned(),
        })
    }
}

/// A name that can stand in a command line and in a sentence.
///
/// # Errors
/// With a sentence that says what is wrong with it.
pub fn checked_name(name: &str, what: &str) -> Result<String, String> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_CHARS_MAX {
        Err(format!("`{what}` must have 1 to {NAME_CHARS_MAX} characters"))
    } else if !name.chars().all(is_allowed)
        || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        let shown: String = name.escape_debug().collect();
        Err(format!(
            "`{what}` is `{shown}`: use letters, digits, `-`, `_` and `.`, a letter or digit first"
        ))
    } else {
        Ok(name.to_owned())
    }
}

/// A text that must be there, with its line.
fn required(fields: &[Field], key: &str) -> Result<(String, usize), Problem> {
    let Some(field) = fields.iter().find(|field| field.key == key) else {
        return Err(Problem::new(1, format!("`{key}` is missing")));
    };
    match one_text(field)? {
        Some(text) => Ok((text, field.line)),
        None => Err(Problem::new(field.line, format!("`{key}` is empty"))),
    }
}

/// One text; nothing where there is none, or a blank one.
fn one_text(field: &Field) -> Result<Option<String>, Problem> {
    let key = &field.key;
    match &field.value {
        Value::Null => Ok(None),
        Value::Text(text) => {
            let text = text.trim();
            if text.len() > VALUE_BYTES_MAX {
                let text = format!("`{key}` is longer than {} KiB", VALUE_BYTES_MAX >> 10);
                return Err(Problem::new(field.line, text));
            }
            Ok((!text.is_empty()).then(|| text.to_owned()))
        }
        Value::List(_) | Value::Other => {
            Err(Problem::new(field.line, format!("`{key}` must be a string")))
        }
    }
}

/// Texts out of a list, or out of one text with commas; commas within parentheses divide nothing.
fn texts(field: &Field) -> Result<Option<Vec<String>>, Problem> {
    let listed = match &field.value {
        Value::Null => return Ok(None),
        Value::List(texts) => texts.clone(),
        Value::Text(text) => {
            let mut depth = 0_usize;
            let at_commas = |char: char| {
                match char {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                char == ',' && depth == 0
            };
            text.split(at_commas).map(str::to_owned).collect()
        }
        Value::Other => {
            let text =
                format!("`{}` must be a list of strings or a comma-separated string", field.key);
            return Err(Problem::new(field.line, text));
        }
    };
    let trimmed = listed.iter().map(|text| text.trim().to_owned());
    Ok(Some(trimmed.filter(|text| !text.is_empty()).collect()))
}

fn tools(field: &Field) -> Result<Option<Vec<String>>, Problem> {
    let Some(tools) = texts(field)? else { return Ok(None) };
    let problem = |text: String| Err(Problem::new(field.line, text));
    if tools.is_empty() {
        return problem("`tools` is empty; remove it to allow all tools".to_owned());
    }
    if tools.len() > TOOLS_MAX {
        return problem(format!("`tools` names more than {TOOLS_MAX} tools"));
    }
    let is_wrong = |tool: &&String| {
        tool.starts_with('-')
            || tool.chars().count() > TOOL_CHARS_MAX
            || tool.chars().any(char::is_control)
    };
    match tools.iter().find(is_wrong) {
        Some(tool) => {
            let shown: String = tool.escape_debug().take(NAME_CHARS_MAX).collect();
            problem(format!("invalid tool name `{shown}`"))
        }
        None => Ok(Some(tools)),
    }
}

fn env(field: &Field) -> Result<Option<Vec<String>>, Problem> {
    let Some(mut names) = texts(field)? else { return Ok(None) };
    if names.len() > ENV_MAX {
        let text = format!("`env` names more than {ENV_MAX} variables");
        return Err(Problem::new(field.line, text));
    }
    let is_name = |name: &str| {
        let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_';
        name.len() <= ENV_CHARS_MAX
            && name.chars().all(is_allowed)
            && !name.starts_with(|char: char| char.is_ascii_digit())
    };
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        // What stands behind a `=` may be a secret.
        let name = name.split('=').next().unwrap_or_default();
        let shown: String = name.escape_debug().take(NAME_CHARS_MAX).collect();
        let text = format!("invalid variable name `{shown}` in `env`; list names without values");
        return Err(Problem::new(field.line, text));
    }
    names.sort();
    names.dedup();
    Ok(Some(names))
}

fn timeout(field: &Field) -> Result<Option<Duration>, Problem> {
    let Some(text) = one_text(field)? else { return Ok(None) };
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" | "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(60 * 60),
        _ => None,
    };
    let number: Option<u64> = digits.parse().ok();
    let seconds = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    match seconds.filter(|seconds| (1..=TIMEOUT_MAX.as_secs()).contains(seconds)) {
        Some(seconds) => Ok(Some(Duration::from_secs(seconds))),
        None => {
            let text = "`timeout` must be 1 s to 24 h: seconds, or such as `90s`, `10m`, `1h`";
            Err(Problem::new(field.line, text))
        }
    }
}

fn flag(field: &Field) -> Result<bool, Problem> {
    match one_text(field)?.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => {
            let text = format!("`{}` must be true or false", field.key);
            Err(Problem::new(field.line, text))
        }
    }
}

#[cfg(test)]
mod tests;
