package gateway

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fakeNode answers the local API: it logs each call with its parameters and
// gives fixed answers, or an error where the parameters ask for one.
type fakeNode struct {
	mu  sync.Mutex
	log []string

	add   hook[func(ctx context.Context, tar io.Reader, o client.AddOptions, progress client.ProgressFunc) iter.Seq2[client.Added, error]]
	pin   hook[func(ctx context.Context, key string) (client.Pin, error)]
	get   hook[func(ctx context.Context, key string) (*client.Stream, error)]
	fetch hook[func(ctx context.Context, key string, progress client.ProgressFunc) (client.Fetched, error)]
}

// hook is what a test sets while its node answers; the zero T before. That an
// answer came over a socket orders nothing in Go's memory model.
type hook[T any] struct{ v atomic.Pointer[T] }

func (h *hook[T]) set(v T) { h.v.Store(&v) }

func (h *hook[T]) get() (v T) {
	if p := h.v.Load(); p != nil {
		v = *p
	}
	return v
}

var _ Node = (*fakeNode)(nil)

// The fixed answers.
var (
	fakeRoot    = b3.Sum([]byte("fake"))
	fakeTime    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fakeObj     = client.Object{Root: fakeRoot, Kind: client.File, Size: 5, Name: "naïve \U0001F9C5.txt", Executable: true}
	fakeTar     = client.Object{Root: fakeRoot, Kind: client.Directory}
	fakeEntries = []client.Entry{{Name: "a", Kind: client.File, Root: fakeRoot, Size: 3}, {Name: "été", Kind: client.Link, Target: "a"}}
	fakeChanges = []client.Change{{Op: client.ChangedEntry, Path: "été/a", Old: &fakeEntries[0], New: &fakeEntries[1]}, {Op: client.AddedEntry, Path: "b", New: &fakeEntries[0]}}
	fakeStat    = client.Stat{Root: fakeRoot, CID: fakeRoot.CID().String(), Kind: client.File, Size: 5, Groups: 1, Local: true, Pins: []client.Pin{fakePin}}
	fakeGone    = client.GCObject{Root: fakeRoot, Size: 3, Used: fakeTime}
	fakeGC      = client.GCReport{Dry: true, Classes: []client.GCClass{{Class: "removed", GCCount: client.GCCount{Objects: 1, Bytes: 3}}}, Max: client.GCCount{Bytes: 9}, TookMS: 1.5,
		Damaged: []client.GCDamage{{Pin: fakePin, Node: fakeRoot, Path: "a/b", Fix: "fetch it"}}}
	fakeStore   = client.StoreStat{Backend: "embedded", Objects: 3, Space: client.StoreSpace{Max: client.GCCount{Bytes: 9}, Free: -1}, Scrub: client.ScrubState{Started: fakeTime, Progress: 0.5}}
	fakeWhy     = client.GCWhy{Root: fakeRoot, Kept: true, Here: "whole", Size: 4, Used: fakeTime, Pins: []client.Pin{fakePin}, Above: &fakePin, Path: []client.GCStep{{Root: fakeRoot, Name: "x"}}, Leases: 2, Held: true}
	fakePin     = client.Pin{Root: fakeRoot, Recursive: true, Label: "l", Since: fakeTime}
	fakeChecked = []client.Verified{{Root: fakeRoot, Size: 5}, {Root: fakeRoot, Size: 6, Error: &status.Report{Reason: "corrupt", Message: "group 3"}}}
	fakeTrace   = client.Trace{End: "hop_exceeded", Hops: 5, Probes: 2, Hedges: 1, TookMS: 12.5, Steps: []client.Step{
		{Peer: "12D4", Hop: 1, StartMS: 0.5, TookMS: 1.25, Outcome: "ok", Closer: 3, Providers: 1},
		{Peer: "12D5", Hop: 2, Hedge: true, StartMS: 2, TookMS: 10, Outcome: "late"},
	}}
	fakeProvider = client.Provider{ID: "12D3", Addrs: []string{"/ip4/127.0.0.1/tcp/1"}, NotAfter: fakeTime}
	fakeID       = client.ID{ID: "12D3", Addrs: []string{"/ip4/127.0.0.1/tcp/1/p2p/12D3"}, Gateway: "http://127.0.0.1:1", Admin: "http://127.0.0.1:2"}
	fakePeer     = client.Peer{ID: "12D4", Addr: "/ip4/127.0.0.1/tcp/2", Transport: "tcp", Direction: "out", Agent: "allium/0", AgeMS: 7, RTTMS: 1.5, Bucket: new(0), Streams: 2}
	fakeSeeds    = client.Seeds{Remembered: 3, Manifest: &client.SeedManifest{Seq: 1 << 60, Signer: "12D5", NotAfter: fakeTime, Error: "expired"}, Seeds: []client.Seed{
		{ID: "12D6", Addrs: []string{"/ip4/127.0.0.1/tcp/3"}, Source: "manifest", Connected: true, LastSuccess: fakeTime, LastError: "refused", Tries: 2, NotAfter: fakeTime, Gave: []string{"12D7"}, GaveAt: fakeTime},
	}}
	fakeFaults = client.Faults{
		Links:   []client.LinkFault{{Peer: "12D4", Addrs: []string{"/ip4/127.0.0.1/tcp/3"}, Cut: true, DelayMS: 50, JitterMS: 5, Loss: 0.25}},
		Corrupt: true, FullDisk: true, ClockSkewMS: -1000, Rate: 1 << 20,
	}
	fakeReloaded = client.Reloaded{Files: []client.ReloadedFile{{Name: "denylist"}, {Name: "certificate", Error: &status.Report{Reason: "bad_request", Message: "it has ended"}}}}
	fakePong     = client.Pong{ID: "12D4", RTTMS: 0.25}
	fakeFetched  = client.Fetched{Root: fakeRoot, Kind: client.Directory, Objects: 3, Bytes: 9, New: 8}
)

