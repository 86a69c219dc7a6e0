package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// newPutPair is a pair whose server takes puts, and a store with what the client puts.
func newPutPair(t testing.TB, cfg Config) (p *pair, mine *memStore, r *memReceiver) {
	t.Helper()
	p = newPairWith(t, testkit.Options{}, cfg, func(d *ServerDeps, _ *ClientDeps) {
		r = newMemReceiver(d.Store.(*memStore))
		d.Receiver = r
	})
	return p, newMemStore(), r
}

var withToken = PutOptions{Capability: []byte(token)}

// open opens an object of a test's own store.
func (s *memStore) mustOpen(t testing.TB, root b3.Root) Object {
	t.Helper()
	o, err := s.OpenObject(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPutSizes puts objects of all sizes at the boundaries of groups, twice: the second
// time nothing travels.
func TestPutSizes(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	const group = b3.GroupSize
	for i, size := range []int{0, 1, 1024, group - 1, group, group + 1, 2 * group, 3*group - 1, 8 * group, 33*group + 7} {
		data := testData(size, uint64(i))
		root := mine.put(data)
		for _, want := range []bool{true, false} {
			isNew, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken)
			if err != nil || isNew != want {
				t.Fatalf("%d bytes: new %t, %v", size, isNew, err)
			}
		}
		part := r.part(root)
		if !part.stored || !bytes.Equal(part.data, data) || int64(part.writes) != b3.Groups(int64(size)) {
			t.Errorf("%d bytes: stored %t, %d groups were written", size, part.stored, part.writes)
		}
	}
	if p.client.open() != 1 {
		t.Errorf("%d streams", p.client.open())
	}
	testkit.Eventually(t, "the server ends the last put", func() bool { return r.closes() == 20 })
}

// TestPutResumes cuts a put again and again, by the receiver and by the sender: what arrived
// is not sent again but for the last group, which proves the size.
func TestPutResumes(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	data := testData(40*b3.GroupSize+9, 1)
	root := mine.put(data)
	full := status.Errorf(status.NoSpace, "test receiver: full")
	var left atomic.Int64
	r.script(nil, func(b3.Root, int64) error {
		if left.Add(-1) < 0 {
			return full
		}
		return nil
	})
	total := 0
	for range 4 {
		left.Store(6)
		_, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken)
		if status.Of(err) != status.NoSpace {
			t.Fatal(err)
		}
		total += r.part(root).writes
	}
	left.Store(1000)
	frames := 0
	stop := PutOptions{Capability: withToken.Capability, Wait: func(context.Context, int) error {
		if frames++; frames > 4 {
			return errors.New("enough")
		}
		return nil
	}}
	if _, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), stop); err == nil ||
		err.Error() != "enough" {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the server ends the put", func() bool { return r.closes() == 5 })
	total += r.part(root).writes
	if isNew, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken); err != nil || !isNew {
		t.Fatal(err)
	}
	part := r.part(root)
	total += part.writes
	if !part.stored || !bytes.Equal(part.data, data) || total > 41+5 {
		t.Errorf("stored %t, %d groups travelled", part.stored, total)
	}
}

