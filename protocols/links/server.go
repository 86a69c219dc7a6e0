package links

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
)

const (
	lease      = 45 * time.Second // a link that is not renewed for so long ends
	sweepEvery = 5 * time.Second
	groupLinks = 4 // links of one IP group
)

// Link is a link that an [Opener] made.
type Link interface {
	URL() string
	// Take returns the events since its last call. ended means that no further one comes.
	Take() (all []Event, ended bool)
	// Close ends the link. It is called once.
	Close()
}

// Opener makes the links of a node's gateway.
type Opener interface {
	// Open makes a link. The error is unsupported if the gateway has no address that others can open, denied for an
	// object of the denylist, or another outcome that the peer is told.
	Open(o Offer) (Link, error)
}

// ServerDeps holds the dependencies of a [Server]. All are required.
type ServerDeps struct {
	env.Env

	Opener Opener
	Group  func(peer.ID) ipgroup.Group // of a connected peer
	Most   int                         // links of all peers; at least 1
}

// Server keeps the links of peers. It is safe for concurrent use. Run ends those that nobody renews.
type Server struct {
	Handle session.Handler // of the protocol
	deps   ServerDeps
	all    *limits.Gate
	each   *limits.KeyedGate[ipgroup.Group]

	mu     sync.Mutex // guards what follows; lock: leaf
	held   map[string]*held
	closed bool
}

// held is a link of a peer.
type held struct {
	Link
	root  b3.Root
	owner peer.ID
	ends  time.Time // unless it is renewed
	last  *news     // the answer that told the end of the link
	shut  func()    // closes the link, once
	leave func()    // gives its places back
}

// NewServer returns a Server without links.
func NewServer(d ServerDeps) (*Server, error) {
	if d.Opener == nil || d.Group == nil || d.Most < 1 {
		return nil, errors.New("a server of links needs an opener, a group and a bound")
	}
	d.Env.SetDefaults()
	const path = "sessions → links on the gateway"
	s := &Server{
		deps: d, held: map[string]*held{},
		all: d.Limits.NewGate(limits.Spec{Name: "links.peers", Path: path, Policy: "busy"}, int64(d.Most), 0),
		each: limits.NewKeyedGate[ipgroup.Group](d.Limits, limits.Spec{
			Name: "links.group", Path: path, Policy: "busy", Each: "IP group",
		}, groupLinks),
	}
	env.MustRegister(d.Metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "links_held", Help: "Links of peers on this node's gateway.",
	}, func() float64 { return float64(s.count()) }))
	var err error
	s.Handle, err = session.Counted(d.Metrics, "links_requests_total",
		"Requests of peers about links on this gateway, by operation (open, renew, close, other) and by the outcome "+
			"of the answer.", []string{opOpen, opRenew, opClose}, s.answer)
	return s, err
}

func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Ask is the [session.Ask] of the protocol: a link shows an object.
func (s *Server) Ask(r *session.Request) (capability.Request, error) {
	ask := capability.Request{Op: capability.Get, Method: r.Op}
	if r.Op != opOpen {
		return ask, nil
	}
	var m openRequest
	if err := r.Decode(&m); err != nil {
		return ask, err
	}
	o, err := m.offer()
	ask.Object = o.Root
	return ask, err
}

func (s *Server) answer(_ context.Context, from peer.ID, r *session.Request) ([]byte, error) {
	switch r.Op {
	case opOpen:
		var m openRequest
		if err := r.Decode(&m); err != nil {
			return nil, err
		}
		o, err := m.offer()
		if err != nil {
			return nil, err
		}
		got, err := s.open(from, o)
		if err != nil {
			return nil, err
		}
		return json.Marshal(got)
	case opRenew, opClose:
		var m linkRequest
		if err := r.Decode(&m); err != nil {
			return nil, err
		}
		got, err := s.renew(from, m.ID, r.Op == opClose)
		if err != nil {
			return nil, err
		}
		return json.Marshal(got)
	}
	return nil, status.Errorf(status.Unsupported, "this node has no operation %.32q of links", r.Op)
}

