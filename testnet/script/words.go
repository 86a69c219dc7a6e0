package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"allium/internal/lazyregexp"
	"allium/internal/limits"
	"allium/protocols/status"
)

// word is a part of a line and its column, in characters from 1.
type word struct {
	text   string
	column int
}

// words is the rest of a line that is being read. Its methods panic with an *Error,
// which parseLine recovers. So the function that reads a verb looks like its grammar.
type words struct {
	list []word
	end  int  // column after the line, or of its comment
	open bool // the closing quotation mark is missing
}

// split splits a line into words at white space and around "|". White space and "|"
// within quotation marks do not split. "#" at the beginning of a word begins a comment.
// "/" between groups and a final "&" must be words of their own.
func split(line string) (w words) {
	var cur strings.Builder
	start, column, quoted := 0, 0, false
	flush := func() {
		if cur.Len() > 0 {
			w.list = append(w.list, word{cur.String(), start})
			cur.Reset()
		}
	}
	for _, r := range line {
		column++
		switch {
		case r == '#' && !quoted && cur.Len() == 0:
			w.end = column
			return w
		case unicode.IsSpace(r) && !quoted:
			flush()
			continue
		case r == '|' && !quoted:
			flush()
			w.list = append(w.list, word{"|", column})
			continue
		case r == '"':
			quoted = !quoted
		}
		if cur.Len() == 0 {
			start = column
		}
		cur.WriteRune(r)
	}
	flush()
	w.end, w.open = column+1, quoted
	return w
}

// fail panics with an *Error.
func (w *words) fail(column int, format string, args ...any) {
	panic(&Error{Column: column, Message: fmt.Sprintf(format, args...)})
}

// peek returns the next word. At the end of the line the word's text is empty.
func (w *words) peek() word {
	if len(w.list) == 0 {
		return word{"", w.end}
	}
	return w.list[0]
}

// next returns the next word and removes it. It fails at the end of the line;
// expected completes the message.
func (w *words) next(expected string) word {
	n := w.peek()
	if n.text == "" {
		w.fail(n.column, "the line ends here; expected %s", expected)
	}
	w.list = w.list[1:]
	return n
}

// take removes the next word if it is text, and reports whether it was.
func (w *words) take(text string) bool {
	if w.peek().text != text {
		return false
	}
	w.list = w.list[1:]
	return true
}

const nodesForm = "nodes such as 3, 1,2, 2-4 or all"

func (w *words) nodes() Nodes {
	n := w.next(nodesForm)
	return w.parseNodes(n.text, n.column)
}

func (w *words) parseNodes(text string, column int) Nodes {
	if text == "all" {
		return All()
	}
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		a := w.nodeNumber(from, text, column)
		b := a
		if ranged {
			b = w.nodeNumber(to, text, column)
		}
		if b < a {
			w.fail(column, "the range %s runs backwards; write %d-%d", part, b, a)
		}
		for i := a; i <= b; i++ {
			list = append(list, i)
		}
		column += utf8.RuneCountInString(part) + 1
	}
	return newNodes(list)
}

func (w *words) nodeNumber(text, whole string, column int) int {
	n, err := strconv.Atoi(text)
	if err != nil || text[0] == '+' {
		w.fail(column, "%q is not a node; expected %s", whole, nodesForm)
	}
	if n < 1 || n > MaxNodes {
		w.fail(column, "there is no node %d; they are numbered from 1 to at most %d", n, MaxNodes)
	}
	return n
}

// node reads a set of exactly one node.
func (w *words) node() Nodes {
	n := w.next("a node's number")
	s := w.parseNodes(n.text, n.column)
	if len(s) != 1 || s[0] == 0 {
		w.fail(n.column, "%q is more than one node; expected one number", n.text)
	}
	return s
}

// links reads [A] or [A:B]. Without brackets it returns every link.
func (w *words) links() Links {
	n := w.peek()
	if !strings.HasPrefix(n.text, "[") {
		return Links{}
	}
	w.next("")
	inner, ok := strings.CutSuffix(n.text[1:], "]")
	if !ok {
		w.fail(n.column, "%q has no closing bracket; write [2-4], or [1:3] for the link between two", n.text)
	}
	a, b, two := strings.Cut(inner, ":")
	l := Links{A: w.parseNodes(a, n.column+1)}
	if two {
		l.B = w.parseNodes(b, n.column+2+utf8.RuneCountInString(a))
	}
	return l
}

