package object

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"pgregory.net/rapid"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// TestRanges gets any ranges of objects of any size, with and without a size
// proof: exactly the groups that they touch arrive.
func TestRanges(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	rapid.Check(t, func(rt *rapid.T) {
		size := int64(rapid.IntRange(0, 12*b3.GroupSize).Draw(rt, "size"))
		data := testData(int(size), 9)
		root := p.store.put(data)
		var ranges []b3.Range
		want := map[int64]bool{}
		for range rapid.IntRange(0, 4).Draw(rt, "ranges") {
			start := int64(rapid.IntRange(0, 13*b3.GroupSize).Draw(rt, "start"))
			end := int64(-1)
			if rapid.Bool().Draw(rt, "bounded") {
				end = start + int64(rapid.IntRange(0, 3*b3.GroupSize).Draw(rt, "length"))
			}
			ranges = append(ranges, b3.Range{Start: start, End: end})
			stop := size
			if end >= 0 {
				stop = min(end, size)
			}
			for at := start; at < stop; at = (at/b3.GroupSize + 1) * b3.GroupSize {
				want[at/b3.GroupSize] = true
			}
			if size == 0 && start == 0 && end == -1 {
				want[0] = true
			}
		}
		if len(ranges) == 0 {
			for g := range b3.Groups(size) {
				want[g] = true
			}
		}
		proof := rapid.Bool().Draw(rt, "proof")
		c := newCollect(t, root)
		if err := p.client.Get(t.Context(), serverID,
			GetRequest{Objs: []b3.Root{root}, Ranges: ranges, SizeProof: proof},
			c); err != nil {
			rt.Fatal(err)
		}
		groups := len(want)
		if proof {
			groups++
			want[b3.Groups(size)-1] = true
		}
		if c.groups[0] != groups || c.errs[0] != nil || c.proved[0] != want[b3.Groups(size)-1] {
			rt.Fatalf("%d groups, %v, proved %v; want %v", c.groups[0], c.errs[0], c.proved[0], want)
		}
		for g := range want {
			from := g * b3.GroupSize
			to := min(from+b3.GroupSize, size)
			if !bytes.Equal(c.data[0][from:to], data[from:to]) {
				rt.Fatalf("group %d differs", g)
			}
		}
	})
}

// TestSizeProofAlone asks for nothing but the size, as HEAD does.
func TestSizeProofAlone(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	const size = 100*b3.GroupSize + 17
	root := p.store.put(testData(size, 1))
	c := newCollect(t, root)
	req := GetRequest{Objs: []b3.Root{root}, Ranges: []b3.Range{{}}, SizeProof: true}
	if err := p.client.Get(t.Context(), serverID, req, c); err != nil {
		t.Fatal(err)
	}
	if c.groups[0] != 1 || !c.proved[0] || c.sizes[0] != size {
		t.Errorf("%d groups, proved %v, size %d", c.groups[0], c.proved[0], c.sizes[0])
	}
}

// unreadable is a source that cannot read one group.
type unreadable struct {
	b3.Source
	group int64
}

func (u unreadable) ReadGroup(g int64, p []byte) (int, error) {
	if g == u.group {
		return 0, status.Errorf(status.Busy, "not now")
	}
	return u.Source.ReadGroup(g, p)
}

// TestSizeProofFails: when the last group cannot be read, nothing is sent of the size proof, so that the peer learns
// why and does not take it for a breach of the protocol.
func TestSizeProofFails(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(5*b3.GroupSize, 1))
	object := p.store.get(root)
	object.source = unreadable{object.source, 4}
	c := newCollect(t, root)
	req := GetRequest{Objs: []b3.Root{root}, Ranges: []b3.Range{{Start: 0, End: 1}}, SizeProof: true}
	if err := p.client.Get(t.Context(), serverID, req, c); status.Of(err) != status.Busy {
		t.Errorf("%v, and of the object %v; want busy", err, c.errs[0])
	}
}

func TestBadGet(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	objs := make([]b3.Root, MaxGet+1)
	for _, tc := range []struct {
		req  GetRequest
		want status.Outcome
	}{
		{GetRequest{}, status.BadRequest},
		{GetRequest{Objs: objs}, status.BadRequest},
		{GetRequest{Objs: objs[:2], Ranges: []b3.Range{{Start: 0, End: 1}}}, status.BadRequest},
		{GetRequest{Objs: objs[:1], Ranges: []b3.Range{{Start: 2, End: 1}}}, status.BadRange},
	} {
		if err := p.client.Get(t.Context(), serverID, tc.req, newCollect(t)); status.Of(err) != tc.want {
			t.Errorf("%d objects, ranges %v: %v", len(tc.req.Objs), tc.req.Ranges, err)
		}
	}
	if p.client.open() != 0 {
		t.Error("a stream was opened for it")
	}
}

// TestMaxSize refuses an object that says it is larger than wanted, before a
// byte of it is used.
func TestMaxSize(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(1001, 1))
	for limit, want := range map[int64]status.Outcome{1000: status.BodyCap, 1001: status.OK, 0: status.OK} {
		c := newCollect(t, root)
		err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}, MaxSize: limit}, c)
		if status.Of(err) != want || (c.begun == 1) != (want == status.OK) {
			t.Errorf("limit %d: %v, %d begun", limit, err, c.begun)
		}
	}
}

