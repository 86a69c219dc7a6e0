package hints

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/delimited"
	"allium/protocols/status"
)

// pair is two services that have some in common, and each some of its own.
func pair(t testing.TB) (a, b *Service, hour time.Time) {
	t.Helper()
	a, b = newTested(t, fixedIdentity(t, 1)), newTested(t, fixedIdentity(t, 2))
	hour = time.Now().Add(time.Hour)
	for i := range 30 {
		x := fixedIdentity(t, 100+i).announce(t, 1, 1, hour, root(i))
		for n, s := range []*Service{a, b} {
			if i >= 20 && i%2 != n {
				continue
			}
			if err := s.keep(x, viaGossip, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return a, b, hour
}

// converse runs a comparison that a asks b for, over a pipe.
func converse(t testing.TB, a, b *Service) (differ bool, asked, served error) {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() {
		err := b.sync.answer(string(a.self), far)
		_ = far.Close()
		done <- err
	}()
	differ, asked = a.sync.ask(near, "")
	_ = near.Close()
	return differ, asked, <-done
}

func TestBothSidesGetWhatTheyLack(t *testing.T) {
	a, b, _ := pair(t)
	differ, err, serr := converse(t, a, b)
	if !differ || err != nil || serr != nil {
		t.Fatalf("%v, %v, %v", differ, err, serr)
	}
	for _, s := range []*Service{a, b} {
		if n, _, _ := s.memory.usage(); n != 30 {
			t.Errorf("%d announcements", n)
		}
	}
	if len(b.sync.differed) != 1 {
		t.Error("who was asked does not go on with the news")
	}
	if differ, err, serr = converse(t, b, a); differ || err != nil || serr != nil {
		t.Errorf("again: %v, %v, %v", differ, err, serr)
	}
}

// TestManyAnnouncements compares more than one comparison can bring.
func TestManyAnnouncements(t *testing.T) {
	a, b := newTested(t, fixedIdentity(t, 1)), newTested(t, fixedIdentity(t, 2))
	hour := time.Now().Add(time.Hour)
	const n = 3000
	for i := range n {
		x := fixedIdentity(t, 100+i/100).announce(t, uint64(i), 1, hour, root(i))
		if err := a.keep(x, viaGossip, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; ; i++ {
		if i == 12 {
			t.Fatal("it does not come to an end")
		}
		differ, err, serr := converse(t, a, b)
		if err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		if held, _, _ := b.memory.usage(); held == n {
			t.Logf("%d announcements in %d comparisons", n, i+1)
			return
		}
		if !differ {
			t.Fatal("it stands still")
		}
	}
}

// TestRefusals: who asks too often, or too much at one time, is told.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t)
		var release []func()
		for range b.cfg.SyncServed {
			r, err := b.sync.gate.TryAcquire()
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, r)
		}
		if _, err, serr := converse(t, a, b); status.Of(err) != status.Busy || status.Of(serr) != status.Busy {
			t.Errorf("%v, %v", err, serr)
		}
		for _, r := range release {
			r()
		}
		for range 4 * b.cfg.SyncPeerRate {
			_, _, _ = converse(t, a, b)
		}
		if _, err, serr := converse(t, a, b); status.Of(err) != status.RateLimit ||
			status.Of(serr) != status.RateLimit {
			t.Errorf("%v, %v", err, serr)
		}
		if _, err, _ := converse(t, newTested(t, fixedIdentity(t, 3)), b); err != nil {
			t.Errorf("another peer: %v", err)
		}
		time.Sleep(time.Second)
		if _, err, _ := converse(t, a, b); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}

// script plays one side of a comparison: each step is sent after a message of
// the other side was read. A second after the last one it leaves.
func script(t testing.TB, rw net.Conn, first bool, steps ...any) {
	t.Helper()
	defer rw.Close()
	c := newTested(t, fixedIdentity(t, 9)).sync.conversation(rw, "")
	for i, s := range steps {
		if i > 0 || !first {
			if _, err := c.read(); err != nil {
				return
			}
		}
		var err error
		if raw, ok := s.([]byte); ok {
			err = delimited.Write(rw, raw)
		} else {
			err = c.write(s)
		}
		if err != nil {
			return
		}
	}
	_ = rw.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, rw)
}

// TestLiars: whoever passes on what it must not is found out at once, and
// nothing of it is kept.
func TestLiars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := time.Now().Add(time.Hour)
		all := func(ids ...id) (a answer) {
			a = answer{Code: 200, Buckets: bytes.Repeat([]byte{0xff}, buckets/8), IDs: joinIDs(ids)}
			return a
		}
		good := fixedIdentity(t, 50).announce(t, 1, 1, hour, root(70))
		forged := *good
		forged.envelope = bytes.Clone(good.envelope)
		forged.envelope[len(forged.envelope)-1] ^= 1
		other := fixedIdentity(t, 51).announce(t, 1, 1, hour, root(71))
		old := fixedIdentity(t, 52).announce(t, 1, 1, time.Now().Add(-time.Minute), root(72))
		for name, tc := range map[string]struct {
			steps []any
			want  status.Outcome
		}{
			"no answer":          {nil, status.Upstream},
			"noise":              {[]any{[]byte("noise")}, status.BadRequest},
			"too long":           {[]any{make([]byte, maxMessage+1)}, status.FrameOversize},
			"an error":           {[]any{refusal(status.Errorf(status.Busy, "full"))}, status.Busy},
			"ends in the middle": {[]any{all(good.id)}, status.Upstream},
			"forged": {
				[]any{all(good.id), batch{Last: true, Items: [][]byte{forged.envelope}}}, status.BadSignature,
			},
			"not asked for": {[]any{all(good.id), batch{Last: true, Items: [][]byte{other.envelope}}},
				status.BadRequest},
			"twice": {
				[]any{all(good.id), batch{Last: true, Items: [][]byte{good.envelope, good.envelope}}},
				status.BadRequest,
			},
			"no announcement": {[]any{all(good.id), batch{Last: true, Items: [][]byte{[]byte("x")}}},
				status.BadSignature},
			"goes on and on":      {[]any{all(good.id), batch{}}, status.BadRequest},
			"expired":             {[]any{all(old.id), batch{Last: true, Items: [][]byte{old.envelope}}}, status.OK},
			"promised, not given": {[]any{all(good.id), batch{Last: true}}, status.OK},
			"wants what is not":   {[]any{all(), batch{Last: true, Wants: joinIDs(ids(0, 5))}}, status.OK},
			"good":                {[]any{all(good.id), batch{Last: true, Items: [][]byte{good.envelope}}}, status.OK},
		} {
			func() {
				a, _, _ := pair(t)
				near, far := net.Pipe()
				done := make(chan struct{})
				go func() { defer close(done); script(t, far, false, tc.steps...) }()
				_, err := a.sync.ask(near, "")
				_ = near.Close()
				<-done
				if err != nil {
					err = delimited.Failure(t.Context(), err)
				}
				if status.Of(err) != tc.want {
					t.Errorf("%s: %v, want %s", name, err, tc.want)
				}
				if kept := a.memory.get(good.id) != nil; kept != (name == "good" || name == "twice") {
					t.Errorf("%s: kept: %v", name, kept)
				}
				if a.memory.get(other.id) != nil || a.memory.get(old.id) != nil {
					t.Errorf("%s: something else was kept", name)
				}
			}()
		}
	})
}

