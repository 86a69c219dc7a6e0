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
	MaxNodes  = 200              // nodes of a network
	MaxLine   = 1 << 10          // bytes of a line
	MaxFile   = 64 << 10         // bytes of a file
	MaxSteps  = 1000             // lines of a file that are steps
	MaxDelay  = 10 * time.Second // of latency
	MaxJitter = 5 * time.Second  // of latency; never more than the delay
	MaxSize   = 256 << 20        // bytes of generated content
	MaxFlood  = 100_000          // requests of one flood
	MaxWait   = 10 * time.Minute
	MaxSkew   = 400 * 24 * time.Hour // in either direction
	MinRate   = 1 << 10              // bytes per second
	maxNumber = 1e15                 // value of an expectation, exclusive, in either direction
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
	Evacuate Op = "evacuate"
	Announce Op = "announce"
	Publish  Op = "publish"
	Resolve  Op = "resolve"
	Flood    Op = "flood"
	Expect   Op = "expect"
	Wait     Op = "wait"
	Join     Op = "join"

	SetNodes    Op = "nodes"
	SetSeed     Op = "seed"
	SetDeadline Op = "deadline"
	SetWithin   Op = "within"
	SetCluster  Op = "cluster"
)

// Step is one line. Each verb in the table of [Verbs] uses some of the fields. The
// others are zero.
type Step struct {
	Line       int // line number in its file; 0: the step is not from a file
	Op         Op
	Fails      bool           // the line began with "!": the step is expected to fail
	Outcome    status.Outcome // how it is expected to fail, with Fails; OK: any outcome
	Nodes      Nodes          // the nodes of the step; for heal, empty means the whole network
	Groups     []Nodes        // the groups of a partition
	Links      Links          // the links of latency and loss
	Off        bool           // the step undoes the fault
	Delay      time.Duration  // latency added to each direction of a link
	Jitter     time.Duration  // the delay of a packet varies by ± this
	Percent    float64        // loss, more than 0 and at most 100
	Bytes      int64          // size of content; for slow, bytes per second
	Skew       time.Duration  // of the nodes' clocks; positive: ahead
	Name       string         // name of content
	Tree       bool           // the content is a directory
	Label      string         // of a name in the zone of the network
	Target     int            // the node that a flood is sent to
	Count      int            // requests of a flood; copies that a pin asks for; for nodes, the number of nodes
	Seed       uint64
	Time       time.Duration // of wait, deadline and within
	Within     time.Duration // how long the step may wait for success; 0: the file's default
	Condition  Condition     // of expect
	Background bool          // the line ended with "&"
}

// anyOutcome is the word for a failure with any outcome.
const anyOutcome = "any"

// Kind is the subject of an expectation.
type Kind string

// The kinds of expectations.
const (
	Ready     Kind = "ready"     // /readyz says that the node is ready
	NotReady  Kind = "not-ready" // /readyz says that it is not ready, or does not answer
	Peers     Kind = "peers"     // number of connected peers
	Providers Kind = "providers" // number of providers that a lookup finds
	Metric    Kind = "metric"    // the sum of the series that match
	Has       Kind = "has"       // the whole object is in the store
	Lacks     Kind = "lacks"     // the whole object is not in the store
	Named     Kind = "name"      // a name stands for the content

	Durability Kind = "durability" // number of copies that a node knows of
	Whole      Kind = "whole"      // every byte can be read
)

// Condition is an expectation.
type Condition struct {
	Kind   Kind
	Gate   string  // for not-ready, the gate that must be closed; empty: any gate
	Metric string  // name of the metric
	Labels []Label // in the order written
	Cmp    string  // >=, <=, >, <, == or !=
	Value  float64
}

// Label is one label of a series.
type Label struct{ Name, Value string }

// Holds reports whether the value seen satisfies the condition.
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

// Series returns the metric with its labels in the exposition format.
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

// Nodes is a sorted set of node numbers, which begin with 1. [All] is every node of
// the network.
type Nodes []int

// All returns the set written "all".
func All() Nodes { return Nodes{0} }

// In returns the numbers of the set in a network of n nodes. The caller must not
// change the result.
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

// Max returns the highest number in the set; 0 for All and the empty set.
func (s Nodes) Max() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1]
}

// String returns the canonical form: "all", or numbers and ranges of at least three.
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

// newNodes returns the set of the numbers in list, which it sorts in place.
func newNodes(list []int) Nodes {
	slices.SortFunc(list, cmp.Compare)
	return Nodes(slices.Compact(list))
}

// Links is a set of links. The zero value is every link. With A alone it is every
// link of the nodes in A. With both it is every link between a node of A and one of B.
type Links struct{ A, B Nodes }

// Has reports whether the set contains the link between nodes a and b of a network of
// n nodes.
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

// String returns "", "[A]" or "[A:B]".
func (l Links) String() string {
	switch {
	case len(l.A) == 0:
		return ""
	case len(l.B) == 0:
		return "[" + l.A.String() + "]"
	}
	return "[" + l.A.String() + ":" + l.B.String() + "]"
}

// MayFail reports whether the step may be expected to fail: whether "!" may precede its verb.
func (s Step) MayFail() bool {
	v, _ := find(s.Op)
	return v.fails
}

// String returns the step as a canonical line, without a newline.
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

// duration returns d without zero units at its end: 48h, not 48h0m0s.
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

// Error says what is wrong with a line. Its outcome is bad_request.
type Error struct {
	File    string // empty: the line is not from a file
	Line    int    // from 1; 0: the line is not from a file
	Column  int    // of the wrong word, in characters from 1
	Message string // the mistake, and what was expected
}

// Error returns the position and the message.
func (e *Error) Error() string {
	switch {
	case e.File != "":
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	case e.Line > 0:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Message)
}

// Status returns bad_request.
func (e *Error) Status() status.Outcome { return status.BadRequest }
