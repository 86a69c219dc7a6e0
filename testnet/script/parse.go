package script

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"allium/internal/suggest"
)

// Parse reads one line, which must be a step. The error is an *[Error].
func Parse(line string) (Step, error) {
	s, ok, err := parseLine(line)
	if err == nil && !ok {
		err = &Error{Column: 1, Message: "the line is empty; expected one of " + verbList(false)}
	}
	if err == nil {
		if v, _ := find(s.Op); v.Head {
			err = &Error{Column: 1, Message: fmt.Sprintf("%s is for the head of a scenario file; expected one of %s",
				s.Op,
				verbList(false))}
		}
	}
	return s, err
}

// parseLine reads a line of a file. ok is false if the line has no step: it is empty
// or a comment. It recovers the *[Error] that words.fail panics with.
func parseLine(line string) (s Step, ok bool, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			s, ok, err = Step{}, false, e
		default:
			panic(e)
		}
	}()
	w := split(line)
	switch {
	case len(line) > MaxLine:
		w.fail(1, "the line has %d bytes, more than %d", len(line), MaxLine)
	case !utf8.ValidString(line):
		w.fail(1, "the line is not UTF-8")
	case w.open:
		w.fail(w.end, "a quotation mark is missing")
	case len(w.list) == 0:
		return Step{}, false, nil
	}
	return w.step(), true, nil
}

// step reads all words of a line as one step.
func (w *words) step() Step {
	not := w.take("!")
	first := w.next("a verb after !")
	v, ok := find(Op(first.text))
	if !ok {
		w.fail(first.column, "%q is not a verb%s", first.text, didYouMean(first.text))
	}
	if not && !v.fails {
		w.fail(first.column, "! is for add, get, publish and resolve; %s is not expected to fail", v.Op)
	}
	s := Step{Op: v.Op}
	if last := len(w.list) - 1; last >= 0 && w.list[last].text == "&" {
		if v.Head || v.Op == Join {
			w.fail(w.list[last].column, "%s does not run in the background", v.Op)
		}
		s.Background, w.end, w.list = true, w.list[last].column, w.list[:last]
	}
	v.read(w, &s)
	if not {
		s.Fails, s.Outcome = true, w.outcome()
	}
	if at := w.peek(); v.within && w.take("within") {
		s.Within = w.length("a time", MaxWait)
	} else if at.text == "within" {
		w.fail(at.column, "%s does not wait, so it takes no within", v.Op)
	}
	if rest := w.peek(); rest.text != "" {
		w.fail(rest.column, "%q is one word too many; usage: %s", rest.text, v.Usage)
	}
	return s
}

// didYouMean suggests the verb most similar to a word, or lists all verbs if none is
// similar.
func didYouMean(word string) string {
	var names []string
	for _, v := range Verbs() {
		names = append(names, string(v.Op))
	}
	if best := suggest.Nearest(word, names); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; expected one of " + verbList(false)
}

// Defaults of a file that does not set these values.
const (
	DefaultSeed     = 1
	DefaultDeadline = 3 * time.Minute
	DefaultWithin   = 30 * time.Second
)

// File is a scenario.
type File struct {
	Name     string
	Nodes    int
	Seed     uint64
	Deadline time.Duration // for the whole file, with the start of the network
	Within   time.Duration // how long a step waits that sets no time itself
	Cluster  bool          // the nodes have a common key
	Steps    []Step
}

