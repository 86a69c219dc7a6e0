package testnet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/testnet/script"
)

// Player plays steps on a network. Its methods are safe for concurrent use, but
// conditions then see the effects of all steps.
type Player struct {
	net    *Net
	seed   uint64        // of content
	within time.Duration // the wait of a step that sets none itself

	mu       sync.Mutex // guards the maps; lock: leaf
	contents map[string]script.Step
	roots    map[string]b3.Root
}

// NewPlayer returns a player on a network. within is the wait of a step that sets none itself.
func NewPlayer(n *Net, within time.Duration) *Player {
	return &Player{net: n, seed: max(n.o.Seed, script.DefaultSeed), within: within, contents: map[string]script.Step{},
		roots: map[string]b3.Root{}}
}

// Step plays one step to its end and describes the result. It ignores that a step is to
// run in the background.
func (p *Player) Step(ctx context.Context, s script.Step) (Said, error) {
	if err := script.CheckNodes(s, len(p.net.Members)); err != nil {
		return nil, err
	}
	switch s.Op {
	case script.Add:
		return p.add(ctx, s)
	case script.Get, script.Pin, script.Unpin, script.Announce:
		return p.onContent(ctx, s)
	case script.Evacuate:
		return p.evacuate(ctx, s)
	case script.GC:
		return p.gc(ctx, s)
	case script.Publish:
		return p.publish(ctx, s)
	case script.Resolve:
		return p.resolve(ctx, s)
	case script.Flood:
		return p.flood(ctx, s)
	case script.Expect:
		return p.expect(ctx, s)
	case script.Wait:
		return nil, limits.Sleep(ctx, s.Time)
	case script.Join:
		return nil, nil // the caller that started the background steps waits for them
	}
	return p.net.Do(ctx, s)
}

// member returns the node that a step is about.
func (p *Player) member(s script.Step) *Member { return p.net.Members[s.Nodes[0]-1] }

// root returns the address of content that was added under a name.
func (p *Player) root(name string) (b3.Root, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	root, ok := p.roots[name]
	if !ok {
		return root, status.Errorf(status.BadRequest,
			"nothing is called %s yet; `add 1 %s tree 1MiB` adds it", name, name)
	}
	return root, nil
}

// name gives content its name. It fails when other content has that name.
func (p *Player) name(s script.Step) (content, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := script.CheckContent(s, p.contents); err != nil {
		return content{}, err
	}
	p.contents[s.Name] = s
	return content{seed: p.seed, name: s.Name, tree: s.Tree, size: s.Bytes}, nil
}

func (p *Player) content(name string) content {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.contents[name]
	return content{seed: p.seed, name: name, tree: s.Tree, size: s.Bytes}
}

func (p *Player) add(ctx context.Context, s script.Step) (Said, error) {
	c, err := p.name(s)
	if err != nil {
		return nil, err
	}
	m := p.member(s)
	return p.until(ctx, s, func(ctx context.Context) (Said, error) {
		for added, err := range files.SendItems(ctx, m.API, c.items(), api.AddOptions{Label: "testnet"}, nil) {
			if err != nil {
				return nil, err
			}
			p.mu.Lock()
			p.roots[s.Name] = added.Root
			p.mu.Unlock()
			return Said{fmt.Sprintf("%s is %s: %d files, %s, on %s", s.Name, added.Root, added.Files,
				limits.Bytes(added.Bytes).Human(), m.Name)}, nil
		}
		return nil, status.Errorf(status.Internal, "%s added nothing", m.Name)
	})
}

// onContent plays a step about content that has been added.
func (p *Player) onContent(ctx context.Context, s script.Step) (Said, error) {
	root, err := p.root(s.Name)
	if err != nil {
		return nil, err
	}
	m, key := p.member(s), root.String()
	switch s.Op {
	case script.Get:
		c := p.content(s.Name)
		return p.until(ctx, s, func(ctx context.Context) (Said, error) { return get(ctx, m, key, c) })
	case script.Announce:
		return p.until(ctx, s, func(ctx context.Context) (Said, error) {
			a, err := m.API.Announce(ctx, key)
			return Said{fmt.Sprintf("%d peers took the record of %s", a.Peers, m.Name)}, err
		})
	}
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	if s.Op == script.Unpin {
		return Said{m.Name + " keeps " + s.Name + " as cache"}, m.API.Unpin(ctx, key, "")
	}
	o := api.PinOptions{Recursive: true, Label: "testnet"}
	if s.Count > 0 {
		o.Target = &api.Target{RF: s.Count}
	}
	_, err = m.API.Pin(ctx, key, o)
	return Said{m.Name + " keeps " + s.Name}, err
}

