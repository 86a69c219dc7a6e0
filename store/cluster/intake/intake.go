// Package intake stores what peers put into this node.
//
// Invariants: nothing is stored without a capability that allows it, and without a record in the audit log. With a
// capability for op in replicate, nothing is stored for a peer that is no member of the cluster. An object is
// acknowledged when it is durable and, if the capability says so, pinned. An object that a member of the cluster puts
// is pinned under [meta.ClusterLabel], which people cannot remove; one that a person puts is pinned if the capability
// allows pins too, as with an upload over HTTP.
//
// One put, walked through: the object server calls [Receiver.Authorize], which verifies the
// capability. The intake that it returns checks whether the node takes writes, the denylist and
// the quota, records the put, and begins an ingest of the store. The object server writes proved
// items to it. Commit makes the object durable and pins it.
package intake

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/gateway/policy/audit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/wire"
	"allium/store/meta"
	"allium/store/quota"
)

// Deps holds the dependencies of a [Receiver]. Audit may be nil; all others are required.
type Deps struct {
	Store        *store.Store
	Capabilities policy.Capabilities
	Audit        policy.Audit
	Filter       policy.Filter
	// Shut returns an error while the node takes no writes.
	Shut func() error
	// Member returns an error for a peer that is no member of the cluster.
	Member func(p peer.ID) error
	// Received waits until the rate of repairs allows bytes that a member sent for a repair.
	Received func(ctx context.Context, bytes int) error
	// Copies takes over what a member says of copies that were just stored for it, and returns the reply for each;
	// an empty reply says nothing, and so does no reply at all.
	Copies func(ctx context.Context, from peer.ID, copies []wire.Copy) [][]byte
	// Pinned is told of each new pin.
	Pinned func(ctx context.Context, root b3.Root, label string)
}

// Receiver implements object.Receiver over a store.
type Receiver struct{ deps Deps }

var _ object.Receiver = (*Receiver)(nil)

// New returns a Receiver.
func New(deps Deps) *Receiver { return &Receiver{deps} }

// method is the method of a put for caveats, and in the audit log.
const method = "put"

// Authorize implements object.Receiver.
func (r *Receiver) Authorize(ctx context.Context, token []byte, o *object.Offer) (object.Intake, error) {
	in := &intake{deps: &r.deps, offer: o, objs: o.Objs}
	if len(token) == 0 {
		return nil, in.refused(status.Errorf(status.Unauthenticated,
			"a put needs a capability; `allium token mint --op put` makes one"))
	}
	text := capability.Text(token)
	ask := capability.Request{Op: capability.Put, Method: method, Bytes: o.Bytes()}
	if !o.Many {
		ask.Object = o.Objs[0]
	}
	info, err := capability.Inspect(text)
	if err != nil {
		return nil, in.refused(err)
	}
	if slices.Contains(info.Ops, string(capability.Replicate)) {
		ask.Op = capability.Replicate
	}
	in.op = ask.Op
	if in.grant, err = r.deps.Capabilities.Verify(ctx, text, ask); err != nil {
		return nil, in.refused(err)
	}
	if in.op == capability.Replicate {
		if err := r.deps.Member(o.From.RemotePeer()); err != nil {
			return nil, in.refused(err)
		}
		in.pin, in.label = true, meta.ClusterLabel
		if o.About != nil {
			if in.about, err = wire.DecodeAbout(o.About, o.Objs); err != nil {
				return nil, in.refused(err)
			}
		}
		return in, nil
	}
	if o.About != nil {
		return nil, in.refused(status.Errorf(status.Forbidden, "only members of the cluster say something of copies"))
	}
	ask.Op, ask.Label, ask.RateTaken = capability.Pin, in.grant.Label, true
	_, err = r.deps.Capabilities.Verify(ctx, text, ask)
	if err != nil && status.Of(err) != status.Forbidden {
		return nil, in.refused(err)
	}
	in.pin, in.label = err == nil && !meta.OfCluster(in.grant.Label), in.grant.Label
	return in, nil
}

// intake is one put.
type intake struct {
	deps  *Deps
	offer *object.Offer
	objs  []b3.Root   // of offer
	about []wire.Copy // of each object what the member says of it; nil: nothing
	op    capability.Op
	grant capability.Grant
	pin   bool
	label string // of the pin

	holdGC   func()          // releases the hold on collections; nil before begin
	charges  []*quota.Charge // of each object
	recorded uint64          // number of the record in the audit log; 0: none
	outcome  error           // how the put ends
}

