package resolver

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/status"
)

func last(blobs []*blob) *blob { return blobs[len(blobs)-1] }

// whole reports what of blobs is not local.
func (w *world) missing(blobs []*blob) (n int) {
	for _, b := range blobs {
		if !w.local.has(b.root) {
			n++
		}
	}
	return n
}

func size(blobs []*blob) (n int64) {
	for _, b := range blobs {
		n += int64(len(b.data))
	}
	return n
}

func TestTreeTakesFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		all := flat(t, 1, 5000, 100)
		root := last(all)
		w.net.peer("a", all...).latency = 20 * time.Millisecond
		w.has([]peer.ID{"a"}, root)
		var last Progress
		info, err := w.FetchTree(t.Context(), root.root, FetchOptions{Progress: func(p Progress) { last = p }})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.missing(all); n > 0 {
			t.Fatalf("%d objects are missing", n)
		}
		n, bytes := int64(len(all)), size(all)
		want := TreeInfo{
			Root: root.root, Directory: true, Objects: n, Bytes: bytes, Fetched: n, FetchedBytes: bytes,
			Peers: 1, Duration: info.Duration, LookupID: info.LookupID,
		}
		if info != want || info.LookupID == 0 {
			t.Errorf("got  %+v\nwant %+v", info, want)
		}
		if last != (Progress{Objects: n, ObjectsKnown: n, Bytes: bytes, BytesKnown: bytes, Peers: 1}) {
			t.Errorf("the last report is %+v", last)
		}
		// The root, its leaves in one request, and files by the 256.
		reqs := w.net.requests("")
		if most := 1 + 1 + (5000+255)/256 + 1; len(reqs) > most {
			t.Errorf("%d requests, want at most %d", len(reqs), most)
		}
		for _, req := range reqs {
			if len(req.Objs) > object.MaxGet {
				t.Errorf("a request for %d objects", len(req.Objs))
			}
		}
		if w.net.peak < 4 || w.net.peak > w.cfg.Load().TreeRequests {
			t.Errorf("%d requests in flight", w.net.peak)
		}
		if w.local.flushes != 2 {
			t.Errorf("%d flushes", w.local.flushes)
		}
		if got := w.local.order[len(w.local.order)-1]; got != root.root {
			t.Error("the root was not stored last")
		}

		// Once more: nothing is asked for.
		again, err := w.FetchTree(t.Context(), root.root, FetchOptions{})
		if err != nil || again.Fetched != 0 || again.Skipped != n || again.Objects != n {
			t.Errorf("again: %+v, %v", again, err)
		}
		if len(w.net.requests("")) != len(reqs) {
			t.Error("what is local was asked for")
		}
		// What is gone is fetched, and nothing else.
		delete(w.local.objects, all[17].root)
		again, err = w.FetchTree(t.Context(), root.root, FetchOptions{})
		if err != nil || again.Fetched != 1 || w.missing(all) > 0 {
			t.Errorf("one missing: %+v, %v", again, err)
		}
	})
}

// nested is a tree with directories in directories, a shared one, shared files,
// links, empty files, files of several groups, and large ones.
func nested(t testing.TB) []*blob {
	var all []*blob
	shared := randomBlob(1000, 500)
	empty := newBlob(nil)
	common := flat(t, 1001, 20, 50)
	all = append(all, shared, empty)
	all = append(all, common...)
	var top []manifest.Entry
	for i := range 30 {
		mid := randomBlob(uint64(2000+i), 3*group+i)
		one := randomBlob(uint64(3000+i), group)
		var inner []manifest.Entry
		for k := range 10 {
			b := randomBlob(uint64(4000+100*i+k), 10+k)
			all = append(all, b)
			inner = append(inner, file(fmt.Sprint(k), b))
		}
		inner = append(inner, file("shared", shared), file("empty", empty),
			manifest.Entry{Name: "link", Kind: manifest.Link, Target: "shared"})
		deep := dir(t, inner...)
		outer := dir(t, subdir("deep", last(deep)), subdir("common", last(common)), file("mid", mid), file("one", one))
		all = append(all, mid, one)
		all = append(all, deep...)
		all = append(all, outer...)
		top = append(top, subdir(fmt.Sprintf("dir-%02d", i), last(outer)))
	}
	for i := range 4 {
		b := randomBlob(uint64(5000+i), maxBatched+1+i*group)
		all = append(all, b)
		top = append(top, file(fmt.Sprintf("large-%d", i), b))
	}
	return append(all, dir(t, top...)...)
}

