package reach

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
)

// protectTag protects the connection to a relay from being trimmed.
const protectTag = "reach-relay"

// keeper keeps reservations at relays. Only the service's loop calls its methods.
type keeper struct {
	s       *Service
	pending map[peer.ID]ipgroup.Group // reservations under way
	failed  *simplelru.LRU[peer.ID, *failure]
	results chan result // bound: attempts, so that an attempt never waits
	tries   sync.WaitGroup
	cancel  context.CancelFunc // of all attempts
	ctx     context.Context
	held    map[peer.ID]*reservation

	mu       sync.Mutex                         // lock: leaf
	reserved *simplelru.LRU[peer.ID, time.Time] // until when each relay keeps a place for this node; guarded by mu
}

// reservation is a place at a relay.
type reservation struct {
	addrs   []ma.Multiaddr
	group   ipgroup.Group // of the relay; empty for a configured one
	renew   time.Time
	expires time.Time
	bytes   uint64        // that one circuit carries in each direction; 0: no limit
	lasts   time.Duration // of one circuit; 0: no limit
}

// failure says when a relay is tried again.
type failure struct {
	times int // in succession
	after time.Time
}

// result is the outcome of one attempt.
type result struct {
	relay peer.ID
	got   *reservation
	why   string // for the metric
	err   error
}

func newKeeper(s *Service) (*keeper, error) {
	failed, err := simplelru.NewLRU[peer.ID, *failure](maxFailed, nil)
	if err != nil {
		return nil, err
	}
	reserved, err := simplelru.NewLRU[peer.ID, time.Time](maxReserved, nil)
	if err != nil {
		return nil, err
	}
	return &keeper{
		s: s, reserved: reserved, pending: map[peer.ID]ipgroup.Group{},
		held: map[peer.ID]*reservation{}, failed: failed,
		results: make(chan result, attempts), // bound: attempts
	}, nil
}

// addrs returns the addresses through the relays.
func (k *keeper) addrs() (all []ma.Multiaddr) {
	for _, r := range k.held {
		all = append(all, r.addrs...)
	}
	return all
}

// begin prepares the keeper for a run, which may be the next one after a failure.
func (k *keeper) begin(ctx context.Context) { k.ctx, k.cancel = context.WithCancel(ctx) }

// end cancels the attempts, waits for them and forgets their results.
func (k *keeper) end() {
	k.cancel()
	k.tries.Wait()
	for len(k.pending) > 0 {
		delete(k.pending, (<-k.results).relay) // each attempt has left its result
	}
}

// step lets go of relays that are lost or not needed, renews reservations, and asks for those that lack.
func (k *keeper) step(needed bool, now time.Time) {
	renew := k.drop(needed, now)
	if !needed {
		return
	}
	for _, id := range renew {
		k.try(peer.AddrInfo{ID: id}, k.group(id))
	}
	k.fill(now)
}

// drop removes reservations that are not needed, have expired, or whose relay is not connected. It returns
// those to renew.
func (k *keeper) drop(needed bool, now time.Time) (renew []peer.ID) {
	var gone []peer.ID
	for id, r := range k.held {
		switch {
		case !needed, !now.Before(r.expires), k.s.host.Network().Connectedness(id) != network.Connected:
			delete(k.held, id)
			gone = append(gone, id)
		case !now.Before(r.renew):
			renew = append(renew, id)
		}
	}
	for _, id := range gone {
		k.s.host.ConnManager().Unprotect(id, protectTag)
		k.s.log.Info("a relay is given up", "relay", id, "needed", needed)
	}
	return renew
}

// group returns the group that a held relay counts for.
func (k *keeper) group(id peer.ID) ipgroup.Group {
	if r := k.held[id]; r != nil {
		return r.group
	}
	return ""
}

// fill asks configured relays, then others, until enough reservations are held or under way.
func (k *keeper) fill(now time.Time) {
	for _, info := range k.s.cfg.Relays {
		if k.lacks() && k.free(info.ID, now) {
			k.try(info, "")
		}
	}
	for _, c := range k.candidates(now) {
		if k.lacks() && !k.taken(c.group) {
			k.try(peer.AddrInfo{ID: c.id}, c.group)
		}
	}
}

// lacks reports whether a further relay is to be asked.
func (k *keeper) lacks() bool {
	have := len(k.held)
	for id := range k.pending {
		if k.held[id] == nil {
			have++
		}
	}
	return have < Relays
}

// free reports whether a relay may be asked: it is not held, not asked already, and has not just failed.
func (k *keeper) free(id peer.ID, now time.Time) bool {
	if _, asked := k.pending[id]; asked || k.held[id] != nil || id == k.s.host.ID() {
		return false
	}
	f, ok := k.failed.Get(id)
	return !ok || !now.Before(f.after)
}

// taken reports whether a relay of that group is held or asked.
func (k *keeper) taken(g ipgroup.Group) bool {
	if g == "" {
		return false
	}
	for _, r := range k.held {
		if r.group == g {
			return true
		}
	}
	return slices.Contains(slices.Collect(maps.Values(k.pending)), g)
}

// candidate is a connected peer that offers to relay.
type candidate struct {
	id    peer.ID
	group ipgroup.Group
	rtt   time.Duration // 0: unknown
}

