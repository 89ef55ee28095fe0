//! Requests that are answered later: fetches that wait for records, produce requests that wait for replicas.

use crate::api::fetch::WaitingFetch;
use crate::api::produce::WaitingProduce;
use crate::reply::{ConnectionId, ReplyTo};
use std::collections::HashMap;

/// What a request waits for.
#[derive(Debug)]
pub(crate) enum Awaited {
    Fetch(WaitingFetch),
    Produce(WaitingProduce),
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) to: ReplyTo,
    /// When it is answered with what there is.
    pub(crate) deadline: u64,
    pub(crate) awaited: Awaited,
}

/// All requests that wait. A connection has one at most: the next is read when the last was answered.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    next_id: u64,
    requests: HashMap<u64, WaitingRequest>,
    by_connection: HashMap<ConnectionId, u64>,
}

impl Waiting {
    pub(crate) fn insert(&mut self, request: WaitingRequest) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.by_connection.insert(request.to.connection, id);
        self.requests.insert(id, request);
        id
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut WaitingRequest> {
        self.requests.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<WaitingRequest> {
        let request = self.requests.remove(&id)?;
        self.by_connection.remove(&request.to.connection);
        Some(request)
    }

    /// The request that waits on a connection.
    pub(crate) fn on(&self, connection: ConnectionId) -> Option<u64> {
        self.by_connection.get(&connection).copied()
    }

    /// All of them, in the order in which they came.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.requests.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
