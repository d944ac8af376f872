//! Where the keys of a file stand, for what is found wrong only after it was read.

use std::collections::BTreeMap;

use super::tree::{Map, Node};
use symphony_core::problem::{Position, Problem};

/// How many parts a path has at most: `tracker.provider.api_key`.
const MAX_DEPTH: usize = 3;

/// The places of a file's keys, by their YAML path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlaces(BTreeMap<String, Position>);

impl KeyPlaces {
    pub(crate) fn new(map: &Map) -> Self {
        let mut places = BTreeMap::new();
        collect(map, "", 1, &mut places);
        Self(places)
    }

    /// Returns where a key stands. The keys of an adapter may be at their older place (contract
    /// 2.5). A key that is not there has no place: the line of its section may show other values.
    #[must_use]
    pub fn position(&self, path: &str) -> Option<Position> {
        // An item of a list is found by its list.
        let path = path.split('[').next().unwrap_or(path);
        let older = path.strip_prefix("tracker.provider.").map(|key| format!("tracker.{key}"));
        self.0.get(path).or_else(|| self.0.get(older?.as_str())).copied()
    }

    /// Gives a problem that names a setting its place in the file.
    #[must_use]
    pub fn locate(&self, problem: Problem) -> Problem {
        let found = problem.path.as_deref().and_then(|path| self.position(path));
        let at = problem.at.or(found);
        problem.with_position(at)
    }
}

fn collect(map: &Map, section: &str, depth: usize, places: &mut BTreeMap<String, Position>) {
    for entry in map.entries() {
        let path = match section {
            "" => entry.key.clone(),
            section => format!("{section}.{}", entry.key),
        };
        if let Node::Map(inner) = &entry.value
            && depth < MAX_DEPTH
        {
            collect(inner, &path, depth + 1, places);
        }
        places.entry(path).or_insert(entry.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front_matter::parse;

    #[test]
    fn a_key_is_found_at_its_place_or_its_older_place() {
        let yaml = "---\ntracker:\n  kind: x\n  team: A\n  provider:\n    api_key: k\nagent: {}\n";
        let places = KeyPlaces::new(&parse(yaml).unwrap().0);
        let line = |path| places.position(path).map(|at| (at.line, at.column));
        assert_eq!(line("tracker.provider.api_key"), Some((6, 5)));
        assert_eq!(line("tracker.provider.team"), Some((4, 3)));
        assert_eq!(line("tracker.provider.other"), None);
        assert_eq!(line("tracker.provider.api_key[2].x"), Some((6, 5)));
        assert_eq!(line("agent.kind"), None);
    }
}
