package own

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/env"
	"allium/internal/privatefile"
	"allium/protocols/name"
	"allium/protocols/status"
)

// keyring is the key of one zone.
type keyring struct {
	key  crypto.PrivKey
	zone name.Zone
}

func (k keyring) Key(zone name.Zone) (crypto.PrivKey, error) {
	if zone != k.zone {
		return nil, status.Errorf(status.NotFound, "no key")
	}
	return k.key, nil
}

func (k keyring) Own() ([]name.Zone, error) { return []name.Zone{k.zone}, nil }

func (k keyring) Petnames() ([]name.Entry, error) { return nil, nil }

// peers are the holders of records. It is one value, so that tests say what all of them have.
type peers struct {
	mu    sync.Mutex
	held  map[name.Name]name.Versions
	sent  []name.Signed
	away  bool // nobody answers
	heard []name.Signed
}

func (p *peers) send(_ context.Context, rec name.Signed) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return 0, status.Errorf(status.NoBootstrap, "no peers")
	}
	p.sent = append(p.sent, rec)
	p.held[rec.Name], _ = p.held[rec.Name].Add(rec)
	return 3, nil
}

func (p *peers) find(_ context.Context, n name.Name, fresh bool) (name.Versions, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !fresh {
		return name.Versions{}, errors.New("own copies must not count")
	}
	if p.away {
		return name.Versions{}, status.Errorf(status.NoBootstrap, "no peers")
	}
	return p.held[n], nil
}

// hear is told of each record that the service has published.
func (p *peers) hear(_ context.Context, rec name.Signed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, rec)
}

// told returns how many records were heard of.
func (p *peers) told() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.heard)
}

func (p *peers) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

func (p *peers) last() (n int, rec name.Signed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n = len(p.sent); n > 0 {
		rec = p.sent[n-1]
	}
	return n, rec
}

// bed is a service over peers.
type bed struct {
	keyring
	*Service
	home  string
	peers *peers
	wrong bool // the clock
	stop  func()

	held  func(name.Zone) []name.Signed
	floor func(name.Name) uint64
}

func newBed(t *testing.T) *bed {
	t.Helper()
	key, pub, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	zone, err := name.ZoneOf(pub)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{keyring: keyring{key, zone}, home: t.TempDir(), peers: &peers{held: map[name.Name]name.Versions{}}}
	if err := privatefile.Create(fileOf(b.home, zone)+".other", nil); err != nil { // makes the directory
		t.Fatal(err)
	}
	b.start(t)
	return b
}