// ParseFile reads a scenario. The error is an *[Error] that names the first line that
// is wrong. name is the file's name in errors.
func ParseFile(name string, text []byte) (*File, error) {
	f := &File{Name: name, Seed: DefaultSeed, Deadline: DefaultDeadline, Within: DefaultWithin}
	if len(text) > MaxFile {
		return nil, &Error{File: name, Line: 1, Column: 1, Message: fmt.Sprintf("the file has %d bytes, more than %d",
			len(text), MaxFile)}
	}
	line := 0
	contents := map[string]Step{}
	for raw := range strings.SplitSeq(string(text), "\n") {
		line++
		s, ok, err := parseLine(strings.TrimSuffix(raw, "\r"))
		if err == nil && ok {
			s.Line = line
			err = f.take(s, contents)
		}
		if err != nil {
			if e := (*Error)(nil); errors.As(err, &e) {
				e.File, e.Line = name, line
			}
			return nil, err
		}
	}
	switch {
	case f.Nodes == 0:
		return nil, &Error{File: name, Line: line, Column: 1,
			Message: "the file does not say how many nodes there are; begin it with `nodes 5`"}
	case len(f.Steps) == 0:
		return nil, &Error{File: name, Line: line, Column: 1, Message: "the file has no step"}
	}
	return f, nil
}

// take adds a line to the file and checks it against the lines before it. contents
// maps each name of content to the step that added it.
func (f *File) take(s Step, contents map[string]Step) error {
	if v, _ := find(s.Op); v.Head {
		if len(f.Steps) > 0 {
			return &Error{Column: 1, Message: fmt.Sprintf("%s stands before the first step", s.Op)}
		}
		switch s.Op {
		case SetNodes:
			f.Nodes = s.Count
		case SetSeed:
			f.Seed = s.Seed
		case SetCluster:
			f.Cluster = true
		case SetDeadline:
			f.Deadline = s.Time
		case SetWithin:
			f.Within = s.Time
		}
		return nil
	}
	switch {
	case f.Nodes == 0:
		return &Error{Column: 1, Message: "a step before the number of nodes; begin the file with `nodes 5`"}
	case len(f.Steps) == MaxSteps:
		return &Error{Column: 1, Message: fmt.Sprintf("more than %d steps", MaxSteps)}
	}
	if err := CheckNodes(s, f.Nodes); err != nil {
		return err
	}
	if s.Op == Add {
		if err := CheckContent(s, contents); err != nil {
			return err
		}
		contents[s.Name] = s
	} else if _, known := contents[s.Name]; s.Name != "" && !known {
		return &Error{Column: 1, Message: fmt.Sprintf("nothing is called %s yet; add it on a node first", s.Name)}
	}
	f.Steps = append(f.Steps, s)
	return nil
}

// CheckNodes returns an *[Error] if a step names a node above n, the number of nodes
// in the network.
func CheckNodes(s Step, n int) error {
	highest := max(s.Nodes.Max(), s.Target, s.Links.A.Max(), s.Links.B.Max())
	for _, g := range s.Groups {
		highest = max(highest, g.Max())
	}
	if highest > n {
		return &Error{Line: s.Line, Column: 1, Message: fmt.Sprintf("there is no node %d in a network of %d", highest,
			n)}
	}
	return nil
}

// CheckContent returns an *[Error] if an add uses the name of other content. Two adds
// of a name must agree in kind and size.
func CheckContent(s Step, contents map[string]Step) error {
	if old, ok := contents[s.Name]; ok && (old.Tree != s.Tree || old.Bytes != s.Bytes) {
		old.Nodes, old.Fails, old.Within, old.Background = s.Nodes, false, 0, false
		return &Error{Line: s.Line, Column: 1, Message: fmt.Sprintf("%s is other content already; write `%s`, or take "+
			"another name", s.Name, old)}
	}
	return nil
}

// Head returns the canonical lines before the first step. Deadline and Within are left
// out if they have their defaults.
func (f *File) Head() string {
	lines := []Step{{Op: SetNodes, Count: f.Nodes}, {Op: SetSeed, Seed: f.Seed}}
	if f.Cluster {
		lines = append(lines, Step{Op: SetCluster})
	}
	if f.Deadline != DefaultDeadline {
		lines = append(lines, Step{Op: SetDeadline, Time: f.Deadline})
	}
	if f.Within != DefaultWithin {
		lines = append(lines, Step{Op: SetWithin, Time: f.Within})
	}
	var b strings.Builder
	for _, s := range lines {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}