// open makes a link for a peer.
func (s *Server) open(from peer.ID, o Offer) (opened, error) {
	if !o.NotAfter.IsZero() && !s.deps.Now().Before(o.NotAfter) {
		return opened{}, status.Errorf(status.BadRequest, "the link would have expired already; the clocks may differ")
	}
	leave, err := s.each.EnterOf(s.deps.Group(from), s.all)
	if err != nil {
		return opened{}, status.Errorf(status.Busy, "this gateway shows at most %d links of peers, and %d of one "+
			"network. Share again when one has ended", s.deps.Most, groupLinks)
	}
	link, err := s.deps.Opener.Open(o)
	if err != nil {
		leave()
		if status.Of(err) == status.Denied { // peers learn nothing of the denylist
			err = status.Errorf(status.Forbidden, "this gateway does not show that")
		}
		return opened{}, err
	}
	id := strings.ToLower(rand.Text())
	h := &held{
		Link: link, root: o.Root, owner: from, ends: s.deps.Now().Add(lease), shut: sync.OnceFunc(link.Close),
		leave: leave,
	}
	if !s.add(id, h) {
		h.end()
		return opened{}, status.Errorf(status.Draining, "the node is shutting down")
	}
	return opened{ID: id, URL: link.URL()}, nil
}

// end ends a link that the Server no longer holds.
func (h *held) end() {
	h.shut()
	h.leave()
}

// add keeps a link, unless the Server has stopped.
func (s *Server) add(id string, h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.held[id] = h
	}
	return !s.closed
}

// renew returns what happened to a link of a peer. The answer that tells its end is told again until the peer has it,
// and ends the link with end.
func (s *Server) renew(from peer.ID, id string, end bool) (news, error) {
	h, last := s.find(from, id)
	if h == nil {
		return news{}, status.Errorf(status.NotFound, "this node has no such link of yours, or no longer")
	}
	if end && s.remove(id, h) {
		defer h.end()
	}
	if last != nil {
		return *last, nil
	}
	all, ended := h.Take()
	got := news{Events: all[:min(len(all), MaxEvents)], Ended: ended || end}
	if got.Ended {
		s.setLast(h, got)
		h.shut()
	}
	return got, nil
}

// find returns the link of a peer, whose lease begins again, and the answer that told its end. Both may be nil.
func (s *Server) find(from peer.ID, id string) (*held, *news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	if h == nil || h.owner != from {
		return nil, nil
	}
	h.ends = s.deps.Now().Add(lease)
	return h, h.last
}

// setLast keeps the answer that tells the end of a link.
func (s *Server) setLast(h *held, last news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.last = &last
}

// remove forgets a link. It reports whether the Server had it: one that is removed ends.
func (s *Server) remove(id string, h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.held[id] == h
	if had {
		delete(s.held, id)
	}
	return had
}

// Providers returns the peers with links to root, which have it.
func (s *Server) Providers(root b3.Root) (all []record.Provider) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.root == root && h.last == nil {
			all = append(all, record.Provider{AddrInfo: peer.AddrInfo{ID: h.owner}})
		}
	}
	return all
}

// Run ends links that nobody renews until ctx ends, and then all of them.
func (s *Server) Run(ctx context.Context, ready func()) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	ready()
	for {
		select {
		case <-ctx.Done():
			for _, h := range s.takeAll() {
				h.end()
			}
			return nil
		case <-tick.C:
			for _, h := range s.takeExpired(s.deps.Now()) {
				h.end()
			}
		}
	}
}

// takeAll removes all links and lets no more begin.
func (s *Server) takeAll() (all []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, h := range s.held {
		all = append(all, h)
	}
	clear(s.held)
	return all
}

// takeExpired removes the links whose lease has ended.
func (s *Server) takeExpired(now time.Time) (all []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.held {
		if !now.Before(h.ends) {
			all = append(all, h)
			delete(s.held, id)
		}
	}
	return all
}
