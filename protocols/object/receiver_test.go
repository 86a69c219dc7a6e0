package object

import (
	"context"
	"fmt"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// token is what memReceiver takes as a capability.
const token = "a token"

// memReceiver is a Receiver that keeps what arrives in RAM.
type memReceiver struct {
	store  *memStore
	token  string
	commit func() error // nil: nothing

	mu       sync.Mutex
	refuse   func(root b3.Root) error          // of Ingest and Take; nil: nothing
	write    func(root b3.Root, g int64) error // of Ingest.Write; nil: nothing
	parts    map[b3.Root]*memPart
	throttle func(ctx context.Context, n int) error // nil: it does not wait
	closed   int                                    // intakes
	offers   []Offer
}

// memPart is what arrived of an object.
type memPart struct {
	r      *memReceiver
	root   b3.Root
	data   []byte
	groups []bool
	writes int  // groups that were written
	proved bool // the size
	stored bool
	open   bool // between Ingest and Commit or Suspend
}

// script sets what the receiver answers from now on, also while an earlier put ends.
func (r *memReceiver) script(refuse func(root b3.Root) error, write func(root b3.Root, g int64) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse, r.write = refuse, write
}

// refused returns why the receiver does not take an object, as its script says.
func (r *memReceiver) refused(root b3.Root) error {
	r.mu.Lock()
	refuse := r.refuse
	r.mu.Unlock()
	if refuse == nil {
		return nil
	}
	return refuse(root)
}

// wrote returns why a group is not stored, as the script says.
func (r *memReceiver) wrote(root b3.Root, g int64) error {
	r.mu.Lock()
	write := r.write
	r.mu.Unlock()
	if write == nil {
		return nil
	}
	return write(root, g)
}

func newMemReceiver(s *memStore) *memReceiver {
	return &memReceiver{store: s, token: token, parts: map[b3.Root]*memPart{}}
}

func (r *memReceiver) Authorize(_ context.Context, capability []byte, o *Offer) (Intake, error) {
	switch string(capability) {
	case "":
		return nil, status.Errorf(status.Unauthenticated, "test receiver: no token")
	case r.token:
	default:
		return nil, status.Errorf(status.Forbidden, "test receiver: another token")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers = append(r.offers, *o)
	return &memIntake{r: r, o: *o}, nil
}

// part returns what is there of an object.
func (r *memReceiver) part(root b3.Root) *memPart {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[root]
}

// closes returns how many intakes were closed.
func (r *memReceiver) closes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

type memIntake struct {
	r     *memReceiver
	o     Offer
	taken map[int][]byte
}

func (in *memIntake) Ingest(context.Context) (Ingest, error) {
	root, size := in.o.Objs[0], in.o.Sizes[0]
	if err := in.r.refused(root); err != nil {
		return nil, err
	}
	if in.r.store.get(root) != nil {
		return nil, nil
	}
	size = min(size, 64<<20) // a claim, for which nothing is allocated
	in.r.mu.Lock()
	defer in.r.mu.Unlock()
	p := in.r.parts[root]
	if p == nil || int64(len(p.data)) != size {
		p = &memPart{r: in.r, root: root, data: make([]byte, size), groups: make([]bool, b3.Groups(size))}
		in.r.parts[root] = p
	}
	if p.open {
		return nil, status.Errorf(status.Busy, "test receiver: it arrives already")
	}
	p.open, p.writes = true, 0
	return &memIngest{memPart: p}, nil
}

func (in *memIntake) Wishes(context.Context) ([]Wish, error) {
	wishes := make([]Wish, len(in.o.Objs))
	for i, root := range in.o.Objs {
		if in.r.refused(root) != nil {
			wishes[i] = Refused
		} else if in.r.store.get(root) != nil {
			wishes[i] = Present
		}
	}
	return wishes, nil
}

func (in *memIntake) Take(_ context.Context, i int, p b3.Proved) error {
	if !p.Valid() || p.Root() != in.o.Objs[i] || !p.SizeProved() {
		panic("an item that is not proved")
	}
	if err := in.r.wrote(p.Root(), 0); err != nil {
		return err
	}
	if in.taken == nil {
		in.taken = map[int][]byte{}
	}
	in.taken[i] = p.Clone().Data()
	return nil
}

func (in *memIntake) Commit(_ context.Context, done []int) (errs []error, replies [][]byte) {
	errs = make([]error, len(done))
	for n, i := range done {
		if in.r.commit != nil {
			errs[n] = in.r.commit()
		}
		if errs[n] == nil {
			in.r.store.put(in.taken[i])
		}
		if in.o.About != nil {
			replies = append(replies, fmt.Appendf(nil, "%s of %d", in.o.About, i))
		}
	}
	return errs, replies
}

func (in *memIntake) Throttle(ctx context.Context, n int) error {
	if in.r.throttle == nil {
		return nil
	}
	return in.r.throttle(ctx, n)
}

func (in *memIntake) Close(context.Context) {
	in.r.mu.Lock()
	defer in.r.mu.Unlock()
	in.r.closed++
}

func (p *memPart) Missing(from, to int64) (lo, hi int64) {
	known := min(to, int64(len(p.groups)))
	for lo = from; lo < known && p.groups[lo]; lo++ {
	}
	for hi = lo; hi < known && !p.groups[hi]; hi++ {
	}
	if hi == known {
		hi = to
	}
	return lo, hi
}

func (p *memPart) Write(item b3.Proved) error {
	if !item.Valid() || item.Root() != p.root {
		panic("an item that is not proved")
	}
	p.proved = p.proved || item.SizeProved()
	if item.IsParent() {
		return nil
	}
	if !p.proved {
		panic("a group before the size")
	}
	if err := p.r.wrote(p.root, item.Group()); err != nil {
		return err
	}
	p.writes++
	p.groups[item.Group()] = true
	copy(p.data[item.Offset():], item.Data())
	return nil
}

func (p *memPart) Commit(context.Context) error {
	if lo, hi := p.Missing(0, int64(len(p.groups))); lo < hi || !p.proved || !p.open {
		panic("the object is not whole")
	}
	if p.r.commit != nil {
		if err := p.r.commit(); err != nil {
			return err
		}
	}
	p.r.store.put(p.data)
	p.stored = true
	return nil
}

// memIngest is a put of a part. It ends once.
type memIngest struct {
	*memPart
	ended bool
}

func (in *memIngest) Suspend() {
	in.r.mu.Lock()
	defer in.r.mu.Unlock()
	if !in.ended {
		in.ended, in.open = true, false
	}
}

func (in *memIngest) Commit(ctx context.Context) error {
	defer in.Suspend()
	return in.memPart.Commit(ctx)
}
