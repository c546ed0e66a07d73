package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// competitors is how many sessions want the same.
const competitors = 4

// compete runs one function for each of several sessions, until the first fails or all end.
func compete(w *world, run func(number int, session *concurrency.Session) error) error {
	ends := make(chan error, competitors)
	for number := range competitors {
		go func() {
			session, err := concurrency.NewSession(w.client)
			if err == nil {
				err = run(number, session)
				// Its lease ends by itself if this fails.
				_ = session.Close()
			}
			ends <- err
		}()
	}
	for range competitors {
		if err := <-ends; err != nil {
			return err
		}
	}
	return nil
}

// mutexes reads and writes a number in two steps, which is right only when no other holder is between them. What is written tells whose
// it is, so that a write that was answered with an error is not done twice.
func mutexes(w *world, p *part) (string, error) {
	var inside, steps atomic.Int64
	err := compete(w, func(number int, session *concurrency.Session) error {
		mutex := concurrency.NewMutex(session, "m/lock")
		for !w.stopped() {
			if err := w.again("lock", mutex.Lock); err != nil {
				return err
			}
			if inside.Add(1) != 1 {
				return broken("two hold the lock")
			}
			step := fmt.Sprintf("%d-%d", number, steps.Add(1))
			if err := w.again("count", func(ctx context.Context) error { return add(ctx, w, mutex, step) }); err != nil {
				return err
			}
			inside.Add(-1)
			if err := w.again("unlock", mutex.Unlock); err != nil {
				return err
			}
			p.did()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d times held", steps.Load()), w.again("look", func(ctx context.Context) error {
		answer, err := w.client.Get(ctx, "m/number")
		if err != nil {
			return err
		}
		if found, _, _ := strings.Cut(string(answer.Kvs[0].Value), " "); found != strconv.FormatInt(steps.Load(), 10) {
			return broken("%s after %d steps", found, steps.Load())
		}
		return nil
	})
}

// add makes the number one greater, for this step, unless that was done already.
func add(ctx context.Context, w *world, mutex *concurrency.Mutex, step string) error {
	answer, err := w.client.Get(ctx, "m/number")
	if err != nil {
		return err
	}
	number := 0
	if len(answer.Kvs) > 0 {
		text, by, _ := strings.Cut(string(answer.Kvs[0].Value), " ")
		if by == step {
			return nil
		}
		if number, err = strconv.Atoi(text); err != nil {
			return broken("no number: %v", err)
		}
	}
	put := clientv3.OpPut("m/number", fmt.Sprintf("%d %s", number+1, step))
	done, err := w.client.Txn(ctx).If(mutex.IsOwner()).Then(put).Commit()
	if err == nil && !done.Succeeded {
		return broken("whoever holds the lock is not its owner")
	}
	return err
}

// elections lets sessions lead in turn; an observer must see nobody who did not.
func elections(w *world, p *part) (string, error) {
	var inside, terms, observed atomic.Int64
	err := compete(w, func(number int, session *concurrency.Session) error {
		election := concurrency.NewElection(session, "e/chair")
		if number == 0 {
			return observe(w, election, &observed)
		}
		name := strconv.Itoa(number)
		for !w.stopped() {
			err := w.again("campaign", func(ctx context.Context) error { return election.Campaign(ctx, name) })
			if err != nil {
				return err
			}
			if inside.Add(1) != 1 {
				return broken("two lead")
			}
			err = w.again("lead", func(ctx context.Context) error {
				if err := election.Proclaim(ctx, name+" speaks"); err != nil {
					return err
				}
				leader, err := election.Leader(ctx)
				if err != nil {
					return err
				}
				if said := string(leader.Kvs[0].Value); said != name+" speaks" {
					return broken("%s leads, and the store says %q", name, said)
				}
				return nil
			})
			if err != nil {
				return err
			}
			inside.Add(-1)
			terms.Add(1)
			// It loses what it leads even when it gets no answer, or leads again at once.
			resign, done := context.WithTimeout(context.Background(), patience/4)
			_ = election.Resign(resign)
			done()
			p.did()
		}
		return nil
	})
	if err == nil && observed.Load() == 0 {
		err = broken("the observer saw nobody")
	}
	return fmt.Sprintf("%d terms, %d observations", terms.Load(), observed.Load()), err
}

// observe looks on until the world stops.
func observe(w *world, election *concurrency.Election, observed *atomic.Int64) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for !w.stopped() {
		leaders := election.Observe(ctx)
		for open := true; open && !w.stopped(); {
			var leader clientv3.GetResponse
			select {
			case leader, open = <-leaders:
				if !open {
					continue
				}
				observed.Add(1)
				name, _, _ := strings.Cut(string(leader.Kvs[0].Value), " ")
				if number, err := strconv.Atoi(name); err != nil || number < 1 || number >= competitors {
					return broken("%q leads", leader.Kvs[0].Value)
				}
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// memory moves amounts between accounts, in transactions of each isolation that checks what was read; their sum must stay as it is.
func memory(w *world, p *part) (string, error) {
	const accounts, each = 5, 100
	for number := range accounts {
		err := w.again("fill", func(ctx context.Context) error {
			_, err := w.client.Put(ctx, account(number), strconv.Itoa(each))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	levels := []concurrency.Isolation{
		concurrency.SerializableSnapshot, concurrency.Serializable, concurrency.RepeatableReads,
	}
	err := compete(w, func(number int, _ *concurrency.Session) error {
		level := concurrency.WithIsolation(levels[number%len(levels)])
		for step := number; !w.stopped(); step++ {
			from, to := account(step%accounts), account((step+1+number)%accounts)
			err := w.again("move", func(ctx context.Context) error {
				move := func(stm concurrency.STM) error { return move(stm, from, to) }
				_, err := concurrency.NewSTM(w.client, move, level, concurrency.WithAbortContext(ctx))
				return err
			})
			if err != nil {
				return err
			}
			p.did()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d moves", p.done.Load()), w.again("sum", func(ctx context.Context) error {
		all, err := w.client.Get(ctx, "s/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		sum := 0
		for _, pair := range all.Kvs {
			amount, err := strconv.Atoi(string(pair.Value))
			if err != nil {
				return broken("no amount: %v", err)
			}
			sum += amount
		}
		if sum != accounts*each {
			return broken("%d of %d are left", sum, accounts*each)
		}
		return nil
	})
}

func account(number int) string { return fmt.Sprintf("s/%d", number) }

func move(stm concurrency.STM, from, to string) error {
	source, err := strconv.Atoi(stm.Get(from))
	if err != nil {
		return broken("no amount: %v", err)
	}
	if from == to {
		return nil
	}
	target, err := strconv.Atoi(stm.Get(to))
	if err != nil {
		return broken("no amount: %v", err)
	}
	stm.Put(from, strconv.Itoa(source-1))
	stm.Put(to, strconv.Itoa(target+1))
	return nil
}
