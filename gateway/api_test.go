package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// connectTo is a client of the node's socket.
func connectTo(t testing.TB, n *testNode) *client.Client {
	t.Helper()
	c, err := client.New(n.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// collect reads a sequence to its end.
func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// read is a stream as it comes out.
func read(s *api.Stream, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer s.Body.Close()
	p, err := io.ReadAll(s.Body)
	return []any{s.Object, string(p)}, err
}

func first[T any](v T, err error) (any, error) { return v, err }

// TestRoundTrip calls every verb over the socket: the node hears what was said
// and the caller gets what it answered.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	ctx := t.Context()
	const key = "b3:é/a b&c=d?#%2f"
	for _, v := range []struct {
		heard string
		want  any
		call  func() (any, error)
	}{
		{`add "the tar" {NoPin:true Label:x OnBadEntry:skip Ordered:true Roots:<nil> File:<nil> Count:<nil>}`, []api.Added{{
			Name: "a", Root: fakeRoot, Kind: api.File, Files: 1, Bytes: 7,
		}}, func() (any, error) {
			o := api.AddOptions{NoPin: true, Label: "x", OnBadEntry: api.SkipBadEntries, Ordered: true}
			return first(collect(c.Add(ctx, strings.NewReader("the tar"), o, nil)))
		}},
		{`add "" {NoPin:false Label: OnBadEntry: Ordered:false Roots:<nil> File:<nil> Count:<nil>} rf 2`, []api.Added{{
			Name: "a", Root: fakeRoot, Kind: api.File, Files: 1,
		}}, func() (any, error) {
			o := api.AddOptions{Target: &api.Target{RF: 2}}
			return first(collect(c.Add(ctx, strings.NewReader(""), o, nil)))
		}},
		{"get " + key, []any{fakeObj, "hello"}, func() (any, error) { return read(c.Get(ctx, key)) }},
		{"cat " + key + " 3--1", []any{fakeObj, "hello"}, func() (any, error) {
			return read(c.Cat(ctx, key, b3.Range{Start: 3, End: -1}))
		}},
		{"fetch " + key, fakeFetched, func() (any, error) { return first(c.Fetch(ctx, key, nil)) }},
		{"ls " + key, fakeEntries, func() (any, error) { return first(collect(c.List(ctx, key))) }},
		{"diff " + key + " b3:x", fakeChanges, func() (any, error) { return first(collect(c.Diff(ctx, key, "b3:x"))) }},
		{fmt.Sprintf("keep [%s %s]", fakeRoot, b3.Root{}), []bool{false, false}, func() (any, error) {
			return first(c.Keep(ctx, []b3.Root{fakeRoot, {}}))
		}},
		{fmt.Sprintf("files [%s]", fakeRoot), []any{fakeTar, "hello"}, func() (any, error) {
			return read(c.Files(ctx, []b3.Root{fakeRoot}))
		}},
		{"stat " + key, fakeStat, func() (any, error) { return first(c.Stat(ctx, key)) }},
		{"stat store", fakeStore, func() (any, error) { return first(c.StatStore(ctx)) }},
		{"damage", fakeDamage, func() (any, error) { return first(c.Damage(ctx)) }},
		{"accept damage", fakeDamage, func() (any, error) { return first(c.AcceptDamage(ctx)) }},
		{"verify ", fakeChecked, func() (any, error) { return first(collect(c.Verify(ctx, "", api.VerifyOptions{}))) }},
		{"pin " + key + " {Recursive:true Label:y}", fakePin, func() (any, error) {
			return first(c.Pin(ctx, key, api.PinOptions{Recursive: true, Label: "y"}))
		}},
		{"pin " + key + " {Recursive:false Label:} rf 3", fakePin, func() (any, error) {
			return first(c.Pin(ctx, key, api.PinOptions{Target: &api.Target{RF: 3}}))
		}},
		{"pin " + key + " {Recursive:false Label:} none", fakePin, func() (any, error) {
			return first(c.Pin(ctx, key, api.PinOptions{Target: &api.Target{}}))
		}},
		{"durability", fakeDurability, func() (any, error) { return first(c.Durability(ctx)) }},
		{"durability of " + key + " true", fakeCopies, func() (any, error) {
			return first(c.ObjectDurability(ctx, key, true))
		}},
		{"await " + key + " <nil>", fakePlaced,
			func() (any, error) { return first(c.AwaitCopies(ctx, key, nil, nil)) }},
		{"await " + key + " ec 2+1", fakePlaced, func() (any, error) {
			return first(c.AwaitCopies(ctx, key, &api.Target{EC: "2+1"}, nil))
		}},
		{"unpin " + key + " y", nil, func() (any, error) { return nil, c.Unpin(ctx, key, "y") }},
		{"gc {All:true Dry:true Fast:false List:true}", []any{fakeGC, []api.GCObject{fakeGone}}, func() (any, error) {
			var gone []api.GCObject
			r, err := c.GC(ctx, api.GCOptions{All: true, Dry: true, List: true}, nil, func(v api.GCObject) error {
				gone = append(gone, v)
				return nil
			})
			return []any{r, gone}, err
		}},
		{"why " + key, fakeWhy, func() (any, error) { return first(c.GCWhy(ctx, key)) }},
		{"pins", []api.Pin{fakePin}, func() (any, error) { return first(collect(c.Pins(ctx))) }},
		{"providers " + key + " 5 fresh false trace false", []api.Provider{fakeProvider}, func() (any, error) {
			return first(collect(c.Providers(ctx, key, 5)))
		}},
		{"providers " + key + " 32 fresh true trace false", []api.Provider{fakeProvider}, func() (any, error) {
			q := api.Query{Limit: 32, Fresh: true}
			return first(collect(c.FindProviders(ctx, key, api.FindOptions{Query: q})))
		}},
		{"film 00000000000000a1", api.Film{ID: "00000000000000a1", Trace: []byte("go 1.26 trace")},
			func() (any, error) { return first(c.Film(ctx, "00000000000000a1")) }},
		{"why lookup " + key, fakeLookup, func() (any, error) { return first(c.Why(ctx, key)) }},
		{
			"resolve " + key + " {Limit:7 Region:eu MinFreshness:1m30s Fresh:false MaxStale:0s All:false}",
			fakeResolved,
			func() (any, error) {
				return first(c.Resolve(ctx, key, api.Query{Limit: 7, Region: "eu", MinFreshness: 90 * time.Second}))
			},
		},
		{"share " + key + " {Name:n For:1h0m0s}",
			api.Shared{Ticket: "allium1", Root: fakeRoot, Kind: api.File, Reach: "anyone"}, func() (any, error) {
				return c.Share(ctx, key, api.ShareOptions{Name: "n", For: time.Hour})
			}},
		{"share web " + key + " {Name:n Listen:127.0.0.1:0 On:relay For:1h0m0s Downloads:3}", fakeLinked, func() (
			any, error,
		) {
			o := api.WebOptions{Name: "n", Listen: "127.0.0.1:0", On: "relay", For: time.Hour, Downloads: 3}
			return first(collect(c.ShareWeb(ctx, key, o)))
		}},
		{"announce " + key, api.Announced{Root: fakeRoot, Peers: 4}, func() (any, error) {
			return first(c.Announce(ctx, key))
		}},
		{"publish {Name:blog.k51 Value:x TTLMS:5000 LifeMS:0}", fakeOwnName, func() (any, error) {
			return first(c.PublishName(ctx, api.PublishRequest{Name: "blog", Value: "x", TTLMS: 5000}))
		}},
		{"withdraw blog.k51", fakeOwnName, func() (any, error) {
			return first(c.WithdrawName(ctx, api.WithdrawRequest{Name: "blog"}))
		}},
		{"own names", []api.OwnName{fakeOwnName}, func() (any, error) { return first(collect(c.OwnNames(ctx))) }},
		{"id", fakeID, func() (any, error) { return first(c.ID(ctx)) }},
		{"peers", []api.Peer{fakePeer}, func() (any, error) { return first(c.Peers(ctx)) }},
		{"ask 12D4 " + key, api.PeerHas{Peer: "12D4", Root: fakeRoot, Has: "part"}, func() (any, error) {
			return first(c.AskPeer(ctx, "12D4", key))
		}},
		{"reach", fakeReach, func() (any, error) { return first(c.Reach(ctx)) }},
		{"seeds", fakeSeeds, func() (any, error) { return first(c.Seeds(ctx)) }},
		{"connect /ip4/1", fakePeer, func() (any, error) { return first(c.Connect(ctx, "/ip4/1")) }},
		{"disconnect 12D4", nil, func() (any, error) { return nil, c.Disconnect(ctx, "12D4") }},
		{"packs", []api.Pack{fakePack}, func() (any, error) { return first(c.Packs(ctx)) }},
		{"mount pack {Name:city File: Key:" + key + "}", fakePack, func() (any, error) {
			return first(c.MountPack(ctx, api.MountRequest{Name: "city", Key: key}, nil))
		}},
		{"unmount pack city", nil, func() (any, error) { return nil, c.UnmountPack(ctx, "city") }},
		{"inspect pack " + key, *fakePack.Info, func() (any, error) { return first(c.InspectPack(ctx, key, nil)) }},
		{"ping 12D4", fakePong, func() (any, error) { return first(c.Ping(ctx, "12D4")) }},
		{"overview now,peers", fakeOverview, func() (any, error) {
			return first(c.Overview(ctx, api.OverviewRequest{Parts: "now,peers"}))
		}},
		{"health true", fakeHealth, func() (any, error) {
			return first(c.Health(ctx, api.HealthOptions{Sample: true}))
		}},
		{"faults", fakeFaults, func() (any, error) { return first(c.Faults(ctx)) }},
		{fmt.Sprintf("set faults %+v", fakeFaults), fakeFaults, func() (any, error) {
			return first(c.SetFaults(ctx, fakeFaults))
		}},
		{"evacuate", []api.Evacuation{fakeEvacuation}, func() (any, error) { return first(collect(c.Evacuate(ctx))) }},
		{"resume copies", api.Resumed{Silent: 2}, func() (any, error) { return first(c.ResumeCopies(ctx)) }},
		{"stop evacuation", nil, func() (any, error) { return nil, c.StopEvacuation(ctx) }},
		{"drain", nil, func() (any, error) { return nil, c.Drain(ctx) }},
	} {
		got, err := v.call()
		if err != nil || !reflect.DeepEqual(got, v.want) {
			t.Errorf("%s: %+v (%v), want %+v", v.heard, got, err, v.want)
		}
		if calls := n.node.calls(); calls[len(calls)-1] != v.heard {
			t.Errorf("heard %q, want %q", calls[len(calls)-1], v.heard)
		}
	}
	if full, err := c.ExpandName(ctx, "blog"); err != nil || full != "blog.k51" {
		t.Errorf("%q, %v", full, err)
	}
	if v, err := c.Version(ctx); err != nil || v != testVersion {
		t.Errorf("%+v, %v", v, err)
	}
	if l, err := c.Limits(ctx); err != nil || len(l.Limits) < 6 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestErrorsRoundTrip: an error comes out as the node's, member for member,
// wherever in the answer it was.
func TestErrorsRoundTrip(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	ctx := t.Context()
	for name, call := range map[string]func() (items int, err error){
		"stat": func() (int, error) { _, err := c.Stat(ctx, "fail"); return 0, err },
		"get":  func() (int, error) { _, err := c.Get(ctx, "fail"); return 0, err },
		"ls":   func() (int, error) { got, err := collect(c.List(ctx, "fail")); return len(got) - 1, err },
		"add": func() (int, error) {
			got, err := collect(c.Add(ctx, strings.NewReader("x"), api.AddOptions{Label: "fail"}, nil))
			return len(got) - 1, err
		},
		"fetch": func() (int, error) { _, err := c.Fetch(ctx, "fail", nil); return 0, err },
		"unpin": func() (int, error) { return 0, c.Unpin(ctx, "fail", "") },
		"verify": func() (int, error) {
			got, err := collect(c.Verify(ctx, "fail", api.VerifyOptions{Repair: true}))
			return len(got) - 1, err
		},
	} {
		items, err := call()
		if items != 0 {
			t.Errorf("%s: %d items more or less", name, items)
		}
		if got, want := status.ReportOf(err), status.ReportOf(n.node.call("fail", "")); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestOwnErrorsAreTold: over the socket, also what went wrong inside.
func TestOwnErrorsAreTold(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.node.get.set(func(context.Context, string) (*api.Stream, error) {
		return nil, errors.New("open index: permission denied")
	})
	_, err := connectTo(t, n).Get(t.Context(), "x")
	if status.Of(err) != status.Internal || !strings.Contains(err.Error(), "open index: permission denied") {
		t.Errorf("%v", err)
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Admin + "/api/v1/"
	for _, query := range []string{
		"stat", "stat?key=", "stat?keys=x", "stat?key=x&key=y", "stat?key=x&extra=1", "stat?key=%zz", "stat?key=x;y=z",
		"cat?key=x&start=one", "cat?key=x&end=99999999999999999999", "id?x=", "providers?key=x&limit=many",
		"providers?key=x&trace=1",
	} {
		do(t, "GET", base+query).problem(t, status.BadRequest)
	}
	if got := n.node.calls(); len(got) != 0 {
		t.Errorf("the node was asked to %v", got)
	}
}

// TestStreamCut: what ends early ends in an error, for a client that reads
// trailers and for one that does not.
func TestStreamCut(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	bad := status.Errorf(status.Corrupt, "b3:…: group 7 is damaged")
	long := strings.Repeat("x", 32<<10) // more than is buffered before the header leaves
	n.node.get.set(func(_ context.Context, key string) (*api.Stream, error) {
		s := fakeStream("hello")
		switch key {
		case "late":
			s.Body = io.NopCloser(io.MultiReader(&oneRead{long}, failing{bad}))
		case "early":
			s.Body = io.NopCloser(failing{bad})
		case "empty":
			s.Body = io.NopCloser(strings.NewReader(""))
		case "panic":
			s.Body = io.NopCloser(io.MultiReader(&oneRead{"hel"}, failing{nil}))
		}
		return s, nil
	})
	for key, want := range map[string]struct {
		body string
		out  status.Outcome
	}{
		"late":  {long, status.Corrupt},
		"empty": {"", status.OK},
		"whole": {"hello", status.OK},
	} {
		s, err := c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(s.Body)
		if string(p) != want.body || status.Of(err) != want.out {
			t.Errorf("%s: %d bytes, %v", key, len(p), err)
		}
		s.Body.Close()
	}
	if _, err := read(c.Get(t.Context(), "panic")); status.Of(err) != status.TransportDown {
		t.Errorf("panic: %v", err)
	}
	if _, err := c.Get(t.Context(), "early"); status.Of(err) != status.Corrupt {
		t.Errorf("early: %v", err)
	}
	if a := do(t, "GET", n.Addrs().Admin+"/api/v1/get?key=late"); a.err == nil || a.body != long {
		t.Errorf("without trailers: %d bytes, %v", len(a.body), a.err)
	}
	if a := do(t, "GET", n.Addrs().Admin+"/api/v1/get?key=whole"); a.err != nil || a.body != "hello" ||
		a.Trailer.Get(api.HeaderStatus) != api.StatusOK {
		t.Errorf("without trailers: %q, %v, %v", a.body, a.err, a.Trailer)
	}
}

// failing is a body whose next read fails, or panics for a nil error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		panic("in the middle")
	}
	return 0, f.err
}

// TestFetchProgress: reports come from any goroutine, at any rate.
func TestFetchProgress(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	heard := make(chan struct{})
	n.node.fetch.set(func(ctx context.Context, _ string, progress api.ProgressFunc) (api.Fetched, error) {
		done := make(chan struct{})
		for range 4 {
			go func() {
				for i := int64(0); ; i++ {
					select {
					case <-heard:
						done <- struct{}{}
						return
					default:
						progress(api.Progress{Bytes: i, TotalBytes: 9, Path: "a/b"})
					}
				}
			}()
		}
		for range 4 {
			<-done
		}
		return fakeFetched, nil
	})
	once := false
	got, err := c.Fetch(t.Context(), "x", func(p api.Progress) {
		if p.TotalBytes != 9 || p.Path != "a/b" {
			t.Errorf("%+v", p)
		}
		if !once {
			once = true
			close(heard)
		}
	})
	if err != nil || got != fakeFetched || !once {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCancelPropagates: a caller that leaves ends the work behind its call.
func TestCancelPropagates(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	ended := make(chan error, 1)
	started := make(chan struct{}, 1)
	wait := func(ctx context.Context) error {
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}
	n.node.fetch.set(func(ctx context.Context, _ string, _ api.ProgressFunc) (api.Fetched, error) {
		return api.Fetched{}, wait(ctx)
	})
	n.node.get.set(func(ctx context.Context, _ string) (*api.Stream, error) { return nil, wait(ctx) })
	for name, call := range map[string]func(context.Context) error{
		"fetch": func(ctx context.Context) error { _, err := c.Fetch(ctx, "x", nil); return err },
		"get":   func(ctx context.Context) error { _, err := c.Get(ctx, "x"); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		if err := call(ctx); !errors.Is(err, context.Canceled) || status.Of(err) != status.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		<-ended
	}
	// Stopping a sequence early stops what makes it.
	stopped := make(chan struct{})
	n.node.add.set(func(ctx context.Context, _ io.Reader, _ api.AddOptions, _ api.ProgressFunc) iter.Seq2[api.Added,
		error] {
		return func(yield func(api.Added, error) bool) {
			defer close(stopped)
			for yield(api.Added{Name: "again", Kind: api.File}, nil) {
			}
		}
	})
	for range c.Add(t.Context(), zeros{}, api.AddOptions{}, nil) {
		break
	}
	<-stopped
}

// TestAPIPanic: a panic beside the handler is an error like another.
func TestAPIPanic(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	n.node.fetch.set(func(context.Context, string, api.ProgressFunc) (api.Fetched, error) { panic("boom") })
	if _, err := c.Fetch(t.Context(), "x", nil); status.Of(err) != status.Internal {
		t.Errorf("%v", err)
	}
	if _, err := c.ID(t.Context()); err != nil {
		t.Errorf("the node did not live on: %v", err)
	}
}

// TestAPILimit: verbs have a gate of their own; what waits for nothing passes.
func TestAPILimit(t *testing.T) {
	t.Parallel()
	n := start(t, func(_ *Config, a *server.AdminConfig) { a.Inflight = 1 })
	c := connectTo(t, n)
	entered, leave := make(chan struct{}), make(chan struct{})
	n.node.get.set(func(context.Context, string) (*api.Stream, error) {
		close(entered)
		<-leave
		return fakeStream("hello"), nil
	})
	done := make(chan error, 1)
	go func() { _, err := read(c.Get(t.Context(), "x")); done <- err }()
	<-entered
	_, err := c.ID(t.Context())
	if status.Of(err) != status.Busy {
		t.Errorf("%v", err)
	}
	var e *status.Error
	if !errors.As(err, &e) || e.Limit == nil || e.Limit.Name != "admin.inflight" || e.Limit.RetryAfter == 0 {
		t.Errorf("%+v", e)
	}
	if _, err := c.Version(t.Context()); err != nil {
		t.Error(err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLargeStream passes many groups through get.
func TestLargeStream(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	n.node.get.set(func(context.Context, string) (*api.Stream, error) {
		s := fakeStream("")
		s.Body = io.NopCloser(bytes.NewReader(data))
		return s, nil
	})
	s, err := c.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	if p, err := io.ReadAll(s.Body); err != nil || !slices.Equal(p, data) {
		t.Errorf("%d bytes, %v", len(p), err)
	}
}

// TestRoots: what is no list of 1 to 4,096 digests is refused by both ends.
func TestRoots(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	for _, roots := range []int{0, api.MaxRoots + 1} {
		if _, err := c.Keep(t.Context(), make([]b3.Root, roots)); status.Of(err) != status.BadRequest {
			t.Errorf("%d addresses: %v", roots, err)
		}
		if _, err := c.Files(t.Context(), make([]b3.Root, roots)); status.Of(err) != status.BadRequest {
			t.Errorf("%d addresses: %v", roots, err)
		}
	}
	if have, err := c.Keep(t.Context(), make([]b3.Root, api.MaxRoots)); err != nil || len(have) != api.MaxRoots {
		t.Errorf("%d, %v", len(have), err)
	}
	heard := len(n.node.calls())
	for _, size := range []int{0, 1, b3.Size + 1, (api.MaxRoots + 1) * b3.Size, 1 << 20} {
		sendBody(t, http.MethodPost, n.Addrs().Admin+"/api/v1/keep",
			bytes.NewReader(make([]byte, size)), "Authorization",
			"Bearer may-put").problem(t, status.BadRequest)
	}
	if len(n.node.calls()) != heard {
		t.Error("the node was asked")
	}
}