// TestPutRuns: what is left out and what is sent are the same for both sides, whatever
// the receiver has.
func TestPutRuns(t *testing.T) {
	const group = b3.GroupSize
	for _, size := range []int64{0, 1, group, group + 1, 7*group + 5, 8 * group} {
		groups := b3.Groups(size)
		for mask := range 1 << groups {
			part := &memPart{groups: make([]bool, groups)}
			for g := range groups {
				part.groups[g] = mask>>g&1 == 1
			}
			have := storedRuns(&memIngest{memPart: part}, size)
			checked, err := runsOf(pairs(have), size)
			if err != nil && size > 0 || !slices.Equal(checked, have) && size > 0 {
				t.Fatalf("%d bytes, %b: %v, %v", size, mask, have, err)
			}
			walk, err := b3.NewWalk(b3.Root{1}, size, missingRuns(have, size))
			if err != nil {
				t.Fatal(err)
			}
			total, err := b3.WalkLen(size, missingRuns(have, size))
			if err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			for g := range groups - 1 {
				if !part.groups[g] {
					want += group
				}
			}
			if _, more := walk.Next(); more != (want > 0) || total < want || total > want+b3.ParentSize*groups {
				t.Errorf("%d bytes, %b: %d bytes travel, want %d", size, mask, total, want)
			}
		}
	}
	sparse := &memPart{groups: make([]bool, 4*maxRuns)}
	for g := 0; g < len(sparse.groups); g += 2 {
		sparse.groups[g] = true
	}
	have := storedRuns(&memIngest{memPart: sparse}, int64(len(sparse.groups))*group)
	if len(have) != maxRuns || have[maxRuns-1].End != (2*maxRuns-1)*group {
		t.Errorf("%d ranges", len(have))
	}
	if _, err := runsOf(pairs(append(have, b3.Range{Start: 1 << 30, End: 1<<30 + group})), 1<<31); err == nil {
		t.Error("too many ranges are taken")
	}
	for _, bad := range [][2]int64{
		{-group, 0}, {0, 0}, {group, 0}, {1, group}, {0, group + 1}, {0, 5 * group}, {2 * group, 3 * group},
	} {
		if _, err := runsOf([][2]int64{bad, {2 * group, 3 * group}}, 4*group); status.Of(err) != status.Upstream {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestPutMany puts small objects together: some are there, some are refused, some cannot be
// stored, and each gets its own outcome.
func TestPutMany(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	var objs SmallObjects
	index := map[b3.Root]int{}
	for i := range MaxPut {
		size := []int{0, 10, 100, 4096, b3.GroupSize - 1, b3.GroupSize}[i%6]
		if i == 6*7 {
			size = 1234 // the empty object once only
		}
		data := testData(size, uint64(i))
		root := mine.put(data)
		if i%10 == 3 {
			p.store.put(data)
		}
		index[root] = i
		objs.Objs, objs.Sizes = append(objs.Objs, root), append(objs.Sizes, int64(size))
	}
	objs.Open = func(ctx context.Context, i int) (b3.Object, error) { return mine.OpenObject(ctx, objs.Objs[i]) }
	r.script(func(root b3.Root) error {
		if index[root]%10 == 4 {
			return status.Errorf(status.Denied, "test receiver: denied")
		}
		return nil
	}, func(root b3.Root, _ int64) error {
		if index[root]%10 == 5 {
			return status.Errorf(status.Quota, "test receiver: quota")
		}
		return nil
	})
	errs, err := p.client.PutMany(t.Context(), serverID, objs, withToken)
	if err != nil {
		t.Fatal(err)
	}
	for i, root := range objs.Objs {
		want := map[int]status.Outcome{4: status.NotAllowed, 5: status.Quota}[i%10]
		if objs.Sizes[i] == 0 {
			continue // many of them are one object
		}
		if status.Of(errs[i]) != want || (p.store.get(root) != nil) != (want == status.OK) {
			t.Errorf("object %d: %v", i, errs[i])
		}
	}
	r.script(nil, nil)
	errs, err = p.client.PutMany(t.Context(), serverID, objs, withToken)
	if again, err2 := p.client.PutMany(t.Context(), serverID, objs, withToken); err != nil || err2 != nil ||
		slices.ContainsFunc(slices.Concat(errs, again), func(err error) bool { return err != nil }) {
		t.Error(err, err2)
	}
	if p.client.open() != 1 || mine.open.Load() != 0 {
		t.Errorf("%d streams, %d objects are open", p.client.open(), mine.open.Load())
	}
	if _, err := p.client.PutMany(t.Context(), serverID, SmallObjects{},
		withToken); status.Of(err) != status.BadRequest {
		t.Error(err)
	}
	r.commit = func() error { return errors.New("a bug") }
	extra := SmallObjects{Objs: []b3.Root{mine.put([]byte("extra"))}, Sizes: []int64{5}}
	extra.Open = func(ctx context.Context, i int) (b3.Object, error) { return mine.OpenObject(ctx, extra.Objs[i]) }
	errs, err = p.client.PutMany(t.Context(), serverID, extra, withToken)
	if err != nil || status.Of(errs[0]) != status.Upstream {
		t.Error(errs, err)
	}
	extra.Sizes[0] = 4
	if _, err := p.client.PutMany(t.Context(), serverID, extra, withToken); status.Of(err) != status.Internal {
		t.Error("another size:", err)
	}
}

// TestPutRefused: without the capability, and when the receiver does not take it, nothing
// is sent.
func TestPutRefused(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	root := mine.put(testData(3*b3.GroupSize, 1))
	put := func(o PutOptions, want status.Outcome) {
		t.Helper()
		o.Wait = func(context.Context, int) error { t.Error("items are sent"); return nil }
		if _, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), o); status.Of(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	put(PutOptions{}, status.Unauthenticated)
	put(PutOptions{Capability: []byte("stolen")}, status.Forbidden)
	put(PutOptions{Capability: make([]byte, oap.MaxCap+1)}, status.FrameOversize)
	for _, o := range []status.Outcome{status.Busy, status.Quota, status.Denied, status.NoSpace} {
		r.script(func(b3.Root) error { return status.Errorf(o, "test receiver: no") }, nil)
		put(withToken, o)
	}
	if p.client.open() != 1 || len(r.offers) != 4 {
		t.Errorf("%d streams, %d offers", p.client.open(), len(r.offers))
	}
	none := newPair(t, testkit.Options{}, DefaultConfig())
	_, err := none.client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken)
	if status.Of(err) != status.Unsupported {
		t.Error(err)
	}
}

// TestPutDamaged: bytes that are damaged here are reported here and not sent.
func TestPutDamaged(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	data := testData(5*b3.GroupSize, 1)
	root := mine.put(data)
	data[2*b3.GroupSize+5] ^= 1
	if _, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root),
		withToken); !errors.Is(err, b3.ErrCorrupt) {
		t.Error(err)
	}
	if n := len(mine.get(root).failed); n != 1 || p.client.open() != 0 {
		t.Errorf("%d reports, %d streams are kept", n, p.client.open())
	}
	testkit.Eventually(t, "the server ends the put", func() bool { return r.closes() == 1 })
	if part := r.part(root); part.stored || part.writes > 3 {
		t.Errorf("stored %t, %d groups", part.stored, part.writes)
	}
}

