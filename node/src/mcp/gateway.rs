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
        CancelTaskParams, CancelTaskRequest, ClientCapabilities, ClientRequest, ClientResult,
        CompleteRequest, CompleteRequestParams, CompleteResult, CreateMessageRequest,
        ElicitRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskRequest, GetTaskResult, Implementation, JsonObject, LoggingMessageNotificationParam,
        ProgressNotificationParam, Prompt, ReadResourceRequest, ReadResourceRequestParams,
        ReadResourceResponse, Reference, RequestMetaObject, Resource, ResourceTemplate,
        ServerCapabilities, ServerConfig, ServerRequest, ServerResult, SetLevelRequestMethod,
        SetLevelRequestParams, Task, Tool, UpdateTaskParams, UpdateTaskRequest,
    },
    service::RequestContext,
};
use tasuki_proto::id::RoleId;

use super::{
    host::{Host, Scope},
    request_context::{is_legacy, takes_tasks},
    resources::ServerResource,
    tasks::ServerTask,
};
use crate::{
    gateway::{Asked, Caller, Catalogue, Offer, Server, Shown, Told, names::split, split_uri},
    role::player::Instance,
    toolset::{GATEWAY, ToolVisibility, ToolsetChoice},
};

/// The longest URI that a client may subscribe to, in bytes.
const URI_BYTES_MAX: usize = 4 * 1024;

/// The roles of an address that have the toolset.
pub(super) fn callers<'a>(host: &'a Host, scope: &'a Scope) -> Vec<&'a RoleId> {
    let mut roles = scope.roles(host);
    roles.retain(|role| host.has_set(role, GATEWAY));
    roles
}

/// What a role is served of one server; `None`: it has no such server.
pub(super) fn scope_of_server(host: &Host, role: &RoleId, name: &str) -> Option<Scope> {
    let actions = host.roles.get(role).filter(|_| host.has_set(role, GATEWAY))?;
    let server = host.gateway.as_ref()?.server(name)?;
    let sees = server.settings.access.sees(role);
    sees.then(|| Scope::Server(Arc::clone(actions), Arc::clone(server)))
}

/// Whether an address shows anything of other servers.
pub(super) fn is_shown(host: &Host, scope: &Scope) -> bool {
    host.gateway.is_some() && !callers(host, scope).is_empty()
}

/// Whether an address may read what a server has beside tools.
fn sees(host: &Host, scope: &Scope, server: &Server) -> bool {
    let roles = callers(host, scope);
    !roles.is_empty() && roles.iter().all(|role| server.settings.access.sees(role))
}

/// What there is, where an address shows more than one server.
async fn catalogue(host: &Host, scope: &Scope) -> Option<Arc<Catalogue>> {
    let gateway = host.gateway.as_ref().filter(|_| is_shown(host, scope))?;
    Some(gateway.settled().await)
}

/// What the one server of an address offers, while it can be reached.
async fn offer_of_one(host: &Host, scope: &Scope) -> Option<Arc<Offer>> {
    let server = scope.server()?;
    settled(host, scope).await;
    let view = server.view();
    let is_online = view.shown() == Shown::Online && sees(host, scope, server);
    Some(if is_online { view.offer } else { Arc::default() })
}

/// Waits until it is known what the one server of an address offers, right after the start.
pub(super) async fn settled(host: &Host, scope: &Scope) {
    if let (Some(_), Some(gateway)) = (scope.server(), &host.gateway) {
        gateway.settled().await;
    }
}

