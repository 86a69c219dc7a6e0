package testnet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/testnet/script"
)

// pollEvery is the pause between two looks at what is expected.
const pollEvery = 100 * time.Millisecond

// expect waits until a condition holds on each of its nodes.
func (p *Player) expect(ctx context.Context, s script.Step) (Said, error) {
	within := s.Within
	if within == 0 {
		within = p.within
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if s.Condition.Kind == script.Whole {
		seen, err := watch(bounded, func() (string, bool, error) { return p.lookWhole(bounded, s.Name) })
		if err != nil {
			return nil, never(ctx, err, within, seen)
		}
		return Said{seen}, nil
	}
	var said Said
	for _, i := range s.Nodes.In(len(p.net.Members)) {
		m := p.net.Members[i-1]
		seen, err := watch(bounded, func() (string, bool, error) { return p.look(bounded, m, s) })
		if err != nil {
			return said, never(ctx, err, within, "on "+m.Name+": "+seen)
		}
		said = append(said, m.Name+": "+seen)
	}
	return said, nil
}

// watch looks until a condition holds, at most until ctx ends, and returns what it saw last.
func watch(ctx context.Context, look func() (seen string, holds bool, err error)) (seen string, err error) {
	seen = "nothing"
	for {
		now, holds, err := look()
		switch {
		case holds:
			return now, nil
		case status.Of(err) == status.BadRequest:
			return seen, err
		case err != nil && ctx.Err() == nil:
			seen = err.Error()
		case ctx.Err() == nil:
			seen = now
		}
		if err := limits.Sleep(ctx, pollEvery); err != nil {
			return seen, err
		}
	}
}

// never returns the error of an expectation that watch gave up, in a step that ctx bounds.
func never(ctx context.Context, err error, within time.Duration, seen string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Of(err) == status.BadRequest:
		return err
	}
	return &status.Error{
		Outcome: status.Timeout, Err: errNever,
		Message: fmt.Sprintf("%v within %s; last seen %s", errNever, within, seen),
	}
}

