package manifest

import (
	"bytes"
	"context"
	"math"
	"unicode/utf8"

	"allium/protocols/b3"
)

// Parts reads objects in parts, so that a node need not be held whole. It returns the bytes of the
// object root from the offset at on, verified against root, and the size of the object: minPart bytes
// or more, or all that are left. It should reject an object of more than MaxNode bytes. The caller
// does not change the bytes.
type Parts func(ctx context.Context, root b3.Root, at int64) (p []byte, size int64, err error)

// minPart is more than the longest valid item of a node has.
const minPart = 8 << 10

// Nodes reads the nodes of directories.
type Nodes struct {
	Parts Parts
	// Table returns the node root as a table, or nil if it is to be read in parts. It may be nil.
	Table func(ctx context.Context, root b3.Root) (*Table, error)
}

// nodes returns a Nodes that reads each object whole.
func (g Getter) nodes() Nodes {
	return Nodes{Parts: func(ctx context.Context, root b3.Root, at int64) ([]byte, int64, error) {
		p, err := g(ctx, root)
		if err != nil {
			return nil, 0, err
		}
		return p[min(at, int64(len(p))):], int64(len(p)), nil
	}}
}

// item is an entry of a directory or an index as the node has it. Its bytes are those of the scanner,
// and valid until the next item.
type item struct {
	name       []byte
	kind       uint8
	digest     []byte
	size       int64
	executable bool
	target     []byte
}

// scanner decodes the items of one manifest object, in order, and holds a part of the object. It
// accepts only the single encoding of a node: the deterministic one of CBOR, without members that have
// their default value (FORMAT.md).
type scanner struct {
	read func(at int64) (p []byte, size int64, err error)
	size int64 // of the object in bytes; known after begin

	whole []byte // the object, if the first part was all of it and release was not called

	kind  uint8
	p     []byte // bytes that are read and not decoded yet
	at    int64  // the offset of p in the object
	count int    // items of the node
	done  int    // of them, those that are decoded
	last  []byte // the name of the last decoded item
}

// scan returns a scanner of the whole object p.
func scan(p []byte) *scanner {
	return &scanner{read: func(at int64) ([]byte, int64, error) { return p[at:], int64(len(p)), nil }}
}

// begin decodes the head of the node. It may be called again, to decode all items again.
func (s *scanner) begin() (err error) {
	*s = scanner{read: s.read, size: s.size, whole: s.whole, p: s.whole, last: s.last[:0]}
	if s.p == nil {
		if s.p, s.size, err = s.read(0); err != nil {
			return err
		}
		if int64(len(s.p)) == s.size {
			s.whole = s.p
		}
	}
	if !IsManifest(s.p) {
		return ErrNotManifest
	}
	if s.size > MaxNode {
		return malformed("it has %d bytes, the limit is %d", s.size, MaxNode)
	}
	s.skip(len(Magic))
	members, err := s.head(majorMap)
	if err != nil {
		return err
	}
	if key, err := s.head(majorUint); err != nil || key != 0 || members < 1 || members > 2 {
		return malformed("its members are not a kind and entries")
	}
	kind, err := s.head(majorUint)
	switch {
	case err != nil:
		return err
	case kind != kindDirectory && kind != kindIndex:
		return malformed("it has the unknown kind %d", kind)
	}
	s.kind = uint8(kind)
	if members == 1 {
		return s.end()
	}
	if key, err := s.head(majorUint); err != nil || key != 1 {
		return malformed("its members are not a kind and entries")
	}
	n, err := s.head(majorArray)
	if err == nil && (n == 0 || n > maxEntries) {
		err = malformed("it says that it has %d entries", n)
	}
	s.count = int(min(n, maxEntries))
	return err
}

// index reports whether the node is an index.
func (s *scanner) index() bool { return s.kind == kindIndex }

// end checks that the object ends after its last item.
func (s *scanner) end() error {
	switch {
	case s.at != s.size:
		return malformed("%d bytes follow its end", s.size-s.at)
	case s.index() && s.count == 0:
		return malformed("the index has no children")
	}
	return nil
}

