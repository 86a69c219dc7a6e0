package lookups

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
	"allium/gateway/api"
	"allium/gateway/api/client"
)

// The network of names: a seed, a publisher, a subscriber, and one that never heard of a name.
const (
	namesNodes  = 4
	namesEach   = 20 // names in a round
	namesWithin = 10 * time.Second
)

// Names measures how soon a node that follows names knows what another one publishes, and how soon
// a node that never heard of a name finds what it stands for. All processes share one machine, so the
// round trips of a network come on top.
func Names(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	w := &namesWorld{s: s}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	var seen, put, cold []time.Duration
	lost := 0
	for i := range s.Rounds {
		round, err := w.round(ctx, i)
		if err != nil {
			return nil, err
		}
		seen, put, cold = append(seen, round.seen...), append(put, round.put...), append(cold, round.cold...)
		lost += round.lost
	}
	slices.Sort(seen)
	slices.Sort(put)
	slices.Sort(cold)
	return []measure.Row{
		measure.Single("names: publish → seen by a subscriber, median", "ms", "≤ 200", measure.Millis(seen, 50)),
		measure.Single("names: the same, p99", "ms", "≤ 1000", measure.Millis(seen, 99)),
		measure.Single("names: updates that a subscriber missed", "", "0", float64(lost)),
		measure.Single("names: publish → durable in the DHT, median", "ms", "", measure.Millis(put, 50)),
		measure.Single("names: cold name → pointer over HTTP, median", "ms", "", measure.Millis(cold, 50)),
		measure.Single("names: the same, p99", "ms", "≤ 300", measure.Millis(cold, 99)),
		measure.Single("names: updates, and cold names", "", "", float64(len(seen))),
	}, nil
}

// namesWorld is the nodes, and the API of each.
type namesWorld struct {
	s     *bed.Settings
	nodes []*measure.Process
	apis  []*client.Client
}

func (w *namesWorld) start(ctx context.Context) error {
	var bootstrap []string
	for i := range namesNodes {
		home := filepath.Join(w.s.Dir, fmt.Sprint("names", i))
		if err := bed.Unlimited(home); err != nil {
			return err
		}
		if i == 1 {
			if _, err := bed.Run(ctx, w.s.Allium, "--home", home, "zone", "new", "site"); err != nil {
				return err
			}
		}
		socket, err := api.SocketPath(home)
		if err != nil {
			return err
		}
		p, err := w.s.StartNode(ctx, home, bootstrap...)
		if err != nil {
			return err
		}
		a, err := client.New(socket)
		if err != nil {
			return err
		}
		w.nodes, w.apis, bootstrap = append(w.nodes, p), append(w.apis, a), append(bootstrap, p.Addr)
	}
	time.Sleep(bed.IdleFor) // until gossip has formed its mesh
	return nil
}

func (w *namesWorld) stop() (err error) {
	for _, p := range w.nodes {
		err = errors.Join(err, p.End())
	}
	return err
}

// namesRound holds the measurements of one round.
type namesRound struct {
	seen, put, cold []time.Duration
	lost            int // updates that the subscriber was not told of within namesWithin
}

// round publishes names that are new to everybody. One node follows them, another one looks each up
// once.
func (w *namesWorld) round(ctx context.Context, n int) (r namesRound, err error) {
	publisher, subscriber, stranger := w.apis[1], w.apis[2], w.nodes[3]
	var keys []string
	for i := range namesEach {
		key, err := publisher.ExpandName(ctx, fmt.Sprintf("label-%d-%d.site", n, i))
		if err != nil {
			return r, err
		}
		keys = append(keys, key)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, told := make(chan struct{}), make(chan string)
	reading := make(chan error, 1) // bound: the one error at the end
	var reader sync.WaitGroup
	reader.Go(func() {
		for e, err := range subscriber.Events(ctx, client.EventOptions{
			Topics: []api.Topic{api.TopicNames}, Names: keys, Begun: func() { close(begun) },
		}) {
			if err != nil {
				reading <- err
				return
			}
			if e.Name != nil {
				select {
				case told <- e.Name.Name:
				case <-ctx.Done():
				}
			}
		}
	})
	defer func() {
		cancel()
		reader.Wait()
	}()
	select {
	case <-begun:
	case err := <-reading:
		return r, err
	}
	client := &http.Client{Timeout: clients.Within, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, key := range keys {
		if err := w.publish(ctx, key, told, &r); err != nil {
			return r, err
		}
		at := time.Now()
		code, body, err := measure.Get(ctx, client, stranger.Gate+"/resolve/"+key)
		if err != nil {
			return r, err
		}
		if code != http.StatusOK || !strings.Contains(string(body), `"value":"text of `) {
			return r, fmt.Errorf("the stranger's answer about %s: %d %s", key, code, body)
		}
		r.cold = append(r.cold, time.Since(at))
	}
	return r, nil
}

// publish publishes a name and waits until the subscriber knows of it.
func (w *namesWorld) publish(ctx context.Context, key string, told <-chan string, r *namesRound) error {
	at := time.Now()
	published := make(chan error, 1) // bound: its one result
	var publishing sync.WaitGroup
	defer publishing.Wait()
	publishing.Go(func() {
		_, err := w.apis[1].PublishName(ctx, api.PublishRequest{Name: key, Value: "text of " + key[:16]})
		published <- err
	})
	deadline := time.NewTimer(namesWithin)
	defer deadline.Stop()
	for waiting := told; ; {
		select {
		case name := <-waiting:
			if name == key {
				r.seen, waiting = append(r.seen, time.Since(at)), nil
			}
		case err := <-published:
			if err != nil {
				return err
			}
			r.put, published = append(r.put, time.Since(at)), nil
		case <-deadline.C:
			r.lost, waiting = r.lost+1, nil
		}
		if waiting == nil && published == nil {
			return nil
		}
	}
}
