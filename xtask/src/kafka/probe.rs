//! Asks a node which brokers are registered, over the Kafka protocol and without starting a JVM.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Longest answer that is read: 32 brokers take less than 2 KiB.
const LONGEST_ANSWER_BYTES: usize = 64 * 1024;

/// How long one step of the exchange may take; the caller asks again.
const PATIENCE: Duration = Duration::from_secs(2);

/// The ids of the brokers that the node at this loopback port knows to be registered and alive.
///
/// Metadata version 1 (`MetadataRequest.json`: served from 0.10 to the newest) for an empty list of topics.
pub fn registered_brokers(port: u16) -> io::Result<Vec<i32>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Header version 1: api key 3, version 1, correlation id 0, null client id; then an empty array of topics.
    let request = [0, 3, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
    let mut frame = [0; 4 + 14];
    frame[3] = 14;
    frame[4..].copy_from_slice(&request);
    stream.write_all(&frame)?;
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > LONGEST_ANSWER_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a Kafka broker's answer",
        ));
    }
    let mut answer = vec![0; size];
    stream.read_exact(&mut answer)?;
    parse_brokers(&answer)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a damaged Metadata answer"))
}

/// The broker ids of a Metadata version 1 answer: correlation id, then an array of {id, host, port, rack or null}.
fn parse_brokers(answer: &[u8]) -> Option<Vec<i32>> {
    let mut rest = answer.get(4..)?;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let brokers = i32::from_be_bytes(take(4)?.try_into().ok()?);
    let mut ids = Vec::new();
    for _ in 0..brokers.max(0) {
        ids.push(i32::from_be_bytes(take(4)?.try_into().ok()?));
        let host_bytes = i16::from_be_bytes(take(2)?.try_into().ok()?);
        take(usize::try_from(host_bytes).ok()?)?;
        take(4)?;
        let rack_bytes = i16::from_be_bytes(take(2)?.try_into().ok()?);
        take(usize::try_from(rack_bytes).unwrap_or(0))?;
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(id: u8, rack: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, id, 0, 9];
        bytes.extend(b"127.0.0.1");
        bytes.extend([0, 0, 0x23, 0x84]);
        match rack {
            Some(rack) => {
                bytes.extend([0, u8::try_from(rack.len()).unwrap()]);
                bytes.extend(rack);
            }
            None => bytes.extend([0xff, 0xff]),
        }
        bytes
    }

    #[test]
    fn brokers_are_read_with_and_without_rack() {
        let mut answer = vec![0, 0, 0, 0, 0, 0, 0, 2];
        answer.extend(broker(1, None));
        answer.extend(broker(7, Some(b"eu-1a")));
        answer.extend([0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(parse_brokers(&answer), Some(vec![1, 7]));
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_refused() {
        let mut answer = vec![0, 0, 0, 0, 0, 0, 0, 1];
        answer.extend(broker(1, Some(b"r")));
        for length in 0..answer.len() {
            assert_eq!(parse_brokers(&answer[..length]), None, "{length} bytes");
        }
    }
}
