package plan

import (
	"fmt"
	"math"
	"testing"

	"allium/store/meta"
)

// TestMoves: a member that joins gets its share of the objects, and little more is moved. No object has fewer
// copies than it wants meanwhile, which drop checks, and at the end each is where Place wants it and nothing moves.
func TestMoves(t *testing.T) {
	t.Parallel()
	for _, target := range []meta.Target{{Copies: 3}, {Data: 3, Parity: 2}} {
		t.Run(fmt.Sprint(target.Places()), func(t *testing.T) {
			t.Parallel()
			const nodes = 9
			objects := 300 / target.Places() / target.Places()
			if testing.Short() {
				objects /= 2
			}
			w := racks(t, nodes)
			for i := range objects {
				w.ask(w.nodes[i%nodes], number(i), 1<<16, target)
			}
			w.run(10 * w.p.AuditPeriod)
			if w.moves != 0 {
				t.Errorf("%d moves before anybody joined", w.moves)
			}
			joined := w.add(Place{Domain: "new"}, 1<<34)
			w.run(50 * w.p.AuditPeriod)
			share := float64(objects*target.Places()) / float64(nodes+1)
			// Few objects spread less evenly than many: two standard deviations are allowed for that.
			if m := float64(w.moves); m == 0 || m > 1.2*share+2*math.Sqrt(share) {
				t.Errorf("%d moves, of a fair share of %.0f", w.moves, share)
			}
			moved := w.moves
			w.run(20 * w.p.AuditPeriod)
			if w.moves != moved {
				t.Errorf("%d more moves after the last one", w.moves-moved)
			}
			for i := range objects {
				root := number(i)
				if n := w.places(root).covered(target.Places()); n != target.Places() || w.copies(root) != n {
					t.Fatalf("object %d has %d copies, %d of them count\n%s", i, w.copies(root), n, w.describe(root))
				}
			}
			if len(joined.disk) == 0 {
				t.Error("the new member got nothing")
			}
		})
	}
}

// TestMovesWait: a member that comes and goes within the audit period gets nothing, and neither does one while
// copies are missing.
func TestMovesWait(t *testing.T) {
	t.Parallel()
	w := racks(t, 6)
	pinEach(w, 60, 6)
	w.run(20 * w.p.AuditPeriod)
	n := w.add(Place{Domain: "new"}, 1<<34)
	for range 20 {
		w.run(w.p.AuditPeriod / 2)
		w.stop(n)
		w.run(2 * w.p.Grace)
		w.start(n)
	}
	if len(n.disk) != 0 {
		t.Errorf("a member that comes and goes got %d objects", len(n.disk))
	}
	w.run(30 * w.p.AuditPeriod)
	if len(n.disk) == 0 {
		t.Error("it got nothing after it stayed")
	}
	wantEach(t, w, 60)
}
