package erasure

import (
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The bounds of a coding.
const (
	// MinSize is the size in bytes from which objects are coded. Smaller ones are kept as copies.
	MinSize = 1 << 20
	// MaxShard bounds the bytes of a shard: larger objects have several stripes.
	MaxShard = 256 << 20
	// MaxShards bounds the shards of one stripe.
	MaxShards = 64
	// MinData is the fewest data shards: with one, the shards are copies.
	MinData = 2
)

// Layout is the division of an object of Size bytes into shards. The zero Layout is not valid.
type Layout struct {
	Size         int64
	Data, Parity int // shards of each stripe
}

// Check returns bad_request if l is out of bounds.
func (l Layout) Check() error {
	switch {
	case l.Data < MinData || l.Parity < 1 || l.Data > MaxShards || l.Parity > MaxShards || l.Data+l.Parity > MaxShards:
		return status.Errorf(status.BadRequest, "%d+%d shards: ask for at least %d+1, at most %d in all",
			l.Data, l.Parity, MinData, MaxShards)
	case l.Size < 1 || l.Size > b3.MaxSize:
		return status.Errorf(status.BadRequest, "an object of %d bytes has no shards", l.Size)
	}
	return nil
}

// Shards returns how many shards a stripe has.
func (l Layout) Shards() int { return l.Data + l.Parity }

// stripeBytes is the bytes of the object in a full stripe.
func (l Layout) stripeBytes() int64 { return int64(l.Data) * MaxShard }

// Stripes returns the number of stripes.
func (l Layout) Stripes() int { return int((l.Size-1)/l.stripeBytes() + 1) }

// Stripe returns stripe i, from 0.
func (l Layout) Stripe(i int) Stripe {
	start := int64(i) * l.stripeBytes()
	s := Stripe{Start: start, Len: min(l.stripeBytes(), l.Size-start), data: l.Data}
	each := (s.Len-1)/int64(l.Data) + 1
	s.Shard = (each + b3.GroupSize - 1) / b3.GroupSize * b3.GroupSize
	return s
}

// Bytes returns how many bytes a node stores that has one shard of each stripe, at most.
func (l Layout) Bytes() (n int64) {
	if stripes := int64(l.Stripes()); stripes > 1 {
		n = (stripes - 1) * MaxShard
	}
	return n + l.Stripe(l.Stripes()-1).Length(0)
}

// Locate returns where byte off of the object is: the stripe, the data shard and the offset in that.
func (l Layout) Locate(off int64) (stripe, shard int, at int64) {
	stripe = int(off / l.stripeBytes())
	s := l.Stripe(stripe)
	in := off - s.Start
	return stripe, int(in / s.Shard), in % s.Shard
}

// Stripe is a part of an object that is coded by itself.
type Stripe struct {
	Start int64 // offset in the object, in bytes
	Len   int64 // bytes of the object
	Shard int64 // bytes of a shard: whole groups
	data  int
}

// Range returns the bytes of the object that data shard i has. It is empty for a parity shard.
func (s Stripe) Range(i int) b3.Range {
	start := min(int64(i)*s.Shard, s.Len)
	if i >= s.data {
		start = s.Len
	}
	return b3.Range{Start: s.Start + start, End: s.Start + min(start+s.Shard, s.Len)}
}

// Length returns the bytes of shard i. A data shard at the end of the object is shorter than the first one, and
// may have none.
func (s Stripe) Length(i int) int64 {
	if i >= s.data {
		i = 0 // a parity shard ends with the longest data shard
	}
	r := s.Range(i)
	return r.End - r.Start
}
