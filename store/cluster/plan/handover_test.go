package plan

import "testing"

// TestHandOver: a draining member sends its copies itself, each once, and knows soon which others prove; what they
// proved before does not do. It does not matter who asks for the copies.
func TestHandOver(t *testing.T) {
	t.Parallel()
	w := racks(t, 6)
	pinEach(w, 24, 6)
	w.run(w.p.Grace)
	n := w.nodes[3]
	its := len(n.disk)
	if its < 4 || its == 24 {
		t.Fatalf("it holds %d objects", its)
	}
	since := w.now
	left := func() (left int) {
		for root, o := range n.objects {
			if n.disk[root] == 0 {
				continue
			}
			if o.ProveSince(since, w.now); !o.At(n.cluster.View(w.now), w.p, w.now).HandedOver(since) {
				left++
			}
		}
		return left
	}
	sends := w.sends
	n.member.Draining = true
	if got := left(); got != its {
		t.Errorf("at first %d of %d objects are left", got, its)
	}
	w.run(w.p.Grace * 4 / 5)
	if got := left(); got != 0 {
		t.Errorf("%d objects are left", got)
	}
	if got := w.sends - sends; got != its {
		t.Errorf("%d sends for %d objects", got, its)
	}
	for i := range 24 {
		for _, x := range w.holders(i) {
			if got := len(x.objects[number(i)].At(x.cluster.View(w.now), w.p, w.now).held()); got < 3 {
				t.Errorf("%s knows of %d copies of object %d", x.id, got, i)
			}
		}
	}
	w.run(10 * w.p.TrimWait)
	for i := range 24 {
		want := 3
		if i%6 == 3 { // it asks for these itself, and keeps them
			want = 4
		}
		wantCopies(t, w, i, want)
	}
	since = w.now
	if got := left(); got != 4 {
		t.Errorf("%d of 4 objects are left that nobody proved since", got)
	}
	n.member.Draining = false
	w.run(10 * w.p.TrimWait)
	wantEach(t, w, 24)
}

// TestTakers: who could hold the copies if this node is left out, and why others do not.
func TestTakers(t *testing.T) {
	t.Parallel()
	w := racks(t, 5)
	w.pin(w.nodes[0], number(1), 1<<16, 4)
	w.run(w.p.Grace)
	n := w.nodes[0]
	takers := func() Takers { return n.objects[number(1)].At(n.cluster.View(w.now), w.p, w.now).Takers(false) }
	if got := takers(); got.Wanted != 4 || got.Members != 4 || len(got.Refused) != 0 {
		t.Errorf("with four others: %+v", got)
	}
	for _, x := range w.nodes[1:] {
		x.member.Free = 0 // those that have it still do
	}
	w.nodes[4].member.Place = Place{Domain: BucketDomain + "one"}
	w.nodes[3].member.Place = w.nodes[4].member.Place
	w.run(w.p.Grace)
	got := takers()
	if refused := got.Refused["too little space is left"] + got.Refused["shares its bucket with another"]; got.Members+
		refused != 4 || got.Members >= 4 {
		t.Errorf("with four that are full: %+v", got)
	}
}
