//! Headers of requests and responses, and whole frames.
//!
//! A frame is four bytes of length, then header and body. Which header a message has follows from its API and version:
//! flexible versions have tagged fields in it. Two exceptions: the client's name keeps its two-byte length even in
//! flexible headers, and the response to ApiVersions has the plain header always, because it is read before the
//! versions are agreed on.

use crate::codec::{DecodeError, Layout, Message, Reader, Request, Writer};
use crate::messages::*;
use crate::{ApiKey, ErrorCode, fetch, produce};

/// What stands before the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API.
    pub api_key: ApiKey,
    /// The version of the request and of its response.
    pub api_version: i16,
    /// The number that comes back with the response.
    pub correlation_id: i32,
    /// The name that the client gives itself.
    pub client_id: Option<&'a str>,
}

macro_rules! flexible_from {
    ($key:ident $($request:ident $response:ident,)*) => {
        match $key {
            ApiKey::PRODUCE => produce::FLEXIBLE_FROM,
            ApiKey::FETCH => fetch::FLEXIBLE_FROM,
            $(<$request as Request>::KEY => $request::FLEXIBLE_FROM,)*
            _ => None,
        }
    };
}

/// From which version on the API's messages are flexible; `None` if never, or if the API is not spoken here.
pub fn flexible_from(key: ApiKey) -> Option<i16> {
    for_each_request!(flexible_from key)
}

fn request_layout(key: ApiKey, version: i16) -> Layout {
    Layout::new(version, flexible_from(key))
}

fn response_layout(key: ApiKey, version: i16) -> Layout {
    match key {
        ApiKey::API_VERSIONS => Layout::new(version, None),
        _ => request_layout(key, version),
    }
}

/// The client id's layout, whatever the rest of the header has.
const CLIENT_ID: Layout = Layout::new(0, None);

impl<'a> RequestHeader<'a> {
    /// Appends the header.
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.put_i16(self.api_key.0);
        out.put_i16(self.api_version);
        out.put_i32(self.correlation_id);
        out.put_nullable_str(CLIENT_ID, self.client_id);
        out.put_no_tagged(request_layout(self.api_key, self.api_version));
    }

    /// Reads the header; `input` stands at the body then.
    ///
    /// # Errors
    /// If the bytes are not a header.
    pub fn read(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let api_key = ApiKey(input.read_i16()?);
        let api_version = input.read_i16()?;
        let correlation_id = input.read_i32()?;
        let client_id = input
            .read_nullable_str(CLIENT_ID)
            .map_err(|error| error.in_field("RequestHeader.client_id"))?;
        input.skip_tagged(request_layout(api_key, api_version))?;
        Ok(Self {
            api_key,
            api_version,
            correlation_id,
            client_id,
        })
    }
}

/// Reserves the four bytes of a frame's length, and gives back where the frame starts.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Fills in the length of the frame that starts at `start`; `elsewhere_bytes` of it are not in `out`.
pub(crate) fn end_frame(out: &mut [u8], start: usize, elsewhere_bytes: usize) {
    let length = (out.len() - start - 4).saturating_add(elsewhere_bytes);
    let length = i32::try_from(length).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

pub(crate) fn write_response_header(key: ApiKey, version: i16, correlation_id: i32, out: &mut Writer<'_>) {
    out.put_i32(correlation_id);
    out.put_no_tagged(response_layout(key, version));
}

pub(crate) fn read_response_header(
    key: ApiKey,
    version: i16,
    input: &mut Reader<'_>,
) -> Result<i32, DecodeError> {
    let correlation_id = input.read_i32()?;
    input.skip_tagged(response_layout(key, version))?;
    Ok(correlation_id)
}

/// A whole request frame, length and header included.
pub fn encode_request<R: Request>(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    request: &R,
) -> Vec<u8> {
    let mut out = Vec::new();
    append_request(R::KEY, correlation_id, client_id, version, request, &mut out);
    out
}

/// Appends a whole request frame to `out`.
pub(crate) fn append_request(
    api_key: ApiKey,
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    request: &impl Message,
    out: &mut Vec<u8>,
) {
    let start = begin_frame(out);
    RequestHeader {
        api_key,
        api_version: version,
        correlation_id,
        client_id,
    }
    .write(&mut Writer::new(out));
    request.encode(version, out);
    end_frame(out, start, 0);
}

/// A whole response frame, length and header included.
pub fn encode_response<R: Request>(correlation_id: i32, version: i16, response: &R::Response) -> Vec<u8> {
    append_response(R::KEY, correlation_id, version, response).bytes
}

/// A whole response frame in which a broker may still put down for how long a quota holds the client back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFrame {
    /// Length and header included.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the four bytes of `throttle_time_ms` stand; `None` where the version has no such field.
    pub throttle_time_at: Option<usize>,
}

/// As [`encode_response`], for a broker with quotas.
pub fn encode_response_frame<R: Request>(
    correlation_id: i32,
    version: i16,
    response: &R::Response,
) -> ResponseFrame {
    append_response(R::KEY, correlation_id, version, response)
}

