package denylist

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	bad  = b3.Sum([]byte("bad"))
	good = b3.Sum([]byte("good"))

	zone, other = name.Zone{1}, name.Zone{2}
)

// doubled is the entry that hides s.
func doubled(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "//" + hex.EncodeToString(sum[:])
}

// listed is a file with those lines.
func listed(t testing.TB, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func of(t testing.TB, lines ...string) *List {
	t.Helper()
	l, err := New(Config{Files: []string{listed(t, lines...)}}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestEntries asks each form of an entry about what it denies and what it does
// not.
func TestEntries(t *testing.T) {
	t.Parallel()
	cid := bad.CID().String()
	for _, c := range []struct {
		line    string
		object  bool     // bad itself is denied, and so is all below it
		paths   []string // below bad, denied
		allowed []string // below bad
	}{
		{bad.String(), true, []string{"", "a", "a/b"}, nil},
		{"  " + bad.String() + "  # why\r", true, []string{""}, nil},
		{bad.String() + "/", true, []string{"x"}, nil},
		{cid, true, []string{"", "a"}, nil},
		{bad.Hex(), true, []string{"", "a"}, nil},
		{strings.ToUpper(bad.Hex()) + "/a", false, []string{"a", "a/b"}, []string{"", "b"}},
		{base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(bad[:]), true, []string{"", "a"}, nil},
		{doubled(bad.String()), true, []string{"", "a"}, nil},
		{doubled(cid), true, []string{""}, nil},
		{doubled(cid + "/"), true, []string{"", "q"}, nil},
		{"//" + strings.ToUpper(doubled(cid)[2:]), true, []string{""}, nil},
		{bad.String() + "/a/b", false, []string{"a/b", "a/b/c"}, []string{"", "a", "a/bc", "b", "a/c"}},
		{bad.String() + "/a/b/", false, []string{"a/b"}, []string{"a"}},
		{cid + "/été", false, []string{"été", "été/x"}, []string{"ete"}},
		{doubled(bad.String() + "/a"), false, []string{"a", "a/b"}, []string{"", "b"}},
		{doubled(cid + "/a"), false, []string{"a", "a/b"}, []string{"", "b"}},
		{good.String(), false, nil, []string{"", "a"}},
		{"# " + bad.String(), false, nil, []string{"", "a"}},
		{"", false, nil, []string{""}},
	} {
		v := of(t, "# a list", c.line, "").At("test")
		if got := v.Object(bad); (status.Of(got) == status.Denied) != c.object {
			t.Errorf("%q: the object: %v", c.line, got)
		}
		for _, p := range c.paths {
			if err := v.Path(bad, p); status.Of(err) != status.Denied || strings.Contains(err.Error(), "list") {
				t.Errorf("%q: %q: %v", c.line, p, err)
			}
		}
		for _, p := range c.allowed {
			if err := v.Path(bad, p); err != nil {
				t.Errorf("%q: %q: %v", c.line, p, err)
			}
		}
	}
}

// TestNames: a name and a zone are denied in every spelling, and no other name is.
func TestNames(t *testing.T) {
	t.Parallel()
	const label = "blög"
	for _, c := range []struct {
		line           string
		allLabels, one bool
	}{
		{"name:" + label + "." + zone.String(), false, true},
		{"name:blog." + zone.String(), false, false},
		{"name:BLO\u0308G." + zone.ID().String() + " # why", false, true},
		{"name:*." + zone.String(), true, true},
		{"name:" + zone.String(), true, true},
		{"name:" + zone.ID().String(), true, true},
		{doubled("name:" + label + "." + zone.String()), false, true},
		{doubled("name:*." + zone.String()), true, true},
		{doubled("name:" + zone.String()), false, false},
		{bad.String(), false, false},
		{"", false, false},
	} {
		v := of(t, c.line).At("test")
		for text, want := range map[string]bool{
			label + "." + zone.String(): c.one, "other." + zone.String(): c.allLabels,
			label + "." + other.String(): false,
		} {
			n, err := name.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Name(n); (status.Of(got) == status.Denied) != want {
				t.Errorf("%q: %s: %v", c.line, n, got)
			}
		}
	}
}

// TestBadLines: a line that is no entry fails the whole, by number and reason.
func TestBadLines(t *testing.T) {
	t.Parallel()
	for line, why := range map[string]string{
		strings.ToUpper(bad.String()):      "no entry",
		"b3:" + strings.ToUpper(bad.Hex()): "",
		bad.String()[:40]:                  "",
		bad.Hex()[1:]:                      "no entry",
		"b3:":                              "",
		"https://example.org/":             "no entry",
		"bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi": "",
		bad.String() + "//a":        "parts that are empty",
		bad.String() + "/a/../b":    "dots",
		bad.String() + "/./b":       "dots",
		bad.String() + `/a\b`:       "no path",
		bad.String() + " and more":  "more than one word",
		"//abc":                     "64 hex digits",
		"//" + bad.Hex() + "00":     "64 hex digits",
		"name:onions":               "name:KEY",
		"name:":                     "name:KEY",
		"name:*":                    "name:KEY",
		"name:*.alice":              "name:KEY",
		"name:blog.alice":           "name:LABEL.KEY",
		"name:a.b." + zone.String(): "name:LABEL.KEY",
		"name:**." + zone.String():  "",
		"\xff":                      "UTF-8",
		strings.Repeat("#", 5000):   "4096 bytes",
	} {
		_, err := New(Config{Files: []string{listed(t, bad.String(), line, good.String())}}, Deps{})
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), "line 2 of ") ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%.80q: %v", line, err)
		}
	}
}

