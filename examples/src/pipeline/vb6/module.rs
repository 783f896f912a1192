//! One module: what it declares, and which names it mentions that are not local to a procedure.

use std::collections::BTreeMap;

use super::lex::{Statement, Token, statements};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcedureKind {
    Sub,
    Function,
    PropertyGet,
    PropertyLet,
    PropertySet,
}

impl ProcedureKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sub => "sub",
            Self::Function => "function",
            Self::PropertyGet => "property get",
            Self::PropertyLet => "property let",
            Self::PropertySet => "property set",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Procedure {
    pub(super) name: String,
    pub(super) kind: ProcedureKind,
    pub(super) line: usize,
    pub(super) is_public: bool,
}

/// A procedure of a library (`Declare`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Api {
    pub(super) name: String,
    pub(super) library: String,
    /// As the library calls it.
    pub(super) alias: Option<String>,
    pub(super) is_public: bool,
}

/// A variable or constant of the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Global {
    pub(super) name: String,
    /// Its type, as it is written.
    pub(super) of: Option<String>,
    pub(super) is_public: bool,
}

/// A type or an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) is_public: bool,
}

/// A name that the module mentions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reference {
    /// A type; the first part is a library or module.
    Type { of: Option<String>, name: String },
    /// Anything else, with the member that is taken of it.
    Value { name: String, member: Option<String> },
    /// A member of a local variable that is of a type.
    MemberOfType { of: String, member: String },
    /// A class by the name that the system knows it by: `CreateObject("…")`.
    Object(String),
}

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) is_class: bool,
    pub(super) procedures: Vec<Procedure>,
    pub(super) apis: Vec<Api>,
    pub(super) globals: Vec<Global>,
    pub(super) types: Vec<Type>,
    pub(super) references: Vec<Reference>,
}

impl Module {
    pub(super) fn parse(text: &str) -> Self {
        let mut parser = Parser { module: Self::default(), place: Place::Module };
        let statements = statements(text);
        // Classes and forms begin with lines that are no code.
        let is_designed = statements.first().is_some_and(|it| it.tokens[0].is("VERSION"));
        parser.module.is_class = is_designed;
        let is_code = |it: &Statement| it.tokens[0].is("Attribute");
        let begin = if is_designed { statements.iter().position(is_code) } else { None };
        for statement in &statements[begin.unwrap_or_default()..] {
            parser.read(statement);
        }
        parser.module
    }
}

/// Where a statement stands.
enum Place {
    Module,
    Type,
    Enum {
        is_public: bool,
    },
    /// With the local names in lower case, and their types.
    Procedure(BTreeMap<String, Option<String>>),
}

struct Parser {
    module: Module,
    place: Place,
}

impl Parser {
    fn read(&mut self, statement: &Statement) {
        let tokens = statement.tokens.as_slice();
        let (modifiers, rest) = modifiers(tokens);
        let Some(first) = rest.first() else { return };
        let is = |at: usize, name: &str| rest.get(at).is_some_and(|it| it.is(name));
        match &self.place {
            Place::Type => {
                if is(0, "End") {
                    self.place = Place::Module;
                } else {
                    // Its type and bounds.
                    self.mention(&rest[1..]);
                }
                return;
            }
            Place::Enum { is_public } => {
                let is_public = *is_public;
                if is(0, "End") {
                    self.place = Place::Module;
                } else if let Some(name) = first.name() {
                    let name = name.to_owned();
                    self.module.globals.push(Global { name, of: None, is_public });
                    self.mention(&rest[1..]);
                }
                return;
            }
            Place::Module | Place::Procedure(_) => {}
        }
        if is(0, "Attribute") {
            self.attribute(rest);
        } else if is(0, "Option") || is(0, "Event") || is_default_type(first) {
            // Nothing that the module uses.
        } else if is(0, "Implements") {
            self.mention_type(&rest[1..]);
        } else if is(0, "End") && is_procedure_word(rest.get(1)) {
            self.place = Place::Module;
        } else if is(0, "Declare") {
            self.declare(&rest[1..], modifiers.is_public(true));
        } else if is(0, "Type") && is_named(rest) {
            self.add_type(rest, modifiers.is_public(true));
            self.place = Place::Type;
        } else if is(0, "Enum") && is_named(rest) {
            let is_public = modifiers.is_public(true);
            self.add_type(rest, is_public);
            self.place = Place::Enum { is_public };
        } else if matches!(self.place, Place::Module) && is_procedure_word(Some(first)) {
            self.procedure(statement.line, rest, modifiers.is_public(true));
        } else if is(0, "Const") {
            self.variables(&rest[1..], modifiers.is_public(false));
        } else if modifiers.is_some {
            self.variables(rest, modifiers.is_public(false));
        } else {
            self.mention(rest);
        }
    }

