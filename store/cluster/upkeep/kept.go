package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ds "github.com/ipfs/go-datastore"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/record"
	"allium/store/cluster/plan"
)

// What holders proved of active objects is kept in the records of the node, in pages by the first bits of the object's
// address. A page is a keptPage as CBOR and its BLAKE3 digest. Those at rest are kept as the pages that they are in.
// Pages are written from time to time. What changed since is kept in batches, see keepNews.
// All of it can be had again by challenges, so what is damaged is removed, and nothing that goes wrong stops the
// service.
const (
	keptPages  = 64
	keptShift  = 2       // of the first byte of an address, to the number of its page
	maxKept    = 1 << 20 // bytes of a page
	keptTicks  = 10      // ticks between two times that proofs are kept
	keepAtEnd  = time.Second
	loadAtMost = 5 * time.Second
)

// RecordsSpace is the namespace of the proofs in the records of the node.
const RecordsSpace = "durability"

func keptKey(page int) ds.Key {
	return ds.KeyWithNamespaces([]string{RecordsSpace, fmt.Sprintf("%02d", page)})
}

// keptPage holds the proofs of members for the objects of one page.
type keptPage struct {
	Members [][]byte     `cbor:"1,keyasint"`
	Objects []keptObject `cbor:"2,keyasint"`
}

type keptObject struct {
	_      struct{}    `cbor:",toarray"`
	Root   []byte      // 32 bytes
	Proofs []keptProof // at most meta.MaxCopies
}

type keptProof struct {
	_      struct{} `cbor:",toarray"`
	Member uint64   // index in keptPage.Members
	Piece  uint64   // 0, or the number of a shard, from 1
	At     uint64   // Unix milliseconds of the challenge
}

var keptCodec = record.NewCodec(1 << 16)

// proofsOf has the proofs of objects.
type proofsOf map[b3.Root][]plan.Proof

// encodeKept returns a page with as many of the objects as have room.
func encodeKept(objs proofsOf) ([]byte, error) {
	roots := make([]b3.Root, 0, len(objs))
	for root := range objs {
		roots = append(roots, root)
	}
	slices.SortFunc(roots, func(a, b b3.Root) int { return bytes.Compare(a[:], b[:]) })
	var page keptPage
	index := map[plan.ID]uint64{}
	size := 0
	for _, root := range roots {
		o := keptObject{Root: root[:]}
		for _, p := range objs[root] {
			at, ok := index[p.Holder]
			if !ok {
				at = uint64(len(page.Members))
				index[p.Holder] = at
				page.Members = append(page.Members, []byte(p.Holder))
				size += len(p.Holder) + 8
			}
			o.Proofs = append(o.Proofs, keptProof{
				Member: at, Piece: uint64(p.Piece), At: uint64(p.At.UnixMilli()),
			})
		}
		if size += len(root) + 8 + 18*len(o.Proofs); size > maxKept-1024 {
			break
		}
		page.Objects = append(page.Objects, o)
	}
	text, err := keptCodec.Marshal(page)
	if err != nil {
		return nil, err
	}
	return withDigest(text), nil
}

// decodeKept adds the objects of a page to objs.
func decodeKept(page int, data []byte, objs proofsOf) error {
	if len(data) > maxKept {
		return fmt.Errorf("it has %d bytes", len(data))
	}
	text, err := checked(data)
	if err != nil {
		return err
	}
	var p keptPage
	if err := keptCodec.Unmarshal(text, &p); err != nil {
		return err
	}
	for _, o := range p.Objects {
		if len(o.Root) != len(b3.Root{}) || page != anyPage && int(o.Root[0])>>keptShift != page {
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

// load reads what was kept before a restart. It is used for objects as they are found, until the first pass over the
// pins ends.
func (s *Service) load(ctx context.Context) {
	if s.deps.Records == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadAtMost)
	defer cancel()
	objs := proofsOf{}
	for page := range keptPages {
		data, err := s.deps.Records.Get(ctx, keptKey(page))
		if errors.Is(err, ds.ErrNotFound) {
			continue
		}
		if err == nil {
			err = decodeKept(page, data, objs)
		}
		if err == nil {
			s.kept[page] = b3.Sum(data)
			continue
		}
		s.dropKept(ctx, keptKey(page), err)
	}
	s.loadPages(ctx)
	s.loadNews(ctx, objs)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = objs
}

// restore notes what holders of an object proved before the restart. The caller holds s.mu.
func (s *Service) restore(e *entry, now time.Time) {
	for _, p := range s.before[e.Root] {
		e.Restore(p, s.p, now)
	}
	delete(s.before, e.Root)
}

// keepProofs writes what holders proved, once all pins were looked at, and up to so many pages of objects at rest. Only
// the goroutine of Run calls it.
func (s *Service) keepProofs(ctx context.Context, atRest int) {
	if s.deps.Records == nil {
		return
	}
	var pages [keptPages]proofsOf
	v := s.deps.View()
	s.mu.Lock()
	if s.passes == 0 {
		s.mu.Unlock()
		return
	}
	now := s.deps.Now()
	for root, e := range s.objects.active {
		if list := e.Proofs(v, s.p, now); len(list) > 0 {
			page := int(root[0]) >> keptShift
			if pages[page] == nil {
				pages[page] = proofsOf{}
			}
			pages[page][root] = list
		}
	}
	s.mu.Unlock()
	all, errs := s.keepPages(ctx, atRest)
	for page, objs := range pages {
		errs = append(errs, s.keepPage(ctx, page, objs))
	}
	err := errors.Join(append(errs, s.deps.Records.Sync(ctx, ds.NewKey(RecordsSpace)))...)
	if err == nil && all {
		err = s.dropNews(ctx)
	}
	if err != nil {
		s.deps.Log.Debug("what holders proved is not kept over a restart", "err", err)
	}
}

// keepPage writes a page, unless it is the same as before.
func (s *Service) keepPage(ctx context.Context, page int, objs proofsOf) error {
	var data []byte
	var sum b3.Root
	if len(objs) > 0 {
		var err error
		if data, err = encodeKept(objs); err != nil {
			return err
		}
		sum = b3.Sum(data)
	}
	if sum == s.kept[page] {
		return nil
	}
	write := func() error { return s.deps.Records.Put(ctx, keptKey(page), data) }
	if len(objs) == 0 {
		write = func() error { return s.deps.Records.Delete(ctx, keptKey(page)) }
	}
	err := write()
	if err == nil {
		s.kept[page] = sum
	}
	return err
}