// next decodes the next item. It returns false after the last one.
func (s *scanner) next(it *item) (bool, error) {
	if s.done == s.count {
		return false, nil
	}
	if len(s.p) < minPart && s.at+int64(len(s.p)) < s.size {
		p, size, err := s.read(s.at)
		if err != nil {
			return false, err
		}
		if size != s.size || int64(len(p)) < min(minPart, size-s.at) {
			return false, malformed("it was read with %d bytes, and again with %d", s.size, size)
		}
		s.p = p
	}
	if err := s.item(it); err != nil {
		return false, err
	}
	if s.done > 0 && bytes.Compare(s.last, it.name) >= 0 {
		return false, checkOrder(string(s.last), string(it.name))
	}
	s.last = append(s.last[:0], it.name...)
	s.done++
	if s.done == s.count {
		return true, s.end()
	}
	return true, nil
}

// release gives up the bytes that the scanner holds. next reads them again.
func (s *scanner) release() { s.whole, s.p = nil, nil }

// held returns how many bytes the scanner holds.
func (s *scanner) held() int { return max(len(s.whole), len(s.p)) }

// item decodes one item.
func (s *scanner) item(it *item) error {
	*it = item{}
	members, err := s.head(majorMap)
	if err != nil {
		return err
	}
	next := uint64(0) // the least key that may follow
	for range min(members, keys+1) {
		key, err := s.head(majorUint)
		if err != nil {
			return err
		}
		if key < next || key >= keys {
			return malformed("an entry has the member %d twice, out of order or by mistake", key)
		}
		next = key + 1
		if err := s.member(it, key); err != nil {
			return err
		}
	}
	return nil
}

// keys is the number of members that an item can have.
const keys = 6

// member decodes one member of an item. Its value must not be the default.
func (s *scanner) member(it *item, key uint64) (err error) {
	switch key {
	case 0:
		it.name, err = s.text()
	case 1:
		var kind uint64
		if kind, err = s.head(majorUint); err == nil && (kind == 0 || kind > math.MaxUint8) {
			err = malformed("an entry has the kind %d", kind)
		}
		it.kind = uint8(kind)
	case 2:
		it.digest, err = s.string(majorBytes)
	case 3:
		var size uint64
		if size, err = s.head(majorUint); err == nil && (size == 0 || size > math.MaxInt64) {
			err = malformed("an entry has the size %d", size)
		}
		it.size = int64(size)
	case 4:
		if len(s.p) == 0 || s.p[0] != cborTrue {
			return malformed("an entry says that it is executable, and not yes")
		}
		it.executable = true
		s.skip(1)
	case 5:
		it.target, err = s.text()
	}
	return err
}

// text decodes a string of UTF-8 that is not empty.
func (s *scanner) text() ([]byte, error) {
	p, err := s.string(majorText)
	if err == nil && !utf8.Valid(p) {
		err = malformed("a text is not UTF-8")
	}
	return p, err
}

// string decodes a string that is not empty.
func (s *scanner) string(major byte) ([]byte, error) {
	n, err := s.head(major)
	switch {
	case err != nil:
		return nil, err
	case n == 0 || n > uint64(len(s.p)):
		return nil, malformed("a string of %d bytes is empty, or longer than an entry can be", n)
	}
	p := s.p[:n]
	s.skip(int(n))
	return p, nil
}

// The first bits of a CBOR item, which say what it is, and the item true (RFC 8949 §3.1).
const (
	majorUint  = 0
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
	cborTrue   = 0xf5
)

// head decodes the head of a CBOR item of the given major type, and returns its argument. It refuses
// an argument that is longer than needed, or of indefinite length.
func (s *scanner) head(major byte) (v uint64, err error) {
	if len(s.p) == 0 {
		return 0, malformed("it ends too early")
	}
	if s.p[0]>>5 != major {
		return 0, malformed("an item has the type %d, not %d", s.p[0]>>5, major)
	}
	info := s.p[0] & 31
	if info < 24 {
		s.skip(1)
		return uint64(info), nil
	}
	n := 1 << (info - 24) // bytes of the argument
	if info > 27 || len(s.p) <= n {
		return 0, malformed("an item has no length, or ends too early")
	}
	for _, b := range s.p[1 : 1+n] {
		v = v<<8 | uint64(b)
	}
	if least := [...]uint64{24, 1 << 8, 1 << 16, 1 << 32}[info-24]; v < least {
		return 0, malformed("an item is not in the deterministic encoding")
	}
	s.skip(1 + n)
	return v, nil
}

// skip moves n bytes on.
func (s *scanner) skip(n int) {
	s.p = s.p[n:]
	s.at += int64(n)
}
