"""aiokafka: a group that is joined and left, seeking by time, transactions with offsets. The argument is the bootstrap servers."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

SERVERS = sys.argv[1]
COUNT = 2000


async def read(consumer, count):
    values = []
    while len(values) < count:
        found = await asyncio.wait_for(consumer.getmany(timeout_ms=1000), 30)
        values += [record.value.decode() for records in found.values() for record in records]
    return values


async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
    await admin.start()
    await admin.create_topics([NewTopic("aio", 4, 3), NewTopic("aio-tx", 2, 3)])
    async with AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True, compression_type="lz4") as producer:
        sent = [f"value {number}" for number in range(COUNT)]
        futures = [await producer.send("aio", value.encode(), key=value.encode()) for value in sent]
        await asyncio.gather(*futures)

    first = AIOKafkaConsumer("aio", bootstrap_servers=SERVERS, group_id="aio", auto_offset_reset="earliest",
                             enable_auto_commit=False)
    await first.start()
    assert sorted(await read(first, COUNT)) == sorted(sent)
    await first.commit()
    second = AIOKafkaConsumer("aio", bootstrap_servers=SERVERS, group_id="aio", enable_auto_commit=False)
    await second.start()
    for _ in range(100):
        if len(first.assignment()) == 2 and len(second.assignment()) == 2:
            break
        await asyncio.sleep(0.1)
        await first.getmany(timeout_ms=10)
        await second.getmany(timeout_ms=10)
    assert not first.assignment() & second.assignment()
    assert len(first.assignment() | second.assignment()) == 4
    committed = sum([await second.committed(TopicPartition("aio", index)) for index in range(4)])
    assert committed == COUNT, committed
    by_time = await second.offsets_for_times({TopicPartition("aio", 0): 0})
    assert by_time[TopicPartition("aio", 0)].offset == 0
    await first.stop()
    await second.stop()

    async with AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id="aio") as producer:
        for transaction in range(4):
            await producer.begin_transaction()
            for number in range(20):
                await producer.send("aio-tx", f"{transaction} {number}".encode())
            await producer.send_offsets_to_transaction({TopicPartition("aio", 0): transaction + 1}, "aio-moved")
            if transaction == 3:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    reader = AIOKafkaConsumer("aio-tx", bootstrap_servers=SERVERS, auto_offset_reset="earliest",
                              isolation_level="read_committed", group_id="aio-moved", enable_auto_commit=False)
    await reader.start()
    values = await read(reader, 60)
    assert sorted(values) == sorted(f"{t} {n}" for t in range(3) for n in range(20))
    assert not await reader.getmany(timeout_ms=1000)
    assert await reader.committed(TopicPartition("aio", 0)) == 3
    await reader.stop()
    await admin.delete_topics(["aio", "aio-tx"])
    await admin.close()
    print("all well")


asyncio.run(main())
