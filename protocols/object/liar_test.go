package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// honest returns the frames that answer a get of these objects, one group to a
// frame.
func honest(t testing.TB, corr uint64, ranges []b3.Range, proof bool, objects ...[]byte) []oap.Frame {
	t.Helper()
	s := newMemStore()
	var frames []oap.Frame
	walk := func(w *b3.Walk, err error, src b3.Source) {
		if err != nil {
			t.Fatal(err)
		}
		var p []byte
		for item, ok := w.Next(); ok; item, ok = w.Next() {
			buf := make([]byte, item.Len)
			if _, err := w.Fill(src, buf); err != nil {
				t.Fatal(err)
			}
			if p = append(p, buf...); !item.Parent {
				frames = append(frames, respond(corr, 0, 0, p))
				p = nil
			}
		}
	}
	for i, data := range objects {
		root := s.put(data)
		size := int64(len(data))
		frames = append(frames, respond(corr, oap.FlagStart, 0, appendStart(nil, root, size)))
		if proof {
			w, err := (*b3.HashQueue)(nil).SizeProof(root, size)
			walk(w, err, s.get(root).source)
		}
		w, err := b3.NewWalk(root, size, ranges)
		walk(w, err, s.get(root).source)
		flags := oap.Flags(0)
		if i == len(objects)-1 {
			flags = oap.FlagEnd
		}
		frames = append(frames, respond(corr, flags, 200, nil))
	}
	return frames
}

// answerWith makes the host of the server answer the first request on each
// stream with these frames and then wait for the client.
func answerWith(t testing.TB, h *testkit.Host, frames []oap.Frame) (codes *[]network.StreamErrorCode) {
	codes = new([]network.StreamErrorCode)
	h.SetStreamHandler(ProtocolID, func(st network.Stream) {
		r := oap.NewReader(st, oap.MaxFrame)
		if _, err := r.Next(); err != nil {
			t.Errorf("read request: %v", err)
		}
		for _, f := range frames {
			raw, err := EncodeFrame(f)
			if err != nil {
				raw = f.Payload // bytes as they are: not a frame
			}
			if _, err := st.Write(raw); err != nil {
				break
			}
		}
		_, err := r.Next()
		var reset *network.StreamError
		if errors.As(err, &reset) {
			*codes = append(*codes, reset.ErrorCode)
		}
	})
	return codes
}

