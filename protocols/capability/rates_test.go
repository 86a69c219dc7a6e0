package capability

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// TestRate: a capability has so many requests a second, whatever is made of it.
func TestRate(t *testing.T) {
	t.Parallel()
	v, r, c := newVerifier(t)
	token := mint(t, r, inAnHour, "rate <= 3", "op in put")
	child := func(s string) string {
		s, err := Attenuate(token, caveats(t, s)...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	use := func(token string, want int) {
		t.Helper()
		done := 0
		for range 10 {
			_, err := v.Verify(token, put())
			if err == nil {
				done++
				continue
			}
			var e *status.Error
			if !errors.As(err, &e) || e.Outcome != status.RateLimit || e.Limit == nil || e.Limit.Cap < 1 ||
				e.Limit.RetryAfter <= 0 || e.Detail != string(TooOften) {
				t.Fatalf("%#v", err)
			}
		}
		if done != want {
			t.Errorf("%d requests were let in, want %d", done, want)
		}
	}
	get := put()
	get.Op = GC
	for range 10 { // what is refused takes nothing
		if _, err := v.Verify(token, get); status.Of(err) != status.Forbidden {
			t.Fatal(err)
		}
	}
	use(token, 3)
	use(child("rate <= 100"), 0) // of the same bucket
	use(child("bytes <= 5KB"), 0)
	use(mint(t, r, inAnHour, "rate <= 3", "op in put"), 3) // another capability
	c.now = c.now.Add(time.Second)
	use(child("rate <= 1"), 1) // takes from both; the second is refused after it took from the first
	c.now = c.now.Add(time.Second)
	use(token, 3)
	use(mint(t, r, inAnHour), 10)
}

// TestRateRoom: buckets that are in use are not given up for new ones.
func TestRateRoom(t *testing.T) {
	t.Parallel()
	r := newRates(nil)
	key := func(i int) bucketKey { return bucketKey{id: nonce{byte(i), byte(i >> 8)}, rate: 1} }
	for i := range maxBuckets {
		if err := r.take(start, key(i)); err != nil {
			t.Fatal(err)
		}
	}
	noRoom(t, r.take(start.Add(bucketIdle-1), key(maxBuckets)), "capability.rates", maxBuckets)
	if err := r.take(start.Add(bucketIdle/2), key(0)); err == nil {
		t.Error("a bucket was forgotten while it was in use")
	}
	if err := r.take(start.Add(bucketIdle), key(maxBuckets)); err != nil || r.len() != 2 || r.most() != 1 ||
		len(r.of) != 2 {
		t.Errorf("%v with %d buckets, at most %d of each of %d", err, r.len(), r.most(), len(r.of))
	}
}

// TestRateRoomOfEach: whoever narrows a capability takes the room of that one
// alone, and gets it back.
func TestRateRoomOfEach(t *testing.T) {
	t.Parallel()
	v, r, c := newVerifier(t)
	registry := limits.NewRegistry(nil)
	v.rates = newRates(registry)
	greedy, other := mint(t, r, inAnHour), mint(t, r, inAnHour, "rate <= 1")
	child := func(i int) string {
		s, err := Attenuate(greedy, caveats(t, fmt.Sprintf("bytes <= 10%03d", i), "rate <= 1")...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := range maxEach {
		if _, err := v.Verify(child(i), put()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		_, err := v.Verify(child(maxEach+i), put())
		noRoom(t, err, "capability.rates_each", maxEach)
	}
	for _, token := range []string{greedy, other} {
		if _, err := v.Verify(token, put()); err != nil {
			t.Errorf("it was in the way of others: %v", err)
		}
	}
	for _, l := range registry.Snapshot() {
		if want := map[string]int64{"capability.rates_each": 3}[l.Name]; l.Rejected != want {
			t.Errorf("%s: %d refusals were counted, want %d", l.Name, l.Rejected, want)
		}
	}
	c.now = c.now.Add(bucketIdle)
	if _, err := v.Verify(child(maxEach), put()); err != nil || v.rates.len() != 1 || v.rates.most() != 1 {
		t.Errorf("%v with %d buckets, at most %d of each", err, v.rates.len(), v.rates.most())
	}
}

// noRoom checks that a bucket was refused for the lack of room.
func noRoom(t *testing.T, err error, name string, most int64) {
	t.Helper()
	var e *status.Error
	if !errors.As(err, &e) || e.Outcome != status.RateLimit || e.Detail != string(TooOften) || e.Limit == nil ||
		e.Limit.Name != name || e.Limit.Current != most || e.Limit.Cap != most || e.Limit.RetryAfter != bucketIdle {
		t.Errorf("%#v, want %s with %d", err, name, most)
	}
}
