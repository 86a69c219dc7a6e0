package zones

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/protocols/name"
	"allium/protocols/status"
)

// writeMap signs a map with a new key and returns what names.maps says of it.
func writeMap(t testing.TB, notAfter time.Time, entries map[string]name.Zone) (setting string, signer peer.ID) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = peer.IDFromPrivateKey(key); err != nil {
		t.Fatal(err)
	}
	var all []name.Entry
	for short, z := range entries {
		all = append(all, name.Entry{Short: label(t, short), Zone: z})
	}
	m, err := name.NewMap(1, notAfter, all)
	if err != nil {
		t.Fatal(err)
	}
	text, err := name.SignMap(key, m, notAfter.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "map")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return signer.String() + "=" + file, signer
}

func shortNames(t testing.TB, z *Zones) *ShortNames {
	t.Helper()
	s, err := z.ShortNames()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOrder: petnames come before the maps, and these come in their order.
func TestOrder(t *testing.T) {
	t.Parallel()
	end := at.Add(time.Hour)
	first, signer := writeMap(t, end, map[string]name.Zone{"alice": zone(2), "bob": zone(3), "modem": zone(4)})
	second,
		_ := writeMap(t, end, map[string]name.Zone{"bob": zone(5), "carol": zone(6), "b0b": zone(7), "сосоа": zone(8)})
	z := open(t, t.TempDir(), first, second)
	for short, of := range map[string]name.Zone{"alice": zone(1), "cocoa": zone(9)} {
		err := z.SetPetname(t.Context(), label(t, short), of)
		if short == "cocoa" {
			if status.Of(err) != status.Conflict {
				t.Errorf("a petname like a name of a map: %v", err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	s := shortNames(t, z)
	for short, want := range map[string]Found{
		"alice": {Zone: zone(1), Origin: FromPetname},
		"bob":   {Zone: zone(3), Origin: FromMap, Signer: signer, NotAfter: end},
	} {
		want.Short = label(t, short)
		if got, err := s.Lookup(want.Short, at); err != nil || got != want {
			t.Errorf("%s: %+v, %v", short, got, err)
		}
	}
	if got, err := s.Lookup(label(t, "carol"), at); err != nil || got.Zone != zone(6) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Lookup(label(t, "dave"), at); status.Of(err) != status.NotFound {
		t.Errorf("unknown: %v", err)
	}
	n, found, err := s.Expand("Blog.alice", at)
	if err != nil || n != (name.Name{Label: label(t, "blog"), Zone: zone(1)}) || found.Origin != FromPetname {
		t.Errorf("%v, %+v, %v", n, found, err)
	}
	n, found, err = s.Expand("blog."+zone(7).String(), at)
	if err != nil || n.Zone != zone(7) || found.Origin != FromKey {
		t.Errorf("%v, %+v, %v", n, found, err)
	}
	for text, want := range map[string]status.Outcome{
		"blog.example.com": status.NotFound, "blog.dave": status.NotFound, "blog": status.BadAddress,
		"blog.a_b": status.BadAddress, "a b.alice": status.BadAddress,
	} {
		if _, _, err := s.Expand(text, at); status.Of(err) != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if all, errs := s.All(at); len(all) != 8 || len(errs) != 0 || all[0].Origin != FromPetname {
		t.Errorf("%+v, %v", all, errs)
	}
}

// TestLookalikes: an entry of a map that looks like a name before it is refused.
func TestLookalikes(t *testing.T) {
	t.Parallel()
	first, _ := writeMap(t, at.Add(time.Hour), map[string]name.Zone{"modem": zone(1), "blog": zone(2)})
	second, _ := writeMap(t, at.Add(time.Hour),
		map[string]name.Zone{"modern": zone(3), "b1og": zone(4), "аісе": zone(5)})
	z := open(t, t.TempDir(), first)
	if err := z.SetPetname(t.Context(), label(t, "aice"), zone(6)); err != nil {
		t.Fatal(err)
	}
	s := shortNames(t, open(t, z.home, first, second))
	for _, short := range []string{"modern", "b1og", "аісе"} {
		_, err := s.Lookup(label(t, short), at)
		var bad *name.ConfusableError
		if !errors.As(err, &bad) || bad.Label.String() != short {
			t.Errorf("%s: %v", short, err)
		}
	}
}

// TestBadMaps: a map that cannot be used hides those behind it, not those before.
func TestBadMaps(t *testing.T) {
	t.Parallel()
	good, _ := writeMap(t, at.Add(time.Hour), map[string]name.Zone{"bob": zone(1)})
	expired, signer := writeMap(t, at.Add(-time.Second), map[string]name.Zone{"alice": zone(2)})
	behind, _ := writeMap(t, at.Add(time.Hour), map[string]name.Zone{"alice": zone(3)})
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, make([]byte, name.MaxMapText+1), 0o644); err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(good, "=")
	for what, tc := range map[string]struct {
		setting string
		want    status.Outcome
	}{
		"expired":       {expired, status.Stale},
		"missing":       {signer.String() + "=" + filepath.Join(dir, "none"), status.BadRequest},
		"a directory":   {signer.String() + "=" + dir, status.BadRequest},
		"huge":          {signer.String() + "=" + junk, status.BodyCap},
		"other signers": {signer.String() + "=" + file, status.BadSignature},
	} {
		s := shortNames(t, open(t, t.TempDir(), good, tc.setting, behind))
		if got, err := s.Lookup(label(t, "bob"), at); err != nil || got.Zone != zone(1) {
			t.Errorf("%s: before it: %+v, %v", what, got, err)
		}
		if got, err := s.Lookup(label(t, "alice"), at); status.Of(err) != tc.want {
			t.Errorf("%s: %+v, %v, want %s", what, got, err, tc.want)
		}
		if _, errs := s.All(at); len(errs) != 1 || status.Of(errs[0]) != tc.want {
			t.Errorf("%s: %v", what, errs)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := zone(1).ID().String() + "=/etc/team.map"
	for what, maps := range map[string][]string{
		"no signer": {"/etc/team.map"},
		"no file":   {zone(1).ID().String() + "="},
		"no key":    {"alice=/etc/team.map"},
		"too many":  make([]string, maxMaps+1),
	} {
		c := Config{Maps: maps}
		if err := c.Validate(); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := Open(t.TempDir(), c, false); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (Config{Maps: []string{good, zone(2).String() + "=x"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestSignMap: the petnames of one home are the map of another.
func TestSignMap(t *testing.T) {
	t.Parallel()
	z := open(t, t.TempDir())
	signer, err := z.New(t.Context(), label(t, "team"))
	if err != nil {
		t.Fatal(err)
	}
	if err := z.SetPetname(t.Context(), label(t, "alice"), zone(1)); err != nil {
		t.Fatal(err)
	}
	text, m, err := z.SignMap(signer, 24*time.Hour, at)
	if err != nil || len(m.Entries) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	file := filepath.Join(t.TempDir(), "map")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	s := shortNames(t, open(t, t.TempDir(), signer.ID().String()+"="+file))
	if got, err := s.Lookup(label(t, "alice"), at); err != nil || got.Zone != zone(1) || got.Signer != signer.ID() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := z.SignMap(zone(1), time.Hour, at); status.Of(err) != status.NotFound {
		t.Errorf("without the key: %v", err)
	}
	empty := open(t, t.TempDir())
	if signer, err = empty.New(t.Context(), name.Label{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := empty.SignMap(signer, time.Hour, at); status.Of(err) != status.BadRequest {
		t.Errorf("no petnames: %v", err)
	}
}

// BenchmarkShortNames reads the most petnames, and a map of as many names.
func BenchmarkShortNames(b *testing.B) {
	home, all := b.TempDir(), map[string]name.Zone{}
	text := petnamesHead
	for i := range maxPetnames {
		text += letters(i) + " " + zone(1).String() + "\n"
		all["y"+letters(i)] = zone(2)
	}
	if err := os.WriteFile(filepath.Join(home, petnamesFile), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	setting, _ := writeMap(b, at.Add(time.Hour), all)
	z := open(b, home, setting)
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			shortNames(b, z)
		}
	})
	s, last := shortNames(b, z), label(b, "y"+letters(maxPetnames-1))
	b.Run("look up", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Lookup(last, at); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestWatcher: a petname that is given while a node runs is known a moment later. Petnames that
// cannot be read are the error of short names, and no key needs them.
func TestWatcher(t *testing.T) {
	z, err := Open(t.TempDir(), Config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	w, err := z.Watch(env.Env{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, func() {}) }()
	defer func() { cancel(); <-done }()
	short, zone := label(t, "alice"), zone(7)
	if _, _, err := w.Expand("blog.alice", time.Now()); status.Of(err) != status.NotFound {
		t.Errorf("before it is given: %v", err)
	}
	if err := z.SetPetname(ctx, short, zone); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if n, found, err := w.Expand("blog.alice", time.Now()); err != nil || n.Zone != zone ||
		found.Origin != FromPetname {
		t.Errorf("%v, %v, %v", n, found, err)
	}
	if err := os.WriteFile(z.file(petnamesFile), []byte("no petnames"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(ctx); err == nil {
		t.Error("damaged petnames are read")
	}
	if _, _, err := w.Expand("blog.alice", time.Now()); err == nil {
		t.Error("a short name is found in damaged petnames")
	}
	if n, _, err := w.Expand("blog."+zone.String(), time.Now()); err != nil || n.Zone != zone {
		t.Errorf("the key of a zone: %v, %v", n, err)
	}
}