/// What the one server of an address says of itself to a client. Its instructions are not passed on:
/// nobody approved them.
pub(super) fn server_info(server: &Server) -> ServerConfig {
    // Of one that said nothing yet, everything is possible.
    let has = server.view().capabilities.unwrap_or_else(|| {
        ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tasks()
            .build()
    });
    let mut capabilities =
        ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
    if has.prompts.is_some() {
        let prompts = ServerCapabilities::builder().enable_prompts().enable_prompts_list_changed();
        capabilities.prompts = prompts.build().prompts;
    }
    if let Some(resources) = &has.resources {
        let mut own = ServerCapabilities::builder()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        if let Some(own) = &mut own.resources {
            own.subscribe = resources.subscribe;
        }
        capabilities.resources = own.resources;
    }
    if has.supports_tasks() {
        capabilities.extensions = ServerCapabilities::builder().enable_tasks().build().extensions;
    }
    capabilities.completions = has.completions.map(|_| JsonObject::new());
    capabilities.logging = has.logging.map(|_| JsonObject::new());
    let mut info = ServerConfig::new(capabilities);
    info.server_info = Implementation::new("tasuki", env!("CARGO_PKG_VERSION"));
    info.server_info.title = Some(server.name().to_owned());
    info
}

/// Whether any server completes arguments.
pub(super) fn has_completions(host: &Host, scope: &Scope) -> bool {
    let completes =
        |it: &Arc<Server>| it.can(|has| has.completions.is_some()) && sees(host, scope, it);
    let gateway = host.gateway.as_ref().filter(|_| is_shown(host, scope));
    gateway.is_some_and(|it| it.servers().iter().any(completes))
}

/// Whether an address lists all tools of servers.
pub(super) fn lists_all(host: &Host, scope: &Scope) -> bool {
    let is_full = |it: &ToolsetChoice| it.set == GATEWAY && it.shown == ToolVisibility::Full;
    host.gateway.is_some() && scope.toolsets(host).iter().any(is_full)
}

pub(super) async fn prompts(host: &Host, scope: &Scope) -> Vec<Prompt> {
    if let Some(offer) = offer_of_one(host, scope).await {
        return offer.prompts.clone();
    }
    let Some(catalogue) = catalogue(host, scope).await else { return Vec::new() };
    let prompts = catalogue.prompts.values().filter(|it| sees(host, scope, &it.server));
    prompts.map(|it| it.listing.clone()).collect()
}

pub(super) async fn resources(host: &Host, scope: &Scope) -> Vec<Resource> {
    if let Some(offer) = offer_of_one(host, scope).await {
        return offer.resources.clone();
    }
    let Some(catalogue) = catalogue(host, scope).await else { return Vec::new() };
    let resources = catalogue.resources.iter().filter(|(server, _)| sees(host, scope, server));
    resources.map(|(_, it)| it.clone()).collect()
}

pub(super) async fn templates(host: &Host, scope: &Scope) -> Vec<ResourceTemplate> {
    if let Some(offer) = offer_of_one(host, scope).await {
        return offer.templates.clone();
    }
    let Some(catalogue) = catalogue(host, scope).await else { return Vec::new() };
    let templates = catalogue.templates.iter().filter(|(server, _)| sees(host, scope, server));
    templates.map(|(_, it)| it.clone()).collect()
}

/// The server whose prompt has this name at an address, and the server's own name for it.
async fn prompt_at(host: &Host, scope: &Scope, name: &str) -> Option<(Arc<Server>, String)> {
    if let Some(server) = scope.server().filter(|it| sees(host, scope, it)) {
        return Some((Arc::clone(server), name.to_owned()));
    }
    // The node's own are not waited for.
    split(name)?;
    let catalogue = catalogue(host, scope).await?;
    let prompt = catalogue.prompts.get(name).filter(|it| sees(host, scope, &it.server))?;
    Some((Arc::clone(&prompt.server), prompt.own.clone()))
}

/// The server whose resource, or template of some, is at a URI of an address, and the server's own URI
/// for it.
fn resource_at<'a>(
    host: &'a Host,
    scope: &'a Scope,
    uri: &'a str,
) -> Option<(&'a Arc<Server>, &'a str)> {
    let (server, own) = match scope.server() {
        Some(server) => (server, uri),
        None => {
            let (server, own) = split_uri(uri)?;
            (host.gateway.as_ref()?.server(server)?, own)
        }
    };
    sees(host, scope, server).then_some((server, own))
}

