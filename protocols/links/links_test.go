package links_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/links"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var root = b3.Sum([]byte("an object"))

// shown is a link of a test's gateway.
type shown struct {
	url    string
	mu     sync.Mutex // lock: leaf
	events []links.Event
	ended  bool
	closed int
}

func (l *shown) URL() string { return l.url }

func (l *shown) Take() (all []links.Event, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, l.events = l.events, nil
	return all, l.ended
}

func (l *shown) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
}

func (l *shown) tell(ended bool, all ...links.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.ended = append(l.events, all...), ended
}

func (l *shown) closes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// gateway makes links. Only one goroutine uses it.
type gateway struct {
	err   error
	offer links.Offer
	all   []*shown
}

func (g *gateway) Open(o links.Offer) (links.Link, error) {
	if g.err != nil {
		return nil, g.err
	}
	g.offer = o
	l := &shown{url: fmt.Sprintf("https://gateway.example/s/%d/", len(g.all))}
	g.all = append(g.all, l)
	return l, nil
}

// wire carries the requests of one peer to a server, or fails.
type wire struct {
	from   peer.ID
	server *links.Server
	broken atomic.Pointer[status.Error]
	reply  string       // in place of the server's
	lose   atomic.Int32 // how many answers of the server are lost
}

func (w *wire) Call(ctx context.Context, _ peer.ID, proto uint16, payload []byte) ([]byte, error) {
	broken := w.broken.Load()
	switch {
	case broken != nil:
		return nil, broken
	case w.reply != "":
		return []byte(w.reply), nil
	case proto != oap.ProtoLinks:
		return nil, status.Errorf(status.BadFrame, "unknown_proto")
	}
	r := &session.Request{Payload: payload}
	if err := oap.DecodeJSON(payload, &r.Envelope, true); err != nil {
		return nil, err
	}
	answer := w.server.Handle(ctx, w.from, r)
	if w.lose.Add(-1) >= 0 {
		return nil, status.Errorf(status.TransportDown, "the answer is lost")
	}
	return answer.Payload, answer.Err
}

// newServer runs a server until the function that it returns is called.
func newServer(t *testing.T, g *gateway, most int) (*links.Server, func()) {
	t.Helper()
	s, err := links.NewServer(links.ServerDeps{
		Env: env.Env{Limits: limits.NewRegistry(nil)}, Opener: g, Most: most,
		Group: func(p peer.ID) ipgroup.Group { return ipgroup.Group(p[:1]) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, func() {}) })
	return s, func() { cancel(); running.Wait() }
}

// TestLink: a link is opened, renewed, and told of, and ends with its last download.
func TestLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{}
		s, stop := newServer(t, g, 8)
		defer stop()
		c := links.NewClient(&wire{from: "ab", server: s})
		offer := links.Offer{
			Root: root, File: true, Name: "é.txt", Size: 9, Downloads: 2, NotAfter: time.Now().Add(time.Hour).UTC(),
		}
		h, err := c.Open(t.Context(), "gw", offer)
		if err != nil || h.URL != "https://gateway.example/s/0/" || g.offer != offer {
			t.Fatalf("%+v %+v %v", h, g.offer, err)
		}
		if by := s.Providers(root); len(by) != 1 || by[0].ID != "ab" || len(s.Providers(b3.Root{})) != 0 {
			t.Errorf("the providers are %v", by)
		}
		time.AfterFunc(10*time.Minute, func() { g.all[0].tell(false, links.Event{Count: 1}) })
		time.AfterFunc(20*time.Minute, func() { g.all[0].tell(true, links.Event{Whole: true, Count: 1}) })
		var got []links.Event
		begun := time.Now()
		err = c.Follow(t.Context(), h, func(e links.Event) error { got = append(got, e); return nil })
		want := []links.Event{{Count: 1}, {Whole: true, Count: 1}}
		if err != nil || !slices.Equal(got, want) || time.Since(begun) > 20*time.Minute+10*time.Second {
			t.Errorf("%v, %v after %s", got, err, time.Since(begun))
		}
		if g.all[0].closes() != 1 || len(s.Providers(root)) != 0 {
			t.Error("the link stands")
		}
	})
}