func TestTreeOfAllKinds(t *testing.T) {
	all := nested(t)
	w := newWorld(t, nil)
	w.net.peer("a", all...)
	w.has([]peer.ID{"a"}, last(all))
	info, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := w.missing(all); n > 0 {
		t.Errorf("%d objects are missing", n)
	}
	distinct := map[b3.Root]bool{}
	for _, b := range all {
		distinct[b.root] = true
	}
	if info.Fetched != int64(len(distinct)) {
		t.Errorf("fetched %d objects, there are %d", info.Fetched, len(distinct))
	}
	// One for the root, and one for a large file whose provider is slow.
	if n := w.finder.count(); n < 1 || n > 1+4 {
		t.Errorf("%d lookups, want one for the root and at most one for each of 4 large files", n)
	}
	asked := map[b3.Root]int{}
	for _, req := range w.net.requests("") {
		if len(req.Ranges) > 0 {
			continue // of a large file, see below
		}
		for _, root := range req.Objs {
			asked[root]++
		}
	}
	for _, b := range all {
		w.onlyOnce(t, b)
	}
	for root, n := range asked {
		if n > 1 && root != last(all).root {
			t.Errorf("%s was asked for %d times", root, n)
		}
	}
}

// A directory that takes several nodes.
func TestTreeWithSplitManifest(t *testing.T) {
	all := flat(t, 3, 9000, 8)
	nodes := len(all) - 9000
	if nodes < 3 {
		t.Fatalf("the directory has %d nodes, the test wants an index", nodes)
	}
	w := newWorld(t, nil)
	w.net.peer("a", all...)
	w.has([]peer.ID{"a"}, last(all))
	info, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{})
	if err != nil || w.missing(all) > 0 || info.Objects != int64(len(all)) {
		t.Errorf("%+v, %v, %d missing", info, err, w.missing(all))
	}
}

func TestTreeFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := nested(t)
		root := last(all)
		w := newWorld(t, nil)
		// One has half of it, one lies now and then, one stalls, one is busy at
		// first, and only the fifth is as it should be.
		half := w.net.peer("half", all...)
		for i, b := range all {
			if i%2 == 0 && b != root {
				delete(half.objects, b.root)
			}
		}
		w.net.peer("liar", all...).spoil = func(r b3.Root, _ int64) bool { return r != root.root && r[0]%16 == 0 }
		w.net.peer("slow", all...).before = func(ctx context.Context, g int64) error { return stall(ctx) }
		w.net.peer("busy", all...).refuse = func(n int) error {
			if n < 3 {
				return status.Errorf(status.Busy, "no")
			}
			return nil
		}
		w.net.peer("good", all...)
		w.has([]peer.ID{"half", "liar", "slow", "busy", "good"}, root)
		info, err := w.FetchTree(t.Context(), root.root, FetchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.missing(all); n > 0 {
			t.Errorf("%d objects are missing", n)
		}
		if info.Peers < 3 {
			t.Errorf("%d peers", info.Peers)
		}
	})
}

// What the tree's providers do not have is looked for by itself.
func TestTreeAsksTheObjectsOwnProviders(t *testing.T) {
	all := flat(t, 5, 600, 20)
	root := last(all)
	w := newWorld(t, nil)
	w.net.peer("tree", all...)
	var elsewhere []*blob
	for i, b := range all[:600] {
		if i%3 == 0 {
			elsewhere = append(elsewhere, b)
			delete(w.net.peers["tree"].objects, b.root)
		}
	}
	w.net.peer("other", elsewhere...)
	w.has([]peer.ID{"tree"}, root)
	w.has([]peer.ID{"other"}, elsewhere...)
	if _, err := w.FetchTree(t.Context(), root.root, FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := w.missing(all); n > 0 {
		t.Errorf("%d objects are missing", n)
	}
	if n := len(w.net.requests("other")); n > 4 {
		t.Errorf("%d requests to the other provider for %d objects", n, len(elsewhere))
	}
}

func TestTreeFails(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wrong func(w *world, all []*blob)
		want  status.Outcome
		in    string
	}{
		{"an object nobody has", func(w *world, all []*blob) { delete(w.net.peers["a"].objects, all[7].root) },
			status.NotFound, ""},
		{"an object that is wrong everywhere", func(w *world, all []*blob) {
			w.net.peers["a"].spoil = func(r b3.Root, _ int64) bool { return r == all[7].root }
		}, status.Corrupt, ""},
		{"a full disk", func(w *world, _ []*blob) { w.local.putErr = status.Errorf(status.NoSpace, "full") },
			status.NoSpace, "full"},
		{"nobody has the root", func(w *world, all []*blob) { clear(w.net.peers["a"].objects) }, status.NotFound,
			"1 provider tried"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := flat(t, 6, 1000, 30)
				w := newWorld(t, nil)
				w.net.peer("a", all...)
				w.has([]peer.ID{"a"}, last(all))
				tc.wrong(w, all)
				info, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{})
				if status.Of(err) != tc.want || !strings.Contains(err.Error(), tc.in) {
					t.Errorf("got %v (%s), want %s", err, status.Of(err), tc.want)
				}
				if w.local.has(last(all).root) {
					t.Error("the root of an unfinished tree is local")
				}
				if info.Root != last(all).root {
					t.Errorf("info %+v", info)
				}
			})
		})
	}
}

