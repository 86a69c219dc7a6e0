package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestDamageIsTold changes each file of a log in every way: the node starts, its
// mutations are recorded, and the damage shows at the start or in Verify, whose
// report also says with which record the log begins.
func TestDamageIsTold(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.MaxBytes = 64 << 10
	good := written(t, cfg, 200) // of two files
	names := []string{fileName(1), fileName(2), headFile}
	steps := 12
	if os.Getenv("ALLIUM_TORTURE") != "" {
		steps = 2000
	}
	for i, name := range names {
		whole, err := os.ReadFile(filepath.Join(good, name))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(good, names[(i+1)%len(names)]))
		if err != nil {
			t.Fatal(err)
		}
		changed := map[string][]byte{"emptied": {}, "deleted": nil, "cut": whole[:len(whole)/2], "swapped": other}
		for at := 0; at < len(whole); at += 1 + len(whole)/steps {
			p := bytes.Clone(whole)
			p[at] ^= 1 << (at % 8)
			changed[fmt.Sprintf("byte %d", at)] = p
		}
		for how, p := range changed {
			dir := filepath.Join(t.TempDir(), "audit")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			err := os.Remove(filepath.Join(dir, name))
			if p != nil {
				err = os.WriteFile(filepath.Join(dir, name), p, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			l, stop := running(t, cfg, dir)
			if _, err := l.Mutation(t.Context(), Event{Op: "put"}); err != nil {
				t.Errorf("%s, %s: a mutation: %v", name, how, err)
			}
			stop()
			rep, err := verify(t, dir)
			if told := testutil.ToFloat64(l.m.damaged) > 0 || rep.Cuts > 0 || rep.First != 1; !told &&
				status.Of(err) != status.Corrupt {
				t.Errorf("%s, %s: nothing is told: %v", name, how, err)
			}
		}
	}
}

// TestStartsWithoutDisk: a log that cannot be opened ends no node. Mutations are
// refused, reads go on, and it heals by itself.
func TestStartsWithoutDisk(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES} {
		dir := filepath.Join(t.TempDir(), "audit")
		l, err := New(DefaultConfig(), dir, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		var healed atomic.Bool
		l.disk.open = func(name string) (file, error) {
			if !healed.Load() {
				return nil, &os.PathError{Op: "open", Path: name, Err: errno}
			}
			return openAppend(name)
		}
		stop := testkit.Start(t, l.Run)
		want := status.NotReady
		if errors.Is(errno, syscall.ENOSPC) {
			want = status.NoSpace
		}
		if _, err := l.Mutation(t.Context(), Event{}); status.Of(err) != want || l.Err() == nil {
			t.Errorf("%v: a mutation: %v", errno, err)
		}
		healed.Store(true)
		for l.Err() != nil {
			_, _ = l.Mutation(t.Context(), Event{}) // it is opened again within a second
		}
		if _, err := l.Mutation(t.Context(), Event{}); err != nil {
			t.Errorf("%v: healed: %v", errno, err)
		}
		stop()
		if rep, err := verify(t, dir); err != nil || rep.Records == 0 {
			t.Errorf("%v: %+v, %v", errno, rep, err)
		}
	}
}
