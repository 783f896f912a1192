//! `[[role.NAME.export]]`: tools that a role of this node lets roles of other nodes call.
//!
//! It opens what runs here to others, so it is the operator's to say, as `[gateway]` is.

use tasuki_proto::{
    id::RoleId,
    limits::{TOOL_CALLERS_MAX, TOOL_NAME_BYTES_MAX},
};
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source, Sourced,
    accept::{items, parse_table, yes_or_no},
    gateway::pattern,
    value,
};
use crate::gateway::settings::{Export, GatewaySettings};

/// The table.
pub(super) const ROLE: &str = "role";

/// One of its exports, for messages.
const EXPORT: &str = "role.NAME.export";

/// Exports of all roles.
const EXPORTS_MAX: usize = 256;

/// What a table says where it counts, and why another one does not.
type Counted<T> = (Option<Sourced<T>>, Option<Problem>);

/// The settings of the gateway with what roles export.
pub(super) fn add_to(
    (gateway, distrust): Counted<GatewaySettings>,
    (exports, why): Counted<Vec<Export>>,
) -> Counted<GatewaySettings> {
    let distrust = distrust.or(why);
    let Some(exports) = exports else { return (gateway, distrust) };
    let source = exports.source;
    let mut gateway =
        gateway.unwrap_or_else(|| Sourced { value: GatewaySettings::default(), source });
    gateway.value.exports = exports.value;
    (Some(gateway), distrust)
}

/// Parses it. `at` says where an offset is.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Vec<Export> {
    let mut exports = Vec::new();
    let mut inner = Vec::new();
    let problem = |offset: usize, message: String| Problem {
        at: at(offset),
        message: format!("`{ROLE}` {message}"),
    };
    let Some(roles) = item.get_ref().as_table() else {
        let why = format!("takes tables: write [[{EXPORT}]] above each export");
        problems.push(problem(item.span().start, why));
        return exports;
    };
    for (name, item) in roles {
        let start = name.span().start;
        let name: &str = name.get_ref();
        let Ok(role) = name.parse::<RoleId>() else {
            let why = format!("has {}, which is no name of a role", value::name(name));
            problems.push(problem(start, why));
            continue;
        };
        let set = |_: &str, item: &Spanned<DeValue<'_>>| {
            let Some(all) = item.get_ref().as_array().filter(|it| it.len() <= EXPORTS_MAX) else {
                let why =
                    format!("takes tables, at most {EXPORTS_MAX}: write [[{EXPORT}]] above each");
                return Err((None, why));
            };
            exports.extend(all.iter().filter_map(|it| export(&role, it, at, &mut inner)));
            Ok(())
        };
        parse_table(&format!("{ROLE}.{name}"), &["export"], item, at, problems, set);
    }
    problems.append(&mut inner);
    exports
}

/// `None`: something is wrong with it, which was said.
fn export(
    role: &RoleId,
    item: &Spanned<DeValue<'_>>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Option<Export> {
    let before = problems.len();
    let (mut tools, mut callers, mut record) = (Vec::new(), Vec::new(), false);
    let set = |field: &str, item: &Spanned<DeValue<'_>>| {
        if field == "record" {
            record = yes_or_no(item)?;
            return Ok(());
        }
        let all = items(item)?;
        all.iter().try_for_each(|it| pattern(it))?;
        if all.is_empty() {
            return Err((None, "names nothing; leave it out, or name something".to_owned()));
        }
        if field == "callers" && TOOL_CALLERS_MAX < all.len() {
            return Err((
                None,
                format!("has {} names; the limit is {TOOL_CALLERS_MAX}", all.len()),
            ));
        }
        if all.iter().any(|it| TOOL_NAME_BYTES_MAX < it.len()) {
            return Err((None, format!("has a name over {TOOL_NAME_BYTES_MAX} bytes")));
        }
        match field {
            "tools" => tools = all,
            _ => callers = all,
        }
        Ok(())
    };
    parse_table(EXPORT, &["tools", "callers", "record"], item, at, problems, set);
    if tools.is_empty() && problems.len() == before {
        let message =
            format!("`{EXPORT}` of {role} lacks `tools`: names as `server__tool`, or `server__*`");
        problems.push(Problem { at: at(item.span().start), message });
    }
    (problems.len() == before).then(|| Export { role: role.clone(), tools, callers, record })
}
