package plan

import "slices"

// Piece is the part of an object that a member holds: Whole, or the number of a shard, from 1.
type Piece uint8

// Whole is a copy of the whole object.
const Whole Piece = 0

// Holder is a member and what it holds of a coded object.
type Holder struct {
	ID    ID
	Piece Piece
}

// Shard returns the piece that is shard i of each stripe, from 0.
func Shard(i int) Piece { return Piece(i + 1) }

// Shard returns the number of the shard, from 0, or −1 for a whole copy.
func (p Piece) Shard() int { return int(p) - 1 }

// holding is a copy that counts, at a member.
type holding struct {
	id    ID
	piece Piece
}

// copies are the copies of an object that count, each at another member.
type copies []holding

// covered returns how many of want places the copies take. The same shard counts once, wherever it is; a whole copy
// takes one place, that of any shard.
func (c copies) covered(want int) int {
	return min(want, len(c.shards())+c.whole())
}

// whole returns the number of whole copies.
func (c copies) whole() (n int) {
	for _, h := range c {
		if h.piece == Whole {
			n++
		}
	}
	return n
}

// shards returns the different shards among the copies, in order.
func (c copies) shards() (list []Piece) {
	for _, h := range c {
		if h.piece != Whole {
			list = append(list, h.piece)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// without returns the copies of other members.
func (c copies) without(id ID) copies {
	return slices.DeleteFunc(slices.Clone(c), func(h holding) bool { return h.id == id })
}

// ids returns the members.
func (c copies) ids() []ID {
	list := make([]ID, len(c))
	for i, h := range c {
		list[i] = h.id
	}
	return list
}

// set tells sets of holders apart.
func (c copies) set() (v uint64) {
	for _, h := range c {
		v += h.id.mix(1)
	}
	return v
}

// missing returns the pieces to be sent so that n more of want places are taken. sent are those on their way. Whole
// copies take the places of the first shards that are missing: these are data, and they are read from a whole copy.
// Shards from data on, empty in number, are nowhere.
func (c copies) missing(want, n, data, empty int, sent []Piece) (list []Piece) {
	there := c.shards()
	skip := c.whole()
	for i := 0; i < want && len(list) < n; i++ {
		p := Shard(i)
		if i >= data {
			p = Shard(i + empty)
		}
		switch {
		case slices.Contains(there, p), slices.Contains(sent, p):
		case skip > 0:
			skip--
		default:
			list = append(list, p)
		}
	}
	return list
}
