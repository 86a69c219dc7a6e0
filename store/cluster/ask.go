package cluster

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep"
	protocol "allium/store/cluster/wire"
	"allium/store/meta"
)

// prover asks members about copies.
type prover struct{ *Keeper }

var _ upkeep.Prover = prover{}

// Challenge implements upkeep.Prover.
func (p prover) Challenge(ctx context.Context, to peer.ID, roots []b3.Root) ([]upkeep.Response, error) {
	got, err := p.client.Challenge(ctx, to, roots)
	if err != nil {
		return nil, err
	}
	p.deps.Members.Contact(to)
	answers := make([]upkeep.Response, len(got))
	for i, a := range got {
		answers[i] = upkeep.Response{Answer: plan.Answer(a.Answer), Piece: plan.Piece(a.Piece)}
	}
	return answers, nil
}

// Tell implements upkeep.Prover.
func (p prover) Tell(ctx context.Context, to peer.ID, told []plan.Told) ([]plan.Told, error) {
	answer, err := p.client.Tell(ctx, to, toWire(told))
	if err != nil {
		return nil, err
	}
	p.deps.Members.Contact(to)
	return fromWire(answer), nil
}

// Lease implements upkeep.Prover.
func (p prover) Lease(ctx context.Context, to peer.ID, root b3.Root) (bool, error) {
	return p.client.Lease(ctx, to, root)
}

// holder answers members about the copies of the node.
type holder struct{ service *upkeep.Service }

var _ protocol.Holder = holder{}

// Answer implements protocol.Holder.
func (h holder) Answer(root b3.Root) protocol.Answer {
	return protocol.Answer(h.service.Answer(root))
}

// Claimed implements protocol.Holder.
func (h holder) Claimed(from peer.ID, roots []b3.Root) { h.service.Claimed(from, roots) }

// Told implements protocol.Holder.
func (h holder) Told(ctx context.Context, from peer.ID, told []protocol.Told) ([]protocol.Told, error) {
	answer, err := h.service.Told(ctx, from, fromWire(told))
	if err != nil {
		return nil, err
	}
	return toWire(answer), nil
}

// GrantLease implements protocol.Holder.
func (h holder) GrantLease(ctx context.Context, from peer.ID, root b3.Root) (bool, error) {
	return h.service.GrantLease(ctx, from, root)
}

// toWire returns what is told as messages have it.
func toWire(told []plan.Told) []protocol.Told {
	list := make([]protocol.Told, len(told))
	for i, t := range told {
		list[i].Root = t.Root
		for _, a := range t.Asked {
			list[i].Targets = append(list[i].Targets, protocol.Target{
				Origin: peer.ID(a.Origin), Copies: a.Target.Copies, Data: a.Target.Data,
				Parity: a.Target.Parity, Seq: a.Target.Seq,
			})
		}
		for _, id := range t.Holders {
			list[i].Holders = append(list[i].Holders, peer.ID(id))
		}
	}
	return list
}

// fromWire returns what messages tell.
func fromWire(list []protocol.Told) []plan.Told {
	told := make([]plan.Told, len(list))
	for i, w := range list {
		told[i].Root = w.Root
		for _, a := range w.Targets {
			told[i].Asked = append(told[i].Asked, plan.Asked{
				Origin: plan.ID(a.Origin),
				Target: meta.Target{Copies: a.Copies, Data: a.Data, Parity: a.Parity, Seq: a.Seq},
			})
		}
		for _, id := range w.Holders {
			told[i].Holders = append(told[i].Holders, plan.ID(id))
		}
	}
	return told
}
