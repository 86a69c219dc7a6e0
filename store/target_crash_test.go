package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/meta"
	"allium/store/storetest"
)

// targetLedger knows which states each pin may have after a crash: the one that was acknowledged
// last, and while an operation runs the one that it makes.
type targetLedger struct {
	mu   *sync.Mutex
	pins map[string][]string
}

func (l targetLedger) Copy() targetLedger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return targetLedger{&sync.Mutex{}, maps.Clone(l.pins)}
}

func (l targetLedger) set(key string, states ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[key] = states
}

const noPin = "none"

// pinStates returns the state of each pin in s, and of each removed target.
func pinStates(t testing.TB, s *store.Store) map[string]string {
	all := map[string]string{}
	note := func(p meta.Pin, err error) {
		if err != nil {
			t.Error(err)
		}
		state := fmt.Sprintf("%s %d", p.Target, p.Target.Seq)
		if p.Released { // its number is the time
			state = "released"
		}
		all[p.Root.Hex()+p.Label] = state
	}
	for p, err := range s.Pins(t.Context()) {
		note(p, err)
	}
	for p, err := range s.RemovedTargets(t.Context()) {
		note(p, err)
	}
	return all
}

func (l targetLedger) Check(t testing.TB, disk vfs.FS) error {
	s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: disk})
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	if open, _ := s.OpenDamage(); open > 0 {
		return fmt.Errorf("what a crash leaves is taken for damage: %+v", s.Damage())
	}
	is := pinStates(t, s)
	for key, states := range l.pins {
		state := is[key]
		if state == "" {
			state = noPin
		}
		if !slices.Contains(states, state) {
			return fmt.Errorf("pin %s is %q, may be %q", key, state, states)
		}
	}
	return nil
}

// TestTargetsSurviveCrashes takes the power away before every write while targets are set,
// changed and removed, and their segments are compacted.
func TestTargetsSurviveCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a thousand stores; TestCrash has its goroutines")
	}
	t.Parallel()
	l := targetLedger{&sync.Mutex{}, map[string][]string{}}
	storetest.CrashEverywhere(t, tiny(), rand.New(rand.NewPCG(5, 6)), l, func(s *store.Store) {
		now := map[string]string{}
		do := func(root b3.Root, label, next string, op func() error) {
			key := root.Hex() + label
			was := now[key]
			if was == "" {
				was = noPin
			}
			l.set(key, was, next)
			if err := op(); err != nil {
				t.Error(err)
			}
			l.set(key, next)
			now[key] = next
		}
		for i := range 6 {
			root := storetest.Put(t, s, storetest.Bytes(uint64(i), 5000+i*30_000))
			seq := uint64(100)
			pin := func(target meta.Target) func() error {
				return func() error {
					return s.Pin(t.Context(), root, store.PinOptions{Label: "rf", Recursive: i%2 == 0, Target: target})
				}
			}
			set := func(target meta.Target) func() error {
				return func() error { _, err := s.SetTarget(t.Context(), root, "rf", target); return err }
			}
			do(root, "plain", "none 0",
				func() error { return s.Pin(t.Context(), root, store.PinOptions{Label: "plain"}) })
			do(root, "rf", fmt.Sprintf("rf 3 %d", seq), pin(meta.Target{Copies: 3, Seq: seq}))
			do(root, "rf", fmt.Sprintf("ec 6+3 %d", seq+1), set(meta.Target{Data: 6, Parity: 3, Seq: seq + 1}))
			do(root, "rf", fmt.Sprintf("ec 6+3 %d", seq+1), set(meta.Target{Copies: 9, Seq: seq}))
			if i == 1 {
				continue // stays
			}
			do(root, "rf", fmt.Sprintf("removed %d", seq+2), set(meta.Target{Seq: seq + 2}))
			do(root, "rf", "released", func() error { return s.Unpin(t.Context(), root, "rf") })
			if i == 2 {
				continue // the record stays
			}
			do(root, "rf", noPin, func() error { return s.ForgetTarget(t.Context(), root, "rf") })
			do(root, "rf", fmt.Sprintf("rf 2 %d", seq+3), pin(meta.Target{Copies: 2, Seq: seq + 3}))
		}
		for i := range 40 { // fills segments and makes garbage of them
			root := storetest.Put(t, s, storetest.Bytes(uint64(100+i), 20_000))
			if err := s.Delete(t.Context(), root); err != nil {
				t.Error(err)
			}
		}
	})
}
