package doctor

// Needs says what the check needs: a running node, or the machine on which it runs. Empty: neither.
func (c check) needs() string {
	if c.onNode {
		return "a running node"
	}
	return ""
}

// Listed is a check as the documentation lists it.
type Listed struct {
	Check
	Needs string // what it needs; empty: nothing
}

// Checks lists all checks, in the order in which a report has them.
func Checks() []Listed {
	list := make([]Listed, len(checks))
	for i, c := range checks {
		list[i] = Listed{c.Check, c.needs()}
	}
	return list
}