// TestSinkError gives the sink's own error back, as it was, and resets.
func TestSinkError(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(5*b3.GroupSize, 1))
	c := newCollect(t, root)
	c.fail = io.ErrClosedPipe
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, c); !errors.Is(err,
		io.ErrClosedPipe) || err.Error() != io.ErrClosedPipe.Error() {
		t.Errorf("%v", err)
	}
	if c.ended != 0 || p.client.open() != 0 {
		t.Errorf("%d ended, %d streams kept", c.ended, p.client.open())
	}
}

// TestSinkNested returns from a sink the refusal of another peer: this peer's
// answer is not over for it.
func TestSinkNested(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(5*b3.GroupSize, 1))
	p.net.Host("busy").SetStreamHandler(ProtocolID, func(st network.Stream) {
		if _, err := oap.NewReader(st, oap.MaxFrame).Next(); err != nil {
			t.Error(err)
		}
		_ = oap.NewWriter(st, oap.MaxFrame).Write(respond(1, oap.FlagEnd, 429, nil))
	})
	c := newCollect(t, root)
	c.fail = p.get(t, "busy", root)
	if status.Of(c.fail) != status.Busy || p.client.open() != 1 {
		t.Fatalf("%v, %d streams", c.fail, p.client.open())
	}
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, c); !errors.Is(err, c.fail) ||
		p.client.open() != 1 {
		t.Errorf("%v, %d streams", err, p.client.open())
	}
}

// TestSinkPanic lets a sink panic: the stream is not kept, the permits are free.
func TestSinkPanic(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(5*b3.GroupSize, 1))
	func() {
		defer func() { _ = recover() }()
		_ = p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}},
			&hooked{Sink: newCollect(t, root), item: func() { panic("a bug") }})
		t.Error("no panic")
	}()
	if p.client.open() != 0 || p.client.asked() != 0 {
		t.Errorf("%d streams, %d peers", p.client.open(), p.client.asked())
	}
}

// TestCancel gives up in the middle of an answer: both sides are free at once.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{Window: 64 << 10, Latency: 50 * time.Millisecond}, DefaultConfig())
		root := p.store.put(testData(50*b3.GroupSize, 1))
		ctx, cancel := context.WithCancel(t.Context())
		c := newCollect(t, root)
		sink := &hooked{Sink: c, item: func() {
			if c.groups[0] == 3 {
				cancel()
			}
		}}
		err := p.client.Get(ctx, serverID, GetRequest{Objs: []b3.Root{root}}, sink)
		if status.Of(err) != status.Canceled || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if c.ended != 1 || status.Of(c.errs[0]) != status.Canceled || p.client.open() != 0 {
			t.Errorf("%d ended, %v, %d streams", c.ended, c.errs, p.client.open())
		}
		synctest.Wait()
		idle(t, p.server)
	})
}

// hooked calls item before each item.
type hooked struct {
	Sink
	item func()
}

func (h *hooked) Item(i int, p b3.Proved) error {
	h.item()
	return h.Sink.Item(i, p)
}

// TestNoStream opens streams that cannot be had, or not in time.
func TestNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		p := newPair(t, testkit.Options{}, cfg)
		root := p.store.put(testData(10, 1))
		if err := p.get(t, "nobody", root); status.Of(err) != status.TransportDown {
			t.Errorf("nobody there: %v", err)
		}
		_ = p.client.Close()
		var err error
		if p.client, err = NewClient(cfg, ClientDeps{Host: silent{}}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := p.get(t, serverID, root); status.Of(err) != status.Timeout || time.Since(begin) != cfg.OpenTimeout {
			t.Errorf("silent: %v after %s", err, time.Since(begin))
		}
		if p.client.open() != 0 {
			t.Errorf("%d streams counted", p.client.open())
		}
	})
}

type silent struct{}

func (silent) NewStream(ctx context.Context, _ peer.ID, _ ...protocol.ID) (network.Stream, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestClosed asks a closed client.
func TestClosed(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(10, 1))
	if err := p.get(t, serverID, root); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.client.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.get(t, serverID, root); status.Of(err) != status.Draining || p.client.open() != 0 {
		t.Errorf("%v, %d streams", err, p.client.open())
	}
}

// TestSlowLink moves an object over a link that gives little at a time, just
// above object.min_rate, and takes longer than any timeout for the whole.
func TestSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{Window: 20 << 10, MaxRead: 1000, Latency: time.Second}, DefaultConfig())
		data := testData(7*b3.GroupSize/2, 1)
		root := p.store.put(data)
		begin := time.Now()
		c := newCollect(t, root)
		if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, c); err != nil ||
			!bytes.Equal(c.data[0], data) {
			t.Error(err)
		}
		if time.Since(begin) < 2*DefaultConfig().ReadTimeout {
			t.Errorf("the link is fast: %s", time.Since(begin))
		}
	})
}

// open is the number of streams open, idle ones included.
func (c *Client) open() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.count
}

func (c *Client) idle() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return len(c.pool.idle)
}

func (c *Client) asked() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return len(c.pool.asked)
}
