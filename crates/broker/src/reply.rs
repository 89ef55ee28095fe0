//! Whom an answer goes to.

/// A connection: the thread that serves it and its number there. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId {
    pub(crate) thread: usize,
    pub(crate) number: usize,
}

/// A request that is to be answered, now or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    pub(crate) connection: ConnectionId,
    pub(crate) correlation_id: i32,
    /// The version of the request's API.
    pub(crate) version: i16,
}

#[cfg(test)]
impl ReplyTo {
    /// The request with this number on a connection of no importance.
    pub(crate) fn for_test(correlation_id: i32) -> ReplyTo {
        ReplyTo {
            connection: ConnectionId { thread: 0, number: 0 },
            correlation_id,
            version: 0,
        }
    }
}
