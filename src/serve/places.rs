//! The places of connections, and who has many of them.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::auth::network;

/// The most connections at once. Further ones wait in the socket's queue.
const MOST: usize = 4096;
/// File descriptors that are left to everything else.
const OTHER_FILES: u64 = 128;
/// All connections are a crowd where one place in so many is taken.
const OF_ALL: usize = 2;
/// Those of one address are a crowd where they have one place in so many.
const OF_AN_ADDRESS: usize = 8;

/// The places of connections.
#[derive(Debug, Clone)]
pub struct Places {
    free: Arc<Semaphore>,
    most: usize,
    /// By address (IPv6: by its /64 network); `None`: all connections are of one proxy, which tells its clients apart.
    held: Option<Arc<Mutex<HashMap<IpAddr, usize>>>>,
}

/// A place of one connection, free again when it is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    places: Places,
    address: IpAddr,
    _slot: OwnedSemaphorePermit,
}

impl Places {
    pub fn new(is_behind_a_proxy: bool) -> Self {
        let most = allowed();
        Self {
            free: Arc::new(Semaphore::new(most)),
            most,
            held: (!is_behind_a_proxy).then(Arc::default),
        }
    }

    /// Waits until a place is free.
    ///
    /// # Errors
    /// Never: nothing closes the semaphore.
    pub async fn slot(&self) -> io::Result<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.free).acquire_owned().await;
        slot.map_err(io::Error::other)
    }

    /// Gives a place to a connection of this address.
    pub fn take(&self, slot: OwnedSemaphorePermit, address: IpAddr) -> ConnectionPlace {
        let address = network(address);
        if let Some(held) = &self.held {
            *held.lock().entry(address).or_default() += 1;
        }
        ConnectionPlace {
            places: self.clone(),
            address,
            _slot: slot,
        }
    }
}

impl ConnectionPlace {
    /// Whether most places are taken, or its address has many of them: connections then end with their answer, so that whoever waits
    /// gets a place.
    pub fn is_crowded(&self) -> bool {
        let Places { free, most, held } = &self.places;
        let of_address = held.as_ref().map_or(0, |held| {
            held.lock().get(&self.address).copied().unwrap_or_default()
        });
        free.available_permits() < most / OF_ALL || of_address >= most / OF_AN_ADDRESS
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let Some(held) = &self.places.held else {
            return;
        };
        let mut held = held.lock();
        if let Some(of_address) = held.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                held.remove(&self.address);
            }
        }
    }
}

/// The most connections that the system's limit on file descriptors allows.
fn allowed() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // The soft limit is often 1,024, for programs that cannot count higher; the hard limit is what the system allows.
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    // A connection needs one; a read behind it a few more, but few reads run at once.
    let allowed = current.map_or(MOST as u64, |files| files.saturating_sub(OTHER_FILES));
    usize::try_from(allowed).map_or(MOST, |allowed| allowed.clamp(16, MOST))
}
