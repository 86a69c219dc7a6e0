// Package weblink shares a file or directory by a link that a browser opens.
//
// A link is a path with a secret of 130 bits. Its pages and bytes are those of package content, below that path. A link
// may expire, and may allow a number of downloads. As long as [Set.Serve] runs, the link has its own listener; it works
// on the public listener of the node too.
//
// A download is one client that gets the file, a file of the directory or its archive, however many requests that
// takes. A browser is known by a cookie that the link sets. A program without cookies is known by its network address
// and its User-Agent, and only while it resumes, so each of its requests for a beginning counts. Pages, listings, HEAD
// and answers without content do not count.
package weblink

import (
	"crypto/rand"
	"crypto/subtle"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/content"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

const (
	// maxLinks bounds the links of a node. A further one is busy.
	maxLinks = 64
	// MaxHeld bounds those of Hold, so that the node's user always has some.
	MaxHeld = maxLinks / 2
	// maxEnded bounds the links that are remembered after their end, so that a visitor learns that there was one.
	maxEnded = 64
)

// MaxDownloads bounds Options.Downloads.
const MaxDownloads = 10_000

// Deps are the parts of the node that a Set uses. Content is required.
type Deps struct {
	env.Env

	Content *content.Handlers
	Upload  *limits.Bandwidth // bounds the bytes of content sent per second; nil: no bound
	Gateway func() string     // returns the base URL of the node's public listener, "" for none; nil: none
	Listen  string            // the address of that listener in the configuration
}

// Set holds the links of a node. Its methods may be called from any goroutine.
type Set struct {
	deps   Deps
	mounts *content.Mounts
	gate   *limits.Gate

	guesses   *guesses
	wrong     prometheus.Counter
	downloads prometheus.Counter

	mu     sync.Mutex // guards what follows; lock: leaf
	links  []*link
	ended  []*link // the latest last
	closed bool
}

// New returns a Set without links.
func New(d Deps) *Set {
	d.Env.SetDefaults()
	if d.Gateway == nil {
		d.Gateway = func() string { return "" }
	}
	s := &Set{
		deps: d, mounts: content.NewMounts(d.Content), guesses: newGuesses(d.Limits),
		gate: d.Limits.NewGate(limits.Spec{
			Name: "gateway.links", Path: "allium share --web → links that browsers open", Policy: "reject: busy",
		}, maxLinks, 0),
		wrong: env.Counter("gateway_link_guesses_total",
			"Requests below /s/ whose secret is that of no link."),
		downloads: env.Counter("gateway_link_downloads_total", "Downloads that links of `allium share --web` began."),
	}
	env.MustRegister(d.Metrics, s.wrong, s.downloads)
	return s
}

// Options describe a link.
type Options struct {
	Root      b3.Root
	File      bool      // Root is a file
	Name      string    // none, or one that is no name of a file: the beginning of the address
	Size      int64     // bytes of the file
	NotAfter  time.Time // the end; zero: none
	Downloads int       // how many are allowed; 0: any number
}

// check returns bad_request for the first option that is out of bounds.
func (o Options) check(now time.Time) error {
	switch {
	case o.Downloads < 0 || o.Downloads > MaxDownloads:
		return status.Errorf(status.BadRequest, "a link cannot allow %d downloads; set a number from 1 to %d",
			o.Downloads, MaxDownloads)
	case !o.NotAfter.IsZero() && !o.NotAfter.After(now):
		return status.Errorf(status.BadRequest, "the link would have expired already; give it a later end")
	}
	return nil
}

// open adds a link. The caller closes it.
func (s *Set) open(o Options) (*link, error) {
	if err := o.check(s.deps.Now()); err != nil {
		return nil, err
	}
	if o.Name = ticket.Name(o.Name); o.Name == "" {
		o.Name = "b3-" + o.Root.Hex()[:16]
	}
	if err := s.gate.Enter(); err != nil {
		return nil, err
	}
	l := newLink(s, o, strings.ToLower(rand.Text()))
	if !s.add(l) {
		s.gate.Leave()
		return nil, errDraining()
	}
	return l, nil
}

// add adds a link, unless the Set is closed.
func (s *Set) add(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.links = append(s.links, l)
	}
	return !s.closed
}

func errDraining() error {
	return status.Errorf(status.Draining, "the node is shutting down. Share again when it is back")
}

// end removes a link. Later visitors are told that it has ended.
func (s *Set) end(l *link) {
	l.close()
	defer s.gate.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = slices.DeleteFunc(s.links, func(have *link) bool { return have == l })
	s.ended = append(s.ended[max(0, len(s.ended)-maxEnded+1):], l)
}

// Close ends all links. Serve returns for each, and for new ones at once.
func (s *Set) Close() {
	for _, l := range s.refuse() {
		l.close()
	}
}

// refuse lets no more links begin, and returns those that have begun.
func (s *Set) refuse() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return slices.Clone(s.links)
}

// find returns the link with a secret, or nil. It compares all secrets, each in constant time, so that the time tells
// nothing about them.
func (s *Set) find(secret string) (found *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range [][]*link{s.ended, s.links} {
		for _, l := range all {
			if subtle.ConstantTimeCompare([]byte(l.secret), []byte(secret)) == 1 {
				found = l
			}
		}
	}
	return found
}