// call logs a call. The key "fail" is an error with every member.
func (n *fakeNode) call(key, format string, args ...any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, fmt.Sprintf(format, args...))
	if key != "fail" {
		return nil
	}
	return &status.Error{
		Outcome: status.Busy, Message: "été: too much", Detail: "label", LookupID: "l1",
		Limit: &status.Limit{Name: "x", Current: 2, Cap: 3, RetryAfter: 1500 * time.Millisecond},
	}
}

func (n *fakeNode) calls() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.log...)
}

// seq yields values, and err after the first if there is one.
func seq[T any](err error, values ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i, v := range values {
			if i == 1 && err != nil {
				break
			}
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var zero T
			yield(zero, err)
		}
	}
}

func (n *fakeNode) Add(ctx context.Context, tar io.Reader, o client.AddOptions, progress client.ProgressFunc) iter.Seq2[client.Added, error] {
	if f := n.add.get(); f != nil {
		return f(ctx, tar, o, progress)
	}
	return func(yield func(client.Added, error) bool) {
		p, err := io.ReadAll(tar)
		err2 := n.call(o.Label, "add %q %+v", p, o)
		if err == nil {
			err = err2
		}
		if !yield(client.Added{Name: "a", Root: fakeRoot, Kind: client.File, Files: 1, Bytes: int64(len(p))}, nil) || err == nil {
			return
		}
		yield(client.Added{}, err)
	}
}

func (n *fakeNode) Get(ctx context.Context, key string) (*client.Stream, error) {
	if f := n.get.get(); f != nil {
		return f(ctx, key)
	}
	return fakeStream("hello"), n.call(key, "get %s", key)
}

func fakeStream(s string) *client.Stream {
	return &client.Stream{Object: fakeObj, Body: io.NopCloser(io.MultiReader(readers(s)...))}
}

// readers split s, so that it is not read at once.
func readers(s string) []io.Reader {
	return []io.Reader{&oneRead{s[:len(s)/2]}, &oneRead{s[len(s)/2:]}}
}

type oneRead struct{ s string }

func (r *oneRead) Read(p []byte) (int, error) {
	if r.s == "" {
		return 0, io.EOF
	}
	k := copy(p, r.s)
	r.s = r.s[k:]
	return k, nil
}

func (n *fakeNode) Cat(_ context.Context, key string, r client.Range) (*client.Stream, error) {
	return fakeStream("hello"), n.call(key, "cat %s %d-%d", key, r.Start, r.End)
}

func (n *fakeNode) List(_ context.Context, key string) iter.Seq2[client.Entry, error] {
	return seq(n.call(key, "ls %s", key), fakeEntries...)
}

func (n *fakeNode) Stat(_ context.Context, key string) (client.Stat, error) {
	return fakeStat, n.call(key, "stat %s", key)
}

