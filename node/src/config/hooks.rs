//! `[[hooks]]`: what is to be run or posted to when something happens.
//!
//! Hooks run programs and send others' words elsewhere: in a file that came with a directory they
//! count only once its user trusts it (`tasuki_proto::host::trust`).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use http::Uri;
use tasuki_proto::{
    echo::echo,
    id::{HookName, InvalidId},
    net::dial::is_loopback,
};
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source, Sourced,
    file::{Wrong, list, text},
};
use crate::hooks::spec::{
    Action, Command, HOOKS_MAX, Hook, Kind, LIMIT, LIMIT_MAX, Noun, POST_RETRIES, RETRIES_MAX,
    WORDS_MAX, Webhook,
};

/// The table.
pub(super) const HOOKS: &str = "hooks";

/// What a hook may say.
const FIELDS: [&str; 13] = [
    "name",
    "on",
    "role",
    "type",
    "sender",
    "receiver",
    "command",
    "url",
    "secret_file",
    "ca_file",
    "allow_http",
    "timeout_sec",
    "retries",
];

/// One hook as it is read: each value with where it is.
type Fields<'a> = BTreeMap<&'static str, (usize, &'a Spanned<DeValue<'a>>)>;

/// Parses all of them; `at` says where an offset is.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    path: &Path,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Vec<Sourced<Hook>> {
    let start = item.span().start;
    let mut say = |offset: usize, message: String| {
        problems.push(Problem { at: at(offset), message });
    };
    let Some(items) = item.get_ref().as_array() else {
        say(start, format!("`{HOOKS}` takes tables: write [[{HOOKS}]] above each"));
        return Vec::new();
    };
    if HOOKS_MAX < items.len() {
        say(start, format!("`{HOOKS}` are {}; the limit is {HOOKS_MAX}", items.len()));
        return Vec::new();
    }
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let mut found: Vec<Sourced<Hook>> = Vec::new();
    for item in items {
        let start = item.span().start;
        let mut wrong = Vec::new();
        let hook = one(item, &directory, &mut wrong);
        let name = hook.as_ref().map(|hook| format!(" {}", hook.name)).unwrap_or_default();
        for (offset, why) in &wrong {
            say(offset.unwrap_or(start), format!("the hook{name} {why}"));
        }
        let Some(hook) = hook else { continue };
        // They are folders, and some disks do not tell cases apart.
        let is_same = |other: &Sourced<Hook>| {
            other.value.name.as_str().eq_ignore_ascii_case(hook.name.as_str())
        };
        if let Some(other) = found.iter().find(|other| is_same(other)) {
            let message =
                format!("the hook {} has the name of that at {}", hook.name, other.source);
            say(start, message);
        }
        found.push(Sourced { value: hook, source: at(start) });
    }
    found
}

/// `None` without a name to speak of it by.
fn one(item: &Spanned<DeValue<'_>>, directory: &Path, wrong: &mut Vec<Wrong>) -> Option<Hook> {
    let Some(table) = item.get_ref().as_table() else {
        wrong.push((None, format!("takes a table: write [[{HOOKS}]] above it")));
        return None;
    };
    let mut fields = Fields::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        match FIELDS.into_iter().find(|field| *field == name) {
            Some(field) => drop(fields.insert(field, (key.span().start, value))),
            None => wrong.push((
                Some(key.span().start),
                format!("has no setting {}; there are {}", echo(name), FIELDS.join(", ")),
            )),
        }
    }
    let mut reader = Reader { fields, wrong };
    let name = reader.required("name", |item| {
        let name = text(item)?;
        name.parse::<HookName>().map_err(|why| (None, format!("is {}, which {why}", echo(name))))
    });
    let on = reader.required("on", |item| {
        let kinds = texts(item)?;
        let known = || Kind::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
        let kind = |name: &String| {
            Kind::parse(name)
                .ok_or_else(|| (None, format!("names {}; there are {}", echo(name), known())))
        };
        let kinds = kinds.iter().map(kind).collect::<Result<BTreeSet<_>, Wrong>>()?;
        if kinds.is_empty() {
            Err((None, format!("is empty; there are {}", known())))
        } else {
            Ok(kinds)
        }
    });
    let other = on.iter().flatten().find(|kind| kind.noun() != Noun::Mail);
    if let Some(other) = other {
        reader
            .refuse(&["type", "sender", "receiver"], &format!("is mail's alone; {other} is none"));
    }
    let roles = reader.names("role");
    let types = reader.optional("type", |item| {
        let parse = |name: &String| name.parse().map_err(|why| (None, format!("{why}")));
        texts(item)?.iter().map(parse).collect()
    });
    let (senders, receivers) = (reader.names("sender"), reader.names("receiver"));
    let limit = reader.optional("timeout_sec", |item| {
        let seconds = number(item, 1, LIMIT_MAX.as_secs())?;
        Ok(Duration::from_secs(seconds))
    });
    let retries = reader.optional("retries", |item| number(item, 0, RETRIES_MAX.into()));
    let action = reader.action(directory);
    Some(Hook {
        name: name?,
        on: on.unwrap_or_default(),
        roles,
        types: types.unwrap_or_default(),
        senders,
        receivers,
        limit: limit.unwrap_or(LIMIT),
        retries: match (retries, &action) {
            (Some(retries), _) => u32::try_from(retries).unwrap_or(RETRIES_MAX),
            (None, Some(Action::Webhook(_))) => POST_RETRIES,
            (None, Some(Action::Command(_)) | None) => 0,
        },
        action: action?,
    })
}

/// Takes fields out, and notes what is wrong with them.
struct Reader<'a, 'w> {
    fields: Fields<'a>,
    wrong: &'w mut Vec<Wrong>,
}

