package store_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// starvedDir is set for the child of TestOutOfDescriptors: where its store is.
const starvedDir = "ALLIUM_STARVED_DIR"

// TestOutOfDescriptors: a process that has no descriptor left closes the files
// that it keeps for speed, then answers busy, and reads everything once there are
// some again. It is a process of its own: the limit holds for all of one.
func TestOutOfDescriptors(t *testing.T) {
	if dir := os.Getenv(starvedDir); dir != "" {
		starve(t, dir)
		return
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutOfDescriptors$", "-test.v")
	cmd.Env = append(os.Environ(), starvedDir+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func starve(t *testing.T, dir string) {
	cfg := embedded(dir)
	cfg.HotBytes = 0
	cfg.CommitBytes, cfg.SegmentBytes, cfg.ZeroAheadBytes = 300<<10, 600<<10, 0
	damaged := 0
	reg := prometheus.NewRegistry()
	s, stop := storetest.Start(t, cfg, store.Deps{})
	var all [][]byte
	for i := range uint64(100) { // more than ten segments
		all = append(all, storetest.Bytes(i, 60_000))
	}
	for i := range uint64(80) { // more than stay open
		all = append(all, storetest.Bytes(1000+i, 2*b3.GroupSize))
	}
	for _, p := range all {
		storetest.Put(t, s, p)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, cfg, store.Deps{Env: env.Env{Metrics: reg}, Damaged: func(b3.Root) { damaged++ }})
	for _, p := range all {
		storetest.Holds(t, s, p) // so that the caches are full
	}
	limit := syscall.Rlimit{Cur: 256, Max: 256}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	take := func() {
		for {
			f, err := os.Open(os.DevNull)
			if errors.Is(err, syscall.EMFILE) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, f)
		}
	}
	take()
	for _, p := range all { // of which each but the first finds what the one before gave up
		storetest.Holds(t, s, p)
	}
	if d := s.Stats().Files; d.Shed == 0 || d.Refused != 0 {
		t.Fatalf("files: %+v, want some shed and none refused", d)
	}
	busy := 0
	for _, p := range all {
		take()
		o, err := s.Open(t.Context(), b3.Sum(p)) // stays open until the test ends
		if err == nil {
			t.Cleanup(func() { _ = o.Close() })
			continue
		}
		if status.Of(err) != status.Busy {
			t.Fatalf("outcome %s: %v", status.Of(err), err)
		}
		if r := status.ReportOf(err); r.Limit != "process.files" || r.RetryAfterMS == 0 {
			t.Fatalf("report %+v", r)
		}
		busy++
	}
	if busy == 0 || s.Stats().Files.Refused == 0 {
		t.Fatalf("%d were busy, files %+v", busy, s.Stats().Files)
	}
	for _, f := range taken {
		_ = f.Close()
	}
	for _, p := range all {
		storetest.Holds(t, s, p)
	}
	storetest.Put(t, s, storetest.Bytes(5000, 70_000))
	if n := counted(t, reg, "integrity_fail_total"); n != 0 || damaged != 0 || s.Stats().Corrupt != 0 {
		t.Errorf("%d failures, %d told, %d marked", n, damaged, s.Stats().Corrupt)
	}
	t.Logf("%d of %d were busy; files %+v", busy, len(all), s.Stats().Files)
}
