package upkeep

import (
	"time"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

// Sum counts objects and their copies.
type Sum struct {
	Objects     int   // that are planned
	Checking    int   // see plan.Standing
	AtRisk      int   // with fewer copies that count than their targets ask for
	Unreachable int   // of those at risk
	Lost        int   // that cannot be read: every member said that it holds nothing of them
	Behind      int   // at risk or lost, and had all their copies since the node started
	Wanted      int   // copies that targets ask for
	Observed    int   // copies that count
	Missing     int64 // bytes of the copies that are missing, of objects that are at risk or lost
}

func (s *Sum) add(o Sum) {
	s.Objects += o.Objects
	s.Checking += o.Checking
	s.AtRisk += o.AtRisk
	s.Unreachable += o.Unreachable
	s.Lost += o.Lost
	s.Behind += o.Behind
	s.Wanted += o.Wanted
	s.Observed += o.Observed
	s.Missing += o.Missing
}

// count returns the Sum of one object.
func (e *entry) count(v *plan.View, p plan.Params, now time.Time) Sum {
	at := e.At(v, p, now)
	r := Sum{Objects: 1, Wanted: at.Wanted(), Observed: at.Observed()}
	switch at.Standing() {
	case plan.Met:
		return r
	case plan.Checking:
		r.Checking = 1
		return r
	case plan.AtRisk:
		r.AtRisk = 1
	case plan.Unreachable:
		r.AtRisk, r.Unreachable = 1, 1
	case plan.Lost:
		r.Lost = 1
	}
	r.Missing = int64(r.Wanted-r.Observed) * e.Object.Size
	if e.placed {
		r.Behind = 1
	}
	return r
}

// Report is the state of the copies of a node's objects, as the node knows it.
type Report struct {
	Sum
	Beyond    Beyond        // what asks for more copies than there are members
	Unplanned int           // objects with a target for which there is no room
	ETA       time.Duration // until the missing copies are sent, at the rate of the latest sends; 0: not known
	Ready     bool          // every pin was looked at since the node started
	LastOnly  bool          // more than a third of the members vanished together: only last copies are sent
	Members   []plan.Member
}

// reports say how far the copies are.
type reports struct {
	*shared
	finder  *finder
	scanner *scanner
	planner *planner
	sender  *sender
}

// Report sums up what is known of all objects. It looks at each.
func (rs *reports) Report() Report {
	v := rs.deps.View()
	now := rs.deps.Now()
	r := Report{LastOnly: v.LastOnly, Members: v.Members()}
	rs.inv.eachPage(v, func(pg *page, same bool) {
		if same && now.Before(pg.until) {
			r.add(pg.sum)
			return
		}
		for k := range pg.All {
			if known(k) {
				r.add(rs.inv.unpack(k, nil, now).count(v, rs.p, now))
			}
		}
	})
	members := present(v)
	rs.inv.mu.Lock()
	for _, e := range rs.inv.active {
		r.add(e.count(v, rs.p, now))
		r.Beyond.add(e, v, members)
	}
	r.Unplanned, r.Ready = rs.inv.leftOut(), rs.inv.passes > 0
	rs.inv.mu.Unlock()
	r.ETA = rs.sender.jobs.eta(r.Missing, now)
	return r
}

// Sum returns the counts of the latest whole tick, which are up to Params.Tick old. Report counts anew.
func (rs *reports) Sum() Sum { return rs.planner.latest.get() }

// ObjectReport is the state of the copies of one object, as a node knows it.
type ObjectReport struct {
	plan.Status
	Size  int64             // of the object
	Asked []Requester       // the nodes that ask for copies
	Coded *erasure.Manifest // nil: whole copies are kept
	Place []plan.Explained  // where copies belong, if that was asked for
}

// Object returns what is known of the copies of one object. With explain it says where they belong.
// The error is not_found if the object has no target, or is not planned for lack of room.
func (rs *reports) Object(root b3.Root, explain bool) (ObjectReport, error) {
	v := rs.deps.View()
	rs.inv.mu.Lock()
	defer rs.inv.mu.Unlock()
	e := rs.inv.entryFor(root)
	if e == nil {
		return ObjectReport{}, notPlanned(root)
	}
	r := ObjectReport{Status: e.At(v, rs.p, rs.deps.Now()).Status(), Size: e.Object.Size, Coded: e.coded}
	r.Asked = rs.inv.asking(root, v)
	if e.coded != nil {
		r.Size = e.coded.Size
	}
	if explain {
		r.Place = v.Explain(e.Object, max(r.Wanted, 1))
	}
	return r, nil
}

func notPlanned(root b3.Root) error {
	return status.Errorf(status.NotFound,
		"no target of copies is known for %s; `allium pin add KEY --rf 3` sets one", root)
}

// Holders returns the members that proved a piece of the coded object of a manifest, with that, and whether they
// are present.
func (rs *reports) Holders(manifest b3.Root) []plan.Holder {
	v := rs.deps.View()
	rs.inv.mu.Lock()
	defer rs.inv.mu.Unlock()
	e := rs.inv.active[manifest]
	if e == nil {
		return nil
	}
	var list []plan.Holder
	for _, c := range e.At(v, rs.p, rs.deps.Now()).Status().Copies {
		if c.State.Readable() && !c.Here {
			list = append(list, plan.Holder{ID: c.ID, Piece: c.Piece})
		}
	}
	return list
}
