package store_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
	"allium/store/quota"
	"allium/store/storetest"
)

func TestQuotaConfig(t *testing.T) {
	t.Parallel()
	for q, ok := range map[string]bool{
		"photos=10GiB": true, "photos=10GiB/100000": true, "*=1MiB": true, "=1MiB/5": true, "a b=1KiB": true,
		"photos": false, "photos=": false, "photos=0": false, "photos=-1": false, "photos=1GiB/0": false,
		"photos=1GiB/x": false,
		"photos=1GiB/":  false, "=": false, "\x01=1MiB": false, strings.Repeat("x", 256) + "=1MiB": false,
	} {
		cfg := store.DefaultConfig()
		cfg.Dir, cfg.Quotas = "x", []string{q}
		if err := cfg.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", q, err)
		}
	}
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.Quotas = "x", []string{"a=1MiB", "a=2MiB"}
	if cfg.Validate() == nil {
		t.Error("two quotas for one label")
	}
}

// quotas returns the bytes that each quota has left, as /limits shows them.
func quotas(r *limits.Registry) map[string]int64 {
	m := map[string]int64{}
	for _, l := range r.Snapshot() {
		if name, ok := strings.CutPrefix(l.Name, "store.quota."); ok {
			m[name] = l.Current
		}
	}
	return m
}

// TestQuota: what a label may hold is counted by its pins, refused before
// anything is stored, given back by unpin, and counted anew at open.
func TestQuota(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		cfg.Quotas = []string{"a=300KiB/5", "=1MiB", "*=100KiB"}
		reg := limits.NewRegistry(nil)
		s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
		ctx := t.Context()
		put := func(label string, p []byte) (b3.Root, *quota.Charge, error) {
			c := s.Quotas().Charge(label)
			info, err := s.Put(ctx, bytes.NewReader(p), store.PutOptions{Charge: c})
			return info.Root, c, err
		}
		keep := func(label string, p []byte) error {
			root, c, err := put(label, p)
			defer c.Release()
			if err != nil {
				return err
			}
			return s.Pin(ctx, root, store.PinOptions{Label: label, Charge: c})
		}
		refused := func(what string, err error) {
			t.Helper()
			var e *status.Error
			if !errors.As(err, &e) || e.Outcome != status.Quota || e.Limit == nil || e.Limit.Cap == 0 {
				t.Errorf("%s: %v, want quota", what, err)
			}
		}
		big := storetest.Bytes(1, 200<<10)
		if err := keep("a", big); err != nil {
			t.Fatal(err)
		}
		if err := keep("a", storetest.Bytes(2, 64<<10)); err != nil {
			t.Fatal(err)
		}
		objects := s.Stats().Objects
		refused("a large object", keep("a", storetest.Bytes(3, 150<<10)))
		refused("a small one", keep("a", storetest.Bytes(4, 40<<10)))
		refused("another label", keep("b", storetest.Bytes(5, 101<<10)))
		if n := s.Stats().Objects; n != objects {
			t.Errorf("%d objects, want %d: what was refused was stored", n, objects)
		}
		if err := keep("b", storetest.Bytes(6, 40<<10)); err != nil {
			t.Error(err)
		}
		if err := keep("", storetest.Bytes(7, 900<<10)); err != nil {
			t.Error(err)
		}
		// What a member asks for counts under the cluster's label alone.
		if err := s.Pin(ctx, b3.Sum(big), store.PinOptions{Label: meta.OriginLabel("12D3")}); err != nil {
			t.Error(err)
		}
		// The same once more costs nothing, also when nothing is left.
		if err := keep("a", storetest.Bytes(2, 64<<10)); err != nil {
			t.Error(err)
		}
		// Bytes that another label holds count for this one too.
		refused("held by another", s.Pin(ctx, b3.Sum(storetest.Bytes(6, 40<<10)), store.PinOptions{Label: "a"}))
		for i := range 3 {
			if err := keep("a", []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		refused("a sixth object", keep("a", []byte("six")))
		want := map[string]int64{`"a"`: 264<<10 + 3, `"a".objects`: 5, `""`: 900 << 10}
		check := func(what string) {
			t.Helper()
			for name, n := range want {
				if got := quotas(reg)[name]; got != n {
					t.Errorf("%s: %s holds %d, want %d", what, name, got, n)
				}
			}
		}
		check("after the puts")
		if cfg.Backend == store.BackendEmbedded {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			reg = limits.NewRegistry(nil)
			s, stop = storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
			check("after a restart")
		}
		defer func() { _ = stop() }()
		if err := s.Unpin(ctx, b3.Sum(big), "a"); err != nil {
			t.Fatal(err)
		}
		want[`"a"`] -= 200 << 10
		want[`"a".objects`]--
		check("after unpin")
		if err := keep("a", storetest.Bytes(3, 150<<10)); err != nil {
			t.Errorf("after unpin: %v", err)
		}
	})
}

