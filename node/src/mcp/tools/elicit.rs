//! Asks the user of whoever calls a tool, through its client: yes or no.
//!
//! A client from before 2026-07-28 is asked while its call is held. A later one is answered with
//! the question, and calls again with what its user said; the question's name says what was asked
//! about, so that the answer holds for nothing else.

use std::collections::BTreeMap;

use rmcp::{
    model::{
        CallToolResponse, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, ServerRequest,
    },
    service::PeerRequestOptions,
};
use tasuki_proto::reason::Reason;

use super::{
    Call,
    waiting::{longest, signs_of_life},
};
use crate::{mcp::request_context::is_legacy, role::Refusal};

/// Digits of the hash in a question's name.
const HASH_DIGITS: usize = 32;

/// A question whose answer is yes or no.
#[derive(Debug)]
pub(super) struct Question<'a> {
    /// What it is about begins its name.
    pub kind: &'static str,
    /// All that the answer holds for: something else is another question.
    pub about: &'a [u8],
    /// For the user.
    pub message: String,
    /// "whether …", for the agent whose user did not answer.
    pub whether: &'static str,
    /// For the agent whose user said no.
    pub declined: &'static str,
}

impl Question<'_> {
    pub(super) fn name(&self) -> String {
        let hash = blake3::hash(self.about).to_hex();
        let hash: String = hash.chars().take(HASH_DIGITS).collect();
        format!("{}-{hash}", self.kind)
    }

    fn request(&self) -> ElicitRequest {
        ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.message.clone(),
            // Yes or no is all that is asked.
            requested_schema: ElicitationSchema::new(BTreeMap::new()),
        })
    }

    fn unanswered(&self, why: &str) -> Refusal {
        Refusal {
            reason: Reason::Unavailable,
            message: format!(
                "Your user was asked {}, and did not answer ({why}). Nothing was started. Call again.",
                self.whether
            ),
        }
    }
}

/// Whether the client can show its user a question.
pub(super) fn can_ask(call: &Call<'_>) -> bool {
    let able = call.context.client_capabilities().and_then(|it| it.elicitation);
    // One that says no kind has the first there was.
    able.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// Whether the user says yes. `Some`: the client is to ask its user, and to call again.
///
/// # Errors
/// When nobody says yes.
pub(super) async fn confirm(
    call: &Call<'_>,
    question: &Question<'_>,
) -> Result<Option<CallToolResponse>, Refusal> {
    let said = if is_legacy(call.context) {
        Some(Box::pin(ask(call, question)).await?)
    } else {
        let name = question.name();
        let Some(said) = call.inputs.get(&name) else {
            let request = InputRequest::Elicitation(question.request());
            let asked = InputRequiredResult::from_input_requests([(name, request)].into());
            return Ok(Some(CallToolResponse::InputRequired(asked)));
        };
        serde_json::from_value(said.clone()).ok()
    };
    match said {
        Some(ElicitResult { action: ElicitationAction::Accept, .. }) => Ok(None),
        Some(_) | None => {
            Err(Refusal { reason: Reason::RightForbidden, message: question.declined.to_owned() })
        }
    }
}

/// What the user says.
async fn ask(call: &Call<'_>, question: &Question<'_>) -> Result<ElicitResult, Refusal> {
    let request = ServerRequest::ElicitRequest(question.request());
    let options = PeerRequestOptions::with_timeout(longest(call, None));
    let asking = async {
        let asked = call.context.peer.send_request_with_option(request, options).await?;
        asked.await_response().await
    };
    let said = tokio::select! {
        said = asking => said,
        never = signs_of_life(call, "waiting for your user") => match never {},
        () = call.host.stopping.cancelled() => return Err(question.unanswered("the node stops")),
    };
    match said {
        Ok(ClientResult::ElicitResult(said)) => Ok(said),
        Ok(_) => Err(question.unanswered("the client answered something else")),
        Err(why) => Err(question.unanswered(&why.to_string())),
    }
}