// putter sends the frames of a put by hand.
func (a *asker) put(corr uint64, capability, payload string) {
	a.t.Helper()
	a.send(oap.Frame{
		Header: oap.Header{Flags: oap.FlagReq | oap.FlagStart, Proto: oap.ProtoObject, CorrID: corr},
		Cap:    []byte(capability), Payload: []byte(payload),
	})
}

func putOf(root b3.Root, size int) string {
	return fmt.Sprintf(`{"op":"put","obj":"%s","size":%d}`, root, size)
}

// itemFrames are the frames in which an honest peer puts data, one item or group in each
// after the size proof.
func itemFrames(t testing.TB, corr uint64, data []byte) (frames []oap.Frame) {
	t.Helper()
	s := newMemStore()
	root := s.put(data)
	size := int64(len(data))
	reader := s.get(root).Reader()
	add := func(p []byte) {
		frames = append(frames, oap.Frame{
			Header: oap.Header{Flags: oap.FlagReq, Proto: oap.ProtoObject, CorrID: corr}, Payload: p,
		})
	}
	var one []byte
	proof, err := reader.SizeProof()
	if err != nil {
		t.Fatal(err)
	}
	walk, err := reader.Walk(missingRuns(nil, size))
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, b3.GroupSize)
	for item, more := proof.Next(); more; item, more = proof.Next() {
		if _, err := reader.Fill(proof, buf); err != nil {
			t.Fatal(err)
		}
		one = append(one, buf[:item.Len]...)
	}
	add(one)
	for item, more := walk.Next(); more; item, more = walk.Next() {
		if _, err := reader.Fill(walk, buf); err != nil {
			t.Fatal(err)
		}
		add(bytes.Clone(buf[:item.Len]))
	}
	frames[len(frames)-1].Flags |= oap.FlagEnd
	return frames
}

