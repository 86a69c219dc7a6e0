package testnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
	"allium/testnet/script"
)

// Control lets other processes of the same user work on a network, by HTTP over a
// Unix socket of mode 0600 in the network's directory, which has mode 0700.
//
//	POST /v1/run     lines of steps → NDJSON, an Event each, then ok or error
//	GET  /v1/status  → Status
//	POST /v1/down    the network is to end → {}
//
// One run is played at a time. Another one waits as long as its client does.
type Control struct {
	net    *Net
	player *Player
	record *Recorder     // nil when nothing is recorded
	turn   chan struct{} // holds a token while a run is played
	down   chan struct{} // closed by /v1/down
	once   sync.Once
}

// Bounds of the control socket.
const (
	controlAtOnce = 16               // requests; more are refused with busy
	controlHeader = 5 * time.Second  // to send a request
	controlWrite  = 5 * time.Second  // for each line of an answer
	controlIdle   = 30 * time.Second // of a connection
	controlStop   = 3 * time.Second  // for requests to end when the network ends
)

// NewControl returns the control of a network. r records the steps and may be nil. Its
// owner closes it after Run.
func NewControl(n *Net, p *Player, r *Recorder) *Control {
	return &Control{net: n, player: p, record: r, turn: make(chan struct{}, 1), down: make(chan struct{})}
}

// Down returns a channel that is closed when a client asks the network to end.
func (c *Control) Down() <-chan struct{} { return c.down }

// Run serves the socket until ctx ends and returns when no run is played any more. It
// is called once.
func (c *Control) Run(ctx context.Context, ready func()) error {
	path, err := api.SocketPath(c.net.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	if err := api.CheckSocketDir(filepath.Dir(path)); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("testnet: listen on the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("testnet: %w", err), l.Close())
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           c.handler(),
		ReadHeaderTimeout: controlHeader, IdleTimeout: controlIdle, MaxHeaderBytes: 8 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	var serving sync.WaitGroup
	var served error // read after serving.Wait
	failed := make(chan struct{})
	serving.Go(func() {
		defer close(failed)
		served = srv.Serve(l)
	})
	ready()
	select {
	case <-ctx.Done():
	case <-failed:
	}
	cancel() // a run ends by its context
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), controlStop)
	defer done()
	err = srv.Shutdown(stop)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	serving.Wait()
	c.turn <- struct{}{} // kept: no run may begin after this one has ended and, if need be, undone its verb
	if !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (c *Control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/run", c.run)
	mux.HandleFunc("GET /v1/status",
		func(w http.ResponseWriter, r *http.Request) { answer(w, c.net.Status(r.Context())) })
	mux.HandleFunc("POST /v1/down", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, struct{}{})
		c.once.Do(func() { close(c.down) })
	})
	places := make(chan struct{}, controlAtOnce) // bound: controlAtOnce
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			mux.ServeHTTP(w, r)
		default:
			refuse(w, status.BusyError(status.Busy, status.Limit{Name: "testnet.control", Current: controlAtOnce,
				Cap: controlAtOnce, RetryAfter: time.Second}))
		}
	})
}

// run plays the lines of the body.
func (c *Control) run(w http.ResponseWriter, r *http.Request) {
	// no ReadTimeout of the server, which would also end the run
	rc := http.NewResponseController(w)
	err := rc.SetReadDeadline(time.Now().Add(controlHeader))
	if err == nil {
		var steps []script.Step
		if steps, err = readSteps(http.MaxBytesReader(w, r.Body, script.MaxFile)); err == nil {
			if err = rc.SetReadDeadline(time.Time{}); err == nil {
				c.play(w, r, rc, steps)
				return
			}
		}
	}
	refuse(w, err)
}

// play plays steps and sends an Event for each.
func (c *Control) play(w http.ResponseWriter, r *http.Request, rc *http.ResponseController, steps []script.Step) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	send := func(l api.Line) error {
		if err := rc.SetWriteDeadline(time.Now().Add(controlWrite)); err != nil {
			return err
		}
		if err := json.NewEncoder(w).Encode(l); err != nil {
			return err
		}
		return rc.Flush()
	}
	for _, s := range steps {
		e, err := c.step(r.Context(), s)
		item, jerr := json.Marshal(e)
		if jerr != nil || send(api.Line{Item: item}) != nil {
			return // the client has left
		}
		if err != nil {
			report := status.ReportOf(err)
			_ = send(api.Line{Error: &report}) // the last line; a client that misses it sees the cut
			return
		}
	}
	_ = send(api.Line{OK: json.RawMessage("{}")})
}

// step plays one step and records it.
func (c *Control) step(ctx context.Context, s script.Step) (Event, error) {
	if c.record != nil {
		c.record.Before(ctx)
	}
	begun := time.Now()
	said, err := c.player.Step(ctx, s)
	if c.record != nil {
		c.record.Step(s, err)
	}
	return event(s, said, time.Since(begun), err), err
}

// readSteps reads the lines of a run.
func readSteps(r io.Reader) ([]script.Step, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, status.Errorf(status.BodyCap,
			"the steps cannot be read: %w; send at most %d bytes", err, script.MaxFile)
	}
	return ParseSteps(strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"))
}

// ParseSteps reads the lines of a run, which waits for each of its steps.
func ParseSteps(lines []string) ([]script.Step, error) {
	if len(lines) > script.MaxSteps {
		return nil, status.Errorf(status.BodyCap, "%d steps in one run; at most %d are taken",
			len(lines), script.MaxSteps)
	}
	steps := make([]script.Step, 0, len(lines))
	for i, line := range lines {
		s, err := script.Parse(line)
		if err != nil {
			if e := (*script.Error)(nil); errors.As(err, &e) && len(lines) > 1 {
				e.Line = i + 1
			}
			return nil, err
		}
		if s.Background || s.Op == script.Join {
			return nil, status.Errorf(status.BadRequest,
				"%q: steps in the background are for scenario files; run it from another terminal", line)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// answer sends one JSON value.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that misses it sees the cut
}

// refuse sends an error.
func refuse(w http.ResponseWriter, err error) {
	report := status.ReportOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status.Of(err).Code())
	_ = json.NewEncoder(w).Encode(report) // a client that misses it sees the cut
}
