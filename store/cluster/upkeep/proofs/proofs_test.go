package proofs

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// TestNewsAreBounded: however many objects change, a batch has a bounded number of them, and all pages are to be
// written before there are too many batches. What was written is read again.
func TestNewsAreBounded(t *testing.T) {
	t.Parallel()
	r := New(ds.NewMapDatastore(), slog.New(slog.DiscardHandler))
	at := time.UnixMilli(1_700_000_000_123)
	proved := func(roots []b3.Root) Of {
		objs := Of{}
		for _, root := range roots {
			objs[root] = []plan.Proof{{Holder: "a", At: at}}
		}
		return objs
	}
	for i := range 2*newsBatch + 1 {
		r.News.Add([]b3.Root{{byte(i), byte(i >> 8)}})
	}
	if !r.WriteNews(t.Context(), proved) || len(r.News.roots) != 0 || r.batch != 3 {
		t.Errorf("of %d objects there are %d batches, and %d objects are left", 2*newsBatch+1, r.batch, len(r.News.roots))
	}
	objs := Of{}
	New(r.ds, r.log).LoadBatches(t.Context(), func(batch Of) {
		for root, list := range batch {
			objs[root] = list
		}
	})
	if len(objs) != 2*newsBatch+1 {
		t.Errorf("%d objects are read again", len(objs))
	}
	full := 0
	for i := range 3 * maxBatches {
		r.News.Add([]b3.Root{{byte(i)}})
		if !r.WriteNews(t.Context(), proved) {
			full++
			r.Write(t.Context(), nil, true, nil)
		}
		if r.batch > maxBatches {
			t.Fatalf("there are %d batches", r.batch)
		}
	}
	if full < 2 {
		t.Errorf("all pages are written %d times", full)
	}
}

// TestKeptPages: a page is what was put in, bounded, and the same bytes for the same proofs.
func TestKeptPages(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	objs := Of{}
	for i := range 1000 {
		root := b3.Root{3: byte(i), 4: byte(i >> 8)}
		for j := range 1 + i%3 {
			holder := plan.ID(bytes.Repeat([]byte{byte(j)}, 38))
			objs[root] = append(objs[root], plan.Proof{
				Holder: holder, Piece: plan.Piece(i % 65), At: at.Add(time.Duration(i) * time.Millisecond),
			})
		}
	}
	data, err := encode(objs)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := encode(objs); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the second time it is another page, %v", err)
	}
	got := Of{}
	if err := decode(0, data, got); err != nil || len(got) != len(objs) {
		t.Fatalf("%d objects, %v", len(got), err)
	}
	for root, want := range objs {
		for i, p := range got[root] {
			if p.Holder != want[i].Holder || p.Piece != want[i].Piece || !p.At.Equal(want[i].At) {
				t.Fatalf("%s is %+v, was %+v", root, p, want[i])
			}
		}
	}
	if err := decode(1, data, got); err == nil {
		t.Error("objects of another page are taken")
	}
	for n := range 100 {
		for i := range 1000 {
			holder := plan.ID([]byte{byte(i)})
			root := b3.Root{1: byte(n), 3: byte(i), 4: byte(i >> 8)}
			for range 32 {
				objs[root] = append(objs[root], plan.Proof{Holder: holder, At: at})
			}
		}
	}
	if data, err = encode(objs); err != nil || len(data) > maxPage {
		t.Errorf("a page of %d bytes, %v", len(data), err)
	}
}

// FuzzKept: no page does harm.
func FuzzKept(f *testing.F) {
	good, err := encode(Of{b3.Root{1}: {{Holder: "a", At: time.UnixMilli(5)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:len(good)-32])
	f.Fuzz(func(t *testing.T, text []byte) {
		sum := b3.Sum(text)
		objs := Of{}
		if decode(0, append(text, sum[:]...), objs) == nil {
			for root, list := range objs {
				o := plan.NewObject(root, 1, time.Now())
				for _, p := range list {
					o.Restore(p, plan.TestnetParams(), time.Now())
				}
			}
		}
	})
}
