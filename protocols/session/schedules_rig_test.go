package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// shape is the bound of a search: who takes part and what may happen.
type shape struct {
	peers    int   // sessions, each of a peer of its own: "ann", "bob"
	requests int   // of each
	egress   int64 // frames of one peer
	ends     bool  // the peers close after their requests; else they wait
	drain    bool  // Drain may begin, and its context may end
	breaks   bool  // the stream of "ann" may fail
	expires  bool  // the deadlines of requests may pass, and writers rest enough
	bug      bug
}

// atMostOnce are the actions that a run does at most once; the others are as
// many as there are frames.
var atMostOnce = []string{"drain", "deadline", "expire", "stop", "ann breaks"}

var swap = strings.NewReplacer("ann", "bob", "bob", "ann")

// bug is something that the test does wrong on purpose.
type bug int

const (
	noBug    bug = iota
	twice        // a stream writes what answers the second request two times
	loses        // a stream takes that, and it vanishes
	jams         // a write never returns
	overfill     // ingress is said to have a place less
)

// asker is a peer: it asks, and notes what it is told.
type asker struct {
	id     peer.ID
	w      *wire
	asked  int // sent
	broken bool

	mu       sync.Mutex
	frames   []string       // sorted
	answers  map[uint64]int // frames, by corr_id
	end      error          // of the stream
	stopping bool           // the node was stopping when it came
}

// scenario is one run: the node "a" with one worker and two places in its
// ingress, and its peers.
type scenario struct {
	shape
	gates  gates
	begun  atomic.Bool
	never  chan struct{}
	n      *node
	askers []*asker

	mu      sync.Mutex
	lanes   []string        // what the lanes saw, in order, since they were empty
	handled map[string]bool // "ann1"
	late    []string        // of them those that a Drain had not counted

	flight    map[string]bool
	draining  atomic.Bool // Drain is running
	drained   atomic.Bool // it returned 0
	did       map[string]bool
	endDrain  context.CancelFunc
	stopped   atomic.Bool // Run returned
	stopGiven atomic.Bool
	wg        sync.WaitGroup
}

// explore searches a shape.
func explore(t *testing.T, sh shape, merge bool, end func(s *scenario)) (testkit.Found, error) {
	return testkit.Explore(func(o *testkit.Order) (err error) {
		synctest.Test(t, func(t *testing.T) {
			net := testkit.NewNetwork(testkit.Options{})
			defer net.Close()
			s := begin(t, sh, net)
			defer s.wg.Wait()
			defer close(s.never)
			defer s.stop()
			defer s.gates.open()
			var over bool
			if over, err = s.run(t, o, merge); over && err == nil {
				err = s.check()
				if end != nil {
					end(s)
				}
			}
		})
		return err
	})
}

// begin starts a node and sessions with it, whose HELLO is done.
func begin(t *testing.T, sh shape, net *testkit.Network) *scenario {
	s := &scenario{shape: sh, never: make(chan struct{}), handled: map[string]bool{}, flight: map[string]bool{},
		did: map[string]bool{}}
	s.gates.held = map[string]chan struct{}{}
	cfg := session.DefaultConfig()
	cfg.Workers, cfg.Ingress, cfg.EgressFrames, cfg.MaxInflight = 1, 2, sh.egress, min(sh.egress, int64(sh.requests))
	cfg.RequestTimeout = time.Second
	s.n = startOn(t, gatedHost{net.Host("a"), s}, cfg,
		func(svc *session.Service) { svc.Handle(oap.ProtoIndex, s.handle) })
	for _, id := range []peer.ID{"ann", "bob"}[:sh.peers] {
		a := &asker{id: id, w: dial(t, net.Host(id), "a"), answers: map[uint64]int{}}
		a.w.hello()
		s.askers = append(s.askers, a)
	}
	synctest.Wait()
	s.gates.closed = true
	s.begun.Store(true)
	for _, a := range s.askers {
		s.wg.Go(func() { a.listen(s) })
		a.ask(s)
	}
	return s
}

