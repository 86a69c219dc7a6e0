package seeds

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ipfs/go-datastore"
	dssync "github.com/ipfs/go-datastore/sync"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// file is a manifest's.
type file struct {
	mu   sync.Mutex
	text []byte
	err  error
}

func (f *file) read() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text, f.err
}

func (f *file) set(text []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text, f.err = text, err
}

func withManifest(t testing.TB, c Config) Config {
	_, signer := identity(t, authority)
	c.SeedManifest, c.SeedAuthorities = "seeds.pem", []string{signer.String()}
	return c
}

func newStore() datastore.Datastore { return dssync.MutexWrap(datastore.NewMapDatastore()) }

// aRound is longer than the longest wait for one, with few seeds in it.
const aRound = 6*time.Minute + 5*time.Second

// TestManifestReplaced: a new file takes effect without a restart, and a seed
// of both sources is the configuration's.
func TestManifestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 4)
		d.set(true, idsOf(all)...)
		first := manifestOf(1, 24*time.Hour, all[:2])
		f := &file{text: sign(t, first)}
		b := begin(t, withManifest(t, configOf(t, all[:1])), Deps{Dialer: d, Manifest: f.read})
		time.Sleep(time.Second)
		seeds := b.Seeds()
		if len(seeds) != 2 || seeds[0].Source != FromConfig || !seeds[0].NotAfter.IsZero() ||
			seeds[1].Source != FromManifest || !seeds[1].NotAfter.Equal(first.NotAfter) || !seeds[1].Connected {
			t.Errorf("%+v", seeds)
		}
		second := manifestOf(2, 48*time.Hour, all[2:])
		f.set(sign(t, second), nil)
		time.Sleep(aRound)
		_, signer := identity(t, authority)
		if got := b.Manifest(); got.Seq != 2 || got.Signer != signer || !got.NotAfter.Equal(second.NotAfter) ||
			got.Err != "" {
			t.Errorf("%+v", got)
		}
		seeds = b.Seeds()
		if len(seeds) != 3 || seeds[1].ID != all[2].ID || !seeds[1].Connected || !seeds[2].Connected {
			t.Errorf("%+v", seeds)
		}
		if got := testutil.ToFloat64(b.m.expiry); got != float64(second.NotAfter.Unix()) {
			t.Errorf("dht_seed_manifest_expiry_seconds is %v", got)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, ok := b.state[all[1].ID]; ok {
			t.Error("the state of a seed that is in no list any more is kept")
		}
	})
}

// TestManifestExpires: its seeds are not dialled any more, but shown, and the
// connections stay.
func TestManifestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 2)
		d.set(true, all[0].ID)
		f := &file{text: sign(t, manifestOf(1, time.Hour, all))}
		b := begin(t, withManifest(t, Config{}), Deps{Dialer: d, Manifest: f.read, Datastore: newStore()})
		time.Sleep(time.Hour)
		dials := len(d.all())
		d.set(true, all[1].ID)
		time.Sleep(2 * time.Hour)
		if n := len(d.all()); n != dials || !d.Connected(all[0].ID) || d.Connected(all[1].ID) {
			t.Errorf("%d dials, then %d", dials, n)
		}
		if got := b.Manifest(); got.Seq != 1 || !strings.Contains(got.Err, "expired") {
			t.Errorf("%+v", got)
		}
		if s := b.Seeds(); len(s) != 2 || s[0].NotAfter.After(time.Now()) {
			t.Errorf("%+v", s)
		}
		f.set(nil, fs.ErrNotExist) // both are said
		time.Sleep(aRound)
		if got := b.Manifest(); !strings.Contains(got.Err, "expired") ||
			!strings.Contains(got.Err, fs.ErrNotExist.Error()) {
			t.Errorf("%+v", got)
		}
		f.set(sign(t, manifestOf(2, time.Hour, all)), nil)
		time.Sleep(aRound)
		if got := b.Manifest(); got.Seq != 2 || got.Err != "" || !d.Connected(all[1].ID) {
			t.Errorf("after a new one: %+v", got)
		}
	})
}

