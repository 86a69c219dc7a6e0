package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/bench/bed"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// echoProtocol is the raw stream that a call is compared with: what comes in
// goes back, in pieces of one request's frame.
const echoProtocol = protocol.ID("/bench/echo")

// smallRequest is a request of the size that discovery asks with.
var smallRequest = []byte(`{"op":"resolve","key":"b3:` + strings.Repeat("0", 64) + `","max_stale_ms":0}`)

// freeRate is the number of requests per second that the server takes of one peer: no limit.
const freeRate = 1 << 20

// frameSize is the size in bytes of smallRequest on the wire.
var frameSize = len(smallRequest) + oap.HeaderSize

// Serve is the reference server of sessions: a node's host and session
// service with a handler that answers with the request, and the raw echo.
func Serve(ctx context.Context, listen string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	h, _, err := bed.BuildHost(ctx, []string{listen})
	if err != nil {
		return err
	}
	defer h.Close()
	cfg := session.DefaultConfig()
	cfg.ControlRate = freeRate
	s, err := session.New(cfg, session.Deps{Host: h, UserAgent: "bench"})
	if err != nil {
		return err
	}
	s.Handle(oap.ProtoIndex, func(_ context.Context, _ peer.ID, r *session.Request) session.Response {
		return session.Response{Payload: r.Payload}
	})
	h.SetStreamHandler(echoProtocol, func(s network.Stream) {
		buf := make([]byte, frameSize)
		for {
			if _, err := io.ReadFull(s, buf); err != nil {
				break
			}
			if _, err := s.Write(buf); err != nil {
				break
			}
		}
		_ = s.Reset()
	})
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(h))
	if err != nil {
		return err
	}
	return s.Run(ctx, func() { fmt.Printf("listening on %s\nready\n", addrs[0]) })
}

// caller is a host with a session service that asks one server.
type caller struct {
	*session.Service
	host   host.Host
	server peer.ID
	stop   context.CancelFunc
	run    sync.WaitGroup
	err    error // of the service, once run is over
}

// startCaller connects a host to the server and runs a service on it.
func startCaller(ctx context.Context, h host.Host, addr string, cfg session.Config) (*caller, error) {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return nil, err
	}
	s, err := session.New(cfg, session.Deps{Host: h, UserAgent: "bench"})
	if err != nil {
		return nil, err
	}
	c := &caller{Service: s, host: h, server: info.ID}
	if err := h.Connect(ctx, *info); err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(ctx)
	ready := make(chan struct{})
	c.run.Go(func() { c.err = s.Run(ctx, func() { close(ready) }) })
	<-ready
	return c, nil
}

// close ends the service and the host.
func (c *caller) close() error {
	c.stop()
	c.run.Wait()
	return errors.Join(c.err, c.host.Close())
}

// call asks the server the small request.
func (c *caller) call(ctx context.Context) error {
	_, err := c.Call(ctx, c.server, oap.ProtoIndex, smallRequest)
	return err
}

// callFor calls from so many goroutines at once for d, and returns how many
// calls a second were answered.
func (c *caller) callFor(ctx context.Context, callers int, d time.Duration) (rate float64, err error) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		all     int
	)
	begun := time.Now()
	for range callers {
		running.Go(func() {
			n := 0
			var failed error
			for ; time.Since(begun) < d && failed == nil; n++ {
				failed = c.call(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			all += n
			err = errors.Join(err, failed)
		})
	}
	running.Wait()
	return float64(all) / time.Since(begun).Seconds(), err
}