// get fetches content and reads all of it.
func get(ctx context.Context, m *Member, key string, c content) (Said, error) {
	f, err := m.API.Fetch(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	if err := read(ctx, m, key, c); err != nil {
		return nil, err
	}
	return Said{fmt.Sprintf("%s has %s: %s of it from the network, every byte compared", m.Name, c.name,
		limits.Bytes(f.New).Human())}, nil
}

// read reads all of some content at a node and compares it.
func read(ctx context.Context, m *Member, key string, c content) error {
	stream, err := m.API.Get(ctx, key)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	return c.check(stream)
}

// evacuate has a node hand its copies over.
func (p *Player) evacuate(ctx context.Context, s script.Step) (Said, error) {
	m := p.member(s)
	return p.until(ctx, s, func(ctx context.Context) (Said, error) {
		var last api.Evacuation
		for e, err := range m.API.Evacuate(ctx) {
			if err != nil {
				return nil, err
			}
			last = e
		}
		if !last.Done {
			return nil, status.Errorf(status.Internal, "%s said nothing of its evacuation", m.Name)
		}
		return Said{fmt.Sprintf("%s handed %d objects over", m.Name, last.Objects)}, nil
	})
}

func (p *Player) gc(ctx context.Context, s script.Step) (Said, error) {
	var said Said
	for _, i := range s.Nodes.In(len(p.net.Members)) {
		m := p.net.Members[i-1]
		ctx, cancel := context.WithTimeout(ctx, p.within)
		_, err := m.API.GC(ctx, api.GCOptions{All: true, Fast: true}, nil, nil)
		cancel()
		if err != nil {
			return said, fmt.Errorf("gc on %s: %w", m.Name, err)
		}
		said = append(said, m.Name+" removed what nothing holds")
	}
	return said, nil
}

// floodAtOnce is the maximum number of requests of a flood in flight.
const floodAtOnce = 64

// flood pings one node from another. It ends when one of them ends.
func (p *Player) flood(ctx context.Context, s script.Step) (Said, error) {
	from, to := p.member(s), p.net.Members[s.Target-1].ID().ID
	if !from.Running() {
		return nil, down(from)
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards the rest; lock: leaf
		left    = s.Count
		answers = map[status.Outcome]int{}
	)
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		left--
		return left >= 0
	}
	for range min(floodAtOnce, s.Count) {
		wg.Go(func() {
			for next() && ctx.Err() == nil && from.Running() {
				ask, cancel := context.WithTimeout(ctx, askWithin)
				_, err := from.API.Ping(ask, to)
				cancel()
				mu.Lock()
				answers[status.Of(err)]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	said := fmt.Sprintf("%s pinged node %d:", from.Name, s.Target)
	for _, o := range status.All() {
		if answers[o] > 0 {
			said += fmt.Sprintf(" %d %s", answers[o], o)
		}
	}
	return Said{said}, ctx.Err()
}

// until tries until a step ends as expected. A step that is expected to fail and succeeds
// is an error at once, because it would succeed again.
func (p *Player) until(ctx context.Context, s script.Step, try func(context.Context) (Said, error)) (Said, error) {
	within := s.Within
	if within == 0 {
		within = p.within
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last error // the last error that says why: a breaker that opened, or a node whose time was up, hides none
	for tries := 0; ; tries++ {
		said, err := try(bounded)
		late := bounded.Err() != nil
		got := status.Of(err)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && s.Fails:
			return nil, status.Errorf(status.Conflict, "wanted %s, and it succeeded: %s", wanted(s), said)
		case err == nil:
			return said, nil
		case late && s.Fails && last == nil && (s.Outcome == status.OK || s.Outcome == status.Timeout):
			return Said{fmt.Sprintf("as expected: no answer in %s", within)}, nil
		case late && last == nil:
			return nil, status.Errorf(status.Timeout, "wanted %s, and there was no answer in %s", wanted(s), within)
		case late:
			return nil, fmt.Errorf("wanted %s within %s; the last of %d tries ended with %s: %w", wanted(s), within,
				tries,
				status.Of(last), last)
		case got == status.BadRequest, got == status.Unsupported:
			return nil, err // the next try would fail alike
		case s.Fails && (s.Outcome == status.OK || s.Outcome == got):
			return Said{"as expected: " + err.Error()}, nil
		}
		if last == nil || got != status.BreakerOpen && got != status.Timeout {
			last = err
		}
		_ = limits.Sleep(bounded, limits.Backoff(min(tries, 2))) // the next try sees the end of the context
	}
}

// wanted describes how a step is expected to end.
func wanted(s script.Step) string {
	if s.Fails && s.Outcome == status.OK {
		return "a failure"
	}
	return s.Outcome.String()
}

// errNever marks an expectation that was not met in time.
var errNever = errors.New("it did not come true")
