//! Brokers that answer ApiVersions, Metadata and FindCoordinator by themselves and leave all other requests to the test.

use client::consumer::Consumer;
use client::group::Group;
use client::net::{ConnId, Frame, NetAction, NetEvent, Outgoing};
use client::producer::{BatchTag, Producer};
use model::client_config::{ClientProperties, ConsumerConfig, ProducerConfig};
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::codec::{Message, Request};
use wire::header;
use wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey,
};
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::{ApiKey, ErrorCode};

pub const MS: u64 = 1_000_000;
const FIRST_PORT: u16 = 9000;

/// A state machine under test.
pub trait Subject {
    fn actions(&mut self) -> &mut Vec<NetAction>;
    fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64);
    fn tick(&mut self, now_ns: u64);
}

impl Subject for Group {
    fn actions(&mut self) -> &mut Vec<NetAction> {
        Group::actions(self)
    }

    fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64) {
        Group::on_net(self, conn, event, now_ns, &mut Vec::new());
    }

    fn tick(&mut self, now_ns: u64) {
        Group::tick(self, now_ns, &mut Vec::new());
    }
}

impl Subject for Consumer {
    fn actions(&mut self) -> &mut Vec<NetAction> {
        Consumer::actions(self)
    }

    fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64) {
        Consumer::on_net(self, conn, event, now_ns, &mut Vec::new());
    }

    fn tick(&mut self, now_ns: u64) {
        Consumer::tick(self, now_ns, &mut Vec::new());
    }
}

impl<T: BatchTag> Subject for Producer<T> {
    fn actions(&mut self) -> &mut Vec<NetAction> {
        Producer::actions(self)
    }

    fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64) {
        Producer::on_net(self, conn, event, now_ns, &mut Vec::new());
    }

    fn tick(&mut self, now_ns: u64) {
        Producer::tick(self, now_ns, &mut Vec::new());
    }
}

/// A request that waits for the test's answer.
#[derive(Debug, Clone)]
pub struct Asked {
    pub conn: ConnId,
    pub broker: i32,
    pub key: ApiKey,
    pub version: i16,
    correlation: i32,
    body: Vec<u8>,
}

impl Asked {
    /// The request.
    pub fn read<R: Request>(&self) -> R {
        assert_eq!(self.key, R::KEY, "another request was expected");
        self.message()
    }

    /// The request, of an API that is no [`Request`] of the control plane.
    pub fn message<M: Message>(&self) -> M {
        header::decode_request_body(self.version, &mut wire::Reader::new(&self.body))
            .expect("a whole request")
    }

    /// The bytes behind the request's header.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Its number.
    pub fn correlation(&self) -> i32 {
        self.correlation
    }
}

/// The network: three brokers, and what they know.
pub struct Network {
    pub now_ns: u64,
    /// Topics, and of each partition the leader and its epoch.
    pub topics: BTreeMap<String, Vec<(i32, i32)>>,
    /// What metadata says of a topic instead of its partitions.
    pub topic_errors: BTreeMap<String, ErrorCode>,
    pub coordinator: i32,
    pub coordinator_error: ErrorCode,
    /// The newest version of an API that the brokers serve, where it is not the newest that there is.
    pub newest: BTreeMap<ApiKey, i16>,
    /// Questions for metadata that were answered.
    pub metadata_asked: usize,
    /// Questions for the coordinator that were answered.
    pub coordinator_asked: usize,
    /// Features that the cluster has agreed on.
    pub features: BTreeMap<String, i16>,
    /// APIs that the brokers do not serve.
    pub lacks: Vec<ApiKey>,
    /// Topics that have been made again, with their new ids.
    pub new_ids: BTreeMap<String, wire::Uuid>,
    conns: HashMap<ConnId, i32>,
    pending: VecDeque<(ConnId, NetEvent)>,
    asked: VecDeque<Asked>,
}

impl Network {
    pub fn new() -> Network {
        Network {
            now_ns: 0,
            topics: BTreeMap::new(),
            topic_errors: BTreeMap::new(),
            coordinator: 1,
            coordinator_error: ErrorCode::NONE,
            newest: BTreeMap::new(),
            metadata_asked: 0,
            coordinator_asked: 0,
            features: BTreeMap::new(),
            lacks: Vec::new(),
            new_ids: BTreeMap::new(),
            conns: HashMap::new(),
            pending: VecDeque::new(),
            asked: VecDeque::new(),
        }
    }

