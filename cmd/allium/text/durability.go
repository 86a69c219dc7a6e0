package text

import (
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
)

// Durability says how far a node is with copies: a line for all objects, and one for each member.
func Durability(d api.Durability, quiet bool) string {
	if quiet {
		return fmt.Sprintf("%d %d %d %d", d.Objects, d.AtRisk, d.Lost, d.Checking)
	}
	var b strings.Builder
	switch {
	case d.Objects == 0 && !d.Ready:
		b.WriteString("the node has just started and has not looked at its pins yet\n")
	case d.Objects == 0:
		b.WriteString("no pin asks for copies; `allium pin add KEY --rf 3` does\n")
	default:
		fmt.Fprintf(&b, "%s with a target: %d at risk, %d lost, %d checking; %d of %d copies\n",
			Plural(d.Objects, "object"), d.AtRisk, d.Lost, d.Checking, d.Observed, d.Wanted)
	}
	if d.Unreachable > 0 {
		fmt.Fprintf(&b, "%s at risk cannot be read until a member answers that is silent\n", Plural(d.Unreachable, "object"))
	}
	if d.Missing > 0 {
		fmt.Fprintf(&b, "missing: %s", size(d.Missing))
		if d.ETASeconds > 0 {
			eta := time.Duration(d.ETASeconds * float64(time.Second))
			fmt.Fprintf(&b, ", about %s at the rate of the latest sends", rounded(eta))
		}
		b.WriteByte('\n')
	}
	if d.Unplanned > 0 {
		fmt.Fprintf(&b, "%s more are not planned, as this node plans only so many\n", Plural(d.Unplanned, "object"))
	}
	if o := d.Beyond; o != nil {
		fmt.Fprintf(&b, "%s with more copies asked for than the cluster has nodes, such as %s: %s asks for %s\n",
			Plural(o.Objects, "object"), o.First, o.By.ID, o.By.Target)
	}
	if d.Evacuation != nil {
		b.WriteString(Evacuation(*d.Evacuation) + "\n")
	}
	if d.LastOnly {
		b.WriteString("more than a third of the members vanished together: only last copies are sent, for an hour " +
			"at most; `allium durability --resume` ends that\n")
	}
	if len(d.Members) == 0 {
		b.WriteString("this node has no key of a cluster: `allium token key rotate` makes one, and copies of " +
			"capability.keys join other nodes")
		return b.String()
	}
	for i, m := range d.Members {
		fmt.Fprintf(&b, "%s  %-8s  %s of %s free%s", m.ID, m.State, size(int64(m.Free)), size(int64(m.Capacity)), where(m))
		if m.Self {
			b.WriteString("  this node")
		}
		if i < len(d.Members)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func where(m api.Member) (s string) {
	for _, p := range []struct{ name, value string }{{"region", m.Region}, {"domain", m.Domain}, {"network", m.Network}} {
		if p.value != "" {
			s += "  " + p.name + " " + p.value
		}
	}
	return s
}

// ObjectDurability says who holds copies of an object.
func ObjectDurability(d api.ObjectDurability, now time.Time, quiet bool) string {
	if quiet {
		return fmt.Sprintf("%d %d", d.Observed, d.Wanted)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s, %d observed", d.Key, size(d.Size), d.Target, d.Observed)
	switch d.State {
	case "checking":
		b.WriteString(", checking")
	case "unreachable":
		b.WriteString(", cannot be read until a member answers that is silent")
	case "lost":
		b.WriteString(", lost")
	}
	if !d.Short.IsZero() {
		fmt.Fprintf(&b, ", copies missing for %s", span(now.Sub(d.Short)))
	}
	if !d.Removed.IsZero() {
		fmt.Fprintf(&b, "\nthe target was removed %s ago; the copies go a day after that, unless it is set again",
			span(now.Sub(d.Removed)))
	}
	for _, h := range d.Holders {
		fmt.Fprintf(&b, "\n%s  %-8s", h.ID, h.State)
		var said []string
		if h.Piece != "" {
			said = append(said, h.Piece)
		}
		if !h.LastProof.IsZero() {
			said = append(said, "last proof "+ago(h.LastProof, now))
		}
		if h.NextAudit.After(now) {
			said = append(said, "asked again in "+rounded(h.NextAudit.Sub(now)).String())
		}
		if len(said) > 0 {
			b.WriteString("  " + strings.Join(said, ", "))
		}
		if h.Self {
			b.WriteString("  this node")
		}
	}
	for _, q := range d.Asked {
		fmt.Fprintf(&b, "\n%s  asks for %s%s", q.ID, q.Target, askedWhy(q))
	}
	for i, p := range d.Places {
		if i == 0 {
			b.WriteString("\nwhere the copies belong:")
		}
		place := "-"
		if p.Chosen > 0 {
			place = fmt.Sprint(p.Chosen)
		}
		fmt.Fprintf(&b, "\n%3s  %s  %s", place, p.ID, p.Why)
	}
	return b.String()
}

// askedWhy says what is special about a node that asks for copies.
func askedWhy(q api.Asking) (s string) {
	switch q.Why {
	case "stranger":
		return ", and is no member of this cluster: that counts only while no member asks, for 3 copies at most"
	case "adopted":
		s = ", as others remember: it has lost that pin, and `allium pin rm` removes it"
	}
	if q.Beyond {
		s += ", more than the cluster has nodes"
	}
	if q.Self {
		s += "  this node"
	}
	return s
}

// Placed says that the copies are there.
func Placed(p api.Placed) string {
	return fmt.Sprintf("%s: all copies of %s are there", p.Root, Plural(p.Objects, "object"))
}
