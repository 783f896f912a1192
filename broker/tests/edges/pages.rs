//! Lists of a workspace that outgrow one message.

use tasuki_proto::{
    limits::{MESSAGE_BYTES_MAX, ROLES_MAX, TOOLSETS_MAX},
    wire::{self, directory_client::DirectoryClient},
};
use tonic::{Code, transport::Channel};

use crate::support::{Process, caller, channel, key, soon};

/// All names are as long as may be.
fn role(node: u64, role: usize) -> String {
    format!("r{node:0>31}-{role:0>31}")
}

/// Of a node that hosts so many roles, which all have these toolsets.
fn registration(node: u64, roles: usize, toolsets: &[String]) -> wire::RegisterRequest {
    let spec = |number: usize| wire::RoleSpec {
        role: role(node, number),
        toolsets: toolsets.to_vec(),
        is_standby: true,
    };
    wire::RegisterRequest {
        caller: caller("default"),
        key: key("nodes", node + 1),
        node: format!("n{node:0>63}"),
        roles: (0..roles).map(spec).collect(),
        ..Default::default()
    }
}

async fn register(directory: &mut DirectoryClient<Channel>, nodes: u64, toolsets: &[String]) {
    for node in 0..nodes {
        let register = registration(node, ROLES_MAX, toolsets);
        soon("a node registers", directory.register(register)).await.unwrap();
    }
}

#[tokio::test]
async fn roles_that_outgrow_a_message_are_listed_in_pages() {
    const NODES: u64 = 5;
    let data = tempfile::tempdir().unwrap();
    let (_broker, address) = Process::served(data.path()).await;
    let mut directory = DirectoryClient::new(channel(address));
    let toolsets: Vec<String> = (0..TOOLSETS_MAX).map(|set| format!("t{set:0>63}")).collect();
    register(&mut directory, NODES, &toolsets).await;
    let names = (0..NODES).flat_map(|node| (0..ROLES_MAX).map(move |it| role(node, it)));
    let names: Vec<String> = names.collect();
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let request = wire::ListRolesRequest { caller: caller("default"), after };
        let page = soon("a page", directory.list_roles(request)).await.unwrap().into_inner();
        found.extend(page.roles);
        pages += 1;
        if page.next.is_empty() {
            break;
        }
        after = page.next;
    }
    // Those of the loop that is there from the start are played by nobody.
    found.retain(|it| !it.node.is_empty());
    let odd = found.iter().find(|it| it.toolsets != toolsets);
    assert!(odd.is_none(), "{odd:?}");
    let found: Vec<String> = found.into_iter().map(|it| it.role).collect();
    assert!(found == names && 1 < pages, "{} in {pages} pages", found.len());

    let refused = directory.register(registration(NODES, ROLES_MAX + 1, &[])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let expected = format!("0 to {ROLES_MAX} are possible");
    assert!(refused.message().contains(&expected), "{refused}");
}

#[tokio::test]
async fn nodes_that_outgrow_a_message_are_listed_in_pages() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, address) = Process::served(data.path()).await;
    let mut directory = DirectoryClient::new(channel(address));
    let bytes = ROLES_MAX * role(0, 0).len();
    let nodes = MESSAGE_BYTES_MAX as u64 / bytes as u64 + 1;
    register(&mut directory, nodes, &[]).await;
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let request = wire::ListNodesRequest { caller: caller("default"), after };
        let page = soon("a page", directory.list_nodes(request)).await.unwrap().into_inner();
        assert!(page.software.starts_with("tasuki-broker "), "{}", page.software);
        found.extend(page.nodes);
        pages += 1;
        if page.next.is_empty() {
            break;
        }
        after = page.next;
    }
    assert!(found.iter().all(|it| it.is_present && it.roles.len() == ROLES_MAX));
    let found: Vec<String> = found.into_iter().map(|it| it.node).collect();
    let names: Vec<String> = (0..nodes).map(|node| format!("n{node:0>63}")).collect();
    assert!(found == names && 1 < pages, "{} in {pages} pages", found.len());
}
