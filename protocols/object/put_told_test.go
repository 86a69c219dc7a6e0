package object

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// toldObjects returns n objects of 4 KiB, of which something is said.
func toldObjects(mine *memStore, n int) SmallObjects {
	objs := SmallObjects{About: []byte("something")}
	for i := range n {
		objs.Objs = append(objs.Objs, mine.put(testData(4096, uint64(i))))
		objs.Sizes = append(objs.Sizes, 4096)
	}
	objs.Open = func(ctx context.Context, i int) (b3.Object, error) { return mine.OpenObject(ctx, objs.Objs[i]) }
	return objs
}

// TestPutTold: a put that says something of its objects has up to MaxTold of them. The receiver is told it, and
// replies for each that it stored, but not for one that it has or does not take.
func TestPutTold(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	objs := toldObjects(mine, MaxTold)
	p.store.put(testData(4096, 3))
	r.script(func(root b3.Root) error {
		if root == objs.Objs[4] {
			return status.Errorf(status.Denied, "test receiver: denied")
		}
		return nil
	}, func(root b3.Root, _ int64) error {
		if root == objs.Objs[5] {
			return status.Errorf(status.Quota, "test receiver: quota")
		}
		return nil
	})
	replies := map[int]string{}
	objs.Reply = func(i int, reply []byte) { replies[i] = string(reply) }
	errs, err := p.client.PutMany(t.Context(), serverID, objs, withToken)
	if err != nil {
		t.Fatal(err)
	}
	for i, root := range objs.Objs {
		want, reply := status.OK, fmt.Sprintf("something of %d", i)
		switch i {
		case 3:
			reply = ""
		case 4:
			want, reply = status.NotAllowed, ""
		case 5:
			want, reply = status.Quota, ""
		}
		if status.Of(errs[i]) != want || (p.store.get(root) != nil) != (want == status.OK) || replies[i] != reply {
			t.Errorf("object %d: %v, reply %q", i, errs[i], replies[i])
		}
	}
	if len(r.offers) != 1 || string(r.offers[0].About) != "something" || !slices.Equal(r.offers[0].Objs, objs.Objs) {
		t.Error("the receiver was offered something else")
	}
	for _, n := range []int{0, MaxTold + 1} {
		if _, err := p.client.PutMany(t.Context(), serverID, toldObjects(mine, n), withToken); status.Of(err) !=
			status.BadRequest {
			t.Errorf("%d objects: %v", n, err)
		}
	}
}

// TestPutToldBounds: a request is refused whose objects are too many or too large together, or that is malformed.
func TestPutToldBounds(t *testing.T) {
	root := b3.Sum([]byte("x"))
	roots := func(n int) string { return joined(slices.Repeat([]b3.Root{root}, n)) }
	sizes := func(n int, size int64) []int64 { return slices.Repeat([]int64{size}, n) }
	size := int64(1)
	for name, w := range map[string]wirePut{
		"too many":         {Roots: roots(MaxTold + 1), Sizes: sizes(MaxTold+1, 1), About: "YQ"},
		"too large":        {Roots: roots(65), Sizes: sizes(65, b3.GroupSize), About: "YQ"},
		"a large one":      {Roots: roots(1), Sizes: sizes(1, b3.GroupSize+1), About: "YQ"},
		"a negative one":   {Roots: roots(2), Sizes: []int64{1, -1}, About: "YQ"},
		"none":             {About: "YQ"},
		"nothing said":     {Roots: roots(1), Sizes: sizes(1, 1)},
		"too much said":    {Roots: roots(1), Sizes: sizes(1, 1), About: rawText.EncodeToString(make([]byte, MaxAbout+1))},
		"a cut address":    {Roots: rawText.EncodeToString(root[:31]), Sizes: sizes(1, 1), About: "YQ"},
		"no base64url":     {Roots: strings.Repeat("+", 43), Sizes: sizes(1, 1), About: "YQ"},
		"loose bits":       {Roots: roots(1), Sizes: sizes(1, 1), About: "YR"},
		"beside an object": {Obj: root, Size: &size, Roots: roots(1), Sizes: sizes(1, 1), About: "YQ"},
		"beside objects":   {Objs: []b3.Root{root}, Roots: roots(1), Sizes: sizes(1, 1), About: "YQ"},
		"as many as fit":   {Roots: roots(64), Sizes: sizes(64, b3.GroupSize), About: "YQ"},
	} {
		w.Op = opPut
		payload, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		want := status.BadRequest
		if name == "as many as fit" {
			want = status.OK
		}
		if q, err := decodeQuery(payload); status.Of(err) != want || err == nil && q.objs[63] != root {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPutToldFits: a request with the most objects, the longest sizes and the most that can be said fits into the JSON
// of a request. A reply that is too long ends the put.
func TestPutToldFits(t *testing.T) {
	p, mine, _ := newPutPair(t, DefaultConfig())
	objs := SmallObjects{About: make([]byte, MaxAbout), Reply: func(int, []byte) {}}
	for i := range MaxTold {
		size := []int{10_000, 100, 1000, 1000}[i%4] // 3 MiB of most digits
		objs.Objs = append(objs.Objs, mine.put(testData(size, uint64(i))))
		objs.Sizes = append(objs.Sizes, int64(size))
	}
	objs.Open = func(ctx context.Context, i int) (b3.Object, error) { return mine.OpenObject(ctx, objs.Objs[i]) }
	_, err := p.client.PutMany(t.Context(), serverID, objs, withToken)
	if status.Of(err) != status.Upstream || p.store.get(objs.Objs[0]) == nil {
		t.Errorf("a reply that repeats what was said: %v", err)
	}
	w := wirePut{Roots: joined(objs.Objs), Sizes: slices.Repeat([]int64{b3.GroupSize}, MaxTold),
		About: rawText.EncodeToString(objs.About)}
	w.Op, w.DeadlineMS, w.Traceparent = opPut, 1<<53-1, strings.Repeat("0", 55)
	if payload, err := json.Marshal(w); err != nil || len(payload) > oap.MaxJSON {
		t.Errorf("%d bytes of JSON, %v", len(payload), err)
	}
}
