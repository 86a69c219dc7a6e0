package plan

import (
	"slices"
	"time"

	"allium/store/meta"
)

// Proof is that a member proved its copy of an object. It is as old as its challenge.
type Proof struct {
	Holder ID
	Piece  Piece // that it proved
	At     time.Time
}

// Proofs returns the proofs of the copies that count, at most meta.MaxCopies: what a node keeps over a restart.
func (o *Object) Proofs(v *View, p Params, now time.Time) (list []Proof) {
	for i := range o.seen {
		if s := &o.seen[i]; s.counted(v, p, now) && len(list) < meta.MaxCopies {
			list = append(list, Proof{s.id, s.piece, s.at})
		}
	}
	return list
}

// Restore notes a proof from before a restart, unless the holder is known already. It counts as if the node had run on:
// the holder is challenged when that is due, and one that is too old says nothing, as does one from the future.
func (o *Object) Restore(proof Proof, p Params, now time.Time) {
	age := now.Sub(proof.At)
	if age < 0 || age > 2*p.AuditPeriod ||
		slices.ContainsFunc(o.seen, func(s seen) bool { return s.id == proof.Holder }) {
		return
	}
	s := o.at(proof.Holder)
	if s == nil {
		return
	}
	s.proof, s.piece, s.at, s.first = proved, proof.Piece, proof.At, proof.At
	s.due = proof.At.Add(o.auditIn(proof.Holder, p, proof.At))
	o.rest = rest{}
}
