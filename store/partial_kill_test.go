package store_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// Set for the child of TestKillDownload: the store it downloads to.
const killedDownload = "ALLIUM_KILL_DOWNLOAD"

const killedBytes = 16<<20 + 123

// TestKillDownload kills a process in the middle of a download that was resumed:
// what was noted before is there, and the download goes on.
func TestKillDownload(t *testing.T) {
	p := storetest.Bytes(77, killedBytes)
	if dir := os.Getenv(killedDownload); dir != "" {
		downloadUntilKilled(t, dir, p)
		return
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillDownload$")
	cmd.Env = append(os.Environ(), killedDownload+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var noted int64
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if _, err := fmt.Sscanf(sc.Text(), "noted %d", &noted); err == nil {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if noted == 0 {
		t.Fatal("the child ended by itself")
	}
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	held, err := readPart(t.Context(), s, p)
	if err != nil || held < noted {
		t.Fatalf("%d bytes are left of %d that were noted: %v", held, noted, err)
	}
	in, err := s.Ingest(t.Context(), b3.Sum(p), killedBytes)
	if err != nil || in.Held() != held {
		t.Fatalf("it does not go on at %d: %v", held, err)
	}
	in.Suspend()
	if err := complete(t, s, p); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), b3.Sum(p)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB were noted, %d MiB left, of %d MiB", noted>>20, held>>20, killedBytes>>20)
}

// downloadUntilKilled writes a quarter, suspends, and goes on until it is killed.
func downloadUntilKilled(t *testing.T, dir string, p []byte) {
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	groups := b3.Groups(killedBytes)
	begin := func() *store.Ingest {
		in, err := s.Ingest(t.Context(), b3.Sum(p), killedBytes)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	in := begin()
	if err := writeAll(in, append(groupsOf(t, p, 0, groups/4), groupsOf(t, p, groups-1, groups)...)); err != nil {
		t.Fatal(err)
	}
	noted := in.Held()
	in.Suspend()
	in = begin()
	if err := writeAll(in, groupsOf(t, p, groups/4, groups/2)); err != nil {
		t.Fatal(err)
	}
	// One write: the line is there whole or not at all.
	_, _ = fmt.Fprintf(os.Stdout, "noted %d\n", noted)
	for {
		if err := writeAll(in, groupsOf(t, p, groups/2, groups)); err != nil {
			t.Fatal(err)
		}
	}
}
