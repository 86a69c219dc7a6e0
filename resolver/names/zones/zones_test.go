package zones

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/keyfile"
	"allium/protocols/name"
	"allium/protocols/status"
)

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func open(t testing.TB, home string, maps ...string) *Zones {
	t.Helper()
	z, err := Open(home, Config{Maps: maps}, false)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func label(t testing.TB, s string) name.Label {
	t.Helper()
	l, err := name.ParseLabel(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// zone returns a zone without a key.
func zone(b byte) name.Zone { return name.Zone{1: b, 2: 1} }

func read(t testing.TB, file string) []byte {
	t.Helper()
	p, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewExportImport(t *testing.T) {
	t.Parallel()
	home, other := t.TempDir(), filepath.Join(t.TempDir(), "not", "yet")
	z := open(t, home)
	made, err := z.New(t.Context(), label(t, "site"))
	if err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{z.KeyFile(made): 0o600, filepath.Join(home, keysDir): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	key, err := z.Key(made)
	if err != nil || !made.Signs(key.GetPublic()) {
		t.Fatalf("%v, %v", key, err)
	}
	text, err := z.Export(made)
	if err != nil {
		t.Fatal(err)
	}
	y := open(t, other)
	for range 2 { // the second time changes nothing
		if got, err := y.Import(t.Context(), text, label(t, "mine")); err != nil || got != made {
			t.Errorf("%s, %v", got, err)
		}
	}
	if got := read(t, y.KeyFile(made)); !bytes.Equal(got, text) {
		t.Errorf("%s", got)
	}
	if own, err := y.Own(); err != nil || !slices.Equal(own, []name.Zone{made}) {
		t.Errorf("%v, %v", own, err)
	}
	all, err := y.Petnames()
	if err != nil || len(all) != 1 || all[0] != (name.Entry{Short: label(t, "mine"), Zone: made}) {
		t.Errorf("%v, %v", all, err)
	}
}

// TestRefusedPetname: a zone whose petname is refused is not made.
func TestRefusedPetname(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	z := open(t, home)
	if err := z.SetPetname(t.Context(), label(t, "modern"), zone(1)); err != nil {
		t.Fatal(err)
	}
	before := read(t, filepath.Join(home, petnamesFile))
	for _, short := range []string{"modem", "modern"} {
		if made, err := z.New(t.Context(), label(t, short)); status.Of(err) != status.Conflict {
			t.Errorf("%s: %s, %v", short, made, err)
		}
		if err := z.SetPetname(t.Context(), label(t, short), zone(2)); status.Of(err) != status.Conflict {
			t.Errorf("%s: %v", short, err)
		}
	}
	if own, err := z.Own(); err != nil || len(own) != 0 {
		t.Errorf("%v, %v", own, err)
	}
	if after := read(t, filepath.Join(home, petnamesFile)); !bytes.Equal(before, after) {
		t.Errorf("%s", after)
	}
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	z := open(t, t.TempDir())
	made, err := z.New(t.Context(), name.Label{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := z.New(t.Context(), name.Label{})
	if err != nil {
		t.Fatal(err)
	}
	file := z.KeyFile(made)
	good, foreign := read(t, file), read(t, z.KeyFile(other))
	rsaKey, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa, err := keyfile.Encode(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		text []byte
		mode os.FileMode
		want status.Outcome
	}{
		"good":                {good, 0o600, status.OK},
		"read-only":           {good, 0o400, status.OK},
		"readable by a group": {good, 0o640, status.Forbidden},
		"readable by all":     {good, 0o644, status.Forbidden},
		"empty":               {nil, 0o600, status.Corrupt},
		"truncated":           {good[:len(good)/2], 0o600, status.Corrupt},
		"of another zone":     {foreign, 0o600, status.Corrupt},
		"of another kind":     {rsa, 0o600, status.Corrupt},
		"not a key":           {[]byte("-----BEGIN ALLIUM SEEDS-----\n"), 0o600, status.Corrupt},
		"huge":                {make([]byte, 1<<20), 0o600, status.Corrupt},
	} {
		err := errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, tc.text, 0o600), os.Chmod(file, tc.mode))
		if err != nil {
			t.Fatal(err)
		}
		_, err = z.Key(made)
		if status.Of(err) != tc.want {
			t.Errorf("%s: %v, want %s", what, err, tc.want)
		}
		if _, xerr := z.Export(made); status.Of(xerr) != tc.want {
			t.Errorf("%s: export: %v", what, xerr)
		}
		if err != nil && (!strings.Contains(err.Error(), file) || strings.Contains(err.Error(), string(good[:20]))) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := z.Key(zone(1)); status.Of(err) != status.NotFound {
		t.Errorf("no key: %v", err)
	}
	for _, text := range [][]byte{nil, good[:30], rsa} {
		if _, err := z.Import(t.Context(), text, name.Label{}); status.Of(err) != status.BadRequest {
			t.Errorf("import: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if own, err := z.Own(); err != nil || len(own) != 2 {
		t.Errorf("%v, %v", own, err)
	}
}

func TestPetnamesFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	z := open(t, home)
	file := filepath.Join(home, petnamesFile)
	head := "allium-petnames/1\n"
	a, b := zone(1).String(), zone(2).ID().String()
	for what, tc := range map[string]struct {
		text string
		mode os.FileMode
		want status.Outcome
	}{
		"good":             {head + "# a comment\n\n  alice  " + a + "\nbob " + b + "\n", 0o600, status.OK},
		"capitals":         {head + "Alice " + a + "\n", 0o644, status.OK},
		"open to writers":  {head, 0o666, status.Forbidden},
		"empty":            {"", 0o600, status.Corrupt},
		"another version":  {"allium-petnames/2\n", 0o600, status.Corrupt},
		"a name alone":     {head + "alice\n", 0o600, status.Corrupt},
		"no key":           {head + "alice bob\n", 0o600, status.Corrupt},
		"no name":          {head + "a_b " + a + "\n", 0o600, status.Corrupt},
		"a key as a name":  {head + a + " " + a + "\n", 0o600, status.Corrupt},
		"twice":            {head + "alice " + a + "\nalice " + b + "\n", 0o600, status.Corrupt},
		"look alike":       {head + "modem " + a + "\nmodern " + a + "\n", 0o600, status.Corrupt},
		"longer than ever": {head + strings.Repeat("\n", maxPetnamesText), 0o600, status.Corrupt},
	} {
		if err := errors.Join(os.WriteFile(file, []byte(tc.text), 0o600), os.Chmod(file, tc.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := z.Petnames()
		if status.Of(err) != tc.want {
			t.Errorf("%s: %v, want %s", what, err, tc.want)
		}
		if err == nil {
			continue
		}
		if err := z.SetPetname(t.Context(), label(t, "carol"), zone(3)); status.Of(err) != tc.want {
			t.Errorf("%s: %v", what, err)
		}
		if got := read(t, file); string(got) != tc.text {
			t.Errorf("%s: the file was changed", what)
		}
	}
}

func TestManyPetnames(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	b := bytes.NewBufferString(petnamesHead)
	for i := range maxPetnames {
		fmt.Fprintf(b, "%s %s\n", letters(i), zone(1))
	}
	if err := os.WriteFile(filepath.Join(home, petnamesFile), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if b.Len() > maxPetnamesText {
		t.Errorf("%d bytes", b.Len())
	}
	z := open(t, home)
	if err := z.SetPetname(t.Context(), label(t, letters(0)), zone(1)); err != nil {
		t.Error(err)
	}
	if err := z.SetPetname(t.Context(), label(t, "new"), zone(1)); status.Of(err) != status.Conflict {
		t.Errorf("one more: %v", err)
	}
}

// letters returns a name for i of letters that do not look like others.
func letters(i int) string {
	return "x" + strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%012b", i))
}

// TestConcurrently: of changes at the same time none is lost.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	errs := make(chan error, 8) // bound: one for each goroutine
	for i := range 8 {
		go func() {
			z, err := Open(home, Config{}, false)
			if err == nil {
				short, perr := name.ParseLabel(letters(i))
				err = errors.Join(perr, z.SetPetname(t.Context(), short, zone(byte(i))))
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if all, err := open(t, home).Petnames(); err != nil || len(all) != 8 {
		t.Errorf("%d petnames, %v", len(all), err)
	}
}

func TestAmnesia(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	z, err := Open(home, Config{}, true)
	if err != nil {
		t.Fatal(err)
	}
	_, newErr := z.New(t.Context(), name.Label{})
	for what, err := range map[string]error{
		"new": newErr, "petname": z.SetPetname(t.Context(), label(t, "alice"), zone(1)),
	} {
		if status.Of(err) != status.Amnesia || !strings.Contains(err.Error(), "node.amnesia") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	if names, err := z.ShortNames(); err != nil || names == nil {
		t.Errorf("%v, %v", names, err)
	}
}