// TestAskers is the same for those who ask.
func TestAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := newDigest(5, nil).offer()
		good := fixedIdentity(t, 50).announce(t, 1, 1, time.Now().Add(time.Hour), root(70))
		for name, tc := range map[string]struct {
			steps []any
			want  status.Outcome
		}{
			"nothing":       {nil, status.Upstream},
			"noise":         {[]any{[]byte("noise")}, status.BadRequest},
			"leaves":        {[]any{empty}, status.Upstream},
			"noise later":   {[]any{empty, []byte("noise")}, status.BadRequest},
			"pushes":        {[]any{empty, batch{Last: true, Items: [][]byte{good.envelope}}}, status.BadRequest},
			"wants nothing": {[]any{empty, batch{Last: true}}, status.OK},
			"does not give": {[]any{empty, batch{Last: true, Has: joinIDs([]id{good.id})}}, status.Upstream},
			"gives": {
				[]any{empty, batch{Last: true, Has: joinIDs([]id{good.id})},
					batch{Last: true, Items: [][]byte{good.envelope}}},
				status.OK,
			},
			"never finishes": {[]any{empty, batch{}}, status.BadRequest},
		} {
			func() {
				_, b, _ := pair(t)
				near, far := net.Pipe()
				done := make(chan struct{})
				go func() {
					defer close(done)
					script(t, near, true, tc.steps...)
				}()
				err := b.sync.answer(string(fixedIdentity(t, 1).id), far)
				_ = far.Close()
				<-done
				if err != nil {
					err = delimited.Failure(t.Context(), err)
				}
				if status.Of(err) != tc.want {
					t.Errorf("%s: %v, want %s", name, err, tc.want)
				}
				if kept := b.memory.get(good.id) != nil; kept != (name == "gives") {
					t.Errorf("%s: kept: %v", name, kept)
				}
			}()
		}
	})
}