// TestPutLies sends puts that are wrong in one way each. The receiver never stores what is
// not whole, and what it got before the lie it keeps.
func TestPutLies(t *testing.T) {
	data := testData(3*b3.GroupSize+100, 1)
	root := b3.Sum(data)
	const size = 3*b3.GroupSize + 100
	type frames = []oap.Frame
	for _, tc := range []struct {
		name   string
		size   int // claimed
		lie    func(frames) frames
		code   uint16 // of the answer; 0: the stream is reset
		reset  network.StreamErrorCode
		groups int // that are stored
	}{
		{"the truth", size, nil, 200, 0, 4},
		{"a bit of the size proof", size, func(f frames) frames { f[0].Payload[3] ^= 1; return f }, 502, 0, 0},
		{"a bit of the last group", size, func(f frames) frames { f[0].Payload[200] ^= 1; return f }, 502, 0, 0},
		{"a bit of a group", size, func(f frames) frames { f[4].Payload[9] ^= 1; return f }, 502, 0, 2},
		{"groups in another order", size, func(f frames) frames {
			f[3].Payload, f[4].Payload = f[4].Payload, f[3].Payload
			return f
		}, 502, 0, 1},
		{"a size too small", 2 * b3.GroupSize, nil, 400, 0, 0},
		{"a size of nothing", 0, nil, 502, 0, 0},
		{"a size too large", size + 1, nil, 400, 0, 0},
		{"a size far too large", 1 << 40, nil, 502, 0, 0},
		{"no size proof", size, func(f frames) frames { return f[1:] }, 400, 0, 0},
		{"half a size proof", size, func(f frames) frames { f[0].Payload = f[0].Payload[:64]; return f }, 400, 0, 0},
		{"more than the size proof", size, func(f frames) frames {
			f[0].Payload = append(f[0].Payload, 0)
			return f
		}, 400, 0, 1},
		{"half a group", size, func(f frames) frames { f[4].Payload = f[4].Payload[:100]; return f }, 400, 0, 2},
		{"an empty frame", size, func(f frames) frames {
			e := f[1]
			e.Payload = nil
			return slices.Insert(f, 2, e)
		}, 400, 0, 1},
		{"a group twice", size, func(f frames) frames { return slices.Insert(f, 4, f[3]) }, 502, 0, 2},
		{"END too early", size, func(f frames) frames { f[3].Flags |= oap.FlagEnd; return f[:4] }, 400, 0, 2},
		{"END nowhere", size, func(f frames) frames { f[len(f)-1].Flags &^= oap.FlagEnd; return f }, 400, 0, 4},
		{"END with the proof alone", size,
			func(f frames) frames { f[0].Flags |= oap.FlagEnd; return f[:1] }, 400, 0, 1},
		{"another corr_id", size, func(f frames) frames { f[2].CorrID = 9; return f }, 0, 0xA104, 1},
		{"another protocol", size, func(f frames) frames { f[2].Proto = oap.ProtoIndex; return f }, 0, 0xA104, 1},
		{"a code", size, func(f frames) frames { f[2].Code = 200; return f }, 0, 0xA104, 1},
		{"compressed", size, func(f frames) frames { f[2].Flags |= oap.FlagComp; return f }, 0, 0xA104, 1},
		{"an event", size, func(f frames) frames { f[2].Flags = oap.FlagEvent; return f }, 0, 0xA104, 1},
		{"an answer", size, func(f frames) frames { f[2].Flags = oap.FlagResp; return f }, 0, 0xA104, 1},
		{"another request", size, func(f frames) frames {
			f[2].Flags = oap.FlagReq | oap.FlagStart | oap.FlagEnd
			return f
		}, 0, 0xA104, 1},
		{"stalls", size, func(f frames) frames { return f[:4] }, 0, codeTimeout, 2},
		{"never begins", size, func(f frames) frames { return nil }, 0, codeTimeout, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, r := newPutPair(t, DefaultConfig())
				a := p.ask(t)
				a.put(1, token, putOf(root, tc.size))
				if f, err := a.r.Next(); err != nil || f.Flags != oap.FlagResp|oap.FlagStart || f.Code != 0 {
					t.Fatalf("%s %d %s, %v", f.Flags, f.Code, f.Payload, err)
				}
				f := itemFrames(t, 1, data)
				if tc.lie != nil {
					f = tc.lie(f)
				}
				for _, f := range f {
					raw, err := encodeItems(f)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := a.st.Write(raw); err != nil {
						break
					}
				}
				begin := time.Now()
				if tc.code != 0 {
					if f, _ := a.end(); f.Code != tc.code {
						t.Errorf("code %d %s, want %d", f.Code, f.Payload, tc.code)
					}
				} else if code := a.reset(); code != tc.reset {
					t.Errorf("reset with %#x, want %#x", code, tc.reset)
				}
				if tc.reset == codeTimeout && time.Since(begin) != DefaultConfig().ReadTimeout {
					t.Errorf("after %s", time.Since(begin))
				}
				if tc.code == 200 {
					a.want(2, getOf(root))
					if f, n := a.end(); f.Code != 200 || n < size {
						t.Errorf("code %d, %d bytes", f.Code, n)
					}
				}
				_ = a.st.Reset()
				synctest.Wait()
				part := r.part(root)
				if part.stored != (tc.code == 200) || part.open || r.closes() != 1 {
					t.Errorf("stored %t, open %t, %d closes", part.stored, part.open, r.closes())
				}
				have := 0
				for g, ok := range part.groups {
					if ok {
						have++
						from, end := g*b3.GroupSize, min(len(data), (g+1)*b3.GroupSize)
						if !bytes.Equal(part.data[from:end], data[from:end]) {
							t.Errorf("group %d is wrong", g)
						}
					}
				}
				if have != tc.groups {
					t.Errorf("%d groups are stored, want %d", have, tc.groups)
				}
			})
		})
	}
}

