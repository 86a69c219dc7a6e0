package starting

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestBegin: the first collection, and the end of the start, bring the usual pace back. A GOGC of the user stays.
func TestBegin(t *testing.T) {
	gogc := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	begin()()
	if got := gogc(); got != 50 {
		t.Errorf("GOGC of the user became %d", got)
	}
	t.Setenv("GOGC", "")
	begin()
	for gogc() != usualGOGC { // until the test times out
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	begin()()
	if got := gogc(); got != usualGOGC {
		t.Errorf("GOGC is %d after the start", got)
	}
}
