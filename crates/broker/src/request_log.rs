//! The log of requests: when each came in whole and when its answer was given to the kernel, to hold results against.
//!
//! One line a request, comma-separated, with a head line. Times are nanoseconds of the system's monotonic clock
//! (`CLOCK_MONOTONIC`), which every process of the host reads alike; `answered_ns` is empty where no answer was sent.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use wire::ApiKey;

/// The names of the columns.
const HEAD: &str =
    "received_ns,answered_ns,broker,api,version,connection,correlation_id,request_bytes,batch_bytes\n";
const BUFFER_BYTES: usize = 256 * 1024;

/// What is known of a request before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Since the brokers started.
    pub(crate) received: u64,
    pub(crate) broker: i32,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// The connection's number: its thread's in the upper half.
    pub(crate) connection: u64,
    pub(crate) correlation_id: i32,
    pub(crate) request_bytes: usize,
    pub(crate) batch_bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RequestLog {
    file: Mutex<BufWriter<File>>,
    /// The monotonic clock when the brokers started.
    origin_ns: u64,
}

impl RequestLog {
    /// Begins a file, in place of one that was there.
    pub(crate) fn create(path: &Path, origin_ns: u64) -> io::Result<RequestLog> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        file.write_all(HEAD.as_bytes())?;
        Ok(RequestLog {
            file: Mutex::new(file),
            origin_ns,
        })
    }

    /// A request has ended. A disk that takes no more ends the log, not the brokers.
    pub(crate) fn ended(&self, noted: &Noted, answered: Option<u64>) {
        let line = self.line(noted, answered);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).unwrap_or_default();
    }

    /// Everything so far is in the file.
    pub(crate) fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().unwrap_or_default();
    }

    fn line(&self, noted: &Noted, answered: Option<u64>) -> String {
        let answered = answered.map_or(String::new(), |at| (self.origin_ns + at).to_string());
        format!(
            "{},{answered},{},{},{},{},{},{},{}\n",
            self.origin_ns + noted.received,
            noted.broker,
            noted.api,
            noted.version,
            noted.connection,
            noted.correlation_id,
            noted.request_bytes,
            noted.batch_bytes
        )
    }
}

/// The system's monotonic clock.
#[cfg(unix)]
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_value_for_each_column() {
        let path = std::env::temp_dir().join(format!("request-log-{}", std::process::id()));
        let log = RequestLog::create(&path, 1_000).unwrap();
        let noted = Noted {
            received: 5,
            broker: 2,
            api: ApiKey::PRODUCE,
            version: 11,
            connection: 7,
            correlation_id: 3,
            request_bytes: 200,
            batch_bytes: 150,
        };
        log.ended(&noted, Some(9));
        log.ended(&noted, None);
        log.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected = format!("{HEAD}1005,1009,2,Produce,11,7,3,200,150\n1005,,2,Produce,11,7,3,200,150\n");
        assert_eq!(text, expected);
    }
}
