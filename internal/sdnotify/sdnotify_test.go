package sdnotify

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// systemd is a socket that receives messages, as that of systemd.
func systemd(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // that of the test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, func() string {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func from(t *testing.T, vars map[string]string) *Notifier {
	t.Helper()
	n, err := FromEnvironment(func(key string) string { return vars[key] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// TestMessages: each message is one datagram with the lines of sd_notify(3).
func TestMessages(t *testing.T) {
	t.Parallel()
	socket, next := systemd(t)
	n := from(t, map[string]string{"NOTIFY_SOCKET": socket})
	reloads := 0
	reload := func() { n.Reload(func() { reloads++ }, func() string { return "ready again" }) }
	reload() // while it starts
	n.Ready("ready, except:\ndisk")
	if got := next(); got != "READY=1\nSTATUS=ready, except: disk" || reloads != 1 {
		t.Errorf("ready sent %q after %d reloads", got, reloads)
	}
	before := monotonic()
	reload()
	stamp, ok := strings.CutPrefix(next(), "RELOADING=1\nMONOTONIC_USEC=")
	us, err := strconv.ParseInt(stamp, 10, 64)
	if !ok || err != nil {
		t.Fatalf("a reload sent the time %q", stamp)
	}
	at := time.Duration(us) * time.Microsecond
	if runtime.GOOS == "linux" && (at < before.Truncate(time.Microsecond) || at > monotonic()) {
		t.Errorf("the time of the reload is %s, of the clock %s", at, before)
	}
	if got := next(); got != "READY=1\nSTATUS=ready again" || reloads != 2 {
		t.Errorf("the end of a reload sent %q", got)
	}
	n.Stopping()
	if got := next(); got != "STOPPING=1\nSTATUS=draining" {
		t.Errorf("stopping sent %q", got)
	}
}

// TestNobodyListens: without a socket nothing is sent, a bad one is an error, and one that went away is not.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	n := from(t, nil)
	if n != nil {
		t.Fatal("there is a notifier without NOTIFY_SOCKET")
	}
	n.Ready("")
	reloaded := false
	n.Reload(func() { reloaded = true }, func() string { t.Error("the status is asked for"); return "" })
	if !reloaded {
		t.Error("without a notifier nothing is reloaded")
	}
	n.Stopping()
	n.Watch(t.Context(), func() string { t.Error("the node is checked"); return "" })
	n.Close()

	for _, bad := range []string{"vsock:2:1", "relative", filepath.Join(t.TempDir(), "missing")} {
		if n, err := FromEnvironment(func(string) string { return bad }); err == nil || n != nil {
			t.Errorf("NOTIFY_SOCKET=%s is taken", bad)
		}
	}
	socket, _ := systemd(t)
	n = from(t, map[string]string{"NOTIFY_SOCKET": socket})
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	n.Ready("ready")
}

// TestWatchdog: a sign of life follows each check that returns, and none a check that hangs.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		vars map[string]string
		want time.Duration
	}{
		"none":            {map[string]string{}, 0},
		"wrong":           {map[string]string{"WATCHDOG_USEC": "soon"}, 0},
		"negative":        {map[string]string{"WATCHDOG_USEC": "-1"}, 0},
		"another process": {map[string]string{"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, 0},
		"ours": {map[string]string{"WATCHDOG_USEC": "1000", "WATCHDOG_PID": strconv.Itoa(os.Getpid())},
			time.Millisecond},
		"anybody's": {map[string]string{"WATCHDOG_USEC": "30000000"}, 30 * time.Second},
	} {
		socket, _ := systemd(t)
		test.vars["NOTIFY_SOCKET"] = socket
		if n := from(t, test.vars); n.watchdog != test.want {
			t.Errorf("%s: the watchdog is %s, want %s", name, n.watchdog, test.want)
		}
	}

	socket, next := systemd(t)
	n := from(t, map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "2000"})
	ctx, cancel := context.WithCancel(t.Context())
	hang, checks := make(chan struct{}), 0
	var watching sync.WaitGroup
	watching.Go(func() {
		n.Watch(ctx, func() string {
			if checks++; checks == 3 {
				cancel()
				<-hang
			}
			return strconv.Itoa(checks)
		})
	})
	for _, want := range []string{"1", "2"} {
		if got := next(); got != "STATUS="+want+"\nWATCHDOG=1" {
			t.Errorf("check %s sent %q", want, got)
		}
	}
	<-ctx.Done()
	n.Stopping() // while the third check hangs
	if got := next(); !strings.HasPrefix(got, "STOPPING=1") {
		t.Errorf("a check that hangs sent %q", got)
	}
	close(hang)
	watching.Wait()
}
