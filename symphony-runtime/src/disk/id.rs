//! What a service is called: the name that its processes carry, in every life of it (contract 14.3).

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::fstat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::file::{self, errno};

/// Its name among Symphony's own.
pub(crate) const ID_FILE: &str = "id";

/// A random name, and the root that it was made for. A path would not do: containers that see each
/// other's processes may have equal paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServiceId {
    id: String,
    /// Device and inode: a copy of a root is another service.
    root: String,
}

/// What stands in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundId {
    /// The name of this root.
    Ours(ServiceId),
    /// The name of another root, or nothing that can be read.
    Foreign,
    Nothing,
}

impl ServiceId {
    pub(super) fn read(own: &OwnedFd, root: &OwnedFd) -> Result<FoundId, Errno> {
        let text = match file::read(own, ID_FILE) {
            Ok(text) => text,
            Err(Errno::NOENT) => return Ok(FoundId::Nothing),
            Err(_) => return Ok(FoundId::Foreign),
        };
        let is_name = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let known = serde_json::from_slice(&text).ok().filter(|known: &Self| is_name(&known.id));
        let place = place(root)?;
        Ok(known.filter(|known| known.root == place).map_or(FoundId::Foreign, FoundId::Ours))
    }

    pub(super) fn new(root: &OwnedFd) -> Result<Self, Errno> {
        let mut bytes = [0; 16];
        let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        random.map_err(|error| errno(&error))?;
        Ok(Self { id: format!("{:032x}", u128::from_ne_bytes(bytes)), root: place(root)? })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.id
    }

    /// Writes it where that is not what the file says.
    pub(super) fn store(&self, own: &OwnedFd) -> Result<(), Errno> {
        let text = serde_json::to_vec(self).map_err(|_| Errno::INVAL)?;
        if file::read(own, ID_FILE).is_ok_and(|known| known == text) {
            return Ok(());
        }
        file::replace(own, ID_FILE, &text)
    }
}

fn place(root: &OwnedFd) -> Result<String, Errno> {
    let stat = fstat(root)?;
    Ok(format!("{}:{}", stat.st_dev, stat.st_ino))
}
