package reload

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/node/config"
)

// TestLooks: a gate counts as shut when it was open before and two looks in a row find it shut.
func TestLooks(t *testing.T) {
	t.Parallel()
	gates := func(names string) (all []api.Gate) {
		for _, n := range names {
			all = append(all, api.Gate{Name: string(n | 0x20), Ready: n >= 'a'})
		}
		return all
	}
	for _, c := range []struct {
		before string // capitals are shut
		looks  []string
		want   string
	}{
		{"ab", []string{"ab", "ab"}, ""},
		{"ab", []string{"Ab", "ab", "Ab"}, ""},
		{"ab", []string{"Ab", "aB", "Ab"}, ""},
		{"ab", []string{"aB", "aB"}, "b"},
		{"ab", []string{"AB", "AB"}, "a"},
		{"aB", []string{"aB", "aB", "aB"}, ""},
		{"a", []string{"aC", "aC"}, ""},
	} {
		l, got := newLooks(gates(c.before)), ""
		for _, now := range c.looks {
			if g := l.look(gates(now)); g != nil {
				got = g.Name
			}
		}
		if got != c.want {
			t.Errorf("%s, then %v: %q, want %q", c.before, c.looks, got, c.want)
		}
	}
}

// TestGuard: a gate that shuts while the guard lasts brings the old configuration back, once.
func TestGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.gate("store", true)
		old := r.Current()
		r.set(setRate(1))
		done := r.reload(api.ReloadApplied)
		if until := time.Until(done.GuardUntil); until != time.Minute {
			t.Errorf("the guard lasts %s", until)
		}
		time.Sleep(30*time.Second + lookEvery/2)
		r.gate("store", false)
		time.Sleep(lookEvery)
		if r.Current() == old {
			t.Error("one look was enough")
		}
		time.Sleep(lookEvery)
		if r.Current() != old || len(r.told()) != 2 || r.told()[1].Node.UploadRate != 0 {
			t.Errorf("not taken back: %+v", r.told())
		}
		got, err := r.Status(done.Token)
		if err != nil || got.Result != api.ReloadReverted || got.Gate == nil || got.Gate.Name != "store" {
			t.Errorf("%+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		r.counted(1, 0, 0, 1)
		if !slices.Equal(r.kinds(), []api.EventKind{api.EventApplied, api.EventReverted}) {
			t.Errorf("events %v", r.kinds())
		}
	})
}

// TestGuardEnds: the guard takes nothing back after its time, of a gate that was shut before, without changes, when it
// is off, and while the node drains.
func TestGuardEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guard  time.Duration
		before bool
		then   func(*rig)
	}{
		"late":        {time.Minute, true, func(*rig) { time.Sleep(61 * time.Second) }},
		"shut before": {time.Minute, false, func(*rig) {}},
		"off":         {0, true, func(*rig) {}},
		"draining":    {time.Minute, true, func(r *rig) { r.Drain() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *config.Config) { c.Node.ReloadGuard = 0 })
				r.gate("store", c.before)
				r.set(func(cfg *config.Config) { setRate(1)(cfg); cfg.Node.ReloadGuard = c.guard })
				r.reload(api.ReloadApplied)
				c.then(r)
				r.gate("store", false)
				time.Sleep(5 * time.Second)
				if r.rate() != 1<<20 {
					t.Error("taken back")
				}
				r.counted(1, 0, 0, 0)
			})
		})
	}
}

// TestNextReloadEndsGuard: a reload that changes something is guarded in place of the one before. One that changes
// nothing, or fails, leaves the guard as it is.
func TestNextReloadEndsGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.gate("store", true)
		r.set(setRate(1))
		first := r.reload(api.ReloadApplied)
		r.gate("store", false)
		r.set(setRate(2))
		r.reload(api.ReloadApplied) // with the gate shut
		time.Sleep(5 * time.Second)
		if got, _ := r.Status(first.Token); r.rate() != 2<<20 || got.Result != api.ReloadApplied {
			t.Errorf("rate %d, the first is %s", r.rate(), got.Result)
		}
		r.gate("store", true)
		r.set(setRate(3))
		r.reload(api.ReloadApplied)
		r.reload(api.ReloadUnchanged)
		r.set(func(c *config.Config) { c.Node.UploadRate = 1 })
		r.reload(api.ReloadRejected)
		r.gate("store", false)
		time.Sleep(3 * time.Second)
		if r.rate() != 2<<20 {
			t.Errorf("rate %d, want that of the second", r.rate())
		}
	})
}

// TestGuardWaitsForReload: a gate that shuts while another reload is under way is looked at again after it.
func TestGuardWaitsForReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.gate("store", true)
		r.set(setRate(1))
		r.reload(api.ReloadApplied)
		r.Add(File{"slow", func(context.Context) error {
			time.Sleep(5 * time.Second)
			if r.rate() != 2<<20 {
				t.Error("taken back under a reload")
			}
			return nil
		}})
		r.gate("store", false)
		r.set(setRate(2))
		r.reload(api.ReloadApplied)
		time.Sleep(5 * time.Second)
		if r.rate() != 2<<20 {
			t.Error("a reload was taken back with the snapshot from before another one")
		}
	})
}

// TestRevertOfItsOwn: a gate that shut for one reload takes back neither another one nor anything of a node that
// drains.
func TestRevertOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		gate := &api.Gate{Name: "store"}
		r.set(setRate(1))
		r.reload(api.ReloadApplied)
		first := r.watch.Load()
		r.set(setRate(2))
		r.reload(api.ReloadApplied)
		r.revert(first, gate)
		r.Drain()
		r.revert(r.watch.Load(), gate)
		if r.rate() != 2<<20 {
			t.Errorf("rate %d", r.rate())
		}
		r.counted(2, 0, 0, 0)
	})
}
