package local

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/kad"
	"allium/resolver"
	"allium/resolver/trace"
	"allium/store/arriving/partial"
	"allium/store/meta"
)

// maxOverviewSized is the maximum number of objects below pins that one overview looks at.
const maxOverviewSized = 1 << 12

// testnetProfile is the value of node.profile of a node of a testnet.
const testnetProfile = "testnet"

// overview puts together what a node shows of itself, from what its other verbs tell.
type overview struct{ node *Node }

// Overview implements api.Overseer.
func (o overview) Overview(ctx context.Context, r api.OverviewRequest) (api.Overview, error) {
	parts, err := r.Wanted()
	if err != nil {
		return api.Overview{}, err
	}
	health, err := o.node.Health(ctx, api.HealthOptions{})
	if err != nil {
		return api.Overview{}, err
	}
	v := api.Overview{
		At: time.Now().UTC(), ID: o.node.deps.Host.ID().String(), Profile: health.Profile, Ready: health.Readiness,
	}
	for _, part := range parts {
		switch part {
		case api.PartNow:
			v.Now, err = o.now(ctx, &health)
		case api.PartPeers:
			v.Peers, err = o.peers(ctx, &health)
		case api.PartContent:
			v.Content, err = o.content(ctx)
		case api.PartNames:
			v.Names, err = o.names(ctx)
		case api.PartLookups:
			v.Lookups = o.lookups()
		case api.PartReload:
			v.Reload = o.reload()
		case api.PartTestnet:
			if health.Profile == testnetProfile {
				v.Testnet = o.testnet()
			}
		}
		if err != nil {
			return api.Overview{}, err
		}
	}
	return v, nil
}

func (o overview) now(ctx context.Context, h *api.Health) (*api.OverviewNow, error) {
	store, err := o.node.StatStore(ctx)
	if err != nil {
		return nil, err
	}
	now := &api.OverviewNow{
		Process: h.Process, Clock: h.Clock, Store: store, Traffic: o.node.deps.Control.Traffic(),
		Transfers: []api.Transfer{},
	}
	now.Limits, now.LimitsLeft = fullest(o.node.deps.Limits.Snapshot())
	records, left := o.node.deps.Trace.Running(api.MaxOverviewTransfers)
	now.TransfersLeft = left
	for i := range records {
		if t, ok := o.transfer(&records[i]); ok {
			now.Transfers = append(now.Transfers, t)
		}
	}
	return now, nil
}

// transfer returns a lookup that runs as a transfer. ok is false for a search, which brings no bytes.
func (o overview) transfer(rec *trace.Record) (t api.Transfer, ok bool) {
	if rec.Kind == trace.Providers || rec.Kind == trace.Name {
		return t, false
	}
	t = api.Transfer{LookupHead: headOf(rec.Head), Bytes: rec.Bytes, Peers: len(rec.Peers) + rec.Omitted.Peers}
	if rec.Tree != nil {
		t.Bytes = rec.Tree.FetchedBytes
	} else if part, found, err := o.node.st.Partials().Find(rec.Key.Root); err == nil && found {
		t.Here, t.Size = part.Stored, part.Size
	}
	return t, true
}

// fullest returns the limits that refused something, then the fullest, and how many it left out.
func fullest(all []limits.Info) (list []api.Limit, left int) {
	use := func(l limits.Info) float64 {
		if l.Capacity <= 0 {
			return 0
		}
		return float64(l.Current) / float64(l.Capacity)
	}
	refused := func(l limits.Info) bool { return l.Rejected > 0 }
	slices.SortStableFunc(all, func(a, b limits.Info) int {
		if refused(a) != refused(b) {
			if refused(a) {
				return -1
			}
			return 1
		}
		return cmp.Compare(use(b), use(a))
	})
	list = []api.Limit{}
	for _, l := range all[:min(len(all), api.MaxOverviewLimits)] {
		list = append(list, api.LimitOf(l))
	}
	return list, len(all) - len(list)
}

func (o overview) peers(ctx context.Context, h *api.Health) (*api.OverviewPeers, error) {
	v := &api.OverviewPeers{Addrs: o.node.deps.Control.ID().Addrs, Table: h.Table, Peers: []api.PeerQuality{}}
	var err error
	if v.Reach, err = o.node.Reach(ctx); err != nil {
		return nil, err
	}
	if v.Seeds, err = o.node.Seeds(ctx); err != nil {
		return nil, err
	}
	conns, err := o.node.Peers(ctx)
	if err != nil {
		return nil, err
	}
	v.PeersLeft = max(0, len(conns)-api.MaxOverviewPeers)
	for _, c := range conns[:len(conns)-v.PeersLeft] {
		q := api.PeerQuality{Peer: c, Relayed: strings.Contains(c.Addr, "/p2p-circuit"), Breaker: "closed"}
		if id, err := peer.Decode(c.ID); err == nil {
			traits := o.node.deps.Resolver.Traits(id)
			q.Breaker, q.Rate, q.Busy = traits.Breaker.String(), traits.Rate, traits.Busy
		}
		v.Peers = append(v.Peers, q)
	}
	return v, nil
}

