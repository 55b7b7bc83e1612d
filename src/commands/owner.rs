//! A state directory of another user: root works in it only as that user. Whoever owns a directory can exchange the files in it at
//! any time, and lead a process of root's to other files.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::Error;

/// A user and a group, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    user: u32,
    group: u32,
}

/// Rejects a state directory of another user for root; with `as_owner` this process begins anew as that user.
pub fn admit(state_dir: &Path, as_owner: bool) -> Result<(), Error> {
    let Some(owner) = owner_of(state_dir) else {
        return Ok(());
    };
    match (geteuid().is_root(), as_owner) {
        (true, true) if owner.user != 0 => become_owner(owner).map_err(Error::io(format!(
            "--as-owner: cannot become user {}",
            owner.user
        ))),
        (true, false) if owner.user != 0 => Err(Error::Refused(format!(
            "the state directory {} belongs to user {}, who could lead root to other files; add --as-owner to work as that user, \
             or name another --state-dir",
            state_dir.display(),
            owner.user
        ))),
        (false, true) if owner.user != geteuid().as_raw() => Err(Error::Usage(format!(
            "--as-owner: only root can work as user {}, who owns the state directory {}",
            owner.user,
            state_dir.display()
        ))),
        _ => Ok(()),
    }
}

/// Who decides what is at a path: the owner of a link of another user than root, of the directory, or of the directory in which it
/// would be created. `None` where the system does not say: opening it says why.
fn owner_of(path: &Path) -> Option<Owner> {
    let path = Some(path).filter(|path| !path.as_os_str().is_empty());
    let path = path.unwrap_or(Path::new("."));
    let found = match fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && link.uid() == 0 => fs::metadata(path),
        found => found,
    };
    match found {
        Ok(found) => Some(Owner {
            user: found.uid(),
            // A group of root's could give away what the owner alone cannot reach.
            group: Some(found.gid())
                .filter(|group| *group != 0)
                .unwrap_or(found.uid()),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => owner_of(path.parent()?),
        Err(_) => None,
    }
}

/// Begins this program anew as a user, without the groups of root. Returns only if that fails.
fn become_owner(owner: Owner) -> io::Result<()> {
    let mut arguments = std::env::args_os();
    let mut program = Command::new(std::env::current_exe()?);
    if let Some(name) = arguments.next() {
        program.arg0(name);
    }
    Err(program
        .args(arguments)
        .uid(owner.user)
        .gid(owner.group)
        .exec())
}
