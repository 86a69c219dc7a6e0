package main

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stdinPoll is how often a wait for input looks whether it was interrupted.
const stdinPoll = 100 * time.Millisecond

// interruptible is a reader whose waits end with ctx. A read of a terminal or
// a pipe cannot be cancelled, so it is begun only when there is something.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	f, ok := i.r.(*os.File)
	for {
		if err := i.ctx.Err(); err != nil {
			return 0, err
		}
		if !ok {
			return i.r.Read(p)
		}
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(stdinPoll.Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR {
			return i.r.Read(p) // bytes, the end, or the error
		}
	}
}