    /// A topic whose partitions are led by brokers 1, 2, 3, 1, …
    pub fn with_topic(mut self, name: &str, partitions: i32) -> Network {
        self.topics.insert(
            name.to_owned(),
            (0..partitions).map(|index| (index % 3 + 1, 0)).collect(),
        );
        self
    }

    /// The id of the topic of that name.
    pub fn topic_id(name: &str) -> wire::Uuid {
        let mut bytes = [9; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        wire::Uuid(bytes)
    }

    /// The id that the topic has by now.
    pub fn topic_id_of(&self, name: &str) -> wire::Uuid {
        let new = self.new_ids.get(name).copied();
        new.unwrap_or_else(|| Network::topic_id(name))
    }

    /// Lets time pass and everything happen that happens without the test's answers.
    pub fn pass(&mut self, subject: &mut impl Subject, ns: u64) {
        self.now_ns += ns;
        subject.tick(self.now_ns);
        loop {
            for action in subject.actions().drain(..).collect::<Vec<_>>() {
                self.act(action);
            }
            let Some((conn, event)) = self.pending.pop_front() else {
                return;
            };
            subject.on_net(conn, event, self.now_ns);
            subject.tick(self.now_ns);
        }
    }

    /// As [`Network::pass`], in many small steps.
    pub fn pass_slowly(&mut self, subject: &mut impl Subject, ns: u64, step_ns: u64) {
        let end_ns = self.now_ns + ns;
        while self.now_ns < end_ns {
            self.pass(subject, step_ns);
        }
    }

    /// The oldest request that waits for an answer.
    pub fn next_asked(&mut self) -> Option<Asked> {
        self.asked.pop_front()
    }

    /// The oldest request of this API that waits for an answer, which has to be there.
    pub fn take(&mut self, key: ApiKey) -> Asked {
        let place = self.asked.iter().position(|asked| asked.key == key);
        let place = place.unwrap_or_else(|| panic!("no {key} is waiting, but {:?}", self.waiting()));
        self.asked.remove(place).expect("it is there")
    }

    /// The APIs of the requests that wait.
    pub fn waiting(&self) -> Vec<ApiKey> {
        self.asked.iter().map(|asked| asked.key).collect()
    }

    /// Answers, and lets happen what follows from it.
    pub fn answer<R: Request>(&mut self, subject: &mut impl Subject, asked: &Asked, response: &R::Response) {
        let frame = header::encode_response::<R>(asked.correlation, asked.version, response);
        self.answer_raw(subject, asked, frame);
    }

    /// Answers with a frame, length included.
    pub fn answer_raw(&mut self, subject: &mut impl Subject, asked: &Asked, frame: Vec<u8>) {
        self.pending.push_back((
            asked.conn,
            NetEvent::Frame(Frame::from_bytes(frame[4..].to_vec())),
        ));
        self.pass(subject, 0);
    }

    /// Ends a connection.
    pub fn close(&mut self, subject: &mut impl Subject, conn: ConnId) {
        self.conns.remove(&conn);
        self.asked.retain(|asked| asked.conn != conn);
        self.pending
            .push_back((conn, NetEvent::Closed(client::net::CloseReason::ByPeer)));
        self.pass(subject, 0);
    }

    fn act(&mut self, action: NetAction) {
        match action {
            NetAction::Connect { conn, address, .. } => {
                let broker = i32::from(address.port - FIRST_PORT);
                self.conns.insert(conn, broker);
                self.pending.push_back((conn, NetEvent::Connected));
            }
            NetAction::Send { conn, request } => self.on_request(conn, request),
            NetAction::Close { conn } => {
                self.conns.remove(&conn);
                self.asked.retain(|asked| asked.conn != conn);
            }
        }
    }

    fn on_request(&mut self, conn: ConnId, request: Outgoing) {
        let Some(&broker) = self.conns.get(&conn) else {
            return;
        };
        self.pending.push_back((
            conn,
            NetEvent::Written {
                correlation: request.correlation,
                at_ns: self.now_ns,
            },
        ));
        let bodies: Vec<&[u8]> = request.bodies.iter().map(|body| body.bytes()).collect();
        let whole: Vec<u8> = wire::cuts::pieces(&request.head, &request.cuts, bodies)
            .flatten()
            .copied()
            .collect();
        let frame = &whole[4..];
        let (head, reader) = header::decode_request_header(frame).expect("a request");
        let (key, version, correlation) = (head.api_key, head.api_version, head.correlation_id);
        let body = reader.rest().to_vec();
        let answer = match key {
            ApiKey::API_VERSIONS => Some(header::encode_response::<ApiVersionsRequest>(
                correlation,
                version,
                &self.versions(),
            )),
            ApiKey::METADATA => {
                self.metadata_asked += 1;
                let request: MetadataRequest =
                    header::decode_request_body(version, &mut wire::Reader::new(&body))
                        .expect("a whole request");
                Some(header::encode_response::<MetadataRequest>(
                    correlation,
                    version,
                    &self.metadata(&request),
                ))
            }
            ApiKey::FIND_COORDINATOR => {
                self.coordinator_asked += 1;
                let request: FindCoordinatorRequest =
                    header::decode_request_body(version, &mut wire::Reader::new(&body))
                        .expect("a whole request");
                let response = self.found(version, request);
                Some(header::encode_response::<FindCoordinatorRequest>(
                    correlation,
                    version,
                    &response,
                ))
            }
            _ => None,
        };
        match answer {
            Some(frame) => {
                self.pending
                    .push_back((conn, NetEvent::Frame(Frame::from_bytes(frame[4..].to_vec()))));
            }
            None => self.asked.push_back(Asked {
                conn,
                broker,
                key,
                version,
                correlation,
                body,
            }),
        }
    }

    fn versions(&self) -> ApiVersionsResponse {
        let api_keys = ApiKey::ALL
            .iter()
            .filter(|key| !self.lacks.contains(key))
            .map(|&api_key| ApiVersion {
                api_key,
                min_version: 0,
                max_version: self.newest.get(&api_key).copied().unwrap_or(30),
            })
            .collect();
        let features = self.features.iter().map(|(name, level)| FinalizedFeatureKey {
            name: name.clone(),
            max_version_level: *level,
            min_version_level: *level,
        });
        ApiVersionsResponse {
            finalized_features: features.collect(),
            api_keys,
            ..Default::default()
        }
    }

    fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let brokers = (1..=3)
            .map(|id| MetadataResponseBroker {
                node_id: id,
                host: "broker".to_owned(),
                port: i32::from(FIRST_PORT) + id,
                rack: None,
            })
            .collect();
        let names = request
            .topics
            .iter()
            .flatten()
            .filter_map(|topic| topic.name.clone());
        let topics = names.map(|name| self.topic(name)).collect();
        MetadataResponse {
            brokers,
            controller_id: 1,
            topics,
            ..Default::default()
        }
    }

