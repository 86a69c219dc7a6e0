package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/server"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// newEvents returns events of all topics, with queues of four events.
func newEvents(r *limits.Registry) *limits.Events[*api.Event] {
	var topics []string
	for _, t := range api.Topics() {
		topics = append(topics, string(t))
	}
	return limits.NewEvents[*api.Event](r, limits.Spec{Name: "events.queue"}, limits.Spec{Name: "events.readers"},
		limits.EventsConfig{Topics: topics, Each: 4, Subscribers: 64})
}

// publish publishes an event about a pin with that label.
func (n *testNode) publish(label string) {
	n.events.Topic(string(api.TopicPins)).Publish(&api.Event{
		Topic: api.TopicPins, Kind: api.EventAdded, At: fakeTime, Pin: &api.PinEvent{Root: fakeRoot, Label: label},
	})
}

// eventStream is a stream of events that a test reads step by step.
type eventStream struct {
	next func() (api.Event, error, bool)
	stop func()
}

// follow reads events through a client, and waits until the node has the subscription.
func (n *testNode) follow(t *testing.T, target string, topics ...api.Topic) eventStream {
	t.Helper()
	c, err := client.New(target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	before := n.current("events.readers")
	type item struct {
		e   api.Event
		err error
	}
	items, done := make(chan item), make(chan struct{})
	go func() {
		defer close(done)
		defer close(items)
		for e, err := range c.Events(ctx, client.EventOptions{Topics: topics}) {
			select {
			case items <- item{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	next, stop := iter.Pull2(func(yield func(api.Event, error) bool) {
		for i := range items {
			if !yield(i.e, i.err) {
				return
			}
		}
	})
	s := eventStream{next: next, stop: func() {
		stop()
		cancel()
		<-done
		c.Close()
	}}
	t.Cleanup(s.stop)
	testkit.Eventually(t, "one more reader of events", func() bool { return n.current("events.readers") == before+1 })
	return s
}

// want reads the next event, which is that of publish with the label.
func (s eventStream) want(t *testing.T, label string) {
	t.Helper()
	e, err, ok := s.next()
	if !ok || err != nil || e.Topic != api.TopicPins || e.Kind != api.EventAdded || !e.At.Equal(fakeTime) ||
		e.Pin == nil || e.Pin.Root != fakeRoot || e.Pin.Label != label {
		t.Errorf("got %+v, %v; want the pin %s", e, err, label)
	}
}

// TestEvents: readers over TCP and the socket get the topics that they named, as they
// happen.
func TestEvents(t *testing.T) {
	t.Parallel()
	n := start(t)
	all := n.follow(t, n.Addrs().Admin)
	pins := n.follow(t, n.socket, api.TopicPins, api.TopicPeers)
	n.events.Topic(string(api.TopicReadiness)).Publish(&api.Event{
		Topic: api.TopicReadiness, Kind: api.EventShut, At: fakeTime, Gate: &api.Gate{Name: "store", Need: 1},
	})
	n.publish("first")
	e, err, _ := all.next()
	if err != nil || e.Topic != api.TopicReadiness || e.Kind != api.EventShut ||
		e.Gate == nil || e.Gate.Name != "store" {
		t.Errorf("got %+v, %v", e, err)
	}
	all.want(t, "first")
	pins.want(t, "first")
	n.publish("second")
	all.want(t, "second")
	pins.want(t, "second")
	pins.stop()
	testkit.Eventually(t, "one reader of events", func() bool {
		return n.current("events.readers") == 1 && n.current("admin.events") == 1
	})
}

// TestEventsRefused: what is no stream of events is a problem before it begins.
func TestEventsRefused(t *testing.T) {
	t.Parallel()
	n := start(t)
	url := n.Addrs().Admin + "/api/v1/events"
	for query, want := range map[string]string{
		"?topics=pins,weather": `"weather"`, "?topics=pins,": `""`,
		"?topics=lagged": `"lagged"`, "?topic=pins": `"topic"`,
	} {
		if p := do(t, "GET", url+query).problem(t, status.BadRequest); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %s", query, p.Detail)
		}
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/api/v1/events"); a.StatusCode != http.StatusNotFound {
		t.Errorf("the public listener: %s", a.Status)
	}
	old, err := net.Dial("unix", n.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	roundTrip(t, old, "GET /api/v1/events HTTP/1.0\r\nHost: x\r\n\r\n", "400 Bad Request")
	n.events.Close(errDraining)
	do(t, "GET", url).problem(t, status.Draining)
}

// TestEventsPermits: streams of events have permits of their own, and take none of other
// requests.
func TestEventsPermits(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{params: func(p *server.Params) { p.EventStreams = 2 }},
		func(_ *Config, a *server.AdminConfig) { a.Inflight = 1 })
	first, second := n.follow(t, n.Addrs().Admin), n.follow(t, n.socket)
	a := do(t, "GET", n.Addrs().Admin+"/api/v1/events")
	if p := a.problem(t, status.Busy); p.Limit != "admin.events" || p.Cap != 2 {
		t.Errorf("%+v", p)
	}
	if a := do(t, "GET", n.Addrs().Admin+"/api/v1/id"); a.StatusCode != http.StatusOK {
		t.Errorf("another request: %s", a.Status)
	}
	second.stop()
	testkit.Eventually(t, "one stream of events", func() bool { return n.current("admin.events") == 1 })
	third := n.follow(t, n.Addrs().Admin)
	n.publish("a")
	first.want(t, "a")
	third.want(t, "a")
}

// errDraining is the error with which a node ends its events.
var errDraining = status.Errorf(status.Draining, "the node is shutting down")

// TestEventsDrain: when the node drains, readers get what happened before, and an end
// that says why; the drain waits for them.
func TestEventsDrain(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{params: patiently})
	for _, target := range []string{n.Addrs().Admin, n.socket} {
		s := n.follow(t, target)
		defer s.stop()
		n.publish("last")
		s.want(t, "last")
	}
	again := n.follow(t, n.socket)
	n.publish("one more")
	n.events.Close(errDraining)
	if err := n.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	again.want(t, "one more")
	if _, err, ok := again.next(); !ok || status.Of(err) != status.Draining || err.Error() != errDraining.Error() {
		t.Errorf("the end is %v", err)
	}
	if _, _, ok := again.next(); ok {
		t.Error("the sequence goes on after its error")
	}
}

// TestEventsAborted: a node that stops without closing its events ends the streams all
// the same.
func TestEventsAborted(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{params: func(p *server.Params) { p.Drain, p.Abort = time.Millisecond, patience }})
	s := n.follow(t, n.socket)
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if _, err, ok := s.next(); !ok || status.Of(err) != status.Draining {
		t.Errorf("the end is %v", err)
	}
}

// standStill opens a stream of events, reads its header and then nothing.
func (n *testNode) standStill(t *testing.T, network, addr string) (body *bufio.Reader) {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if tcp, ok := c.(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(16 << 10); err != nil { // so that the node's writes wait soon
			t.Fatal(err)
		}
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "GET /api/v1/events?topics=pins HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close() // first, as closing the body reads the rest of it
		resp.Body.Close()
	})
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return bufio.NewReader(resp.Body)
}

// lost returns how many events readers have lost.
func (n *testNode) lost() int64 {
	for _, l := range n.limits.Snapshot() {
		if l.Name == "events.queue" {
			return l.Rejected
		}
	}
	return -1
}

// TestEventsStandingStill: a reader that takes nothing is cut off, on the socket too,
// whose other answers have no deadline. Until then it takes nothing from other readers.
func TestEventsStandingStill(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			n := start(t, func(c *Config, _ *server.AdminConfig) { c.WriteTimeout = 500 * time.Millisecond })
			addr := n.socket
			if network == "tcp" {
				addr = address(t, n.Addrs().Admin)
			}
			body := n.standStill(t, network, addr)
			reader := n.follow(t, n.socket)
			long := strings.Repeat("x", 64<<10)
			i := 0
			testkit.Eventually(t, "the stream that stands still is cut", func() bool {
				i++
				n.publish(strconv.Itoa(i) + long)
				reader.want(t, strconv.Itoa(i)+long)
				return n.current("events.readers") == 1
			})
			if p, err := io.ReadAll(body); err == nil {
				t.Errorf("the stream that was cut looks complete after %d bytes", len(p))
			}
		})
	}
}

