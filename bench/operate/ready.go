package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/bench/clients"
	"allium/bench/measure"
	"allium/gateway/api"
)

// How the readiness of a node is watched.
const (
	readyEvery = 100 * time.Millisecond
	readyLimit = 20 * time.Second // for the node to become ready again
)

// readyWatch asks a node for its readiness again and again.
type readyWatch struct {
	stop   context.CancelFunc
	asking sync.WaitGroup

	mu    sync.Mutex // guards looks
	looks []readyLook
}

// readyLook has the answer of a node to one request, empty if there was none.
type readyLook struct {
	at   time.Time
	said api.Readiness
}

func watchReady(ctx context.Context, page string) *readyWatch {
	ctx, stop := context.WithCancel(ctx)
	w := &readyWatch{stop: stop}
	client := &http.Client{Timeout: clients.Within}
	w.asking.Go(func() {
		defer client.CloseIdleConnections()
		every(ctx, readyEvery, func() {
			l := readyLook{at: time.Now()}
			if _, body, err := measure.Get(ctx, client, page); err == nil {
				_ = json.Unmarshal(body, &l.said) // what it does not say is not so
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.looks = append(w.looks, l)
		})
	})
	return w
}

// end waits until the node is ready. It returns how long after begun it first was not ready for writes and for reads,
// -1 s if it always was; how long after ended it was ready for good; and the gates that were shut meanwhile.
func (w *readyWatch) end(begun, ended time.Time) (noWrites, noReads, ready time.Duration, gates string) {
	for l := w.last(); time.Since(ended) < readyLimit; l = w.last() {
		if l.at.After(ended) && l.said.Writes && l.said.Reads {
			break
		}
		time.Sleep(readyEvery)
	}
	w.stop()
	w.asking.Wait()
	noWrites, noReads = -time.Second, -time.Second
	shut := map[string]bool{}
	for _, l := range w.looks {
		if !l.said.Writes && noWrites < 0 {
			noWrites = l.at.Sub(begun)
		}
		if !l.said.Reads && noReads < 0 {
			noReads = l.at.Sub(begun)
		}
		if (!l.said.Writes || !l.said.Reads) && l.at.After(ended) {
			ready = l.at.Sub(ended) + readyEvery
		}
		for _, g := range l.said.Gates {
			if !g.Ready {
				shut[g.Name] = true
			}
		}
	}
	return noWrites, noReads, ready, strings.Join(slices.Sorted(maps.Keys(shut)), ", ")
}

func (w *readyWatch) last() (l readyLook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.looks) > 0 {
		l = w.looks[len(w.looks)-1]
	}
	return l
}
