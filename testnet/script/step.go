package script

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Bounds of the language.
const (
	MaxNodes  = 200      // nodes of a network
	MaxLine   = 1 << 10  // bytes of a line
	MaxFile   = 64 << 10 // bytes of a file
	MaxSteps  = 1000     // lines of a file that are steps
	MaxDelay  = 10 * time.Second
	MaxJitter = 5 * time.Second
	MaxSize   = 256 << 20 // bytes of generated content
	MaxFlood  = 100_000   // requests of one flood
	MaxWait   = 10 * time.Minute
	MaxSkew   = 400 * 24 * time.Hour
	MinRate   = 1 << 10 // bytes per second
	maxNumber = 1e15    // of an expectation
)

// Op is the verb of a step.
type Op string

// The verbs.
const (
	Kill      Op = "kill"
	Restart   Op = "restart"
	Partition Op = "partition"
	Heal      Op = "heal"
	Latency   Op = "latency"
	Loss      Op = "loss"
	Slow      Op = "slow"
	Corrupt   Op = "corrupt"
	FullDisk  Op = "full-disk"
	ClockSkew Op = "clock-skew"

	Add      Op = "add"
	Get      Op = "get"
	Pin      Op = "pin"
	Unpin    Op = "unpin"
	GC       Op = "gc"
	Announce Op = "announce"
	Flood    Op = "flood"
	Expect   Op = "expect"
	Wait     Op = "wait"
	Join     Op = "join"

	SetNodes    Op = "nodes"
	SetSeed     Op = "seed"
	SetDeadline Op = "deadline"
	SetWithin   Op = "within"
)

// Step is one line. Which members count is said by the table of [Verbs];
// the others are zero.
type Step struct {
	Line       int // in its file; 0: it is from none
	Op         Op
	Fails      bool           // the line began with "!": add or get is expected to fail
	Outcome    status.Outcome // of Fails, how; OK: however
	Nodes      Nodes          // that it is about; of a heal, empty means the whole network
	Groups     []Nodes        // of a partition
	Links      Links          // of latency and loss
	Off        bool           // undo
	Delay      time.Duration  // of latency, added to each direction of a link
	Jitter     time.Duration  // Delay is ± that
	Percent    float64        // of loss, more than 0 and at most 100
	Bytes      int64          // of content; per second, of slow
	Skew       time.Duration
	Name       string // of content
	Tree       bool   // the content is a directory
	Target     int    // of a flood: the node that gets it
	Count      int    // of a flood: requests; of nodes: how many
	Seed       uint64
	Time       time.Duration // of wait, deadline and within
	Within     time.Duration // how long the step may wait for what it wants; 0: the file's default
	Condition  Condition     // of expect
	Background bool          // the line ended with "&"
}

// anyOutcome is written where it does not matter how something fails.
const anyOutcome = "any"

// Kind is what an expectation is about.
type Kind string

// The kinds of expectations.
const (
	Ready     Kind = "ready"     // /readyz says so
	NotReady  Kind = "not-ready" // it does not, or nobody answers
	Peers     Kind = "peers"     // connected peers
	Providers Kind = "providers" // that a lookup finds
	Metric    Kind = "metric"    // the sum of the series that match
	Has       Kind = "has"       // the object is whole in the store
	Lacks     Kind = "lacks"     // it is not
)

// Condition is an expectation.
type Condition struct {
	Kind   Kind
	Gate   string  // of not-ready: that gate is closed; empty: any
	Metric string  // name
	Labels []Label // in the order written
	Cmp    string  // >=, <=, >, <, == or !=
	Value  float64
}

// Label is one label of a series.
type Label struct{ Name, Value string }

// Holds compares what was seen with the value.
func (c Condition) Holds(seen float64) bool {
	switch c.Cmp {
	case ">=":
		return seen >= c.Value
	case "<=":
		return seen <= c.Value
	case ">":
		return seen > c.Value
	case "<":
		return seen < c.Value
	case "==":
		return seen == c.Value
	default:
		return seen != c.Value
	}
}

// Series is the metric with its labels, as in the exposition format.
func (c Condition) Series() string {
	if len(c.Labels) == 0 {
		return c.Metric
	}
	parts := make([]string, len(c.Labels))
	for i, l := range c.Labels {
		parts[i] = l.Name + `="` + l.Value + `"`
	}
	return c.Metric + "{" + strings.Join(parts, ",") + "}"
}

// Nodes is a set of nodes by number, from 1, sorted. [All] is all there are.
type Nodes []int

// All is the set written "all".
func All() Nodes { return Nodes{0} }

// In returns the numbers in a network of n nodes.
func (s Nodes) In(n int) []int {
	if len(s) == 1 && s[0] == 0 {
		all := make([]int, n)
		for i := range all {
			all[i] = i + 1
		}
		return all
	}
	return s
}

// Max is the highest number that is named.
func (s Nodes) Max() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1]
}

// String is the canonical form: "all", or numbers and ranges of three and more.
func (s Nodes) String() string {
	if len(s) == 1 && s[0] == 0 {
		return "all"
	}
	var parts []string
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if j-i < 2 {
			j = i
			parts = append(parts, strconv.Itoa(s[i]))
		} else {
			parts = append(parts, strconv.Itoa(s[i])+"-"+strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// newNodes sorts and drops what is there twice.
func newNodes(list []int) Nodes {
	slices.SortFunc(list, cmp.Compare)
	return Nodes(slices.Compact(list))
}

// Links is a set of links. The zero value is every link; with A alone, those
// of the nodes in A; with both, those between a node of A and one of B.
type Links struct{ A, B Nodes }

// Has reports whether the link between nodes a and b of a network of n is one.
func (l Links) Has(a, b, n int) bool {
	if len(l.A) == 0 {
		return true
	}
	as := l.A.In(n)
	if len(l.B) == 0 {
		return slices.Contains(as, a) || slices.Contains(as, b)
	}
	bs := l.B.In(n)
	return slices.Contains(as, a) && slices.Contains(bs, b) || slices.Contains(as, b) && slices.Contains(bs, a)
}

// String is "", "[A]" or "[A:B]".
func (l Links) String() string {
	switch {
	case len(l.A) == 0:
		return ""
	case len(l.B) == 0:
		return "[" + l.A.String() + "]"
	}
	return "[" + l.A.String() + ":" + l.B.String() + "]"
}

// String is the canonical line, without its number.
func (s Step) String() string {
	var b strings.Builder
	if s.Fails {
		b.WriteString("! ")
	}
	b.WriteString(string(s.Op))
	if v, ok := find(s.Op); ok {
		for _, w := range v.write(s) {
			if w != "" {
				b.WriteString(" " + w)
			}
		}
	}
	if s.Fails {
		outcome := anyOutcome
		if s.Outcome != status.OK {
			outcome = s.Outcome.String()
		}
		b.WriteString(" " + outcome)
	}
	if s.Within > 0 {
		b.WriteString(" within " + duration(s.Within))
	}
	if s.Background {
		b.WriteString(" &")
	}
	return b.String()
}

// duration is d without the zero units at its end: 48h, not 48h0m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func size(n int64) string { return limits.Bytes(n).String() }

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// Error is a line that cannot be read. Its outcome is bad_request.
type Error struct {
	File    string // empty: the line is from none
	Line    int
	Column  int    // of the word that is wrong, in characters from 1
	Message string // what is wrong and what was expected
}

// Error is the place and the message.
func (e *Error) Error() string {
	switch {
	case e.File != "":
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	case e.Line > 0:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Message)
}

// Status is bad_request.
func (e *Error) Status() status.Outcome { return status.BadRequest }