// TestManifestRefused: what does not count leaves what does in force.
func TestManifestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 3)
		d.set(true, idsOf(all)...)
		good := sign(t, manifestOf(5, 24*time.Hour, all[:1]))
		f := &file{text: good}
		b := begin(t, withManifest(t, Config{}), Deps{Dialer: d, Manifest: f.read})
		time.Sleep(time.Second)
		stranger, _ := identity(t, 800)
		foreign, err := Sign(stranger, manifestOf(9, time.Hour, all[1:]))
		if err != nil {
			t.Fatal(err)
		}
		for want, c := range map[string]*file{
			"accepted before":      {text: sign(t, manifestOf(4, time.Hour, all[1:]))},
			"same sequence number": {text: sign(t, manifestOf(5, time.Hour, all[1:]))},
			"no authority":         {text: foreign},
			"no seed manifest":     {text: []byte("x")},
			"cannot be read":       {err: errors.New("disk")},
			"expired at":           {text: sign(t, manifestOf(6, -time.Hour, all[1:]))},
		} {
			f.set(c.text, c.err)
			time.Sleep(aRound)
			if got := b.Manifest(); got.Seq != 5 || !strings.Contains(got.Err, want) || len(b.Seeds()) != 1 {
				t.Errorf("%s: %+v, %d seeds", want, got, len(b.Seeds()))
			}
		}
		f.set(good, nil)
		time.Sleep(aRound)
		if got := b.Manifest(); got.Err != "" || len(d.all()) != 1 {
			t.Errorf("%+v, %d dials", got, len(d.all()))
		}
	})
}

// TestRollbackOverRestart: an older manifest is refused by the next process
// too, until its newer signer is no authority any more.
func TestRollbackOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all, store := newFakeDialer(), peers(t, 0, 2), newStore()
		d.takes = time.Hour
		f := &file{text: sign(t, manifestOf(5, 24*time.Hour, all[:1]))}
		cfg := withManifest(t, Config{})
		b := begin(t, cfg, Deps{Dialer: d, Manifest: f.read, Datastore: store})
		time.Sleep(time.Second)
		if ok, err := store.Has(t.Context(), markKey); !ok || err != nil {
			t.Errorf("while its seed is dialled, what was accepted is not stored yet: %v", err)
		}
		b.stop()

		otherKey, other := identity(t, 800)
		old, err := Sign(otherKey, manifestOf(4, 24*time.Hour, all[1:]))
		if err != nil {
			t.Fatal(err)
		}
		f.set(old, nil)
		cfg.SeedAuthorities = append(cfg.SeedAuthorities, other.String())
		b = begin(t, cfg, Deps{Dialer: d, Manifest: f.read, Datastore: store})
		time.Sleep(time.Second)
		if got := b.Manifest(); got.Seq != 0 ||
			!strings.Contains(got.Err, "5 was accepted before") || len(b.Seeds()) != 0 {
			t.Errorf("%+v", got)
		}
		b.stop()

		cfg.SeedAuthorities = []string{other.String()}
		b = begin(t, cfg, Deps{Dialer: d, Manifest: f.read, Datastore: store})
		time.Sleep(time.Second)
		if got := b.Manifest(); got.Seq != 4 || got.Signer != other || got.Err != "" {
			t.Errorf("%+v", got)
		}
	})
}

// TestStartsExpired: a manifest that expired before the start is shown and not
// used, and does not bind.
func TestStartsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 2)
		f := &file{text: sign(t, manifestOf(5, -time.Hour, all[:1]))}
		b := begin(t, withManifest(t, Config{}), Deps{Dialer: d, Manifest: f.read})
		time.Sleep(time.Minute)
		if got := b.Manifest(); got.Seq != 5 || !strings.Contains(got.Err, "expired") || len(b.Seeds()) != 1 ||
			len(d.all()) != 0 {
			t.Errorf("%+v, %v", got, d.all())
		}
		f.set(sign(t, manifestOf(4, time.Hour, all[1:])), nil)
		time.Sleep(aRound)
		if got := b.Manifest(); got.Seq != 4 || got.Err != "" {
			t.Errorf("%+v", got)
		}
	})
}
