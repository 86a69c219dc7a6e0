//go:build unix

package sockets

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// pipes returns the read ends and the descriptors of the write ends of n pipes.
func pipes(t *testing.T, n int) (read, write []*os.File) {
	t.Helper()
	for range n {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
		read, write = append(read, r), append(write, w)
	}
	return read, write
}

// TestPassedFiles passes several files, in one message and in several: the connection keeps the
// first and closes all others, and with it what nobody took. A file that is closed everywhere is at
// its end for the reader of its pipe.
func TestPassedFiles(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	c := WithFiles(accepted).(*fileConn)
	read, write := pipes(t, 5)
	send := func(text string, files ...*os.File) {
		t.Helper()
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		if _, _, err := dialled.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			_ = f.Close()
		}
		buf := make([]byte, len(text))
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != text {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	ended := func(r *os.File) {
		t.Helper()
		if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
			t.Errorf("got %d, %v, want the end", n, err)
		}
	}
	send("two", write[0], write[1])
	send("one more", write[2])
	ended(read[1])
	ended(read[2])
	taken := c.take()
	if taken == nil || c.take() != nil {
		t.Fatal("the first file was not kept, or twice")
	}
	if _, err := taken.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := read[0].Read(make([]byte, 9)); n != 1 || err != nil {
		t.Errorf("the first file is another one: %d, %v", n, err)
	}
	_ = taken.Close()
	ended(read[0])

	send("nobody takes it", write[3])
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ended(read[3])
	c.hold(write[4]) // a read that ends after Close
	ended(read[4])
}

// TestPassedFilesReset: a read that a reset ends has no bytes. recvmsg says −1, and net/http panics at
// a negative count.
func TestPassedFilesReset(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := (&net.Dialer{}).DialContext(t.Context(), "unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := WithFiles(accepted)
	defer c.Close()
	if _, err := c.Write([]byte("unread")); err != nil { // a peer that closes before it reads resets
		t.Fatal(err)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(make([]byte, 10))
	if n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