// A directory entry that misstates a size, or names a file as a directory.
func TestTreeWithFalseEntries(t *testing.T) {
	b, large := randomBlob(50, 100), randomBlob(51, maxBatched+100)
	for _, tc := range []struct {
		name  string
		entry manifest.Entry
		want  status.Outcome
	}{
		{"size too small", manifest.Entry{Name: "f", Root: b.root, Size: 99}, status.Corrupt},
		{"size too large", manifest.Entry{Name: "f", Root: b.root, Size: 2 * group}, status.Corrupt},
		{"large file named small", manifest.Entry{Name: "f", Root: large.root, Size: 10}, status.Corrupt},
		{"small file named large", manifest.Entry{Name: "f", Root: b.root, Size: 1 << 40}, status.BadRequest},
		{"no directory", manifest.Entry{Name: "f", Kind: manifest.Directory, Root: b.root, Size: 100},
			status.BadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := dir(t, tc.entry)
				w := newWorld(t, nil)
				w.net.peer("a", append(nodes, b, large)...)
				w.has([]peer.ID{"a"}, last(nodes))
				_, err := w.FetchTree(t.Context(), last(nodes).root, FetchOptions{})
				if status.Of(err) != tc.want {
					t.Errorf("got %v (%s), want %s", err, status.Of(err), tc.want)
				}
			})
		})
	}
}

// TestTreeRootHead: of a root of unknown kind little is asked for with the proof of its size. The rest of a directory
// follows, and of a file, which a transfer fetches, nothing comes twice beside that.
func TestTreeRootHead(t *testing.T) {
	const head = 128 << 10
	all := flat(t, 3, 3000, 10)
	if n := len(last(all).data); n <= head {
		t.Fatalf("the directory has %d bytes, want more than %d", n, head)
	}
	file := randomBlob(4, 2<<20)
	for _, objects := range [][]*blob{all, {file}} {
		w := newWorld(t, nil)
		w.net.peer("a", objects...)
		root := last(objects)
		w.has([]peer.ID{"a"}, root)
		if _, err := w.FetchTree(t.Context(), root.root, FetchOptions{}); err != nil || w.missing(objects) > 0 {
			t.Errorf("%v, %d objects are missing", err, w.missing(objects))
		}
		first := w.net.requests("")[0]
		if !first.SizeProof || !slices.Equal(first.Ranges, []b3.Range{{Start: 0, End: head}}) {
			t.Errorf("the first request is %+v", first)
		}
	}
}

func TestTreeOfAFile(t *testing.T) {
	for _, b := range []*blob{
		newBlob(nil), randomBlob(60, 10), randomBlob(61, 5*group), randomBlob(62, maxBatched+5),
		newBlob([]byte(manifest.Magic)), newBlob([]byte(manifest.Magic + "not CBOR")),
	} {
		w := newWorld(t, nil)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		for i := range 2 {
			info, err := w.FetchTree(t.Context(), b.root, FetchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Directory || info.Objects != 1 || info.Bytes != int64(len(b.data)) || info.Fetched != int64(1-i) ||
				!w.local.has(b.root) {
				t.Errorf("%d bytes, time %d: %+v, local: %t", len(b.data), i, info, w.local.has(b.root))
			}
		}
	}
}

func TestTreesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := flat(t, 7, 2000, 30)
		w := newWorld(t, nil)
		w.net.peer("a", all...).latency = 10 * time.Millisecond
		w.has([]peer.ID{"a"}, last(all))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		asked := 0
		for _, req := range w.net.requests("") {
			asked += len(req.Objs)
		}
		if asked != len(all) {
			t.Errorf("%d objects were asked for, there are %d", asked, len(all))
		}
	})
}

func TestTreeIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := nested(t)
		w := newWorld(t, nil)
		w.net.peer("a", all...).latency = 10 * time.Millisecond
		w.has([]peer.ID{"a"}, last(all))
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Millisecond)
		defer cancel()
		if _, err := w.FetchTree(ctx, last(all).root, FetchOptions{}); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		if n := len(w.net.requests("")); n < 2 || w.local.has(last(all).root) {
			t.Errorf("%d requests, root local: %t", n, w.local.has(last(all).root))
		}
		info, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{})
		if err != nil || w.missing(all) > 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// A tree of more entries than are held in memory.
