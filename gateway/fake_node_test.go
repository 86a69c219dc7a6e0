package gateway

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fakeNode answers the local API: it logs each call with its parameters and
// gives fixed answers, or an error where the parameters ask for one.
type fakeNode struct {
	mu  sync.Mutex
	log []string

	add hook[func(ctx context.Context, tar io.Reader, o api.AddOptions, progress api.ProgressFunc) iter.Seq2[api.Added,
		error]]
	pin      hook[func(ctx context.Context, key string) (api.Pin, error)]
	get      hook[func(ctx context.Context, key string) (*api.Stream, error)]
	listed   hook[iter.Seq2[api.Entry, error]] // what List yields; nil: fakeEntries
	overview hook[func() api.Overview]
	fetch    hook[func(ctx context.Context, key string, progress api.ProgressFunc) (api.Fetched, error)]
}

// hook is what a test sets while its node answers; the zero T before. That an
// answer came over a socket orders nothing in Go's memory model.
type hook[T any] struct{ v atomic.Pointer[T] }

func (h *hook[T]) set(v T) { h.v.Store(&v) }

func (h *hook[T]) Get() (v T) {
	if p := h.v.Load(); p != nil {
		v = *p
	}
	return v
}

var _ api.Node = (*fakeNode)(nil)

// The fixed answers.
var (
	fakeRoot    = b3.Sum([]byte("fake"))
	fakeTime    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fakeObj     = api.Object{Root: fakeRoot, Kind: api.File, Size: 5, Name: "naïve \U0001F9C5.txt", Executable: true}
	fakeTar     = api.Object{Root: fakeRoot, Kind: api.Directory}
	fakeEntries = []api.Entry{
		{Name: "a", Kind: api.File, Root: fakeRoot, Size: 3}, {Name: "été", Kind: api.Link, Target: "a"},
	}
	fakeChanges = []api.Change{
		{Op: api.ChangedEntry, Path: "été/a", Old: &fakeEntries[0], New: &fakeEntries[1]},
		{Op: api.AddedEntry, Path: "b", New: &fakeEntries[0]},
	}
	fakeOwnName = api.OwnName{
		Name: "blog.k51", Short: "blog.site", Value: "text", Seq: 7, NotAfter: fakeTime, TTLMS: 60_000, Peers: 3,
		Due:   fakeTime,
		Error: &status.Report{Reason: "stale", Message: "m"},
	}
	fakeStat = api.Stat{
		Root: fakeRoot, CID: fakeRoot.CID().String(), Kind: api.File, Size: 5, Groups: 1, Local: true,
		Pins: []api.Pin{fakePin},
	}
	fakeHealth = api.Health{
		Profile: "seed", Readiness: api.Readiness{Ready: true, Gates: []api.Gate{{Name: "clock", Fix: "set it"}}},
		Clock: api.ClockHealth{Known: true, OffsetMS: -3, Voices: 4, Need: 3},
		Table: api.TableHealth{Peers: 5, Largest: 2}, Sample: &api.StoreSample{Objects: 6, Damaged: 1},
		Process: api.ProcessHealth{Goroutines: 7},
	}
	fakeGone = api.GCObject{Root: fakeRoot, Size: 3, Used: fakeTime}
	fakeGC   = api.GCReport{Dry: true, Classes: []api.GCClass{{
		Class: "removed", GCCount: api.GCCount{Objects: 1, Bytes: 3},
	}}, Max: api.GCCount{Bytes: 9}, TookMS: 1.5,
		Damaged: []api.GCDamage{{Pin: fakePin, Node: fakeRoot, Path: "a/b", Fix: "fetch it"}}}
	fakeStore = api.StoreStat{
		Backend: "embedded", Objects: 3, Space: api.StoreSpace{Max: api.GCCount{Bytes: 9}, Free: -1},
		Scrub: api.ScrubState{Started: fakeTime, Progress: 0.5},
	}
	fakeWhy = api.GCWhy{
		Root: fakeRoot, Kept: true, Here: "whole", Size: 4, Used: fakeTime, Pins: []api.Pin{fakePin}, Above: &fakePin,
		Path: []api.GCStep{{Root: fakeRoot, Name: "x"}}, Leases: 2, Held: true,
	}
	fakeDamage = api.DamageReport{
		Open: 2, Unknown: 1,
		Damage: []api.Damage{{
			Kind: "log", State: "open", File: "seg/1", Offset: 32, Length: 9, Left: 9, Roots: []b3.Root{fakeRoot},
			Cause: "no record", Found: fakeTime,
		}},
	}
	fakePin     = api.Pin{Root: fakeRoot, Recursive: true, Label: "l", Since: fakeTime}
	fakeChecked = []api.Verified{
		{Root: fakeRoot, Size: 5},
		{Root: fakeRoot, Size: 6, Error: &status.Report{Reason: "corrupt", Message: "group 3"}},
	}
	fakeTrace = api.Trace{End: "hop_exceeded", Hops: 5, Probes: 2, Hedges: 1, TookMS: 12.5, Steps: []api.Step{
		{Peer: "12D4", Hop: 1, StartMS: 0.5, TookMS: 1.25, Outcome: "ok", Closer: 3, Providers: 1},
		{Peer: "12D5", Hop: 2, Hedge: true, StartMS: 2, TookMS: 10, Outcome: "late"},
	}}
	fakeLookup = api.Why{
		Lookup: api.Lookup{
			LookupHead: api.LookupHead{
				ID: "00000000000000a1", Parent: "00000000000000a0", Kind: "fetch",
				Key: fakeRoot.String(), Start: fakeTime,
				TookMS: 12.5, ReadyMS: 3, BudgetMS: 1200, Outcome: "corrupt", Message: "group 3",
			},
			Callers: 2, Bytes: 9,
			Steps: []api.LookupStep{{
				AtMS: 1, TookMS: 0.5, Source: "cache", Verdict: "hit", Count: 1, Lookup: "00000000000000a2",
			}},
			Searches: []api.LookupSearch{{
				Key: fakeRoot.String(), AtMS: 1, TookMS: 2, Found: 1, Outcome: "ok", Trace: &fakeTrace,
			}},
			Providers: []api.LookupProvider{{
				ID: "12D3", Source: "dht", FoundMS: 2, Asked: 1, Bytes: 9, Rate: 1e6, RTTMS: 0.5,
				Hedges: api.LookupHedges{Won: 1},
				GaveUp: &api.LookupGaveUp{AtMS: 3, Outcome: "corrupt", Message: "group 3"},
				Spans: []api.LookupSpan{{
					AtMS: 2, SentMS: 0.1, FirstMS: 0.2, TookMS: 1, End: 9, Bytes: 9, Hedge: "won", Outcome: "corrupt",
				}},
			}},
			Tree:    &api.LookupTree{Objects: 1, Failures: []api.LookupFailure{{Root: fakeRoot, Outcome: "timeout"}}},
			Omitted: &api.LookupOmissions{Steps: 4},
		},
		Others: []api.LookupHead{{
			ID: "00000000000000a3", Kind: "open", Key: fakeRoot.String(), Start: fakeTime, Running: true,
		}},
	}
	fakeResolved = api.Resolved{
		Key: fakeRoot.String(), Target: fakeRoot, Source: "cache", AgeMS: 20, TTLMS: 9000, Confidence: api.Served,
		Providers: []api.Provider{fakeProvider}, LookupID: "00000000000000ff",
	}
	fakeProvider = api.Provider{ID: "12D3", Addrs: []string{"/ip4/127.0.0.1/tcp/1"}, NotAfter: fakeTime}
	fakeID       = api.ID{
		ID: "12D3", Addrs: []string{"/ip4/127.0.0.1/tcp/1/p2p/12D3"}, Gateway: "http://127.0.0.1:1",
		Admin: "http://127.0.0.1:2",
	}
	fakePeer = api.Peer{
		ID: "12D4", Addr: "/ip4/127.0.0.1/tcp/2", Transport: "tcp", Direction: "out", Agent: "allium/0", AgeMS: 7,
		RTTMS: 1.5, Bucket: new(0), Streams: 2,
	}
	fakeDurability = api.Durability{
		Objects: 3, AtRisk: 1, Wanted: 9, Observed: 8, Missing: 5, ETASeconds: 1.5, Ready: true, Members: []api.Member{
			{ID: "12D3", Self: true, State: "present", Capacity: 9, Free: 4, Region: "eu"},
		},
	}
	fakeCopies = api.ObjectDurability{
		Key: fakeRoot, Size: 4, Target: api.Target{RF: 3}, Observed: 2, Short: fakeTime,
		Holders: []api.Holder{{ID: "12D3", State: "proved", LastProof: fakeTime, NextAudit: fakeTime}},
		Places:  []api.Placement{{ID: "12D3", Chosen: 1, Why: "spread"}},
	}
	fakePlaced     = api.Placed{Root: fakeRoot, Objects: 2, Met: 2}
	fakeEvacuation = api.Evacuation{
		Since: fakeTime, Ready: true, Objects: 3, Left: 2, LeftBytes: 9, Stuck: 1, Alone: 4, Why: "full",
	}
	fakeReach = api.Reach{
		From: api.ReachAnyone, Peers: 3, Confirmers: 2, Advice: []string{"open it"},
		Addrs: []api.ReachAddr{
			{Addr: "/ip4/8.8.8.8/tcp/1", Scope: api.ReachAnyone, Via: "outside", State: api.ReachConfirmed},
		},
	}
	fakeSeeds = api.Seeds{Remembered: 3, Manifest: &api.SeedManifest{
		Seq: 1 << 60, Signer: "12D5", NotAfter: fakeTime, Error: "expired",
	}, Seeds: []api.Seed{
		{
			ID: "12D6", Addrs: []string{"/ip4/127.0.0.1/tcp/3"}, Source: "manifest", Connected: true,
			LastSuccess: fakeTime, LastError: "refused", Tries: 2, NotAfter: fakeTime, Gave: []string{"12D7"},
			GaveAt: fakeTime,
		},
	}}
	fakeFaults = api.Faults{
		Links: []api.LinkFault{{
			Peer: "12D4", Addrs: []string{"/ip4/127.0.0.1/tcp/3"}, Cut: true, DelayMS: 50, JitterMS: 5, Loss: 0.25,
		}},
		Corrupt: true, FullDisk: true, ClockSkewMS: -1000, Rate: 1 << 20,
	}
	fakeReloaded = api.Reloaded{
		Token: "5f0c2a1b9d3e4f60", At: fakeTime, Result: api.ReloadApplied, GuardUntil: fakeTime,
		Changed: []api.ConfigChange{{Key: "node.upload_rate", Old: "0", New: "1MiB", Hot: true}},
		Waiting: []api.ConfigChange{},
		Tasks: []api.ReloadTask{{Name: "denylist", State: api.TaskDone, Since: fakeTime}, {
			Name: "certificate", State: api.TaskFailed, Since: fakeTime, TookMS: 1,
			Error: &status.Report{Reason: "bad_request", Message: "it has ended"},
		}},
	}
	fakeConfiguration = api.Configuration{File: "config.toml", Values: []api.ConfigValue{
		{Key: "node.upload_rate", Value: "0", Source: "default", Hot: true},
	}}
	fakePack = api.Pack{
		Name: "city", Key: fakeRoot.String(), Mounted: fakeTime, Version: "0123456789abcdef", Info: &api.PackInfo{
			Root: fakeRoot, Size: 9, Format: "pmtiles", Tiles: "mvt", Encoding: "gzip",
			PackArea: api.PackArea{MaxZoom: 14, Bounds: &[4]float64{-1, -2, 3, 4.5}}, Layers: []string{"roads"}, Addressed: 7,
		},
	}
	fakePong    = api.Pong{ID: "12D4", RTTMS: 0.25}
	fakeFetched = api.Fetched{Root: fakeRoot, Kind: api.Directory, Objects: 3, Bytes: 9, New: 8}
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

func (n *fakeNode) Add(ctx context.Context, tar io.Reader, o api.AddOptions,
	progress api.ProgressFunc) iter.Seq2[api.Added, error] {
	if f := n.add.Get(); f != nil {
		return f(ctx, tar, o, progress)
	}
	return func(yield func(api.Added, error) bool) {
		p, err := io.ReadAll(tar)
		t := o.Target
		o.Target = nil
		err2 := n.call(o.Label, "add %q %s", p, optionsText(o, t))
		if err == nil {
			err = err2
		}
		if !yield(api.Added{Name: "a", Root: fakeRoot, Kind: api.File, Files: 1, Bytes: int64(len(p))}, nil) ||
			err == nil {
			return
		}
		yield(api.Added{}, err)
	}
}

func (n *fakeNode) Get(ctx context.Context, key string) (*api.Stream, error) {
	if f := n.get.Get(); f != nil {
		return f(ctx, key)
	}
	return fakeStream("hello"), n.call(key, "get %s", key)
}

func fakeStream(s string) *api.Stream {
	return &api.Stream{Object: fakeObj, Body: io.NopCloser(io.MultiReader(readers(s)...))}
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

func (n *fakeNode) Cat(_ context.Context, key string, r b3.Range) (*api.Stream, error) {
	return fakeStream("hello"), n.call(key, "cat %s %d-%d", key, r.Start, r.End)
}

func (n *fakeNode) List(_ context.Context, key string) iter.Seq2[api.Entry, error] {
	if s := n.listed.Get(); s != nil {
		return s
	}
	return seq(n.call(key, "ls %s", key), fakeEntries...)
}

func (n *fakeNode) Stat(_ context.Context, key string) (api.Stat, error) {
	return fakeStat, n.call(key, "stat %s", key)
}

func (n *fakeNode) Verify(_ context.Context, key string, _ api.VerifyOptions) iter.Seq2[api.Verified, error] {
	return seq(n.call(key, "verify %s", key), fakeChecked...)
}

func (n *fakeNode) Diff(_ context.Context, from, to string) iter.Seq2[api.Change, error] {
	return seq(n.call(to, "diff %s %s", from, to), fakeChanges...)
}

func (n *fakeNode) Keep(_ context.Context, roots []b3.Root) ([]bool, error) {
	return make([]bool, len(roots)), n.call("", "keep %s", roots)
}

func (n *fakeNode) Files(_ context.Context, roots []b3.Root) (*api.Stream, error) {
	s := fakeStream("hello")
	s.Object = fakeTar
	return s, n.call("", "files %s", roots)
}

func (n *fakeNode) Pin(ctx context.Context, key string, o api.PinOptions) (api.Pin, error) {
	if f := n.pin.Get(); f != nil {
		return f(ctx, key)
	}
	t := o.Target
	o.Target = nil
	return fakePin, n.call(key, "pin %s %s", key, optionsText(o, t))
}

// optionsText returns options and the target among them.
func optionsText(o any, t *api.Target) string {
	s := strings.Replace(fmt.Sprintf("%+v", o), " Target:<nil>", "", 1)
	if t != nil {
		s += " " + t.String()
	}
	return s
}

func (n *fakeNode) GC(_ context.Context, o api.GCOptions, progress api.ProgressFunc,
	removed func(api.GCObject) error) (api.GCReport, error) {
	progress(api.Progress{Objects: 1})
	if err := removed(fakeGone); err != nil {
		return api.GCReport{}, err
	}
	return fakeGC, n.call("", "gc %+v", o)
}

func (n *fakeNode) StatStore(context.Context) (api.StoreStat, error) {
	return fakeStore, n.call("", "stat store")
}

func (n *fakeNode) Damage(context.Context) (api.DamageReport, error) {
	return fakeDamage, n.call("", "damage")
}

func (n *fakeNode) AcceptDamage(context.Context) (api.DamageReport, error) {
	return fakeDamage, n.call("", "accept damage")
}

func (n *fakeNode) GCWhy(_ context.Context, key string) (api.GCWhy, error) {
	return fakeWhy, n.call(key, "why %s", key)
}

func (n *fakeNode) Unpin(_ context.Context, key, label string) error {
	return n.call(key, "unpin %s %s", key, label)
}

func (n *fakeNode) Pins(context.Context) iter.Seq2[api.Pin, error] {
	return seq(n.call("", "pins"), fakePin)
}

func (n *fakeNode) AskFirst([]string) (api.Node, error) { return n, nil }

func (n *fakeNode) Share(_ context.Context, key string, o api.ShareOptions) (api.Shared, error) {
	err := n.call(key, "share %s %+v", key, o)
	return api.Shared{Ticket: "allium1", Root: fakeRoot, Kind: api.File, Reach: "anyone"}, err
}

// fakeLinked is what ShareWeb yields.
var fakeLinked = []api.WebShared{
	{
		Links: []api.WebLink{{URL: "http://192.0.2.1:1/s/x/", Reach: api.ReachLAN}}, Root: fakeRoot, Kind: api.File,
	},
	{Download: &api.WebDownload{From: "192.0.2.2", Whole: true, Count: 1}},
}

func (n *fakeNode) ShareWeb(_ context.Context, key string, o api.WebOptions) iter.Seq2[api.WebShared, error] {
	return seq(n.call(key, "share web %s %+v", key, o), fakeLinked...)
}

func (n *fakeNode) Fetch(ctx context.Context, key string, progress api.ProgressFunc) (api.Fetched, error) {
	if f := n.fetch.Get(); f != nil {
		return f(ctx, key, progress)
	}
	return fakeFetched, n.call(key, "fetch %s", key)
}

func (n *fakeNode) Resolve(_ context.Context, key string, q api.Query) (api.Resolved, error) {
	return fakeResolved, n.call(key, "resolve %s %+v", key, q)
}

func (n *fakeNode) FindProviders(_ context.Context, key string, o api.FindOptions) iter.Seq2[api.Provider, error] {
	return func(yield func(api.Provider, error) bool) {
		err := n.call(key, "providers %s %d fresh %t trace %t", key, o.Limit, o.Fresh, o.Trace != nil)
		if o.Trace != nil {
			defer func() { *o.Trace = fakeTrace }() // not before the sequence has ended
		}
		if key == "nobody" || err == nil && !yield(fakeProvider, nil) {
			return
		}
		if err != nil {
			yield(api.Provider{}, err)
		}
	}
}

func (n *fakeNode) Why(_ context.Context, keyOrID string) (api.Why, error) {
	return fakeLookup, n.call(keyOrID, "why lookup %s", keyOrID)
}

func (n *fakeNode) Announce(_ context.Context, key string) (api.Announced, error) {
	return api.Announced{Root: fakeRoot, Peers: 4}, n.call(key, "announce %s", key)
}

// ExpandName is not logged, because it changes nothing and a mutation calls it before it begins.
func (n *fakeNode) ExpandName(_ context.Context, text string) (string, error) {
	return text + ".k51", nil
}

func (n *fakeNode) PublishName(_ context.Context, r api.PublishRequest) (api.OwnName, error) {
	return fakeOwnName, n.call(r.Value, "publish %+v", r)
}

func (n *fakeNode) WithdrawName(_ context.Context, r api.WithdrawRequest) (api.OwnName, error) {
	return fakeOwnName, n.call(r.Name, "withdraw %s", r.Name)
}

func (n *fakeNode) OwnNames(context.Context) iter.Seq2[api.OwnName, error] {
	return func(yield func(api.OwnName, error) bool) {
		yield(fakeOwnName, n.call("", "own names"))
	}
}

func (n *fakeNode) ID(context.Context) (api.ID, error) { return fakeID, n.call("", "id") }

func (n *fakeNode) Peers(context.Context) ([]api.Peer, error) {
	return []api.Peer{fakePeer}, n.call("", "peers")
}

func (n *fakeNode) AskPeer(_ context.Context, peer, key string) (api.PeerHas, error) {
	return api.PeerHas{Peer: peer, Root: fakeRoot, Has: "part"}, n.call(key, "ask %s %s", peer, key)
}

func (n *fakeNode) Durability(context.Context) (api.Durability, error) {
	return fakeDurability, n.call("", "durability")
}
func (n *fakeNode) ObjectDurability(_ context.Context, key string, explain bool) (api.ObjectDurability, error) {
	return fakeCopies, n.call(key, "durability of %s %t", key, explain)
}
func (n *fakeNode) AwaitCopies(
	_ context.Context, key string, t *api.Target, report api.ProgressFunc,
) (api.Placed, error) {
	report(api.Progress{Objects: 1, TotalObjects: 2})
	return fakePlaced, n.call(key, "await %s %v", key, t)
}
func (n *fakeNode) Evacuate(context.Context) iter.Seq2[api.Evacuation, error] {
	return seq(n.call("", "evacuate"), fakeEvacuation)
}
func (n *fakeNode) ResumeCopies(context.Context) (api.Resumed, error) {
	return api.Resumed{Silent: 2}, n.call("", "resume copies")
}
func (n *fakeNode) StopEvacuation(context.Context) error     { return n.call("", "stop evacuation") }
func (n *fakeNode) Reach(context.Context) (api.Reach, error) { return fakeReach, n.call("", "reach") }

func (n *fakeNode) Seeds(context.Context) (api.Seeds, error) {
	return fakeSeeds, n.call("", "seeds")
}

func (n *fakeNode) Connect(_ context.Context, addr string) (api.Peer, error) {
	return fakePeer, n.call(addr, "connect %s", addr)
}

func (n *fakeNode) Disconnect(_ context.Context, peer string) error {
	return n.call(peer, "disconnect %s", peer)
}

func (n *fakeNode) Ping(_ context.Context, peer string) (api.Pong, error) {
	return fakePong, n.call(peer, "ping %s", peer)
}

func (n *fakeNode) Packs(context.Context) ([]api.Pack, error) {
	return []api.Pack{fakePack}, n.call("", "packs")
}

func (n *fakeNode) MountPack(_ context.Context, r api.MountRequest, progress api.ProgressFunc) (api.Pack, error) {
	if progress != nil {
		progress(api.Progress{Bytes: 1, TotalBytes: 2})
	}
	return fakePack, n.call(r.Key, "mount pack %+v", r)
}

func (n *fakeNode) UnmountPack(_ context.Context, name string) error {
	return n.call(name, "unmount pack %s", name)
}

func (n *fakeNode) InspectPack(_ context.Context, key string, _ api.ProgressFunc) (api.PackInfo, error) {
	return *fakePack.Info, n.call(key, "inspect pack %s", key)
}

func (n *fakeNode) Overview(_ context.Context, r api.OverviewRequest) (api.Overview, error) {
	err := n.call("", "overview %s", r.Parts)
	if f := n.overview.Get(); f != nil {
		return f(), err
	}
	return fakeOverview, err
}

func (n *fakeNode) Health(_ context.Context, o api.HealthOptions) (api.Health, error) {
	return fakeHealth, n.call("", "health %v", o.Sample)
}

func (n *fakeNode) Faults(context.Context) (api.Faults, error) {
	return fakeFaults, n.call("", "faults")
}

func (n *fakeNode) Film(_ context.Context, lookup string) (api.Film, error) {
	return api.Film{ID: lookup, Trace: []byte("go 1.26 trace")}, n.call(lookup, "film %s", lookup)
}

func (n *fakeNode) SetFaults(_ context.Context, f api.Faults) (api.Faults, error) {
	return f, n.call("", "set faults %+v", f)
}

func (n *fakeNode) Reload(_ context.Context, r api.ReloadRequest) (api.Reloaded, error) {
	return fakeReloaded, n.call("", "reload %+v", r)
}

func (n *fakeNode) ReloadStatus(_ context.Context, token string) (api.Reloaded, error) {
	return fakeReloaded, n.call("", "reload status %s", token)
}

func (n *fakeNode) Configuration(context.Context) (api.Configuration, error) {
	return fakeConfiguration, n.call("", "configuration")
}

func (n *fakeNode) Drain(context.Context) error { return n.call("", "drain") }
