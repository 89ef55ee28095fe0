"""kafka-python: topics, codecs, two members of a group, transactions. The argument is the bootstrap servers."""

import sys
import threading

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

SERVERS = sys.argv[1].split(",")
COUNT = 3000

admin = KafkaAdminClient(bootstrap_servers=SERVERS)
admin.create_topics([NewTopic("kafka-python", 6, 3), NewTopic("kafka-python-tx", 3, 3)])

sent = []
for codec in [None, "gzip", "snappy", "lz4", "zstd"]:
    producer = KafkaProducer(bootstrap_servers=SERVERS, compression_type=codec, acks="all")
    futures = []
    for number in range(COUNT // 5):
        value = f"{codec} {number}"
        sent.append(value)
        futures.append(producer.send("kafka-python", value.encode(), headers=[("unit", b"ms")]))
    for future in futures:
        future.get(timeout=30)
    producer.close()

values, lock = [], threading.Lock()


def member():
    consumer = KafkaConsumer("kafka-python", bootstrap_servers=SERVERS, group_id="two",
                             auto_offset_reset="earliest", consumer_timeout_ms=6000)
    for record in consumer:
        assert record.headers == [("unit", b"ms")] or record.headers == (("unit", b"ms"),), record.headers
        with lock:
            values.append((record.partition, record.offset, record.value.decode()))
    consumer.close()


members = [threading.Thread(target=member) for _ in range(2)]
for thread in members:
    thread.start()
for thread in members:
    thread.join(90)
# A record may be given again when a partition changes hands before its offset is committed.
assert sorted({value for value in values}) == sorted(set(values))
assert sorted({value[2] for value in values}) == sorted(sent), f"{len(values)} of {len(sent)}"

producer = KafkaProducer(bootstrap_servers=SERVERS, transactional_id="kafka-python", acks="all")
producer.init_transactions()
for transaction in range(6):
    producer.begin_transaction()
    for number in range(50):
        producer.send("kafka-python-tx", f"{transaction} {number}".encode())
    producer.flush(30)
    if transaction % 2:
        producer.abort_transaction()
    else:
        producer.commit_transaction()
producer.close()
consumer = KafkaConsumer("kafka-python-tx", bootstrap_servers=SERVERS, auto_offset_reset="earliest",
                         isolation_level="read_committed", consumer_timeout_ms=4000)
committed = sorted(record.value.decode() for record in consumer)
assert committed == sorted(f"{t} {n}" for t in (0, 2, 4) for n in range(50)), len(committed)
ends = consumer.end_offsets([TopicPartition("kafka-python-tx", index) for index in range(3)])
assert sum(ends.values()) >= 306, ends
consumer.close()
admin.delete_topics(["kafka-python", "kafka-python-tx"])
print("all well")
