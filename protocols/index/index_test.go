package index_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/index"
	"allium/protocols/name"
	"allium/protocols/oap"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var object = b3.Sum([]byte("an object"))

// zoneKey returns the key of a zone, the same for the same seed.
func zoneKey(t testing.TB, seed byte) (crypto.PrivKey, name.Zone) {
	t.Helper()
	raw := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	key, err := crypto.UnmarshalEd25519PrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	z, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	return key, z
}

// nameOf returns label in the zone of a seed.
func nameOf(t testing.TB, seed byte, label string) name.Name {
	t.Helper()
	_, z := zoneKey(t, seed)
	l, err := name.ParseLabel(label)
	if err != nil {
		t.Fatal(err)
	}
	return name.Name{Label: l, Zone: z}
}

// signed returns a record of the zone of a seed.
func signed(t testing.TB, seed byte, label string, seq uint64, value string, now time.Time) name.Signed {
	t.Helper()
	key, _ := zoneKey(t, seed)
	v, err := name.ParseValue(value)
	if err != nil {
		t.Fatal(err)
	}
	s, err := name.Sign(key, name.Record{
		Name: nameOf(t, seed, label), Seq: seq, Value: v, TTL: time.Minute,
		NotAfter: now.Add(24 * time.Hour).Truncate(time.Second).UTC(),
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verifier opens records of names as a node does. A provider record is valid if it says so; the DHT
// tests the real ones.
type verifier struct {
	mu   sync.Mutex
	seen map[name.Name]uint64
}

func (v *verifier) OpenProvider(_ context.Context, root b3.Root, envelope, peerRecord []byte) (record.Provider, error) {
	id, ok := strings.CutPrefix(string(envelope), "valid for "+root.String()+" by ")
	if !ok || string(peerRecord) != "addresses of "+id {
		return record.Provider{}, errors.New("refused")
	}
	return record.Provider{
		AddrInfo: peer.AddrInfo{ID: peer.ID(id)}, Origin: record.OriginDHT, Proof: &record.Proof{},
	}, nil
}

func (v *verifier) OpenName(_ context.Context, envelope []byte) (name.Signed, error) {
	return name.Open(envelope, time.Now())
}

func (v *verifier) SawName(n name.Versions) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	rec, _ := n.Current()
	if rec.Seq < v.seen[rec.Name] {
		return status.Errorf(status.Stale, "a newer record was verified before")
	}
	v.seen[rec.Name] = rec.Seq
	return nil
}

// source is a node that holds some records, and finds others in the network.
type source struct {
	held, network map[string]index.Answer
	stuck         chan struct{} // while it is open, the network does not answer

	mu    sync.Mutex
	asked []string
	stale time.Duration // as it was asked for
}

func (s *source) find(ctx context.Context, key string, network bool) (index.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprintf("%.8s %t", key, network))
	s.mu.Unlock()
	from := s.held
	if network {
		from = s.network
		if s.stuck != nil {
			select {
			case <-s.stuck:
			case <-ctx.Done():
				return index.Answer{}, ctx.Err()
			}
		}
	}
	a, ok := from[key]
	if !ok {
		err := error(status.Errorf(status.NotFound, "nothing is known of the key"))
		if network {
			err = status.WithLookup(err, 7)
		}
		return index.Answer{}, err
	}
	return a, nil
}

func (s *source) Object(ctx context.Context, root b3.Root, limit int, network bool) (index.Answer, error) {
	a, err := s.find(ctx, root.String(), network)
	a.Proofs = a.Proofs[:min(limit, len(a.Proofs))]
	return a, err
}

func (s *source) Name(ctx context.Context, n name.Name, maxStale time.Duration, network bool) (index.Answer, error) {
	s.mu.Lock()
	s.stale = maxStale
	s.mu.Unlock()
	return s.find(ctx, n.String(), network)
}

// provided returns an answer with so many providers.
func provided(n int) index.Answer {
	a := index.Answer{Resolved: answer.Resolved{Key: object.String(), Target: object}}
	for i := range n {
		id := fmt.Sprint("provider ", i)
		a.Resolved.Providers = append(a.Resolved.Providers, answer.Provider{ID: id, Addrs: []string{}})
		a.Proofs = append(a.Proofs, record.Proof{
			Envelope:   []byte("valid for " + object.String() + " by " + id),
			PeerRecord: []byte("addresses of " + id),
		})
	}
	return a
}

// rig is a client "b" and a server "a" with sessions between them.
type rig struct {
	*index.Client
	calls   *session.Service // of the client
	source  *source
	seen    map[name.Name]uint64
	limits  *limits.Registry
	release func()
}

// filter has the same error for every key.
type filter struct{ err error }

func (f filter) Object(b3.Root) error { return f.err }

func (f filter) Name(name.Name) error { return f.err }

// newRig starts both. change sets the server up; answer, unless it is nil, takes the server's place.
func newRig(t *testing.T, src *source, change func(*index.ServerDeps), lie session.Handler) *rig {
	t.Helper()
	r := &rig{source: src, seen: map[name.Name]uint64{}, limits: limits.NewRegistry(nil)}
	net := testkit.NewNetwork(testkit.Options{})
	d := index.ServerDeps{Env: env.Env{Limits: r.limits}, Source: src, Filter: filter{}}
	if change != nil {
		change(&d)
	}
	server, err := index.NewServer(d)
	if err != nil {
		t.Fatal(err)
	}
	handle := server.Handle
	if lie != nil {
		handle = lie
	}
	services := map[string]*session.Service{}
	for _, id := range []string{"a", "b"} {
		s, err := session.New(session.DefaultConfig(), session.Deps{Host: net.Host(peer.ID(id))})
		if err != nil {
			t.Fatal(err)
		}
		if id == "a" {
			s.Handle(oap.ProtoIndex, handle)
		}
		services[id] = s
	}
	stopA, stopB := testkit.Start(t, services["a"].Run), testkit.Start(t, services["b"].Run)
	r.calls = services["b"]
	r.Client = index.NewClient(r.calls, &verifier{seen: r.seen})
	r.release = func() { stopB(); stopA(); net.Close() }
	return r
}

// TestHeld: a peer is told what the node holds, proved, and nothing is looked up for it.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		n, other := nameOf(t, 1, "blog"), nameOf(t, 1, "other")
		old, cur := signed(t, 1, "blog", 5, "old", now), signed(t, 1, "blog", 9, object.String(), now)
		src := &source{held: map[string]index.Answer{
			object.String(): provided(40),
			n.String():      {Names: [][]byte{cur.Envelope}},
			other.String():  {Names: [][]byte{old.Envelope}},
		}, network: map[string]index.Answer{b3.Sum(nil).String(): provided(1)}}
		r := newRig(t, src, nil, nil)
		defer r.release()
		found, err := r.Providers(t.Context(), "a", object, 99)
		if err != nil || len(found) != answer.MaxProviders ||
			found[0].Origin != record.OriginServed || found[0].Via != "a" {
			t.Errorf("%d providers, %v", len(found), err)
		}
		v, err := r.Name(t.Context(), "a", n)
		if rec, ok := v.Current(); err != nil || !ok || rec.Seq != 9 || rec.Value.String() != object.String() {
			t.Errorf("%v, %v", v, err)
		}
		if _, err := r.Name(t.Context(), "a", other); status.Of(err) != status.Upstream {
			t.Errorf("the record of another name: %v", err)
		}
		if _, err := r.Providers(t.Context(), "a", b3.Sum(nil), 5); status.Of(err) != status.NotFound {
			t.Errorf("what the node does not hold: %v", err)
		}
		for _, q := range src.asked {
			if strings.HasSuffix(q, "true") {
				t.Errorf("the network was asked: %s", q)
			}
		}
	})
}

