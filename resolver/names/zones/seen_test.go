package zones

import (
	"context"
	"crypto/rand"
	"fmt"
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

// mapWriter signs maps with one key into one file.
type mapWriter struct {
	key  crypto.PrivKey
	file string
}

func newMapWriter(t testing.TB) *mapWriter {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &mapWriter{key, filepath.Join(t.TempDir(), "map")}
}

// setting is what names.maps says of the map.
func (m *mapWriter) setting(t testing.TB) string {
	t.Helper()
	signer, err := peer.IDFromPrivateKey(m.key)
	if err != nil {
		t.Fatal(err)
	}
	return signer.String() + "=" + m.file
}

// write replaces the map by one in which alice is a zone.
func (m *mapWriter) write(t testing.TB, seq uint64, alice name.Zone) {
	t.Helper()
	now := time.Now()
	made, err := name.NewMap(seq, now.Add(time.Hour), []name.Entry{{Short: label(t, "alice"), Zone: alice}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := name.SignMap(m.key, made, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// watched runs a watcher and returns it; stop ends it.
func watched(t testing.TB, z *Zones) (w *Watcher, stop func()) {
	t.Helper()
	w, err := z.Watch(env.Env{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- w.Run(ctx, func() { close(ready) }) }()
	<-ready
	return w, func() { cancel(); <-done }
}

// TestRollback: an older map of the same signer is refused while a node runs, after a restart, and by
// commands; a newer one is taken. With amnesia nothing is written.
func TestRollback(t *testing.T) {
	t.Parallel()
	for _, amnesia := range []bool{false, true} {
		t.Run(fmt.Sprintf("amnesia=%t", amnesia), func(t *testing.T) {
			t.Parallel()
			m, home := newMapWriter(t), t.TempDir()
			z, err := Open(home, Config{Maps: []string{m.setting(t)}}, amnesia)
			if err != nil {
				t.Fatal(err)
			}
			m.write(t, 5, zone(5))
			w, stop := watched(t, z)
			defer func() { stop() }()
			check := func(seq uint64, want name.Zone, refused bool) {
				t.Helper()
				m.write(t, seq, zone(byte(seq)))
				if err := w.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
				n, _, err := w.Expand("blog.alice", time.Now())
				if refused && status.Of(err) != status.Stale || !refused && (err != nil || n.Zone != want) {
					t.Errorf("number %d: %v, %v", seq, n, err)
				}
			}
			check(7, zone(7), false)
			check(6, name.Zone{}, true)
			check(7, zone(7), false)
			if _, err := os.Stat(z.file(seenName)); amnesia != os.IsNotExist(err) {
				t.Errorf("the file of numbers: %v", err)
			}
			stop()
			w, stop = watched(t, z)
			if !amnesia {
				check(6, name.Zone{}, true)
				if _, err := shortNames(t, z).Zone("alice", time.Now()); status.Of(err) != status.Stale {
					t.Errorf("a command takes the older map: %v", err)
				}
			}
			check(8, zone(8), false)
		})
	}
}

// TestSeenFile: what is written is read again; damage refuses all maps, and nothing is written over it;
// the file is bounded and keeps the maps of the configuration.
func TestSeenFile(t *testing.T) {
	t.Parallel()
	m, home := newMapWriter(t), t.TempDir()
	z, err := Open(home, Config{Maps: []string{m.setting(t)}}, false)
	if err != nil {
		t.Fatal(err)
	}
	seen := seenMaps{z.maps[0]: 9}
	for i := range 2 * maxSeen {
		seen[mapFile{z.maps[0].signer, fmt.Sprintf("dir with\n%d", i)}] = uint64(i)
	}
	seen.trim(z.maps)
	if len(seen) != maxSeen || seen[z.maps[0]] != 9 {
		t.Errorf("%d maps, the one of the configuration with number %d", len(seen), seen[z.maps[0]])
	}
	read := seenMaps{}
	if err := read.parse(seen.encode()); err != nil || read.raise(seen) || seen.raise(read) {
		t.Errorf("%d of %d maps, %v", len(read), len(seen), err)
	}
	good := string(seen.encode())
	m.write(t, 9, zone(9))
	for what, bad := range map[string]string{
		"empty": "", "head": "allium-zone-maps/2\n", "cut": good[:len(good)-1],
		"number": strings.Replace(good, " 9 ", " -9 ", 1), "signer": strings.Replace(good, "12D3", "!2D3", 1),
		"fields": seenHead + "\nx\n", "quotes": strings.Replace(good, `"`, "", 1),
		"too many": good + strings.Replace(strings.Split(good, "\n")[1], `"`, `"x`, 1) + "\n",
		"too long": good + strings.Repeat("\n", maxSeenText),
	} {
		if err := os.WriteFile(z.file(seenName), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := shortNames(t, z).Zone("alice", time.Now()); status.Of(err) != status.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(z.file(seenName), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop := watched(t, z)
	stop()
	if p, err := os.ReadFile(z.file(seenName)); err != nil || string(p) != "damaged" {
		t.Errorf("the damaged file was replaced: %q, %v", p, err)
	}
}

func FuzzSeen(f *testing.F) {
	f.Add([]byte(seenHead + "\n"))
	f.Add([]byte(seenHead + "\n12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp 7 \"team.map\"\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		seen := seenMaps{}
		if seen.parse(p) != nil {
			return
		}
		again := seenMaps{}
		if err := again.parse(seen.encode()); err != nil || len(again) != len(seen) {
			t.Errorf("%q: %v", p, err)
		}
	})
}
