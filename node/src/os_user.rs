//! The person at this machine, as the system calls the user of this process.

use tasuki_proto::id::{InvalidId, PersonId};

/// The logged-in user, by a name that is an id; of one without a name the number.
///
/// # Errors
/// When nothing of the name is left that an id may hold.
pub fn person() -> Result<PersonId, InvalidId> {
    let variables = ["USER", "LOGNAME", "USERNAME"].iter().filter_map(|it| std::env::var(it).ok());
    if let Some(person) = variables.filter_map(|name| as_person(&name).ok()).next() {
        return Ok(person);
    }
    // A service or a container often has no such variable, and sometimes no name at all.
    let user = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = name_of(user, &users).and_then(|name| as_person(name).ok());
    name.map_or_else(|| as_person(&format!("uid-{user}")), Ok)
}

/// The name of a user in `/etc/passwd`.
fn name_of(user: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(user)).then_some(name)
    })
}

/// A user's name with what an id may not hold replaced.
fn as_person(user: &str) -> Result<PersonId, InvalidId> {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    let name: String = user.chars().map(fit).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    name[..name.len().min(tasuki_proto::limits::ID_BYTES_MAX)].parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_name_becomes_a_persons_id() {
        let name = |user: &str| as_person(user).map(|person| person.to_string());
        assert_eq!(name("alice").as_deref(), Ok("alice"));
        assert_eq!(name("CORP\\Bob Smith").as_deref(), Ok("CORP-Bob-Smith"));
        assert_eq!(name("_www").as_deref(), Ok("www"));
        assert_eq!(name(&"x".repeat(80)).map(|name| name.len()), Ok(64));
        assert!(name("").is_err());
        assert!(name("ÄÖ").is_err());
    }

    #[test]
    fn whoever_has_no_variable_is_called_as_the_system_calls_them() {
        let users = "root:x:0:0:root:/root:/bin/sh\nodd\nalice:x:1000:1000::/home/alice:\n";
        for (user, expected) in [(0, Some("root")), (1000, Some("alice")), (7, None)] {
            assert_eq!(name_of(user, users), expected, "{user}");
        }
    }
}
