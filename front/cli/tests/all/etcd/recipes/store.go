package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// transactions counts by comparing and swapping, with a record of each step in a transaction within the transaction.
func transactions(w *world, p *part) (string, error) {
	var count int64
	for ; !w.stopped(); count++ {
		from, to := strconv.FormatInt(count, 10), strconv.FormatInt(count+1, 10)
		err := w.again("swap", func(ctx context.Context) error {
			before := clientv3.Compare(clientv3.Value("t/count"), "=", from)
			if count == 0 {
				before = clientv3.Compare(clientv3.Version("t/count"), "=", 0)
			}
			first := clientv3.Compare(clientv3.CreateRevision("t/step/"+to), "=", 0)
			put := clientv3.OpPut("t/step/"+to, from)
			answer, err := w.client.Txn(ctx).
				If(before).
				Then(clientv3.OpPut("t/count", to), clientv3.OpTxn([]clientv3.Cmp{first}, []clientv3.Op{put}, nil)).
				Else(clientv3.OpGet("t/count")).
				Commit()
			if err != nil {
				return err
			}
			if answer.Succeeded {
				if !answer.Responses[1].GetResponseTxn().Succeeded {
					return broken("step %s was there before", to)
				}
				return nil
			}
			// An attempt before, which was answered with an error, did it.
			if found := string(answer.Responses[0].GetResponseRange().Kvs[0].Value); found != to {
				return broken("the count is %s, neither %s nor %s", found, from, to)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		p.did()
	}
	return fmt.Sprintf("%d swaps", count), w.again("count", func(ctx context.Context) error {
		steps, err := w.client.Get(ctx, "t/step/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if steps.Count != count {
			return broken("%d steps of %d swaps", steps.Count, count)
		}
		return nil
	})
}

// seen is what a watch saw: the keys in order, with revisions that only grow.
type seen struct {
	keys     []string
	revision int64
}

func (s *seen) take(response *clientv3.WatchResponse) error {
	if err := response.Err(); err != nil {
		return broken("a watch ends: %v", err)
	}
	for _, event := range response.Events {
		if event.Kv.ModRevision <= s.revision {
			return broken("revision %d after %d", event.Kv.ModRevision, s.revision)
		}
		s.revision = event.Kv.ModRevision
		s.keys = append(s.keys, string(event.Kv.Key))
	}
	return nil
}

// follow watches from a revision on until so many events came.
func (s *seen) follow(w *world, from int64, count func() (int, bool)) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := w.client.Watch(ctx, "w/", clientv3.WithPrefix(), clientv3.WithRev(from))
	idle := time.Now()
	for {
		if wanted, known := count(); known && len(s.keys) >= wanted {
			return nil
		}
		select {
		case response, open := <-events:
			if !open {
				return broken("a watch ends after %d events", len(s.keys))
			}
			idle = time.Now()
			if err := s.take(&response); err != nil {
				return err
			}
		case <-time.After(10 * time.Millisecond):
			if time.Since(idle) > patience {
				return broken("a watch stops after %d events", len(s.keys))
			}
		}
	}
}

// watches creates keys one by one. A watch that begins before them and one that begins after them, at the same revision of the past, must
// both tell of each once, in order, whichever member is asked.
func watches(w *world, p *part) (string, error) {
	var begin int64
	err := w.again("begin", func(ctx context.Context) error {
		answer, err := w.client.Get(ctx, "w/", clientv3.WithPrefix())
		if err == nil {
			begin = answer.Header.Revision + 1
		}
		return err
	})
	if err != nil {
		return "", err
	}
	total := make(chan int, 1)
	live, told := seen{}, make(chan error, 1)
	go func() {
		wanted, known := 0, false
		told <- live.follow(w, begin, func() (int, bool) {
			select {
			case wanted = <-total:
				known = true
			default:
			}
			return wanted, known
		})
	}()
	var keys []string
	for !w.stopped() {
		key := fmt.Sprintf("w/%08d", len(keys))
		err := w.again("create", func(ctx context.Context) error {
			absent := clientv3.Compare(clientv3.Version(key), "=", 0)
			_, err := w.client.Txn(ctx).If(absent).Then(clientv3.OpPut(key, "x")).Commit()
			return err
		})
		if err != nil {
			return "", err
		}
		keys = append(keys, key)
		p.did()
	}
	total <- len(keys)
	if err := <-told; err != nil {
		return "", err
	}
	var past seen
	if err := past.follow(w, begin, func() (int, bool) { return len(keys), true }); err != nil {
		return "", err
	}
	for at, key := range keys {
		if live.keys[at] != key || past.keys[at] != key {
			return "", broken("event %d is that of %s and of %s, not of %s", at, live.keys[at], past.keys[at], key)
		}
	}
	return fmt.Sprintf("%d events, twice", len(keys)), nil
}

// leases keeps one alive for longer than it lasts by itself. Its key must stay as long, and go when nobody keeps it alive any more.
func leases(w *world, p *part) (string, error) {
	const ttl = 5
	var lease clientv3.LeaseID
	err := w.again("grant", func(ctx context.Context) error {
		granted, err := w.client.Grant(ctx, ttl)
		if err != nil {
			return err
		}
		lease = granted.ID
		_, err = w.client.Put(ctx, "l/kept", "x", clientv3.WithLease(lease))
		return err
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	alive, err := w.client.KeepAlive(ctx, lease)
	if err != nil {
		return "", err
	}
	began := time.Now()
	for !w.stopped() || time.Since(began) < 2*ttl*time.Second {
		select {
		case kept, open := <-alive:
			if !open {
				return "", broken("the lease ended after %v", time.Since(began))
			}
			if kept.TTL != ttl {
				return "", broken("a lease of %d s has %d s", ttl, kept.TTL)
			}
			p.did()
		case <-time.After(10 * time.Millisecond):
		}
	}
	kept := time.Since(began).Round(time.Second)
	var revision int64
	err = w.again("look", func(ctx context.Context) error {
		answer, err := w.client.Get(ctx, "l/kept")
		if err != nil {
			return err
		}
		if answer.Count != 1 {
			return broken("the key of a lease that is kept alive is gone")
		}
		revision = answer.Header.Revision
		return nil
	})
	if err != nil {
		return "", err
	}
	cancel()
	ends, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for response := range w.client.Watch(ends, "l/kept", clientv3.WithRev(revision+1)) {
		for _, event := range response.Events {
			if event.Type == clientv3.EventTypeDelete {
				return fmt.Sprintf("kept for %v, then ended", kept), nil
			}
		}
	}
	return "", broken("the key of a lease that nobody keeps alive stays")
}
