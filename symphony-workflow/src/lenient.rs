//! Settings of a file that has errors, for a command that must work all the same.

use symphony_core::Settings;

use crate::{WorkflowContext, front_matter, settings};

/// What a file that is not YAML is still asked for: where its service works and answers.
const SECTIONS: [&str; 2] = ["server", "workspace"];

/// Reads what can be read of a workflow file. A default stands in the place of whatever is wrong;
/// of front matter that is not YAML, only the sections `server` and `workspace` are read.
///
/// ```
/// use std::collections::BTreeMap;
/// use symphony_workflow::{WorkflowContext, read_leniently};
/// let env = BTreeMap::new();
/// let cx = WorkflowContext::new(&env, "/code").state_folder("/state");
/// let text = "---\nagent: [broken\nserver:\n  port: 4000\n---\nWork.";
/// assert_eq!(read_leniently(text, &cx).server.port, Some(4000));
/// ```
#[must_use]
pub fn read_leniently(text: &str, cx: &WorkflowContext<'_>) -> Settings {
    let yaml = front_matter::split(text).yaml.unwrap_or_default();
    let map = front_matter::parse(yaml).or_else(|_| front_matter::parse(&sections(yaml)));
    let (map, duplicates) = map.unwrap_or_default();
    settings::read(&map, &duplicates, cx).0
}

/// The lines of the sections that count. A section begins with a key that is not indented.
fn sections(yaml: &str) -> String {
    let mut is_wanted = false;
    let wanted = yaml.lines().filter(|line| {
        if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let key = line.split(':').next().unwrap_or_default().trim_end();
            is_wanted = SECTIONS.contains(&key);
        }
        is_wanted
    });
    wanted.collect::<Vec<_>>().join("\n")
}