impl<'a> Reader<'a, '_> {
    fn optional<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&'a Spanned<DeValue<'a>>) -> Result<T, Wrong>,
    ) -> Option<T> {
        let (at, item) = self.fields.remove(field)?;
        match parse(item) {
            Ok(value) => Some(value),
            Err((offset, why)) => {
                self.wrong.push((offset.or(Some(at)), format!("has `{field}`, which {why}")));
                None
            }
        }
    }

    fn required<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&'a Spanned<DeValue<'a>>) -> Result<T, Wrong>,
    ) -> Option<T> {
        if !self.fields.contains_key(field) {
            self.wrong.push((None, format!("has no `{field}`")));
        }
        self.optional(field, parse)
    }

    /// Ids, one or several.
    fn names<T: FromStr<Err = InvalidId> + Ord>(&mut self, field: &'static str) -> BTreeSet<T> {
        let names = self.optional(field, |item| {
            let parse = |name: &String| {
                name.parse().map_err(|why| (None, format!("names {}, which {why}", echo(name))))
            };
            texts(item)?.iter().map(parse).collect()
        });
        names.unwrap_or_default()
    }

    fn file(&mut self, field: &'static str, directory: &Path) -> Option<PathBuf> {
        self.optional(field, |item| match text(item)? {
            "" => Err((None, "is empty; it takes a file".to_owned())),
            path => Ok(directory.join(path)),
        })
    }

    /// Takes out what does not belong here.
    fn refuse(&mut self, fields: &[&'static str], why: &str) {
        for field in fields {
            if let Some((at, _)) = self.fields.remove(field) {
                self.wrong.push((Some(at), format!("has `{field}`, which {why}")));
            }
        }
    }

    fn action(&mut self, directory: &Path) -> Option<Action> {
        let has = |it: &Self, field| it.fields.contains_key(field);
        match (has(self, "command"), has(self, "url")) {
            (true, false) => {
                self.refuse(&["secret_file", "ca_file", "allow_http"], "belongs to `url`");
                self.optional("command", |item| command(item, directory)).map(Action::Command)
            }
            (false, true) => {
                let allow_http = self.optional("allow_http", |item| {
                    let is = item.get_ref().type_str();
                    let wrong = || (None, format!("takes true or false, not this {is}"));
                    item.get_ref().as_bool().ok_or_else(wrong)
                });
                let secret_file = self.file("secret_file", directory);
                let ca_file = self.file("ca_file", directory);
                let url = self
                    .optional("url", |item| url(text(item)?, allow_http == Some(true), &HINTS))?;
                Some(Action::Webhook(Webhook { url, secret_file, ca_file }))
            }
            (true, true) => {
                self.wrong.push((None, "has both `command` and `url`; each is a hook".to_owned()));
                None
            }
            (false, false) => {
                self.wrong.push((None, "has neither `command` nor `url`".to_owned()));
                None
            }
        }
    }
}

/// One text, or a list.
fn texts(item: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Wrong> {
    match item.get_ref().as_str() {
        Some(text) => Ok(vec![text.to_owned()]),
        None => list(item),
    }
}

pub(super) fn number(item: &Spanned<DeValue<'_>>, least: u64, most: u64) -> Result<u64, Wrong> {
    let number = item.get_ref().as_integer().and_then(|it| it.as_str().parse().ok());
    let wrong = || (None, format!("takes a number from {least} to {most}"));
    number.filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
}

fn command(item: &Spanned<DeValue<'_>>, directory: &Path) -> Result<Command, Wrong> {
    let mut words = list(item)?;
    if words.is_empty() || WORDS_MAX < words.len() {
        return Err((
            None,
            format!("takes a program and its arguments, at most {WORDS_MAX} words"),
        ));
    }
    let program = words.remove(0);
    let is_name = !program.is_empty() && !program.contains(['/', '\\']);
    if !is_name && !Path::new(&program).is_absolute() {
        return Err((
            None,
            format!(
                "begins with {}; it takes a program's absolute path, or a name in PATH",
                echo(&program)
            ),
        ));
    }
    if std::iter::once(&program).chain(&words).any(|word| word.contains('\0')) {
        return Err((None, "has a word with a zero byte".to_owned()));
    }
    Ok(Command { program, arguments: words, directory: directory.to_owned() })
}

/// What to do about a URL that is refused.
pub(super) struct UrlHints {
    /// It has a user name or password in it.
    pub(super) secret: &'static str,
    /// It is not encrypted.
    pub(super) plain: &'static str,
}

const HINTS: UrlHints = UrlHints {
    secret: "sign with `secret_file`",
    plain: "use https://, or say `allow_http = true`",
};

/// The text may hold a secret and is not quoted.
pub(super) fn url(text: &str, allow_http: bool, hints: &UrlHints) -> Result<Uri, Wrong> {
    let no = |why: &str| Err((None, why.to_owned()));
    let UrlHints { secret, plain } = hints;
    let url = text.parse::<Uri>().ok().filter(|_| !text.contains('#'));
    let Some(url) = url else { return no("is no URL such as https://example.com/hook") };
    let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
        return no("is no URL such as https://example.com/hook");
    };
    if authority.as_str().contains('@') {
        return no(&format!("has a user or password in it; {secret}"));
    }
    match scheme {
        "https" => Ok(url),
        "http" if allow_http || is_loopback(authority.host()) => Ok(url),
        "http" => no(&format!(
            "begins with http://, so everybody on the way could read what is sent; {plain}"
        )),
        _ => no("begins neither with https:// nor with http://"),
    }
}