// TestRecurse: with recurse, what the node does not hold is looked up, at most 4 for a peer; the
// error names the lookup.
func TestRecurse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{network: map[string]index.Answer{object.String(): provided(3)}, stuck: make(chan struct{})}
		r := newRig(t, src, func(d *index.ServerDeps) { d.Recurse = true }, nil)
		defer r.release()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if found, err := r.Providers(t.Context(), "a", object, 2); err != nil || len(found) != 2 {
					t.Errorf("%d providers, %v", len(found), err)
				}
			})
		}
		synctest.Wait()
		_, err := r.Providers(t.Context(), "a", object, 2)
		report := status.ReportOf(err)
		if status.Of(err) != status.Busy || report.Limit != "index.peer_recursions" || report.RetryAfterMS <= 0 {
			t.Errorf("the fifth: %v, %+v", err, report)
		}
		close(src.stuck)
		wg.Wait()
		_, err = r.Providers(t.Context(), "a", b3.Sum(nil), 2)
		if report := status.ReportOf(err); status.Of(err) != status.NotFound || report.LookupID == "" {
			t.Errorf("an object that nobody has: %v, %+v", err, report)
		}
	})
}

// TestSilence: a request to a peer that does not answer ends at the caller's deadline, and at the
// latest after 5 s.
func TestSilence(t *testing.T) {
	for name, tc := range map[string]struct{ deadline, want time.Duration }{
		"caller": {time.Second, time.Second}, "own": {time.Minute, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, &source{}, nil,
					func(ctx context.Context, _ peer.ID, _ *session.Request) session.Response {
						<-ctx.Done()
						time.Sleep(time.Second) // the answer to a request that ended comes too late
						return session.Response{Err: ctx.Err()}
					})
				defer r.release()
				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				begun := time.Now()
				_, err := r.Providers(ctx, "a", object, 1)
				if took := time.Since(begun); status.Of(err) != status.Timeout || took != tc.want {
					t.Errorf("%v after %s, want timeout after %s", err, took, tc.want)
				}
			})
		})
	}
}

