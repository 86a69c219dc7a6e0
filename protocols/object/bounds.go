package object

import (
	"allium/internal/ipgroup"
	"allium/internal/limits"
)

// bounds limits what the server does for all peers together.
type bounds struct {
	streams   *limits.FairGate[ipgroup.Group] // open streams
	asking    *limits.FairGate[ipgroup.Group] // requests that are served or wait
	serving   *limits.Gate                    // gets and haves that are served
	putting   *limits.Gate                    // puts that are served, but for those of repairs
	repairing *limits.Gate                    // puts for repairs that are served
	egress    *limits.Budget                  // bytes of buffers in use
}

// groupPart limits the share of one IP group in the streams and in the requests in
// flight. The group gets one more only while it has fewer than 1/groupPart of the
// free ones.
const groupPart = 4

func newBounds(cfg Config, l *limits.Registry) bounds {
	return bounds{
		streams: limits.NewFairGate[ipgroup.Group](l, limits.Spec{
			Name: "object.inbound_streams", Path: "libp2p → a reader and a writer for each stream",
			Policy: "reset with a code; one IP group gets at most a quarter of the free streams",
		}, cfg.InboundStreams, groupPart),
		asking: limits.NewFairGate[ipgroup.Group](l, limits.Spec{
			Name: "object.asking", Path: "object streams → serving permits (requests in flight of all peers)",
			Policy: "busy; one IP group gets at most a quarter of the free places",
		}, cfg.Serving+cfg.ServingWait, groupPart),
		serving: l.NewGate(limits.Spec{
			Name: "object.serving", Path: "object streams → store reads", Policy: "wait, then busy",
		}, cfg.Serving, cfg.ServingWait),
		putting: l.NewGate(limits.Spec{
			Name: "object.putting", Path: "object streams → ingests of the store", Policy: "wait, then busy",
		}, cfg.Putting, cfg.PuttingWait),
		repairing: l.NewGate(limits.Spec{
			Name: "object.repairing", Path: "object streams → ingests of the store, for repairs",
			Policy: "wait, then busy",
		}, cfg.Repairing, cfg.PuttingWait),
		egress: l.NewBudget(limits.Spec{
			Name: "object.egress_bytes", Path: "store reads → object streams", Policy: "wait, then busy",
		}, int64(cfg.EgressBytes)),
	}
}

// resize applies the hot fields of cfg. Requests beyond a bound that shrank go on.
func (b *bounds) resize(cfg Config) {
	b.asking.Resize(cfg.Serving + cfg.ServingWait)
	b.serving.Resize(cfg.Serving)
	b.egress.Resize(int64(cfg.EgressBytes))
}

// gateOf returns the gate of a request.
func (b *bounds) gateOf(req *request) *limits.Gate {
	switch {
	case req.op != opPut:
		return b.serving
	case req.repair:
		return b.repairing
	}
	return b.putting
}
