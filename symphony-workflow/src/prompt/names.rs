//! Which names a prompt may use, and what each of them is.
//!
//! Neither template library refuses `{% if issue.titel %}`: to them it is false. So names are
//! looked up here, when the file is loaded.

use crate::prompt::marks::PromptFault;
use symphony_core::settings::PromptEngine;

/// What a name stands for, as far as it is known before rendering.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Issue,
    Blocker,
    Text,
    Number,
    Truth,
    List(&'static Shape),
    /// Liquid's `forloop`.
    Loop,
    /// Depends on the tracker or on the template.
    Any,
}

type Fields = [(&'static str, Shape)];

const GLOBALS: &Fields = &[
    ("issue", Shape::Issue),
    ("attempt", Shape::Number),
    ("turn", Shape::Number),
    ("max_turns", Shape::Number),
];

const ISSUE: &Fields = &[
    ("id", Shape::Text),
    ("native_ref", Shape::Any),
    ("identifier", Shape::Text),
    ("title", Shape::Text),
    ("description", Shape::Text),
    ("priority", Shape::Number),
    ("state", Shape::Text),
    ("state_kind", Shape::Text),
    ("branch_name", Shape::Text),
    ("url", Shape::Text),
    ("assignee_id", Shape::Text),
    ("labels", Shape::List(&Shape::Text)),
    ("blocked_by", Shape::List(&Shape::Blocker)),
    ("dispatchable", Shape::Truth),
    ("created_at", Shape::Text),
    ("updated_at", Shape::Text),
];

const BLOCKER: &Fields = &[
    ("id", Shape::Text),
    ("identifier", Shape::Text),
    ("state", Shape::Text),
    ("state_kind", Shape::Text),
];

const LOOP: &Fields = &[
    ("first", Shape::Truth),
    ("index", Shape::Number),
    ("index0", Shape::Number),
    ("last", Shape::Truth),
    ("length", Shape::Number),
    ("rindex", Shape::Number),
    ("rindex0", Shape::Number),
];

/// What other implementations call the fields of an issue.
const FOREIGN_FIELDS: [(&str, &str); 8] = [
    ("assignee", "assignee_id"),
    ("blockers", "blocked_by"),
    ("body", "description"),
    ("branch", "branch_name"),
    ("key", "identifier"),
    ("link", "url"),
    ("number", "identifier"),
    ("status", "state"),
];

/// What other implementations call the issue.
const FOREIGN_ISSUES: [&str; 4] = ["card", "item", "task", "ticket"];

/// A name that no prompt has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnknownName {
    /// What is wrong, and what was probably meant.
    pub(super) fault: PromptFault,
    /// Whether it is likely a slip of a known name. What is not may be a name that other
    /// implementations offer.
    pub(super) is_slip: bool,
    /// What has its place here, if it is a name that others offer.
    pub(super) counterpart: Option<String>,
}

/// One step behind a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Hop<'a> {
    Field(&'a str),
    /// `[0]`, or anything known only when rendering.
    Item,
}

/// The names in force at one place of the template.
#[derive(Debug)]
pub(super) struct Scope {
    engine: PromptEngine,
    own: Vec<(String, Shape)>,
}

impl Scope {
    pub(super) fn new(engine: PromptEngine) -> Self {
        Self { engine, own: Vec::new() }
    }

    /// Binds a name until [`Self::close`] is called with the count from before.
    pub(super) fn bind(&mut self, name: &str, shape: Shape) {
        self.own.push((name.to_owned(), shape));
    }

    pub(super) fn open(&self) -> usize {
        self.own.len()
    }

    pub(super) fn close(&mut self, before: usize) {
        self.own.truncate(before);
    }

    /// What a path stands for; an unknown part is a fault at `at`.
    pub(super) fn shape(
        &self,
        root: &str,
        hops: &[Hop<'_>],
        at: usize,
    ) -> Result<Shape, UnknownName> {
        let mut shape = self.root(root).ok_or_else(|| self.unknown(root, at))?;
        let mut path = root.to_owned();
        for hop in hops {
            shape = match hop {
                Hop::Item => match shape {
                    Shape::List(item) => *item,
                    _ => Shape::Any,
                },
                Hop::Field(field) => {
                    let next = self
                        .field(shape, field)
                        .ok_or_else(|| self.unknown_field(shape, &path, field, at))?;
                    path = format!("{path}.{field}");
                    next
                }
            };
        }
        Ok(shape)
    }

    fn root(&self, name: &str) -> Option<Shape> {
        let own = self.own.iter().rev().find(|(own, _)| own == name);
        own.map(|(_, shape)| *shape).or_else(|| find(GLOBALS, name))
    }

    fn field(&self, shape: Shape, field: &str) -> Option<Shape> {
        let liquid = self.engine == PromptEngine::Liquid;
        match shape {
            Shape::Any => Some(Shape::Any),
            Shape::Issue => find(ISSUE, field),
            Shape::Blocker => find(BLOCKER, field),
            Shape::Loop => find(LOOP, field),
            Shape::List(item) if liquid => match field {
                "size" => Some(Shape::Number),
                "first" | "last" => Some(*item),
                _ => None,
            },
            Shape::Text if liquid && field == "size" => Some(Shape::Number),
            Shape::List(_) | Shape::Text | Shape::Number | Shape::Truth => None,
        }
    }

    fn unknown(&self, name: &str, at: usize) -> UnknownName {
        let known: Vec<&str> = self
            .own
            .iter()
            .map(|(name, _)| name.as_str())
            .chain(GLOBALS.iter().map(|(name, _)| *name))
            .collect();
        let fault = PromptFault::new(at, format!("there is no variable `{name}`"));
        let field = name.strip_prefix("issue_").unwrap_or(name);
        let near = match nearest(name, known.iter().copied()) {
            _ if find(ISSUE, field).is_some() => Some(format!("issue.{field}")),
            near => near.map(str::to_owned),
        };
        let counterpart = FOREIGN_ISSUES.contains(&name).then(|| "issue".to_owned());
        let otherwise = || format!("a prompt has {}", list(&known));
        UnknownName::new(fault, near, counterpart, otherwise)
    }

    fn unknown_field(&self, shape: Shape, path: &str, field: &str, at: usize) -> UnknownName {
        let known: &Fields = match shape {
            Shape::Issue => ISSUE,
            Shape::Blocker => BLOCKER,
            Shape::Loop => LOOP,
            _ => {
                let what = match shape {
                    Shape::List(_) => "a list",
                    Shape::Text => "text",
                    Shape::Number => "a number",
                    _ => "true or false",
                };
                let fault =
                    PromptFault::new(at, format!("`{path}` is {what} and has no `{field}`"));
                let fault = match (self.engine, field) {
                    (PromptEngine::Tera, "size") => {
                        fault.with_help(format!("Tera counts with a filter: `{path} | length`"))
                    }
                    _ => fault,
                };
                return UnknownName { fault, is_slip: true, counterpart: None };
            }
        };
        let names = || known.iter().map(|(name, _)| *name);
        let fault = PromptFault::new(at, format!("`{path}` has no field `{field}`"));
        let near = nearest(field, names()).map(|near| format!("{path}.{near}"));
        let foreign = FOREIGN_FIELDS.iter().find(|(foreign, _)| *foreign == field);
        let counterpart =
            foreign.filter(|_| shape == Shape::Issue).map(|(_, ours)| format!("{path}.{ours}"));
        let otherwise = || format!("it has {}", list(&names().collect::<Vec<_>>()));
        UnknownName::new(fault, near, counterpart, otherwise)
    }
}

impl UnknownName {
    fn new(
        fault: PromptFault,
        near: Option<String>,
        counterpart: Option<String>,
        otherwise: impl FnOnce() -> String,
    ) -> Self {
        let is_slip = near.is_some();
        let meant = counterpart.clone().or(near);
        let help = meant.map_or_else(otherwise, |meant| format!("did you mean `{meant}`?"));
        Self { fault: fault.with_help(help), is_slip, counterpart }
    }
}

fn find(fields: &Fields, name: &str) -> Option<Shape> {
    let found = fields.iter().find(|(field, _)| *field == name);
    found.map(|(_, shape)| *shape)
}

/// The candidate that was most likely meant by `name`.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let allowed = 1 + name.chars().count() / 4;
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `a, b and c`, in code style.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::variables::{Sample, variables};

    #[test]
    fn every_variable_has_a_shape_and_every_shape_a_variable() {
        let sample = Sample::full().unwrap();
        let variables = variables(&sample.input());
        let sorted = |fields: &Fields| {
            let mut names: Vec<String> = fields.iter().map(|(name, _)| name.to_string()).collect();
            names.sort();
            names
        };
        let sorted_keys = |object: &serde_json::Map<String, serde_json::Value>| {
            let mut names: Vec<String> = object.keys().cloned().collect();
            names.sort();
            names
        };
        let keys = |value: &serde_json::Value| sorted_keys(value.as_object().unwrap());
        assert_eq!(sorted_keys(&variables), sorted(GLOBALS));
        let issue = &variables["issue"];
        assert_eq!(keys(issue), sorted(ISSUE));
        assert_eq!(keys(&issue["blocked_by"][0]), sorted(BLOCKER));
    }

    #[test]
    fn what_others_call_a_field_leads_to_one_of_ours() {
        for (foreign, ours) in FOREIGN_FIELDS {
            assert!(find(ISSUE, foreign).is_none() && find(ISSUE, ours).is_some(), "{foreign}");
        }
    }

    #[test]
    fn a_near_miss_is_suggested() {
        let scope = Scope::new(PromptEngine::Tera);
        let help =
            |root: &str, hops: &[Hop<'_>]| scope.shape(root, hops, 0).unwrap_err().fault.help;
        assert_eq!(help("atempt", &[]), Some("did you mean `attempt`?".to_owned()));
        assert_eq!(help("title", &[]), Some("did you mean `issue.title`?".to_owned()));
        assert_eq!(
            help("issue", &[Hop::Field("titel")]),
            Some("did you mean `issue.title`?".to_owned())
        );
        assert_eq!(help("issue_title", &[]), Some("did you mean `issue.title`?".to_owned()));
        assert_eq!(help("ticket", &[]), Some("did you mean `issue`?".to_owned()));
        let field = |name| help("issue", &[Hop::Field(name)]);
        assert_eq!(field("status"), Some("did you mean `issue.state`?".to_owned()));
        assert_eq!(field("body"), Some("did you mean `issue.description`?".to_owned()));
        assert_eq!(
            help("repo", &[]),
            Some("a prompt has `issue`, `attempt`, `turn` and `max_turns`".to_owned())
        );
    }
}