func TestTreeMemory(t *testing.T) {
	// More entries than may be held, in directories of 3,000 on three levels.
	var all []*blob
	leaf := randomBlob(70, 10)
	all = append(all, leaf)
	wide := func(seed int, subdirs []*blob) *blob {
		var entries []manifest.Entry
		for i := range 3000 {
			entries = append(entries, file(fmt.Sprintf("%d-%d", seed, i), leaf))
		}
		for i, d := range subdirs {
			entries = append(entries, subdir(fmt.Sprintf("z-%d", i), d))
		}
		nodes := dir(t, entries...)
		all = append(all, nodes...)
		return last(nodes)
	}
	var level []*blob
	for i := range 20 {
		level = append(level, wide(i, nil))
	}
	for i := range 4 {
		level[i] = wide(100+i, append([]*blob{level[i]}, level[4+4*i:8+4*i]...))
	}
	root := wide(200, level[:4])

	w := newWorld(t, nil)
	w.net.peer("a", all...)
	w.has([]peer.ID{"a"}, root)
	if _, err := w.FetchTree(t.Context(), root.root, FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := w.missing(all); n > 0 {
		t.Errorf("%d objects are missing", n)
	}

}

// Property: any tree, partly local, fetched from peers each with parts of it,
// is whole afterwards, and what was local is not asked for.
func TestAnyTree(t *testing.T) {
	blobs := []*blob{randomBlob(80, maxBatched), randomBlob(81, maxBatched+1), randomBlob(82, group),
		randomBlob(83, group+1)}
	for i := range 30 {
		blobs = append(blobs, randomBlob(84, i))
	}
	rapid.Check(t, func(rt *rapid.T) {
		var all []*blob
		var grow func(depth int) *blob
		grow = func(depth int) *blob {
			var entries []manifest.Entry
			for i := range rapid.IntRange(0, 8).Draw(rt, "entries") {
				name := fmt.Sprint(i)
				if depth > 0 && rapid.IntRange(0, 2).Draw(rt, "kind") == 0 {
					entries = append(entries, subdir(name, grow(depth-1)))
					continue
				}
				b := blobs[rapid.IntRange(0, len(blobs)-1).Draw(rt, "blob")]
				all = append(all, b)
				entries = append(entries, file(name, b))
			}
			nodes := dir(t, entries...)
			all = append(all, nodes...)
			return last(nodes)
		}
		root := grow(3)
		w := newWorld(t, nil)
		defer w.stop()
		ids := []peer.ID{"p", "q", "r"}
		for _, id := range ids {
			w.net.peer(id, root)
		}
		local := map[b3.Root]bool{}
		for i, b := range all {
			if b != root && rapid.IntRange(0, 3).Draw(rt, "local") == 0 {
				w.local.add(b)
				local[b.root] = true
			}
			w.net.peers[ids[i%3]].objects[b.root] = b
		}
		w.has(ids, root)
		if _, err := w.FetchTree(context.Background(), root.root, FetchOptions{}); err != nil {
			rt.Fatal(err)
		}
		if n := w.missing(all); n > 0 {
			rt.Errorf("%d objects are missing", n)
		}
		for _, req := range w.net.requests("") {
			if slices.ContainsFunc(req.Objs, func(r b3.Root) bool { return local[r] }) {
				rt.Error("a local object was asked for")
			}
		}
		for _, b := range all {
			if got := w.local.objects[b.root]; got != nil && !bytes.Equal(got.data, b.data) {
				rt.Error("other bytes")
			}
		}
	})
}

func BenchmarkFetchTree(b *testing.B) {
	all := flat(b, 8, 10_000, 4096)
	root := last(all)
	for b.Loop() {
		w := newWorld(b, nil)
		w.net.peer("a", all...)
		w.has([]peer.ID{"a"}, root)
		if _, err := w.FetchTree(b.Context(), root.root, FetchOptions{}); err != nil {
			b.Fatal(err)
		}
		w.stop()
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "files/s")
}

func BenchmarkFetchLarge(b *testing.B) {
	x := randomBlob(9, 64<<20)
	b.SetBytes(64 << 20)
	for b.Loop() {
		w := newWorld(b, nil)
		w.net.peer("a", x)
		w.has([]peer.ID{"a"}, x)
		if _, err := w.Fetch(b.Context(), x.root, FetchOptions{}); err != nil {
			b.Fatal(err)
		}
		w.stop()
	}
}
