package gossip

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/jitter"
	"allium/internal/limits"
)

// When gossip with a connected peer is begun anew.
const (
	sampleInterval = time.Second      // how often peers are looked at
	silentFor      = 2 * time.Second  // silence after which gossip with a peer is begun anew
	againAfter     = 4 * time.Second  // pause before the next try, doubled up to againMost
	againMost      = time.Minute      // the longest pause between two tries
	twinWindow     = 15 * time.Second // time in which twinEnds ended streams are a sign of a twin
	twinEnds       = 3
	twinEvery      = time.Hour // the shortest time between two reports of one peer
	maxTwins       = 1024      // peers whose ended streams are remembered, the latest
	warnEvery      = time.Minute
	maxRepairs     = 8 // peers with which it is begun anew at once
	maxTries       = 5 // times that it is begun anew with a silent peer: each ends all that its connections carry
)

// link is the known state of gossip with a connected peer that has followed a topic.
type link struct {
	silent time.Time // since when it follows none; zero: it follows one
	next   time.Time // when gossip is begun anew
	pause  time.Duration
	tries  int // since it is silent, or a connection has ended
	conns  int // connections at the latest look
}

// twin counts streams that ended although the peer stayed connected.
type twin struct {
	since, reported time.Time
	ended           int
}

// links finds peers with which gossip is broken although they are connected. pubsub keeps one stream to and one
// from each peer ID. If two nodes have the same identity, each stream of one ends that of the other. pubsub
// opens a stream again at most four times in ten minutes, and when its stream to a peer ends, it forgets the
// topics that the peer follows. So gossip can stay dead after the twin has gone.
//
// A new connection begins anew, and the node that dialled the old one makes it. The other node ends the stream of its
// peer, which then finds gossip broken too, unless it opens another one.
//
// The methods may be called from any goroutine.
type links struct {
	mu     sync.Mutex        // lock: leaf
	links  map[peer.ID]*link // of connected peers
	twins  *simplelru.LRU[peer.ID, *twin]
	warned time.Time // when streamReplaced has logged
}

func newLinks() *links {
	twins, err := simplelru.NewLRU[peer.ID, *twin](maxTwins, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &links{links: map[peer.ID]*link{}, twins: twins}
}

// look notes which peers follow a topic and how many connections each connected peer has. It returns at
// most maxRepairs peers with which gossip is to be begun anew, each maxTries times.
func (l *links) look(now time.Time, follow map[peer.ID]struct{}, conns map[peer.ID]int) (broken []peer.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range follow {
		if l.links[id] == nil {
			l.links[id] = &link{}
		}
	}
	for id, k := range l.links {
		n := conns[id]
		_, follows := follow[id]
		switch {
		case n == 0:
			delete(l.links, id)
			continue
		case follows:
			*k = link{conns: n}
			continue
		case k.silent.IsZero():
			*k = link{silent: now, next: now.Add(silentFor), pause: againAfter}
		case n < k.conns && k.pause > againAfter: // a twin may have gone
			k.next, k.pause, k.tries = now.Add(againAfter), againAfter, 0
		}
		k.conns = n
		if now.Before(k.next) || len(broken) == maxRepairs || k.tries == maxTries {
			continue
		}
		k.next, k.pause, k.tries = now.Add(k.pause), min(2*k.pause, againMost), k.tries+1
		broken = append(broken, id)
	}
	return broken
}

// ended notes that a stream of a connected peer was ended. It reports whether that looks like two nodes with
// one identity, which it says of a peer once an hour.
func (l *links) ended(id peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, known := l.twins.Get(id)
	if !known {
		t = &twin{}
		l.twins.Add(id, t)
	}
	if now.Sub(t.since) > twinWindow {
		t.since, t.ended = now, 0
	}
	t.ended++
	if t.ended < twinEnds || !t.reported.IsZero() && now.Sub(t.reported) < twinEvery {
		return false
	}
	t.reported = now
	return true
}

// warn reports whether it may be logged that a peer has a twin: once in warnEvery.
func (l *links) warn(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.warned.IsZero() && now.Sub(l.warned) < warnEvery {
		return false
	}
	l.warned = now
	return true
}

// samplePeers updates gossip_peers every sampleInterval, and begins gossip anew with peers with which it is
// broken, until ctx ends.
func (s *Service) samplePeers(ctx context.Context, ps *pubsub.PubSub, h *guardedHost) {
	for {
		follow, conns := map[peer.ID]struct{}{}, map[peer.ID]int{}
		for _, name := range s.names {
			peers := ps.ListPeers(name)
			s.m.peers.WithLabelValues(name).Set(float64(len(peers)))
			for _, id := range peers {
				follow[id] = struct{}{}
			}
		}
		for _, c := range s.host.Network().Conns() {
			if !c.Stat().Limited { // pubsub does not use relayed connections
				conns[c.RemotePeer()]++
			}
		}
		var group sync.WaitGroup
		for _, id := range s.links.look(time.Now(), follow, conns) {
			s.m.repairs.Inc()
			if addrs := dialled(s.host, id); len(addrs) > 0 {
				group.Go(func() { h.reconnect(ctx, peer.AddrInfo{ID: id, Addrs: addrs}, s.log) })
			} else {
				h.resetStream(id)
			}
		}
		group.Wait()
		if limits.Sleep(ctx, jitter.Gather(sampleInterval)) != nil {
			return
		}
	}
}

// dialled returns the addresses at which this node dialled a connected peer.
func dialled(h host.Host, id peer.ID) (addrs []ma.Multiaddr) {
	for _, c := range h.Network().ConnsToPeer(id) {
		if stat := c.Stat(); stat.Direction == network.DirOutbound && !stat.Limited {
			addrs = append(addrs, c.RemoteMultiaddr())
		}
	}
	return addrs
}

// streamReplaced notes that a gossip stream of a peer takes the place of another one that is still open.
func (s *Service) streamReplaced(old, by network.Conn) {
	id := by.RemotePeer()
	if old == by || old.IsClosed() || !s.links.ended(id, time.Now()) || !s.links.warn(time.Now()) {
		return
	}
	s.log.Warn("two nodes with one identity are connected, and messages reach either of them; one must stop",
		"peer", id, "addrs", []string{old.RemoteMultiaddr().String(), by.RemoteMultiaddr().String()})
}

// streamEnded notes that a peer ended this node's stream.
func (s *Service) streamEnded(id peer.ID) {
	if s.host.Network().Connectedness(id) != network.Connected || !s.links.ended(id, time.Now()) || s.twin == nil {
		return
	}
	s.twin(id)
}
