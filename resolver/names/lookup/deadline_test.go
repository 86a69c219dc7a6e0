package lookup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
)

// lateFinder is a DHT in which one holder answers and the others are silent: it has a record when its
// context ends, and returns it then.
type lateFinder struct{ rec name.Signed }

func (f lateFinder) FindName(
	ctx context.Context, _ name.Name, _ bool, _ *probes.Trace,
) (name.Versions, record.Origin, error) {
	<-ctx.Done()
	v, _ := name.Versions{}.Add(f.rec)
	return v, record.OriginDHT, nil
}

// TestPartInTime: what was found when the time is up is the answer, also of the caller who began the
// lookup.
func TestPartInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.find = lateFinder{signed(t, "blog", 1, "one")}
		begun := time.Now()
		a, err := r.resolve(t, "blog", Options{})
		if took := time.Since(begun); err != nil || a.Value.String() != "one" || took > r.cfg.Load().Deadline {
			t.Errorf("%q after %s, %v", a.Value, took, err)
		}
	})
}