// lookWhole reads all of some content at the first node that runs and has not got it, or at each node if all have it.
func (p *Player) lookWhole(ctx context.Context, name string) (seen string, holds bool, err error) {
	root, err := p.root(name)
	if err != nil {
		return "", false, err
	}
	var at []*Member
	for _, m := range p.net.Members {
		if !m.Running() {
			continue
		}
		has, err := m.API.Keep(ctx, []b3.Root{root})
		if err != nil {
			return "", false, fmt.Errorf("%s: %w", m.Name, err)
		}
		if at = append(at, m); !has[0] {
			at = []*Member{m}
			break
		}
	}
	if len(at) == 0 {
		return "no node runs", false, nil
	}
	for _, m := range at {
		if err := read(ctx, m, root.String(), p.content(name)); err != nil {
			return "", false, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return fmt.Sprintf("every byte of %s read at %s", name, at[0].Name), true, nil
}

// look sees whether a condition holds on a node now, and says what it saw.
func (p *Player) look(ctx context.Context, m *Member, s script.Step) (seen string, holds bool, err error) {
	c := s.Condition
	switch c.Kind {
	case script.Ready, script.NotReady:
		return p.lookReady(ctx, m, c)
	case script.Peers:
		peers, err := m.API.Peers(ctx)
		return compared(c, "peers", float64(distinct(peers)), err)
	case script.Metric:
		page, err := p.net.page(ctx, m, "/metrics")
		if err != nil {
			return "", false, err
		}
		v, found := sumSeries(string(page), c)
		if !found {
			return "no series " + c.Series(), c.Holds(0), nil
		}
		return compared(c, c.Series(), v, nil)
	}
	root, err := p.root(s.Name)
	if err != nil {
		return "", false, err
	}
	if c.Kind == script.Providers {
		n := 0
		var failed error
		for _, err := range m.API.Providers(ctx, root.String(), 32) {
			if err != nil {
				failed = err
				break
			}
			n++
		}
		if status.Of(failed) == status.NotFound {
			failed = nil
		}
		return compared(c, "providers", float64(n), failed)
	}
	if c.Kind == script.Durability {
		n, err := fewest(ctx, m, root)
		return compared(c, "copies", float64(n), err)
	}
	if c.Kind == script.Named {
		return p.lookName(ctx, m, s, root)
	}
	held, err := m.API.Keep(ctx, []b3.Root{root}) // unlike Stat, Keep asks no other node
	if err != nil {
		return "", false, err
	}
	seen = s.Name + " is not whole here"
	if held[0] {
		seen = s.Name + " is whole here"
	}
	return seen, held[0] == (c.Kind == script.Has), nil
}

// fewest returns the number of copies of the part of a tree that has the fewest, as a node knows them.
func fewest(ctx context.Context, m *Member, root b3.Root) (n int, err error) {
	d, err := m.API.ObjectDurability(ctx, root.String(), false)
	if err != nil {
		return 0, err
	}
	n = d.Observed
	for e, err := range m.API.List(ctx, root.String()) {
		if status.Of(err) == status.BadRequest { // it is a file
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if e.Kind == api.Link {
			continue
		}
		below, err := fewest(ctx, m, e.Root)
		if err != nil {
			return 0, err
		}
		n = min(n, below)
	}
	return n, nil
}

func compared(c script.Condition, what string, v float64, err error) (string, bool, error) {
	return what + " " + strconv.FormatFloat(v, 'g', -1, 64), err == nil && c.Holds(v), err
}

func (p *Player) lookReady(ctx context.Context, m *Member, c script.Condition) (string, bool, error) {
	want := c.Kind == script.Ready
	if !m.Running() {
		return "it does not run", !want && c.Gate == "", nil
	}
	r, err := p.net.Readiness(ctx, m)
	if err != nil {
		return "", !want && c.Gate == "" && ctx.Err() == nil, err
	}
	closed := closedGates(r)
	seen := "ready"
	if len(closed) > 0 {
		seen = "not ready: " + strings.Join(closed, ", ")
	}
	if want {
		return seen, len(closed) == 0, nil
	}
	if c.Gate == "" {
		return seen, len(closed) > 0, nil
	}
	known := false
	for _, g := range r.Gates {
		if g.Name == c.Gate {
			if known = true; !g.Ready {
				return seen, true, nil
			}
		}
	}
	if !known {
		return "", false, status.Errorf(status.BadRequest, "there is no gate %q; there are %s", c.Gate, gateNames(r))
	}
	return seen, false, nil
}

// closedGates returns the gates that keep a node from being ready, in order.
func closedGates(r api.Readiness) []string {
	closed := []string{}
	for _, g := range r.Gates {
		if !g.Ready {
			closed = append(closed, g.Name)
		}
	}
	return closed
}

func gateNames(r api.Readiness) string {
	names := make([]string, len(r.Gates))
	for i, g := range r.Gates {
		names[i] = g.Name
	}
	return strings.Join(names, ", ")
}

// sumSeries adds up the series of a metrics page that have the condition's name and all
// its labels. found is false when there is none.
func sumSeries(page string, c script.Condition) (sum float64, found bool) {
	for line := range strings.SplitSeq(page, "\n") {
		rest, ok := strings.CutPrefix(line, c.Metric)
		if !ok || rest == "" {
			continue
		}
		labels := ""
		if rest[0] == '{' {
			end := strings.LastIndexByte(rest, '}')
			if end < 0 {
				continue
			}
			labels, rest = ","+rest[1:end], rest[end+1:]
		}
		fields := strings.Fields(rest)
		if rest == "" || rest[0] != ' ' || len(fields) == 0 || !hasLabels(labels, c.Labels) {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil {
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// hasLabels reports whether the text of a series' labels, with a comma before each, has
// all of want. Values are compared as text, since a condition cannot contain a value
// with a quotation mark or a backslash.
func hasLabels(text string, want []script.Label) bool {
	for _, l := range want {
		if !strings.Contains(text+",", ","+l.Name+`="`+l.Value+`",`) {
			return false
		}
	}
	return true
}
