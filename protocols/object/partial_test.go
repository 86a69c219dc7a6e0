package object

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestPartial asks for what a partial object has, and for what it has not.
func TestPartial(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	const size = 6*b3.GroupSize + 10
	root := p.store.put(testData(size, 1))
	whole := p.store.put(testData(100, 2))
	o := p.store.get(root)
	for _, tc := range []struct {
		name   string
		part   []b3.Range // that is here
		ranges []b3.Range
		proof  bool
		want   status.Outcome
		groups int
	}{
		{"inside", []b3.Range{{Start: b3.GroupSize, End: 3 * b3.GroupSize}},
			[]b3.Range{{Start: b3.GroupSize + 5, End: 2*b3.GroupSize + 5}}, false, status.OK, 2},
		{"one byte too many", []b3.Range{{Start: b3.GroupSize, End: 3 * b3.GroupSize}},
			[]b3.Range{{Start: b3.GroupSize, End: 3*b3.GroupSize + 1}}, false, status.NotFound, 0},
		{"one of two", []b3.Range{{Start: 0, End: b3.GroupSize}},
			[]b3.Range{{Start: 0, End: 9}, {Start: 4 * b3.GroupSize, End: 4*b3.GroupSize + 1}},
			false, status.NotFound, 0},
		{"whole", []b3.Range{{Start: 0, End: size - 1}}, nil, false, status.NotFound, 0},
		{"to the end", []b3.Range{{Start: 4 * b3.GroupSize, End: size}}, []b3.Range{{Start: 5 * b3.GroupSize, End: -1}},
			false, status.OK, 2},
		{"to the end, cut", []b3.Range{{Start: 4 * b3.GroupSize, End: size - 1}},
			[]b3.Range{{Start: 5 * b3.GroupSize, End: -1}}, false, status.NotFound, 0},
		{"past the end", []b3.Range{{Start: 4 * b3.GroupSize, End: size}},
			[]b3.Range{{Start: 5 * b3.GroupSize, End: 9 * size}}, false, status.OK, 2},
		{"size proof without the last group", []b3.Range{{Start: 0, End: b3.GroupSize}},
			[]b3.Range{{Start: 0, End: 1}}, true,
			status.NotFound, 0},
		{"size proof", []b3.Range{{Start: 6 * b3.GroupSize, End: size}, {Start: 0, End: b3.GroupSize}},
			[]b3.Range{{Start: 0, End: 1}}, true, status.OK, 2},
		{"no bytes", []b3.Range{{Start: 0, End: 0}}, []b3.Range{{Start: 3, End: 3}}, false, status.OK, 0},
	} {
		o.part = tc.part
		c := newCollect(t, root)
		err := p.client.Get(t.Context(), serverID,
			GetRequest{Objs: []b3.Root{root}, Ranges: tc.ranges, SizeProof: tc.proof},
			c)
		if err == nil {
			err = c.errs[0]
		}
		if status.Of(err) != tc.want || c.groups[0] != tc.groups ||
			c.proved[0] != (tc.proof && tc.want == status.OK ||
				strings.Contains(tc.name, "end") && tc.want == status.OK) {
			t.Errorf("%s: %v, %d groups, size proved: %t", tc.name, err, c.groups[0], c.proved[0])
		}
		if tc.want != status.OK && (err == nil || !strings.Contains(err.Error(), "only a part of")) {
			t.Errorf("%s: %v does not say that a part is here", tc.name, err)
		}
	}
	c := newCollect(t, root, whole) // the rest goes on
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root, whole}}, c); err != nil ||
		status.Of(c.errs[0]) != status.NotFound || c.errs[1] != nil || c.groups[1] != 1 {
		t.Errorf("%v, %v", err, c.errs)
	}
	present, err := p.client.Have(t.Context(), serverID, []b3.Root{root, whole, {1}})
	if err != nil || !slices.Equal(present, []b3.Presence{b3.Partial, b3.Complete, b3.Absent}) {
		t.Errorf("have says %v, %v", present, err)
	}
	if p.store.open.Load() != 0 {
		t.Errorf("%d objects are open", p.store.open.Load())
	}
}

// TestHeldGroups asks which groups of an object a peer has.
func TestHeldGroups(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	const size = 20*b3.GroupSize + 10
	root := p.store.put(testData(size, 1))
	o := p.store.get(root)
	for _, tc := range []struct {
		part     []b3.Range // nil: all
		from, to int64
		present  b3.Presence
		groups   []byte
	}{
		{nil, 0, 64, b3.Complete, nil},
		{[]b3.Range{{Start: 0, End: 3 * b3.GroupSize}}, 0, MaxGroups, b3.Partial, []byte{0b111}},
		{[]b3.Range{{Start: b3.GroupSize, End: 3 * b3.GroupSize}, {Start: 9 * b3.GroupSize, End: size}}, 0, 30,
			b3.Partial, []byte{0b110, 0b1111_1110, 0b1_1111}},
		{[]b3.Range{{Start: b3.GroupSize, End: 3 * b3.GroupSize}, {Start: 9 * b3.GroupSize, End: size}}, 2, 11,
			b3.Partial, []byte{0b1000_0001, 1}},
		{[]b3.Range{{Start: 20 * b3.GroupSize, End: size}}, 20, 21, b3.Partial, []byte{1}},
		{[]b3.Range{{Start: 20 * b3.GroupSize, End: size - 1}}, 20, 21, b3.Partial, []byte{}},
		{[]b3.Range{{Start: 0, End: b3.GroupSize}}, 1 << 40, 1<<40 + 9, b3.Partial, []byte{}},
	} {
		o.part = tc.part
		present, groups, err := p.client.Held(t.Context(), serverID, root, tc.from, tc.to)
		if err != nil || present != tc.present || !bytes.Equal(groups, tc.groups) {
			t.Errorf("%v, groups %d to %d: %v %08b, %v; want %v %08b", tc.part, tc.from, tc.to, present, groups, err,
				tc.present, tc.groups)
		}
	}
	if present, groups, err := p.client.Held(t.Context(), serverID, b3.Root{1}, 0, 9); err != nil ||
		present != b3.Absent || len(groups) > 0 {
		t.Errorf("of another: %v %v, %v", present, groups, err)
	}
	for _, bad := range [][2]int64{{-1, 3}, {3, 3}, {5, 3}, {0, MaxGroups + 1}} {
		if _, _, err := p.client.Held(t.Context(), serverID, root, bad[0], bad[1]); status.Of(err) != status.BadRequest {
			t.Errorf("groups %v: %v", bad, err)
		}
	}
	if p.store.open.Load() != 0 {
		t.Errorf("%d objects are open", p.store.open.Load())
	}
}