/// A resource that a client may subscribe to. `None`: there is none at this URI of an address.
pub(super) fn subject(host: &Host, scope: &Scope, uri: &str) -> Option<ServerResource> {
    let (server, own) = resource_at(host, scope, uri)?;
    let can_subscribe =
        server.can(|has| has.resources.as_ref().is_some_and(|it| it.subscribe == Some(true)));
    let is_plain = uri.len() <= URI_BYTES_MAX && !uri.contains(char::is_control);
    let (server, own, shown) = (server.name().to_owned(), own.to_owned(), uri.to_owned());
    (can_subscribe && is_plain).then_some(ServerResource { server, own, shown })
}

/// A server's prompt; `None`: it is none of this address.
pub(super) async fn get_prompt(
    host: &Host,
    scope: &Scope,
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    let (server, own) = prompt_at(host, scope, &request.name).await?;
    let mut request = request.clone();
    request.name = own;
    request.meta = passed(context);
    let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(request));
    Some(match ask(host, scope, &server, request, context).await {
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
    let (server, own) = resource_at(host, scope, &request.uri)?;
    let mut request = request.clone();
    request.uri = own.to_owned();
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
    server.request(request, &AgentCaller { context }).await
}

/// What completes an argument of a prompt or of a template of resources.
pub(super) async fn complete(
    host: &Host,
    scope: &Scope,
    mut request: CompleteRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CompleteResult, ErrorData> {
    let server = match &mut request.r#ref {
        Reference::Prompt(prompt) => prompt_at(host, scope, &prompt.name).await.map(|it| {
            prompt.name = it.1;
            it.0
        }),
        Reference::Resource(template) => {
            let uri = template.uri.clone();
            resource_at(host, scope, &uri).map(|(server, own)| {
                own.clone_into(&mut template.uri);
                Arc::clone(server)
            })
        }
        _ => None,
    };
    // Nothing of this node's own is completed.
    let Some(server) = server else { return Ok(CompleteResult::default()) };
    request.meta = passed(context);
    let request = ClientRequest::CompleteRequest(CompleteRequest::new(request));
    match ask(host, scope, &server, request, context).await {
        Ok(ServerResult::CompleteResult(result)) => Ok(result),
        Ok(_) => Err(server.error("answered with what completes nothing")),
        Err(error) => Err(error),
    }
}

/// How much the one server of an address logs: of all its calls, so the last to say counts.
pub(super) async fn set_level(
    host: &Host,
    scope: &Scope,
    request: SetLevelRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let logs = |it: &&Arc<Server>| it.can(|has| has.logging.is_some()) && sees(host, scope, it);
    let server = scope.server().filter(logs);
    let server = server.ok_or_else(ErrorData::method_not_found::<SetLevelRequestMethod>)?;
    server.set_log_level(request.level, &AgentCaller { context }).await
}

/// What an address lists of a server's tool.
pub(super) fn listing(host: &Host, scope: &Scope, name: &str) -> Option<Tool> {
    match scope.server() {
        Some(server) => server.view().offer.tools.iter().find(|it| it.name == name).cloned(),
        None => Some(host.gateway.as_ref()?.catalogue().tool(name)?.listing.clone()),
    }
}

/// Gives a server's task the id by which the caller's client asks about it.
pub(super) fn wrap_task(
    host: &Host,
    role: &RoleId,
    who: &Instance,
    server: &str,
    task: &mut Task,
) -> Result<(), ErrorData> {
    let own_id = task.task_id.clone();
    let incarnation =
        host.gateway.as_ref().and_then(|it| it.server(server)).map_or(0, |it| it.incarnation());
    let own = ServerTask { role: role.clone(), server: server.to_owned(), incarnation, own_id };
    task.task_id = host.tasks.id_of_server(&own, who).ok_or_else(|| {
        ErrorData::internal_error(format!("the server {server} made a task with a long id"), None)
    })?;
    Ok(())
}

/// How a server's task stands, under the id by which the client knows it.
pub(super) async fn get_task(
    host: &Host,
    task: &ServerTask,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<GetTaskResult, ErrorData> {
    let request = GetTaskRequest::new(GetTaskParams::new(task.own_id.clone()));
    let (server, result) =
        ask_about(host, task, ClientRequest::GetTaskRequest(request), context).await?;
    let ServerResult::GetTaskResult(mut result) = result else {
        return Err(server.error("answered with what is no task"));
    };
    id.clone_into(&mut result.task.task.task_id);
    Ok(result)
}

pub(super) async fn update_task(
    host: &Host,
    task: &ServerTask,
    mut request: UpdateTaskParams,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    request.task_id.clone_from(&task.own_id);
    request.meta = passed(context);
    let request = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(request));
    ask_about(host, task, request, context).await.map(|_| ())
}

pub(super) async fn cancel_task(
    host: &Host,
    task: &ServerTask,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let request = CancelTaskRequest::new(CancelTaskParams::new(task.own_id.clone()));
    ask_about(host, task, ClientRequest::CancelTaskRequest(request), context).await.map(|_| ())
}

async fn ask_about(
    host: &Host,
    task: &ServerTask,
    request: ClientRequest,
    context: &RequestContext<RoleServer>,
) -> Result<(Arc<Server>, ServerResult), ErrorData> {
    let server = host.gateway.as_ref().and_then(|it| it.server(&task.server));
    // What the role may see, and the server itself, may be others by now.
    let server = server.filter(|it| {
        it.incarnation() == task.incarnation
            && host.has_set(&task.role, GATEWAY)
            && it.settings.access.sees(&task.role)
    });
    let unknown = || ErrorData::invalid_params("there is no such task", None);
    let server = Arc::clone(server.ok_or_else(unknown)?);
    let _place = host
        .admit(&task.role)
        .map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
    let result = server.request(request, &AgentCaller { context }).await?;
    Ok((server, result))
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

fn cannot<T>(what: &str) -> Result<T, ErrorData> {
    let why = format!("the calling client cannot {what}");
    Err(ErrorData::invalid_request(why, None))
}

impl AgentCaller<'_> {
    /// Whether the client can answer any question.
    pub(super) fn can_be_asked(&self) -> bool {
        let able = self.context.client_capabilities().unwrap_or_default();
        able.elicitation.is_some() || able.sampling.is_some()
    }

    /// Whether the client can answer such a question.
    pub(super) fn check_can_answer(&self, what: &Asked) -> Result<(), ErrorData> {
        let able = self.context.client_capabilities().unwrap_or_default();
        match what {
            Asked::Elicit(_) if able.elicitation.is_none() => cannot("ask its user"),
            Asked::Sample(_) if able.sampling.is_none() => cannot("ask its model"),
            Asked::Elicit(_) | Asked::Sample(_) => Ok(()),
        }
    }

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
    fn meta(&self) -> RequestMetaObject {
        let own = self.context.client_capabilities().unwrap_or_default();
        let mut passed = ClientCapabilities::default();
        if takes_tasks(self.context) {
            let tasks = ClientCapabilities::builder().enable_tasks().build();
            passed.extensions = tasks.extensions;
        }
        passed.elicitation = own.elicitation;
        passed.sampling = own.sampling;
        let mut meta = RequestMetaObject::default();
        meta.set_client_capabilities(passed);
        if let Some(level) = self.context.meta.log_level() {
            meta.set_log_level(level);
        }
        meta
    }

    async fn progress(&self, mut progress: ProgressNotificationParam) {
        if let Some(token) = self.context.meta.get_progress_token() {
            progress.progress_token = token;
            // A client that is gone needs none.
            self.context.peer.notify_progress(progress).await.ok();
        }
    }

    async fn log(&self, message: LoggingMessageNotificationParam) {
        if is_legacy(self.context) || self.context.meta.log_level().is_some() {
            self.context.peer.notify_logging_message(message).await.ok();
        }
    }

    async fn ask(&self, what: Asked) -> Result<Told, ErrorData> {
        if !is_legacy(self.context) {
            return cannot("be asked while its call is held");
        }
        self.check_can_answer(&what)?;
        match what {
            Asked::Elicit(params) => {
                let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
                match self.request(request).await {
                    Ok(ClientResult::ElicitResult(said)) => Ok(Told::Elicited(said)),
                    Ok(_) => cannot("answer that"),
                    Err(error) => Err(error),
                }
            }
            Asked::Sample(params) => {
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
