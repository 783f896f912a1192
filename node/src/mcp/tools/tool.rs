//! What a tool is: its arguments, what clients are told of it, and what calling it does.

use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, Tool as ToolListing, ToolAnnotations};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Call,
    arguments::{self, UnknownFields},
};
use crate::{
    role::Refusal,
    toolset::{ToolVisibility, ToolsetChoice},
};

/// A tool. The struct is its arguments; the struct's doc comment is what clients are told of the
/// tool, and a field's doc comment what they are told of the argument.
pub(super) trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    const INFO: ToolInfo;

    type Caller<'a>: Caller<'a>;

    fn call(
        self,
        caller: Self::Caller<'_>,
    ) -> impl Future<Output = Result<CallToolResponse, Refusal>> + Send;
}

/// Who calls, as a tool needs it: found before the arguments are judged.
pub(super) trait Caller<'a>: Sized + Send {
    /// The arguments that name the calling role, but where a tool has its own.
    const ROLE: &'static [RoleArgument];

    fn resolve(call: &'a Call<'a>, tool: &ToolDef) -> Result<Self, Refusal>;
}

/// What a tool is besides its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolInfo {
    pub name: &'static str,
    /// The sets it belongs to: at least one.
    pub sets: &'static [Membership],
    effect: Effect,
    /// The arguments that name the calling role; they are no fields of the tool's struct.
    role: Option<&'static [RoleArgument]>,
}

impl ToolInfo {
    pub(super) const fn read(name: &'static str, sets: &'static [Membership]) -> Self {
        Self { name, sets, effect: Effect::Read, role: None }
    }

    pub(super) const fn write(name: &'static str, sets: &'static [Membership]) -> Self {
        Self { name, sets, effect: Effect::Write, role: None }
    }

    /// What it takes away does not come back by calling another tool.
    pub(super) const fn destroy(name: &'static str, sets: &'static [Membership]) -> Self {
        Self { name, sets, effect: Effect::Destroy, role: None }
    }

    /// It calls a tool of another server, which may do anything.
    pub(super) const fn pass_on(name: &'static str, sets: &'static [Membership]) -> Self {
        Self { name, sets, effect: Effect::PassOn, role: None }
    }

    pub(super) const fn with_role(self, role: &'static [RoleArgument]) -> Self {
        Self { role: Some(role), ..self }
    }
}

/// A tool's place in one toolset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Membership {
    pub set: &'static str,
    /// Listed where at least so much of the set is asked for.
    pub from: ToolVisibility,
}

/// What a tool does to the world, for clients that ask their user before they call one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
    Destroy,
    /// What another server does, which may be anything.
    PassOn,
}

/// An argument that names the role that calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoleArgument {
    pub name: &'static str,
    pub listed: Listed,
    /// For clients; empty: none.
    pub description: &'static str,
}

/// Whether clients are told of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    /// It is taken from those who send it.
    Never,
    Optional,
    Required,
    /// Required where the address does not name the role.
    RequiredOfMany,
}

/// A tool without the type of its arguments.
pub(super) struct ToolDef {
    pub name: &'static str,
    pub sets: &'static [Membership],
    effect: Effect,
    pub role: &'static [RoleArgument],
    schema: fn() -> Value,
    call: for<'a> fn(&'a Self, &'a Call<'a>, &'a UnknownFields) -> Answering<'a>,
    #[cfg(test)]
    read: fn(&rmcp::model::JsonObject, &UnknownFields),
}

type Answering<'a> = BoxFuture<'a, Result<CallToolResponse, Refusal>>;

impl ToolDef {
    pub(super) fn is_read_only(&self) -> bool {
        self.effect == Effect::Read
    }

    pub(super) fn passes_on(&self) -> bool {
        self.effect == Effect::PassOn
    }

    pub(super) const fn new<T: Tool>() -> Self {
        Self {
            name: T::INFO.name,
            sets: T::INFO.sets,
            effect: T::INFO.effect,
            role: match T::INFO.role {
                Some(role) => role,
                None => <T::Caller<'static> as Caller<'static>>::ROLE,
            },
            schema: schema::<T>,
            call: call::<T>,
            #[cfg(test)]
            read: |arguments, unknown| drop(arguments::read::<T>(arguments, unknown)),
        }
    }

    /// Calls it. `unknown` gets the arguments that it does not have.
    pub(super) fn call<'a>(
        &'a self,
        call: &'a Call<'a>,
        unknown: &'a UnknownFields,
    ) -> Answering<'a> {
        (self.call)(self, call, unknown)
    }

    /// The fields of these arguments that it does not have.
    #[cfg(test)]
    pub(super) fn unknown_fields(
        &self,
        arguments: &rmcp::model::JsonObject,
    ) -> std::collections::BTreeSet<String> {
        let unknown = UnknownFields::default();
        (self.read)(arguments, &unknown);
        unknown.into_inner()
    }

    pub(super) fn is_in(&self, set: &str) -> bool {
        self.sets.iter().any(|it| it.set == set)
    }

    /// Whether it belongs to what is to be shown of a chosen set.
    pub(super) fn is_shown(&self, choices: &[ToolsetChoice]) -> bool {
        let by = |choice: &ToolsetChoice, it: &Membership| {
            choice.set == it.set && it.from <= choice.shown
        };
        self.sets.iter().any(|it| choices.iter().any(|choice| by(choice, it)))
    }

    /// As clients are told of it. `is_of_many`: the address does not name the role.
    pub(super) fn listing(&self, is_of_many: bool) -> ToolListing {
        let mut schema = (self.schema)().as_object().cloned().unwrap_or_default();
        let description = schema.remove("description");
        let description =
            description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        for it in self.role.iter().filter(|it| it.listed != Listed::Never) {
            let mut field = json!({ "type": "string" });
            if !it.description.is_empty() {
                field["description"] = it.description.into();
            }
            schema["properties"][it.name] = field;
            let is_required = match it.listed {
                Listed::Never | Listed::Optional => false,
                Listed::Required => true,
                Listed::RequiredOfMany => is_of_many,
            };
            if let (true, Some(required)) = (is_required, schema["required"].as_array_mut()) {
                required.insert(0, it.name.into());
            }
        }
        let mut annotations = ToolAnnotations::new()
            .read_only(self.is_read_only())
            .destructive(matches!(self.effect, Effect::Destroy | Effect::PassOn));
        annotations = annotations.idempotent(!self.passes_on()).open_world(self.passes_on());
        ToolListing::new(self.name, description, Arc::new(schema)).with_annotations(annotations)
    }
}

