//! FileBox's agents may be called anything; roles may not.

use tasuki_proto::{id::RoleId, limits::ID_BYTES_MAX};

/// What a name without a single fitting letter becomes, before its digits.
const NAMELESS: &str = "agent";

/// The role that an agent becomes. A name that is an id stays. In any other, what an id may not
/// hold becomes `-`, several of which become one and none of which begin or end it; where that
/// leaves too little or too much, eight digits that the name makes tell it from others.
pub fn role_of(name: &str) -> RoleId {
    if let Ok(role) = name.parse() {
        return role;
    }
    let mut fit = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || "_.".contains(c) => fit.push(c),
            _ if fit.ends_with('-') => {}
            _ => fit.push('-'),
        }
    }
    let fit = fit.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).trim_end_matches('-');
    if let Ok(role) = fit.parse() {
        return role;
    }
    let digits = &blake3::hash(name.as_bytes()).to_hex()[..8];
    let fit = if fit.is_empty() { NAMELESS } else { fit };
    let room = ID_BYTES_MAX - digits.len() - 1;
    let role = format!("{}-{digits}", &fit[..fit.len().min(room)]);
    role.parse().expect("what is left is an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_becomes_a_role() {
        for (name, role) in [
            ("qa_agent", "qa_agent"),
            ("filebox-mcp", "filebox-mcp"),
            ("QA agent (web)", "QA-agent-web"),
            ("../x", "x"),
            ("_dev", "dev"),
            ("前端 team", "team"),
            ("测试", "agent-0350ae12"),
            ("", "agent-af1349b9"),
        ] {
            assert_eq!(role_of(name).as_str(), role, "{name:?}");
        }
        let long = role_of(&"long name ".repeat(20));
        assert_eq!(long.as_str().len(), ID_BYTES_MAX);
        assert_ne!(long, role_of(&"long name ".repeat(21)));
    }
}
