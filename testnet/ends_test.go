package testnet

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
	"allium/testnet/script"
)

// TestPlayEndsWhileItIsFull: a scenario whose time is over ends, also when a step
// waits for a place in the background.
func TestPlayEndsWhileItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &script.File{Name: "full"}
		for range backgroundSteps + 2 {
			f.Steps = append(f.Steps, script.Step{Op: script.Wait, Time: time.Hour, Background: true})
		}
		p := &play{file: f, player: NewPlayer(&Net{}, time.Second), events: make(chan Event)}
		var telling sync.WaitGroup
		telling.Go(func() {
			for range p.events {
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.all(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(p.events)
		telling.Wait()
	})
}

// TestControlWaitsForItsRun: when Run returns nothing is being played, and
// nothing will be.
func TestControlWaitsForItsRun(t *testing.T) {
	n := &Net{dir: t.TempDir()}
	c := NewControl(n, NewPlayer(n, time.Second), nil)
	socket, err := api.SocketPath(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	c.turn <- struct{}{} // a run that does not end by its context at once
	ctx, cancel := context.WithCancel(t.Context())
	var over atomic.Bool
	var playing sync.WaitGroup
	err = c.Run(ctx, func() {
		cancel()
		playing.Go(func() {
			for _, err := os.Stat(socket); err == nil && t.Context().Err() == nil; _, err = os.Stat(socket) {
				time.Sleep(time.Millisecond)
			}
			over.Store(true)
			<-c.turn
		})
	})
	if err != nil || !over.Load() {
		t.Errorf("Run returned before the run had ended: %v", err)
	}
	playing.Wait()
	if len(c.turn) != 1 {
		t.Error("another run could begin")
	}
}

// TestOnlyNetworksAreRemoved: a directory of something else that has a file
// called lock is left alone.
func TestOnlyNetworksAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "photos")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir); status.Of(err) != status.NotFound {
		t.Error(err)
	}
	if _, err := Clear(t.Context(), dir); status.Of(err) != status.NotFound ||
		!strings.Contains(err.Error(), dirPrefix) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
		t.Error(err)
	}
}

// TestRestartUndoesItself: where one of the nodes does not start, those that did
// not run before do not run after.
func TestRestartUndoesItself(t *testing.T) {
	n := up(t, 3, 1)
	if _, err := n.Do(t.Context(), verb(script.Kill, 2, 3)); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(filepath.Join(n.Members[2].Home, "*key*"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := os.WriteFile(keys[0], []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(t.Context(), verb(script.Restart, 2, 3)); status.Of(err) != status.Corrupt {
		t.Errorf("%v", err)
	}
	if n.Members[1].Running() || n.Members[2].Running() {
		t.Error("a restart that failed left a node at work")
	}
}

// TestRestartOnOtherPorts: a node whose gateway's port another program has taken meanwhile starts on other ports.
func TestRestartOnOtherPorts(t *testing.T) {
	n := up(t, 2, 1)
	if _, err := n.Do(t.Context(), verb(script.Kill, 2)); err != nil {
		t.Fatal(err)
	}
	before := n.Members[1].ID().Gateway
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", strings.TrimPrefix(before, "http://"))
	if err == nil { // else somebody else has the port
		defer l.Close()
	}
	said, err := n.Do(t.Context(), verb(script.Restart, 2))
	if err != nil || n.Members[1].ID().Gateway == before || !strings.Contains(said.String(), "on other ports") {
		t.Errorf("%v, %v: the gateway was %s and is %s", said, err, before, n.Members[1].ID().Gateway)
	}
}
