package cluster

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy/audit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/cluster/upkeep"
	protocol "allium/store/cluster/wire"
	"allium/store/meta"
)

// send is the Send of upkeep.Deps.
func (k *Keeper) send(ctx context.Context, to peer.ID, roots []b3.Root, meter repair.Meter) ([]error, error) {
	if len(roots) == 1 {
		err := k.sendOne(ctx, to, roots[0], meter)
		return []error{err}, err
	}
	var errs []error
	err := k.authorized(to, b3.Root{}, func(token []byte) (err error) {
		errs, err = k.sendMany(ctx, to, roots,
			object.PutOptions{Capability: token, Wait: meter.Sent, Repair: !meter.Awaited})
		return err
	})
	return errs, err
}

// authorized calls put with a capability for a member, for one object or, with the zero address, for any.
func (k *Keeper) authorized(to peer.ID, root b3.Root, put func(token []byte) error) error {
	token, err := k.deps.Minter.Replicate(to, root)
	if err != nil {
		return err
	}
	err = put(token)
	if status.Of(err) == status.Unauthenticated {
		k.deps.Minter.Refused(to)
	}
	return err
}

func (k *Keeper) sendOne(ctx context.Context, to peer.ID, root b3.Root, meter repair.Meter) error {
	obj, err := k.open(ctx, root)
	if err != nil {
		return err
	}
	defer obj.Close()
	return k.put(ctx, to, obj, meter)
}

// put stores an object at a member.
func (k *Keeper) put(ctx context.Context, to peer.ID, obj b3.Object, meter repair.Meter) error {
	return k.authorized(to, obj.Reader().Root(), func(token []byte) error {
		o := object.PutOptions{Capability: token, Wait: meter.Sent, Repair: !meter.Awaited}
		_, err := k.deps.Objects.Put(ctx, to, obj, o)
		return err
	})
}

// sendMany sends small objects. One that cannot be sent does not hinder the others.
func (k *Keeper) sendMany(ctx context.Context, to peer.ID, roots []b3.Root, opt object.PutOptions) ([]error, error) {
	errs := make([]error, len(roots))
	var objs object.SmallObjects
	var at []int // of each object in roots
	for i, root := range roots {
		kept, err := k.Kept(root)
		if err == nil {
			err = k.deps.Filter.Object(root)
		}
		if err != nil {
			errs[i] = err
			continue
		}
		objs.Objs, objs.Sizes, at = append(objs.Objs, root), append(objs.Sizes, kept.Size), append(at, i)
	}
	if len(at) == 0 {
		return errs, nil
	}
	objs.Open = func(ctx context.Context, i int) (b3.Object, error) { return k.open(ctx, objs.Objs[i]) }
	sent, err := k.deps.Objects.PutMany(ctx, to, objs, opt)
	for i, err := range sent {
		errs[at[i]] = err
	}
	return errs, err
}

// open opens an object for members of the cluster, which is no use of it. A denied one is denied.
func (k *Keeper) open(ctx context.Context, root b3.Root) (b3.Object, error) {
	if err := k.deps.Filter.Object(root); err != nil {
		return nil, err
	}
	return k.deps.Store.Inspect(ctx, root)
}

// prove proves a chunk of what this node holds of an object to a member.
func (k *Keeper) prove(ctx context.Context, root b3.Root, drawn int64) (piece plan.Piece, p []byte, err error) {
	kept, err := k.Kept(root)
	if err != nil {
		return 0, nil, err
	}
	if kept.Coded != nil {
		if err := k.deps.Filter.Object(kept.Coded.Object); err != nil {
			return 0, nil, err
		}
	}
	s, err := sliceOf(root, kept, kept.Own, drawn)
	if err != nil {
		return 0, nil, err
	}
	obj, err := k.open(ctx, s.Root)
	if err != nil {
		return 0, nil, err
	}
	defer obj.Close()
	if p, err = obj.Reader().ChunkProof(s.Chunk); err != nil {
		return 0, nil, obj.Failed(err)
	}
	return kept.Own, p, nil
}

// chunks is the Chunks of protocol.ClientDeps.
func (k *Keeper) chunks(root b3.Root) (int64, error) {
	kept, err := k.Kept(root)
	switch {
	case err != nil:
		return 0, err
	case kept.Coded != nil:
		return kept.Coded.Chunks(), nil
	}
	return b3.Chunks(kept.Size), nil
}

// slice is the Slice of protocol.ClientDeps.
func (k *Keeper) slice(root b3.Root, piece plan.Piece, drawn int64) (protocol.Slice, error) {
	kept, err := k.Kept(root)
	if err != nil {
		return protocol.Slice{}, err
	}
	return sliceOf(root, kept, piece, drawn)
}

// sliceOf returns what proves a piece of an object.
func sliceOf(root b3.Root, kept upkeep.Kept, piece plan.Piece, drawn int64) (s protocol.Slice, err error) {
	switch {
	case kept.Coded != nil:
		s.Root, s.Size, s.Chunk, err = kept.Coded.Chunk(piece.Shard(), drawn)
	case piece != plan.Whole:
		err = status.Errorf(status.BadRequest, "%s is kept as whole copies", root)
	default:
		s = protocol.Slice{Root: root, Size: kept.Size, Chunk: drawn}
	}
	return s, err
}

// putObject is the Put of coding.Deps.
func (k *Keeper) putObject(ctx context.Context, to peer.ID, obj b3.Object, meter repair.Meter) error {
	if err := k.deps.Filter.Object(obj.Reader().Root()); err != nil {
		return err
	}
	return k.put(ctx, to, obj, meter)
}

// dropping records in the audit log that a copy is about to be dropped. On a full disk that uses its ballast.
func (k *Keeper) dropping(ctx context.Context, root b3.Root) (ended func(error), err error) {
	if k.deps.Audit == nil {
		return func(error) {}, nil
	}
	e := audit.Event{
		Actor: "durability", Method: "drop", Op: string(capability.Unpin),
		Object: root.String(), Label: meta.ClusterLabel,
		Frees: true,
	}
	seq, err := k.deps.Audit.Mutation(ctx, e)
	if err != nil {
		return nil, err
	}
	return func(err error) {
		e.Of, e.Outcome = seq, status.Of(err).String()
		k.deps.Audit.Outcome(ctx, e)
	}, nil
}