// start runs the service, as after a restart.
func (b *bed) start(t *testing.T) {
	t.Helper()
	s, err := New(Config{Home: b.home}, Deps{
		Env: env.Env{Now: time.Now}, Keys: b.keyring, Send: b.peers.send, Find: b.peers.find,
		ClockWrong: func() bool { return b.wrong },
		Published:  b.peers.hear, Held: b.held, Floor: b.floor,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Service = s
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error)
	go func() { done <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	stopped := false
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(b.stop)
}

func (b *bed) name(t *testing.T, label string) name.Name {
	t.Helper()
	l, err := name.ParseLabel(label)
	if err != nil {
		t.Fatal(err)
	}
	return name.Name{Label: l, Zone: b.zone}
}

func (b *bed) request(t *testing.T, label, text string) Request {
	t.Helper()
	v, err := name.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Name: b.name(t, label), Value: v, TTL: name.DefaultTTL, Life: name.DefaultLife}
}

func (b *bed) publish(t *testing.T, label, text string) State {
	t.Helper()
	st, err := b.Publish(t.Context(), b.request(t, label, text))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// elsewhere gives the peers a record that another home with the key signed.
func (b *bed) elsewhere(t *testing.T, label, text string, seq uint64) {
	t.Helper()
	r := b.request(t, label, text)
	rec, err := name.Sign(b.key, name.Record{
		Name: r.Name, Seq: seq, Value: r.Value, TTL: r.TTL,
		NotAfter: time.Now().Add(r.Life).Truncate(time.Second).UTC(),
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.peers.mu.Lock()
	defer b.peers.mu.Unlock()
	b.peers.held[r.Name], _ = b.peers.held[r.Name].Add(rec)
}

func fails(t *testing.T, err error, want status.Outcome) {
	t.Helper()
	if status.Of(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestPublishIsDurableAndSentAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.peers.set(true)
		st := b.publish(t, "Blog", "one")
		if st.Acks != 0 || status.Of(st.Failed) != status.NoBootstrap || b.peers.told() != 1 {
			t.Fatalf("%+v, %d heard", st, b.peers.told())
		}
		b.stop()
		b.start(t)
		synctest.Wait()
		if all := b.List(); len(all) != 1 || all[0].Seq != st.Seq || all[0].Failed == nil {
			t.Fatalf("%+v", all)
		}
		b.peers.set(false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if all := b.List(); all[0].Acks != 3 || all[0].Failed != nil ||
			all[0].Due.Before(time.Now().Add(3*24*time.Hour)) {
			t.Fatalf("%+v", all)
		}
		if n, _ := b.peers.last(); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

func TestRecordIsSignedAgainAtHalfOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		first := b.publish(t, "blog", "one")
		time.Sleep(name.DefaultLife/2 - time.Hour)
		synctest.Wait()
		if n, _ := b.peers.last(); n != 1 {
			t.Fatalf("sent %d times before half of the life", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		n, rec := b.peers.last()
		if n != 2 || rec.Seq <= first.Seq || rec.Value != first.Value || !rec.NotAfter.After(first.NotAfter) {
			t.Fatalf("%d: %+v", n, rec.Record)
		}
		if life := lifeOf(rec); life != name.DefaultLife {
			t.Errorf("the life became %s", life)
		}
		// While nobody answers, it is not signed again: it might undo what another home published.
		b.peers.set(true)
		time.Sleep(30 * 24 * time.Hour)
		b.peers.set(false)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n, again := b.peers.last(); n != 3 || again.Seq <= rec.Seq {
			t.Errorf("%d: %+v", n, again.Record)
		}
	})
}

func TestAnotherHomeIsNotUndercut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		ahead := uint64(time.Now().Add(time.Minute).UnixMilli())
		b.elsewhere(t, "blog", "theirs", ahead)
		if st := b.publish(t, "blog", "ours"); st.Seq != ahead+1 {
			t.Errorf("seq %d, want %d", st.Seq, ahead+1)
		}
	})
}

func TestRecordThatAnotherHomeReplacedIsLeft(t *testing.T) {
	for _, c := range []struct {
		ahead   uint64
		problem Problem
		outcome status.Outcome
	}{{1, Superseded, status.Stale}, {0, Equivocation, status.Equivocation}} {
		t.Run(string(c.problem), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.peers.set(true)
				st := b.publish(t, "blog", "ours")
				b.peers.set(false)
				b.elsewhere(t, "blog", "theirs", st.Seq+c.ahead)
				time.Sleep(time.Hour)
				synctest.Wait()
				got := b.List()[0]
				if n, _ := b.peers.last(); n != 0 || got.Problem != c.problem || !got.Due.IsZero() {
					t.Fatalf("sent %d times, %+v", n, got)
				}
				fails(t, got.Failed, c.outcome)
				if st := b.publish(t, "blog", "ours"); st.Problem != "" || st.Acks != 3 || st.Seq <= got.Seq+c.ahead {
					t.Errorf("published again: %+v", st)
				}
			})
		})
	}
}

func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		_, err := b.Withdraw(t.Context(), b.name(t, "blog"))
		fails(t, err, status.NotFound)
		r := b.request(t, "blog", "one")
		r.TTL = 7 * time.Second
		first, err := b.Publish(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		st, err := b.Withdraw(t.Context(), b.name(t, "blog"))
		if err != nil || st.Value.Kind() != name.Withdrawn || st.Seq <= first.Seq ||
			!st.Due.IsZero() || st.TTL != r.TTL {
			t.Fatalf("%+v: %v", st, err)
		}
		if again, err := b.Withdraw(t.Context(), b.name(t, "blog")); err != nil || again.Seq != st.Seq {
			t.Errorf("%+v: %v", again, err)
		}
		b.publish(t, "b1og", "looks like the name that is not used any more")
		_, err = b.Publish(t.Context(), b.request(t, "blog", "one"))
		fails(t, err, status.Conflict)
		time.Sleep(name.MaxLife + time.Hour)
		if all := b.List(); len(all) != 1 || all[0].Name != b.name(t, "b1og") {
			t.Errorf("%+v", all)
		}
	})
}

func TestFailedWriteChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		first := b.publish(t, "blog", "one")
		old, err := os.ReadFile(fileOf(b.home, b.zone))
		if err != nil {
			t.Fatal(err)
		}
		b.replace = func(file string, p []byte) error {
			_ = os.WriteFile(file+".half", p[:len(p)/2], 0o600) // what a crash leaves beside the file
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		_, err = b.Publish(t.Context(), b.request(t, "blog", "two"))
		fails(t, err, status.Of(syscall.ENOSPC))
		if n, _ := b.peers.last(); n != 1 || b.peers.told() != 1 || b.List()[0].Seq != first.Seq {
			t.Errorf("sent %d times, heard %d, %+v", n, b.peers.told(), b.List())
		}
		b.stop()
		b.start(t)
		if now, err := os.ReadFile(fileOf(b.home, b.zone)); err != nil || string(now) != string(old) {
			t.Errorf("the file changed: %v", err)
		}
		if all := b.List(); len(all) != 1 || all[0].Value != first.Value {
			t.Errorf("%+v", all)
		}
		b.publish(t, "blog", "two")
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		try := func(want status.Outcome, change func(*Request)) {
			t.Helper()
			r := b.request(t, "blog", "one")
			change(&r)
			_, err := b.Publish(t.Context(), r)
			fails(t, err, want)
		}
		try(status.BadRequest, func(r *Request) { r.Value = name.Value{} })
		try(status.BadRequest, func(r *Request) { r.Life = MinLife - 1 })
		try(status.BadRequest, func(r *Request) { r.Life = name.MaxLife + 1 })
		try(status.BadRequest, func(r *Request) { r.TTL = time.Second })
		try(status.NotFound, func(r *Request) { r.Name.Zone[0]++ })
		b.wrong = true
		try(status.NotReady, func(*Request) {})
		b.wrong = false
		sent, _ := b.peers.last()
		if files, _ := fileZones(b.home); len(files) != 0 || sent != 0 {
			t.Errorf("%v, %d sent", files, sent)
		}
		s, err := New(Config{Home: b.home, Amnesia: true}, b.deps)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Publish(t.Context(), b.request(t, "blog", "one"))
		fails(t, err, status.Amnesia)
	})
}

func TestZoneIsBounded(t *testing.T) {
	b := newBed(t)
	b.stop()
	now := time.Now()
	rec := func(label string) name.Signed {
		r := b.request(t, label, "x")
		return name.Signed{Record: name.Record{Name: r.Name, Value: r.Value, NotAfter: now.Add(r.Life)}}
	}
	for i := range maxLabels {
		b.table.set(rec(fmt.Sprintf("n%x", i)), true, true, now)
	}
	_, err := b.table.with(rec("more"), now)
	fails(t, err, status.Quota)
	if _, err := b.table.with(rec("n0"), now); err != nil {
		t.Errorf("a name that is there: %v", err)
	}
}

func TestDamagedFile(t *testing.T) {
	b := newBed(t)
	b.publish(t, "a", "one")
	b.publish(t, "b", "two")
	b.stop()
	file := fileOf(b.home, b.zone)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(good, b.zone); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{
		"empty": {}, "truncated": good[:len(good)-9], "line twice": append(good, good[len(head)+1:]...),
		"changed": append(append([]byte{}, good[:len(good)-40]...), append([]byte("AAAA"), good[len(good)-36:]...)...),
		"text":    []byte(head + "\nhello\n"), "long": make([]byte, maxFile+1),
	} {
		if _, err := decode(bad, b.zone); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := decode(good, name.Zone{1}); err == nil {
		t.Error("another zone: no error")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(head + "\n"))
	f.Add([]byte(head + "\nAAAA\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		records, err := decode(p, name.Zone{})
		if err == nil && string(encode(records)) != string(p) {
			t.Errorf("%q is not the encoding of what it decodes to", p)
		}
	})
}
