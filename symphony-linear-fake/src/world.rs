//! What is on the board: people change it from outside, agents through mutations.

use serde_json::{Map, Value, json};

/// An issue. Ids of everything else are made from names.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeIssue {
    /// Linear's id.
    pub id: String,
    /// What people call it.
    pub identifier: String,
    /// The title.
    pub title: String,
    /// The body.
    pub description: Option<String>,
    /// 0 is none, 1 is urgent, 4 is low.
    pub priority: u8,
    /// The name of its state.
    pub state: String,
    /// The key of its team.
    pub team: String,
    /// The slug id of its project.
    pub project: Option<String>,
    /// The email address of its assignee.
    pub assignee: Option<String>,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// Ids of issues that block it.
    pub blocked_by: Vec<String>,
    /// Ids of issues that are related in another way.
    pub related: Vec<String>,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub updated_at: String,
    /// RFC 3339; in the archive or the trash.
    pub archived_at: Option<String>,
    /// Whether it is in the trash.
    pub trashed: bool,
    /// What agents said.
    pub comments: Vec<String>,
    /// What agents attached: titles and addresses.
    pub attachments: Vec<(String, String)>,
    /// Fields that are null, whatever they should be.
    pub spoiled: Vec<String>,
}

impl FakeIssue {
    /// An issue of the team `MT` and the project `abc123`, in `Todo` since some noon.
    #[must_use]
    pub fn new(number: usize) -> Self {
        Self {
            id: format!("id-{number}"),
            identifier: format!("MT-{number}"),
            title: format!("Issue {number}"),
            description: None,
            priority: 0,
            state: "Todo".to_owned(),
            team: "MT".to_owned(),
            project: Some("abc123".to_owned()),
            assignee: None,
            labels: Vec::new(),
            blocked_by: Vec::new(),
            related: Vec::new(),
            created_at: "2026-02-18T12:00:00.000Z".to_owned(),
            updated_at: "2026-02-18T12:00:00.000Z".to_owned(),
            archived_at: None,
            trashed: false,
            comments: Vec::new(),
            attachments: Vec::new(),
            spoiled: Vec::new(),
        }
    }
}

/// A team with its states: names and types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeTeam {
    /// Its key.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Its workflow states, with their types.
    pub states: Vec<(String, String)>,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The issues, in the order in which they were put.
    pub issues: Vec<FakeIssue>,
    /// The teams.
    pub teams: Vec<FakeTeam>,
    /// The projects: slug id, name, and the keys of their teams.
    pub projects: Vec<(String, String, Vec<String>)>,
    /// Labels that exist, used or not.
    pub labels: Vec<String>,
    /// The user that the key belongs to.
    pub me: String,
    /// How often something was changed, for `updatedAt`.
    changes: u32,
}

impl Default for World {
    /// A team, a project, and no issues.
    fn default() -> Self {
        let states = [
            ("Triage", "triage"),
            ("Backlog", "backlog"),
            ("Todo", "unstarted"),
            ("In Progress", "started"),
            ("Human Review", "started"),
            ("Done", "completed"),
            ("Canceled", "canceled"),
        ];
        let states = states.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec();
        let team = |key: &str, name: &str| FakeTeam {
            key: key.to_owned(),
            name: name.to_owned(),
            states: states.clone(),
        };
        let project = |slug: &str, name: &str, team: &str| {
            (slug.to_owned(), name.to_owned(), vec![team.to_owned()])
        };
        Self {
            issues: Vec::new(),
            teams: vec![team("MT", "Music"), team("XX", "Others")],
            projects: vec![project("abc123", "Symphony", "MT"), project("def456", "Opera", "XX")],
            labels: vec!["Bug".to_owned(), "agent".to_owned()],
            me: "robot@example.com".to_owned(),
            changes: 0,
        }
    }
}

impl World {
    /// The issue with this id or identifier.
    #[must_use]
    pub fn issue(&self, id: &str) -> Option<&FakeIssue> {
        self.issues.iter().find(|issue| issue.id == id || issue.identifier == id)
    }

    /// Changes an issue, if there is one of this id or identifier, and moves its `updatedAt` on.
    pub fn edit(&mut self, id: &str, change: impl FnOnce(&mut FakeIssue)) -> bool {
        self.changes += 1;
        let stamp = format!("2026-02-19T12:00:00.{:03}Z", self.changes % 1000);
        let issue = self.issues.iter_mut().find(|issue| issue.id == id || issue.identifier == id);
        issue.is_some_and(|issue| {
            change(issue);
            issue.updated_at = stamp;
            true
        })
    }

    /// The name of the state with this id.
    pub(crate) fn state_name(&self, id: &str) -> Option<String> {
        let mut states = self.teams.iter().flat_map(|team| {
            team.states.iter().map(|(name, _)| (state_id(&team.key, name), name.clone()))
        });
        states.find(|(known, _)| known == id).map(|(_, name)| name)
    }

