package cluster

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy/audit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/oap"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/cluster/upkeep"
	protocol "allium/store/cluster/wire"
	"allium/store/meta"
)

// send is the Send of upkeep.Deps. To a member that announces it, small copies travel with their targets.
func (k *Keeper) send(
	ctx context.Context, to peer.ID, copies []plan.Told, meter repair.Meter,
) (sent []upkeep.Sent, err error) {
	told := session.Announces(k.deps.Sessions, to, oap.FeaturePutCopies)
	if len(copies) == 1 {
		if kept, err := k.Kept(copies[0].Root); !told || err != nil || kept.Size > b3.GroupSize {
			err := k.sendOne(ctx, to, copies[0].Root, meter)
			return []upkeep.Sent{{Err: err}}, err
		}
	}
	err = k.authorized(to, b3.Root{}, func(token []byte) (err error) {
		opt := object.PutOptions{Capability: token, Wait: meter.Sent, Repair: !meter.Awaited}
		sent, err = k.sendMany(ctx, to, copies, told, opt)
		return err
	})
	return sent, err
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

// small is a small copy that is to be sent.
type small struct {
	plan.Told
	size int64
	sent *upkeep.Sent
}

// sendMany sends small objects, as few requests as these fit into. One that cannot be sent does not hinder the others.
func (k *Keeper) sendMany(
	ctx context.Context, to peer.ID, copies []plan.Told, told bool, opt object.PutOptions,
) ([]upkeep.Sent, error) {
	sent := make([]upkeep.Sent, len(copies))
	var list []small
	for i, c := range copies {
		kept, err := k.Kept(c.Root)
		if err == nil {
			err = k.deps.Filter.Object(c.Root)
		}
		if err != nil {
			sent[i].Err = err
			continue
		}
		list = append(list, small{c, kept.Size, &sent[i]})
	}
	for done := 0; done < len(list); {
		n, err := k.sendPart(ctx, to, list[done:], told, opt)
		if err != nil && done == 0 {
			return nil, err
		}
		if err != nil {
			for _, c := range list[done:] {
				c.sent.Err = err
			}
			return sent, nil
		}
		done += n
	}
	return sent, nil
}

// sendPart sends the first of small objects in one request and returns how many these are.
func (k *Keeper) sendPart(
	ctx context.Context, to peer.ID, list []small, told bool, opt object.PutOptions,
) (n int, err error) {
	most, bytes := object.MaxPut, int64(0)
	if told {
		most = object.MaxTold
	}
	var objs object.SmallObjects
	var about []plan.Told
	for _, c := range list[:min(len(list), most)] {
		if bytes += c.size; bytes > object.MaxToldBytes {
			break
		}
		objs.Objs, objs.Sizes, about = append(objs.Objs, c.Root), append(objs.Sizes, c.size), append(about, c.Told)
	}
	if told {
		said, err := k.client.Say(about)
		if err == nil && said.Len() == 0 {
			err = status.Errorf(status.Internal, "what is told of %s does not fit into a put", about[0].Root)
		}
		if err != nil {
			return 0, err
		}
		n := said.Len()
		objs.Objs, objs.Sizes, objs.About = objs.Objs[:n], objs.Sizes[:n], said.About
		objs.Reply = func(i int, reply []byte) {
			a, same := said.Read(i, reply)
			list[i].sent.Told, list[i].sent.Proved = same, a.Answer == plan.Proved
		}
	}
	objs.Open = func(ctx context.Context, i int) (b3.Object, error) { return k.open(ctx, objs.Objs[i]) }
	errs, err := k.deps.Objects.PutMany(ctx, to, objs, opt)
	for i, err := range errs {
		list[i].sent.Err = err
	}
	return len(objs.Objs), err
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