    fn attribute(&mut self, rest: &[Token]) {
        if let [_, name, _, Token::Text(text)] = rest
            && name.is("VB_Name")
        {
            text.clone_into(&mut self.module.name);
        }
    }

    /// What follows `Declare`.
    fn declare(&mut self, rest: &[Token], is_public: bool) {
        let names: Vec<&str> = rest.iter().filter_map(Token::name).collect();
        let kind = |it: &&str| ["sub", "function"].contains(&it.to_ascii_lowercase().as_str());
        let name = names.iter().position(kind).and_then(|at| names.get(at + 1));
        let text = |word: &str| {
            let at = rest.iter().position(|it| it.is(word))?;
            rest.get(at + 1).and_then(Token::text).map(str::to_owned)
        };
        if let (Some(name), Some(library)) = (name, text("Lib")) {
            let (name, alias) = ((*name).to_owned(), text("Alias"));
            self.module.apis.push(Api { name, library, alias, is_public });
        }
        self.mention_types(rest);
    }

    fn add_type(&mut self, rest: &[Token], is_public: bool) {
        if let Some(name) = rest.get(1).and_then(Token::name) {
            self.module.types.push(Type { name: name.to_owned(), is_public });
        }
    }

    fn procedure(&mut self, line: usize, rest: &[Token], is_public: bool) {
        let is = |at: usize, word: &str| rest.get(at).is_some_and(|it| it.is(word));
        let (kind, at) = if is(0, "Sub") {
            (ProcedureKind::Sub, 1)
        } else if is(0, "Function") {
            (ProcedureKind::Function, 1)
        } else if is(1, "Get") {
            (ProcedureKind::PropertyGet, 2)
        } else if is(1, "Let") {
            (ProcedureKind::PropertyLet, 2)
        } else {
            (ProcedureKind::PropertySet, 2)
        };
        let Some(name) = rest.get(at).and_then(Token::name).map(str::to_owned) else { return };
        let mut locals = BTreeMap::from([(name.to_lowercase(), None)]);
        for (name, of) in declared(&rest[at + 1..]) {
            locals.insert(name.to_lowercase(), of);
        }
        self.module.procedures.push(Procedure { name, kind, line, is_public });
        self.place = Place::Procedure(locals);
        // Types, and the defaults of what is optional.
        self.mention(&rest[at + 1..]);
    }

    /// What follows `Dim`, `Const` and the like.
    fn variables(&mut self, rest: &[Token], is_public: bool) {
        for (name, of) in declared(rest) {
            match &mut self.place {
                Place::Procedure(locals) => {
                    locals.insert(name.to_lowercase(), of);
                }
                Place::Module | Place::Type | Place::Enum { .. } => {
                    self.module.globals.push(Global { name, of, is_public });
                }
            }
        }
        // Types, bounds and values.
        self.mention(rest);
    }

    /// Adds what an expression or a statement names.
    fn mention(&mut self, tokens: &[Token]) {
        self.mention_types(tokens);
        let mut before: Option<&Token> = None;
        for (at, token) in tokens.iter().enumerate() {
            let last = before.replace(token);
            let Some(name) = token.name() else { continue };
            if last.is_some_and(names_no_value) {
                continue;
            }
            if token.is("CreateObject") || token.is("GetObject") {
                let inner = tokens[at + 1..].iter().take(3).find_map(Token::text);
                let object = inner.map(|it| Reference::Object(it.to_owned()));
                self.module.references.extend(object);
            }
            let member = tokens.get(at + 1).and_then(Token::member).map(str::to_owned);
            let local = match &self.place {
                Place::Procedure(locals) => locals.get(&name.to_lowercase()),
                Place::Module | Place::Type | Place::Enum { .. } => None,
            };
            let reference = match (local, member) {
                (None, member) => Reference::Value { name: name.to_owned(), member },
                (Some(Some(of)), Some(member)) => {
                    Reference::MemberOfType { of: of.clone(), member }
                }
                (Some(_), _) => continue,
            };
            self.module.references.push(reference);
        }
    }

