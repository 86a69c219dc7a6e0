package object

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"
	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// TestMaxFrameBindsWhatIsServed: no frame of an answer is longer than the
// connection's max_frame, whatever the server is configured to send, and it is
// asked for before each answer (OAP1.md §13.9).
func TestMaxFrameBindsWhatIsServed(t *testing.T) {
	cfg := DefaultConfig()
	cfg.FrameBytes = oap.MaxFrame
	p := newPair(t, testkit.Options{}, cfg)
	var limit atomic.Uint32
	limit.Store(oap.MaxFrame)
	p.server.deps.MaxFrame = func(network.Conn) uint32 { return limit.Load() }
	data := testData(40*b3.GroupSize-1, 1)
	root := p.store.put(data)
	a := p.ask(t)
	for i, most := range []uint32{oap.MaxFrame, oap.MinMaxFrame} {
		limit.Store(most)
		a.want(uint64(i), fmt.Sprintf(`{"op":"get","objs":[%q],"size_proof":true}`, root))
		longest := 0
		for {
			f, err := a.r.Next()
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, oap.HeaderSize+len(f.Payload))
			if f.Flags.Has(oap.FlagEnd) {
				if f.Code != 200 {
					t.Fatalf("%d %s", f.Code, f.Payload)
				}
				break
			}
		}
		if longest > int(most) || longest < int(most)/2 {
			t.Errorf("max_frame is %d, the longest frame has %d bytes", most, longest)
		}
	}
}

// TestAnswersAreBound: max_frame and the bounds of COMP hold for each frame of an
// answer, of get and of have; what breaks them resets the stream with the code of
// the decode error (OAP1.md §3, §13.3, §13.9).
func TestAnswersAreBound(t *testing.T) {
	data := testData(4*b3.GroupSize, 1)
	root := b3.Sum(data)
	encoder, err := zstd.NewWriter(nil) // oap.Compress makes nothing that breaks the bounds
	if err != nil {
		t.Fatal(err)
	}
	zip := func(p []byte) []byte { return encoder.EncodeAll(p, nil) }
	start := string(appendStart(nil, root, int64(len(data))))
	spaces := func(n int) []byte { return append(bytes.Repeat([]byte(" "), n), start...) }
	bomb := zip(spaces(200 << 10)) // more than 64 KiB, and more than ten times what it has compressed
	get := honest(t, 1, nil, false, data)
	with := func(i int, change func(f *oap.Frame)) []oap.Frame {
		frames := append([]oap.Frame(nil), get...)
		change(&frames[i])
		return frames
	}
	comp := func(p []byte) func(*oap.Frame) {
		return func(f *oap.Frame) { f.Flags, f.Payload = f.Flags|oap.FlagComp, p }
	}
	long := func(n int) func(*oap.Frame) {
		return func(f *oap.Frame) { f.Payload = make([]byte, n-oap.HeaderSize) }
	}
	// Two groups and their parents do not fit into 128 KiB, but into 1 MiB.
	joined := append([]oap.Frame{get[0], respond(1, 0, 0,
		append(append([]byte(nil), get[1].Payload...), get[2].Payload...))}, get[3:]...)
	absent := func(flags oap.Flags, payload []byte) []oap.Frame {
		return []oap.Frame{respond(1, oap.FlagEnd|flags, 200, payload)}
	}
	for _, tc := range []struct {
		name     string
		have     bool
		maxFrame uint32
		answer   []oap.Frame
		want     oap.Reason
		ok       bool
	}{
		{"a frame of two groups", false, oap.MaxFrame, joined, 0, true},
		{"a frame of two groups above max_frame", false, oap.MinMaxFrame, joined, oap.ReasonFrameOversize, false},
		{"a START above max_frame", false, oap.MinMaxFrame, with(0,
			long(oap.MinMaxFrame+1)), oap.ReasonFrameOversize, false},
		{"a status above max_frame", false, oap.MinMaxFrame, with(5, long(oap.MinMaxFrame+1)), oap.ReasonFrameOversize,
			false},
		{"a compressed START", false, oap.MaxFrame, with(0, comp(zip(spaces(1000)))), 0, true},
		{"a START that is not zstd", false, oap.MaxFrame, with(0, comp([]byte(start))), oap.ReasonInflateBound, false},
		{"a START that becomes too long", false, oap.MaxFrame, with(0, comp(bomb)), oap.ReasonInflateBound, false},
		{"items that are not zstd", false, oap.MaxFrame, with(2, comp(get[2].Payload)), oap.ReasonInflateBound, false},
		{"a status that is not zstd", false, oap.MaxFrame, with(5, comp([]byte("{}"))), oap.ReasonInflateBound, false},
		{"presence", true, oap.MinMaxFrame, absent(0, make([]byte, 896)), 0, true},
		{"compressed presence", true, oap.MinMaxFrame, absent(oap.FlagComp, zip(make([]byte, 896))), 0, true},
		{"presence above max_frame", true, oap.MinMaxFrame, absent(0,
			make([]byte, oap.MinMaxFrame)), oap.ReasonFrameOversize,
			false},
		{"presence that is not zstd", true, oap.MinMaxFrame, absent(oap.FlagComp,
			make([]byte, 896)), oap.ReasonInflateBound,
			false},
		{"presence that becomes too long", true, oap.MaxFrame, absent(oap.FlagComp,
			bomb), oap.ReasonInflateBound, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := testkit.NewNetwork(testkit.Options{})
				codes := answerWith(t, net.Host(serverID), tc.answer)
				client, err := NewClient(DefaultConfig(),
					ClientDeps{Host: net.Host(clientID), MaxFrame: func(network.Conn) uint32 { return tc.maxFrame }})
				if err != nil {
					t.Fatal(err)
				}
				if tc.have {
					_, err = client.Have(t.Context(), serverID, make([]b3.Root, 896))
				} else {
					err = client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, newCollect(t, root))
				}
				_ = client.Close()
				net.Close()
				if tc.ok {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				var refused *oap.DecodeError
				if status.Of(err) != status.Upstream || !errors.As(err, &refused) || refused.Reason != tc.want {
					t.Errorf("%v, want %s", err, tc.want)
				}
				if len(*codes) != 1 || (*codes)[0] != network.StreamErrorCode(tc.want.StreamErrorCode()) {
					t.Errorf("reset with %#x, want %#x", *codes, tc.want.StreamErrorCode())
				}
			})
		})
	}
}
