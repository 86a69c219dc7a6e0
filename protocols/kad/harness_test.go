package kad

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"
)

// failer is what *testing.T and *rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)

// keys of all peers there can be: fuzzing asks for thousands of them.
var keys = sync.OnceValue(func() []Key {
	keys := make([]Key, 1<<16)
	for id := range keys {
		keys[id] = Hash(binary.BigEndian.AppendUint16(nil, uint16(id)))
	}
	return keys
})

func peerOf(id uint16) Peer[uint16] { return Peer[uint16]{ID: id, Key: keys()[id]} }

func peersOf(ids ...uint16) []Peer[uint16] {
	var ps []Peer[uint16]
	for _, id := range ids {
		ps = append(ps, peerOf(id))
	}
	return ps
}

// harness keeps its own account of a lookup and fails on whatever breaks the
// invariants of the package.
type harness struct {
	t        failer
	cfg      Config
	self     uint16
	target   Key
	l        *Lookup[uint16]
	asked    map[uint16]bool
	flight   map[uint16]time.Duration // until
	answered []Peer[uint16]
	probes   int
	done     bool
	now      time.Duration
	start    time.Duration
}

func newHarness(t failer, cfg Config, q Query[uint16]) *harness {
	t.Helper()
	l, err := New(cfg, q)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return &harness{
		t: t, cfg: cfg, self: q.Self, target: q.Target, l: l,
		asked: map[uint16]bool{}, flight: map[uint16]time.Duration{},
	}
}

// begin starts the lookup and returns what it wants asked.
func (h *harness) begin(now time.Duration, table []Peer[uint16]) []Peer[uint16] {
	h.now, h.start = now, now
	return h.check(h.l.Start(now, table))
}

func (h *harness) answer(now time.Duration, from uint16, r Reply[uint16]) []Peer[uint16] {
	h.pass(now)
	if until, ok := h.flight[from]; ok && h.now < until {
		delete(h.flight, from)
		h.answered = append(h.answered, peerOf(from))
	}
	return h.check(h.l.Answer(now, from, r))
}

func (h *harness) fail(now time.Duration, from uint16) []Peer[uint16] {
	h.pass(now)
	if h.now < h.flight[from] {
		delete(h.flight, from)
	}
	return h.check(h.l.Fail(now, from))
}

func (h *harness) tick(now time.Duration) []Peer[uint16] {
	h.pass(now)
	return h.check(h.l.Tick(now))
}

func (h *harness) pass(now time.Duration) { h.now = max(h.now, now) }

func (h *harness) check(actions []Action[uint16]) (ask []Peer[uint16]) {
	h.t.Helper()
	for _, a := range actions {
		if h.done {
			h.t.Fatalf("%v after done", a)
		}
		switch a.Kind {
		case Probe, Hedge:
			if h.asked[a.Peer.ID] || a.Peer.ID == h.self {
				h.t.Fatalf("%v: asked before, or self", a)
			}
			if a.Hop < 1 || a.Hop > h.cfg.Hops {
				h.t.Fatalf("%v: beyond %d hops", a, h.cfg.Hops)
			}
			if a.Until <= h.now || a.Until > h.now+h.cfg.RPCTimeout || a.Until > h.start+h.cfg.Deadline {
				h.t.Fatalf("%v: until %v at %v", a, a.Until, h.now)
			}
			if a.Kind == Hedge && (h.cfg.HedgeAfter == 0 || len(h.flight) < h.cfg.Alpha) {
				h.t.Fatalf("%v: a hedge of nothing", a)
			}
			h.asked[a.Peer.ID], h.flight[a.Peer.ID] = true, a.Until
			h.probes++
			ask = append(ask, a.Peer)
		case Cancel:
			if _, ok := h.flight[a.Peer.ID]; !ok {
				h.t.Fatalf("%v: not in flight", a)
			}
			delete(h.flight, a.Peer.ID)
		case Done:
			h.done = true
		}
		if limit := h.cfg.Alpha + h.cfg.Beta; len(h.flight) > limit || h.cfg.HedgeAfter == 0 &&
			len(h.flight) > h.cfg.Alpha {
			h.t.Fatalf("%d in flight, limit %d", len(h.flight), limit)
		}
	}
	if h.probes > h.cfg.MaxProbes {
		h.t.Fatalf("%d probes, limit %d", h.probes, h.cfg.MaxProbes)
	}
	r := h.l.Result()
	if h.done != (r.End != Running) || h.done && len(h.flight) > 0 {
		h.t.Fatalf("done %v, end %v, in flight %v", h.done, r.End, h.flight)
	}
	next, more := h.l.Next()
	if more == h.done {
		h.t.Fatalf("next %v at the end %v", more, h.done)
	}
	if more && (next <= h.now || next > h.start+h.cfg.Deadline) {
		h.t.Fatalf("next %v at %v", next, h.now)
	}
	if more && len(h.flight) == 0 {
		h.t.Fatalf("waits for nobody")
	}
	h.checkResult(r)
	return ask
}

func (h *harness) checkResult(r Result[uint16]) {
	h.t.Helper()
	want := slices.SortedFunc(slices.Values(h.answered), func(a, b Peer[uint16]) int {
		return cmp.Or(h.target.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
	})
	want = want[:min(len(want), h.cfg.K)]
	if !slices.Equal(r.Closest, want) {
		h.t.Fatalf("result %v, want the closest of what answered: %v", r.Closest, want)
	}
	if r.Answers != len(h.answered) || r.Probes != h.probes {
		h.t.Fatalf("%+v, want %d answers, %d probes", r, len(h.answered), h.probes)
	}
	if r.End != Running && r.Probes != r.Answers+r.Failed+r.Canceled {
		h.t.Fatalf("%+v does not add up", r)
	}
}