    /// Adds the types that follow `As`, `New` and `TypeOf … Is`.
    fn mention_types(&mut self, tokens: &[Token]) {
        let is_type_of = tokens.iter().any(|it| it.is("TypeOf"));
        for (at, token) in tokens.iter().enumerate() {
            if token.is("As") || token.is("New") || (is_type_of && token.is("Is")) {
                self.mention_type(&tokens[at + 1..]);
            }
        }
    }

    /// Adds the type that is named first, unless `New` stands before it.
    fn mention_type(&mut self, tokens: &[Token]) {
        let named = tokens.first().filter(|it| !it.is("New")).and_then(Token::name);
        let member = tokens.get(1).and_then(Token::member).map(str::to_owned);
        let reference = named.map(|it| match member {
            Some(name) => Reference::Type { of: Some(it.to_owned()), name },
            None => Reference::Type { of: None, name: it.to_owned() },
        });
        self.module.references.extend(reference);
    }
}

/// Whether a name after this is a type or a label.
fn names_no_value(token: &Token) -> bool {
    ["As", "New", "GoTo", "GoSub"].iter().any(|word| token.is(word))
}

fn is_procedure_word(token: Option<&Token>) -> bool {
    token.is_some_and(|it| ["Sub", "Function", "Property"].iter().any(|word| it.is(word)))
}

/// `DefInt A-Z` and the like.
fn is_default_type(token: &Token) -> bool {
    let name = token.name().unwrap_or_default().to_ascii_lowercase();
    let kinds = ["int", "lng", "str", "bool", "byte", "cur", "sng", "dbl", "date", "obj", "var"];
    name.strip_prefix("def").is_some_and(|kind| kinds.contains(&kind))
}

/// The words before a declaration.
#[derive(Debug, Clone, Copy, Default)]
struct Modifiers {
    is_public: Option<bool>,
    /// Whether there is any.
    is_some: bool,
}

impl Modifiers {
    /// As it says, else `usual`.
    fn is_public(self, usual: bool) -> bool {
        self.is_public.unwrap_or(usual)
    }
}

/// Whether it is a declaration, and no variable that is called `Type` or `Enum`.
fn is_named(rest: &[Token]) -> bool {
    matches!(rest, [_, Token::Name(_)])
}

fn modifiers(tokens: &[Token]) -> (Modifiers, &[Token]) {
    let mut found = Modifiers::default();
    let mut rest = tokens;
    while let [first, after @ ..] = rest {
        let is_any = |words: &[&str]| words.iter().any(|word| first.is(word));
        if is_any(&["Public", "Global"]) {
            found.is_public = Some(true);
        } else if is_any(&["Private"]) {
            found.is_public = Some(false);
        } else if !is_any(&["Friend", "Static", "Dim", "WithEvents"]) {
            break;
        }
        found.is_some = true;
        rest = after;
    }
    (found, rest)
}

/// The names of a list of declarations, and their types: those that begin it, follow a comma outside
/// of brackets, or follow the one that opens a list of parameters.
fn declared(tokens: &[Token]) -> Vec<(String, Option<String>)> {
    let mut all: Vec<(String, Option<String>)> = Vec::new();
    let tokens = match tokens {
        // What follows the list is the procedure's own type.
        [Token::Other('('), ..] => &tokens[1..closing(tokens)],
        _ => tokens,
    };
    let (mut depth, mut is_next) = (0_usize, true);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(') => depth += 1,
            Token::Other(')') => depth = depth.saturating_sub(1),
            Token::Other(',') if depth == 0 => is_next = true,
            Token::Name(name) if is_next && !is_parameter_word(token) => {
                is_next = false;
                all.push((name.clone(), None));
            }
            Token::Name(_) if depth == 0 && token.is("As") => {
                let of = tokens[at + 1..].iter().find(|it| !it.is("New"));
                if let (Some(last), Some(of)) = (all.last_mut(), of.and_then(Token::name)) {
                    last.1 = Some(of.to_owned());
                }
            }
            Token::Name(_)
            | Token::Member(_)
            | Token::Text(_)
            | Token::Number
            | Token::Other(_) => {}
        }
    }
    all
}

fn is_parameter_word(token: &Token) -> bool {
    let words = ["Optional", "ByVal", "ByRef", "ParamArray", "WithEvents"];
    words.iter().any(|word| token.is(word))
}

/// Where the bracket is closed that the tokens begin with.
fn closing(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(') => depth += 1,
            Token::Other(')') if depth == 1 => return at,
            Token::Other(')') => depth = depth.saturating_sub(1),
            Token::Other(_)
            | Token::Name(_)
            | Token::Member(_)
            | Token::Text(_)
            | Token::Number => {}
        }
    }
    tokens.len()
}