// TestEnds: a link ends once, whoever ends it, and its place is free again.
func TestEnds(t *testing.T) {
	failed := errors.New("nobody reads")
	for name, c := range map[string]struct {
		do   func(t *testing.T, c *links.Client, h links.Held, l *shown, w *wire, stop func()) error
		want error
	}{
		"the peer": {func(t *testing.T, c *links.Client, h links.Held, _ *shown, _ *wire, _ func()) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			return c.Follow(ctx, h, func(links.Event) error { return nil })
		}, nil},
		"the peer's reader": {func(t *testing.T, c *links.Client, h links.Held, l *shown, _ *wire, _ func()) error {
			l.tell(false, links.Event{Whole: true})
			return c.Follow(t.Context(), h, func(links.Event) error { return failed })
		}, failed},
		"the lease": {func(*testing.T, *links.Client, links.Held, *shown, *wire, func()) error {
			time.Sleep(51 * time.Second)
			return nil
		}, nil},
		"the server": {func(_ *testing.T, _ *links.Client, _ links.Held, _ *shown, _ *wire, stop func()) error {
			stop()
			return nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gateway{}
				s, stop := newServer(t, g, 1)
				defer stop()
				w := &wire{from: "ab", server: s}
				client := links.NewClient(w)
				h, err := client.Open(t.Context(), "gw", links.Offer{Root: root})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := client.Open(t.Context(), "gw", links.Offer{Root: root}); status.Of(err) != status.Busy {
					t.Errorf("a link too many: %v", err)
				}
				if err := c.do(t, client, h, g.all[0], w, stop); !errors.Is(err, c.want) {
					t.Errorf("Follow returned %v", err)
				}
				if g.all[0].closes() != 1 || len(s.Providers(root)) != 0 {
					t.Errorf("closed %d times", g.all[0].closes())
				}
				_, err = client.Open(t.Context(), "gw", links.Offer{Root: root})
				if name == "the server" && status.Of(err) != status.Draining || name != "the server" && err != nil {
					t.Errorf("the next link: %v", err)
				}
			})
		})
	}
}

// TestLost: a peer that cannot be reached for a moment keeps its link; one that the gateway forgot is told.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{}
		s, stop := newServer(t, g, 4)
		defer stop()
		w := &wire{from: "ab", server: s}
		c := links.NewClient(w)
		open := func() links.Held {
			h, err := c.Open(t.Context(), "gw", links.Offer{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		follow := func(h links.Held) error {
			return c.Follow(t.Context(), h, func(links.Event) error { return nil })
		}
		down := status.Errorf(status.TransportDown, "no way")
		h := open()
		w.broken.Store(down)
		time.AfterFunc(29*time.Second, func() { w.broken.Store(nil) })
		time.AfterFunc(time.Hour, func() { g.all[0].tell(true) })
		if err := follow(h); err != nil {
			t.Errorf("after half a minute: %v", err)
		}
		h = open()
		w.broken.Store(down)
		if err := follow(h); !errors.Is(err, down) {
			t.Errorf("without a way: %v", err)
		}
		w.broken.Store(nil)
		time.Sleep(time.Minute)
		if err := follow(h); status.Of(err) != status.NotFound {
			t.Errorf("forgotten: %v", err)
		}
	})
}

// TestLostAnswer: the end of a link arrives although answers are lost, with what happened last, and the link ends once.
// A peer that does not come back leaves its place with the lease.
func TestLostAnswer(t *testing.T) {
	for _, lost := range []int32{0, 1, 3, 100} {
		synctest.Test(t, func(t *testing.T) {
			g := &gateway{}
			s, stop := newServer(t, g, 1)
			defer stop()
			w := &wire{from: "ab", server: s}
			c := links.NewClient(w)
			h, err := c.Open(t.Context(), "gw", links.Offer{Root: root, Downloads: 1})
			if err != nil {
				t.Fatal(err)
			}
			whole := links.Event{Whole: true, Count: 1}
			g.all[0].tell(true, whole)
			w.lose.Store(lost)
			var got []links.Event
			err = c.Follow(t.Context(), h, func(e links.Event) error { got = append(got, e); return nil })
			if came := lost < 100; came != (err == nil) || came != slices.Equal(got, []links.Event{whole}) {
				t.Errorf("%d answers are lost: %v, %v", lost, got, err)
			}
			if len(s.Providers(root)) != 0 {
				t.Error("the link stands")
			}
			w.lose.Store(0)
			if err != nil {
				time.Sleep(time.Minute)
			}
			if _, err := c.Open(t.Context(), "gw", links.Offer{Root: root}); err != nil {
				t.Errorf("the next link: %v", err)
			}
			if g.all[0].closes() != 1 {
				t.Errorf("closed %d times", g.all[0].closes())
			}
		})
	}
}

