package doctor

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	homedir "allium/node/home"
	"allium/node/p2p"
)

// exam is one examination: its dependencies, and what the node answered.
type exam struct {
	Deps
	inUse   bool  // another process has locked the home directory
	nodeErr error // why Node is nil
	node    answers
}

// answers are those of the running node.
type answers struct {
	health  answer[api.Health]
	id      answer[api.ID]
	version answer[api.Version]
	peers   answer[[]api.Peer]
	reach   answer[api.Reach]
	seeds   answer[api.Seeds]
	copies  answer[api.Durability]
	names   answer[[]api.OwnName]
	limits  answer[api.Limits]
	metrics answer[[]byte]
}

// answer is one answer, or why there is none.
type answer[T any] struct {
	value T
	err   error
}

// newExam asks the node everything at once.
func newExam(ctx context.Context, d Deps) *exam {
	e := &exam{Deps: d}
	if d.Home != "" {
		e.inUse = homedir.InUse(d.Home) // before the checks lock it themselves
	}
	if d.Node == nil {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var all sync.WaitGroup
	ask(ctx, &all, &e.node.health, func(ctx context.Context) (api.Health, error) {
		return d.Node.Health(ctx, api.HealthOptions{Sample: true})
	})
	ask(ctx, &all, &e.node.id, d.Node.ID)
	ask(ctx, &all, &e.node.version, d.Node.Version)
	ask(ctx, &all, &e.node.peers, d.Node.Peers)
	ask(ctx, &all, &e.node.reach, d.Node.Reach)
	ask(ctx, &all, &e.node.seeds, d.Node.Seeds)
	ask(ctx, &all, &e.node.copies, d.Node.Durability)
	ask(ctx, &all, &e.node.limits, d.Node.Limits)
	ask(ctx, &all, &e.node.names, func(ctx context.Context) ([]api.OwnName, error) { return ownNames(ctx, d.Node) })
	if d.Metrics != nil {
		ask(ctx, &all, &e.node.metrics, d.Metrics)
	}
	all.Wait()
	if err := e.node.version.err; errors.Is(err, client.ErrNotRunning) || e.silent() && d.Home != "" && !e.inUse {
		e.Node, e.nodeErr = nil, err
	}
	return e
}

// maxOwnNames bounds the names of the node that are looked at.
const maxOwnNames = 1 << 12

// ownNames lists the names that the node publishes.
func ownNames(ctx context.Context, n Node) (names []api.OwnName, err error) {
	for name, err := range n.OwnNames(ctx) {
		if err != nil {
			return nil, err
		}
		if names = append(names, name); len(names) == maxOwnNames {
			break
		}
	}
	return names, nil
}

// factsOf returns what the node told.
func factsOf(e *exam, r Report) Facts {
	f := Facts{Report: r}
	if e.Node == nil {
		return f
	}
	f.Health, f.Version, f.Reach = e.node.health.told(), e.node.version.told(), e.node.reach.told()
	f.Seeds, f.Peers = e.node.seeds.told(), e.node.peers.value
	f.Limits, f.Metrics = e.node.limits.told(), e.node.metrics.value
	return f
}

// told returns the answer, or nil if there is none.
func (a *answer[T]) told() *T {
	if a.err != nil {
		return nil
	}
	return &a.value
}

// ask calls one method of the node. It returns when ctx ends, because every request does.
func ask[T any](ctx context.Context, all *sync.WaitGroup, a *answer[T], call func(context.Context) (T, error)) {
	all.Go(func() { a.value, a.err = call(ctx) })
}

// silent reports whether the node answered nothing at all.
func (e *exam) silent() bool {
	return e.node.version.err != nil && e.node.id.err != nil && e.node.health.err != nil
}

// profile returns the profile of the node that runs, or of the configuration: a flag may have set another one.
func (e *exam) profile() p2p.Profile {
	if p := e.node.health.value.Profile; p != "" {
		return p2p.Profile(p).Canonical()
	}
	return e.Config.Node.Profile.Canonical()
}

// amnesia reports whether the node that runs, or would run, keeps everything in RAM.
func (e *exam) amnesia() bool {
	return e.node.health.value.Amnesia || e.Node == nil && e.Config.Node.Amnesia
}

// testnet reports whether the node belongs to a testnet, which is alone on loopback.
func (e *exam) testnet() bool { return e.profile() == p2p.Testnet }

// public reports whether the purpose of the node is to be dialled from the Internet.
func (e *exam) public() bool {
	switch e.profile() {
	case p2p.Server, p2p.Gateway, p2p.Seed:
		return true
	}
	return false
}

// gate returns a gate of the node's readiness, and false if it is open or not known.
func (e *exam) gate(name string) (api.Gate, bool) {
	for _, g := range e.node.health.value.Readiness.Gates {
		if g.Name == name {
			return g, !g.Ready
		}
	}
	return api.Gate{}, false
}

// expires returns the finding about something that ends at the time end: an error if it has ended, a warning if it
// ends within soon.
func (e *exam) expires(what saying, end time.Time, soon time.Duration, impact, fix string) result {
	switch left := end.Sub(e.Now()); {
	case left <= 0:
		return fail(say("%s ended at %s", what, plain(end.UTC().Format(time.RFC3339))), impact, fix)
	case left < soon:
		return warn(say("%s ends at %s", what, plain(end.UTC().Format(time.RFC3339))), impact, fix)
	}
	return result{}
}

// carrier is the range of addresses that providers use behind their own NAT (RFC 6598).
var carrier = netip.MustParsePrefix("100.64.0.0/10")
