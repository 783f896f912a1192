//! `tasuki take-over`: a person gives a role to another agent.

use serde_json::Value;
use tasuki_proto::{
    id::{InstanceId, RoleId},
    reason::Reason,
};

use super::{
    Failure, Output, hosting,
    reach::{self, Given, Shown},
    text::line,
};
use crate::{
    agent_tokens::Bearing,
    config::Config,
    mcp::ask::{Error, post},
    paths::NodeFile,
};

/// Give a role to another agent than the one that plays it.
///
/// One agent at a time plays a role, unless the role is declared `shared`. Another one is
/// refused until the first has ended its session, or was quiet for a quarter of an hour. This
/// ends that at once: the first agent's wait ends, its later calls are refused, and a turn that
/// is held stays with the role. Agents are told apart by `?as=ID` in the address they connect
/// to, or `tasuki mcp --as ID`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The role to give
    #[arg(long, value_name = "ROLE")]
    role: RoleId,
    /// The agent that gets it [default: the one that connects without an id]
    #[arg(long = "as", value_name = "ID")]
    instance: Option<InstanceId>,
    #[command(flatten)]
    given: Given,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let Args { role, instance, given } = args;
    let data = &config.data.value;
    let file = NodeFile::read(data);
    let node = reach::elsewhere(&given, &Shown::of_process(None), file.as_ref())?;
    let here = || file.map(|file| reach::running(file, data, &Bearing::Node));
    let node = node.or_else(here).ok_or_else(|| reach::nowhere(data))?;
    let query = instance.as_ref().map(|id| format!("?as={id}")).unwrap_or_default();
    let told = post(&node, &format!("/take-over/{role}{query}")).await;
    let told = told.map_err(|why| {
        let text = hosting::sentence(&why);
        match why {
            Error::Address(_) => Failure::usage(text),
            Error::NoNode { .. } => Failure::reason(Reason::Unavailable, text),
            Error::Refused { reason: Some(reason), message } => Failure::reason(reason, message),
            Error::Refused { reason: None, .. }
            | Error::Unreadable { .. }
            | Error::Unsafe { .. } => Failure::local(text),
        }
    })?;
    let who = instance.map_or_else(|| "the agent without an id".to_owned(), |id| id.to_string());
    output.answer(|| told.clone(), || sentence(&role, &who, &told))
}

fn sentence(role: &RoleId, who: &str, told: &Value) -> String {
    let from = match told.get("from").and_then(Value::as_object) {
        None => "nobody else was playing it".to_owned(),
        Some(from) => {
            let client = from["client"].as_str().filter(|client| !client.is_empty());
            let id = from["instance"].as_str().unwrap_or("without an id");
            format!("until now {} ({id}) played it", client.unwrap_or("an agent"))
        }
    };
    line(&format!("{role} is played by {who}; {from}.")) + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_is_told_who_lost_the_role() {
        let role = "B".parse().unwrap();
        for (from, expected) in [
            (json!(null), "B is played by x; nobody else was playing it.\n"),
            (
                json!({ "instance": "y", "client": "codex\n 1" }),
                "B is played by x; until now codex 1 (y) played it.\n",
            ),
            (
                json!({ "instance": null, "client": "" }),
                "B is played by x; until now an agent (without an id) played it.\n",
            ),
        ] {
            assert_eq!(sentence(&role, "x", &json!({ "from": from })), expected);
        }
    }
}
