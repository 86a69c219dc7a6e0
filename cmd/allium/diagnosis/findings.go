// Package diagnosis has the commands that look inside a node: doctor, why and limits.
// It puts into words for a terminal what was found: about a node and its machine, about
// from where it can be dialled, and about the way to a peer.
package diagnosis

import (
	"fmt"
	"strings"

	"allium/node/doctor"
	"allium/node/website"
	"allium/protocols/status"
)

// Findings returns the findings of an examination, the worst first, and how many checks found nothing. all adds
// these checks by name, and why some could not be made. If quiet, it is a line with severity and check for each
// finding.
func Findings(r doctor.Report, all, quiet bool) string {
	var b strings.Builder
	for _, f := range r.Findings {
		if quiet {
			fmt.Fprintf(&b, "%s %s\n", f.Severity, f.Check)
			continue
		}
		fmt.Fprintf(&b, "%-8s %s: %s\n         %s\n         do: %s\n\n",
			f.Severity, f.Check, f.Evidence, f.Impact, f.Fix)
	}
	if quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	if all {
		for _, name := range r.Passed {
			fmt.Fprintf(&b, "%-8s %s\n", doctor.OK, name)
		}
		for _, s := range r.Skipped {
			fmt.Fprintf(&b, "%-8s %s: %s\n", "-", s.Check, s.Why)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s well, %s not possible",
		checks(len(r.Passed), "is", "are"), checks(len(r.Skipped), "was", "were"))
	if !all {
		b.WriteString(" (--all lists them)")
	}
	return b.String()
}

// checks returns a number of checks with a verb.
func checks(n int, one, many string) string {
	if n == 1 {
		return "1 check " + one
	}
	return fmt.Sprintf("%d checks %s", n, many)
}

// Verdict returns the error with which an examination ends: precondition if there is a warning, not_ready if there is
// an error, and nil if there is nothing worse than a note.
func Verdict(r doctor.Report) error {
	switch r.Worst {
	case doctor.Error:
		return status.Errorf(status.NotReady, "%s; what to do is above", count(r))
	case doctor.Warning:
		return status.Errorf(status.Precondition, "%s; what to do is above", count(r))
	}
	return nil
}

// count returns how many findings have each severity from warning on, in words.
func count(r doctor.Report) string {
	counts := map[doctor.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	var words []string
	for _, s := range []doctor.Severity{doctor.Error, doctor.Warning} {
		switch n := counts[s]; n {
		case 0:
		case 1:
			words = append(words, "1 "+string(s))
		default:
			words = append(words, fmt.Sprintf("%d %ss", n, s))
		}
	}
	return strings.Join(words, " and ")
}

// Site says what each step to a website found. If quiet, it is a line with severity and step for each.
func Site(r website.Report, quiet bool) string {
	var b strings.Builder
	for _, f := range r.Steps {
		switch {
		case quiet:
			fmt.Fprintf(&b, "%s %s\n", f.Severity, f.Check)
		case f.Impact == "":
			fmt.Fprintf(&b, "%-8s %s: %s\n", f.Severity, f.Check, f.Evidence)
		default:
			fmt.Fprintf(&b, "%-8s %s: %s\n         %s\n         do: %s\n",
				f.Severity, f.Check, f.Evidence, f.Impact, f.Fix)
		}
	}
	for _, s := range r.Skipped {
		if !quiet {
			fmt.Fprintf(&b, "%-8s %s: %s\n", "-", s.Check, s.Why)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// SiteVerdict returns the error with which a diagnosis of a website ends, as Verdict does.
func SiteVerdict(r website.Report) error {
	return Verdict(doctor.Report{Worst: r.Worst, Findings: r.Steps})
}

// Way says what is in the way to a peer. If quiet, it is the verdict alone.
func Way(d doctor.Diagnosis, quiet bool) string {
	if quiet {
		return string(d.Verdict)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", d.Peer, d.Evidence)
	for _, a := range d.Addrs {
		fmt.Fprintf(&b, "\n  %s  %s: %s", a.Addr, a.Verdict, a.Evidence)
	}
	if !d.Good() {
		fmt.Fprintf(&b, "\nthe fault is %s; do: %s", sides[d.Side], d.Fix)
	}
	return b.String()
}

// sides are the sides of a fault in words.
var sides = map[string]string{
	"here": "on this side", "there": "on the other side", "between": "between the two, or on either side",
	"none": "nowhere",
}
