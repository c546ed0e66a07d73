import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionStateListener;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Curator's recipes, by several clients at once, before and after a server is killed; see recipes.py for the rules. */
public class Recipes {
    interface Act {
        void run(CuratorFramework client, int number) throws Exception;
    }

    static final int MORE = 3;
    static final Map<String, AtomicInteger> COUNTS = new ConcurrentHashMap<>();
    static final List<String> FAILURES = new ArrayList<>();
    static volatile boolean over = false;
    static String servers;

    static CuratorFramework client() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, 10_000, 5_000, new RetryForever(100));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection within 30 s");
        }
        return client;
    }

    static void whole(String name, CuratorFramework client, int number, Act act) {
        while (!over) {
            try {
                act.run(client, number);
                COUNTS.get(name).incrementAndGet();
                Thread.sleep(20);
            } catch (KeeperException.ConnectionLossException | KeeperException.SessionExpiredException lost) {
                // It begins anew.
            } catch (Exception why) {
                synchronized (FAILURES) {
                    FAILURES.add(name + ": " + why);
                }
                return;
            }
        }
    }

    /** Reads, waits, and writes with the version that was read: two at once are seen. */
    static void changeGuarded(CuratorFramework client, String path) throws Exception {
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        Stat stat = new Stat();
        byte[] data = client.getData().storingStatIn(stat).forPath(path);
        Thread.sleep(5);
        byte[] next = Long.toString(Long.parseLong(new String(data)) + 1).getBytes();
        try {
            client.setData().withVersion(stat.getVersion()).forPath(path, next);
        } catch (KeeperException.BadVersionException other) {
            // It was sent again and had been done, or the session that guarded it is over.
            boolean done = java.util.Arrays.equals(client.getData().forPath(path), next);
            if (!done && client.getZookeeperClient().getZooKeeper().getSessionId() == session) {
                throw other;
            }
        }
    }

    static void locks(CuratorFramework client, int number) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, "/locks/mutex");
        mutex.acquire();
        try {
            changeGuarded(client, "/guarded/mutex");
        } finally {
            mutex.release();
        }
    }

    static void semaphores(CuratorFramework client, int number) throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/locks/semaphore", 1);
        var lease = semaphore.acquire();
        try {
            changeGuarded(client, "/guarded/semaphore");
        } finally {
            semaphore.returnLease(lease);
        }
    }

    static void elections(CuratorFramework client, int number) throws Exception {
        try (LeaderLatch latch = new LeaderLatch(client, "/election")) {
            latch.start();
            latch.await(60, TimeUnit.SECONDS);
        }
    }

    static void barriers(CuratorFramework client, int number) throws Exception {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/barrier", 2);
        AtomicInteger losses = new AtomicInteger();
        ConnectionStateListener listener = (which, state) -> losses.incrementAndGet();
        client.getConnectionStateListenable().addListener(listener);
        try {
            if (barrier.enter(10, TimeUnit.SECONDS)) {
                barrier.leave(10, TimeUnit.SECONDS);
            }
        } catch (KeeperException.NoNodeException gone) {
            // Curator sends a deletion again whose answer is lost with the connection, and then finds nothing.
            if (losses.get() == 0) {
                throw gone;
            }
        } finally {
            client.getConnectionStateListenable().removeListener(listener);
        }
    }

    static void counters(CuratorFramework client, int number) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, "/counter", new RetryForever(20));
        if (!counter.increment().succeeded()) {
            throw new IllegalStateException("it retries for ever");
        }
        try (SharedCount shared = new SharedCount(client, "/shared", 0)) {
            shared.start();
            shared.trySetCount(shared.getVersionedValue(), number);
        }
    }

    static void queues(CuratorFramework client, int number) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, "/queue");
        queue.offer(new byte[] {1});
        queue.poll(10, TimeUnit.SECONDS);
    }

    static void caches(CuratorFramework client, int number) throws Exception {
        String path = "/cache/" + number;
        byte[] value = Long.toString(System.nanoTime()).getBytes();
        CountDownLatch seen = new CountDownLatch(1);
        try (CuratorCache cache = CuratorCache.build(client, "/cache")) {
            cache.listenable().addListener((type, before, now) -> {
                if (now != null && now.getPath().equals(path) && java.util.Arrays.equals(now.getData(), value)) {
                    seen.countDown();
                }
            });
            cache.start();
            client.create().orSetData().forPath(path, value);
            if (!seen.await(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the cache does not show what was written");
            }
        }
    }

    static void groups(CuratorFramework client, int number) throws Exception {
        try (GroupMember member = new GroupMember(client, "/group", "member-" + number)) {
            member.start();
            for (int tries = 0; !member.getCurrentMembers().containsKey("member-" + number); tries++) {
                if (tries == 600) {
                    throw new IllegalStateException("it is no member of its own group");
                }
                Thread.sleep(50);
            }
        }
    }

    static void nodes(CuratorFramework client, int number) throws Exception {
        try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, "/node-" + number, new byte[0])) {
            node.start();
            if (!node.waitForInitialCreate(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the node is not made");
            }
        }
        try (PersistentTtlNode node = new PersistentTtlNode(client, "/ttl-" + number, 60_000, new byte[0])) {
            node.start();
            if (!node.waitForInitialCreate(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the node with a time to live is not made");
            }
        }
        try {
            client.delete().forPath("/ttl-" + number);
        } catch (KeeperException.NoNodeException | KeeperException.NotEmptyException gone) {
            // Its own toucher may have been faster.
        }
    }

    static void waitForAll(Map<String, Integer> least) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(150);
        while (System.nanoTime() < end) {
            synchronized (FAILURES) {
                if (!FAILURES.isEmpty()) {
                    break;
                }
            }
            if (least.entrySet().stream().allMatch(one -> COUNTS.get(one.getKey()).get() >= one.getValue())) {
                return;
            }
            Thread.sleep(50);
        }
        System.err.println("failures " + FAILURES + ", wanted " + least + ", done " + new TreeMap<>(COUNTS));
        Runtime.getRuntime().halt(1);
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        Map<String, Act> recipes = new TreeMap<>();
        recipes.put("locks", Recipes::locks);
        recipes.put("semaphores", Recipes::semaphores);
        recipes.put("elections", Recipes::elections);
        recipes.put("barriers", Recipes::barriers);
        recipes.put("counters", Recipes::counters);
        recipes.put("queues", Recipes::queues);
        recipes.put("caches", Recipes::caches);
        recipes.put("groups", Recipes::groups);
        recipes.put("nodes", Recipes::nodes);
        CuratorFramework setup = client();
        for (String path : List.of("/guarded/mutex", "/guarded/semaphore")) {
            setup.create().creatingParentsIfNeeded().forPath(path, "0".getBytes());
        }
        setup.create().forPath("/cache");
        while (setup.getCurrentConfig().getAllMembers().size() < 3) {
            Thread.sleep(20);
        }
        int number = 0;
        for (Map.Entry<String, Act> recipe : recipes.entrySet()) {
            COUNTS.put(recipe.getKey(), new AtomicInteger());
            for (int of = 0; of < 2; of++) {
                CuratorFramework client = client();
                int own = number++;
                Thread thread = new Thread(() -> whole(recipe.getKey(), client, own, recipe.getValue()));
                thread.setDaemon(true);
                thread.start();
            }
        }
        Map<String, Integer> least = new TreeMap<>();
        recipes.keySet().forEach(name -> least.put(name, MORE));
        waitForAll(least);
        System.out.println("halfway");
        System.out.flush();
        System.in.read();
        recipes.keySet().forEach(name -> least.put(name, COUNTS.get(name).get() + MORE));
        waitForAll(least);
        over = true;
        StringBuilder said = new StringBuilder();
        COUNTS.forEach((name, count) -> said.append(name).append(": ").append(count).append(", "));
        System.out.println(said);
        Runtime.getRuntime().halt(0);
    }
}
