//! What other MCP servers offer at an address: their prompts and resources beside the node's own, and
//! how they reach the client of whoever calls.
//!
//! Prompts are named as tools are (`server__prompt`); a resource's address begins with its server's
//! name and `+`. Which a role is shown goes by what it may call of the server's tools.
//!
//! Not here: tools (`tools/gateway`).

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::{
    ErrorData, RoleServer, ServiceError,
    model::{
        ClientCapabilities, ClientRequest, ClientResult, CreateMessageRequest, ElicitRequest,
        GetPromptRequest, GetPromptRequestParams, GetPromptResponse,
        LoggingMessageNotificationParam, ProgressNotificationParam, Prompt, ReadResourceRequest,
        ReadResourceRequestParams, ReadResourceResponse, RequestMetaObject, Resource,
        ResourceTemplate, ServerRequest, ServerResult,
    },
    service::RequestContext,
};
use tasuki_proto::id::RoleId;

use super::{
    host::{Host, Scope},
    request_context::is_legacy,
};
use crate::{
    gateway::{Asked, Caller, Catalogue, Server, Told, names::split, split_uri},
    toolset::{GATEWAY, ToolVisibility, ToolsetChoice},
};

/// The roles of an address that have the toolset.
pub(super) fn callers<'a>(host: &'a Host, scope: &'a Scope) -> Vec<&'a RoleId> {
    let mut roles = scope.roles(host);
    roles.retain(|role| host.has_set(role, GATEWAY));
    roles
}

/// Whether an address shows anything of other servers.
pub(super) fn is_shown(host: &Host, scope: &Scope) -> bool {
    host.gateway.is_some() && !callers(host, scope).is_empty()
}

/// What there is, and whether an address may read what a server has beside tools.
async fn offered<'a>(
    host: &'a Host,
    scope: &'a Scope,
) -> Option<(Arc<Catalogue>, impl Fn(&Server) -> bool + 'a)> {
    let roles = callers(host, scope);
    let gateway = host.gateway.as_ref().filter(|_| !roles.is_empty())?;
    let sees = move |it: &Server| roles.iter().all(|role| it.settings.access.sees(role));
    Some((gateway.settled().await, sees))
}

/// Whether an address lists all tools of servers.
pub(super) fn lists_all(host: &Host, scope: &Scope) -> bool {
    let is_full = |it: &ToolsetChoice| it.set == GATEWAY && it.shown == ToolVisibility::Full;
    host.gateway.is_some() && scope.toolsets(host).iter().any(is_full)
}

pub(super) async fn prompts(host: &Host, scope: &Scope) -> Vec<Prompt> {
    let Some((catalogue, sees)) = offered(host, scope).await else { return Vec::new() };
    let prompts = catalogue.prompts.values().filter(|it| sees(&it.server));
    prompts.map(|it| it.listing.clone()).collect()
}

pub(super) async fn resources(host: &Host, scope: &Scope) -> Vec<Resource> {
    let Some((catalogue, sees)) = offered(host, scope).await else { return Vec::new() };
    let resources = catalogue.resources.iter().filter(|(server, _)| sees(server));
    resources.map(|(_, it)| it.clone()).collect()
}

pub(super) async fn templates(host: &Host, scope: &Scope) -> Vec<ResourceTemplate> {
    let Some((catalogue, sees)) = offered(host, scope).await else { return Vec::new() };
    let templates = catalogue.templates.iter().filter(|(server, _)| sees(server));
    templates.map(|(_, it)| it.clone()).collect()
}

/// A server's prompt; `None`: it is none of this address.
pub(super) async fn get_prompt(
    host: &Host,
    scope: &Scope,
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    // The node's own are not waited for.
    split(&request.name)?;
    let (catalogue, sees) = offered(host, scope).await?;
    let prompt = catalogue.prompts.get(&request.name).filter(|it| sees(&it.server))?;
    let mut request = request.clone();
    request.name.clone_from(&prompt.own);
    request.meta = passed(context);
    let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(request));
    let server = &*prompt.server;
    Some(match ask(host, scope, server, request, context).await {
        Ok(ServerResult::GetPromptResult(it)) => Ok(GetPromptResponse::Complete(it)),
        Ok(ServerResult::InputRequiredResult(it)) => Ok(GetPromptResponse::InputRequired(it)),
        Ok(_) => Err(server.error("answered with what is no prompt")),
        Err(error) => Err(error),
    })
}