func (n *fakeNode) Verify(_ context.Context, key string, _ client.VerifyOptions) iter.Seq2[client.Verified, error] {
	return seq(n.call(key, "verify %s", key), fakeChecked...)
}

func (n *fakeNode) Diff(_ context.Context, from, to string) iter.Seq2[client.Change, error] {
	return seq(n.call(to, "diff %s %s", from, to), fakeChanges...)
}

func (n *fakeNode) Keep(_ context.Context, roots []b3.Root) ([]bool, error) {
	return make([]bool, len(roots)), n.call("", "keep %s", roots)
}

func (n *fakeNode) Files(_ context.Context, roots []b3.Root) (*client.Stream, error) {
	s := fakeStream("hello")
	s.Object = fakeTar
	return s, n.call("", "files %s", roots)
}

func (n *fakeNode) Pin(ctx context.Context, key string, o client.PinOptions) (client.Pin, error) {
	if f := n.pin.get(); f != nil {
		return f(ctx, key)
	}
	return fakePin, n.call(key, "pin %s %+v", key, o)
}

func (n *fakeNode) GC(_ context.Context, o client.GCOptions, progress client.ProgressFunc, removed func(client.GCObject) error) (client.GCReport, error) {
	progress(client.Progress{Objects: 1})
	if err := removed(fakeGone); err != nil {
		return client.GCReport{}, err
	}
	return fakeGC, n.call("", "gc %+v", o)
}

func (n *fakeNode) StatStore(context.Context) (client.StoreStat, error) {
	return fakeStore, n.call("", "stat store")
}

func (n *fakeNode) GCWhy(_ context.Context, key string) (client.GCWhy, error) {
	return fakeWhy, n.call(key, "why %s", key)
}

func (n *fakeNode) Unpin(_ context.Context, key, label string) error {
	return n.call(key, "unpin %s %s", key, label)
}

func (n *fakeNode) Pins(context.Context) iter.Seq2[client.Pin, error] {
	return seq(n.call("", "pins"), fakePin)
}

func (n *fakeNode) Fetch(ctx context.Context, key string, progress client.ProgressFunc) (client.Fetched, error) {
	if f := n.fetch.get(); f != nil {
		return f(ctx, key, progress)
	}
	return fakeFetched, n.call(key, "fetch %s", key)
}

func (n *fakeNode) FindProviders(_ context.Context, key string, o client.FindOptions) iter.Seq2[client.Provider, error] {
	return func(yield func(client.Provider, error) bool) {
		err := n.call(key, "providers %s %d fresh %t trace %t", key, o.Limit, o.Fresh, o.Trace != nil)
		if o.Trace != nil {
			defer func() { *o.Trace = fakeTrace }() // not before the sequence has ended
		}
		if key == "nobody" || err == nil && !yield(fakeProvider, nil) {
			return
		}
		if err != nil {
			yield(client.Provider{}, err)
		}
	}
}

func (n *fakeNode) Announce(_ context.Context, key string) (client.Announced, error) {
	return client.Announced{Root: fakeRoot, Peers: 4}, n.call(key, "announce %s", key)
}

func (n *fakeNode) ID(context.Context) (client.ID, error) { return fakeID, n.call("", "id") }

func (n *fakeNode) Peers(context.Context) ([]client.Peer, error) {
	return []client.Peer{fakePeer}, n.call("", "peers")
}

func (n *fakeNode) Seeds(context.Context) (client.Seeds, error) {
	return fakeSeeds, n.call("", "seeds")
}

func (n *fakeNode) Connect(_ context.Context, addr string) (client.Peer, error) {
	return fakePeer, n.call(addr, "connect %s", addr)
}

func (n *fakeNode) Disconnect(_ context.Context, peer string) error {
	return n.call(peer, "disconnect %s", peer)
}

func (n *fakeNode) Ping(_ context.Context, peer string) (client.Pong, error) {
	return fakePong, n.call(peer, "ping %s", peer)
}

func (n *fakeNode) Faults(context.Context) (client.Faults, error) {
	return fakeFaults, n.call("", "faults")
}

func (n *fakeNode) SetFaults(_ context.Context, f client.Faults) (client.Faults, error) {
	return f, n.call("", "set faults %+v", f)
}

func (n *fakeNode) Reload(context.Context) (client.Reloaded, error) {
	return fakeReloaded, n.call("", "reload")
}

func (n *fakeNode) Drain(context.Context) error { return n.call("", "drain") }
