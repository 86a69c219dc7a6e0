package content

import (
	"net/netip"

	"allium/internal/limits"
)

// The bounds of a listing that is sorted. One beyond them is sent in the order of its bytes.
const (
	maxSorted      = 10_000  // entries
	maxSortedBytes = 4 << 20 // bytes of the directory's manifests: 10,000 files with the longest names need less
)

// longListing is the number of bytes of manifests above which a listing is long. Its head is sent before its entries,
// so that a reader sees at once that they come.
const longListing = 64 << 10

// smallPage is the number of bytes that a page may hold in memory while its client reads it, without a part of
// gateway.page_bytes.
const smallPage = 64 << 10

// maxPageBytes bounds what the pages in gateway.listings hold together beside smallPage each, until their clients
// have them: sorted entries and rendered Markdown. A client has at most a third of the bytes while others are free.
const maxPageBytes = 24 << 20

// newPageBytes returns the limit of gateway.page_bytes.
func newPageBytes(r *limits.Registry) *limits.FairGate[netip.Prefix] {
	return limits.NewFairBytes[netip.Prefix](r, limits.Spec{
		Name: "gateway.page_bytes", Path: "sorted listings, rendered Markdown → clients",
		Policy: "the listing is not sorted; the Markdown is shown as it is written",
	}, maxPageBytes, 2)
}

// holdPage reserves n bytes of memory for a page until release is called. It returns false if there are not as many.
func (g *Handlers) holdPage(b *body, n int64) (release func(), ok bool) {
	key := b.w.From.Group
	if n <= smallPage {
		return func() {}, true
	}
	if g.pageBytes.EnterN(key, n) != nil {
		return nil, false
	}
	return func() { g.pageBytes.LeaveN(key, n) }, true
}