pub(crate) fn append_response<M: Message>(
    key: ApiKey,
    correlation_id: i32,
    version: i16,
    response: &M,
) -> ResponseFrame {
    let mut bytes = Vec::new();
    let start = begin_frame(&mut bytes);
    let mut writer = Writer::new(&mut bytes);
    write_response_header(key, version, correlation_id, &mut writer);
    response.write(Layout::new(version, M::FLEXIBLE_FROM), &mut writer);
    let throttle_time_at = writer.throttle_time_at();
    end_frame(&mut bytes, start, 0);
    ResponseFrame {
        bytes,
        throttle_time_at,
    }
}

/// Reads the header of a request, for a broker. `frame` is without its length; the reader stands at the body, and its
/// positions are those within `frame`.
///
/// # Errors
/// If the bytes are not a header. Whether API and version are served is for the caller to say.
pub fn decode_request_header(frame: &[u8]) -> Result<(RequestHeader<'_>, Reader<'_>), DecodeError> {
    let mut input = Reader::new(frame);
    let header = RequestHeader::read(&mut input)?;
    Ok((header, input))
}

/// Which request a response belongs to. `frame` is without its length.
///
/// # Errors
/// If the frame is shorter than four bytes.
pub fn response_correlation_id(frame: &[u8]) -> Result<i32, DecodeError> {
    Reader::new(frame).read_i32()
}

/// Reads a response to a request of `version`. `frame` is without its length; the correlation id comes back too.
///
/// A broker that does not know the version of an ApiVersions request answers in version 0, with UNSUPPORTED_VERSION; that
/// answer is read as what it is.
///
/// # Errors
/// If the bytes are not such a response, or more than it.
pub fn decode_response<R: Request>(version: i16, frame: &[u8]) -> Result<(i32, R::Response), DecodeError> {
    read_response(R::KEY, version, frame)
}

pub(crate) fn read_response<M: Message>(
    key: ApiKey,
    version: i16,
    frame: &[u8],
) -> Result<(i32, M), DecodeError> {
    let mut input = Reader::new(frame);
    let correlation_id = read_response_header(key, version, &mut input)?;
    let refused = key == ApiKey::API_VERSIONS
        && input
            .clone()
            .read_i16()
            .is_ok_and(|code| ErrorCode(code) == ErrorCode::UNSUPPORTED_VERSION);
    let response = M::decode(if refused { 0 } else { version }, &mut input)?;
    input.finish()?;
    Ok((correlation_id, response))
}

/// Reads a request's body, for a broker, up to the frame's end.
///
/// # Errors
/// If the bytes are not such a request, or more than it.
pub fn decode_request_body<M: Message>(version: i16, input: &mut Reader<'_>) -> Result<M, DecodeError> {
    let request = M::decode(version, input)?;
    input.finish()?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::api_versions::ApiVersion;

    #[test]
    fn a_request_frame_reads_back_and_keeps_a_short_client_id_length() {
        let request = MetadataRequest {
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let frame = encode_request(7, Some("me"), 12, &request);
        assert_eq!(frame[..4], (frame.len() as i32 - 4).to_be_bytes());
        // Key 3, version 12, correlation id 7, a two-byte length although the header is flexible, no tagged fields.
        assert_eq!(frame[4..17], [0, 3, 0, 12, 0, 0, 0, 7, 0, 2, b'm', b'e', 0]);
        let (header, mut body) = decode_request_header(&frame[4..]).unwrap();
        assert_eq!(header.client_id, Some("me"));
        assert_eq!(decode_request_body::<MetadataRequest>(12, &mut body), Ok(request));
    }

    #[test]
    fn header_versions_are_those_of_another_implementation() {
        use kafka_protocol::messages::ApiKey as Theirs;
        for &key in ApiKey::ALL {
            let Ok(theirs) = Theirs::try_from(key.0) else {
                continue;
            };
            let Some(flexible_from) = flexible_from(key) else {
                continue;
            };
            for version in [flexible_from - 1, flexible_from] {
                let expected = if version >= flexible_from { 2 } else { 1 };
                if theirs.valid_versions().min <= version {
                    assert_eq!(
                        theirs.request_header_version(version),
                        expected,
                        "{key} {version}"
                    );
                    let flexible = response_layout(key, version).flexible;
                    assert_eq!(
                        theirs.response_header_version(version) == 1,
                        flexible,
                        "{key} {version}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_refused_version_of_api_versions_is_read_in_version_0() {
        let api_keys = vec![ApiVersion {
            api_key: ApiKey::API_VERSIONS,
            min_version: 0,
            max_version: 2,
        }];
        let refusal = ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            api_keys,
            ..Default::default()
        };
        let frame = encode_response::<ApiVersionsRequest>(1, 0, &refusal);
        assert_eq!(
            decode_response::<ApiVersionsRequest>(4, &frame[4..]),
            Ok((1, refusal))
        );
    }

    #[test]
    fn bytes_behind_a_response_are_an_error() {
        let mut frame = encode_response::<HeartbeatRequest>(1, 4, &HeartbeatResponse::default());
        frame.push(0);
        let error = decode_response::<HeartbeatRequest>(4, &frame[4..]).unwrap_err();
        assert_eq!(error.to_string(), "message, byte 12: 1 bytes are left over");
    }
}