func (o overview) content(ctx context.Context) (*api.OverviewContent, error) {
	v := &api.OverviewContent{Pins: []api.PinCopies{}, Arriving: []api.Arriving{}}
	var err error
	if v.Store, err = o.node.StatStore(ctx); err != nil {
		return nil, err
	}
	left := maxOverviewSized
	for p, err := range o.node.st.Pins(ctx) {
		if err != nil {
			return nil, err
		}
		if v.PinsLeft = len(v.Pins) == api.MaxOverviewPins; v.PinsLeft {
			break
		}
		v.Pins = append(v.Pins, o.pin(ctx, p, &left))
	}
	if err := o.arriving(ctx, v); err != nil {
		return nil, err
	}
	if o.node.deps.Copies != nil {
		d, err := o.node.Durability(ctx)
		if err != nil {
			return nil, err
		}
		v.Durability = &d
	}
	damage := damageReport(o.node.st, o.node.st.Damage())
	if damage.Open > 0 {
		v.Damage = &damage
	}
	return v, nil
}

// pin returns a pin with its size and its copies. It takes the objects that it looks at from left.
func (o overview) pin(ctx context.Context, p meta.Pin, left *int) api.PinCopies {
	v := api.PinCopies{Pin: pinOf(p)}
	kept := []b3.Root{p.Root}
	v.Size, v.AtLeast = o.node.sizeOf(ctx, p, left, func(root b3.Root) { kept = append(kept, root) })
	if o.node.deps.Copies == nil || v.Target == nil {
		return v
	}
	v.Objects = len(kept)
	v.Met = len(kept) - len(o.node.deps.Copies.Progress(kept, meta.Target{}).Unmet)
	if c, err := o.node.deps.Copies.Object(p.Root, false); err == nil { // else it is not planned yet
		v.Wanted, v.Observed, v.State = c.Wanted, c.Observed, c.Standing.String()
	}
	return v
}

// arriving adds the objects that are here in part.
func (o overview) arriving(ctx context.Context, v *api.OverviewContent) error {
	all := o.node.st.Partials()
	for rec, err := range all.All(ctx) {
		if err != nil {
			return err
		}
		if len(v.Arriving) == api.MaxOverviewArriving {
			break
		}
		cells, err := partial.Progress(ctx, all, rec.Root, api.OverviewCells)
		if err != nil {
			continue // it is whole by now, or gone
		}
		v.Arriving = append(v.Arriving, api.Arriving{
			Root: rec.Root, Size: rec.Size, Stored: rec.Stored, Running: all.Running(rec.Root), Cells: cells,
		})
	}
	v.ArrivingLeft = max(0, all.Stats().Objects-int64(len(v.Arriving)))
	return nil
}

func (o overview) names(ctx context.Context) (*api.OverviewNames, error) {
	v := &api.OverviewNames{Own: []api.OwnName{}, Watched: []api.WatchedName{}}
	for n, err := range o.node.OwnNames(ctx) {
		if err != nil {
			return nil, err
		}
		if v.OwnLeft = len(v.Own) == api.MaxOverviewNames; v.OwnLeft {
			break
		}
		v.Own = append(v.Own, n)
	}
	watched, left := resolver.WatchedNames(o.node.deps.Resolver, api.MaxOverviewNames)
	v.WatchedLeft = left
	for _, f := range watched {
		n := api.WatchedName{Name: f.Name.String(), Followers: f.Followers}
		if rec, ok := f.Versions.Current(); ok {
			n.Value, n.Seq, n.NotAfter = rec.Value.String(), rec.Seq, rec.NotAfter
		}
		v.Watched = append(v.Watched, n)
	}
	return v, nil
}

func (o overview) lookups() *api.OverviewLookups {
	records, left := o.node.deps.Trace.Recent(api.MaxOverviewLookups)
	return &api.OverviewLookups{
		Lookups: converted(records, func(r trace.Record) api.LookupHead { return headOf(r.Head) }), Left: left,
	}
}

func (o overview) reload() *api.OverviewReload {
	c := o.node.deps.Control.Configuration()
	c.Values = slices.DeleteFunc(c.Values, func(v api.ConfigValue) bool { return v.Source == "default" })
	return &api.OverviewReload{File: c.File, Values: c.Values, Reloads: o.node.deps.Control.Reloads()}
}

func (o overview) testnet() *api.OverviewTestnet {
	self := o.node.deps.Host.ID()
	v := &api.OverviewTestnet{
		Faults: o.node.deps.Control.Faults(),
		Space:  []api.SpaceNode{{ID: self.String(), At: placeOf(self), Self: true, Connected: true}},
	}
	known := o.node.table()
	for id, e := range known {
		v.Space = append(v.Space, api.SpaceNode{ID: id.String(), At: placeOf(id), Table: true, Fails: e.Fails})
	}
	for _, id := range o.node.deps.Host.Network().Peers() {
		if _, ok := known[id]; !ok {
			v.Space = append(v.Space, api.SpaceNode{ID: id.String(), At: placeOf(id)})
		}
	}
	slices.SortFunc(v.Space[1:], func(a, b api.SpaceNode) int { return cmp.Compare(a.At, b.At) })
	v.SpaceLeft = max(0, len(v.Space)-api.MaxOverviewSpace)
	v.Space = v.Space[:len(v.Space)-v.SpaceLeft]
	for i := range v.Space[1:] {
		s := &v.Space[i+1]
		if id, err := peer.Decode(s.ID); err == nil {
			s.Connected = len(o.node.deps.Host.Network().ConnsToPeer(id)) > 0
			s.Bucket = kad.Hash([]byte(id)).CommonPrefix(kad.Hash([]byte(self)))
		}
	}
	return v
}

// placeOf returns the place of a peer in the key space, from 0 to below 1.
func placeOf(id peer.ID) float64 {
	key := kad.Hash([]byte(id))
	return float64(binary.BigEndian.Uint32(key[:])) / (math.MaxUint32 + 1)
}
