package store_test

import (
	"bufio"
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"allium/store"
	"allium/store/storetest"
)

// recoverDir is set for the child of BenchmarkRecover: the store it fills until it
// is killed.
const recoverDir = "ALLIUM_RECOVER_DIR"

// recoverObjects is how many objects the store has; ALLIUM_RECOVER_OBJECTS says
// another number.
func recoverObjects() int {
	if n, err := strconv.Atoi(os.Getenv("ALLIUM_RECOVER_OBJECTS")); err == nil {
		return n
	}
	return 50_000
}

// TestRecoverChild is the child of BenchmarkRecover.
func TestRecoverChild(t *testing.T) {
	dir := os.Getenv(recoverDir)
	if dir == "" {
		t.Skip("it fills a store for BenchmarkRecover, which runs it")
	}
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	p := storetest.Bytes(1, 1024)
	for i := range recoverObjects() {
		binary.LittleEndian.PutUint64(p, uint64(i))
		if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("full\n")
	select {} // until it is killed
}

// BenchmarkRecover opens a store of ALLIUM_RECOVER_OBJECTS objects after kill -9.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		b.StopTimer()
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestRecoverChild$")
		cmd.Env = append(os.Environ(), recoverDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), "full") {
		}
		_ = cmd.Process.Kill() // the crash
		_ = cmd.Wait()         // it was killed
		b.StartTimer()
		s, stop := storetest.Start(b, embedded(dir), store.Deps{})
		b.StopTimer()
		if n := s.Stats().Objects; n != int64(recoverObjects()) {
			b.Fatalf("%d objects", n)
		}
		if err := stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
