package testkit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
)

func TestLatencyAndEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testkit.Pipe(testkit.Options{Latency: 30 * time.Millisecond})
		start := time.Now()
		if _, err := a.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		_ = a.CloseWrite()
		p, err := io.ReadAll(b)
		if err != nil || string(p) != "hello" {
			t.Fatalf("%q, %v", p, err)
		}
		if d := time.Since(start); d != 30*time.Millisecond {
			t.Errorf("arrived after %s", d)
		}
	})
}

func TestDeadlineLeavesTheStreamUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testkit.Pipe(testkit.Options{})
		start := time.Now()
		_ = b.SetReadDeadline(start.Add(time.Second))
		_, err := b.Read(make([]byte, 1))
		if !os.IsTimeout(err) || errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("%v after %s", err, time.Since(start))
		}
		_ = b.SetReadDeadline(time.Time{})
		_, _ = a.Write([]byte("x"))
		if n, err := b.Read(make([]byte, 4)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
}

func TestWindowBlocksWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testkit.Pipe(testkit.Options{Window: 4, MaxRead: 1})
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write([]byte("123456")); n != 4 || !os.IsTimeout(err) {
			t.Fatal(n, err)
		}
		_ = a.SetWriteDeadline(time.Time{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = a.Write([]byte("56"))
			_ = a.Close()
		})
		p, err := io.ReadAll(b)
		wg.Wait()
		if err != nil || string(p) != "123456" {
			t.Fatalf("%q, %v", p, err)
		}
	})
}

func TestResetCarriesItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testkit.Pipe(testkit.Options{})
		_, _ = a.Write([]byte("lost"))
		_ = a.ResetWithError(0xA102)
		var se *network.StreamError
		if _, err := b.Read(make([]byte, 9)); !errors.As(err, &se) || se.ErrorCode != 0xA102 || !se.Remote {
			t.Errorf("remote read: %v", err)
		}
		if _, err := a.Write(nil); !errors.As(err, &se) || se.Remote {
			t.Errorf("local write: %v", err)
		}
	})
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testkit.Pipe(testkit.Options{CutAfter: 3})
		_, _ = a.Write([]byte("abcdef"))
		_ = b.SetReadDeadline(time.Now().Add(time.Minute))
		p, err := io.ReadAll(b)
		if string(p) != "abc" || !os.IsTimeout(err) {
			t.Errorf("%q, %v", p, err)
		}
	})
}

func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testkit.NewNetwork(testkit.Options{})
		a, b := n.Host("a"), n.Host("b")
		b.SetStreamHandler("/echo", func(s network.Stream) {
			if s.Conn().RemotePeer() != "a" {
				t.Errorf("from %s", s.Conn().RemotePeer())
			}
			_, _ = io.Copy(s, s)
			_ = s.Close()
		})
		s, err := a.NewStream(context.Background(), "b", "/other", "/echo")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Write([]byte("hi"))
		_ = s.CloseWrite()
		if p, err := io.ReadAll(s); err != nil || !bytes.Equal(p, []byte("hi")) {
			t.Fatalf("%q, %v", p, err)
		}
		s, _ = a.NewStream(context.Background(), "b", "/echo")
		n.Disconnect("b", "a")
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, network.ErrReset) || !s.Conn().IsClosed() {
			t.Errorf("after disconnect: %v", err)
		}
		if _, err := a.NewStream(context.Background(), "b", "/none"); err == nil {
			t.Error("a protocol that nobody speaks")
		}
		n.Close()
	})
}
