package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/meta"
	"allium/store/storetest"
)

// promised is a coding that was acknowledged.
type promised struct {
	object, manifest b3.Root
	piece            plan.Piece
}

// ledger is what was acknowledged so far, and what has to be true of a store because of that. It implements
// storetest.Ledger.
type ledger struct {
	known         *atomic.Pointer[promised]
	holds         func(c *Coder, s *store.Store, want *promised) error // want is nil until something is acknowledged
	before, after *atomic.Int64                                        // crashes that were looked at
}

func (l ledger) Copy() ledger {
	now := new(atomic.Pointer[promised])
	now.Store(l.known.Load())
	l.known = now
	return l
}

func (l ledger) Check(t testing.TB, disk vfs.FS) error {
	if l.known.Load() == nil {
		l.before.Add(1)
	} else {
		l.after.Add(1)
	}
	return recovered(t, disk, func(c *Coder, s *store.Store) error { return l.holds(c, s, l.known.Load()) })
}

// crashes takes the power away everywhere in a script, which calls acknowledge once.
func crashes(
	t *testing.T, holds func(c *Coder, s *store.Store, want *promised) error,
	script func(s *store.Store, acknowledge func(promised)),
) {
	t.Helper()
	l := ledger{new(atomic.Pointer[promised]), holds, new(atomic.Int64), new(atomic.Int64)}
	storetest.CrashEverywhere(t, crashConfig(), rand.New(rand.NewPCG(1, 2)), l, func(s *store.Store) {
		script(s, func(p promised) { l.known.Store(&p) })
	})
	before, after := l.before.Load(), l.after.Load()
	t.Logf("%d crashes before the coding was acknowledged, %d after", before, after)
	if !testing.Short() && (before < 20 || after < 5) {
		t.Error("the script met too few crash points to mean anything")
	}
}

func crashConfig() store.Config {
	cfg := store.DefaultConfig()
	cfg.Dir = "/store"
	return cfg
}

// alone returns a Coder without a cluster.
func alone(s *store.Store) *Coder {
	return New(Deps{
		Env:  env.Env{Metrics: prometheus.NewRegistry(), Limits: limits.NewRegistry(nil)},
		Self: "node-0", Store: s, Filter: policy.AllowAll{},
	})
}

// recovered opens what a crash left, and gives a Coder that works on it to f.
func recovered(t testing.TB, fs vfs.FS, f func(c *Coder, s *store.Store) error) error {
	s, stop, err := storetest.Try(t, crashConfig(), store.Deps{FS: fs})
	if err != nil {
		return err
	}
	if open, _ := s.OpenDamage(); open > 0 {
		err = fmt.Errorf("what a crash leaves is taken for damage: %+v", s.Damage())
	}
	return errors.Join(err, f(alone(s), s), stop())
}

// holdsWhatItPins requires that a manifest with a target is readable, and that what was acknowledged is there: with
// the piece, each byte of it.
func holdsWhatItPins(ctx context.Context, c *Coder, s *store.Store, want *promised) error {
	found := false
	for p, err := range s.Pins(ctx) {
		if err != nil {
			return err
		}
		if p.Target.Data == 0 || meta.Origin(p.Label) == "" {
			continue
		}
		m, err := c.Manifest(ctx, p.Root)
		if err != nil {
			return fmt.Errorf("a pinned manifest: %w", err)
		}
		held, ok, err := c.Held(ctx, m)
		if err != nil {
			return err
		}
		if ok && held != plan.Whole {
			if err := readable(ctx, s, m, held); err != nil {
				return fmt.Errorf("piece %d: %w", held, err)
			}
		}
		if want != nil && p.Root == want.manifest {
			if !ok || held != want.piece {
				return fmt.Errorf("piece %d is there: %t, want piece %d", held, ok, want.piece)
			}
			found = true
		}
	}
	if want != nil && !found {
		return errors.New("the manifest of an acknowledged coding is not pinned any more")
	}
	return nil
}

