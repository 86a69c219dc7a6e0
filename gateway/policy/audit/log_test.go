package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a Log that runs until stop.
func running(t testing.TB, cfg Config, dir string) (l *Log, stop func()) {
	t.Helper()
	l, err := New(cfg, dir, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return l, testkit.Start(t, l.Run)
}

// written is the directory of a log with n mutations and their outcomes.
func written(t testing.TB, cfg Config, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	l, stop := running(t, cfg, dir)
	defer stop()
	for i := range n {
		seq, err := l.Mutation(t.Context(), Event{Actor: "uid:1", Op: "put", Object: fmt.Sprint(i), Detail: "é<\x01"})
		if err != nil {
			t.Fatal(err)
		}
		l.Outcome(t.Context(), Event{Of: seq, Outcome: "ok"})
	}
	return dir
}

func verify(t testing.TB, dir string) (Report, error) {
	t.Helper()
	return Verify(t.Context(), []string{dir}, VerifyOptions{})
}

// TestReconfigure: files that are begun later have the new size, and as many are kept as the reload says.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	cfg, dir := DefaultConfig(), filepath.Join(t.TempDir(), "audit")
	l, stop := running(t, cfg, dir)
	defer stop()
	write := func() (files int) {
		for range 600 {
			e := Event{Actor: "uid:1", Op: "put", Detail: strings.Repeat("x", 500)}
			if _, err := l.Mutation(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		numbers, err := listFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(numbers)
	}
	if n := write(); n != 1 {
		t.Errorf("%d files", n)
	}
	for _, keep := range []int{4, 2} {
		cfg.MaxBytes, cfg.Keep = 64<<10, keep
		l.Reconfigure(cfg)
		if n := write(); n != keep {
			t.Errorf("%d files, want %d", n, keep)
		}
	}
}

// TestVerifies a log over several files and runs.
func TestVerifies(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.MaxBytes = 64 << 10
	dir := written(t, cfg, 300)
	rep, err := verify(t, dir)
	if err != nil || rep.Records != 602+uint64(rep.Files) || rep.Last != rep.Records ||
		rep.First != 1 || rep.Files < 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	_, stop := running(t, cfg, dir)
	stop()
	again, err := Verify(t.Context(), []string{dir}, VerifyOptions{Head: rep.Head})
	if err != nil || again.Records != rep.Records+2 {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := Verify(t.Context(), []string{dir},
		VerifyOptions{Head: b3.Sum(nil).Hex()}); status.Of(err) != status.Corrupt {
		t.Fatalf("a head that is not there: %v", err)
	}
}

// TestAnyChangeShows changes one byte, or removes, repeats or swaps lines.
func TestAnyChangeShows(t *testing.T) {
	t.Parallel()
	dir := written(t, DefaultConfig(), 6)
	name := filepath.Join(dir, fileName(1))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := bytes.Clone(whole)
		lines := bytes.SplitAfter(p, []byte("\n"))
		lines = lines[:len(lines)-1]
		i := rapid.IntRange(0, len(lines)-1).Draw(rt, "line")
		switch rapid.IntRange(0, 4).Draw(rt, "change") {
		case 0:
			at := rapid.IntRange(0, len(p)-1).Draw(rt, "byte")
			p[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		case 1:
			p = bytes.Join(slices.Delete(lines, i, i+1), nil)
		case 2:
			p = bytes.Join(slices.Insert(lines, i, lines[i]), nil)
		case 3:
			j := (i + 1) % len(lines)
			lines[i], lines[j] = lines[j], lines[i]
			p = bytes.Join(lines, nil)
		case 4:
			p = p[:rapid.IntRange(0, len(p)-1).Draw(rt, "end")]
		}
		if err := os.WriteFile(name, p, 0o600); err != nil {
			rt.Fatal(err)
		}
		if rep, err := verify(t, dir); status.Of(err) != status.Corrupt {
			rt.Fatalf("%+v, %v", rep, err)
		}
	})
}

// TestCrash cuts a log whose head file is behind at every byte of its last two
// records: it goes on, and verifies.
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := written(t, DefaultConfig(), 3)
	name := filepath.Join(dir, fileName(1))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	step := 1
	if testing.Short() {
		step = 11
	}
	n := len(lines) - 3 // the last of lines is empty
	head := position{seq: uint64(n), hash: hashOf(bytes.TrimSuffix(lines[n-1], []byte("\n")))}
	for cut := len(bytes.Join(lines[:n], nil)); cut <= len(whole); cut += step {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.WriteFile(name, whole[:cut], 0o600),
			writeHead(dir, head)); err != nil {
			t.Fatal(err)
		}
		_, stop := running(t, DefaultConfig(), dir)
		stop()
		half := cut > 0 && whole[cut-1] != '\n'
		if rep, err := verify(t, dir); err != nil || (rep.Cuts == 1) != half {
			t.Fatalf("cut at %d: %+v, %v", cut, rep, err)
		}
	}
}

