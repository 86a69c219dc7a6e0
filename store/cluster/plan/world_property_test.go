package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/store/meta"
)

// TestClusterConverges: whatever happens, no node drops a copy that its targets ask for, no
// more copies are made than two sides of a partition make, and when it is quiet again each
// object that is left has exactly the copies asked for.
func TestClusterConverges(t *testing.T) { checkConverges(t, false) }

// TestShardsConverge: so it is with shards, as long as enough of them are left.
func TestShardsConverge(t *testing.T) { checkConverges(t, true) }

func checkConverges(t *testing.T, coded bool) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		nodes := rapid.IntRange(5, 14).Draw(t, "nodes")
		domains := rapid.IntRange(1, nodes).Draw(t, "domains")
		for i := range nodes {
			w.add(Place{Domain: string(rune('a' + i%domains))}, 1<<30<<rapid.IntRange(0, 3).Draw(t, "capacity"))
		}
		w.run(3 * time.Second)
		objects := rapid.IntRange(1, 6).Draw(t, "objects")
		for i := range objects {
			n := w.nodes[rapid.IntRange(0, nodes-1).Draw(t, "origin")]
			target := meta.Target{Copies: rapid.IntRange(1, 4).Draw(t, "copies")}
			if coded && i%2 == 0 {
				codings := []meta.Target{{Data: 2, Parity: 1}, {Data: 2, Parity: 2}, {Data: 3, Parity: 1}}
				target = rapid.SampledFrom(codings).Draw(t, "coding")
			}
			w.ask(n, number(i), int64(1+i)<<18, target)
		}
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
			switch rapid.SampledFrom([]string{
				"stop", "start", "wipe", "split", "heal", "join", "remove", "change", "leave", "rot", "ask", "lie",
			}).Draw(t, "event") {
			case "stop":
				w.stop(n)
			case "start":
				if !n.alive {
					w.start(n)
				}
			case "wipe":
				w.stop(n)
				w.wipe(n)
				w.start(n)
			case "split":
				for _, x := range w.nodes {
					w.group[x.id] = w.rng.IntN(2)
				}
			case "heal":
				clear(w.group)
			case "join":
				w.add(Place{Domain: "new"}, 1<<32)
			case "remove", "change", "ask":
				root := number(rapid.IntRange(0, objects-1).Draw(t, "object"))
				o := n.objects[root]
				if !n.alive || o == nil || n.disk[root] == 0 {
					break
				}
				for _, a := range o.Asked() {
					if a.Origin == n.id {
						target := meta.Target{Copies: rapid.IntRange(0, 4).Draw(t, "changed to")}
						if d := a.Target.Data; d > 0 && target.Copies > 0 { // another coding has another manifest
							target = meta.Target{Data: d, Parity: a.Target.Parity}
						} else if o.data() > 0 {
							target = meta.Target{}
						}
						o.AskOwn(n.id, target.Next(a.Target, uint64(w.now.UnixMilli())), w.now)
					}
				}
			case "lie":
				n.liar = !n.liar
			case "leave":
				n.member.Draining = !n.member.Draining
			case "rot":
				for root := range n.disk {
					if !n.objects[root].asks(n.id) {
						w.lose(n, root)
						delete(n.disk, root)
						delete(n.objects, root)
					}
				}
			}
			w.run(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
		}
		clear(w.group)
		for _, n := range w.nodes {
			if !n.alive {
				w.start(n)
			}
			n.member.Draining, n.liar = false, false
		}
		w.run(2 * w.p.Grace)
		for _, n := range w.nodes {
			n.cluster.Resume(w.now)
		}
		w.run(8 * time.Minute)
		for i := range objects {
			root := number(i)
			want, data := 0, 0
			for _, n := range w.nodes {
				if n.disk[root] != 0 {
					want, data = max(want, n.objects[root].Wanted()), max(data, n.objects[root].data())
				}
			}
			places := w.places(root)
			if data > 0 {
				if places.whole() == 0 && len(places.shards()) < data {
					continue // too many were lost at once
				}
				want = min(want, len(w.nodes))
				if places.covered(want) != want || len(places) != want {
					t.Fatalf("%d pieces on %d nodes of object %d, asked for are %d\n%s",
						places.covered(want), len(places), i, want,
						w.describe(root))
				}
				continue
			}
			if n := w.copies(root); n != want {
				t.Fatalf("%d copies of object %d, asked for are %d\n%s", n, i, want, w.describe(root))
			}
			if n := w.most[root]; n > 3*4+objects {
				t.Fatalf("%d copies of object %d at one time", n, i)
			}
		}
	})
}