// TestLies: a client believes nothing that is not proved.
func TestLies(t *testing.T) {
	text := base64.RawURLEncoding.EncodeToString
	for name, tc := range map[string]struct {
		records func(t *testing.T) []string
		payload string // in place of an answer with the records
		want    status.Outcome
	}{
		"no records":    {want: status.Upstream},
		"not base64url": {records: func(*testing.T) []string { return []string{"+/=="} }, want: status.Upstream},
		"no envelope": {
			records: func(*testing.T) []string { return []string{text([]byte("x"))} },
			want:    status.Upstream,
		},
		"unknown member": {payload: `{"records":[],"more":1}`, want: status.Upstream},
		"a member twice": {payload: `{"records":[],"records":[]}`, want: status.Upstream},
		"a huge integer": {payload: `{"age_ms":9007199254740993,"records":[]}`, want: status.Upstream},
		"not JSON":       {payload: `<html>`, want: status.Upstream},
		"too many records": {records: func(*testing.T) []string { return make([]string, 73) },
			want: status.Upstream},
		"more than 64 KiB":    {payload: `{"key":"` + strings.Repeat("k", 70<<10) + `"}`, want: status.Upstream},
		"nearly 1 MiB":        {payload: `{"key":"` + strings.Repeat("k", 1<<20-100) + `"}`, want: status.Upstream},
		"a record that holds": {records: record1(9, 1, "blog", nil), want: status.OK},
		"a changed record": {
			records: record1(9, 1, "blog", func(p []byte) { p[len(p)-1] ^= 1 }), want: status.Upstream,
		},
		"of another name":     {records: record1(9, 1, "other", nil), want: status.Upstream},
		"with a foreign key":  {records: record1(9, 2, "blog", nil), want: status.Upstream},
		"older than one seen": {records: record1(3, 1, "blog", nil), want: status.Stale},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				payload := tc.payload
				if payload == "" {
					records := []string{}
					if tc.records != nil {
						records = tc.records(t)
					}
					payload = fmt.Sprintf(`{"key":"blog","value":"trust me","records":["%s"]}`,
						strings.Join(records, `","`))
					if len(records) == 0 {
						payload = `{"records":[]}`
					}
				}
				r := newRig(t, &source{}, nil, func(context.Context, peer.ID, *session.Request) session.Response {
					return session.Response{Payload: []byte(payload)}
				})
				defer r.release()
				n := nameOf(t, 1, "blog")
				r.seen[n] = 5
				v, err := r.Name(t.Context(), "a", n)
				if status.Of(err) != tc.want || (v.Seq() == 0) != (tc.want != status.OK) {
					t.Errorf("got seq %d, %v; want %s", v.Seq(), err, tc.want)
				}
				if _, err := r.Providers(t.Context(), "a", object, 5); status.Of(err) != status.Upstream {
					t.Errorf("providers: %v", err)
				}
			})
		})
	}
}

// record1 returns the text of a record that the zone of a seed signed, changed.
func record1(seq uint64, seed byte, label string, change func([]byte)) func(*testing.T) []string {
	return func(t *testing.T) []string {
		p := append([]byte(nil), signed(t, seed, label, seq, "value", time.Now()).Envelope...)
		if change != nil {
			change(p)
		}
		return []string{base64.RawURLEncoding.EncodeToString(p)}
	}
}

