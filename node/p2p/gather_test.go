package p2p

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// counted counts the writes to a connection, and fails them or lets them stand
// still when told to.
type counted struct {
	net.Conn
	writes atomic.Int32
	broken atomic.Bool

	stalled atomic.Bool
	stands  chan struct{} // closed by the first write that stands still
	over    chan struct{} // closed when it ends: at Close, or a deadline
	once    sync.Once
	waited  atomic.Bool // a deadline ended it
}

func (c *counted) end() { c.once.Do(func() { close(c.over) }) }

func (c *counted) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *counted) SetWriteDeadline(t time.Time) error {
	if c.stalled.Load() {
		c.once.Do(func() { c.waited.Store(true); close(c.over) })
	}
	return c.Conn.SetWriteDeadline(t)
}

var errBroken = errors.New("broken")

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	if c.stalled.Load() {
		close(c.stands)
		<-c.over
		return 0, net.ErrClosed
	}
	if c.broken.Load() {
		return 0, errBroken
	}
	return c.Conn.Write(p)
}

// securePair connects a gathering end to one of the library's own over
// loopback; below is what the gathering one writes to.
func securePair(t *testing.T) (ours, theirs sec.SecureConn, below *counted) {
	t.Helper()
	key := func() (crypto.PrivKey, peer.ID) {
		k, _, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		return k, id
	}
	ourKey, ourID := key()
	theirKey, theirID := key()
	us, err := newTLS(tls.ID, ourKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	them, err := tls.New(tls.ID, theirKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var theirErr error
	wg.Go(func() {
		c, err := l.Accept()
		if err == nil {
			theirs, err = them.SecureInbound(ctx, c, ourID)
		}
		theirErr = err
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	below = &counted{Conn: c, stands: make(chan struct{}), over: make(chan struct{})}
	ours, err = us.SecureOutbound(ctx, below, theirID)
	wg.Wait()
	if err = errors.Join(err, theirErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs, below
}

func TestGatherOneWrite(t *testing.T) {
	ours, theirs, below := securePair(t)
	for _, size := range []int{1, worthGathering, worthGathering + 1, 16 << 10, 64<<10 + 100, muxMessage} {
		p := make([]byte, size)
		_, _ = rand.Read(p)
		before := below.writes.Load()
		var wg sync.WaitGroup
		got := make([]byte, size)
		var readErr error
		wg.Go(func() { _, readErr = io.ReadFull(theirs, got) })
		n, err := ours.Write(p)
		wg.Wait()
		if n != size || err != nil || readErr != nil || !bytes.Equal(got, p) {
			t.Fatalf("write of %d bytes: %d, %v; read: %v, same bytes: %t", size, n, err, readErr, bytes.Equal(got, p))
		}
		// The first records of a connection are short, and more of them than
		// fit take a second call.
		if calls := below.writes.Load() - before; calls > 2 || size <= 16<<10 && calls != 1 {
			t.Errorf("%d bytes went out in %d calls", size, calls)
		}
	}
}

func TestGatherConcurrentWriters(t *testing.T) {
	ours, theirs, _ := securePair(t)
	const writers, each, large, short = 4, 200, 20_000, 100
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range each {
				size := large
				if i%2 == 1 {
					size = short // not gathered, but beside those that are
				}
				if _, err := ours.Write(bytes.Repeat([]byte{byte(i)}, size)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if err := theirs.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, writers/2*each*(large+short))
	_, err := io.ReadFull(theirs, got)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i := range writers {
		want := each * large
		if i%2 == 1 {
			want = each * short
		}
		if n := bytes.Count(got, []byte{byte(i)}); n != want {
			t.Errorf("%d bytes of writer %d came, want %d", n, i, want)
		}
	}
}

func TestGatherErrorStays(t *testing.T) {
	ours, _, below := securePair(t)
	below.broken.Store(true)
	if _, err := ours.Write(make([]byte, 20_000)); !errors.Is(err, errBroken) {
		t.Fatalf("write to a broken connection: %v", err)
	}
	below.broken.Store(false)
	for _, size := range []int{1, 20_000} {
		if _, err := ours.Write(make([]byte, size)); !errors.Is(err, errBroken) {
			t.Errorf("write of %d bytes after records were lost: %v", size, err)
		}
	}
}

// A write that the peer does not take must not keep Close waiting: the goodbye
// of crypto/tls has a deadline of 5 s.
func TestGatherCloseBesideAWrite(t *testing.T) {
	ours, _, below := securePair(t)
	below.stalled.Store(true)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { _, err = ours.Write(make([]byte, muxMessage)) })
	<-below.stands
	_ = ours.Close() // closed twice
	wg.Wait()
	if err == nil {
		t.Error("a write that Close cut off succeeded")
	}
	if below.waited.Load() {
		t.Error("Close waited behind a write")
	}
}