// encodeItems is EncodeFrame for a frame of items, which may be longer.
func encodeItems(f oap.Frame) ([]byte, error) {
	var out bytes.Buffer
	b := oap.NewBuilder(oap.MaxFrame)
	b.Reset(f.Header)
	copy(b.Next(len(f.Payload)), f.Payload)
	b.Commit(len(f.Payload))
	err := oap.NewWriter(&out, oap.MaxFrame).WriteBuilder(b)
	return out.Bytes(), err
}

// TestPutAfterEnd goes on after the end of a put, refused or not: the stream is reset.
func TestPutAfterEnd(t *testing.T) {
	data := testData(b3.GroupSize+1, 1)
	root := b3.Sum(data)
	for name, capability := range map[string]string{"stored": token, "refused": "stolen"} {
		t.Run(name, func(t *testing.T) {
			p, _, r := newPutPair(t, DefaultConfig())
			a := p.ask(t)
			a.put(1, capability, putOf(root, len(data)))
			f := itemFrames(t, 1, data)
			if capability == token {
				if _, err := a.r.Next(); err != nil {
					t.Fatal(err)
				}
				for _, f := range f {
					a.sendItems(f)
				}
			}
			if f, _ := a.end(); f.Code != 200 && f.Code != 403 {
				t.Fatal(f.Code)
			}
			a.sendItems(f[0])
			if code := a.reset(); code != network.StreamErrorCode(oap.ReasonFrameOversize.StreamErrorCode()) &&
				code != network.StreamErrorCode(oap.ReasonBadFlags.StreamErrorCode()) {
				t.Errorf("%#x", code)
			}
			if n := len(r.offers); n > 1 {
				t.Errorf("%d offers", n)
			}
		})
	}
}

func (a *asker) sendItems(f oap.Frame) {
	a.t.Helper()
	raw, err := encodeItems(f)
	if err != nil {
		a.t.Fatal(err)
	}
	_, _ = a.st.Write(raw) // the peer may have reset the stream
}

// TestPutMalformed: requests that are no puts.
func TestPutMalformed(t *testing.T) {
	p, _, r := newPutPair(t, DefaultConfig())
	one := `"` + b3.Root{1}.String() + `"`
	many := func(n int) (objs, sizes string) {
		for i := range n {
			sep := ","
			if i == 0 {
				sep = ""
			}
			objs, sizes = objs+sep+one, sizes+sep+"1"
		}
		return objs, sizes
	}
	objs, sizes := many(MaxPut + 1)
	for _, payload := range []string{
		`{"op":"put"}`, `{"op":"put","obj":` + one + `}`, `{"op":"put","size":1}`,
		`{"op":"put","obj":` + one + `,"size":-1}`, `{"op":"put","obj":` + one + `,"size":1.5}`,
		`{"op":"put","obj":` + one + `,"size":9007199254740992}`,
		`{"op":"put","obj":` + one + `,"size":1,"objs":[` + one + `],"sizes":[1]}`,
		`{"op":"put","obj":` + one + `,"size":1,"size_proof":true}`,
		`{"op":"put","obj":"` + b3.Root{}.String() + `","size":1}`,
		`{"op":"put","objs":[],"sizes":[]}`, `{"op":"put","objs":[` + one + `],"sizes":[]}`,
		`{"op":"put","objs":[` + one + `],"sizes":[1,2]}`, `{"op":"put","objs":[` + one + `],"sizes":[65537]}`,
		`{"op":"put","objs":[` + one + `],"sizes":[-1]}`, `{"op":"put","objs":[` + objs + `],"sizes":[` + sizes + `]}`,
	} {
		a := p.ask(t)
		a.put(1, token, payload)
		if f, _ := a.end(); f.Code != 400 {
			t.Errorf("%.80s: %d %s", payload, f.Code, f.Payload)
		}
		_ = a.st.Reset()
	}
	a := p.ask(t)
	a.want(1, putOf(b3.Root{1}, 1)) // ends with its first frame
	if f, _ := a.end(); f.Code != 400 || len(r.offers) != 0 {
		t.Errorf("%d %s, %d offers", f.Code, f.Payload, len(r.offers))
	}
	_ = a.st.Reset()
}