// candidates returns the connected peers with public addresses that offer to relay, the nearest first.
func (k *keeper) candidates(now time.Time) (all []candidate) {
	h := k.s.host
	for _, id := range h.Network().Peers() {
		if offers, err := h.Peerstore().SupportsProtocols(id, proto.ProtoIDv2Hop); err != nil || len(offers) == 0 {
			continue
		}
		conns := h.Network().ConnsToPeer(id)
		i := slices.IndexFunc(conns, isPublic)
		if i < 0 || !k.free(id, now) {
			continue
		}
		all = append(all, candidate{id, ipgroup.Of(conns[i].RemoteMultiaddr()), h.Peerstore().LatencyEWMA(id)})
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(compareBool(a.rtt == 0, b.rtt == 0), cmp.Compare(a.rtt, b.rtt))
	})
	return all
}

func compareBool(a, b bool) int {
	return cmp.Compare(map[bool]int{true: 1}[a], map[bool]int{true: 1}[b])
}

// try asks a relay for a reservation, unless too many are asked.
func (k *keeper) try(info peer.AddrInfo, g ipgroup.Group) {
	if _, asked := k.pending[info.ID]; asked || len(k.pending) >= attempts {
		return
	}
	k.pending[info.ID] = g
	k.tries.Go(func() { k.results <- k.reserve(info, g) })
}

// reserve asks for a reservation.
func (k *keeper) reserve(info peer.AddrInfo, g ipgroup.Group) result {
	ctx, cancel := context.WithTimeout(k.ctx, reserveTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	got, err := client.Reserve(ctx, hurried{k.s.host, deadline}, info)
	if err != nil {
		why := "failed"
		if refused := new(client.ReservationError); errors.As(err, refused) &&
			refused.Status != pb.Status_CONNECTION_FAILED {
			why = "refused"
		}
		return result{relay: info.ID, why: why, err: err}
	}
	now := time.Now()
	lasts := min(got.Expiration.Sub(now), maxReservation)
	if lasts < minReservation {
		return result{relay: info.ID, why: "short", err: errors.New("it offers too short a time")}
	}
	conns := slices.DeleteFunc(k.s.host.Network().ConnsToPeer(info.ID),
		func(c network.Conn) bool { return IsRelayed(c.RemoteMultiaddr()) })
	if len(conns) == 0 {
		return result{relay: info.ID, why: "failed", err: network.ErrNoConn}
	}
	at := conns[0].RemoteMultiaddr()
	said := slices.Concat(got.Addrs, info.Addrs, []ma.Multiaddr{at}, k.s.host.Peerstore().Addrs(info.ID))
	r := &reservation{
		addrs: through(info.ID, said, at), group: g, expires: now.Add(lasts),
		renew: now.Add(lasts / 2), bytes: got.LimitData, lasts: got.LimitDuration,
	}
	if len(r.addrs) == 0 {
		return result{relay: info.ID, why: "failed", err: errors.New("it has no address that others can dial")}
	}
	return result{relay: info.ID, got: r, why: "ok"}
}

// settle notes the outcome of an attempt.
func (k *keeper) settle(r result, now time.Time) {
	delete(k.pending, r.relay)
	k.s.m.reservations.WithLabelValues(r.why).Inc()
	old := k.held[r.relay]
	switch {
	case r.err == nil:
		k.held[r.relay] = r.got
		k.mu.Lock()
		k.reserved.Add(r.relay, r.got.expires)
		k.mu.Unlock()
		k.failed.Remove(r.relay)
	case old != nil: // the old reservation stands; it is renewed again soon
		old.renew = now.Add(firstRetry)
	default:
		f, ok := k.failed.Get(r.relay)
		if !ok {
			f = &failure{}
			k.failed.Add(r.relay, f)
		}
		f.after = now.Add(min(firstRetry<<min(f.times, 10), maxRetry))
		f.times++
	}
	if r.err != nil {
		k.s.log.Debug("a relay gives no reservation", "relay", r.relay, "err", r.err)
		return
	}
	k.s.host.ConnManager().Protect(r.relay, protectTag)
	if old == nil {
		k.s.log.Info("this node can be reached through a relay", "relay", r.relay, "addrs", r.got.addrs)
	}
}

// Reserved reports whether the node has a reservation at a relay. A reservation that the node gave up counts until it
// expires, as the relay keeps it.
func (s *Service) Reserved(relay peer.ID) bool {
	k := s.relays
	k.mu.Lock()
	defer k.mu.Unlock()
	until, ok := k.reserved.Peek(relay)
	return ok && time.Now().Before(until)
}

// next returns how long it is until a reservation ends or is to be renewed, or a configured relay is tried
// again.
func (k *keeper) next(now time.Time) time.Duration {
	soonest := lookEvery
	for _, r := range k.held {
		soonest = min(soonest, r.renew.Sub(now))
	}
	for _, f := range k.failed.Values() {
		if wait := f.after.Sub(now); wait > 0 {
			soonest = min(soonest, wait)
		}
	}
	return soonest
}

// hurried is a host whose streams end at a deadline: the library waits a minute for the answer of a relay.
type hurried struct {
	host.Host
	deadline time.Time
}

// NewStream implements host.Host.
func (h hurried) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, p, ids...)
	if err != nil {
		return nil, err
	}
	return hurriedStream{s, h.deadline}, nil
}

type hurriedStream struct {
	network.Stream
	deadline time.Time
}

// SetDeadline implements network.Stream. A deadline is never later than that of the host.
func (s hurriedStream) SetDeadline(t time.Time) error {
	if t.IsZero() || t.After(s.deadline) {
		t = s.deadline
	}
	return s.Stream.SetDeadline(t)
}
