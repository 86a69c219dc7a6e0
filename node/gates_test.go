package node

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/readiness"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// TestHalfOfTheWorkersDie: readiness says so, with what to do, and is back
// within a second (SPEC §4).
func TestHalfOfTheWorkersDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := testkit.NewNetwork(testkit.Options{})
		defer net.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		service := func(id peer.ID, handler session.Handler) *session.Service {
			s, err := session.New(session.DefaultConfig(), session.Deps{Host: net.Host(id)})
			if err != nil {
				t.Fatal(err)
			}
			s.Handle(oap.ProtoIndex, handler)
			ready := make(chan struct{})
			running.Go(func() {
				if err := s.Run(ctx, func() { close(ready) }); err != nil {
					t.Error(err)
				}
			})
			<-ready
			return s
		}
		served := service("a", func(context.Context, peer.ID, *session.Request) session.Response {
			runtime.Goexit()
			return session.Response{}
		})
		asking := service("b", func(context.Context, peer.ID, *session.Request) session.Response {
			return session.Response{}
		})

		n := &Node{overlay: overlay{sessions: served}}
		n.started.Store(true)
		b := readiness.NewBoard(readiness.Gate{Name: "session_workers", Check: n.workersGate})
		gate := func() api.Gate {
			synctest.Wait()
			return b.Report().Gates[0]
		}
		if g := gate(); !g.Ready || g.Have != 64 || g.Need != 48 {
			t.Errorf("before: %+v", g)
		}
		for range 32 {
			if _, err := asking.Call(t.Context(), "a", oap.ProtoIndex, []byte(`{"op":"x"}`)); err == nil {
				t.Error("a request whose worker died was answered")
			}
		}
		if g := gate(); g.Ready || g.Have != 32 || g.Fix == "" || g.RetryAfter != 1 {
			t.Errorf("half of them dead: %+v", g)
		}
		time.Sleep(time.Second)
		if g := gate(); !g.Ready || g.Have != 64 {
			t.Errorf("a second later: %+v", g)
		}
	})
}
