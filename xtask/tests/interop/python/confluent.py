"""confluent-kafka-python (librdkafka): topics, codecs, groups, transactions. The argument is the bootstrap servers."""

import sys
import uuid

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

SERVERS = sys.argv[1]
COUNT = 3000


def made(futures):
    for future in futures.values():
        future.result(30)


def consumed(topic, count, **settings):
    consumer = Consumer({
        "bootstrap.servers": SERVERS,
        "group.id": str(uuid.uuid4()),
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        **settings,
    })
    consumer.subscribe([topic])
    values, ends = [], set()
    while len(values) < count or len(ends) < 3:
        message = consumer.poll(20)
        assert message is not None, f"{topic}: {len(values)} of {count} records"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ends.add(message.partition())
            continue
        values.append(message.value().decode())
    consumer.commit(asynchronous=False)
    positions = consumer.position(consumer.assignment())
    committed = consumer.committed([TopicPartition(p.topic, p.partition) for p in positions], 20)
    assert {(p.partition, p.offset) for p in committed} == {(p.partition, p.offset) for p in positions}
    consumer.close()
    return values


admin = AdminClient({"bootstrap.servers": SERVERS})
made(admin.create_topics([NewTopic("confluent", 2, 3), NewTopic("transactions", 3, 3)]))
made(admin.create_partitions([NewPartitions("confluent", 3)]))
described = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "confluent")])
assert list(described.values())[0].result(20)["retention.ms"].value == "604800000"

failures = []
sent = []
for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
    producer = Producer({"bootstrap.servers": SERVERS, "compression.type": codec, "enable.idempotence": True})
    for number in range(COUNT // 5):
        value = f"{codec} {number}"
        sent.append(value)
        producer.produce("confluent", value, key=str(number),
                         on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(30) == 0
assert not failures, failures[:3]
assert sorted(consumed("confluent", COUNT)) == sorted(sent)

producer = Producer({"bootstrap.servers": SERVERS, "transactional.id": "confluent"})
producer.init_transactions(30)
for transaction in range(6):
    producer.begin_transaction()
    for number in range(50):
        producer.produce("transactions", f"{transaction} {number}")
    if transaction % 2:
        producer.flush(30)
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)
committed = consumed("transactions", 150, **{"isolation.level": "read_committed"})
assert sorted(committed) == sorted(f"{t} {n}" for t in (0, 2, 4) for n in range(50))
assert len(consumed("transactions", 300, **{"isolation.level": "read_uncommitted"})) == 300

# Offsets that are committed with a transaction.
consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": "moved", "auto.offset.reset": "earliest"})
consumer.subscribe(["confluent"])
message = consumer.poll(30)
assert message is not None and not message.error()
producer.begin_transaction()
producer.produce("transactions", "moved")
offsets = [TopicPartition("confluent", message.partition(), message.offset() + 1)]
producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
producer.commit_transaction(30)
found = consumer.committed([TopicPartition("confluent", message.partition())], 20)
assert found[0].offset == message.offset() + 1, found
consumer.close()

# A newcomer with the same id fences the old one.
newer = Producer({"bootstrap.servers": SERVERS, "transactional.id": "confluent"})
newer.init_transactions(30)
producer.begin_transaction()
producer.produce("transactions", "fenced")
try:
    producer.commit_transaction(30)
    raise SystemExit("the old producer committed")
except Exception as error:
    assert error.args[0].fatal(), error

made(admin.delete_topics(["confluent", "transactions"]))
print("all well")
