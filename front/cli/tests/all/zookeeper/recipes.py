"""kazoo's recipes, by several clients at once, before and after a server is killed.

Says "halfway" once every recipe has done something, waits for a line, and then all must do more. Each recipe checks itself: what a lock
guards is read, kept for a moment and written back with its version, so two holders at once are seen.

Arguments: the servers, how kazoo waits (threads, gevent or eventlet), and for certificates the files of the authority, the certificate and
its key.
"""
import sys

HOSTS, WAITS, CERTIFICATES = sys.argv[1], sys.argv[2], sys.argv[3:]
# Before anything else is imported.
if WAITS == "gevent":
    import gevent.monkey

    gevent.monkey.patch_all()
if WAITS == "eventlet":
    import eventlet

    eventlet.monkey_patch()

import logging
import select
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.exceptions import BadVersionError, ConnectionLoss, NoNodeError, NodeExistsError, SessionExpiredError
from kazoo.retry import KazooRetry

logging.basicConfig(level=logging.ERROR)
MORE = 3
counts, lock, failures = {}, threading.Lock(), []


def handler():
    """How kazoo waits."""
    if WAITS == "gevent":
        from kazoo.handlers.gevent import SequentialGeventHandler

        return SequentialGeventHandler()
    if WAITS == "eventlet":
        from kazoo.handlers.eventlet import SequentialEventletHandler

        return SequentialEventletHandler()
    return SequentialThreadingHandler()


def secure():
    """What a connection with a certificate needs."""
    if not CERTIFICATES:
        return {}
    ca, certificate, key = CERTIFICATES
    return {"use_ssl": True, "verify_certs": True, "ca": ca, "certfile": certificate, "keyfile": key}


def client():
    waits = handler()
    retry = KazooRetry(max_tries=60, delay=0.05, max_delay=1, sleep_func=waits.sleep_func)
    zk = KazooClient(
        hosts=HOSTS, timeout=10, connection_retry=retry, command_retry=retry, handler=waits, **secure()
    )
    zk.start(timeout=30)
    return zk


def did(name):
    with lock:
        counts[name] = counts.get(name, 0) + 1


def whole(name, zk, act):
    """Does something again and again. A lost connection is no failure: the recipe begins anew."""
    while not over.is_set():
        try:
            act(zk)
            did(name)
        except (ConnectionLoss, SessionExpiredError):
            time.sleep(0.2)
        except Exception as why:
            failures.append(f"{name}: {type(why).__name__} {why}")
            return
        time.sleep(0.02)


def change_guarded(zk, path, guard):
    """What stands at the path counts its changes; the guard lets one client in."""
    with guard:
        expires = zk.client_id
        data, stat = zk.retry(zk.get, path)
        time.sleep(0.005)
        try:
            zk.set(path, str(int(data or b"0") + 1).encode(), version=stat.version)
        except BadVersionError:
            # Whoever lost its session is not guarded any more.
            if zk.client_id == expires and zk.state == KazooState.CONNECTED and not tried_twice(zk, path, data):
                raise


def tried_twice(zk, path, data):
    """The write was sent again after its connection was lost, and had been done."""
    return int(zk.retry(zk.get, path)[0]) == int(data or b"0") + 1


def locks(zk):
    change_guarded(zk, "/guarded/lock", zk.Lock("/locks/one", "me"))


def semaphores(zk):
    change_guarded(zk, "/guarded/semaphore", zk.Semaphore("/locks/semaphore", max_leases=1))


def counters(zk):
    counter = zk.Counter("/counter")
    counter += 1


def queues(zk):
    queue = zk.LockingQueue("/queue")
    queue.put(b"x")
    if queue.get(timeout=5) is not None:
        queue.consume()


def elections(zk):
    leader = threading.Event()
    election = zk.Election("/election", "me")
    election.run(leader.set)
    assert leader.is_set()


def parties(zk):
    party = zk.Party("/party", f"{threading.get_ident()}")
    party.join()
    assert len(party) >= 1
    party.leave()


def transactions(zk):
    transaction = zk.transaction()
    for name in "ab":
        transaction.create(f"/multi/{threading.get_ident()}-{name}", b"")
    results = transaction.commit()
    for name in "ab":
        try:
            zk.retry(zk.delete, f"/multi/{threading.get_ident()}-{name}")
        except NoNodeError:
            pass
    assert all(isinstance(result, (str, NodeExistsError, Exception)) for result in results)


def watches(zk):
    """A watch hears of the next write, or of the loss of its connection."""
    seen = threading.Event()
    zk.retry(zk.get, "/watched", watch=lambda event: seen.set())
    zk.retry(zk.set, "/watched", str(time.time_ns()).encode())
    assert seen.wait(20), "no event"


def ephemerals(zk):
    """An ephemeral node ends with the session that made it."""
    path = f"/ephemeral/{threading.get_ident()}-"
    other = client()
    made = other.create(path, b"", ephemeral=True, sequence=True)
    assert zk.sync(made) and zk.retry(zk.exists, made)
    other.stop()
    other.close()
    zk.retry(zk.sync, made)
    assert zk.retry(zk.exists, made) is None


setup = client()
for path in ["/guarded/lock", "/guarded/semaphore", "/multi", "/watched", "/ephemeral", "/locks"]:
    setup.ensure_path(path)
over = threading.Event()
recipes = [("locks", locks, 3), ("semaphores", semaphores, 2), ("counters", counters, 2), ("queues", queues, 1),
           ("elections", elections, 2), ("parties", parties, 1), ("transactions", transactions, 1),
           ("watches", watches, 1), ("ephemerals", ephemerals, 1)]
clients, threads = [], []
for name, act, many in recipes:
    for _ in range(many):
        zk = client()
        clients.append(zk)
        threads.append(threading.Thread(target=whole, args=(name, zk, act), daemon=True))
[thread.start() for thread in threads]


def wait_for_all(least):
    limit = time.time() + 120
    while time.time() < limit and not failures:
        with lock:
            if all(counts.get(name, 0) >= least(name) for name, _, _ in recipes):
                return
        time.sleep(0.05)
    late = [name for name, _, _ in recipes if counts.get(name, 0) < least(name)]
    sys.exit(f"failures {failures}, not done in time {late}, done {counts}")


wait_for_all(lambda name: MORE)
print("halfway", flush=True)
# Others go on meanwhile, however they wait.
while not select.select([sys.stdin], [], [], 0)[0]:
    time.sleep(0.05)
sys.stdin.readline()
before = dict(counts)
wait_for_all(lambda name: before[name] + MORE)
over.set()
[thread.join(30) for thread in threads]
if failures:
    sys.exit(f"failures {failures}")
print(", ".join(f"{name}: {counts[name]}" for name, _, _ in recipes))