/// A server's resource; `None`: its address is of no server of this address.
pub(super) async fn read(
    host: &Host,
    scope: &Scope,
    request: &ReadResourceRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<ReadResourceResponse, ErrorData>> {
    let (server, own) = split_uri(&request.uri)?;
    let server = host.gateway.as_ref()?.server(server)?;
    let (_, sees) = offered(host, scope).await?;
    if !sees(server) {
        return None;
    }
    let mut request = request.clone();
    own.clone_into(&mut request.uri);
    request.meta = passed(context);
    let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(request));
    Some(match ask(host, scope, server, request, context).await {
        Ok(ServerResult::ReadResourceResult(it)) => Ok(ReadResourceResponse::Complete(it)),
        Ok(ServerResult::InputRequiredResult(it)) => Ok(ReadResourceResponse::InputRequired(it)),
        Ok(_) => Err(server.error("answered with what is no resource")),
        Err(error) => Err(error),
    })
}

async fn ask(
    host: &Host,
    scope: &Scope,
    server: &Server,
    request: ClientRequest,
    context: &RequestContext<RoleServer>,
) -> Result<ServerResult, ErrorData> {
    // It takes a place among the calls of a role, as a tool's call does.
    let place = callers(host, scope).first().map(|role| host.admit(role)).transpose();
    let _place = place.map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
    server.request(request, &capabilities(context), &AgentCaller { context }).await
}

/// What the caller's client can do, of what a server may make use of. Tasks are not among it: what
/// becomes of one is asked of whoever made it.
pub(super) fn capabilities(context: &RequestContext<RoleServer>) -> ClientCapabilities {
    let own = context.client_capabilities().unwrap_or_default();
    let mut passed = ClientCapabilities::default();
    passed.elicitation = own.elicitation;
    passed.sampling = own.sampling;
    passed
}

/// What the caller's client said beside its request, without what is between it and this node.
pub(super) fn passed(context: &RequestContext<RoleServer>) -> Option<RequestMetaObject> {
    let mut meta = context.meta.clone();
    meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/") && name != "progressToken");
    (!meta.is_empty()).then_some(meta)
}

/// The agent's client, as a server reaches it.
pub(super) struct AgentCaller<'a> {
    pub(super) context: &'a RequestContext<RoleServer>,
}

impl AgentCaller<'_> {
    async fn request(&self, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        let asked = self.context.peer.send_request(request).await;
        match asked {
            Ok(said) => Ok(said),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(why) => {
                let why = format!("the calling client did not answer: {why}");
                Err(ErrorData::internal_error(why, None))
            }
        }
    }
}

#[async_trait]
impl Caller for AgentCaller<'_> {
    async fn progress(&self, mut progress: ProgressNotificationParam) {
        if let Some(token) = self.context.meta.get_progress_token() {
            progress.progress_token = token;
            // A client that is gone needs none.
            self.context.peer.notify_progress(progress).await.ok();
        }
    }

    async fn log(&self, message: LoggingMessageNotificationParam) {
        if is_legacy(self.context) {
            self.context.peer.notify_logging_message(message).await.ok();
        }
    }

    async fn ask(&self, what: Asked) -> Result<Told, ErrorData> {
        let able = self.context.client_capabilities().unwrap_or_default();
        let cannot = |what: &str| {
            let why = format!("the calling client cannot {what}");
            Err(ErrorData::invalid_request(why, None))
        };
        if !is_legacy(self.context) {
            return cannot("be asked while its call is held");
        }
        match what {
            Asked::Elicit(params) => {
                if able.elicitation.is_none() {
                    return cannot("ask its user");
                }
                let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
                match self.request(request).await {
                    Ok(ClientResult::ElicitResult(said)) => Ok(Told::Elicited(said)),
                    Ok(_) => cannot("answer that"),
                    Err(error) => Err(error),
                }
            }
            Asked::Sample(params) => {
                if able.sampling.is_none() {
                    return cannot("ask its model");
                }
                let request = CreateMessageRequest::new(*params);
                match self.request(ServerRequest::CreateMessageRequest(request)).await {
                    Ok(ClientResult::CreateMessageResult(said)) => Ok(Told::Sampled(said)),
                    Ok(_) => cannot("answer that"),
                    Err(error) => Err(error),
                }
            }
        }
    }
}