fn call<'a, T: Tool>(
    tool: &'a ToolDef,
    call: &'a Call<'a>,
    unknown: &'a UnknownFields,
) -> Answering<'a> {
    Box::pin(async move {
        let arguments = arguments::read::<T>(&call.arguments, unknown);
        let caller = T::Caller::resolve(call, tool)?;
        match arguments {
            Ok(arguments) => arguments.call(caller).await,
            Err(error) => Err(error.refusal(&tool.listing(false).input_schema)),
        }
    })
}

/// The JSON Schema of a tool's arguments, as small as it can be: models read it each time.
fn schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    shrink(&mut schema);
    schema
}

/// Takes out what says nothing to a model, and what upsets validators of clients.
fn shrink(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for key in ["$schema", "title", "format", "default"] {
        fields.remove(key);
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|it| !it.is_null());
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    // An optional field is one that is left out.
    if let Some(Value::Array(types)) = fields.get("type")
        && let Some(own) = types.iter().find(|it| *it != "null").cloned()
    {
        fields.insert("type".to_owned(), own);
    }
    if fields.get("type").is_some_and(|it| it == "integer")
        && fields.get("minimum") == Some(&json!(0))
    {
        fields.remove("minimum");
    }
    if fields.get("type").is_some_and(|it| it == "object") {
        fields.entry("properties").or_insert_with(|| json!({}));
        fields.entry("required").or_insert_with(|| json!([]));
        // Whoever sends another field is told.
        fields.remove("additionalProperties");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(shrink);
    }
    fields.get_mut("items").into_iter().for_each(shrink);
}

#[cfg(test)]
mod tests {
    use super::{
        super::{TOOLSETS, shown},
        *,
    };

    #[test]
    fn a_set_in_full_shows_what_its_core_does_not() {
        const READ: &[Membership] = &[Membership { set: "mail", from: ToolVisibility::Core }];
        const SEND: &[Membership] = &[Membership { set: "mail", from: ToolVisibility::Quiet }];
        const PURGE: &[Membership] = &[Membership { set: "mail", from: ToolVisibility::Full }];
        const WAIT: &[Membership] = &[Membership { set: "loop", from: ToolVisibility::Core }];
        const LOOK: &[Membership] = &[
            Membership { set: "swarm-lead", from: ToolVisibility::Core },
            Membership { set: "swarm-worker", from: ToolVisibility::Full },
        ];
        let any = TOOLSETS[0].tools().first().expect("a tool");
        let tools =
            [("read", READ), ("send", SEND), ("purge", PURGE), ("wait", WAIT), ("look", LOOK)]
                .map(|(name, sets)| ToolDef { name, sets, ..*any });
        let names = |choices: &[&str]| {
            let choices: Vec<ToolsetChoice> =
                choices.iter().map(|choice| choice.parse().expect("a toolset")).collect();
            let shown = shown(tools.iter(), &choices);
            shown.into_iter().map(|it| it.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[]), "");
        assert_eq!(names(&["swarm-acceptor"]), "");
        assert_eq!(names(&["mail:quiet", "loop:quiet"]), "send");
        assert_eq!(names(&["mail"]), "read send");
        assert_eq!(names(&["mail:full"]), "purge read send");
        assert_eq!(names(&["swarm-worker"]), "");
        assert_eq!(names(&["swarm-worker:full"]), "look");
        assert_eq!(names(&["swarm-worker", "swarm-lead"]), "look");
        assert_eq!(names(&["loop", "mail"]), "read send wait");
        assert_eq!(names(&["loop:full", "mail", "mail:full"]), "purge read send wait");
    }

    #[test]
    fn a_schema_says_nothing_twice() {
        /// Says it.
        #[derive(serde::Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "its schema alone is looked at")]
        struct Arguments {
            /// What
            /// it is.
            text: String,
            count: Option<u32>,
            #[schemars(range(min = 1))]
            from: Option<u64>,
            parts: Vec<Part>,
        }
        #[derive(serde::Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "its schema alone is looked at")]
        struct Part {
            is_open: Option<bool>,
        }
        let part = json!({
            "type": "object", "properties": { "is_open": { "type": "boolean" } }, "required": [],
        });
        let expected = json!({
            "type": "object",
            "description": "Says it.",
            "properties": {
                "text": { "type": "string", "description": "What it is." },
                "count": { "type": "integer" },
                "from": { "type": "integer", "minimum": 1 },
                "parts": { "type": "array", "items": part },
            },
            "required": ["text", "parts"],
        });
        assert_eq!(schema::<Arguments>(), expected);
    }
}
