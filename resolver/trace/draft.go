package trace

import (
	"strings"
	"unsafe"

	"github.com/libp2p/go-libp2p/core/peer"
)

// draft is the record of a lookup that runs, and the bytes reserved for it. The Lookup's mu guards
// it.
//
// Invariant: size is reserved of ring.running, and rec takes no more than that.
type draft struct {
	ring     *Ring // nil: nothing is recorded
	rec      Record
	steps    [4]Step // the first ones of rec, which most lookups have: one allocation less for each
	searches []attached
	size     int
}

// The sizes of the parts of a record. Texts are added to them.
const (
	recordSize  = int(unsafe.Sizeof(Lookup{}) + unsafe.Sizeof(Counts{}))
	stepSize    = int(unsafe.Sizeof(Step{}))
	peerSize    = int(unsafe.Sizeof(Peer{}) + unsafe.Sizeof(GaveUp{}) + peerIDSize)
	spanSize    = int(unsafe.Sizeof(Span{}))
	searchSize  = int(unsafe.Sizeof(Search{}))
	probeSize   = int(unsafe.Sizeof(Probe{}) + peerIDSize)
	failureSize = int(unsafe.Sizeof(Failure{}))

	peerIDSize = 40 // bytes of a peer ID of an Ed25519 key, rounded up
)

// fits reserves n bytes if the bounds permit.
func (d *draft) fits(n int) bool {
	if d.size+n > maxBytes || !d.ring.running.reserve(n) {
		return false
	}
	d.size += n
	return true
}

// keep appends v to list if the bounds permit, and counts it in omitted otherwise. text is in v
// and size is the size of v without it.
func keep[T any](d *draft, list []T, v T, most, size int, text string, omitted *int) []T {
	if len(list) >= most || !d.fits(size+len(text)) {
		*omitted++
		d.ring.omitted.Add(1)
		return list
	}
	return append(list, v)
}

// cut returns at most n bytes of s that share no memory with a longer text.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:n-len("…")]), "") + "…"
}

// textOf returns the text of err, cut, and the empty string for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return cut(err.Error(), maxText)
}

// peer returns the provider with that ID, or nil.
func (d *draft) peer(id peer.ID) *Peer {
	for i := range d.rec.Peers {
		if d.rec.Peers[i].ID == id {
			return &d.rec.Peers[i]
		}
	}
	return nil
}

// add counts a request.
func (p *Peer) add(s Span) {
	p.Asked++
	p.Bytes += s.Bytes
	p.Extra += s.Extra
	switch s.Hedge {
	case "won":
		p.Hedges.Won++
	case "lost":
		p.Hedges.Lost++
	case "failed":
		p.Hedges.Failed++
	}
}

// keepSpan appends s to the spans of p. Of too many it drops the oldest but the first ones.
func (d *draft) keepSpan(p *Peer, s Span) {
	if len(p.Spans) == firstSpans+latestSpans {
		gone := p.Spans[firstSpans]
		copy(p.Spans[firstSpans:], p.Spans[firstSpans+1:])
		p.Spans = p.Spans[:len(p.Spans)-1]
		d.giveBack(spanSize + len(gone.Message))
		p.Omitted++
		d.rec.Omitted.Spans++
	}
	before := d.rec.Omitted.Spans
	p.Spans = keep(d, p.Spans, s, firstSpans+latestSpans, spanSize, s.Message, &d.rec.Omitted.Spans)
	p.Omitted += d.rec.Omitted.Spans - before
}

// giveBack returns n reserved bytes.
func (d *draft) giveBack(n int) {
	d.size -= n
	d.ring.running.release(n)
}

// counts returns the totals of a tree fetch.
func (d *draft) counts() *Counts {
	if d.rec.Tree == nil {
		d.rec.Tree = &Counts{}
	}
	return d.rec.Tree
}
