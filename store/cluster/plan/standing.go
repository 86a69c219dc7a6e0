package plan

// Standing says whether an object has the copies that its targets ask for, as far as a node knows.
type Standing uint8

// Standings. All but Met have fewer copies that count than are asked for.
const (
	Met         Standing = iota // or nothing is asked for
	Checking                    // copies are being placed, or members that may hold some have not answered yet
	AtRisk                      // copies are missing
	Unreachable                 // so many that the object cannot be read until a member answers that may hold one
	Lost                        // so many that it cannot be read, and every member said that it holds none
)

// String returns the standing as the API names it.
func (s Standing) String() string {
	return [...]string{"met", "checking", "at_risk", "unreachable", "lost"}[s]
}

// Standing returns what is known of the object.
func (m Moment) Standing() Standing {
	want, holders := m.Wanted(), m.holders()
	covered := holders.covered(want)
	if covered == want {
		return Met
	}
	if from, _ := m.from(covered); m.now.Before(from) {
		return Checking
	}
	if !m.readable(append(holders, m.reachable()...)) {
		return m.unread()
	}
	if m.Sure || !m.short.IsZero() && covered+m.coming() < want {
		return AtRisk
	}
	return Checking
}

// reachable returns copies at members that are present, whether or not they count.
func (m Moment) reachable() (list copies) {
	if m.Here {
		list = append(list, holding{m.v.Self, m.Own})
	}
	for i := range m.seen {
		if s := &m.seen[i]; m.v.present(s.id) && (s.proof == proved || s.proof == leaving) {
			list = append(list, holding{s.id, s.piece})
		}
	}
	return list
}

// coming returns how many copies more there may be soon: at members that have not answered, and while somebody waits,
// at those that get one.
func (m Moment) coming() (n int) {
	for i := range m.seen {
		s := &m.seen[i]
		if !m.Awaited {
			if s.open(m) {
				n++
			}
			continue
		}
		to := m.v.find(s.id)
		next := s.proof == absent && s.fails == 0 && m.now.Sub(m.short) < m.p.Grace // it gets one soon
		if s.open(m) && s.late == 0 || to != nil && to.takes(m.Size) && (s.sending || next) {
			n++
		}
	}
	return n
}

// unread returns the standing of an object that cannot be read from what is known: Checking until all members that are
// present have answered since then, and its origins and those without a copy were told of it. Those may have removed
// their targets, or find that they have a copy.
func (m Moment) unread() Standing {
	if m.poll.view != m.v.version || !m.poll.done || m.lacks.IsZero() {
		return Checking
	}
	for i := range m.seen {
		s := &m.seen[i]
		old := s.proof == absent && !s.none // its answer
		waits := s.claimed || old || s.told == 0 && (s.proof == absent || m.asks(s.id))
		if s.open(m) || waits && s.late == 0 && m.v.present(s.id) {
			return Checking
		}
	}
	for i := range m.v.members {
		x := &m.v.members[i]
		s := m.replica(x.ID)
		switch {
		case x.ID == m.v.Self, s != nil && s.proof == absent && s.none:
		case x.Gone, s != nil && (s.proof == unknown || s.proof == absent):
			return Unreachable
		}
	}
	return Lost
}