    /// All of it, as the fields of `Query`.
    pub(crate) fn query(&self) -> Value {
        let labels = self.labels.iter().map(|name| label(name)).collect::<Vec<_>>();
        let teams = self.teams.iter().map(team).collect::<Vec<_>>();
        let projects = self.projects.iter().map(|one| self.project(one)).collect::<Vec<_>>();
        let issues = self.issues.iter().map(|issue| self.show(issue)).collect::<Vec<_>>();
        json!({
            "issues": issues,
            "projects": projects,
            "teams": teams,
            "issueLabels": labels,
            "viewer": self.user(&self.me),
            "organization": { "name": "The Company" },
        })
    }

    fn project(&self, (slug, name, keys): &(String, String, Vec<String>)) -> Value {
        let teams = self.teams.iter().filter(|team| keys.contains(&team.key)).map(team);
        json!({ "slugId": slug, "name": name, "teams": teams.collect::<Vec<_>>() })
    }

    fn user(&self, email: &str) -> Value {
        let name = email.split('@').next().unwrap_or_default();
        json!({ "id": format!("user-{name}"), "name": name, "email": email, "isMe": email == self.me })
    }

    fn state(&self, issue: &FakeIssue) -> Value {
        let team = self.teams.iter().find(|team| team.key == issue.team);
        let states = team.map_or(&[][..], |team| &team.states);
        let kind = states.iter().find(|(name, _)| *name == issue.state).map(|(_, kind)| kind);
        json!({ "id": state_id(&issue.team, &issue.state), "name": issue.state, "type": kind })
    }

    /// What a relation shows of the issue at its other end.
    fn outline(&self, issue: &FakeIssue) -> Value {
        json!({
            "id": issue.id,
            "identifier": issue.identifier,
            "title": issue.title,
            "trashed": issue.trashed,
            "state": self.state(issue),
        })
    }

    /// An issue, as the fields of `FakeIssue`.
    pub(crate) fn show(&self, issue: &FakeIssue) -> Value {
        let relation = |kind: &str, id: &String| {
            let other = self.issues.iter().find(|other| other.id == *id);
            other.map(|other| json!({ "type": kind, "issue": self.outline(other) }))
        };
        let blocks = issue.blocked_by.iter().filter_map(|id| relation("blocks", id));
        let related = issue.related.iter().filter_map(|id| relation("related", id));
        let project = issue.project.as_ref().and_then(|slug| {
            self.projects.iter().find(|(known, ..)| known == slug).map(|one| self.project(one))
        });
        let owner = self.teams.iter().find(|team| team.key == issue.team).map(team);
        let number = |at: usize, what: &str| format!("{}-{what}-{at}", issue.id);
        let comments = issue.comments.iter().enumerate();
        let comments =
            comments.map(|(at, body)| json!({ "id": number(at, "comment"), "body": body }));
        let attachments = issue.attachments.iter().enumerate().map(|(at, (title, url))| {
            json!({ "id": number(at, "attachment"), "title": title, "url": url })
        });
        let mut shown = json!({
            "id": issue.id,
            "identifier": issue.identifier,
            "number": issue.identifier.rsplit('-').next().and_then(|number| number.parse::<f64>().ok()),
            "title": issue.title,
            "description": issue.description,
            "priority": f64::from(issue.priority),
            "branchName": format!("{}-branch", issue.identifier.to_lowercase()),
            "url": format!("https://linear.app/company/issue/{}", issue.identifier),
            "createdAt": issue.created_at,
            "updatedAt": issue.updated_at,
            "archivedAt": issue.archived_at,
            "trashed": issue.trashed,
            "assignee": issue.assignee.as_ref().map(|email| self.user(email)),
            "project": project,
            "team": owner,
            "state": self.state(issue),
            "labels": issue.labels.iter().map(|name| label(name)).collect::<Vec<_>>(),
            "inverseRelations": related.chain(blocks).collect::<Vec<_>>(),
            "comments": comments.collect::<Vec<_>>(),
            "attachments": attachments.collect::<Vec<_>>(),
        });
        let fields = shown.as_object_mut().into_iter().flat_map(Map::iter_mut);
        for (_, value) in fields.filter(|(name, _)| issue.spoiled.contains(name)) {
            *value = Value::Null;
        }
        shown
    }
}

fn state_id(team: &str, name: &str) -> String {
    format!("state-{team}-{}", name.to_lowercase().replace(' ', "-"))
}

fn label(name: &str) -> Value {
    json!({ "id": format!("label-{name}"), "name": name })
}

fn team(team: &FakeTeam) -> Value {
    let states = team
        .states
        .iter()
        .map(|(name, kind)| json!({ "id": state_id(&team.key, name), "name": name, "type": kind }));
    json!({
        "id": format!("team-{}", team.key),
        "key": team.key,
        "name": team.name,
        "states": states.collect::<Vec<_>>(),
    })
}
