//! `[[service]]`: what it says, who may say it, and what is wrong in it.

use std::{fs, path::Path, time::Duration};

use serde_json::json;

use super::{
    super::{Config, FILE, Key, Source},
    Layer, around, flag, trust,
};
use crate::service_settings::{Action, SERVICE_TIMEOUT, Service};

fn load_in(place: &Path, content: &str) -> Result<Vec<Service>, Vec<String>> {
    let path = place.join(FILE);
    fs::write(&path, content).unwrap();
    let config = Config::load(Layer::new(), Some(&path), &around(place, &[]));
    let services = config.map(|config| config.services.into_iter().map(|it| it.value).collect());
    services.map_err(|found| {
        let line = |at: &Source| match at {
            Source::File { line, .. } => *line,
            Source::Default | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
                panic!("{at}")
            }
        };
        found.iter().map(|it| format!("{}: {}", line(&it.at), it.message)).collect()
    })
}

/// A file as its services, or what is wrong with each line of it.
fn load(content: &str) -> Result<Vec<Service>, Vec<String>> {
    load_in(tempfile::tempdir().unwrap().path(), content)
}

#[test]
fn a_service_is_read_with_its_defaults() {
    let place = tempfile::tempdir().unwrap();
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } } });
    fs::write(place.path().join("plan.json"), schema.to_string()).unwrap();
    let text = r#"
roles = ["pm", "qa"]

[[service]]
role = "pm"
name = "plan_task"
description = "Plans a task."
agent = "planner"
prompt = "Plan this: {input.task}"
input = { type = "object", properties = { task = { type = "string", minLength = 1 } } }
output = "plan.json"

[[service]]
role = "qa"
name = "check"
timeout = "90s"
callers = ["dev*"]

[[service.steps]]
as = "found"
tool = "files__read_text_file"
arguments = { path = "{input.path}", lines = 3 }

[[service.steps]]
agent = "reviewer"
prompt = "{found} {previous} {input} {attempt_key} {{input.path}}"
on = "gpu"
"#;
    let services = load_in(place.path(), text).unwrap();
    let [plan, check] = &services[..] else { panic!("{services:?}") };
    assert_eq!((plan.timeout, plan.callers.is_empty()), (SERVICE_TIMEOUT, true));
    assert_eq!(plan.output, Some(schema.clone()));
    assert_eq!(plan.steps[0].output, Some(schema));
    assert_eq!(plan.input["properties"]["task"]["minLength"], 1);
    assert!(plan.runs_here() && !check.runs_here());
    assert_eq!((check.timeout, check.output.as_ref()), (Duration::from_secs(90), None));
    assert_eq!(check.input["type"], "object");
    assert_eq!(check.steps[0].name.as_deref(), Some("found"));
    assert!(
        matches!(&check.steps[0].action, Action::Tool { tool, .. } if tool == "files__read_text_file")
    );
    let roles = ["dev1", "lead", "qa"].map(|it| check.allows(&it.parse().unwrap()));
    assert_eq!(roles, [true, false, true]);
}

#[test]
fn a_services_role_and_name_are_known_from_the_files_roles() {
    let text = "[[service]]\nrole = \"pm\"\nname = \"x\"\ntool = \"a__b\"\n";
    let found = load(&format!("roles = [\"dev\"]\n{text}")).unwrap_err();
    assert_eq!(found, ["2: `service` pm__x is of pm, which is not among the roles: dev"]);
    // One file may be of several nodes.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    fs::write(&path, text).unwrap();
    let roles = |roles: &str| {
        let config = Config::load(flag(Key::Roles, roles), Some(&path), &around(place.path(), &[]));
        config.unwrap()
    };
    assert_eq!((roles("dev").services.len(), roles("pm").services.len()), (0, 1));
    assert_eq!(roles("dev").idle_services.len(), 1);
    // A command elsewhere that knows nothing of roles is not kept from its work.
    assert!(load(text).unwrap().is_empty());
    // Who offers services has a use for the tools of others.
    let sets: Vec<&str> = roles("pm").roles.value[0].toolsets.iter().map(|it| it.set).collect();
    assert!(sets.contains(&"gateway"), "{sets:?}");
}

