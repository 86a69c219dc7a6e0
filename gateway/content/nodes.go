package content

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"sort"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The bounds of a listing that is sorted. One beyond them is sent in the order of its bytes.
const (
	maxSorted      = 10_000  // entries
	maxSortedBytes = 4 << 20 // bytes of the directory's manifests: 10,000 files with the longest names need less
)

// largeNodes is from where on a listing is large: its header is sent before its entries are decoded, and sorting it
// needs a place of gateway.sorters. Bytes of the directory's manifests.
const largeNodes = 64 << 10

// maxSorters bounds the large listings that are sorted at once. Each holds its manifests and entries, at most 10 MiB,
// until it is sent. A client has at most a third of the places while others are free.
const maxSorters = 16

// entries is a sequence of entries. An error is in the last pair.
type entries = iter.Seq2[manifest.Entry, error]

// nodes are the manifests of one directory. They belong to one request.
type nodes struct {
	get     manifest.Getter
	dir     b3.Root
	top     *manifest.Node
	topSize int64
	ahead   map[b3.Root][]byte // proved nodes that were read ahead
}

// openNodes reads the first node of a directory.
func openNodes(ctx context.Context, get manifest.Getter, dir b3.Root) (*nodes, error) {
	p, err := get(ctx, dir)
	if err != nil {
		return nil, err
	}
	top, err := manifest.Decode(p)
	if err != nil {
		return nil, err
	}
	n := &nodes{get: get, dir: dir, top: top, topSize: int64(len(p)), ahead: map[b3.Root][]byte{}}
	if top.Index {
		n.ahead[dir] = p
	}
	return n, nil
}

// node is a Getter that has the nodes that were read ahead.
func (n *nodes) node(ctx context.Context, root b3.Root) ([]byte, error) {
	if p, ok := n.ahead[root]; ok {
		return p, nil
	}
	return n.get(ctx, root)
}

// size returns the bytes of the manifests with the directory's entries, as far as the first node tells: it is exact
// for an index over leaves, and smaller than the truth for an index over indexes.
func (n *nodes) size() int64 {
	if !n.top.Index {
		return n.topSize
	}
	var sum int64
	for _, c := range n.top.Children {
		sum += c.Size
	}
	return sum
}

func (n *nodes) large() bool    { return n.size() > largeNodes }
func (n *nodes) sortable() bool { return n.size() <= maxSortedBytes }

// entries returns the entries in the order of their bytes.
func (n *nodes) entries(ctx context.Context) entries {
	if n.top.Index {
		return manifest.Entries(ctx, n.node, n.dir)
	}
	return func(yield func(manifest.Entry, error) bool) {
		for _, e := range n.top.Entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// lookup returns the entry with a name. It decodes no node that cannot have it.
func (n *nodes) lookup(ctx context.Context, name string) (e manifest.Entry, found bool, err error) {
	if !n.top.Index {
		all := n.top.Entries
		i := sort.Search(len(all), func(i int) bool { return all[i].Name >= name })
		if i < len(all) && all[i].Name == name {
			return all[i], true, nil
		}
		return e, false, nil
	}
	i := sort.Search(len(n.top.Children), func(i int) bool { return n.top.Children[i].First > name })
	if i == 0 {
		return e, false, nil
	}
	child := n.top.Children[i-1].Root
	p, err := n.node(ctx, child)
	if err != nil || !manifest.MayHave(p, name) {
		return e, false, err
	}
	n.ahead[child] = p
	e, err = manifest.Lookup(ctx, n.node, n.dir, name)
	var missing *manifest.EntryError
	if errors.As(err, &missing) && missing.Outcome == status.NotFound {
		return e, false, nil
	}
	return e, err == nil, err
}

// readAhead reads the nodes that the entries are in: all of them, or the first. So a node that is missing or damaged
// is an error before the first byte of the answer.
func (n *nodes) readAhead(ctx context.Context, all bool) error {
	for i, c := range n.top.Children {
		if i > 0 && !all {
			return nil
		}
		p, err := n.node(ctx, c.Root)
		if err != nil {
			return err
		}
		if int64(len(p)) != c.Size { // so that what is held is what size counts
			return status.Errorf(status.BadRequest, "cannot list the directory %s: its node %s has %d bytes, the index says %d",
				shorten(n.dir), shorten(c.Root), len(p), c.Size)
		}
		n.ahead[c.Root] = p
	}
	return nil
}

// collect returns all entries, or complete == false if there are more than maxSorted, or more than maxSortedBytes of
// names and link targets.
func (n *nodes) collect(ctx context.Context) (all []manifest.Entry, complete bool, err error) {
	if !n.top.Index {
		return n.top.Entries, len(n.top.Entries) <= maxSorted, nil
	}
	held := 0
	for e, err := range n.entries(ctx) {
		if err != nil {
			return nil, false, err
		}
		if held += len(e.Name) + len(e.Target); len(all) == maxSorted || held > maxSortedBytes {
			return nil, false, nil
		}
		all = append(all, e)
	}
	return all, true, nil
}

// newSorters returns the gate of gateway.sorters.
func newSorters(r *limits.Registry) *limits.FairGate[netip.Prefix] {
	return limits.NewFairGate[netip.Prefix](r, limits.Spec{
		Name: "gateway.sorters", Path: "listings → sorting", Policy: "reject: 429 busy",
	}, maxSorters, 2)
}

// acquireSorter takes a place for sorting a large listing. A small one needs none. The caller calls leave when the
// listing is sent.
func (g *Handlers) acquireSorter(b *body, n *nodes) (leave func(), err error) {
	if !n.large() {
		return func() {}, nil
	}
	key := b.w.From.Group
	var full *status.Error
	if err := g.sorters.Enter(key); errors.As(err, &full) {
		full.Outcome = status.Busy // status.Quota is for peers
		return nil, full
	}
	return func() { g.sorters.Leave(key) }, nil
}
