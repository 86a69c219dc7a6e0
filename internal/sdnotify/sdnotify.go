// Package sdnotify tells systemd about this process with the messages of sd_notify(3): that it is
// ready, reads its files again, stops, what it does, and that it is alive. Without a NOTIFY_SOCKET in
// the environment nothing is sent.
package sdnotify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// statusEvery is the interval of Watch without a watchdog.
const statusEvery = 30 * time.Second

// sendTimeout bounds one message: systemd may be too busy to take it.
const sendTimeout = time.Second

// Notifier sends messages to systemd. A nil Notifier sends none. It is safe for concurrent use.
type Notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration // within which systemd wants a sign of life; 0 if it wants none
	ready    atomic.Bool   // Ready was called
}

// FromEnvironment returns the notifier that getenv describes with NOTIFY_SOCKET, WATCHDOG_USEC and
// WATCHDOG_PID; nil if no NOTIFY_SOCKET is set.
func FromEnvironment(getenv func(string) string) (*Notifier, error) {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil, nil
	}
	if socket[0] != '/' && socket[0] != '@' {
		return nil, fmt.Errorf("cannot tell systemd that the node is ready: NOTIFY_SOCKET is %q, which is not a path "+
			"of a Unix socket", socket)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("cannot tell systemd that the node is ready: %w. Unset NOTIFY_SOCKET to start without",
			err)
	}
	n := &Notifier{conn: conn}
	if pid := getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
			n.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return n, nil
}

// Ready says that the process has started, and what it does.
func (n *Notifier) Ready(status string) {
	if n != nil {
		n.ready.Store(true)
		n.send("READY=1", statusLine(status))
	}
}

// Reload calls reload, which reads the files of the process again. It tells systemd before and after
// that, then with a status; but not while the process starts, which Ready alone ends.
func (n *Notifier) Reload(reload func(), status func() string) {
	tell := n != nil && n.ready.Load()
	if tell {
		n.send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(monotonic().Microseconds(), 10))
	}
	reload()
	if tell {
		n.send("READY=1", statusLine(status()))
	}
}

// Stopping says that the process drains.
func (n *Notifier) Stopping() { n.send("STOPPING=1", statusLine("draining")) }

// Watch calls check twice within the time of the watchdog, and then sends that the process is alive,
// with the status that check returns. While check hangs nothing is sent, and systemd restarts the
// process. Watch returns when ctx is done.
func (n *Notifier) Watch(ctx context.Context, check func() (status string)) {
	if n == nil {
		return
	}
	every := statusEvery
	if n.watchdog > 0 {
		every = n.watchdog / 2
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		lines := []string{statusLine(check())}
		if n.watchdog > 0 {
			lines = append(lines, "WATCHDOG=1")
		}
		n.send(lines...)
	}
}

// Close releases the socket.
func (n *Notifier) Close() {
	if n != nil {
		_ = n.conn.Close()
	}
}

func statusLine(status string) string { return "STATUS=" + strings.ReplaceAll(status, "\n", " ") }

// send sends one message. An error is dropped: systemd is then away or restarting, and the node works on.
func (n *Notifier) send(lines ...string) {
	if n == nil {
		return
	}
	_ = n.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, _ = n.conn.Write([]byte(strings.Join(lines, "\n")))
}