// begin checks whether the node takes the put, and records it.
func (in *intake) begin(ctx context.Context) error {
	if err := in.deps.Shut(); err != nil {
		return err
	}
	if in.deps.Audit != nil {
		var err error
		if in.recorded, err = in.deps.Audit.Mutation(ctx, in.event()); err != nil {
			return err
		}
	}
	in.outcome = status.Errorf(status.Canceled, "the peer ended the put")
	in.holdGC = in.deps.Store.HoldGC() // until the pins are set
	in.charges = make([]*quota.Charge, len(in.objs))
	for i := range in.charges {
		if in.pin {
			in.charges[i] = in.deps.Store.Quotas().Charge(in.label)
		}
	}
	return nil
}

// Close implements object.Intake.
func (in *intake) Close(ctx context.Context) {
	if in.holdGC == nil {
		return
	}
	for _, c := range in.charges {
		c.Release()
	}
	in.holdGC()
	if in.recorded != 0 {
		e := in.event()
		e.Of, e.Outcome = in.recorded, status.Of(in.outcome).String()
		in.deps.Audit.Outcome(ctx, e)
	}
}

// Throttle implements object.Intake. Only a member can use up the rate of repairs.
func (in *intake) Throttle(ctx context.Context, bytes int) error {
	if in.op != capability.Replicate {
		return nil
	}
	err := in.deps.Received(ctx, bytes)
	if err != nil {
		in.outcome = err
	}
	return err
}

// refused records a refusal of the put and returns it.
func (in *intake) refused(err error) error {
	if in.deps.Audit != nil {
		e := in.event()
		e.Outcome = status.Of(err).String()
		in.deps.Audit.Refused(e)
	}
	return err
}

// event is the record of the put in the audit log.
func (in *intake) event() audit.Event {
	e := audit.Event{
		Actor: in.grant.ID, Branch: in.grant.Branch, Method: method,
		Route: "peer " + in.offer.From.RemotePeer().String(), Addr: in.offer.From.RemoteMultiaddr().String(),
		Op: string(cmp.Or(in.op, capability.Put)), Label: in.label, Bytes: in.offer.Bytes(),
	}
	if len(in.objs) == 1 {
		e.Object = in.objs[0].String()
	} else {
		e.Count = uint64(len(in.objs))
	}
	return e
}

// setPins pins objects, by their numbers, as the put asks for it, and returns the error of each.
func (in *intake) setPins(ctx context.Context, objs []int) []error {
	if !in.pin {
		return make([]error, len(objs))
	}
	pins := make([]store.Pinning, len(objs))
	for n, i := range objs {
		opt := store.PinOptions{Label: in.label, Charge: in.charges[i]}
		pins[n] = store.Pinning{Root: in.objs[i], Options: opt}
	}
	errs := in.deps.Store.PinAll(ctx, pins)
	for n, err := range errs {
		if err == nil {
			in.deps.Pinned(ctx, pins[n].Root, in.label)
		}
	}
	return errs
}

// isWhole reports whether object i is stored whole and not damaged.
func (in *intake) isWhole(ctx context.Context, i int) (bool, error) {
	switch _, err := in.deps.Store.Stat(ctx, in.objs[i]); status.Of(err) {
	case status.OK:
		return true, nil
	case status.NotFound, status.Corrupt:
		return false, nil
	default:
		return false, err
	}
}

// present pins those of objects, by their numbers, that are stored whole, and notes in wishes that they are
// present, or refused if the quota of the label is reached.
func (in *intake) present(ctx context.Context, objs []int, wishes []object.Wish) error {
	var whole []int
	for _, i := range objs {
		ok, err := in.isWhole(ctx, i)
		if err != nil {
			return err
		}
		if ok {
			whole = append(whole, i)
		}
	}
	for n, err := range in.setPins(ctx, whole) {
		switch status.Of(err) {
		case status.OK:
			wishes[whole[n]] = object.Present
		case status.Quota:
			wishes[whole[n]] = object.Refused
		default:
			return err
		}
	}
	return nil
}

// arriving is the retry time for an object that arrives already, as a put or a download.
const arriving = time.Second

// busy returns the error for an object that arrives already.
func busy(root b3.Root) error {
	err := status.BusyError(status.Busy, status.Limit{Name: "store.ingest", Current: 1, Cap: 1, RetryAfter: arriving})
	err.Message = root.String() + " is arriving already; ask again later"
	return err
}
