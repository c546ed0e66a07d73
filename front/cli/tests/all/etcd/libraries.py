"""Uses a member through two libraries of Python: etcd3, which speaks gRPC, and etcd3gw, which speaks JSON.

Arguments: HOST PORT [CA CERTIFICATE KEY]. Prints a line for each library; what does not hold is an error.
"""

import sys
import time

import etcd3
import etcd3gw


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r}, not {wanted!r}")


def until(what, is_so):
    end = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.1)


def keys_and_transactions(client):
    for number in range(10):
        client.put(f"p/{number}", f"{number}" * 3)
    equal(client.get("p/3")[0], b"333")
    equal([value for value, _ in client.get_prefix("p/", sort_order="descend")][:2], [b"999", b"888"])
    equal([meta.key for _, meta in client.get_range("p/2", "p/4")], [b"p/2", b"p/3"])
    equal(client.put_if_not_exists("p/3", "x"), False)
    equal(client.replace("p/3", "333", "x"), True)
    swap = client.transactions
    done, found = client.transaction(
        compare=[swap.value("p/3") == "x", swap.version("p/3") > 1, swap.create("none") == 0],
        success=[swap.put("p/3", "y"), swap.get("p/3"), swap.delete("p/4")],
        failure=[],
    )
    equal((done, found[1][0][0]), (True, b"y"))
    equal(client.get("p/4"), (None, None))
    equal(client.delete_prefix("p/").deleted, 9)


def watches(client):
    first = client.put("w/begin", "x").header.revision
    events, cancel = client.watch_prefix("w/", start_revision=first, prev_kv=True)
    client.put("w/a", "1")
    client.put("w/a", "2")
    client.delete("w/a")
    seen = [next(events) for _ in range(4)]
    cancel()
    kinds = [(type(event).__name__, event.key, event.prev_value) for event in seen]
    put, delete = "PutEvent", "DeleteEvent"
    equal(kinds, [(put, b"w/begin", b""), (put, b"w/a", b""), (put, b"w/a", b"1"), (delete, b"w/a", b"2")])


def leases_and_locks(client):
    lease = client.lease(2)
    client.put("l/kept", "x", lease=lease)
    equal(lease.keys, [b"l/kept"])
    for _ in range(4):
        equal(lease.refresh()[0].TTL, 2)
        time.sleep(1)
    equal(client.get("l/kept")[0], b"x")
    until("a lease ends", lambda: client.get("l/kept")[0] is None)
    with client.lock("door", ttl=60) as lock:
        equal(lock.is_acquired(), True)
    with client.lock("door", ttl=60) as lock:
        equal(lock.is_acquired(), True)


def cluster(client):
    equal(len(list(client.members)), 3)
    equal(client.status().leader is not None, True)
    client.compact(client.put("c", "x").header.revision)
    client.defragment()
    equal(list(client.list_alarms()), [])
    equal(len(client.create_alarm()), 1)
    equal([alarm.member_id for alarm in client.list_alarms()], [0])
    equal(len(client.disarm_alarm()), 1)
    equal(list(client.list_alarms()), [])


def json(client):
    for number in range(3):
        equal(client.put(f"j/{number}", f"{number}"), True)
    equal(client.get("j/1"), [b"1"])
    equal([value for value, _ in client.get_prefix("j/")], [b"0", b"1", b"2"])
    equal((client.create("j/1", "x"), client.create("j/3", "3")), (False, True))
    equal((client.replace("j/1", "0", "x"), client.replace("j/1", "1", "x")), (False, True))
    lease = client.lease(ttl=60)
    client.put("j/kept", "x", lease=lease)
    equal((lease.keys(), lease.refresh()), ([b"j/kept"], 60))
    equal(0 < lease.ttl() <= 60, True)
    equal(lease.revoke(), True)
    equal(client.get("j/kept"), [])
    lock = client.lock("door", ttl=60)
    equal((lock.acquire(), lock.is_acquired(), client.lock("door").acquire()), (True, True, False))
    equal((lock.refresh(), lock.release(), lock.is_acquired()), (60, True, False))
    equal(len(client.members()), 3)
    begun = client.get("j/0", metadata=True)[0][1]["mod_revision"]
    events, cancel = client.watch_prefix("j/", start_revision=begun, filters=["NODELETE"])
    client.put("j/live", "now")
    seen = [next(events)["kv"] for _ in range(7)]
    cancel()
    equal([kv["key"] for kv in seen], [b"j/0", b"j/1", b"j/2", b"j/3", b"j/1", b"j/kept", b"j/live"])
    equal((seen[4]["value"], seen[6]["value"]), (b"x", b"now"))
    equal(client.delete_prefix("j/"), True)
    equal(client.delete("j/1"), False)


def main():
    host, port, *files = sys.argv[1:]
    ca, certificate, key = files or (None, None, None)
    client = etcd3.client(host, int(port), ca_cert=ca, cert_cert=certificate, cert_key=key, timeout=60)
    keys_and_transactions(client)
    watches(client)
    leases_and_locks(client)
    cluster(client)
    client.close()
    print("etcd3: all")
    protocol = "https" if files else "http"
    json(etcd3gw.client(host, int(port), ca, key, certificate, timeout=60, protocol=protocol))
    print("etcd3gw: all")


if __name__ == "__main__":
    main()
