package object_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/inbound"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/protocols/status"
)

const (
	streams = 1200
	budget  = 8 << 20
	whole   = oap.FlagReq | oap.FlagStart | oap.FlagEnd
)

// rig is a node whose frames have a budget, among peers that send none whole.
type rig struct {
	net      *testkit.Network
	limits   *limits.Registry
	memory   *inbound.Memory
	sessions *session.Service
	client   *object.Client
	wg       sync.WaitGroup
}

// withNode runs f with a node called "node" whose frames have the budget.
func withNode(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{net: testkit.NewNetwork(testkit.Options{Window: 512 << 10})}
		r.limits = limits.NewRegistry(nil)
		r.memory = inbound.New(r.limits, budget)
		host := r.net.Host("node")
		cfg := object.DefaultConfig()
		cfg.InboundStreams, cfg.Streams, cfg.StreamsPerPeer = 2*streams, 2*streams, 64
		server, err := object.NewServer(cfg, object.ServerDeps{Host: host, Store: nothing{}, Inbound: r.memory})
		if err != nil {
			t.Fatal(err)
		}
		r.client, err = object.NewClient(cfg, object.ClientDeps{Host: host, Inbound: r.memory})
		if err != nil {
			t.Fatal(err)
		}
		sessions := session.DefaultConfig()
		sessions.Handshakes = 2 * streams
		r.sessions, err = session.New(sessions, session.Deps{Host: host, Inbound: r.memory})
		if err != nil {
			t.Fatal(err)
		}
		r.sessions.Handle(oap.ProtoIndex, func(_ context.Context, _ peer.ID, q *session.Request) session.Response {
			return session.Response{Payload: []byte(q.Op)}
		})
		ctx, cancel := context.WithCancel(t.Context())
		for _, run := range []func(context.Context, func()) error{server.Run, r.sessions.Run} {
			ready := make(chan struct{})
			r.wg.Go(func() {
				if err := run(ctx, func() { close(ready) }); err != nil {
					t.Error(err)
				}
			})
			<-ready
		}
		f(t, r)
		if err := r.client.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		r.net.Close()
		r.wg.Wait()
		if n := r.held().Current; n != 0 {
			t.Errorf("%d bytes are held at the end", n)
		}
	})
}

// held returns how much is held of frames that are not complete.
func (r *rig) held() (l limits.Info) {
	for _, l = range r.limits.Snapshot() {
		if l.Name == "oap.inbound_bytes" {
			break
		}
	}
	return l
}

// check says how much is held of frames that are not complete.
func (r *rig) check(t *testing.T, least int64) {
	t.Helper()
	synctest.Wait()
	l := r.held()
	t.Logf("%d streams hold %d KiB, at most %d KiB; %d were refused", streams, l.Current>>10, l.Peak>>10, l.Rejected)
	if l.Peak > budget || l.Current > budget || l.Current < least {
		t.Errorf("%d bytes are held, at most %d: want %d to %d", l.Current, l.Peak, least, budget)
	}
}

// header is the header of a frame that announces so many bytes.
func header(length int, flags oap.Flags, proto uint16) []byte {
	p, err := object.EncodeFrame(oap.Frame{Header: oap.Header{Flags: flags, Proto: proto, CorrID: 1}})
	if err != nil {
		panic(err)
	}
	binary.BigEndian.PutUint32(p, uint32(length))
	return p
}

// flood opens the streams, several from each of 60 peers, and writes p to each.
// greet makes the stream ready for it.
func (r *rig) flood(t *testing.T, proto protocol.ID, p []byte, greet func(network.Stream)) (open []network.Stream) {
	t.Helper()
	for i := range streams {
		h := r.net.Host(peer.ID(fmt.Sprint("flooder ", i%60)))
		if proto == session.ProtocolID { // one session for each connection
			h = r.net.Host(peer.ID(fmt.Sprint("flooder ", i)))
		}
		st, err := h.NewStream(t.Context(), "node", proto)
		if err != nil {
			t.Fatal(err)
		}
		if greet != nil {
			greet(st)
		}
		_, _ = st.Write(p) // it may be reset meanwhile
		open = append(open, st)
	}
	return open
}

// resets counts the streams that the node has reset with a code, once those that
// hold as much as the others have waited their 2 s for more.
func resets(open []network.Stream, code network.StreamErrorCode) (n int) {
	time.Sleep(3 * time.Second)
	for _, st := range open {
		_ = st.SetReadDeadline(time.Now())
		_, err := io.ReadFull(st, make([]byte, 64<<10))
		var reset *network.StreamError
		if errors.As(err, &reset) && reset.Remote && reset.ErrorCode == code {
			n++
		}
	}
	return n
}

// asked is a request that takes 60 KiB, and objs what it is about.
func asked() []b3.Root { return make([]b3.Root, object.MaxHave) }

