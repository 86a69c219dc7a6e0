package upkeep

import (
	"sync"
	"sync/atomic"
	"time"

	"allium/store/cluster/plan"
	"allium/store/meta"
)

// Handover is the progress of this node in handing its copies over to other members.
type Handover struct {
	Since time.Time // zero: it hands nothing over. Proofs count from the latest step of a [plan.Page] before it
	// Ready says that all pins were looked at since. Before that Left is no result.
	Ready     bool
	Objects   int   // that are stored here, with targets that ask for copies
	Left      int   // of them, that fewer others hold than are asked for, or did not prove since
	LeftBytes int64 // of these
	Blocked         // of at most maxStuck objects that are left and were looked at

	Alone     int   // pins that ask for no copies: what they keep is on this node alone
	Unplanned int   // objects for which there is no room
	Partial   bool  // a directory or an object could not be read, so there may be more
	LastOnly  bool  // more than a third of the members vanished together: only last copies are sent
	SendErr   error // of the latest send, nil if that succeeded
}

// Done reports whether no object of this node needs the copy here.
func (h *Handover) Done() bool {
	return !h.Since.IsZero() && h.Ready && h.Left == 0 && h.Unplanned == 0 && !h.Partial
}

// maxStuck is the maximum number of objects that are left for which the node checks whether they can be handed over.
const maxStuck = 1024

// handing says which passes over the pins a handover waits for, and what they found. It is safe for concurrent use.
type handing struct {
	hurry atomic.Bool // the next tick is a whole one

	mu      sync.Mutex // lock: leaf
	began   uint64     // the latest pass that began
	after   uint64     // the pass that was latest when the handover began; a later one has to end
	ended   uint64     // the latest pass that ended
	alone   int        // of that pass
	partial bool       // of that pass
}

// start has the next tick look at all objects, and a pass end that begins from now on.
func (h *handing) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.after = h.began
	h.hurry.Store(true)
}

// begin notes the start of a pass.
func (h *handing) begin(pass uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = pass
}

// end notes the end of the pass that began last.
func (h *handing) end(of *scan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended, h.alone, h.partial = h.began, of.alone, of.failed
	if h.ended <= h.after {
		h.hurry.Store(true) // and another one, which began later
	}
}

// report adds what the latest pass found.
func (h *handing) report(to *Handover) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.Ready, to.Alone, to.Partial = h.ended > h.after, h.alone, h.partial
}

// StartHandover has this node hand its copies over soon: Deps.Draining says that it does. Other members then prove
// their copies again, and what they have not got is sent to them.
func (s *Service) StartHandover() {
	s.scanner.handing.start()
	s.wakeUp()
}

// Hurry has the next tick follow at once, and look at all objects.
func (s *Service) Hurry() {
	s.scanner.handing.hurry.Store(true)
	s.wakeUp()
}

// keepsAlone reports whether no target, of this pin or another one, asks for copies of the pin's object.
func (n *inventory) keepsAlone(p meta.Pin) bool {
	if p.Target.Wants() || meta.OfCluster(p.Label) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.peek(p.Root)
	return e == nil || e.Wanted() == 0
}

// Handover returns how far this node is with handing its copies over. It looks at each object.
func (rs *reports) Handover() Handover {
	since := rs.deps.Draining()
	if since.IsZero() {
		return Handover{}
	}
	v, now := rs.deps.View(), rs.deps.Now()
	h := Handover{Since: since, LastOnly: v.LastOnly, SendErr: rs.sender.jobs.failure()}
	rs.scanner.handing.report(&h) // before the objects are counted: a pass that ends meanwhile is one too late
	h.Ready = h.Ready && len(rs.finder.pinned.list()) == 0
	rs.inv.mu.Lock() // for all of it, so that none is missed that moves
	defer rs.inv.mu.Unlock()
	for _, e := range rs.inv.active {
		h.count(e, v, rs.p, now)
	}
	for i := range rs.inv.pages {
		if pg := &rs.inv.pages[i]; pg.Page != nil {
			for k := range pg.All {
				if known(k) {
					h.count(rs.inv.unpack(k, nil, now), v, rs.p, now)
				}
			}
		}
	}
	h.Unplanned = rs.inv.leftOut()
	if self, ok := v.Member(rs.deps.Self); !ok || !self.Draining {
		h.Ready = false // the offer that says so is not sent yet
	}
	return h
}

// count adds an object.
func (h *Handover) count(e *entry, v *plan.View, p plan.Params, now time.Time) {
	if !e.Here || e.Wanted() == 0 {
		return
	}
	h.Objects++
	if e.At(v, p, now).HandedOver(p.Floor(h.Since)) {
		return
	}
	h.Left++
	h.LeftBytes += e.Object.Size
	if h.Left > maxStuck {
		return
	}
	if t := e.At(v, p, now).Takers(false); t.Members < t.Wanted {
		if h.Stuck == 0 {
			h.First, h.Takers = e.Root, t
		}
		h.Stuck++
	}
}
