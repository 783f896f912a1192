//! A table of every call with the options that its method states, and `Rpc` for the request of every
//! call that has one request and one response, with a macro that names them all.

use std::{collections::BTreeMap, error::Error, fmt::Write as _};

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};

/// The table of calls, ordered by path, and `Rpc` of their requests.
pub(crate) fn generate(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let options = pool.get_extension_by_name("tasuki.v1.call").ok_or("options.proto is missing")?;
    let mut methods: Vec<_> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| (path(&method), method))
        .collect();
    methods.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut table = String::from("pub const CALLS: &[Call] = &[\n");
    let (mut requests, mut names) = (String::new(), String::new());
    let mut responses = BTreeMap::new();
    for (index, (path, method)) in methods.iter().enumerate() {
        let options = method.options().get_extension(&options).into_owned();
        let options = options.as_message().ok_or_else(|| format!("{path} has no options"))?;
        let call = call(path, method, options).ok_or_else(|| format!("options of {path}"))?;
        writeln!(table, "    {call},")?;
        if !method.is_client_streaming() && !method.is_server_streaming() {
            requests += &request(index, method);
            writeln!(names, "            {}", method.input().name())?;
            responses.insert(method.output().name().to_owned(), response(&method.output()));
        }
    }
    let responses: String = responses.into_values().collect();
    Ok(format!(
        "{table}];
{requests}{responses}
/// Calls the macro `$each` with the names in [`wire`](crate::wire) of all requests that are [`Rpc`].
#[macro_export]
macro_rules! for_each_request {{
    ($each:ident) => {{
        $each! {{
{names}        }}
    }};
}}
"
    ))
}

fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

fn call(path: &str, method: &MethodDescriptor, options: &DynamicMessage) -> Option<String> {
    let is_public = options.get_field_by_name("is_public")?.as_bool()?;
    let rights: Vec<String> = options
        .get_field_by_name("rights")?
        .as_list()?
        .iter()
        .map(|right| variant("Right", right.as_enum_number()?, method))
        .collect::<Option<_>>()?;
    let kind = variant("CallKind", options.get_field_by_name("kind")?.as_enum_number()?, method)?;
    let noun = options.get_field_by_name("noun")?;
    let noun = noun.as_str().filter(|noun| !noun.is_empty())?.to_owned();
    let has_key = method.input().get_field_by_name("key").is_some();
    let access = match rights.as_slice() {
        [] if is_public => "Access::Public".to_owned(),
        [] => "Access::AnyToken".to_owned(),
        rights => format!("Access::Rights(&[{}])", rights.join(", ")),
    };
    Some(format!(
        "Call {{ path: {path:?}, access: {access}, kind: {kind}, noun: {noun:?}, has_key: {has_key} }}"
    ))
}

/// `RIGHT_SEND` is `Right::Send`; whatever is unspecified is nothing.
fn variant(name: &str, number: i32, method: &MethodDescriptor) -> Option<String> {
    let pool = method.parent_pool();
    let value = pool.get_enum_by_name(&format!("tasuki.v1.{name}"))?.get_value(number)?;
    let (_, last) = value.name().rsplit_once('_')?;
    let (first, rest) = last.split_at_checked(1)?;
    (number != 0).then(|| format!("{name}::{first}{}", rest.to_lowercase()))
}

fn request(index: usize, method: &MethodDescriptor) -> String {
    let (input, output) = (method.input(), method.output());
    let envelope = envelope(
        &input,
        &[
            ("caller", &["caller"]),
            ("key", &["key"]),
            ("role", &["role"]),
            ("token", &["claim_token", "lock_token"]),
        ],
    );
    format!(
        "impl Rpc for wire::{} {{
    type Response = wire::{};
    const CALL: &'static Call = &CALLS[{index}];
    fn envelope(&mut self) -> Envelope<'_> {{
        Envelope {{ {envelope}}}
    }}
}}
",
        input.name(),
        output.name()
    )
}

fn response(message: &MessageDescriptor) -> String {
    let fields: &[(&str, &[&str])] =
        &[("repeated", &["repeated"]), ("sequence", &["sequence"]), ("now_ms", &["now_ms"])];
    format!(
        "impl RpcResponse for wire::{} {{
    fn envelope(&mut self) -> ResponseEnvelope<'_> {{
        ResponseEnvelope {{ {}}}
    }}
}}
",
        message.name(),
        envelope(message, fields)
    )
}

/// For each of an envelope's fields the first of the message's that it may be.
fn envelope(message: &MessageDescriptor, fields: &[(&str, &[&str])]) -> String {
    let field = |(name, fields): &(&str, &[&str])| {
        let field = fields.iter().find(|field| message.get_field_by_name(field).is_some());
        let field =
            field.map_or_else(|| "None".to_owned(), |field| format!("Some(&mut self.{field})"));
        format!("{name}: {field}, ")
    };
    fields.iter().map(field).collect()
}