// TestLiars lets a server answer in every wrong way: the client must reset the
// stream, say whose fault it was, and keep what was proved before.
func TestLiars(t *testing.T) {
	const groups = 4
	data := testData(groups*b3.GroupSize-100, 3)
	other := testData(groups*b3.GroupSize-100, 4)
	root := b3.Sum(data)
	type frames = []oap.Frame
	edit := func(i int, change func(p []byte)) func(frames) frames {
		return func(f frames) frames {
			f[i].Payload = slices.Clone(f[i].Payload)
			change(f[i].Payload)
			return f
		}
	}
	flip := func(at int) func([]byte) { return func(p []byte) { p[at] ^= 1 } }
	start := func(p string) func(frames) frames {
		return func(f frames) frames { f[0].Payload = []byte(p); return f }
	}
	sized := func(n int64) func(frames) frames {
		return func(f frames) frames { f[0].Payload = appendStart(nil, root, n); return f }
	}
	// Frames of the honest answer: 0 START, 1 two parents and group 0, 2 group
	// 1, 3 a parent and group 2, 4 group 3, 5 status.
	for _, tc := range []struct {
		name   string
		lie    func(frames) frames
		want   status.Outcome
		groups int // proved before
		began  bool
		proof  bool
		// orderly answers may be wrong about an object, but not about the
		// protocol: the stream lives.
		orderly bool
	}{
		{"one bit of the first group", edit(1, flip(128)), status.Corrupt, 0, true, false, false},
		{"one bit of the last group", edit(4, flip(7)), status.Corrupt, 3, true, false, false},
		{"one bit of a parent", edit(3, flip(63)), status.Corrupt, 2, true, false, false},
		{"another object's groups", func(f frames) frames {
			return append(f[:2:2], append(honest(t, 1, nil, false, other)[2:5], f[5])...)
		}, status.Corrupt, 1, true, false, false},
		{"groups in the wrong order", func(f frames) frames { f[1], f[2] = f[2], f[1]; return f }, status.Corrupt, 0,
			true,
			false, false},
		{"a group twice", func(f frames) frames { return slices.Insert(f, 2, f[2]) },
			status.Corrupt, 2, true, false, false},
		{"status ok too early", func(f frames) frames { return slices.Delete(f, 4, 5) },
			status.Upstream, 3, true, false,
			false},
		{"a group too many", func(f frames) frames { return slices.Insert(f, 5, f[4]) },
			status.Upstream, 4, true, false,
			false},
		{"an empty frame", func(f frames) frames { return slices.Insert(f, 2, respond(1, 0, 0, nil)) }, status.Upstream,
			1,
			true, false, false},
		{"the truth", edit(2, func([]byte) {}), status.OK, 4, true, false, true},
		{"half an item", func(f frames) frames { f[2].Payload = f[2].Payload[:b3.GroupSize/2]; return f },
			status.Upstream, 1,
			true, false, false},
		{"a size that is too large", sized(groups * b3.GroupSize), status.Upstream, 3, true, false, false},
		{"a size that is far too large", sized(MaxObject), status.Corrupt, 0, true, false, false},
		{"a size that is too small", sized(2 * b3.GroupSize), status.Corrupt, 0, true, false, false},
		{"a size of nothing", sized(0), status.Corrupt, 0, true, false, false},
		{"a negative size", sized(-1), status.Upstream, 0, false, false, false},
		{"a size no integer holds", start(`{"obj":"` + root.String() +
			`","size":9007199254740993}`), status.Upstream, 0,
			false, false, false},
		{"another object", func(frames) frames { return honest(t, 1, nil, false, other) },
			status.Upstream, 0, false, false,
			false},
		{"a START that is no JSON", start(`{"obj"`), status.Upstream, 0, false, false, false},
		{"a START with an unknown member", start(`{"obj":"` + root.String() + `","size":1,"x":1}`),
			status.Upstream, 0, false,
			false, false},
		{"START twice", func(f frames) frames { return slices.Insert(f, 1, f[0]) },
			status.Upstream, 0, true, false, false},
		{"no START", func(f frames) frames { return f[1:] }, status.Upstream, 0, false, false, false},
		{"status ok for nothing", func(f frames) frames { return f[5:] }, status.Upstream, 0, false, false, false},
		{"status ok that is not the end",
			func(f frames) frames { f[5].Flags = oap.FlagResp; return f }, status.Upstream, 4,
			true, false, false},
		{"status ok with a payload", func(f frames) frames { f[5].Payload = []byte("{}"); return f }, status.Upstream,
			4,
			true, false, false},
		{"END on a group", func(f frames) frames { f[4].Flags |= oap.FlagEnd; return f },
			status.Upstream, 3, true, false,
			false},
		{"a code on START", func(f frames) frames { f[0].Code = 200; return f },
			status.Upstream, 0, false, false, false},
		{"compressed items", func(f frames) frames { f[2].Flags |= oap.FlagComp; return f },
			status.Upstream, 1, true, false,
			false},
		{"an event", func(f frames) frames { f[2].Flags = oap.FlagEvent; return f },
			status.Upstream, 1, true, false, false},
		{"a request", func(f frames) frames { f[2].Flags = oap.FlagReq; return f },
			status.Upstream, 1, true, false, false},
		{"another corr_id", func(f frames) frames { f[2].CorrID = 9; return f },
			status.Upstream, 1, true, false, false},
		{"another protocol", func(f frames) frames { f[2].Proto = oap.ProtoIndex; return f },
			status.Upstream, 1, true, false,
			false},
		{"a bug of ours", func(f frames) frames {
			return frames{respond(1, oap.FlagEnd, 500,
				[]byte(`{"reason":"internal"}`))}
		}, status.Upstream, 0, false, false, true},
		{"an error that says ok", func(f frames) frames {
			return frames{respond(1, oap.FlagEnd, 404,
				[]byte(`{"reason":"ok"}`))}
		}, status.NotFound, 0, false, false, true},
		{"an unknown code", func(f frames) frames { return frames{respond(1, oap.FlagEnd, 299, nil)} }, status.Upstream,
			0,
			false, false, true},
		{"a report that is no JSON", func(f frames) frames {
			return frames{respond(1, oap.FlagEnd, 404,
				[]byte(`{"reason`))}
		}, status.Upstream, 0, false, false, true},
		{"garbage", func(f frames) frames { return frames{f[0], {Payload: bytes.Repeat([]byte{0xff}, 100)}} },
			status.Upstream, 0, true, false, false},
		{"a frame longer than max_frame", func(f frames) frames {
			return frames{f[0], {Payload: binary.BigEndian.AppendUint32(nil,
				oap.MaxFrame+1)}, {Payload: make([]byte, 64)}}
		}, status.Upstream, 0, true, false, false},
		{"nothing", func(frames) frames { return nil }, status.Timeout, 0, false, false, false},
		{"nothing after a while", func(f frames) frames { return f[:3] }, status.Timeout, 2, true, false, false},
		{"half a frame", func(f frames) frames { return append(f[:2:2], oap.Frame{Payload: []byte{0, 0, 1}}) },
			status.Timeout, 1, true, false, false},

		{"a false size proof",
			func(f frames) frames { f[1].Payload = slices.Clone(f[1].Payload); f[1].Payload[200] ^= 1; return f },
			status.Corrupt, 0, true, true, false},
		{"no size proof", func(f frames) frames { return slices.Delete(f, 1, 2) },
			status.Corrupt, 0, true, true, false},
		{"half a size proof", func(f frames) frames { f[1].Payload = f[1].Payload[:128]; return f }, status.Upstream, 0,
			true,
			true, false},
		{"a size proof and more",
			func(f frames) frames { f[1].Payload = append(slices.Clone(f[1].Payload), 1); return f },
			status.Upstream, 1, true, true, false},
		{"status ok after the size proof",
			func(f frames) frames { return slices.Delete(f, 2, 6) }, status.Upstream, 1, true,
			true, false},
		{"status ok before the size proof",
			func(f frames) frames { return slices.Delete(f, 1, 6) }, status.Upstream, 0, true,
			true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := testkit.NewNetwork(testkit.Options{})
				codes := answerWith(t, net.Host(serverID), tc.lie(honest(t, 1, nil, tc.proof, data)))
				client, err := NewClient(DefaultConfig(), ClientDeps{Host: net.Host(clientID)})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				c := newCollect(t, root)
				err = client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}, SizeProof: tc.proof}, c)
				orderly := err == nil
				if orderly {
					err = c.errs[0]
				}
				if got := status.Of(err); got != tc.want {
					t.Errorf("%s: %v, want %s", got, err, tc.want)
				}
				if c.groups[0] != tc.groups || c.begun > 0 != tc.began || tc.began && c.ended != 1 {
					t.Errorf("%d groups, %d begun, %d ended; want %d, %v", c.groups[0], c.begun,
						c.ended, tc.groups, tc.began)
				}
				if tc.began && (c.errs[0] == nil) != (tc.want == status.OK) {
					t.Errorf("End: %v", c.errs[0])
				}
				if tc.want == status.Timeout && time.Since(begin) != DefaultConfig().ReadTimeout {
					t.Errorf("gave up after %s", time.Since(begin))
				}
				if kept := client.open() == 1; kept != orderly || orderly != tc.orderly {
					t.Errorf("orderly %v, stream kept %v, want %v", orderly, kept, tc.orderly)
				}
				_ = client.Close()
				net.Close()
				if len(*codes) != 1 {
					t.Errorf("the server saw %d resets", len(*codes))
				}
				want := map[status.Outcome]network.StreamErrorCode{status.Corrupt: codeCorrupt,
					status.Timeout: codeTimeout}
				if w, ok := want[tc.want]; ok && (*codes)[0] != w {
					t.Errorf("reset with %#x, want %#x", (*codes)[0], w)
				}
			})
		})
	}
}
