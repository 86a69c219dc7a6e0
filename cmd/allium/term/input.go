package term

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// inputPoll is the interval at which a read that waits for input checks its context.
const inputPoll = 100 * time.Millisecond

// Interruptible returns a reader of r whose reads fail with ctx's error within
// 100 ms of its end. A read of a terminal or a pipe cannot be canceled, so a read
// of a file begins only when input is there. Reads of any other r are not
// interrupted while they run.
func Interruptible(ctx context.Context, r io.Reader) io.Reader { return interruptible{ctx, r} }

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
		n, err := unix.Poll(fds, int(inputPoll.Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR {
			return i.r.Read(p) // input, its end, or the error
		}
	}
}

// UntilEnd returns a context that is done when r ends. The bytes of r are
// dropped. The caller calls ended to stop reading and to wait for that.
func UntilEnd(ctx context.Context, r io.Reader) (_ context.Context, ended func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, Interruptible(ctx, r)) // an error is an end too
	})
	return ctx, func() {
		cancel()
		reading.Wait()
	}
}
