package dht

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
	"allium/protocols/delimited"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
	"allium/protocols/name"
	"allium/protocols/status"
)

// nameRecord returns a record of the identity's zone, signed now.
func (i identity) nameRecord(t testing.TB, label string, seq uint64, value string) name.Signed {
	t.Helper()
	zone, err := name.ZoneOf(i.key.GetPublic())
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
	now := time.Now()
	r, err := name.Sign(i.key, name.Record{
		Name: name.Name{Label: l, Zone: zone}, Seq: seq, Value: v,
		NotAfter: now.Add(name.DefaultLife).Truncate(time.Second).UTC(), TTL: name.DefaultTTL,
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// holding counts the services that hold the sequence number seq of a name.
func holding(services []*Service, n name.Name, seq uint64) (count int) {
	for _, s := range services {
		if held := s.names.Get(n.Digest(), time.Now()); len(held) > 0 && held[0].Seq == seq {
			count++
		}
	}
	return count
}

// TestNames: what one node publishes all others find within 300 ms of virtual time, at a
// median round-trip time of 60 ms, and stays when its publisher is gone. Holders pass it on:
// about one put per holder and interval.
func TestNames(t *testing.T) {
	if testing.Short() {
		t.Skip("TestNamesOld has the same goroutines")
	}
	synctest.Test(t, func(t *testing.T) {
		const passOn = time.Minute
		sn := newSimNet(t, 24)
		defer sn.close()
		services, stop := sn.startAll(func(c *Config, _ *Deps) { c.Names.PassOn = passOn })
		defer stop()
		time.Sleep(time.Minute)
		rec := sn.ids[3].nameRecord(t, "blog", 1, "one")
		if acks, err := services[3].PublishName(t.Context(), rec); err != nil || acks < 15 {
			t.Fatalf("%d acknowledgements, %v", acks, err)
		}
		var took []time.Duration
		for i, s := range services {
			start := time.Now()
			v, err := s.FindName(t.Context(), rec.Name, true, nil)
			if took = append(took, time.Since(start)); err != nil || v.Seq() != 1 {
				t.Errorf("host %d found %d, %v", i, v.Seq(), err)
			}
		}
		slices.Sort(took)
		t.Logf("a cold name: %s at the median, %s at most", took[len(took)/2], took[len(took)-1])
		if most := took[len(took)-1]; most > 300*time.Millisecond {
			t.Errorf("a cold name took %s", most)
		}
		missing := sn.ids[3].nameRecord(t, "nobody-published-this", 1, "x").Name
		if v, err := services[7].FindName(t.Context(), missing, false, nil); err != nil || v.Seq() != 0 {
			t.Errorf("found %d, %v", v.Seq(), err)
		}

		sn.vanish(3)
		before := passedOn(t, services)
		const intervals = 8
		time.Sleep(intervals * passOn)
		if n := holding(services, rec.Name, 1); n < 15 {
			t.Errorf("%d hosts hold the record after its publisher left", n)
		}
		// One holder in one to two intervals, and a few more that are due at the same moment.
		if n := passedOn(t, services) - before; n < intervals/2 || n > 4*intervals {
			t.Errorf("in %d intervals the record was passed on %d times", intervals, n)
		}
	})
}

// passedOn counts the records that all services have passed on.
func passedOn(t *testing.T, services []*Service) (n int) {
	t.Helper()
	for _, s := range services {
		n += int(testutil.ToFloat64(s.m.namesPassedOn.WithLabelValues("ok")))
	}
	return n
}

// TestNamesBehind: holders that missed an update get it from whoever looks the name up, and a
// second value with one sequence number is shown to all.
func TestNamesBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("20 hosts take a minute under the race detector, and TestNames has as many")
	}
	synctest.Test(t, func(t *testing.T) {
		const passOn = 2 * time.Minute
		sn := newSimNet(t, 20)
		defer sn.close()
		services, stop := sn.startAll(func(c *Config, _ *Deps) { c.Names.PassOn = passOn })
		defer stop()
		time.Sleep(time.Minute)
		first, second := sn.ids[0].nameRecord(t, "blog", 1, "one"), sn.ids[0].nameRecord(t, "blog", 2, "two")
		if _, err := services[0].PublishName(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		// An update that reaches one host alone.
		if err := services[5].names.Put(second, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, s := range services {
			if _, err := s.FindName(t.Context(), first.Name, false, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(mendTimeout)
		if n := holding(services, first.Name, 2); n < 2 {
			t.Errorf("look-ups gave the update to %d hosts", n-1)
		}
		time.Sleep(3 * passOn) // its holders pass it on to the rest
		if n := holding(services, first.Name, 2); n < len(services)-2 {
			t.Errorf("%d of %d hosts hold the update", n, len(services))
		}
		if _, err := services[0].PublishName(t.Context(), first); status.Of(err) != status.Stale {
			t.Errorf("a publisher that is behind: %v", err)
		}
		other := sn.ids[0].nameRecord(t, "blog", 2, "another")
		if _, err := services[9].PublishName(t.Context(), other); status.Of(err) != status.Equivocation {
			t.Errorf("an equivocation: %v", err)
		}
		if err := services[8].providers.putName(t.Context(), sn.ids[9].id,
			other); status.Of(err) != status.Equivocation {
			t.Errorf("a holder says of an equivocation: %v", err)
		}
		if v, err := services[9].FindName(t.Context(), first.Name, false, nil); err != nil || !v.Equivocates() {
			t.Errorf("two records with one sequence number are not both shown: %v, %v", v.Records(), err)
		}
	})
}

// TestNamesLies: of hosts that return forged, foreign and old records none is believed, and the
// honest holders are found.
func TestNamesLies(t *testing.T) {
	if testing.Short() {
		t.Skip("20 hosts take a minute under the race detector, and TestNames has as many")
	}
	synctest.Test(t, func(t *testing.T) {
		const hosts, liars = 20, 10
		sn := newSimNet(t, hosts)
		defer sn.close()
		services, stop := sn.startAll(nil)
		defer stop()
		time.Sleep(time.Minute)
		rec := sn.ids[0].nameRecord(t, "blog", 5, "right")
		old := sn.ids[0].nameRecord(t, "blog", 4, "old")
		if _, err := services[0].PublishName(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		forged := slices.Clone(rec.Envelope)
		forged[len(forged)-1] ^= 1
		lies := [][]byte{
			forged, old.Envelope, sn.ids[1].nameRecord(t, "blog", 9, "of another zone").Envelope,
			sn.ids[0].nameRecord(t, "another", 9, "of another label").Envelope, {}, make([]byte, 4096),
		}
		for i := 1; i <= liars; i++ {
			sn.Hosts[i].SetStreamHandler(ProviderID, func(s network.Stream) {
				defer s.Close()
				raw, err := messages.Response{
					Code:      200,
					Providers: []messages.Provider{{Envelope: lies[i%len(lies)]}, {Envelope: lies[(i+1)%len(lies)]}},
				}.Encode()
				if err == nil {
					_ = delimited.Write(s, raw)
				}
			})
		}
		found := 0
		for i := liars + 1; i < hosts; i++ {
			v, err := services[i].FindName(t.Context(), rec.Name, true, nil)
			for _, r := range v.Records() {
				if r.Name != rec.Name || r.Seq != 5 && r.Seq != 4 {
					t.Errorf("host %d believes %s = %q", i, r.Name, r.Value)
				}
			}
			if v.Seq() == 5 {
				found++
			}
			if err != nil {
				t.Errorf("host %d: %v", i, err)
			}
		}
		// The old record is valid: three liars that return it first are not told from honest
		// holders by one who has never seen a newer one.
		if want := hosts - liars - 3; found < want {
			t.Errorf("%d of %d honest hosts found the record, want %d", found, hosts-liars-1, want)
		}
	})
}

// TestPutNameRefused: a put that is wrong changes nothing, and its sender is told why.
func TestPutNameRefused(t *testing.T) {
	nodes := startNetwork(t, 2)
	a, b := nodes[0], nodes[1]
	rec := a.nameRecord(t, "blog", uint64(time.Now().UnixMilli()), "one")
	key := rec.Name.Digest()
	ask := func(q messages.Request) error {
		r, err := a.providers.roundTrip(t.Context(), b.id, q)
		if err != nil {
			return err
		}
		return r.NameErr()
	}
	ahead := a.nameRecord(t, "blog", rec.Seq, "one")
	ahead.Envelope = slices.Clone(ahead.Envelope)
	ahead.Envelope[len(ahead.Envelope)-1] ^= 1
	type request = messages.Request
	for what, c := range map[string]struct {
		q    request
		want status.Outcome
	}{
		"nothing": {request{Op: messages.OpPutName, Key: key[:]}, status.BadSignature},
		"another key": {request{Op: messages.OpPutName, Key: make([]byte,
			32), Envelope: rec.Envelope}, status.BadRequest},
		"a short key": {request{Op: messages.OpPutName, Key: key[:31], Envelope: rec.Envelope}, status.BadRequest},
		"forged":      {request{Op: messages.OpPutName, Key: key[:], Envelope: ahead.Envelope}, status.BadSignature},
		"oversized": {
			request{Op: messages.OpPutName, Key: key[:], Envelope: make([]byte, name.MaxEnvelope+1)}, status.BodyCap,
		},
		"a peer record": {
			request{Op: messages.OpPutName, Key: key[:], Envelope: rec.Envelope, PeerRecord: []byte{1}},
			status.BadRequest,
		},
		"get a record": {request{Op: messages.OpGetName, Key: key[:], Envelope: rec.Envelope}, status.BadRequest},
	} {
		if err := ask(c.q); status.FromCode(status.Of(err).Code()) != status.FromCode(c.want.Code()) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	if n, _ := b.names.Len(); n != 0 {
		t.Errorf("%d records are held", n)
	}
	if err := ask(request{Op: messages.OpPutName, Key: key[:], Envelope: rec.Envelope}); err != nil {
		t.Error(err)
	}
	if v, err := a.FindName(t.Context(), rec.Name, true, nil); err != nil || fmt.Sprint(v.Records()[0].Value) != "one" {
		t.Errorf("%v, %v", v.Records(), err)
	}
}

// TestHeldName: HeldName returns the records that the node holds for others, and those that it has looked up unless
// they are staler than the caller allows. A newer record that is held is not stale.
func TestHeldName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Names{
			deps:  Deps{Env: env.Env{Now: time.Now}},
			names: namestore.NewStore(namestore.DefaultConfig(), func() bool { return true }),
			seen:  namestore.NewSeen(false),
		}
		id := newIdentity(t)
		one, two := id.nameRecord(t, "blog", 1, "one"), id.nameRecord(t, "blog", 2, "two")
		check := func(maxStale time.Duration, seq uint64, lookedUp, stale bool) {
			t.Helper()
			h := n.HeldName(one.Name, maxStale)
			if h.Versions.Seq() != seq || (h.Age > 0) != lookedUp || (h.TTL > 0) != (lookedUp && maxStale == 0) ||
				h.Stale != stale {
				t.Errorf("max stale %s: %+v, stale %t", maxStale, h, h.Stale)
			}
		}
		check(0, 0, false, false)
		v, _ := name.Versions{}.Add(one)
		for _, found := range []name.Versions{{}, v} {
			if _, err := n.Seen().Remember(one.Name, found, time.Now(), time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			check(0, found.Seq(), found.Seq() > 0, false)
		}
		time.Sleep(name.DefaultTTL)
		check(0, 0, false, false)
		check(time.Hour, 1, true, true)
		for _, rec := range []name.Signed{one, two} {
			if err := n.names.Put(rec, "", time.Now()); err != nil {
				t.Fatal(err)
			}
			check(time.Hour, rec.Seq, true, rec.Seq == 1)
		}
	})
}
