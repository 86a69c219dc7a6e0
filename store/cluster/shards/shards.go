package shards

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

// shards gets parts of the shards of one coded object from wherever they are. It is safe for concurrent use.
type shards struct {
	c    *Coder
	root b3.Root // of the manifest
	m    *erasure.Manifest
	code *erasure.Code

	mu      sync.Mutex               // lock: leaf
	holders map[plan.Piece][]peer.ID // members that seem to hold a piece, the likeliest first
	failed  map[int]int              // parts of a shard that nobody gave, in a row
	here    []plan.Piece             // shards in the store, once members are asked
	asked   chan struct{}            // closed when the members were asked what they hold; nil: they were not
	compute map[int]int              // windows of a shard for which holders are asked second
}

// shards returns the shards of a coded object.
func (c *Coder) shards(root b3.Root, m *erasure.Manifest) (*shards, error) {
	code, err := erasure.NewCode(m.Layout)
	if err != nil {
		return nil, err
	}
	s := &shards{
		c: c, root: root, m: m, code: code,
		holders: map[plan.Piece][]peer.ID{}, failed: map[int]int{}, compute: map[int]int{},
	}
	for _, h := range c.deps.Holders(root) {
		s.holders[h.Piece] = append(s.holders[h.Piece], peer.ID(h.ID))
	}
	return s, nil
}

// part returns a range of a shard, in whole groups or to its end: from the store, else from a member.
func (s *shards) part(ctx context.Context, stripe, shard int, r b3.Range, wait wait) ([]byte, error) {
	root, size := s.m.Shard(stripe, shard)
	r.End = min(r.End, size)
	if r.Start >= r.End {
		return nil, nil
	}
	p := make([]byte, r.End-r.Start)
	err := s.read(ctx, root, p, r.Start)
	offset := s.m.Stripe(stripe).Range(shard).Start
	if err != nil && shard < s.m.Data {
		err = s.read(ctx, s.m.Object, p, offset+r.Start)
	}
	if err == nil {
		s.c.m.parts.WithLabelValues(fromHere).Inc()
		return p, nil
	}
	errs, known := err, len(s.at(plan.Shard(shard))) > 0
	err = s.getFrom(ctx, plan.Shard(shard), root, size, r, p, wait)
	if err != nil && shard < s.m.Data {
		errs = errors.Join(errs, err)
		whole := b3.Range{Start: offset + r.Start, End: offset + r.End}
		err = s.getFrom(ctx, plan.Whole, s.m.Object, s.m.Size, whole, p, wait)
	}
	if err != nil && !known && s.askMembers(ctx, shard) == nil && len(s.at(plan.Shard(shard))) > 0 {
		errs = errors.Join(errs, err)
		err = s.getFrom(ctx, plan.Shard(shard), root, size, r, p, wait)
	}
	if err == nil {
		s.c.m.parts.WithLabelValues(fromPeer).Inc()
		return p, nil
	}
	s.mu.Lock()
	s.failed[shard]++
	s.mu.Unlock()
	return nil, errors.Join(errs, err)
}

// getFrom gets a range of an object from one of the members that hold a piece. A member that does not give it, for
// another reason than its load, is not asked again. The error is not_found if there is no such member.
func (s *shards) getFrom(
	ctx context.Context, piece plan.Piece, root b3.Root, size int64, r b3.Range, p []byte, wait wait,
) error {
	errs := error(status.Errorf(status.NotFound, "no member is known that has %s", root))
	for _, from := range s.at(piece) {
		err := s.get(ctx, from, root, size, r, p, wait)
		switch o := status.Of(err); {
		case err == nil || ctx.Err() != nil:
			return err
		case o != status.Busy && o != status.Draining:
			s.mu.Lock()
			s.holders[piece] = slices.DeleteFunc(slices.Clone(s.holders[piece]),
				func(id peer.ID) bool { return id == from })
			s.mu.Unlock()
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// at returns the members that seem to hold a piece.
func (s *shards) at(p plan.Piece) []peer.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.holders[p])
}

// computesFirst reports whether the next window of a shard is to be computed before holders are asked.
func (s *shards) computesFirst(shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compute[shard] > 0
}

// came notes whether a window of a shard was computed, and whether that was tried first. A holder that was late is
// asked first again after computeWindows.
func (s *shards) came(shard int, computed, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !computed:
		s.compute[shard] = 0
	case !first:
		s.compute[shard] = computeWindows
	default:
		s.compute[shard]--
	}
}