// TestFailedIsTold: the object whose bytes are damaged learns of it.
func TestFailedIsTold(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	root := p.store.put(testData(3*b3.GroupSize, 1))
	o := p.store.get(root)
	o.source = patched{o.source, 1, make([]byte, b3.GroupSize)}
	c := newCollect(t, root)
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}},
		c); status.Of(cmpErr(err, c.errs[0])) != status.Corrupt {
		t.Fatalf("%v, %v", err, c.errs)
	}
	var at *b3.GroupError
	told := slices.DeleteFunc(o.failed, func(err error) bool { return err == nil })
	if len(told) != 1 || !errors.As(told[0], &at) || at.Group != 1 {
		t.Errorf("told of %v", o.failed)
	}
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// TestServeRate sends an object at a rate: it takes the time that the bytes need, and no less whoever
// asks.
func TestServeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		p := newPairAt(t, testkit.Options{}, cfg, 1<<20, 0)
		defer p.stop()
		root := p.store.put(testData(5<<20, 1))
		begin := time.Now()
		done := make(chan error)
		for range 2 {
			go func() { done <- p.get(t, serverID, root) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		// 10 MiB and the parents.
		if took := time.Since(begin); took < 9800*time.Millisecond || took > 10200*time.Millisecond {
			t.Errorf("10 MiB at 1 MiB/s took %s", took)
		}
	})
}

// TestDownloadRate receives objects at a rate, several at once: the server cuts none of its streams off
// because the client reads slowly, and the client says when it waits for the rate.
func TestDownloadRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPairAt(t, testkit.Options{}, DefaultConfig(), 0, 256<<10)
		defer p.stop()
		root := p.store.put(testData(2<<20, 1))
		begin := time.Now()
		done := make(chan error)
		for range 6 {
			go func() {
				asked, waited := time.Now(), time.Duration(0)
				err := p.client.Get(t.Context(), serverID, GetRequest{
					Objs: []b3.Root{root},
					Waiting: func(wait func() error) error {
						begun := time.Now()
						defer func() { waited += time.Since(begun) }()
						return wait()
					},
				}, newCollect(t, root))
				if rest := time.Since(asked) - waited; rest > time.Second {
					t.Errorf("%s passed without a wait for the rate", rest)
				}
				done <- err
			}()
		}
		for range 6 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		// 12 MiB and the parents.
		if took := time.Since(begin); took < 47*time.Second || took > 49*time.Second {
			t.Errorf("12 MiB at 256 KiB/s took %s", took)
		}
	})
}

// TestUploadRateOfPuts puts an object at a rate. The server waits for it.
func TestUploadRateOfPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, mine, _ := newPutPair(t, DefaultConfig())
		defer p.stop()
		p.client.upload = bandwidthOf("node.upload_rate", 256<<10)
		root := mine.put(testData(4<<20, 1))
		begin := time.Now()
		if isNew, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken); err != nil || !isNew {
			t.Errorf("new %t, %v", isNew, err)
		}
		// 4 MiB and the parents.
		if took := time.Since(begin); took < 15500*time.Millisecond || took > 16500*time.Millisecond {
			t.Errorf("4 MiB at 256 KiB/s took %s", took)
		}
	})
}

// TestServeRateRefuses crowds a slow server: who would wait longer than the
// permit wait is told so, with the limit, and the others are served.
func TestServeRateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		const askers = 40
		cfg.PeerInflight = askers
		p := newPairAt(t, testkit.Options{}, cfg, 64<<10, 0)
		defer p.stop()
		root := p.store.put(testData(b3.GroupSize, 1))
		askedAll := make([]*asker, askers)
		for i := range askedAll {
			askedAll[i] = p.ask(t)
			askedAll[i].want(uint64(i), getOf(root))
		}
		served, refused := 0, 0
		for _, a := range askedAll {
			switch f, _ := a.end(); f.Code {
			case 200:
				served++
			case 429:
				refused++
				if !strings.Contains(string(f.Payload), "node.upload_rate") {
					t.Errorf("refused with %s", f.Payload)
				}
			default:
				t.Errorf("answered %d %s", f.Code, f.Payload)
			}
		}
		// As many as the permit wait gives.
		if served < 3 || served > 5 || refused != askers-served {
			t.Errorf("%d served, %d refused", served, refused)
		}
	})
}
