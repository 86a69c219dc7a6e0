package reach

import "testing"

// TestOutage: after an outage, in which every dial failed, UDP and IPv6 are dialled at once. A path that lets dials
// pass, or was not tried enough, keeps its count.
func TestOutage(t *testing.T) {
	t.Parallel()
	p := newPaths()
	udp, ipv6 := p.udp, p.ipv6
	for range pathTries {
		udp.RecordResult(false)
	}
	if got := udp.State().String(); got != blocked {
		t.Fatalf("after %d failures the path is %s", pathTries, got)
	}
	for range pathTries {
		ipv6.RecordResult(true)
	}
	p.forget()
	for range pathTries {
		if got := udp.HandleRequest().String(); got == blocked {
			t.Fatalf("a dial after the outage is %s", got)
		}
	}
	if got := ipv6.State().String(); got != "Allowed" {
		t.Errorf("a path that lets dials pass is %s", got)
	}
	for range pathTries {
		udp.RecordResult(false)
	}
	if got := udp.State().String(); got != blocked {
		t.Errorf("a path that stays shut is %s", got)
	}
}
