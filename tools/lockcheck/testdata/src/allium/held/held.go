// Package held does under a lock what must not be done there, and what may.
package held

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

type T struct {
	mu sync.Mutex // guards the rest; lock: leaf

	n     int
	ch    chan int
	done  func()
	now   func() time.Time
	stop  context.CancelFunc
	w     io.Writer
	conn  net.Conn
	log   *slog.Logger
	cond  *sync.Cond
	group sync.WaitGroup
	h     hash.Hash
	other Other
	file  *os.File
	list  numbers
}

type Other interface{ Do() }

type R struct {
	mu sync.RWMutex // lock: leaf
}

type E struct {
	sync.Mutex // lock: leaf
}

var global sync.Mutex // lock: leaf

func (t *T) files(client *http.Client, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	os.Remove("x")    // want `held.T.mu is held across I/O: os.Remove`
	t.file.Write(nil) // want `I/O: \(\*os.File\).Write`
	_ = t.file.Name()
	t.w.Write(nil)   // want `I/O: io.Writer.Write`
	t.conn.Read(nil) // want `I/O: net.Conn.Read`
	_ = t.conn.RemoteAddr()
	_ = t.conn.SetDeadline(time.Time{})
	net.Dial("tcp", "x") // want `I/O: net.Dial`
	_ = net.JoinHostPort("a", "b")
	client.Do(r) // want `I/O: \(\*http.Client\).Do`
	r.Header.Set("a", "b")
	exec.Command("x").Run() // want `I/O: exec.Command` `I/O: \(\*exec.Cmd\).Run`
	syscall.Sync()          // want `I/O: syscall.Sync`
	_ = syscall.ENOENT.Error()
	t.log.Info("x") // want `I/O: \(\*slog.Logger\).Info`
	_ = slog.Int("a", 1)
	fmt.Fprintln(t.w) // want `I/O: fmt.Fprintln`
	fmt.Fprintln(&bytes.Buffer{})
	io.Copy(io.Discard, bytes.NewReader(nil)) // want `I/O: io.Copy`
	_ = errors.Is(os.ErrExist, os.ErrNotExist)
}

func (t *T) waits(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ch <- 1        // want `held across waits: a send on a channel`
	<-t.ch           // want `waits: a receive from a channel`
	for range t.ch { // want `waits: a receive from a channel`
	}
	select { // want `waits: a select without default`
	case <-t.ch:
	case <-ctx.Done():
	}
	select {
	case t.ch <- 1:
	default:
	}
	close(t.ch)
	t.group.Wait() // want `waits: \(\*sync.WaitGroup\).Wait`
	time.Sleep(1)  // want `waits: time.Sleep`
	t.cond.Wait()
	t.cond.Broadcast()
}

func (t *T) calls(ctx context.Context, err error, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done()     // want `held across calls: a call of the field done`
	t.other.Do() // want `calls: held.Other.Do, an interface's method`
	_ = t.now()
	t.stop()
	_ = err.Error()
	_ = ctx.Err()
	t.h.Write(nil)
	_ = t.h.Size()
	heap.Fix(&t.list, 0)
	t.group.Go(t.done)
	time.AfterFunc(1, t.done)
	go t.done()
	later := func() { t.done() }
	_ = later
}

func (t *T) Exported(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f() // want `calls: a call of f`
}

func (r *R) read() {
	r.mu.RLock()
	os.Remove("x") // want `held.R.mu is held across I/O`
	r.mu.RUnlock()
	os.Remove("x")
}

func (e *E) embedded() {
	e.Lock()
	os.Remove("x") // want `held.E.Mutex is held across I/O`
	e.Unlock()
	os.Remove("x")
}

func variables() {
	global.Lock()
	os.Remove("x") // want `held.global is held across I/O`
	global.Unlock()
	var mu sync.Mutex // lock: leaf
	f := func() {
		mu.Lock()
		defer mu.Unlock()
		os.Remove("x") // want `held.variables.mu is held across I/O`
	}
	f()
}

func unknown(mu *sync.Mutex) {
	mu.Lock() // want `which mutex this is cannot be told`
	mu.Unlock()
}

type numbers []int

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, j int) bool { return n[i] < n[j] }
func (n numbers) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *numbers) Push(x any)        { *n = append(*n, x.(int)) }
func (n *numbers) Pop() any          { return slices.Clone(*n) }
