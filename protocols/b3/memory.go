package b3

import "fmt"

// Memory is a whole object in RAM. [HashQueue.Memory] verifies its bytes once and they
// never change, so reads do not hash them again. It is safe for concurrent use.
type Memory struct {
	root     Root
	data     []byte
	outboard []byte // post-order
}

// Memory verifies that p is the whole object root and outboard its outboard; an
// object of one group has none. It keeps both slices; nobody may change them
// afterwards. An error wraps ErrCorrupt. The queue, unless it is nil, limits the hashing.
func (q *HashQueue) Memory(root Root, p, outboard []byte) (*Memory, error) {
	m := &Memory{root: root, data: p, outboard: outboard}
	if int64(len(outboard)) != OutboardSize(m.Size()) {
		return nil, fmt.Errorf("check the outboard of %s: it has %d bytes, want %d: %w",
			root, len(outboard), OutboardSize(m.Size()), ErrCorrupt)
	}
	if len(p) <= GroupSize {
		if got := Sum(p); got != root {
			return nil, fmt.Errorf("%d bytes hash to %s, not to %s: %w", len(p), got, root, ErrCorrupt)
		}
		return m, nil
	}
	w, err := q.Walk(root, m.Size(), nil)
	if err != nil {
		return nil, err
	}
	for item, more := w.Next(); more; item, more = w.Next() {
		part := m.outboard[item.Node*ParentSize:][:ParentSize]
		if !item.Parent {
			part = m.group(item.Group)
		}
		if _, err := w.Accept(part); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Size returns the object's size in bytes.
func (m *Memory) Size() int64 { return int64(len(m.data)) }

// Bytes returns the whole object. The caller must not change it.
func (m *Memory) Bytes() []byte { return m.data }

// Reader returns a Reader of the object.
func (m *Memory) Reader() *Reader {
	return &Reader{root: m.root, size: m.Size(), src: m, proved: m.data}
}

// ReadGroup implements [Source].
func (m *Memory) ReadGroup(g int64, p []byte) (int, error) {
	if g < 0 || g >= Groups(m.Size()) {
		return 0, noGroup(g, Groups(m.Size()))
	}
	return copy(p, m.group(g)), nil
}

// ReadParents implements [Source].
func (m *Memory) ReadParents(node int64, p []byte) (int, error) {
	if node < 0 || (node+1)*ParentSize > int64(len(m.outboard)) {
		return 0, noParent(node, int64(len(m.outboard))/ParentSize)
	}
	return copy(p[:ParentSize], m.outboard[node*ParentSize:]) / ParentSize, nil
}

func (m *Memory) group(g int64) []byte { return groupOf(m.data, g) }

// groupOf returns group g of the object p.
func groupOf(p []byte, g int64) []byte {
	return p[g*GroupSize : min((g+1)*GroupSize, int64(len(p)))]
}