    fn topic(&self, name: String) -> MetadataResponseTopic {
        let known = self
            .topics
            .get(&name)
            .filter(|_| !self.topic_errors.contains_key(&name));
        let partitions = known
            .into_iter()
            .flatten()
            .zip(0..)
            .map(
                |(&(leader_id, leader_epoch), partition_index)| MetadataResponsePartition {
                    partition_index,
                    leader_id,
                    leader_epoch,
                    replica_nodes: vec![1, 2, 3],
                    isr_nodes: vec![1, 2, 3],
                    ..Default::default()
                },
            )
            .collect();
        let error_code = match (known, self.topic_errors.get(&name)) {
            (_, Some(&error)) => error,
            (None, None) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            (Some(_), None) => ErrorCode::NONE,
        };
        MetadataResponseTopic {
            topic_id: self.topic_id_of(&name),
            name: Some(name),
            error_code,
            partitions,
            ..Default::default()
        }
    }

    fn found(&self, version: i16, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
        let (error_code, node_id) = (self.coordinator_error, self.coordinator);
        if version < 4 {
            return FindCoordinatorResponse {
                error_code,
                node_id,
                ..Default::default()
            };
        }
        let coordinators = request
            .coordinator_keys
            .into_iter()
            .map(|key| Coordinator {
                key,
                error_code,
                node_id,
                ..Default::default()
            })
            .collect();
        FindCoordinatorResponse {
            coordinators,
            ..Default::default()
        }
    }
}

/// The settings of a consumer whose bootstrap server is broker 1.
pub fn config(properties: &[&str]) -> ConsumerConfig {
    given(properties).consumer().expect("valid properties").config
}

/// The settings of a producer whose bootstrap server is broker 1.
pub fn producer_config(properties: &[&str]) -> ProducerConfig {
    given(properties).producer().expect("valid properties").config
}

fn given(properties: &[&str]) -> ClientProperties {
    let mut given = ClientProperties::default();
    let bootstrap = format!("bootstrap.servers=broker:{}", FIRST_PORT + 1);
    for property in std::iter::once(bootstrap.as_str()).chain(properties.iter().copied()) {
        given.assign(property, "-X").expect("an assignment");
    }
    given
}
