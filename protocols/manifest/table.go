package manifest

import (
	"bytes"
	"sort"
)

// Table is one node in memory in which a name is found without reading the others. It is immutable,
// and only a checked node has one. Its methods may be called from any goroutine.
type Table struct {
	p           []byte   // the object
	at          []uint32 // where each item begins in p
	index       bool
	first, last string // names
	listed      int64  // see [Dir.Listed]
}

// offsetBytes is the memory that a Table takes for each item beside its encoding.
const offsetBytes = 4

// MaxTable returns the most bytes that the [Table] of a node of size bytes takes.
func MaxTable(size int64) int64 { return size + size/MinItem*offsetBytes }

// NewTable reads and checks the node p, which is a whole object. It keeps p, which the caller does not
// change afterwards. The errors are those of [Decode].
func NewTable(p []byte) (*Table, error) {
	s := scan(p)
	if err := s.begin(); err != nil {
		return nil, err
	}
	t := &Table{p: p, index: s.index(), at: make([]uint32, 0, min(s.count, len(p)/MinItem))}
	var it item
	for s.done < s.count {
		at := s.at
		if _, err := s.next(&it); err != nil {
			return nil, err
		}
		if err := it.check(t.index); err != nil {
			return nil, err
		}
		if len(t.at) == 0 {
			t.first = string(it.name)
		}
		t.at = append(t.at, uint32(at)) //nolint:gosec // at most MaxNode
		t.listed += it.size
	}
	t.last = string(s.last)
	if !t.index {
		t.listed = s.size
	}
	return t, nil
}

// Bytes returns the bytes of memory that t takes.
func (t *Table) Bytes() int64 { return int64(cap(t.p) + cap(t.at)*offsetBytes) }

// name returns the name of the i-th item. It is the first member of each.
func (t *Table) name(i int) ([]byte, error) {
	s := scanner{p: t.p[t.at[i]:]}
	if _, err := s.head(majorMap); err != nil {
		return nil, err
	}
	if _, err := s.head(majorUint); err != nil {
		return nil, err
	}
	return s.string(majorText)
}

// item decodes the i-th item. Its bytes are those of t.
func (t *Table) item(i int) (it item, err error) {
	s := scanner{p: t.p[t.at[i]:]}
	err = s.item(&it)
	return it, err
}

// step returns what the node says about name. It checks the properties of s, the reference to it.
func (t *Table) step(s nodeRef, name string) (st step, err error) {
	st.at = s
	if err := s.check(int64(len(t.p)), t.index, t.first, t.last); err != nil {
		return st, err
	}
	wanted := []byte(name)
	i, found := sort.Find(len(t.at), func(i int) int {
		have, e := t.name(i)
		if e != nil {
			err = e
		}
		return bytes.Compare(wanted, have)
	})
	if err != nil {
		return st, err
	}
	if t.index && !found {
		i-- // the last child that begins before name
	}
	for ; i >= 0 && i < len(t.at) && !st.passed; i++ {
		it, err := t.item(i)
		if err == nil {
			err = st.see(name, t.index, &it)
		}
		if err != nil || !t.index {
			return st, err
		}
	}
	return st, nil
}
