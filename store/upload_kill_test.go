package store_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// Set for the child of TestKillUpload: the store that it uploads to.
const killedUpload = "ALLIUM_KILL_UPLOAD"

// TestKillUpload kills a process in the middle of the third append of an upload:
// what was acknowledged is there, and the upload goes on.
func TestKillUpload(t *testing.T) {
	const size = 12<<20 + 321
	p := storetest.Bytes(78, size)
	if dir := os.Getenv(killedUpload); dir != "" {
		uploadUntilKilled(t, dir, p)
		return
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillUpload$")
	cmd.Env = append(os.Environ(), killedUpload+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	var acked int64
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if n, _ := fmt.Sscanf(sc.Text(), "acked %s %d", &id, &acked); n == 2 && acked > size/2 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if acked <= size/2 {
		t.Fatal("the child ended by itself")
	}
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	u, err := s.Uploads().Get(t.Context(), id)
	if err != nil || u.Offset < acked || u.Offset >= size {
		t.Fatalf("%d bytes were acknowledged: %+v, %v", acked, u, err)
	}
	storetest.Append(t, s, u, p, int(u.Offset), size)
	storetest.Holds(t, s, p)
	if err := s.Verify(t.Context(), b3.Sum(p)); err != nil {
		t.Fatal(err)
	}
}

// uploadUntilKilled makes two appends, and a third one that stops before its
// end.
func uploadUntilKilled(t *testing.T, dir string, p []byte) {
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p)), Expect: b3.Sum(p)})
	at := 0
	for _, to := range []int{len(p) / 4, 2*len(p)/3 + 5} {
		now := storetest.Append(t, s, u, p, at, to)
		at = to
		// One write: the line is there whole or not at all.
		_, _ = fmt.Fprintf(os.Stdout, "acked %s %d\n", now.ID, now.Offset)
	}
	hang := readFunc(func([]byte) (int, error) { select {} })
	_, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(at),
		io.MultiReader(bytes.NewReader(p[at:len(p)-1]), strings.NewReader(""), hang))
	t.Error(err)
}

// BenchmarkUpload is an upload of 256 MiB in pieces of 8 MiB, each of them
// durable before the next begins; BenchmarkPutLarge is the same in one.
func BenchmarkUpload(b *testing.B) {
	const size, piece = 256 << 20, 8 << 20
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	p := storetest.Bytes(2, size)
	b.SetBytes(size)
	b.ResetTimer()
	for i := range b.N {
		p[0] = byte(i)
		u := storetest.Begin(b, s, meta.UploadOptions{Length: size})
		for at := 0; at < size; at += piece {
			u = storetest.Append(b, s, u, p, at, at+piece)
		}
		b.StopTimer()
		if err := s.Delete(b.Context(), u.Root); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
