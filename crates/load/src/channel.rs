//! Waiting on a channel for a bounded time, by short sleeps.
//!
//! The standard library's bounded wait hands the kernel a moment on the monotonic clock. A library that shifts the clocks of
//! a process, such as libfaketime, does not see that call, so the wait would end at once or never; a sleep is a length of
//! time and holds under any clock. What is waited for here is asked for a few hundred times a second at most.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The next message, if it comes within `within`.
///
/// # Errors
///
/// When none came in time, or none can come any more.
#[expect(
    clippy::disallowed_methods,
    reason = "a bounded wait that holds under shifted clocks"
)]
pub fn receive_within<T>(receiver: &Receiver<T>, within: Duration) -> Result<T, RecvTimeoutError> {
    let began = Instant::now();
    loop {
        match receiver.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        let left = within.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(RecvTimeoutError::Timeout);
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_message_comes_a_silence_ends_and_a_hung_up_sender_is_told() {
        let (sender, receiver) = mpsc::channel();
        sender.send(7).expect("there is a receiver");
        assert_eq!(receive_within(&receiver, Duration::ZERO), Ok(7));
        assert_eq!(
            receive_within(&receiver, Duration::from_millis(3)),
            Err(RecvTimeoutError::Timeout)
        );
        drop(sender);
        assert_eq!(
            receive_within(&receiver, Duration::from_secs(3600)),
            Err(RecvTimeoutError::Disconnected)
        );
    }
}
