//! Slots: how many agents live, in total, by state and by machine (contract 5.1, 6.2).

use std::collections::BTreeMap;

use crate::issue::StateName;
use crate::settings::Settings;
use crate::snapshot::Slots;
use crate::workspace::HostId;

/// Which limit leaves no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::orchestrator) enum Full {
    Everywhere,
    State,
    Host(HostId),
}

impl Slots {
    pub(super) fn occupy(&mut self, state: &StateName, host: &HostId) {
        self.used += 1;
        *self.by_state.entry(state.clone()).or_default() += 1;
        *self.by_host.entry(host.clone()).or_default() += 1;
    }

    pub(super) fn vacate(&mut self, state: &StateName, host: &HostId) {
        debug_assert!(self.used > 0, "a slot freed that nobody held");
        self.used = self.used.saturating_sub(1);
        lower(&mut self.by_state, state);
        lower(&mut self.by_host, host);
    }

    /// Free slots in total.
    pub(in crate::orchestrator) fn free(&self, settings: &Settings) -> u32 {
        settings.agent.max_concurrent_agents.saturating_sub(self.used)
    }

    /// Free slots for issues in a state; `None` where the state has no limit of its own.
    pub(in crate::orchestrator) fn free_in_state(
        &self,
        settings: &Settings,
        state: &StateName,
    ) -> Option<u32> {
        let limit = settings.agent.max_concurrent_agents_by_state.get(state)?;
        Some(limit.saturating_sub(self.by_state.get(state).copied().unwrap_or(0)))
    }

    /// Returns the machine for a run: where its workspace is, else the one with the most room.
    pub(in crate::orchestrator) fn host_for(
        &self,
        settings: &Settings,
        at_home: Option<&HostId>,
    ) -> Result<HostId, Full> {
        let room = |id: &HostId, limit: u32| {
            limit.saturating_sub(self.by_host.get(id).copied().unwrap_or(0))
        };
        if settings.hosts.is_empty() {
            return match at_home {
                Some(home) if *home != HostId::local() => Err(Full::Host(home.clone())),
                _ => Ok(HostId::local()),
            };
        }
        let known =
            |host: &&crate::settings::HostLimit| at_home.is_none_or(|home| *home == host.id);
        let hosts = settings.hosts.iter().filter(known);
        // The first of equals wins, so that the choice does not depend on chance.
        let best = hosts.rev().max_by_key(|host| room(&host.id, host.max_agents));
        match best {
            Some(host) if room(&host.id, host.max_agents) > 0 => Ok(host.id.clone()),
            Some(host) => Err(Full::Host(host.id.clone())),
            None => Err(Full::Host(at_home.cloned().unwrap_or_else(HostId::local))),
        }
    }
}

fn lower<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    } else {
        debug_assert!(false, "a count lowered that was never raised");
    }
}