// honest asks the node for what takes a large frame.
func (r *rig) honest(t *testing.T) {
	t.Helper()
	c, err := object.NewClient(object.DefaultConfig(), object.ClientDeps{Host: r.net.Host("honest")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Have(t.Context(), "node", asked()); err != nil {
		t.Errorf("an honest peer: %v", err)
	}
}

// TestUnfinishedRequests: a request of 64 KiB that never ends.
func TestUnfinishedRequests(t *testing.T) {
	withNode(t, func(t *testing.T, r *rig) {
		p := append(header(oap.HeaderSize+oap.MaxJSON, whole, oap.ProtoObject), make([]byte, oap.MaxJSON-1)...)
		open := r.flood(t, object.ProtocolID, p, nil)
		r.check(t, budget/2)
		r.honest(t)
		if n := resets(open, network.StreamResourceLimitExceeded); n < streams/2 {
			t.Errorf("%d streams made room", n)
		}
	})
}

// TestUnfinishedLongRequests: one that announces 1 MiB is refused by its header,
// on both kinds of stream.
func TestUnfinishedLongRequests(t *testing.T) {
	for _, tc := range []struct {
		id    protocol.ID
		proto uint16
		greet func(network.Stream)
	}{
		{object.ProtocolID, oap.ProtoObject, nil},
		{session.ProtocolID, oap.ProtoIndex, hello},
	} {
		t.Run(string(tc.id), func(t *testing.T) {
			withNode(t, func(t *testing.T, r *rig) {
				open := r.flood(t, tc.id, header(oap.MaxFrame, whole, tc.proto), tc.greet)
				r.check(t, 0)
				if n := r.held().Current; n != 0 {
					t.Errorf("%d bytes are held", n)
				}
				if n := resets(open, network.StreamErrorCode(oap.ReasonFrameOversize.StreamErrorCode())); n != streams {
					t.Errorf("%d streams were reset for it", n)
				}
			})
		})
	}
}

func hello(st network.Stream) {
	_ = oap.NewWriter(st, oap.MaxFrame).Write(oap.Frame{Header: oap.Header{Flags: whole},
		Payload: oap.HelloRequest{}.Encode()})
}

// TestUnfinishedFramesOfSessions: an answer that nobody waits for may have 1 MiB,
// and never ends.
func TestUnfinishedFramesOfSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("TestUnfinishedRequests has the same goroutines")
	}
	withNode(t, func(t *testing.T, r *rig) {
		p := append(header(oap.MaxFrame, oap.FlagResp|oap.FlagEnd, oap.ProtoIndex), make([]byte, 300<<10)...)
		open := r.flood(t, session.ProtocolID, p, hello)
		r.check(t, budget/2)
		r.honest(t)
		if n := resets(open, network.StreamResourceLimitExceeded); n < streams/2 {
			t.Errorf("%d sessions made room", n)
		}
	})
}

// TestUnfinishedAnswers: providers that begin frames of 1 MiB and never end them.
func TestUnfinishedAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("TestUnfinishedRequests has the same goroutines")
	}
	withNode(t, func(t *testing.T, r *rig) {
		const liars = 60
		start := oap.Frame{Header: oap.Header{Flags: oap.FlagResp | oap.FlagStart, Proto: oap.ProtoObject, CorrID: 1}}
		data := make([]byte, 1<<20)
		root := b3.Sum(data)
		start.Payload = fmt.Appendf(nil, `{"obj":"%s","size":%d}`, root, len(data))
		raw, err := object.EncodeFrame(start)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append(raw, header(oap.MaxFrame, oap.FlagResp, oap.ProtoObject)...), make([]byte, 300<<10)...)
		for i := range liars {
			h := r.net.Host(peer.ID(fmt.Sprint("liar ", i)))
			h.SetStreamHandler(object.ProtocolID, func(st network.Stream) {
				_, _ = st.Write(raw)
				_, _ = io.Copy(io.Discard, st)
			})
		}
		slow := r.net.Host("slow and honest")
		slow.SetStreamHandler(object.ProtocolID, func(st network.Stream) {
			f, _ := object.EncodeFrame(oap.Frame{
				Header:  oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200, Proto: oap.ProtoObject, CorrID: 1},
				Payload: make([]byte, object.MaxHave),
			})
			for len(f) > 0 {
				n := min(len(f), 300)
				time.Sleep(500 * time.Millisecond)
				_, _ = st.Write(f[:n])
				f = f[n:]
			}
		})
		busy := make(chan error, streams) // bound: each asker says one thing
		for i := range streams {
			r.wg.Go(func() {
				busy <- r.client.Get(t.Context(), peer.ID(fmt.Sprint("liar ", i%liars)),
					object.GetRequest{Objs: []b3.Root{root}},
					ignore{})
			})
		}
		r.check(t, budget/2)
		if _, err := r.client.Have(t.Context(), "slow and honest", asked()); err != nil {
			t.Errorf("a slow provider: %v", err)
		}
		told := map[status.Outcome]int{}
		for range streams {
			told[status.Of(<-busy)]++
		}
		t.Log("the liars' answers end with", told)
		if told[status.Busy]+told[status.Timeout] != streams || told[status.Busy] == 0 {
			t.Errorf("told %v, want busy and timeout alone", told)
		}
	})
}

// ignore is a sink.
type ignore struct{}

func (ignore) Begin(int, int64) error    { return nil }
func (ignore) Item(int, b3.Proved) error { return nil }
func (ignore) End(_ int, _ error) error  { return nil }

// nothing is a store without objects.
type nothing struct{}

func (nothing) OpenObject(context.Context, b3.Root) (object.Object, error) {
	return nil, status.Errorf(status.NotFound, "nothing is here")
}

func (nothing) Presence(_ context.Context, roots []b3.Root) ([]b3.Presence, error) {
	return make([]b3.Presence, len(roots)), nil
}