#[test]
fn what_is_wrong_with_a_service_is_said_with_its_line() {
    let service = |more: &str| {
        format!("roles = [\"pm\"]\n[[service]]\nrole = \"pm\"\nname = \"x\"\n{more}\n")
    };
    let both = "agent = \"a\"\nprompt = \"p\"\n";
    let tool = "tool = \"a__b\"";
    let typed = "input = { properties = { task = { type = \"string\" } } }\n";
    let steps = |all: &str| service(&format!("steps = [\n{all}\n]"));
    let many = format!("{{ {tool} }},").repeat(17);
    for (text, why) in [
        ("service = 1".to_owned(), "1: `service` takes tables, at most 200: write [[service]]"),
        ("[[service]]\n".to_owned(), "1: `service` lacks `role`"),
        ("[[service]]\nrole = \"pm\"\n".to_owned(), "1: `service` lacks `name`"),
        ("[[service]]\nrole = \"a b\"\n".to_owned(), "2: `service` has `role`, which is \"a b\""),
        (service("name2 = \"y\""), "5: `service` has no setting \"name2\"; there are role, name"),
        (service(""), "2: `service` pm__x says nothing to do; it takes `agent`, `tool` or `steps`"),
        (service(&format!("{both}{tool}")), "2: `service` pm__x has both `agent` and `tool`"),
        (service("agent = \"a\""), "2: `service` pm__x has `agent` without `prompt`"),
        (service("agent = \"\"\nprompt = \"p\""), "5: `service` has `agent`, which is empty"),
        (service(&format!("{tool}\nprompt = \"p\"")), "`model` or `on`, which belong to `agent`"),
        (service(&format!("{both}arguments = {{}}")), "has `arguments`, which belong to `tool`"),
        (
            service(&format!("{both}runner = \"py\"")),
            "2: `service` pm__x has `runner`, which is \"py\"; there are ",
        ),
        (service(&format!("{both}on = \"a b\"")), "7: `service` has `on`, which is \"a b\""),
        (service("tool = \"read\""), "5: `service` has `tool`, which is \"read\"; it takes a name"),
        (service("tool = \"pm__x\""), "2: `service` pm__x calls itself"),
        (service(&format!("{tool}\nsteps = []")), "takes a list of 1 to 16 tables"),
        (
            service(&format!("{tool}\nsteps = [{{ {tool} }}]")),
            "has `steps` beside `agent` or `tool`",
        ),
        (steps(&many), "takes a list of 1 to 16 tables"),
        (steps("{ as = \"a\" }"), "6: `service.steps` says nothing to do"),
        (
            steps("{ as = \"input\", tool = \"a__b\" }"),
            "6: `service.steps` has `as`, which is \"input\"",
        ),
        (
            steps("{ as = \"a\", tool = \"a__b\" },\n{ as = \"a\", tool = \"a__b\" }"),
            "7: `service` pm__x has step 2, which has `as` \"a\", which is taken",
        ),
        (
            steps("{ tool = \"a__b\" },\n{ tool = \"a__b\", output = {} }"),
            "7: `service` pm__x has `output` in its last step",
        ),
        (
            steps("{ as = \"a\", tool = \"a__b\", arguments = { x = \"{previous}\" } }"),
            "6: `service` pm__x has the place {previous}, which is no value here",
        ),
        (
            service("agent = \"a\"\n\nprompt = \"{tsak}\""),
            "7: `service` pm__x has the place {tsak}, which is no value here; there are \
             attempt_key, input. Write {{tsak}} for the text itself",
        ),
        (
            service(&format!("{typed}agent = \"a\"\nprompt = \"{{input.tsak}}\"")),
            "7: `service` pm__x has the place {input.tsak}, which names \"tsak\", which the schema \
             does not have; there are task",
        ),
        (
            steps(
                "{ as = \"a\", agent = \"b\", prompt = \"p\" },\n{ agent = \"b\", prompt = \"{a.x}\" }",
            ),
            "7: `service` pm__x has step 2, which has the place {a.x}, which names \"x\" of a value",
        ),
        (
            service(&format!("{tool}\ninput = {{ type = \"string\" }}")),
            "6: `service` has `input`, which describes no object",
        ),
        (
            service(&format!("{tool}\noutput = {{ type = \"strin\" }}")),
            "6: `service` has `output`, which is a JSON Schema that is not a valid",
        ),
        (
            service(&format!("{tool}\noutput = \"no.json\"")),
            "which names \"no.json\", which cannot be read",
        ),
        (
            service(&format!("{tool}\ntimeout = \"2d\"")),
            "6: `service` has `timeout`, which is 2d; it takes 1s to 1d",
        ),
        (
            service(&format!("{tool}\ncallers = [\"a*b\"]")),
            "6: `service` has `callers`, which has \"a*b\"",
        ),
        (
            service(&format!("{tool}\narguments = {{ at = nan }}")),
            "has a number that JSON does not know",
        ),
        (
            service(&format!("{tool}\n[[service]]\nrole = \"pm\"\nname = \"x\"\n{tool}")),
            "6: `service` pm__x is there twice",
        ),
        (
            service(&format!("{tool}\n[[gateway.server]]\nname = \"PM\"\ncommand = [\"x\"]")),
            "2: `service` pm__x would be called like a tool of the server pm; rename one of them",
        ),
        (
            format!(
                "roles = [\"pm\"]\n[[service]]\nrole = \"pm\"\nname = \"{}\"\n{tool}",
                "y".repeat(45)
            ),
            "it takes at most 48 letters, digits, `-` and `_`",
        ),
        (
            format!("[[service]]\nrole = \"pm\"\nname = \"a__b\"\n{tool}"),
            "3: `service` has `name`, which is \"a__b\"; it takes letters",
        ),
    ] {
        let found = load(&text).unwrap_err();
        assert!(found[0].contains(why), "{text}: {found:?}");
    }
}

#[test]
fn services_are_the_operators_to_declare() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = flag(Key::Data, &kept.path().to_string_lossy());
    let load = || Config::load(data.clone(), None, &around(place.path(), &[])).unwrap();
    let of = |name: &str| {
        format!(
            "roles = [\"pm\"]\n[[service]]\nrole = \"pm\"\nname = \"{name}\"\ntool = \"a__b\"\n"
        )
    };
    // What a repository says is not even looked at.
    fs::write(place.path().join(FILE), of("theirs") + "prompt = 1\n").unwrap();
    let config = load();
    assert!(config.services.is_empty());
    let why = config.services_distrust.unwrap();
    assert!(why.message.starts_with("`service` is not taken from a file that happens to be in"));
    assert!(matches!(why.at, Source::File { line: 2, .. }), "{}", why.at);
    // The operator declares them in the file that the repository's hides.
    fs::write(kept.path().join(FILE), of("ours")).unwrap();
    let names = || load().services.iter().map(|it| it.value.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(), ["ours"]);
    // One that is trusted declares them itself.
    fs::write(place.path().join(FILE), of("theirs")).unwrap();
    trust(place.path());
    assert_eq!(names(), ["theirs"]);
}
