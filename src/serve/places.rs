//! The places of connections, and who has many of them.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::network;

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
pub struct Place {
    places: Places,
    address: IpAddr,
    _slot: OwnedSemaphorePermit,
}

impl Places {
    pub fn new(most: usize, is_behind_a_proxy: bool) -> Self {
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
    pub fn take(&self, slot: OwnedSemaphorePermit, address: IpAddr) -> Place {
        let address = network(address);
        if let Some(held) = &self.held {
            *held.lock().entry(address).or_default() += 1;
        }
        Place {
            places: self.clone(),
            address,
            _slot: slot,
        }
    }
}

impl Place {
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

impl Drop for Place {
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
