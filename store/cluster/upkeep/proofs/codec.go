package proofs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/record"
	"allium/store/cluster/plan"
)

// page holds the proofs of members for the objects of one page.
type page struct {
	Members [][]byte `cbor:"1,keyasint"`
	Objects []object `cbor:"2,keyasint"`
}

type object struct {
	_      struct{} `cbor:",toarray"`
	Root   []byte   // 32 bytes
	Proofs []proof  // at most meta.MaxCopies
}

type proof struct {
	_      struct{} `cbor:",toarray"`
	Member uint64   // index in page.Members
	Piece  uint64   // 0, or the number of a shard, from 1
	At     uint64   // Unix milliseconds of the challenge
}

var codec = record.NewCodec(1 << 16)

// Of has the proofs of objects.
type Of map[b3.Root][]plan.Proof

// encode returns a page with as many of the objects as have room.
func encode(objs Of) ([]byte, error) {
	roots := make([]b3.Root, 0, len(objs))
	for root := range objs {
		roots = append(roots, root)
	}
	slices.SortFunc(roots, func(a, b b3.Root) int { return bytes.Compare(a[:], b[:]) })
	var all page
	index := map[plan.ID]uint64{}
	size := 0
	for _, root := range roots {
		o := object{Root: root[:]}
		for _, p := range objs[root] {
			at, ok := index[p.Holder]
			if !ok {
				at = uint64(len(all.Members))
				index[p.Holder] = at
				all.Members = append(all.Members, []byte(p.Holder))
				size += len(p.Holder) + 8
			}
			o.Proofs = append(o.Proofs, proof{
				Member: at, Piece: uint64(p.Piece), At: uint64(p.At.UnixMilli()),
			})
		}
		if size += len(root) + 8 + 18*len(o.Proofs); size > maxPage-1024 {
			break
		}
		all.Objects = append(all.Objects, o)
	}
	text, err := codec.Marshal(all)
	if err != nil {
		return nil, err
	}
	return seal(text), nil
}

// decode adds the objects of a page to objs.
func decode(number int, data []byte, objs Of) error {
	if len(data) > maxPage {
		return fmt.Errorf("it has %d bytes", len(data))
	}
	text, err := unseal(data)
	if err != nil {
		return err
	}
	var p page
	if err := codec.Unmarshal(text, &p); err != nil {
		return err
	}
	for _, o := range p.Objects {
		if len(o.Root) != len(b3.Root{}) || number != anyPage && pageOf(b3.Root(o.Root)) != number {
			return errors.New("it has an address of another page")
		}
		root := b3.Root(o.Root)
		objs[root] = nil
		for _, q := range o.Proofs {
			if q.Member >= uint64(len(p.Members)) || q.At > 1<<62 || q.Piece > erasure.MaxShards {
				return errors.New("a proof is out of bounds")
			}
			objs[root] = append(objs[root], plan.Proof{
				Holder: plan.ID(p.Members[q.Member]), Piece: plan.Piece(q.Piece),
				At: time.UnixMilli(int64(q.At)),
			})
		}
	}
	return nil
}

// seal appends the digest of what is to be kept.
func seal(data []byte) []byte {
	sum := b3.Sum(data)
	return append(data, sum[:]...)
}

// unseal returns what was kept, without its digest.
func unseal(data []byte) ([]byte, error) {
	end := len(data) - len(b3.Root{})
	if end < 0 {
		return nil, fmt.Errorf("it has %d bytes", len(data))
	}
	if sum := b3.Sum(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, errors.New("its digest is another one")
	}
	return data[:end], nil
}
