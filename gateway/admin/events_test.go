package admin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// reader is the transport of a stream of events.
type reader struct {
	http.ResponseWriter

	mu    sync.Mutex
	still chan struct{} // writes wait until it is closed; nil: they do not
	sent  bytes.Buffer
	err   error // of the next write
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	still := r.still
	r.mu.Unlock()
	if still != nil {
		<-still
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	return r.sent.Write(p)
}

// stand makes the reader stand still until the function it returns is called.
func (r *reader) stand() (proceed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.still = make(chan struct{})
	return sync.OnceFunc(func() { close(r.still) })
}

// took returns what was written since the last call, with one time in place of all.
func (r *reader) took() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := strings.ReplaceAll(r.sent.String(), time.Now().UTC().Format(time.RFC3339Nano), "now")
	r.sent.Reset()
	return s
}

func (r *reader) Unwrap() http.ResponseWriter      { return r.ResponseWriter }
func (r *reader) Flush() error                     { return nil }
func (r *reader) SetWriteDeadline(time.Time) error { return nil }
func (r *reader) StartTransfer(int) error          { return nil }
func (r *reader) ReleaseAdmission()                {}
func (r *reader) EvictFetched()                    {}
func (r *reader) ReadTimedOut()                    {}
func (r *reader) PassedFile() *os.File             { return nil }
func (r *reader) User() string                     { return "" }

// stream is a running stream of events.
type stream struct {
	*reader
	events *limits.Events[*api.Event]
	end    func() error // waits for the handler and returns its error
	leave  context.CancelCauseFunc
}

// openStream runs the handler for a reader of pins. Each may lag four events behind.
func openStream(t *testing.T) stream {
	t.Helper()
	events := limits.NewEvents[*api.Event](nil, limits.Spec{Name: "events"}, limits.Spec{Name: "readers"},
		limits.EventsConfig{Topics: []string{"peers", "pins"}, Each: 4, Subscribers: 1})
	h := New(Deps{Events: events})
	ctx, leave := context.WithCancelCause(t.Context())
	s := stream{reader: &reader{ResponseWriter: httptest.NewRecorder()}, events: events, leave: leave}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events?topics=pins", nil)
	var w exchange.Response
	w.Begin(s.reader)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		err = h.feed.serve(&w, r, exchange.Input{Query: exchange.Params(r.URL.Query())})
	})
	s.end = func() error {
		wg.Wait()
		return err
	}
	synctest.Wait()
	return s
}

// publish publishes n events about pins, and one about a peer, which the reader did not
// ask for.
func (s stream) publish(n int) {
	for i := range n {
		s.events.Topic("pins").Publish(&api.Event{
			Topic: api.TopicPins, Kind: api.EventAdded, Pin: &api.PinEvent{Label: fmt.Sprint(i)},
		})
	}
	s.events.Topic("peers").Publish(&api.Event{Topic: api.TopicPeers})
	synctest.Wait()
}

// pinEvent returns how the event i of publish is sent.
func pinEvent(id, i int) string {
	return fmt.Sprintf("id: %d\nevent: pins\ndata: {\"topic\":\"pins\",\"kind\":\"added\","+
		"\"at\":\"0001-01-01T00:00:00Z\",\"pin\":{\"root\":\"b3:%064d\",\"label\":\"%d\"}}\n\n", id, 0, i)
}

// want fails the test if another text was sent.
func (s stream) want(t *testing.T, want string) {
	t.Helper()
	if got := s.took(); got != want {
		t.Errorf("sent is\n%s\nwant\n%s", got, want)
	}
}

// TestEventsHeartbeat: a comment comes after each 15 s without an event, and not before.
func TestEventsHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStream(t)
		s.want(t, "")
		time.Sleep(heartbeatEvery - time.Second)
		s.publish(1)
		s.want(t, pinEvent(1, 0))
		time.Sleep(heartbeatEvery - time.Second)
		synctest.Wait()
		s.want(t, "")
		time.Sleep(2*heartbeatEvery + time.Second)
		synctest.Wait()
		s.want(t, strings.Repeat(":\n\n", 3))
		s.leave(nil)
		if err := s.end(); status.Of(err) != status.Canceled {
			t.Errorf("the reader left: %v", err)
		}
	})
}

// TestEventsLagged: a reader that stands still keeps nobody waiting. It gets the event
// that was being written, is told how many it lost, and gets the newest.
func TestEventsLagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStream(t)
		proceed := s.stand()
		s.publish(1)
		s.publish(10)
		proceed()
		synctest.Wait()
		s.want(t, pinEvent(1, 0)+"id: 7\nevent: lagged\ndata: {\"topic\":\"lagged\",\"at\":\"now\",\"lost\":6}\n\n"+
			pinEvent(8, 6)+pinEvent(9, 7)+pinEvent(10, 8)+pinEvent(11, 9))
		s.leave(nil)
		_ = s.end()
	})
}

// TestEventsEnd: the last event says why the stream ends, and comes after the events that
// wait. The place of the reader is free then.
func TestEventsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(stream)
		want string
	}{
		"the node stops": {
			func(s stream) { s.events.Close(status.Errorf(status.Draining, "stopping")) },
			`{"reason":"draining","message":"stopping"}`,
		},
		"Request-Timeout": {
			func(s stream) { s.leave(status.Errorf(status.Timeout, "too long")) },
			`{"reason":"timeout","message":"too long"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStream(t)
				proceed := s.stand()
				s.publish(2)
				test.end(s)
				proceed()
				if err := s.end(); err != nil {
					t.Errorf("got %v", err)
				}
				s.want(t, pinEvent(1, 0)+pinEvent(2, 1)+"id: 2\nevent: end\ndata: "+test.want+"\n\n")
				if sub, err := s.events.Subscribe(); status.Of(err) == status.Busy {
					t.Errorf("the place is taken: %v", err)
				} else if err == nil {
					sub.Close()
				}
			})
		})
	}
}

// TestEventsCut: a failed write ends the stream, and its error cuts the connection.
func TestEventsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStream(t)
		s.err = http.ErrHandlerTimeout
		s.publish(1)
		if err := s.end(); err == nil {
			t.Error("the stream looks complete")
		}
	})
}