// TestSilentPeers: who stops in the middle of a comparison holds up neither side
// for longer than a step, and the node ends at once.
func TestSilentPeers(t *testing.T) {
	in(t, 2, func(t *testing.T, sn *simNet) {
		sn.nodes = append(sn.nodes, sn.run(0, nil))
		sn.Hosts[1].SetStreamHandler(SyncID, func(s network.Stream) {
			_, _ = io.Copy(io.Discard, s)
			time.Sleep(time.Minute)
			_ = s.Reset()
		})
		sn.connect(0, 1)
		within(t, 10*time.Second, "a comparison to time out", func() bool {
			return sn.value("announce_syncs_total", "outcome", "timeout") > 0
		})
		s, err := sn.Hosts[1].NewStream(t.Context(), sn.Hosts[0].ID(), SyncID)
		if err != nil {
			t.Fatal(err)
		}
		if err := delimited.Write(s, nil); err != nil { // no offer
			t.Fatal(err)
		}
		if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("noise was answered: %v", err)
		}
		silent, err := sn.Hosts[1].NewStream(t.Context(), sn.Hosts[0].ID(), SyncID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := silent.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		sn.nodes[0].stop()
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("it took %s to stop", d)
		}
		_ = silent.Reset()
		time.Sleep(time.Minute)
	})
}

// TestValidate is what gossip may bring.
func TestValidate(t *testing.T) {
	me, other := fixedIdentity(t, 1), fixedIdentity(t, 2)
	s := newTested(t, fixedIdentity(t, 3))
	hour := time.Now().Add(time.Hour)
	first, second := me.announce(t, 1, 1, hour, roots(0, 2)...), me.announce(t, 1, 2, hour, root(0))
	validate := func(from identity, a *announcement) status.Outcome {
		return status.Of(s.Validate(from.id, a.envelope))
	}
	if got := validate(other, first); got != status.NotAllowed {
		t.Errorf("of another: %s", got)
	}
	for range 2 { // also when it is here: others may still need it
		if got := validate(me, first); got != status.OK {
			t.Errorf("the first: %s", got)
		}
		s.Handle(context.Background(), "via", first.envelope)
	}
	if got := validate(me, second); got != status.OK {
		t.Errorf("the second: %s", got)
	}
	s.Handle(context.Background(), "via", second.envelope)
	if got := validate(me, first); got != status.Stale {
		t.Errorf("a replay: %s", got)
	}
	s.Handle(context.Background(), "via", first.envelope)
	if len(s.Hints(root(0))) != 1 || len(s.Hints(root(1))) != 0 {
		t.Error("the replay holds")
	}
	forged := *second
	forged.envelope = bytes.Clone(second.envelope)
	forged.envelope[len(forged.envelope)-1] ^= 1
	s2 := newTested(t, fixedIdentity(t, 4))
	if got := status.Of(s2.Validate(me.id, forged.envelope)); got != status.BadSignature {
		t.Errorf("forged: %s", got)
	}
}

// FuzzConversation feeds both sides whatever comes: they end, with a reason.
func FuzzConversation(f *testing.F) {
	a, b, _ := pair(f)
	var stream bytes.Buffer
	c := a.sync.conversation(&stream, "")
	_ = c.write(newDigest(5, nil).offer())
	_ = c.write(batch{Last: true, Wants: joinIDs(ids(0, 2))})
	f.Add(bytes.Clone(stream.Bytes()), true)
	stream.Reset()
	_ = c.write(newDigest(5, b.memory.live(time.Now())).answer(newDigest(5, nil).offer(), 0))
	_ = c.write(batch{Last: true, Items: [][]byte{{1}}})
	f.Add(stream.Bytes(), false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, in []byte, ask bool) {
		rw := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(in), io.Discard}
		s := newTested(t, fixedIdentity(t, 8))
		known := fixedIdentity(t, 7).announce(t, 1, 1, time.Now().Add(time.Hour), root(1))
		if err := s.keep(known, viaGossip, time.Now()); err != nil {
			t.Fatal(err)
		}
		if ask {
			_ = s.sync.answer(string(a.self), rw)
		} else {
			_, _ = s.sync.ask(rw, "")
		}
		s.memory.check(t)
	})
}
