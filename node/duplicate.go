package node

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/node/readiness"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
)

// duplicateFor is the time for which the gate reports that another process was seen
// with this node's key. It is also the shortest time between two log lines.
const duplicateFor = time.Hour

// duplicates detects that another process runs with this node's identity. Peers
// then reach sometimes one of the two, sometimes the other.
type duplicates struct {
	log      *slog.Logger
	seen     prometheus.Counter
	last     atomic.Pointer[duplicate]
	loggedAt atomic.Int64 // nanoseconds since 1970
	witness  atomic.Pointer[witness]
}

// witness is the network of a peer that seems to be connected to another process, too.
type witness struct {
	group ipgroup.Group
	seen  time.Time
}

// duplicate is one sign of another process.
type duplicate struct {
	seen  time.Time
	addrs string
}

func newDuplicates(log *slog.Logger, reg prometheus.Registerer) *duplicates {
	d := &duplicates{log: log, seen: env.Counter("identity_elsewhere_total",
		"Signs of another process with this node's identity: records that it signed, and peers that are connected "+
			"to both.")}
	reg.MustRegister(d.seen)
	return d
}

// noteRecord counts a record that another process signed at the time signed. It
// is dht.Deps.DuplicateIdentity and may be called concurrently.
func (d *duplicates) noteRecord(signed time.Time, addrs []ma.Multiaddr) {
	at := fmt.Sprint(addrs)
	d.note(at, "signed", signed.UTC(), "addrs", at)
}

// noteSeenBy counts that a peer, at the addresses at, seems to be connected to another process with this
// node's identity. A peer can make that up, so it takes two of different networks to believe it. It may be
// called concurrently.
func (d *duplicates) noteSeenBy(id peer.ID, at []ma.Multiaddr) {
	now := &witness{seen: time.Now()}
	if len(at) > 0 {
		now.group = ipgroup.Of(at[0])
	}
	last := d.witness.Load()
	if last != nil && last.group != now.group && now.seen.Sub(last.seen) <= duplicateFor {
		d.note("an address that its peer "+id.String()+" knows", "seen_by", id, "peer_addrs", at)
		return
	}
	d.seen.Inc()
	d.witness.Store(now)
	if last == nil || now.seen.Sub(last.seen) > duplicateFor {
		d.log.Warn("another process may run with this node's identity: a peer ends its streams again and again. If "+
			"this node's home was copied, stop one of the two", "seen_by", id, "peer_addrs", at)
	}
}

// note counts that another process was seen at the address at, and logs it with args.
func (d *duplicates) note(at string, args ...any) {
	now := time.Now()
	d.seen.Inc()
	d.last.Store(&duplicate{now, at})
	logged := d.loggedAt.Load()
	if now.UnixNano()-logged > int64(duplicateFor) && d.loggedAt.CompareAndSwap(logged, now.UnixNano()) {
		d.log.Error("another process runs with this node's identity: peers reach either of the two, and neither is "+
			"found reliably. Stop one, or give it another identity: move its identity.key away and run "+
			"`allium init`",
			args...)
	}
}

// gate reports a duplicate that was seen within the last hour. Its scope is
// [readiness.Nothing].
func (d *duplicates) gate() readiness.Reading {
	last := d.last.Load()
	if last == nil || time.Since(last.seen) > duplicateFor {
		return readiness.YesNo(true, "")
	}
	r := readiness.YesNo(false, fmt.Sprintf("another process runs with this node's identity, at %s; "+
		"stop one of the two, or move its identity.key away and run `allium init`", last.addrs))
	r.RetryAfter = time.Minute
	return r
}