// length reads a duration of more than 0 and at most most. what names it in errors.
func (w *words) length(what string, most time.Duration) time.Duration {
	n := w.next(what + " such as 50ms")
	return w.parseLength(n.text, n.column, what, most)
}

func (w *words) parseLength(text string, column int, what string, most time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		w.fail(column, "%q is not %s; write it with its unit, such as 50ms, 2s or 48h", text, what)
	case d <= 0 || d > most:
		w.fail(column, "%s of %s is outside what there is: more than 0, at most %s", what, duration(d), duration(most))
	}
	return d
}

// bytes reads a size from least to most.
func (w *words) bytes(what string, least, most int64) int64 {
	n := w.next(what + " such as 64KiB")
	b, err := limits.ParseBytes(n.text)
	switch {
	case err != nil:
		w.fail(n.column, "%q is not %s; write it as 64KiB or 1MiB", n.text, what)
	case int64(b) < least || int64(b) > most:
		w.fail(n.column, "%s of %s is outside what there is: %s to %s", what, n.text, size(least), size(most))
	}
	return int64(b)
}

// whole reads a whole number from 1 to most.
func (w *words) whole(what string, most int) int {
	n := w.next(what)
	v, err := strconv.Atoi(n.text)
	if err != nil || v < 1 || v > most {
		w.fail(n.column, "%q is not %s; expected a number from 1 to %d", n.text, what, most)
	}
	return v
}

var nameForm = lazyregexp.New(`^[a-z][a-z0-9_-]{0,31}$`)

func (w *words) name() string {
	n := w.next("a name of content, such as a")
	if !nameForm().MatchString(n.text) || n.text == "within" || n.text == "off" {
		w.fail(n.column, "%q is not a name of content; use small letters, digits, - and _, at most 32, a letter first",
			n.text)
	}
	return n.text
}

var labelWord = lazyregexp.New(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$|^[a-z]$`)

// label reads the label of a name.
func (w *words) label() string {
	n := w.next("the label of a name, such as site")
	if !labelWord().MatchString(n.text) || n.text == "within" {
		w.fail(n.column,
			"%q is not a label; use small letters, digits and -, at most 32, a letter first and no - at the end",
			n.text)
	}
	return n.text
}

// outcome reads the outcome of a failure. It returns OK for any outcome.
func (w *words) outcome() status.Outcome {
	n := w.next("the outcome that is expected, such as not_found, or any")
	if n.text == anyOutcome {
		return status.OK
	}
	o, ok := status.Parse(n.text)
	if !ok || o.Code() < 400 {
		w.fail(n.column, "%q is not an outcome of something that fails; docs/reference/status.md lists them, such as "+
			"not_found, timeout, no_space", n.text)
	}
	return o
}

var (
	gateForm   = lazyregexp.New(`^[a-z][a-z0-9_]{0,63}$`)
	metricForm = lazyregexp.New(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?$`)
	labelForm  = lazyregexp.New(`^([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)"(,|$)`)
)

// series reads a metric: name or name{label="value",…}.
func (w *words) series(c *Condition) {
	n := w.next(`a metric such as sessions_open or queue_depth{queue="repair"}`)
	m := metricForm().FindStringSubmatch(n.text)
	if m == nil || !utf8.ValidString(n.text) {
		w.fail(n.column, `%q is not a metric; write name or name{label="value"}`, n.text)
	}
	c.Metric = m[1]
	for rest := m[2]; rest != ""; {
		l := labelForm().FindStringSubmatch(rest)
		if l == nil {
			w.fail(n.column+utf8.RuneCountInString(n.text)-utf8.RuneCountInString(rest)-1,
				`%q is not a label; write label="value"`, rest)
		}
		c.Labels = append(c.Labels, Label{l[1], l[2]})
		rest = rest[len(l[0]):]
		if rest == "" && l[3] == "," {
			w.fail(n.column+utf8.RuneCountInString(n.text)-1, "a label is missing after the comma")
		}
	}
}

// compare reads an operator and a number into c.
func (w *words) compare(c *Condition) {
	op := w.next("one of >= <= > < == !=")
	switch op.text {
	case ">=", "<=", ">", "<", "==", "!=":
	default:
		w.fail(op.column, "%q compares nothing; expected one of >= <= > < == !=", op.text)
	}
	c.Cmp = op.text
	n := w.next("a number")
	v, err := strconv.ParseFloat(n.text, 64)
	if err != nil || !(v > -maxNumber && v < maxNumber) {
		w.fail(n.column, "%q is not a number that something can be compared with", n.text)
	}
	c.Value = v + 0 // no negative zero
}