// TestEventsDrainStandingStill: a reader that does not take the end of its stream delays the
// drain by no more than its time for that.
func TestEventsDrainStandingStill(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			n := startWith(t, hooks{params: func(p *server.Params) { p.EventsEnd = 20 * time.Millisecond }})
			addr := n.socket
			if network == "tcp" {
				addr = address(t, n.Addrs().Admin)
			}
			body := n.standStill(t, network, addr)
			for long := strings.Repeat("x", 64<<10); n.lost() == 0; {
				n.publish(long)
			}
			n.events.Close(errDraining)
			if err := n.Drain(t.Context()); err != nil { // a write has a minute in this test
				t.Error(err)
			}
			if p, err := io.ReadAll(body); err == nil {
				t.Errorf("the stream that was cut looks complete after %d bytes", len(p))
			}
		})
	}
}

// TestEventsLagging: a reader that stood still is told how many events it lost, and then
// gets the newest. The ids count those it lost.
func TestEventsLagging(t *testing.T) {
	t.Parallel()
	n := start(t)
	body := n.standStill(t, "unix", n.socket)
	long := strings.Repeat("x", 64<<10)
	published := 0
	for n.lost() < 10 {
		published++
		n.publish(long)
	}
	published++
	n.publish("newest")
	n.events.Close(errDraining)
	id, read, lost, name, newest := 0, 0, 0, "", false
	for name != "end" {
		line, err := body.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "id":
			if id, err = strconv.Atoi(value); err != nil {
				t.Fatal(err)
			}
		case "event":
			name = value
		case "data":
			_, count, _ := strings.Cut(strings.TrimSuffix(value, "}"), `"lost":`)
			if name == "pins" {
				read++
				newest = strings.Contains(value, `"label":"newest"`)
			} else if more, err := strconv.Atoi(count); err == nil {
				lost += more
			} else {
				t.Errorf("%s: %q", name, value)
			}
			if id != read+lost {
				t.Errorf("id %d after %d events and %d lost", id, read, lost)
			}
		}
	}
	if read+lost != published || !newest || int64(lost) != n.lost() {
		t.Errorf("%d events read and %d lost of %d; the last is the newest: %t", read, lost, published, newest)
	}
}
