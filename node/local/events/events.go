// Package events tells readers what happens in a node: gates of readiness, connections
// to peers, pins, and fetches.
//
// Each producer calls a method of [Events], which makes an [api.Event] and publishes it on its topic. Readers subscribe
// to topics (see [limits.Events]); each has its own queue of 1,024 events and loses the oldest when it lags behind.
//
// Invariants: a producer never waits; an event that nobody subscribes to is not made; an
// event is never changed once it is published.
//
// One pin, walked through: the local API sets a pin and calls [Events.PinAdded]. If
// somebody reads the topic pins, PinAdded publishes an event. The gateway's handler of
// GET /api/v1/events waits in Next of its subscription, gets the event, and sends it to
// its client.
package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver"
)

const (
	// queued bounds the events that wait for one reader (SPEC §2). At the bound the
	// oldest is dropped, and the reader is told.
	queued = 1024
	// readers bounds the readers of a node: those of the gateway's streams, which have a
	// lower bound of their own, and those within the node. The next gets busy.
	readers = 64
)

// Events are the events of one node. All methods but Readiness may be called by any
// goroutine.
type Events struct {
	source *limits.Events[*api.Event]
	open   map[string]bool // the gates that were open at the last call of Readiness
}

// New returns the events of a node. registry and log may be nil.
func New(registry *limits.Registry, log *slog.Logger) *Events {
	var names []string
	for _, t := range api.Topics() {
		names = append(names, string(t))
	}
	return &Events{open: map[string]bool{}, source: limits.NewEvents[*api.Event](registry,
		limits.Spec{
			Name: "events.queue", Path: "node → readers of events",
			Policy: "drop the oldest, and tell the reader how many",
		},
		limits.Spec{Name: "events.readers", Path: "API, node → readers of events", Policy: "reject busy"},
		limits.EventsConfig{Topics: names, Each: queued, Subscribers: readers, Log: log})}
}

// Source returns what readers subscribe to.
func (e *Events) Source() *limits.Events[*api.Event] { return e.source }

// Run warns in the log when readers lose events, until ctx is done.
func (e *Events) Run(ctx context.Context, ready func()) error { return e.source.Run(ctx, ready) }

// Stop ends every subscription with draining, after the events that wait in its queue.
func (e *Events) Stop() {
	e.source.Close(status.Errorf(status.Draining,
		"the node is shutting down. Ask another node, or try again when it is back"))
}

// publish publishes what about makes of an event of a topic, if somebody reads the topic.
func (e *Events) publish(topic api.Topic, kind api.EventKind, about func(*api.Event)) {
	t := e.source.Topic(string(topic))
	if !t.Wanted() {
		return
	}
	v := &api.Event{Topic: topic, Kind: kind, At: time.Now().UTC()}
	about(v)
	t.Publish(v)
}

// Readiness publishes every gate that has opened or shut since the last call. At the
// first call that is every open gate. One goroutine calls it.
func (e *Events) Readiness(r api.Readiness) {
	for _, g := range r.Gates {
		if g.Ready == e.open[g.Name] {
			continue
		}
		e.open[g.Name] = g.Ready
		kind := api.EventShut
		if g.Ready {
			kind = api.EventOpened
		}
		e.publish(api.TopicReadiness, kind, func(v *api.Event) {
			gate := g
			v.Gate = &gate
		})
	}
}

// Connections returns what a libp2p network calls when a connection begins or ends.
func (e *Events) Connections() network.Notifiee {
	return &network.NotifyBundle{
		ConnectedF:    func(_ network.Network, c network.Conn) { e.connection(api.EventConnected, c) },
		DisconnectedF: func(_ network.Network, c network.Conn) { e.connection(api.EventDisconnected, c) },
	}
}

func (e *Events) connection(kind api.EventKind, c network.Conn) {
	e.publish(api.TopicPeers, kind, func(v *api.Event) {
		v.Peer = &api.PeerEvent{ID: c.RemotePeer().String(), Addr: c.RemoteMultiaddr().String(), Direction: "in"}
		if c.Stat().Direction == network.DirOutbound {
			v.Peer.Direction = "out"
		}
	})
}

// PinAdded publishes that a pin was set, or set again.
func (e *Events) PinAdded(root b3.Root, label string, recursive bool) {
	e.publish(api.TopicPins, api.EventAdded, func(v *api.Event) {
		v.Pin = &api.PinEvent{Root: root, Label: label, Recursive: recursive}
	})
}

// PinRemoved publishes that a pin was removed.
func (e *Events) PinRemoved(root b3.Root, label string) {
	e.publish(api.TopicPins, api.EventRemoved, func(v *api.Event) {
		v.Pin = &api.PinEvent{Root: root, Label: label}
	})
}

// Durability publishes a change of the copies of this node's objects, or of the members of its cluster.
func (e *Events) Durability(kind api.EventKind, about api.DurabilityEvent) {
	e.publish(api.TopicDurability, kind, func(v *api.Event) { v.Durability = &about })
}

// Reload publishes what became of a new configuration.
func (e *Events) Reload(kind api.EventKind, about api.ReloadEvent) {
	e.publish(api.TopicReloads, kind, func(v *api.Event) { v.Reload = &about })
}

// Transfer publishes that a fetch began or ended.
func (e *Events) Transfer(t resolver.TransferEvent) {
	kind := api.EventBegun
	if t.Ended {
		kind = api.EventEnded
	}
	e.publish(api.TopicTransfers, kind, func(v *api.Event) {
		v.Transfer = &api.TransferEvent{Root: t.Root, Tree: t.Tree, LookupID: t.LookupID.String()}
		if t.Ended {
			v.Transfer.Outcome, v.Transfer.Bytes = t.Outcome.String(), t.Bytes
			v.Transfer.TookMS = float64(t.Took.Microseconds()) / 1000
		}
	})
}

// Name publishes that a newer record of a name was announced.
func (e *Events) Name(rec name.Signed) {
	e.publish(api.TopicNames, api.EventUpdated, func(v *api.Event) {
		v.Name = &api.Record{
			Name: rec.Name.String(), Seq: rec.Seq, Value: rec.Value.String(), NotAfter: rec.NotAfter,
			TTLMS: rec.TTL.Milliseconds(),
		}
	})
}
