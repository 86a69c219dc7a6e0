package schedule

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestStanding: what ended requests make of a provider, in whatever order they
// end. One that lied is never asked again; one that was only slower than others is
// asked when those are lost.
func TestStanding(t *testing.T) {
	t.Parallel()
	type event struct {
		outcome  status.Outcome
		canceled Why
	}
	lie, late := event{status.Corrupt, NotCanceled}, event{status.Canceled, Late}
	for name, c := range map[string]struct {
		events  []event
		partial bool // answers Question so
		want    standing
	}{
		"late":                                {[]event{late}, false, good},
		"late twice":                          {[]event{late, late}, false, slow},
		"a lie":                               {[]event{lie}, false, lost},
		"a lie that came late":                {[]event{{status.Corrupt, Late}}, false, lost},
		"a lie that was overtaken":            {[]event{{status.Corrupt, Overtaken}}, false, lost},
		"late twice, and then a lie":          {[]event{late, late, lie}, false, lost},
		"a lie, and then late":                {[]event{lie, late, late}, false, lost},
		"it has a part":                       {[]event{{status.NotFound, NotCanceled}}, true, good},
		"it has nothing":                      {[]event{{status.NotFound, NotCanceled}}, false, lost},
		"it has a part, and lied meanwhile":   {[]event{{status.NotFound, NotCanceled}, lie}, true, lost},
		"it has nothing, and was late before": {[]event{late, late, {status.NotFound, NotCanceled}}, false, lost},
		"it is broken":                        {[]event{{status.Upstream, NotCanceled}}, false, lost},
		"overtaken":                           {[]event{{status.Canceled, Overtaken}}, false, good},
	} {
		m := New(Config{Providers: 1, Tries: 2, Backoff: backoff})
		m.Known(1)
		m.Found()
		p := m.providers[0]
		for range c.events {
			m.ask(p, Run{0, 8})
		}
		for i, e := range c.events {
			m.requests[0].canceled = e.canceled
			m.Ended(0, RequestID(i+1), Result{Outcome: e.outcome})
		}
		if m.questions > 0 {
			m.Heard(0, 0, map[bool]Holding{true: {Presence: b3.Partial}}[c.partial])
		}
		if got := p.standing; got != c.want {
			t.Errorf("%s: standing %d, want %d", name, got, c.want)
		}
		if again := m.retrySlow(); again != (c.want == slow) || again && !p.free(0) {
			t.Errorf("%s: asked again: %t", name, again)
		}
	}
}

// TestLackingIsNotAway: a provider that was unreachable and then answers that it lacks the object does not return.
func TestLackingIsNotAway(t *testing.T) {
	t.Parallel()
	m := New(Config{Providers: 1, Tries: 2, Backoff: backoff})
	m.Known(1)
	m.Found()
	p := m.providers[0]
	m.ask(p, Run{0, 8})
	m.Ended(0, 1, Result{Outcome: status.TransportDown, Again: true})
	m.Away(0)
	m.ask(p, Run{0, 8})
	m.Ended(0, 2, Result{Outcome: status.NotFound})
	m.Heard(0, 0, Holding{})
	if p.standing != lost || p.mayReturn() {
		t.Errorf("standing %d, may return %t", p.standing, p.mayReturn())
	}
}

// TestRecall: nodes that fetch from each other ask one that had all, and was silent, again after a pause. Without them
// it is lost.
func TestRecall(t *testing.T) {
	t.Parallel()
	for _, sharing := range []bool{true, false} {
		second := func(int) time.Duration { return time.Second }
		m := New(Config{Providers: 4, Tries: 2, Backoff: second})
		m.Sized(8*b3.GroupSize, &stored{here: make([]bool, 8)})
		m.Join(1, Demand{Whole: true})
		m.Granted()
		m.Known(2)
		all := m.providers[m.Found()]
		if sharing {
			m.providers[m.Found()].part = &part{groups: bitfield{1}, due: time.Hour}
		}
		m.gather(0)
		m.ask(all, Run{4, 5})
		m.Ended(time.Minute, 1, Result{Outcome: status.Timeout})
		m.Away(0)
		for _, c := range []struct {
			at   time.Duration
			want standing
		}{{time.Minute + 999*time.Millisecond, lost}, {time.Minute + time.Second, good}} {
			m.Advance(c.at)
			if got := all.standing; sharing && got != c.want || !sharing && got != lost {
				t.Errorf("shared %t: at %v its standing is %d", sharing, c.at, got)
			}
		}
		if sharing && all.inflight != 1 {
			t.Error("it is not asked again")
		}
	}
}

// TestTogether: among nodes that fetch from each other twice as many providers have one request each, and load spreads
// over all.
func TestTogether(t *testing.T) {
	t.Parallel()
	const peers, groups = 12, 256
	first := map[ProviderID]bool{}
	for seed := range uint64(50) {
		m := New(Config{Providers: 4, Tries: 2, Backoff: backoff, Seed: seed})
		m.Sized(groups*b3.GroupSize, &stored{here: make([]bool, groups)})
		m.Join(1, Demand{Whole: true})
		m.Granted()
		m.Known(peers)
		for range peers {
			p := m.providers[m.Found()]
			p.part = &part{groups: bytes.Repeat([]byte{0xff}, groups/8), due: time.Hour}
			p.rate, p.rtt = 1<<20, 10*time.Millisecond
		}
		m.gather(0)
		var asked []ProviderID
		for _, a := range m.Advance(time.Second) {
			if a.Kind == Ask {
				asked = append(asked, a.Provider)
			}
		}
		slices.Sort(asked)
		if len(asked) != 8 || len(slices.Compact(asked)) != 8 {
			t.Fatalf("asked %v, want 8 providers once", asked)
		}
		for _, p := range asked {
			first[p] = true
		}
	}
	if len(first) != peers {
		t.Errorf("%d of %d are ever asked", len(first), peers)
	}
}
