package store_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// Set for the child of TestCrashKill: the store it writes to, and the round, which
// makes its objects others than those of the rounds before.
const (
	killedDir   = "ALLIUM_CRASH_DIR"
	killedRound = "ALLIUM_CRASH_ROUND"
)

// killsOfStore is how many kills a store suffers before the next one is begun:
// each round reads all that is in it.
const killsOfStore = 50

// killRounds is how often TestCrashKill kills; `make bench` asks for 25.
func killRounds(t *testing.T) int {
	v := os.Getenv("ALLIUM_CRASH_ROUNDS")
	if v == "" {
		return 5
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("ALLIUM_CRASH_ROUNDS: %v", err)
	}
	return n
}

// TestCrashKill kills a process that writes, with SIGKILL at a random moment, and
// compares what it had acknowledged with what is there, round after round on
// the same store.
func TestCrashKill(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("kills processes, which takes its time; TestCrash has their goroutines")
	}
	t.Parallel()
	var dir string
	var l *ledger
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for round := range killRounds(t) {
		if round%killsOfStore == 0 {
			dir, l = filepath.Join(t.TempDir(), strconv.Itoa(round)), newLedger()
		}
		lines := killOne(t, dir, l, round, 50+rng.IntN(1500))
		s, stop := storetest.Start(t, embedded(dir), store.Deps{})
		if err := l.check(t, s); err != nil {
			t.Fatalf("round %d, killed after %d lines: %v", round, lines, err)
		}
		// An object whose fate was unknown is known now.
		for root, state := range l.objects {
			if state != unknown {
				continue
			}
			if has, err := s.Has(t.Context(), []b3.Root{root}); err == nil && has[0] == b3.Complete {
				l.objects[root] = present
			} else {
				l.objects[root] = absent
			}
		}
		t.Logf("round %d: %d lines, %d objects, stats %+v", round, lines, len(l.objects), s.Stats())
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// killOne runs a child until it printed that many lines, kills it, and enters
// what it said in l.
func killOne(t *testing.T, dir string, l *ledger, round, lines int) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashKill$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir, fmt.Sprintf("%s=%d", killedRound, round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for sc := bufio.NewScanner(out); sc.Scan(); n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		var verb string
		var seed uint64
		if _, err := fmt.Sscanf(sc.Text(), "%s %d", &verb, &seed); err != nil {
			continue // cut by the kill
		}
		switch verb {
		case "try":
			l.object(killContent(seed), unknown)
		case "here":
			l.object(killContent(seed), present)
		case "gone":
			l.object(killContent(seed), absent)
		default:
			t.Errorf("the child says %q", sc.Text())
		}
	}
	_ = cmd.Wait() // killed
	if n < lines {
		t.Fatalf("the child ended by itself after %d lines", n)
	}
	return n
}

// killContent is the object of a seed: mostly small, some large.
func killContent(seed uint64) []byte {
	size := int(seed * 7919 % 20_000)
	switch seed % 16 {
	case 0:
		size += b3.GroupSize
	case 1:
		size += 4 * b3.GroupSize
	}
	return storetest.Bytes(seed, size)
}

// writeUntilKilled says before and after each operation what it does.
func writeUntilKilled(t *testing.T, dir string) {
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	round, err := strconv.ParseUint(os.Getenv(killedRound), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	base := (round + 1) << 32
	var print sync.Mutex
	say := func(verb string, seed uint64) {
		print.Lock()
		defer print.Unlock()
		// One write for each line: a line is there whole or not at all.
		_, _ = fmt.Fprintf(os.Stdout, "%s %d\n", verb, seed)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := uint64(0); ; i++ {
				seed := base + i*8 + uint64(w)
				p := killContent(seed)
				say("try", seed)
				if err := writeOne(t.Context(), t, s, p, i); err != nil {
					t.Error(err)
					return
				}
				say("here", seed)
				if i%5 == 4 {
					old := seed - 8*2
					say("try", old)
					if err := s.Delete(t.Context(), b3.Sum(killContent(old))); err != nil {
						t.Error(err)
						return
					}
					say("gone", old)
				}
			}
		})
	}
	wg.Wait()
}

// writeOne stores p durably in one of the three ways.
func writeOne(ctx context.Context, t *testing.T, s *store.Store, p []byte, i uint64) error {
	switch i % 3 {
	case 0:
		_, err := s.Put(ctx, bytes.NewReader(p), store.PutOptions{})
		return err
	case 1:
		if _, err := s.PutBytes(ctx, p, store.PutOptions{Deferred: true}); err != nil {
			return err
		}
		return s.Flush(ctx)
	}
	in, err := s.Ingest(ctx, b3.Sum(p), int64(len(p)))
	if err != nil {
		return err
	}
	for _, item := range storetest.Items(t, p, int64(len(p))) {
		if err := in.Write(item); err != nil {
			return err
		}
	}
	_, err = in.Commit(ctx, false)
	return err
}