// TestQuotaOfTrees: a recursive pin counts all that is below it.
func TestQuotaOfTrees(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		cfg.Quotas = []string{"a=100KiB"}
		reg := limits.NewRegistry(nil)
		s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
		defer stop()
		one := storetest.Put(t, s, storetest.Bytes(1, 50<<10))
		two := storetest.Put(t, s, storetest.Bytes(2, 60<<10))
		small := tree(t, s, map[string]b3.Root{"one": one}, nil)
		top := tree(t, s, map[string]b3.Root{"two": two}, map[string]b3.Root{"small": small, "again": small})
		if err := s.Pin(t.Context(), small, store.PinOptions{Label: "a", Recursive: true}); err != nil {
			t.Fatal(err)
		}
		held := quotas(reg)[`"a"`]
		if err := s.Pin(t.Context(), top,
			store.PinOptions{Label: "a", Recursive: true}); status.Of(err) != status.Quota {
			t.Errorf("%v, want quota", err)
		}
		if err := s.Pin(t.Context(), top, store.PinOptions{Label: "a"}); err != nil {
			t.Errorf("not recursive: %v", err)
		}
		if err := s.Unpin(t.Context(), top, "a"); err != nil {
			t.Fatal(err)
		}
		if got := quotas(reg)[`"a"`]; got != held {
			t.Errorf("%d, want %d", got, held)
		}
	})
}

// TestQuotaTogether: adds at one time hold no more than the quota together.
func TestQuotaTogether(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Backend, cfg.Quotas = store.BackendMemory, []string{"a=1MiB"}
	reg := limits.NewRegistry(nil)
	s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
	defer stop()
	var adding sync.WaitGroup
	for i := range 8 {
		adding.Go(func() {
			for j := range 20 {
				c := s.Quotas().Charge("a")
				info, err := s.Put(t.Context(), bytes.NewReader(storetest.Bytes(uint64(100*i+j), 30<<10+j*5000)),
					store.PutOptions{Charge: c})
				if err == nil {
					err = s.Pin(t.Context(), info.Root, store.PinOptions{Label: "a", Charge: c})
				}
				if err != nil && status.Of(err) != status.Quota {
					t.Error(err)
				}
				if err == nil && j%3 == 0 {
					err = s.Unpin(t.Context(), info.Root, "a")
					if err != nil {
						t.Error(err)
					}
				}
				c.Release()
				if n := quotas(reg)[`"a"`]; n > 1<<20 || n < 0 {
					t.Errorf("%d bytes are held", n)
				}
			}
		})
	}
	adding.Wait()
	sum := int64(0)
	for p, err := range s.Pins(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Stat(t.Context(), p.Root)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size
	}
	if n := quotas(reg)[`"a"`]; n != sum {
		t.Errorf("%d bytes are counted, the pins hold %d", n, sum)
	}
}
