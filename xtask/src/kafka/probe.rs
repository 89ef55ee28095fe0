//! Asks a node which brokers are registered, and who coordinates, over the Kafka protocol and without starting a JVM.

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
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    // An empty array of topics.
    let answer = exchange(stream, METADATA, &[0; 4])?;
    parse_brokers(&answer)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a damaged Metadata answer"))
}

/// The id of the broker that coordinates a group or, else, a transactional id, from the first server that tells it.
///
/// FindCoordinator version 1 (`FindCoordinatorRequest.json`: served from 0.11 to the newest).
pub fn coordinator(bootstrap: &str, key: &str, is_group: bool) -> io::Result<u32> {
    let key_bytes = i16::try_from(key.len()).map_err(io::Error::other)?;
    let mut request = key_bytes.to_be_bytes().to_vec();
    request.extend(key.as_bytes());
    request.push(u8::from(!is_group));
    let mut last = io::Error::other("no server is named");
    for server in bootstrap.split(',') {
        let answer =
            TcpStream::connect(server).and_then(|stream| exchange(stream, FIND_COORDINATOR, &request));
        match answer.map(|answer| parse_coordinator(&answer)) {
            Ok(Some(id)) => return Ok(id),
            Ok(None) => last = io::Error::other(format!("{server} knows none")),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// API keys; both are asked in version 1.
const METADATA: u8 = 3;
const FIND_COORDINATOR: u8 = 10;

/// Sends a request in version 1 and gives back the answer, from its correlation id on.
fn exchange(mut stream: TcpStream, api: u8, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Header version 1: api key, version 1, correlation id 0, null client id.
    let mut frame = vec![0, api, 0, 1, 0, 0, 0, 0, 0xff, 0xff];
    frame.extend(request);
    let frame_bytes = u32::try_from(frame.len()).map_err(io::Error::other)?;
    stream.write_all(&frame_bytes.to_be_bytes())?;
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
    Ok(answer)
}

/// The node id of a FindCoordinator version 1 answer: correlation id, throttle time, error code, error message or null, node
/// id, …; `None` where there is an error.
fn parse_coordinator(answer: &[u8]) -> Option<u32> {
    let (error, rest) = answer.get(8..)?.split_at_checked(2)?;
    let (message_bytes, rest) = rest.split_at_checked(2)?;
    let message_bytes = i16::from_be_bytes(message_bytes.try_into().ok()?);
    let rest = rest.get(usize::try_from(message_bytes).unwrap_or(0)..)?;
    let id = i32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
    u32::try_from(id).ok().filter(|_| error == [0, 0])
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
    fn a_coordinator_is_read_with_and_without_a_message_and_none_where_there_is_an_error() {
        let with = |error: u8, message: &[u8]| {
            let mut answer = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, error];
            answer.extend(message);
            answer.extend([0, 0, 0, 3, 0, 1, b'h', 0, 0, 0x23, 0x84]);
            answer
        };
        assert_eq!(parse_coordinator(&with(0, &[0xff, 0xff])), Some(3));
        assert_eq!(
            parse_coordinator(&with(0, &[0, 4, b'N', b'O', b'N', b'E'])),
            Some(3)
        );
        assert_eq!(parse_coordinator(&with(15, &[0xff, 0xff])), None);
        assert_eq!(parse_coordinator(&with(0, &[0xff, 0xff])[..14]), None);
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
