package meta

import (
	"fmt"
	"strconv"
	"strings"

	"allium/protocols/status"
)

// The bounds of a target.
const (
	MaxCopies = 32 // copies of an object, each on another node
	MaxShards = 64 // data and parity shards of an object together
)

// Target is the durability that a pin asks for: a number of copies, or an erasure coding. The
// zero Target asks for nothing. A target with a number, but neither copies nor shards, says that
// an earlier target was removed.
type Target struct {
	Copies int    // nodes that hold the whole object, this one included; 0 with an erasure coding
	Data   int    // data shards; any Data of the Data + Parity shards rebuild the object
	Parity int    // parity shards; 0 with copies
	Seq    uint64 // Unix milliseconds when it was set, or the previous one + 1; the higher one wins
}

// Places returns how many nodes hold a part of the object: its copies or its shards.
func (t Target) Places() int { return t.Copies + t.Data + t.Parity }

// Wants reports whether t asks for copies or shards.
func (t Target) Wants() bool { return t.Copies > 0 || t.Data > 0 }

// Removed reports whether t says that an earlier target was removed.
func (t Target) Removed() bool { return t.Seq > 0 && !t.Wants() }

// SameCopies reports whether t and o ask for the same copies or shards.
func (t Target) SameCopies(o Target) bool {
	return t.Copies == o.Copies && t.Data == o.Data && t.Parity == o.Parity
}

// Replaces reports whether t is newer than old.
func (t Target) Replaces(old Target) bool { return t.Seq > old.Seq }

// Next returns t with a number above that of old: now, in Unix milliseconds, or old's + 1.
func (t Target) Next(old Target, now uint64) Target {
	t.Seq = max(now, old.Seq+1)
	return t
}

// Check returns bad_request if t is no target that a pin can have.
func (t Target) Check() error {
	switch {
	case t.Copies < 0 || t.Copies > MaxCopies:
		return status.Errorf(status.BadRequest, "%d copies: ask for 1 to %d", t.Copies, MaxCopies)
	case t.Copies > 0 && (t.Data != 0 || t.Parity != 0):
		return status.Errorf(status.BadRequest, "a target is a number of copies or an erasure coding, not both")
	case t.Data == 1 && t.Parity > 0 && t.Parity < MaxCopies:
		return status.Errorf(status.BadRequest,
			"1+%d shards: ask for %d copies, which are the same", t.Parity, t.Parity+1)
	case t.Data < 0 || t.Parity < 0 || (t.Data == 0) != (t.Parity == 0) || t.Data == 1 || t.Data+t.Parity > MaxShards:
		return status.Errorf(status.BadRequest,
			"%d+%d shards: ask for at least 2+1, at most %d in all", t.Data, t.Parity, MaxShards)
	case t.Wants() && t.Seq == 0:
		return status.Errorf(status.BadRequest, "the target has no sequence number")
	}
	return nil
}

// ParseShards returns the target that a text such as "6+3" asks for: so many data and so many parity shards. The error
// is bad_request.
func ParseShards(s string) (t Target, err error) {
	data, parity, ok := strings.Cut(s, "+")
	if ok {
		t.Data, err = strconv.Atoi(data)
	}
	if ok && err == nil {
		t.Parity, err = strconv.Atoi(parity)
	}
	if !ok || err != nil || t.Data < 1 || t.Parity < 1 {
		return Target{}, status.Errorf(status.BadRequest,
			"%.40q is no number of data and parity shards, such as 6+3", s)
	}
	return t, Target{Data: t.Data, Parity: t.Parity, Seq: 1}.Check()
}

// String returns t as "rf 3", "ec 6+3", "removed" or "none".
func (t Target) String() string {
	switch {
	case t.Copies > 0:
		return fmt.Sprintf("rf %d", t.Copies)
	case t.Data > 0:
		return fmt.Sprintf("ec %d+%d", t.Data, t.Parity)
	case t.Removed():
		return "removed"
	}
	return "none"
}
