package node

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/internal/testkit"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// received counts what a peer was sent.
type received struct {
	bytes  int64
	proved bool
	err    error
}

func (r *received) Begin(int, int64) error { return nil }

func (r *received) Item(_ int, p b3.Proved) error {
	if !p.IsParent() {
		r.bytes += int64(len(p.Data()))
	}
	r.proved = r.proved || p.SizeProved()
	return nil
}

func (r *received) End(_ int, err error) error {
	r.err = err
	return nil
}

// denyObjects is a filter whose error every object has.
type denyObjects struct {
	policy.AllowAll
	err error
}

func (d *denyObjects) Object(b3.Root) error { return d.err }

// serveObjects starts a server of objects, and returns its store and a peer's client.
func serveObjects(t *testing.T, example *opener.Example, filter policy.Filter) (*store.Store, *object.Client) {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	st, _ := storetest.Start(t, cfg, store.Deps{})
	net := testkit.NewNetwork(testkit.Options{})
	server, err := object.NewServer(object.DefaultConfig(),
		object.ServerDeps{Host: net.Host("server"), Store: peerStore{st, filter, example, &Node{}}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := object.NewClient(object.DefaultConfig(), object.ClientDeps{Host: net.Host("client")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- server.Run(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		_ = client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		net.Close()
	})
	return st, client
}

// TestServesExample: a peer gets the example from a node whose store is empty, unless it is denied. Then it is
// told the same of the example as of what is not stored.
func TestServesExample(t *testing.T) {
	example, err := opener.NewExample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	filter := &denyObjects{}
	_, client := serveObjects(t, example, filter)
	get := func() (r received, has b3.Presence) {
		t.Helper()
		err := client.Get(t.Context(), peer.ID("server"),
			object.GetRequest{Objs: []b3.Root{example.Root}}, &r)
		present, haveErr := client.Have(t.Context(), peer.ID("server"), []b3.Root{example.Root})
		if err != nil || haveErr != nil {
			t.Fatal(err, haveErr)
		}
		return r, present[0]
	}
	p, _ := example.Bytes(example.Root)
	if r, has := get(); r.err != nil || r.bytes != int64(len(p)) || has != b3.Complete {
		t.Errorf("%+v, %s", r, has)
	}
	filter.err = status.Errorf(status.Denied, "denied")
	r, has := get()
	if status.Of(r.err) != status.NotFound || has != b3.Absent {
		t.Errorf("denied: %+v, %s", r, has)
	}
	hidden, root := r.err, b3.Sum([]byte("nowhere"))
	filter.err = nil
	err = client.Get(t.Context(), peer.ID("server"), object.GetRequest{Objs: []b3.Root{root}}, &r)
	if err != nil || strings.ReplaceAll(r.err.Error(), root.String(), example.Root.String()) != hidden.Error() {
		t.Errorf("denied: %v; missing: %v, %v", hidden, r.err, err)
	}
}

// TestServesPart lets a peer ask for ranges of an object while it arrives, after
// the download was suspended, and when it is whole: what is here is served.
func TestServesPart(t *testing.T) {
	st, client := serveObjects(t, nil, policy.AllowAll{})
	const group = b3.GroupSize
	p := storetest.Bytes(1, 20*group+7)
	root, size := b3.Sum(p), int64(len(p))
	ask := func(want status.Outcome, proof bool, ranges ...b3.Range) int64 {
		t.Helper()
		var r received
		err := client.Get(t.Context(), peer.ID("server"),
			object.GetRequest{Objs: []b3.Root{root}, Ranges: ranges, SizeProof: proof}, &r)
		if err == nil {
			err = r.err
		}
		if status.Of(err) != want || proof && err == nil && !r.proved {
			t.Fatalf("outcome %v, want %s; size proved: %t", err, want, r.proved)
		}
		return r.bytes
	}
	has := func(want b3.Presence) {
		t.Helper()
		present, err := client.Have(t.Context(), peer.ID("server"), []b3.Root{root})
		if err != nil || !slices.Equal(present, []b3.Presence{want}) {
			t.Fatalf("have says %v, %v; want %s", present, err, want)
		}
	}
	write := func(in *store.Ingest, ranges ...b3.Range) {
		t.Helper()
		for _, item := range storetest.Items(t, p, size, ranges...) {
			if err := in.Write(item); err != nil {
				t.Fatal(err)
			}
		}
	}

	has(b3.Absent)
	ask(status.NotFound, false, b3.Range{Start: 0, End: 1})
	in, err := st.Ingest(t.Context(), root, size)
	if err != nil {
		t.Fatal(err)
	}
	write(in, b3.Range{Start: 3 * group, End: 6 * group})
	has(b3.Absent) // its size is a claim
	ask(status.NotFound, false, b3.Range{Start: 3 * group, End: 4 * group})
	write(in, b3.Range{Start: size - 1, End: size})
	has(b3.Partial)
	if n := ask(status.OK, true, b3.Range{Start: 3*group + 1, End: 5 * group}); n != 2*group+7 {
		t.Errorf("%d bytes came", n)
	}
	ask(status.NotFound, false, b3.Range{Start: 2 * group, End: 5 * group})
	ask(status.NotFound, false)
	in.Suspend()
	has(b3.Partial)
	ask(status.OK, true, b3.Range{Start: 3 * group, End: 6 * group})
	if in, err = st.Ingest(t.Context(), root, size); err != nil {
		t.Fatal(err)
	}
	write(in, b3.Range{Start: 0, End: size})
	if n := ask(status.OK, false); n != size {
		t.Errorf("%d of %d bytes came", n, size)
	}
	if _, err := in.Commit(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	has(b3.Complete)
	if n := ask(status.OK, false); n != size {
		t.Errorf("%d of %d bytes came", n, size)
	}
}