// TestRequests: what a server refuses before it asks its node.
func TestRequests(t *testing.T) {
	long := strings.Repeat("a", 300)
	for request, want := range map[string]status.Outcome{
		`{"op":"dance"}`:                                                                status.Unsupported,
		`{"op":"resolve"}`:                                                              status.BadAddress,
		`{"op":"resolve","key":"blog"}`:                                                 status.BadAddress,
		`{"op":"resolve","key":"` + long + `"}`:                                         status.BadAddress,
		`{"op":"resolve","key":"B3:00"}`:                                                status.BadAddress,
		`{"op":"resolve","key":"..%00.k51"}`:                                            status.BadAddress,
		`{"op":"providers","key":"blog.alice"}`:                                         status.BadAddress,
		`{"op":"providers","key":"` + nameOf(t, 1, "blog").String() + `"}`:              status.BadAddress,
		`{"op":"providers","key":"` + object.String() + `","limit":33}`:                 status.BadRequest,
		`{"op":"providers","key":"` + object.String() + `","limit":-1}`:                 status.BadRequest,
		`{"op":"providers","key":"` + object.String() + `","limit":9007199254740993}`:   status.BadRequest,
		`{"op":"providers","key":"` + object.String() + `","limit":1,"limit":2}`:        status.BadRequest,
		`{"op":"providers","key":"` + object.String() + `","max_stale_ms":1}`:           status.BadRequest,
		`{"op":"resolve","key":"` + object.String() + `","fresh":true}`:                 status.BadRequest,
		`{"op":"resolve","key":"` + object.String() + `","max_stale_ms":-1}`:            status.BadRequest,
		`{"op":"resolve","key":"` + object.String() + `","max_stale_ms":2592000001}`:    status.BadRequest,
		`{"op":"resolve","key":"` + object.String() + `","max_stale_ms":2592000000}`:    status.NotFound,
		`{"op":"providers","key":"` + object.String() + `","limit":32,"deadline_ms":1}`: status.NotFound,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, &source{}, nil, nil)
			defer r.release()
			_, err := r.calls.Call(t.Context(), "a", oap.ProtoIndex, []byte(request))
			if status.Of(err) != want {
				t.Errorf("%.100s: got %v, want %s", request, err, want)
			}
			if asked := len(r.source.asked) > 0; asked != (want == status.NotFound) {
				t.Errorf("%.100s: the node was asked: %t", request, asked)
			}
		})
	}
}

// TestDenied: a peer is told the same of a denied key as of one of which nothing is held, and nothing looks for it.
func TestDenied(t *testing.T) {
	denied := status.Errorf(status.Denied, "the operator denies it")
	for _, key := range []string{object.String(), nameOf(t, 1, "blog").String()} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, &source{}, func(d *index.ServerDeps) {
				d.Filter, d.Recurse = filter{denied}, true
			}, nil)
			defer r.release()
			_, err := r.calls.Call(t.Context(), "a", oap.ProtoIndex, fmt.Appendf(nil, `{"op":"resolve","key":%q}`, key))
			if status.Of(err) != status.NotFound || !strings.Contains(err.Error(), index.ErrNone.Error()) {
				t.Errorf("%s: %v", key, err)
			}
			if len(r.source.asked) > 0 {
				t.Errorf("%s: the node was asked: %v", key, r.source.asked)
			}
		})
	}
}

// TestMaxStale: the server passes on how stale an answer may be.
func TestMaxStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &source{}, nil, nil)
		defer r.release()
		q := fmt.Sprintf(`{"op":"resolve","key":%q,"max_stale_ms":1500}`, nameOf(t, 1, "blog"))
		_, err := r.calls.Call(t.Context(), "a", oap.ProtoIndex, []byte(q))
		if status.Of(err) != status.NotFound || r.source.stale != 1500*time.Millisecond {
			t.Errorf("%v; the node was asked for %s", err, r.source.stale)
		}
	})
}

// TestLargeAnswer: an answer that would not fit loses its last providers.
func TestLargeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := provided(32)
		for i := range a.Resolved.Providers {
			a.Resolved.Providers[i].Addrs = []string{strings.Repeat("x", 4<<10)}
		}
		r := newRig(t, &source{held: map[string]index.Answer{object.String(): a}}, nil, nil)
		defer r.release()
		found, err := r.Providers(t.Context(), "a", object, 32)
		if err != nil || len(found) < 8 || len(found) >= 32 || found[0].ID != "provider 0" {
			t.Errorf("%d providers, %v", len(found), err)
		}
	})
}