// TestDamageIsKept: a log that lost records goes on in a new file, says so, and
// does not verify.
func TestDamageIsKept(t *testing.T) {
	t.Parallel()
	dir := written(t, DefaultConfig(), 3)
	name := filepath.Join(dir, fileName(1))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	short := whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1]
	if err := os.WriteFile(name, short, 0o600); err != nil {
		t.Fatal(err)
	}
	l, stop := running(t, DefaultConfig(), dir)
	defer stop()
	if _, err := l.Mutation(t.Context(), Event{}); err != nil {
		t.Fatal(err)
	}
	stop()
	if kept, err := os.ReadFile(name); err != nil || !bytes.Equal(kept, short) {
		t.Errorf("the old file was changed: %v", err)
	}
	if _, err := verify(t, dir); status.Of(err) != status.Corrupt {
		t.Errorf("verify: %v", err)
	}
}

// brokenFile fails to write for as long as it is told.
type brokenFile struct {
	file
	broken func() bool
}

func (f brokenFile) Write(p []byte) (int, error) {
	if f.broken() {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, errors.New("no room")
	}
	return f.file.Write(p)
}

// TestRefusesWithoutRecord: what cannot be recorded must not be done, until it
// can be recorded again.
func TestRefusesWithoutRecord(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	broken := false
	set := func(b bool) { mu.Lock(); defer mu.Unlock(); broken = b }
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := New(DefaultConfig(), dir, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	l.disk.open = func(name string) (file, error) {
		f, err := openAppend(name)
		return brokenFile{f, func() bool { mu.Lock(); defer mu.Unlock(); return broken }}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.Run(ctx, func() { close(ready) }) })
	<-ready
	set(true)
	if _, err := l.Mutation(t.Context(), Event{}); status.Of(err) != status.NotReady || l.Err() == nil {
		t.Errorf("a mutation without a record: %v", err)
	}
	set(false)
	for l.Err() != nil {
		if _, err := l.Mutation(t.Context(), Event{}); err != nil && status.Of(err) != status.NotReady {
			t.Fatal(err)
		}
	}
	if _, err := l.Mutation(t.Context(), Event{}); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
	if rep, err := verify(t, dir); err != nil || rep.Cuts != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// TestFlood of refusals is bounded, and mutations go on beside it.
func TestFlood(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "audit")
	l, stop := running(t, DefaultConfig(), dir)
	defer stop()
	for range 10_000 {
		l.Refused(Event{Outcome: "forbidden"})
	}
	if _, err := l.Mutation(t.Context(), Event{}); err != nil {
		t.Fatal(err)
	}
	stop()
	if rep, err := verify(t, dir); err != nil || rep.Records > 1000 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// FuzzParse: what parses encodes to the same bytes.
func FuzzParse(f *testing.F) {
	line, err := Record{Seq: 1, Event: Event{Kind: Start, Detail: "é<"}, Prev: b3.Root{}.Hex()}.line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"seq":1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := parse(p)
		if err != nil {
			if status.Of(err) != status.Corrupt {
				t.Fatal(err)
			}
			return
		}
		if again, err := r.line(); err != nil || !bytes.Equal(again, p) {
			t.Fatalf("%q is %q, %v", p, again, err)
		}
	})
}