// readable reads each shard of a piece and the outboard.
func readable(ctx context.Context, s *store.Store, m *erasure.Manifest, piece plan.Piece) error {
	roots := []b3.Root{m.Outboard}
	for i := range m.Shards {
		root, _ := m.Shard(i, piece.Shard())
		roots = append(roots, root)
	}
	for _, root := range roots {
		if err := readAll(ctx, s, root); err != nil {
			return err
		}
	}
	return nil
}

func readAll(ctx context.Context, s *store.Store, root b3.Root) error {
	o, err := s.Open(ctx, root)
	if err != nil {
		return err
	}
	defer o.Close()
	section := o.Reader().Section(0, -1)
	defer section.Close()
	_, err = io.Copy(io.Discard, section)
	return o.Failed(err)
}

var crashTarget = meta.Target{Data: 2, Parity: 1, Seq: 1}

// more writes to a store after what was acknowledged, so that crashes follow.
func more(t *testing.T, s *store.Store) {
	t.Helper()
	for i := range uint64(6) {
		storetest.Put(t, s, storetest.Bytes(i, 90_000))
	}
}

// TestCrashWhileCoding takes the power away while an object is coded. A coding that was acknowledged is there; any
// other one is made again, as if nothing had been.
func TestCrashWhileCoding(t *testing.T) {
	t.Parallel()
	p := content(5*b3.GroupSize + 77)
	object := b3.Sum(p)
	crashes(t, func(c *Coder, s *store.Store, want *promised) error {
		if err := holdsWhatItPins(t.Context(), c, s, want); err != nil {
			return err
		}
		pinned, err := s.HasPin(t.Context(), object, "mine")
		if err != nil || !pinned {
			return err
		}
		again, err := c.Encode(t.Context(), object, crashTarget)
		if err == nil && want != nil && again != want.manifest {
			err = fmt.Errorf("coded again it is %s", again)
		}
		return err
	}, func(s *store.Store, acknowledge func(promised)) {
		if _, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Pin(t.Context(), object, store.PinOptions{Label: "mine", Target: crashTarget}); err != nil {
			t.Fatal(err)
		}
		manifest, err := alone(s).Encode(t.Context(), object, crashTarget)
		if err != nil {
			t.Fatal(err)
		}
		acknowledge(promised{object, manifest, plan.Whole})
		more(t, s)
	})
}

// TestCrashWhileAShardArrives takes the power away from a member while it gets a shard. What was acknowledged is
// there, each byte; before that the member never says that it holds a piece that is not whole.
func TestCrashWhileAShardArrives(t *testing.T) {
	t.Parallel()
	p := content(5*b3.GroupSize + 77)
	crashes(t, func(c *Coder, s *store.Store, want *promised) error {
		return holdsWhatItPins(t.Context(), c, s, want)
	}, func(s *store.Store, acknowledge func(promised)) {
		c := newCluster(t, 1)
		from, to := c.nodes[0], c.add(s)
		info, err := from.store.Put(t.Context(), bytes.NewReader(p), store.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := from.Encode(t.Context(), info.Root, crashTarget)
		if err != nil {
			t.Fatal(err)
		}
		if !from.learn(manifest) {
			t.Fatal("the first node holds nothing")
		}
		c.give(from, to, manifest, 2)
		label := meta.OriginLabel(from.id.String())
		if err := s.Pin(t.Context(), manifest, store.PinOptions{Label: label, Target: crashTarget}); err != nil {
			t.Fatal(err)
		}
		acknowledge(promised{info.Root, manifest, plan.Shard(2)})
		more(t, s)
	})
}

// TestReadableFinds: the check of the tests above sees a shard that is missing.
func TestReadableFinds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	_, manifest := c.spread(content(5*b3.GroupSize), 2, 1)
	x := c.nodes[1]
	if err := readable(t.Context(), x.store, x.manifest, x.piece); err != nil {
		t.Fatal(err)
	}
	root, _ := x.manifest.Shard(0, x.piece.Shard())
	if err := x.store.Unpin(t.Context(), root, meta.ClusterLabel); err != nil {
		t.Fatal(err)
	}
	if err := x.store.Delete(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if err := readable(t.Context(), x.store, x.manifest, x.piece); status.Of(err) != status.NotFound {
		t.Errorf("a shard of %s is missing: %v", manifest, err)
	}
}