// TestStrangers: a peer asks about its own links, an IP group has four, and nobody learns of the denylist.
func TestStrangers(t *testing.T) {
	g := &gateway{}
	s, stop := newServer(t, g, 6)
	defer stop()
	client := func(p peer.ID) *links.Client { return links.NewClient(&wire{from: p, server: s}) }
	open := func(p peer.ID) error {
		_, err := client(p).Open(t.Context(), "gw", links.Offer{Root: root})
		return err
	}
	for i, c := range []struct {
		who  peer.ID
		want status.Outcome
	}{
		{"a1", status.OK}, {"a2", status.OK}, {"a3", status.OK}, {"a4", status.OK}, {"a5", status.Busy},
		{"b1", status.OK}, {"c1", status.OK}, {"d1", status.Busy},
	} {
		if err := open(c.who); status.Of(err) != c.want {
			t.Errorf("%d: %s: %v", i, c.who, err)
		}
	}
	h, err := client("a1").Open(t.Context(), "gw", links.Offer{Root: root})
	if status.Of(err) != status.Busy || h.URL != "" || !strings.Contains(err.Error(), "at most 6 links of peers") {
		t.Errorf("%+v %v", h, err)
	}
	s, stopOther := newServer(t, g, 6)
	defer stopOther()
	if h, err = client("a1").Open(t.Context(), "gw", links.Offer{Root: root}); err != nil {
		t.Fatal(err)
	}
	last := g.all[len(g.all)-1]
	last.tell(true, links.Event{Whole: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client("b1").Follow(ctx, h, nil); err != nil || last.closes() != 0 { // which closes it, were it its own
		t.Errorf("a stranger ended the link: %v", err)
	}
	g.err = status.Errorf(status.Denied, "on line 5 of denylist.txt")
	if err := open("a1"); status.Of(err) != status.Forbidden || strings.Contains(err.Error(), "denylist") {
		t.Errorf("%v", err)
	}
}

// TestAnswers: an answer that is none, or too large, is the peer's fault; a node without the protocol is unsupported.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("a", 3000)
	for reply, want := range map[string]status.Outcome{
		`{"id":"x","url":"https://a.example/s/y/","new":1}`:         status.OK,
		`{"id":"x","url":"http://192.0.2.1:80/s/y/"}`:               status.OK,
		`{"id":"","url":"https://a.example/s/y/"}`:                  status.Upstream,
		`{"id":"x","url":"file:///etc/passwd"}`:                     status.Upstream,
		`{"id":"x","url":"javascript:alert(1)"}`:                    status.Upstream,
		`{"id":"x","url":"https://u:p@a.example/"}`:                 status.Upstream,
		`{"id":"x","url":"https://a.example/?q"}`:                   status.Upstream,
		`{"id":"x","url":"https:///s/y/"}`:                          status.Upstream,
		`{"id":"x","url":"https://:443/s/y/"}`:                      status.Upstream,
		`{"id":"x","url":"https://a.example/s/y/;id"}`:              status.Upstream,
		`{"id":"x","url":"https://a.example/s/$(id)/"}`:             status.Upstream,
		`{"id":"x","url":"https://[2001:db8::1]:80/s/y/"}`:          status.OK,
		`{"id":"x","url":"https://a.example/` + long + `"}`:         status.Upstream,
		`{"id":"` + long + `","url":"https://a.example/"}`:          status.Upstream,
		`{"id":"x","url":"https://a.example/s/` + "\u202e" + `y/"}`: status.Upstream,
		`[]`: status.Upstream,
		``:   status.OK, // from the server, which answers
	} {
		s, stop := newServer(t, &gateway{}, 4)
		c := links.NewClient(&wire{from: "ab", server: s, reply: reply})
		_, err := c.Open(t.Context(), "gw", links.Offer{Root: root})
		if status.Of(err) != want {
			t.Errorf("%.80s: %v", reply, err)
		}
		stop()
	}
	old := &wire{}
	old.broken.Store(status.Errorf(status.BadFrame, "unknown_proto"))
	if _, err := links.NewClient(old).Open(t.Context(), "gw", links.Offer{}); status.Of(err) != status.Unsupported {
		t.Errorf("a node without links: %v", err)
	}
	many := &wire{reply: `{"events":[` + strings.Repeat("{},", links.MaxEvents) + `{}]}`}
	synctest.Test(t, func(t *testing.T) {
		err := links.NewClient(many).Follow(t.Context(), links.Held{}, func(links.Event) error { return nil })
		if status.Of(err) != status.Upstream {
			t.Errorf("too many events: %v", err)
		}
	})
}