// read reads from an object that is stored here.
func (s *shards) read(ctx context.Context, root b3.Root, p []byte, off int64) error {
	obj, err := s.c.deps.Store.Open(ctx, root)
	if err != nil {
		return err
	}
	defer obj.Close()
	if n, err := obj.Reader().ReadAt(p, off); n < len(p) {
		return obj.Failed(err)
	}
	return nil
}

// get gets a range of an object from a member into p.
func (s *shards) get(
	ctx context.Context, from peer.ID, root b3.Root, size int64, r b3.Range, p []byte, wait wait,
) error {
	if wait != nil {
		if err := wait(ctx, len(p)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	sink := &collector{p: p, r: r, size: size}
	req := object.GetRequest{Objs: []b3.Root{root}, Ranges: []b3.Range{r}, MaxSize: size}
	if err := s.c.deps.Objects.Get(ctx, from, req, sink); err != nil {
		return err
	}
	if sink.err == nil && sink.got < len(p) {
		return status.Errorf(status.Upstream, "%s sent %d of %d bytes", from, sink.got, len(p))
	}
	return sink.err
}

// collector is an object.Sink that keeps a range of an object. Start of the range is that of a group.
type collector struct {
	p    []byte
	r    b3.Range
	size int64
	got  int
	err  error // of the object
}

// Begin implements object.Sink.
func (c *collector) Begin(_ int, size int64) error {
	if size != c.size {
		return status.Errorf(status.Upstream, "the object has %d bytes, and the member says %d", c.size, size)
	}
	return nil
}

// Item implements object.Sink.
func (c *collector) Item(_ int, p b3.Proved) error {
	if at := p.Offset() - c.r.Start; !p.IsParent() && at >= 0 && at < int64(len(c.p)) {
		c.got += copy(c.p[at:], p.Data())
	}
	return nil
}

// End implements object.Sink.
func (c *collector) End(_ int, err error) error {
	c.err = err
	return nil
}

// parts returns a range of any k shards of a stripe but one, each in its place; the others are empty. Data shards that
// end before the range does are filled up with zeros. Those that failed are asked last, and one more whenever one fails
// or is late.
func (s *shards) parts(ctx context.Context, stripe, but int, r b3.Range, wait wait) ([][]byte, error) {
	if err := s.askMembers(ctx, but); err != nil {
		return nil, err
	}
	parts := make([][]byte, s.m.Layout.Shards())
	order, need := s.order(stripe, but, r, parts)
	if len(order) < need {
		return nil, erasure.TooFew(len(order), need)
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type result struct {
		shard int
		p     []byte
		err   error
	}
	results := make(chan result, len(order)) // bound: one of each shard
	next, running := 0, 0
	ask := func() {
		if next == len(order) {
			return
		}
		shard := order[next]
		next, running = next+1, running+1
		asking.Go(func() {
			p, err := s.part(ctx, stripe, shard, r, wait)
			results <- result{shard, p, err}
		})
	}
	for range need {
		ask()
	}
	late := time.NewTicker(hedgeAfter)
	defer late.Stop()
	var failed error
	for there := 0; there < need; {
		if running == 0 {
			s.c.m.parts.WithLabelValues(fromNowhere).Inc()
			return nil, errors.Join(erasure.TooFew(there+s.m.Data-need, s.m.Data), ctx.Err(), failed)
		}
		select {
		case got := <-results:
			running--
			if got.err != nil {
				failed = errors.Join(failed, got.err)
				ask()
				continue
			}
			parts[got.shard] = padded(got.p, r)
			there++
		case <-late.C:
			ask()
		}
	}
	return parts, nil
}

// order returns the shards in the order in which they are asked, and how many are needed. It puts zeros where
// shards have ended.
func (s *shards) order(stripe, but int, r b3.Range, parts [][]byte) (order []int, need int) {
	need = s.m.Data
	at := s.m.Stripe(stripe)
	for i := range s.m.Layout.Shards() {
		switch {
		case i == but:
		case at.Length(i) <= r.Start:
			parts[i] = padded(nil, r)
			need--
		default:
			order = append(order, i)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(order, func(a, b int) int { return s.failed[a] - s.failed[b] })
	return order, max(need, 0)
}

// padded returns p with zeros to the length of r.
func padded(p []byte, r b3.Range) []byte {
	return append(p, make([]byte, int(r.End-r.Start)-len(p))...)
}

// askMembers asks the members which pieces they hold, once, unless enough shards besides one are known without that. It
// returns when enough are known, or all have answered, or after haveTime.
func (s *shards) askMembers(ctx context.Context, but int) error {
	s.mu.Lock()
	enough, asked := s.enough(but), s.asked
	if !enough && asked == nil {
		s.asked = make(chan struct{})
	}
	mine := s.asked
	s.mu.Unlock()
	switch {
	case enough:
		return nil
	case asked == nil:
		defer close(mine)
		return s.ask(ctx, but)
	}
	select {
	case <-asked:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// ask asks the members for askMembers. If ctx ends, they may be asked again.
func (s *shards) ask(ctx context.Context, but int) error {
	// Nobody is asked for the object: a holder of a shard says that it has that, and would ask this node.
	var roots []b3.Root
	var pieces []plan.Piece
	for i := range s.m.Layout.Shards() {
		if root, size := s.m.Shard(0, i); size > 0 {
			roots, pieces = append(roots, root), append(pieces, plan.Shard(i))
		}
	}
	if has, err := s.c.deps.Store.Has(ctx, roots); err == nil && s.hold(s.c.deps.Self, pieces, has, but) {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, haveTime)
	defer cancel()
	members := s.c.deps.Members()
	var group errgroup.Group
	group.SetLimit(len(pieces))
	for _, to := range members[:min(len(members), maxAsked)] {
		if to == s.c.deps.Self {
			continue
		}
		group.Go(func() error {
			has, err := s.c.deps.Objects.Have(asking, to, roots)
			if err == nil && s.hold(to, pieces, has, but) { // one that does not answer is no holder
				cancel()
			}
			return nil
		})
	}
	_ = group.Wait() // its functions return nil
	if ctx.Err() != nil {
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
	}
	return ctx.Err()
}

// hold notes which of the pieces a member, or this node, holds, and reports whether enough besides one are known now.
func (s *shards) hold(id peer.ID, pieces []plan.Piece, has []b3.Presence, but int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range has {
		switch known := s.holders[pieces[i]]; {
		case p != b3.Complete, slices.Contains(known, id):
		case id == s.c.deps.Self:
			s.here = append(s.here, pieces[i])
		default:
			s.holders[pieces[i]] = append(known, id)
		}
	}
	return s.enough(but)
}

// enough reports whether it is known where as many shards are, besides one, as make the object. The caller holds s.mu.
func (s *shards) enough(but int) bool {
	known := 0
	for i := range s.m.Layout.Shards() {
		if p := plan.Shard(i); i != but && (len(s.holders[p]) > 0 || slices.Contains(s.here, p)) {
			known++
		}
	}
	return known >= s.m.Data-s.m.Empty()
}

// rebuilt returns a range of a shard that is computed from k others.
func (s *shards) rebuilt(ctx context.Context, stripe, shard int, r b3.Range, wait wait) ([]byte, error) {
	r.End = min(r.End, s.m.Stripe(stripe).Length(shard))
	parts, err := s.parts(ctx, stripe, shard, r, wait)
	if err != nil {
		return nil, err
	}
	wanted := make([]bool, len(parts))
	wanted[shard] = true
	if err := rebuild(ctx, s.c.deps.Cores, s.code, parts, wanted); err != nil {
		return nil, err
	}
	s.c.m.parts.WithLabelValues(fromOthers).Inc()
	return parts[shard], nil
}
