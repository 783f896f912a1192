//! Lists of a workspace that outgrow one message.

use tasuki_proto::{
    limits::{ROLES_MAX, TOOLSETS_MAX},
    wire::{self, directory_client::DirectoryClient},
};

use crate::support::{Process, caller, channel, key, soon};

#[tokio::test]
async fn roles_that_outgrow_a_message_are_listed_in_pages() {
    const NODES: u64 = 72;
    let data = tempfile::tempdir().unwrap();
    let (_broker, address) = Process::served(data.path()).await;
    let mut directory = DirectoryClient::new(channel(address));
    let toolsets: Vec<String> = (0..TOOLSETS_MAX).map(|set| format!("t{set:0>63}")).collect();
    let mut names = Vec::new();
    for node in 0..NODES {
        let name = |role: usize| format!("r{node:0>31}-{role:0>31}");
        let spec = |role: usize| wire::RoleSpec {
            role: name(role),
            toolsets: toolsets.clone(),
            is_standby: false,
        };
        let register = wire::RegisterRequest {
            caller: caller("default"),
            key: key("nodes", node + 1),
            node: format!("n{node:0>63}"),
            roles: (0..ROLES_MAX).map(spec).collect(),
            ..Default::default()
        };
        soon("a node registers", directory.register(register)).await.unwrap();
        names.extend((0..ROLES_MAX).map(name));
    }
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
}