// TestBounds: a list that is longer than it may be is refused.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := &set{}
	s.entries[object] = make([]digest, MaxEntries-1)
	if err := s.parse("x", strings.NewReader(bad.String())); err != nil {
		t.Errorf("the last entry: %v", err)
	}
	if err := s.parse("x", strings.NewReader(good.String())); status.Of(err) != status.BadRequest ||
		!strings.Contains(err.Error(), "1000000 entries") {
		t.Errorf("one too many: %v", err)
	}
	s = &set{bytes: MaxBytes - 3}
	if err := s.parse("x", strings.NewReader("#a\n")); err != nil {
		t.Errorf("the last byte: %v", err)
	}
	if err := s.parse("x", strings.NewReader("#")); status.Of(err) != status.BadRequest ||
		!strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("one too many: %v", err)
	}
}

// TestMissingFile: one that was named has to be there; the optional one need
// not, until it was there once.
func TestMissingFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "none")
	if _, err := New(Config{Files: []string{name}}, Deps{}); status.Of(err) != status.BadRequest {
		t.Errorf("%v", err)
	}
	l, stop := running(t, Config{Optional: name})
	defer stop()
	v := l.At("test")
	for _, step := range []struct {
		do     func() error
		ok     bool
		denied bool
	}{
		{func() error { return nil }, true, false},
		{func() error { return os.WriteFile(name, []byte(bad.String()), 0o600) }, true, true},
		{func() error { return os.Remove(name) }, false, true},
		{func() error { return os.WriteFile(name, []byte("nonsense"), 0o600) }, false, true},
		{func() error { return os.WriteFile(name, nil, 0o600) }, true, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if err := l.Reload(t.Context()); (err == nil) != step.ok {
			t.Errorf("%v", err)
		}
		if got := v.Object(bad); (got != nil) != step.denied {
			t.Errorf("%v", got)
		}
	}
	if n := testutil.ToFloat64(l.m.reloads.WithLabelValues("failed")); n < 2 {
		t.Errorf("%v failed reloads were counted", n)
	}
}

// running is a List that follows its files until stop.
func running(t testing.TB, cfg Config) (l *List, stop func()) {
	t.Helper()
	l, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return l, testkit.Start(t, l.Run)
}

// TestFollowsItsFiles without being asked, while others ask it.
func TestFollowsItsFiles(t *testing.T) {
	t.Parallel()
	one, two := listed(t, bad.String()), listed(t)
	synctest.Test(t, func(t *testing.T) {
		l, stop := running(t, Config{Files: []string{one, two}})
		defer stop()
		v := l.At("test")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if v.Object(bad) == nil || v.Path(bad, "a") == nil {
						t.Error("what is on every list was allowed")
						return
					}
					time.Sleep(pollEvery / 10) // also at the moment of each poll
				}
			})
		}
		// Another file in its place, with the same size and time.
		fi, err := os.Stat(two)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			next := two + ".new"
			want := b3.Sum(fmt.Append(nil, i))
			if err := os.WriteFile(next, []byte(want.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(next, fi.ModTime(), fi.ModTime()); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, two); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pollEvery)
			synctest.Wait()
			if v.Object(want) == nil {
				t.Error("it was not read")
			}
		}
	})
}

// TestReconfigure: other files are in force after the next reload.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	one, two := listed(t, bad.String()), listed(t)
	l, stop := running(t, Config{Files: []string{one}})
	defer stop()
	for _, name := range []string{two, one} {
		l.Reconfigure(Config{Files: []string{name}})
		if err := l.Reload(t.Context()); err != nil || (l.At("test").Object(bad) != nil) != (name == one) {
			t.Errorf("%s: %v, %v", name, err, l.At("test").Object(bad))
		}
	}
}

// FuzzLine: a line is an entry, none, or an error with words; what is an entry
// fits the list, and denies what it says.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"", "# x", bad.String(), bad.String() + "/a/b", bad.CID().String() + "/", doubled("x"), "name:x", "\xff",
		bad.String() + " # y",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		kind, _, ok, err := parseLine(line)
		if err != nil {
			if ok || err.Error() == "" {
				t.Fatalf("%v, %v", ok, err)
			}
			return
		}
		if !ok {
			if s := strings.TrimSpace(line); s != "" && s[0] != '#' {
				t.Fatalf("%q is passed over", line)
			}
			return
		}
		s := &set{}
		if err := s.parse("x", strings.NewReader(line)); err != nil {
			if len(line) >= maxLine || strings.Contains(line, "\n") {
				return
			}
			t.Fatal(err)
		}
		if s.sort(); s.count() != 1 && !strings.Contains(line, "\n") {
			t.Fatalf("%d entries", s.count())
		}
		if kind == double {
			return
		}
		word := strings.Fields(line)[0]
		address, below, _ := strings.Cut(word, "/")
		root, err := parseAddress(address)
		if err != nil || !s.path(root, strings.TrimSuffix(below, "/")) {
			t.Fatalf("%q does not deny itself: %v", line, err)
		}
	})
}
