// Command recipes uses a cluster through etcd's own Go client and its recipes of concurrency, all at once: transactions, watches from a
// past revision, leases that are kept alive, sessions, mutexes, elections and software transactional memory.
//
// It says "halfway" when each of them did something, and waits for a line on standard input: meanwhile somebody may hurt the cluster.
// Then each must do as much again. In the end it checks what must hold, and prints one line for each; the exit status is 1 when something
// does not.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// patience is how long anything may take.
const patience = 60 * time.Second

// A part is one way to use the cluster.
type part struct {
	name string
	// steps is how often it must have done something before the halt, and again after it.
	steps int64
	// run goes on until the world stops, and then checks what must hold. It returns what it did.
	run  func(*world, *part) (string, error)
	done atomic.Int64
}

// did counts a step.
func (p *part) did() { p.done.Add(1) }

// waitFor waits until so many steps were done.
func (p *part) waitFor(steps int64, failed <-chan error) error {
	end := time.After(patience)
	for p.done.Load() < steps {
		select {
		case err := <-failed:
			return err
		case <-end:
			return fmt.Errorf("%s: %d of %d steps within %v", p.name, p.done.Load(), steps, patience)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// A world is what the parts share.
type world struct {
	client *clientv3.Client
	stop   chan struct{}
}

// stopped says whether the parts are to end.
func (w *world) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// again does something until it succeeds: while a leader is replaced, calls may fail. What is done here twice must do no harm.
func (w *world) again(what string, do func(context.Context) error) error {
	end := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience/4)
		err := do(ctx)
		cancel()
		if err == nil {
			return nil
		}
		var broken *brokenError
		if errors.As(err, &broken) || time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A brokenError says that something does not hold that must; asking again does not help.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func broken(format string, arguments ...any) error {
	return &brokenError{fmt.Sprintf(format, arguments...)}
}

func connect(endpoints, ca, cert, key string) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:            strings.Split(endpoints, ","),
		DialTimeout:          patience,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	}
	if ca != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		config.TLS = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	}
	return clientv3.New(config)
}

// use runs all parts with a halt in the middle.
func use(w *world, parts []*part) error {
	type end struct {
		part *part
		text string
		err  error
	}
	failed := make(chan error, len(parts))
	ends := make(chan end, len(parts))
	for _, p := range parts {
		go func() {
			text, err := p.run(w, p)
			if err != nil {
				failed <- fmt.Errorf("%s: %w", p.name, err)
			}
			ends <- end{p, text, err}
		}()
	}
	for _, p := range parts {
		if err := p.waitFor(p.steps, failed); err != nil {
			return err
		}
	}
	fmt.Println("halfway")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody says that it goes on: %w", err)
	}
	for _, p := range parts {
		if err := p.waitFor(p.done.Load()+p.steps, failed); err != nil {
			return err
		}
	}
	close(w.stop)
	for range parts {
		select {
		case ended := <-ends:
			if ended.err != nil {
				return fmt.Errorf("%s: %w", ended.part.name, ended.err)
			}
			fmt.Printf("%s: %s\n", ended.part.name, ended.text)
		case <-time.After(patience):
			return errors.New("some part does not end")
		}
	}
	return nil
}

func main() {
	endpoints := flag.String("endpoints", "", "URLs of all members, with commas")
	ca := flag.String("cacert", "", "the authority; without it connections are plain")
	cert := flag.String("cert", "", "the client's certificate")
	key := flag.String("key", "", "its key")
	flag.Parse()
	client, err := connect(*endpoints, *ca, *cert, *key)
	if err == nil {
		defer client.Close()
		err = use(&world{client: client, stop: make(chan struct{})}, []*part{
			{name: "transactions", steps: 20, run: transactions},
			{name: "watches", steps: 20, run: watches},
			{name: "leases", steps: 2, run: leases},
			{name: "mutexes", steps: 20, run: mutexes},
			{name: "elections", steps: 10, run: elections},
			{name: "memory", steps: 20, run: memory},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
