package gateway

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// testStranger opens the socket's directory to everyone and connects as
// another user: the kernel's word on who that is keeps them out all the same.
func testStranger(t *testing.T, n *testNode) {
	t.Helper()
	for p := n.socket; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		const nobody = 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			got <- errno.Error()
			return
		}
		got <- askRaw(n.socket)
	}()
	if s := <-got; s != "" {
		t.Errorf("a stranger got %q", s)
	}
	if got := n.rejected("peer_uid"); got != 1 {
		t.Errorf("%d rejected", got)
	}
}

// askRaw connects on this very thread and returns what it is told.
func askRaw(path string) string {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return err.Error()
	}
	buf := make([]byte, 100)
	_, _ = syscall.Write(fd, []byte("GET /version HTTP/1.0\r\n\r\n"))
	k, err := syscall.Read(fd, buf)
	if err != nil {
		return "" // reset
	}
	return string(buf[:k])
}
