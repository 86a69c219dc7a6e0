package erasure

import (
	"bytes"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// Magic begins every manifest.
const Magic = "allium-coding/1\n"

// MaxManifest bounds the bytes of an encoded manifest: about 340 GiB of an object with 2+1 shards, and 5 TiB with
// 6+3.
const MaxManifest = 1 << 20

// maxStripes bounds the stripes before the manifest is decoded.
const maxStripes = MaxManifest / (b3.Size * (MinData + 1))

// Manifest names the shards of an object.
type Manifest struct {
	Layout
	Object   b3.Root
	Outboard b3.Root     // the object's outboard; zero if the object has one group
	Shards   [][]b3.Root // by stripe: the data shards, then the parity shards
}

// wire is a manifest after its magic.
type wire struct {
	Object   []byte   `cbor:"0,keyasint"`
	Size     uint64   `cbor:"1,keyasint"`
	Data     uint64   `cbor:"2,keyasint"`
	Parity   uint64   `cbor:"3,keyasint"`
	Outboard []byte   `cbor:"4,keyasint"`
	Stripes  [][]byte `cbor:"5,keyasint"` // the addresses of a stripe's shards, one after the other
}

var canonical = record.NewCodec(maxStripes)

// Encode returns the bytes of a manifest. The error is bad_request if m is not valid, and body_cap if the object is
// too large for one.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	w := wire{
		Object: m.Object[:], Size: uint64(m.Size), Data: uint64(m.Data),
		Parity: uint64(m.Parity), Outboard: m.Outboard[:],
	}
	for _, shards := range m.Shards {
		p := make([]byte, 0, len(shards)*b3.Size)
		for _, root := range shards {
			p = append(p, root[:]...)
		}
		w.Stripes = append(w.Stripes, p)
	}
	p, err := canonical.Marshal(w)
	if err != nil {
		return nil, status.Errorf(status.Internal, "encode the coding manifest: %w", err)
	}
	if p = append([]byte(Magic), p...); len(p) > MaxManifest {
		return nil, status.Errorf(status.BodyCap,
			"the coding manifest of %s has %d bytes, at most %d: use more data shards",
			m.Object, len(p), MaxManifest)
	}
	return p, nil
}

// Decode decodes the bytes of a manifest. The error is bad_request if they are none.
func Decode(p []byte) (*Manifest, error) {
	rest, ok := bytes.CutPrefix(p, []byte(Magic))
	if !ok || len(p) > MaxManifest {
		return nil, malformed("its first line or its length is wrong")
	}
	var w wire
	if err := canonical.Unmarshal(rest, &w); err != nil {
		return nil, status.Errorf(status.BadRequest, "malformed coding manifest: %w", err)
	}
	if len(w.Object) != b3.Size || len(w.Outboard) != b3.Size ||
		max(w.Data, w.Parity) > MaxShards || w.Size > b3.MaxSize {
		return nil, malformed("a member of it is out of bounds")
	}
	m := &Manifest{
		Layout: Layout{Size: int64(w.Size), Data: int(w.Data), Parity: int(w.Parity)},
		Object: b3.Root(w.Object), Outboard: b3.Root(w.Outboard),
	}
	if err := m.Layout.Check(); err != nil {
		return nil, err
	}
	for _, p := range w.Stripes {
		if len(p) != m.Layout.Shards()*b3.Size {
			return nil, malformed("a stripe has another number of shards")
		}
		shards := make([]b3.Root, m.Layout.Shards())
		for i := range shards {
			shards[i] = b3.Root(p[i*b3.Size:])
		}
		m.Shards = append(m.Shards, shards)
	}
	return m, m.check()
}

func malformed(why string) error {
	return status.Errorf(status.BadRequest, "malformed coding manifest: %s", why)
}

// check returns bad_request if m is not one that Decode may return.
func (m *Manifest) check() error {
	if err := m.Layout.Check(); err != nil {
		return err
	}
	if len(m.Shards) != m.Stripes() {
		return malformed("it has another number of stripes than its size")
	}
	if m.Object.IsZero() || m.Outboard.IsZero() != (m.Size <= b3.GroupSize) || m.Outboard == m.Object {
		return malformed("the object or its outboard is missing")
	}
	for i, shards := range m.Shards {
		if len(shards) != m.Layout.Shards() {
			return malformed("a stripe has another number of shards")
		}
		s := m.Stripe(i)
		for j, root := range shards {
			if root.IsZero() != (s.Length(j) == 0) {
				return malformed("a shard has no address, or an address and no bytes")
			}
			if root == m.Object && s.Length(j) != m.Size { // the object would be made of itself
				return malformed("a shard is the object itself")
			}
		}
	}
	return nil
}

// Shard returns the address and the bytes of a shard. The address is zero if the shard has no bytes.
func (m *Manifest) Shard(stripe, shard int) (root b3.Root, size int64) {
	return m.Shards[stripe][shard], m.Stripe(stripe).Length(shard)
}

// Empty returns how many data shards have no bytes. Only the last ones of an object with one stripe may have none.
func (l Layout) Empty() (n int) {
	if l.Stripes() > 1 {
		return 0
	}
	s := l.Stripe(0)
	for i := range l.Data {
		if s.Length(i) == 0 {
			n++
		}
	}
	return n
}

// Pieces returns the addresses of the outboard and of all shards, each once.
func (m *Manifest) Pieces() (list []b3.Root) {
	seen := map[b3.Root]bool{{}: true}
	add := func(root b3.Root) {
		if !seen[root] {
			seen[root] = true
			list = append(list, root)
		}
	}
	add(m.Outboard)
	for _, shards := range m.Shards {
		for _, root := range shards {
			add(root)
		}
	}
	return list
}

// chunks bounds the numbers that a challenge of a coded object draws: more than any shard has chunks, so that each
// chunk is drawn about as often as the others.
const chunks = 1 << 48

// Chunks returns the bound of the numbers for [Manifest.Chunk].
func (m *Manifest) Chunks() int64 { return chunks }

// Chunk returns what proves a shard, for a number that was drawn at random: an object, its size and one of its
// chunks. They are of one stripe's shard, or with shard −1 of the whole object. The error is bad_range if there is no
// such shard.
func (m *Manifest) Chunk(shard int, n int64) (root b3.Root, size, chunk int64, err error) {
	if shard < 0 {
		return m.Object, m.Size, n % b3.Chunks(m.Size), nil
	}
	var all int64
	for i := range m.Shards {
		if shard < len(m.Shards[i]) {
			if _, size := m.Shard(i, shard); size > 0 {
				all += b3.Chunks(size)
			}
		}
	}
	if all == 0 || n < 0 {
		return root, 0, 0, status.Errorf(status.BadRange, "the coding has no shard %d", shard)
	}
	n %= all
	for i := range m.Shards {
		root, size = m.Shard(i, shard)
		if size == 0 {
			continue
		}
		if chunk = b3.Chunks(size); n < chunk {
			return root, size, n, nil
		}
		n -= chunk
	}
	return root, 0, 0, status.Errorf(status.Internal, "a shard has fewer chunks than it has")
}
