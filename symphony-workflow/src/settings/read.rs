//! Reads single keys of the front matter and keeps what is wrong with them.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::keys::{self, KeyTable};
use super::shape::{self, CheckShape as _};
use crate::front_matter::{Entry, Map, Node};
use symphony_core::problem::{Position, Problem, ProblemKind};

/// The front matter of one file, and its problems so far.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    root: &'a Map,
    table: KeyTable<'a>,
    problems: Vec<Problem>,
    #[cfg(test)]
    asked: std::collections::BTreeSet<&'static str>,
}

impl<'a> Reader<'a> {
    /// A reader that has looked at every section once.
    pub(super) fn new(root: &'a Map, table: KeyTable<'a>) -> Self {
        let mut reader = Self {
            root,
            table,
            problems: Vec::new(),
            #[cfg(test)]
            asked: std::collections::BTreeSet::new(),
        };
        let sections: Vec<&str> = reader.table.sections().map(|(section, _)| section).collect();
        for section in sections {
            if let Some(entry) = reader.entry(section)
                && !matches!(entry.value, Node::Map(_))
            {
                let message =
                    format!("must be a map, got {}", shape::shown_without_text(&entry.value));
                let mut problem = Problem::new(ProblemKind::InvalidSetting, message);
                problem.help = shape::section_help(section, &entry.value);
                reader.note(problem.with_path(section).with_position(Some(entry.at)));
            }
        }
        reader
    }

    /// The whole front matter.
    pub(super) const fn root(&self) -> &'a Map {
        self.root
    }

    /// Every key that can be read.
    pub(super) const fn table(&self) -> &KeyTable<'a> {
        &self.table
    }

    /// What stands at a path; a null counts as absent.
    pub(super) fn entry(&self, path: &str) -> Option<&'a Entry> {
        let mut map = self.root;
        let mut parts = path.split('.').peekable();
        loop {
            let entry = map.entry(parts.next()?).filter(|entry| !entry.value.is_null())?;
            if parts.peek().is_none() {
                return Some(entry);
            }
            let Node::Map(inner) = &entry.value else {
                return None;
            };
            map = inner;
        }
    }

    /// What stands at the path of a map.
    pub(super) fn map(&self, path: &str) -> Option<&'a Map> {
        match &self.entry(path)?.value {
            Node::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The value of a key, if it is there and right. The key's shape makes sure that it fits `T`.
    pub(super) fn read<T: DeserializeOwned>(&mut self, path: &'static str) -> Option<T> {
        #[cfg(test)]
        self.asked.insert(path);
        let key = self.table.find(path);
        debug_assert!(key.is_some(), "{path} is not in the table of keys");
        let entry = self.entry(path)?;
        let shape = key?.shape;
        match shape.check(&entry.value) {
            Ok(value) => {
                let fitted = value.map(serde_json::from_value).transpose();
                debug_assert!(fitted.is_ok(), "{path}: its shape allows what its type does not");
                fitted.ok().flatten()
            }
            Err(message) => {
                let mut problem = Problem::new(ProblemKind::InvalidSetting, message)
                    .with_path(path)
                    .with_position(Some(entry.at));
                problem.help = shape.help(&entry.value).map(str::to_owned);
                self.note(problem);
                None
            }
        }
    }

    /// The value of a key, or its default.
    pub(super) fn or<T: DeserializeOwned>(&mut self, path: &'static str, default: T) -> T {
        self.read(path).unwrap_or(default)
    }

    /// A time in milliseconds.
    pub(super) fn millis(&mut self, path: &'static str) -> Option<Duration> {
        self.read(path).map(Duration::from_millis)
    }

    /// A time in milliseconds, or its default.
    pub(super) fn millis_or(&mut self, path: &'static str, default: Duration) -> Duration {
        self.millis(path).unwrap_or(default)
    }

    /// Where a path stands, or the nearest section around it.
    pub(super) fn place(&self, path: &str) -> Option<Position> {
        match self.entry(path) {
            Some(entry) => Some(entry.at),
            None if path.is_empty() => None,
            None => self.place(keys::parent(path)),
        }
    }

    /// Keeps an error.
    pub(super) fn refuse(&mut self, path: &str, at: Option<Position>, message: impl Into<String>) {
        let problem = Problem::new(ProblemKind::InvalidSetting, message);
        self.note(problem.with_path(path).with_position(at));
    }

    /// Keeps a warning about a value that is not used.
    pub(super) fn ignore(&mut self, path: &str, at: Option<Position>, message: impl Into<String>) {
        let problem = Problem::new(ProblemKind::IgnoredSetting, message);
        self.note(problem.with_path(path).with_position(at));
    }

    /// Keeps a problem.
    pub(super) fn note(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Everything that was found.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    #[cfg(test)]
    pub(super) const fn read_keys(&self) -> &std::collections::BTreeSet<&'static str> {
        &self.asked
    }
}
