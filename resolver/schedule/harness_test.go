package schedule

import (
	"fmt"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// failer is what *testing.T and *rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// stored is the groups that are here.
type stored struct {
	here []bool
	held int64
}

func (k Kind) String() string {
	return [...]string{
		"ask", "cancel", "trim", "notify", "follow", "find", "question", "acquire", "release", "fail",
		"give up", "done", "look", "renew",
	}[k]
}

func (r Run) String() string { return fmt.Sprintf("[%d,%d)", r.Lo, r.Hi) }

func (w Why) String() string { return [...]string{"", "late", "overtaken", "unwanted"}[w] }

func (s *stored) Missing(from, to int64) (lo, hi int64) {
	for lo = from; lo < to && s.here[lo]; lo++ {
	}
	for hi = lo; hi < to && !s.here[hi]; hi++ {
	}
	return lo, hi
}

func (s *stored) Held() int64 { return s.held }

func (s *stored) put(g int64) (fresh bool) {
	if s.here[g] {
		return false
	}
	s.here[g] = true
	s.held += b3.GroupSize
	return true
}

// inflight is a request as the harness sees it.
type inflight struct {
	Result
	by       ProviderID
	run      Run
	proof    bool
	next, hi int64
	asked    time.Duration
	progress Progress
	canceled bool
}

// harness keeps its own account of a transfer and fails on whatever breaks the
// invariants of the package.
type harness struct {
	t   failer
	cfg Config
	m   *Machine

	now       time.Duration
	permitted bool
	finding   bool
	questions map[ProviderID]bool
	providers int
	lied      map[ProviderID]bool
	banned    map[ProviderID]bool // lied, or have not said that they have a part
	part      map[ProviderID]bool // have said so
	requests  map[RequestID]*inflight
	last      RequestID
	demands   map[WaiterID]Demand
	pos       map[WaiterID]int64
	failed    map[WaiterID]bool
	groups    int64
	stored    *stored
	doubled   int64
	end       Kind // Done or GiveUp when it has
	ended     bool

	// late says that the machine is not told of a group yet, though it is here, as
	// when it comes while the driver looks; nil: never.
	late func() bool
}

func backoff(n int) time.Duration { return 75 * time.Millisecond << n }

func newHarness(t failer, cfg Config) *harness {
	if cfg.Backoff == nil {
		cfg.Backoff = backoff
	}
	return &harness{
		t: t, cfg: cfg, m: New(cfg), questions: map[ProviderID]bool{}, banned: map[ProviderID]bool{},
		part:     map[ProviderID]bool{},
		lied:     map[ProviderID]bool{},
		requests: map[RequestID]*inflight{}, demands: map[WaiterID]Demand{}, pos: map[WaiterID]int64{},
		failed: map[WaiterID]bool{},
	}
}

func (h *harness) join(id WaiterID, w Demand) {
	h.demands[id] = w
	h.m.Join(id, w)
}

func (h *harness) leave(id WaiterID) {
	delete(h.demands, id)
	h.m.Leave(id)
}

func (h *harness) read(id WaiterID, g int64) {
	h.pos[id] = g
	h.m.Read(id, g)
}

func (h *harness) found() {
	h.finding = false
	h.providers++
	h.m.Known(h.providers)
	h.m.Found()
}

func (h *harness) none() {
	h.finding = false
	h.m.NoneFound()
}

func (h *harness) heard(p ProviderID, a Holding) {
	delete(h.questions, p)
	h.part[p] = a.Presence == b3.Partial
	h.banned[p] = !h.part[p] || h.lied[p]
	h.m.Heard(h.now, p, a)
}

// size makes the size known, in groups.
func (h *harness) size(groups int64) {
	h.groups, h.stored = groups, &stored{here: make([]bool, groups)}
	h.sized()
}

func (h *harness) sized() {
	h.m.Sized(h.groups*b3.GroupSize, h.stored)
}

// got delivers the groups up to next.
func (h *harness) got(id RequestID, next int64) {
	r := h.requests[id]
	if r.progress.First == 0 {
		r.progress.First = max(h.now-r.asked, 1)
	}
	r.progress.Sent = max(r.progress.Sent, 1)
	for ; r.next < next; r.next++ {
		if h.stored.put(r.next) {
			r.Fresh++
		} else {
			r.Extra++
		}
	}
	r.progress.Next, r.progress.Alive = r.next, max(h.now-r.asked, 1)
	if h.late == nil || !h.late() {
		h.m.Progress(id, r.progress)
	}
}

func (h *harness) sent(id RequestID) {
	r := h.requests[id]
	r.progress.Next, r.progress.Sent = r.next, 1
	h.m.Progress(id, r.progress)
}

// finish ends a request.
func (h *harness) finish(id RequestID, o status.Outcome, again bool) Verdict {
	r := h.requests[id]
	delete(h.requests, id)
	r.Outcome, r.Again = o, again
	r.progress.Next = r.next
	h.m.Progress(id, r.progress)
	v := h.m.Ended(h.now, id, r.Result)
	if o == status.Corrupt {
		if !v.Fault && !h.ended {
			h.t.Fatalf("a false group is no fault of provider %d", r.by)
		}
		h.lied[r.by], h.banned[r.by] = true, true
	}
	return v
}

// advance lets the machine act at now and checks what it does.
func (h *harness) advance(now time.Duration) []Action {
	h.t.Helper()
	h.now = now
	actions := h.m.Advance(now)
	for _, a := range actions {
		if h.ended {
			h.t.Fatalf("%v after the end", a)
		}
		h.check(a)
	}
	if at, ok := h.m.Wake(); ok && at <= now {
		h.t.Fatalf("wake at %v, it is %v", at, now)
	}
	if len(h.m.requests) != len(h.requests) {
		h.t.Fatalf("%d in flight, %d were asked", len(h.m.requests), len(h.requests))
	}
	return actions
}

func (h *harness) check(a Action) {
	h.t.Helper()
	switch a.Kind {
	case Ask:
		h.checkAsk(a)
	case Cancel:
		r := h.requests[a.Request]
		if r == nil || r.canceled || a.Why == NotCanceled {
			h.t.Fatalf("%v: of %v", a, r)
		}
		r.canceled = true
	case Trim:
		r := h.requests[a.Request]
		if a.At >= r.hi || h.late == nil && a.At < r.next && r.next < r.hi {
			h.t.Fatalf("%v: of %v", a, r)
		}
		r.hi = a.At
	case Notify, Follow:
	case Find:
		if h.finding {
			h.t.Fatalf("%v: twice", a)
		}
		h.finding = true
	case Question:
		if h.questions[a.Provider] {
			h.t.Fatalf("%v: twice", a)
		}
		h.questions[a.Provider] = true
		if !h.part[a.Provider] {
			h.banned[a.Provider] = true // until it answers
		}
	case Acquire, Release:
		h.permitted = false
	case Fail:
		if h.failed[a.Waiter] {
			h.t.Fatalf("%v: twice", a)
		}
		h.failed[a.Waiter] = true
	case GiveUp, Done:
		h.ended, h.end = true, a.Kind
		if lo, _ := h.missing(); a.Kind == Done && lo < h.groups {
			h.t.Fatalf("%v: group %d is missing", a, lo)
		}
	}
}

func (h *harness) missing() (lo, hi int64) {
	if h.stored == nil {
		return 0, 0
	}
	return h.stored.Missing(0, h.groups)
}

func (h *harness) checkAsk(a Action) {
	h.t.Helper()
	if a.Request != h.last+1 || int(a.Provider) >= h.providers {
		h.t.Fatalf("%v: number", a)
	}
	h.last = a.Request
	if !h.permitted {
		h.t.Fatalf("%v: without a permit", a)
	}
	if h.banned[a.Provider] {
		h.t.Fatalf("%v: of one that is not to be asked", a)
	}
	mine := 1
	for _, r := range h.requests {
		if r.by == a.Provider {
			mine++
		}
	}
	if mine > urgentRequests {
		h.t.Fatalf("%v: %d requests to one provider", a, mine)
	}
	if a.Proof != (h.stored == nil) {
		h.t.Fatalf("%v: the proof of the size", a)
	}
	if h.stored != nil {
		h.checkRun(a)
	}
	h.requests[a.Request] = &inflight{by: a.Provider, run: a.Run, proof: a.Proof, next: a.Run.Lo, hi: a.Run.Hi,
		asked: h.now}
}

// checkRun checks what is asked for when the size is known.
func (h *harness) checkRun(a Action) {
	h.t.Helper()
	if a.Run.Lo < 0 || a.Run.Lo >= a.Run.Hi || a.Run.Hi > h.groups {
		h.t.Fatalf("%v: of %d groups", a, h.groups)
	}
	doubles := 0
	for _, r := range h.requests {
		if r.next < a.Run.Hi && a.Run.Lo < r.hi {
			doubles++
			if r.by == a.Provider {
				h.t.Fatalf("%v: it was asked for that", a)
			}
		}
	}
	if doubles > 1 {
		h.t.Fatalf("%v: doubles %d requests", a, doubles)
	}
	if doubles > 0 {
		h.doubled += a.Run.Hi - a.Run.Lo
		if most := (hedgedFree + h.stored.held/hedgedPart) / b3.GroupSize; h.doubled > most {
			h.t.Fatalf("%v: %d groups doubled, at most %d", a, h.doubled, most)
		}
	}
	for id, w := range h.demands {
		_, end, ok := w.Cut(h.groups * b3.GroupSize)
		start, _, _ := w.Cut(h.groups * b3.GroupSize)
		lo, hi := start/b3.GroupSize, b3.Groups(end)
		if w.Whole || ok && a.Run.Lo >= lo && a.Run.Hi <= min(hi, max(lo, h.pos[id])+w.Ahead) {
			return
		}
	}
	h.t.Fatalf("%v: nobody demands it so far ahead", a)
}