// listen notes frames until the stream ends.
func (a *asker) listen(s *scenario) {
	for {
		f, err := a.w.r.Next()
		a.mu.Lock()
		if err != nil {
			a.end, a.stopping = err, s.stopGiven.Load()
			a.mu.Unlock()
			return
		}
		a.frames = append(a.frames, name(f))
		slices.Sort(a.frames)
		if f.Flags.Has(oap.FlagResp) {
			a.answers[f.CorrID]++
		}
		a.mu.Unlock()
	}
}

// ask sends the next request, or the end.
func (a *asker) ask(s *scenario) {
	if a.asked == s.requests {
		if s.ends {
			_ = a.w.stream.CloseWrite()
		}
		return
	}
	a.asked++
	// That the stream is gone already is among what the search looks for.
	_ = a.w.w.Write(oap.Frame{Header: oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: uint64(a.asked)},
		Payload: fmt.Appendf(nil, `{"op":"%d"}`, a.asked)})
}

func (s *scenario) handle(_ context.Context, p peer.ID, r *session.Request) session.Response {
	name := string(p) + r.Op
	s.mu.Lock()
	s.lanes = append(s.lanes, "get "+name)
	s.handled[name] = true
	if s.drained.Load() {
		s.late = append(s.late, name)
	}
	s.mu.Unlock()
	s.gates.wait(name + " is handled")
	s.mu.Lock()
	s.lanes = append(s.lanes, "done "+name)
	s.mu.Unlock()
	payload, _ := json.Marshal(map[string]string{"of": name})
	return session.Response{Payload: payload}
}

// stop ends Run without waiting for it.
func (s *scenario) stop() {
	if s.stopGiven.Swap(true) {
		return
	}
	if s.endDrain != nil {
		s.endDrain()
	}
	s.wg.Go(func() {
		s.n.stop()
		s.stopped.Store(true)
	})
}

// run does one action after the other until none is left; false: what follows
// was explored before.
func (s *scenario) run(t *testing.T, o *testkit.Order, merge bool) (over bool, err error) {
	for {
		synctest.Wait()
		if err := s.look(); err != nil {
			return false, err
		}
		offered := s.offered()
		if len(offered) == 0 {
			return true, nil
		}
		var state func() string
		if merge {
			state = s.state
		}
		action, ok := o.Pick(state, offered...)
		if !ok {
			return false, nil
		}
		s.do(t, action)
	}
}

// offered lists what may happen now.
func (s *scenario) offered() []string {
	all := s.gates.names()
	add := func(may bool, action string) {
		if may && !s.did[action] {
			all = append(all, action)
		}
	}
	ann := s.askers[0]
	ann.mu.Lock()
	alive := ann.end == nil
	ann.mu.Unlock()
	add(s.breaks && alive, "ann breaks")
	if !s.did["stop"] {
		add(s.drain, "drain")
		add(s.draining.Load(), "deadline")
		add(s.expires, "expire")
		add(!s.draining.Load(), "stop")
	}
	return all
}

func (s *scenario) do(t *testing.T, action string) {
	s.did[action] = true
	who, what, _ := strings.Cut(action, " ")
	switch action {
	case "drain":
		ctx, cancel := context.WithCancel(t.Context())
		s.endDrain = cancel
		s.draining.Store(true)
		s.wg.Go(func() {
			s.drained.Store(s.n.Drain(ctx, time.Second) == 0)
			s.draining.Store(false)
		})
	case "deadline":
		s.endDrain()
	case "expire":
		s.lanes = append(s.lanes, action)
		time.Sleep(1500 * time.Millisecond) // request_timeout, and what a writer rests
	case "stop":
		s.stop()
	case "ann breaks":
		s.askers[0].broken = true
		_ = s.askers[0].w.stream.Reset()
	default:
		if what == "reads" {
			for _, a := range s.askers {
				if string(a.id) == who {
					a.ask(s) // the next, which the node has once it reads again
				}
			}
		}
		s.gates.letOn(action)
	}
}
