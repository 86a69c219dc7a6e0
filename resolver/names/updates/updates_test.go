package updates

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/env"
	"allium/protocols/name"
	"allium/protocols/status"
)

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func sign(t testing.TB, label string, seq uint64, value string) name.Signed {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	l, err := name.ParseLabel(label)
	if err != nil {
		t.Fatal(err)
	}
	v, err := name.ParseValue(value)
	if err != nil {
		t.Fatal(err)
	}
	r, err := name.Sign(key, name.Record{
		Name: name.Name{Label: l, Zone: zone}, Seq: seq, Value: v, NotAfter: at.Add(time.Hour), TTL: time.Minute,
	}, at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noted is what Run did, for a test that looks meanwhile.
type noted[T any] struct {
	mu  sync.Mutex
	all []T
}

func (n *noted[T]) add(v T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, v)
}

func (n *noted[T]) list() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// TestUpdates: one message of a name is relayed in ten seconds, the newest of those that come sooner is sent
// when they are over, and none that is not valid.
func TestUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var learned, sent noted[name.Signed]
		u := New(Deps{
			Env:  env.Env{Now: func() time.Time { return at.Add(time.Since(begun)) }},
			Self: "self", HasPeers: func() bool { return true },
			Learned: learned.add,
		})
		u.deps.Publish = func(_ context.Context, data []byte) error {
			if err := u.Validate("self", data); err != nil {
				return err
			}
			rec, err := name.Restore(data)
			sent.add(rec)
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = u.Run(ctx, func() {}) })
		one, two, other := sign(t, "blog", 1, "one"), sign(t, "blog", 2, "two"), sign(t, "photos", 1, "one")
		late := sign(t, "blog", 3, "three")
		forged := bytes.Clone(two.Envelope)
		forged[len(forged)-1] ^= 1
		for i, c := range []struct {
			after time.Duration
			data  []byte
			want  status.Outcome
			sent  int
		}{
			{0, one.Envelope, status.OK, 0},
			{0, other.Envelope, status.OK, 0},
			{time.Second, two.Envelope, status.RateLimit, 0},
			{time.Second, one.Envelope, status.Stale, 0}, // a newer one waits
			{Gap, two.Envelope, status.RateLimit, 1},     // it was sent
			{Gap - 2*slack, late.Envelope, status.OK, 1}, // a relay forgives some jitter
			{Gap, one.Envelope, status.Stale, 1},
			{0, late.Envelope, status.OK, 1},
			{Gap, forged, status.BadSignature, 1},
			{0, []byte("hello"), status.BadSignature, 1},
			{0, nil, status.BadSignature, 1},
			{0, make([]byte, name.MaxEnvelope+1), status.BodyCap, 1},
			{time.Hour, two.Envelope, status.Stale, 1}, // expired
		} {
			time.Sleep(c.after)
			synctest.Wait()
			if err := u.Validate("peer", c.data); status.Of(err) != c.want || len(sent.list()) != c.sent {
				t.Errorf("message %d: %v, want %s; %d sent", i, err, c.want, len(sent.list()))
			}
		}
		u.Handle(two.Envelope)
		u.Handle([]byte("hello"))
		if l := learned.list(); len(l) != 2 || l[0].Record != two.Record || l[1].Record != two.Record {
			t.Errorf("learned %v", l)
		}
		cancel()
		running.Wait()
	})
}

// TestFullGossip: a record that gossip has validated and then refuses, because it is full, is sent later.
func TestFullGossip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := []error{
			status.Errorf(status.RateLimit, "too much"), status.Errorf(status.Busy, "full"), context.DeadlineExceeded,
		}
		var sent noted[uint64]
		u := New(Deps{Env: env.Env{Now: func() time.Time { return at }}, Self: "self",
			HasPeers: func() bool { return true }})
		u.deps.Publish = func(_ context.Context, data []byte) error {
			if err := u.Validate("self", data); err != nil {
				return err
			}
			if len(refusals) > 0 {
				err := refusals[0]
				refusals = refusals[1:]
				return err
			}
			rec, err := name.Restore(data)
			sent.add(rec.Seq)
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = u.Run(ctx, func() {}) })
		one := sign(t, "blog", 1, "one")
		if err := u.Announce(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := sent.list(); !slices.Equal(got, []uint64{1}) {
			t.Errorf("sent %v", got)
		}
		if err := u.Validate("peer", one.Envelope); status.Of(err) != status.RateLimit {
			t.Errorf("the same record again: %v", err)
		}
		if err := u.Announce(t.Context(), sign(t, "blog", 2, "two")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Gap)
		if got := sent.list(); !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("sent %v", got)
		}
		cancel()
		running.Wait()
	})
}

// TestOneAfterAnother: a record goes out at once when others went out before it, up to what a window has places
// for. What is more waits for the next window.
func TestOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent noted[time.Time]
		u := New(Deps{Env: env.Env{Now: func() time.Time { return at }}, Self: "self",
			HasPeers: func() bool { return true }})
		u.deps.Publish = func(context.Context, []byte) error {
			sent.add(time.Now())
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = u.Run(ctx, func() {}) })
		begun := time.Now()
		const n = 2*ownAtOnce + 1
		for i := range n {
			if err := u.Announce(t.Context(), sign(t, fmt.Sprintf("label-%d", i), 1, "one")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		for i, at := range sent.list() {
			if want := time.Duration(i/ownAtOnce) * sendWindow; at.Sub(begun) != want {
				t.Errorf("record %d went out after %s, want %s", i, at.Sub(begun), want)
			}
		}
		if got := len(sent.list()); got != n {
			t.Errorf("%d records went out, want %d", got, n)
		}
		cancel()
		running.Wait()
	})
}
