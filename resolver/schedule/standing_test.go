package schedule

import (
	"testing"

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
		if again := m.retrySlow(); again != (c.want == slow) || again && p.standing != good {
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
